"""CPU time of aligners from a file of sentence pairs to a file of links, with one thread and with
two, and of other tools in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.child import keeping_bytecode

from .alignment_peers import MissingPeerError, by_eflomal, by_nltk, by_systran
from .bitexts import read_hansards, write_pairs
from .frame import Experiment, Row, is_quick

CODE = """
import json, sys, time, warnings
import stickbreak as sb
from benchmarks.anonymous import AnonymousPeak
path, out, model, inference, jobs, laps = sys.argv[1:7]
warnings.simplefilter("ignore")
options = {"inference": inference, "n_jobs": int(jobs), "max_iter": int(laps), "random_state": 0}
options |= {"ibm1_laps": int(laps)} if model == "HMMAligner" else {}
make = lambda: getattr(sb, model)(**options)
make().fit([("a b", "x y"), ("a", "x")] * 80).align([("a", "x")])  # kernels come from the cache
with AnonymousPeak() as memory:
    cpu, wall = time.process_time(), time.perf_counter()
    bitext = sb.read_bitext(path)
    links = make().fit_align(bitext)
    with open(out, "w") as file:
        file.writelines(line + "\\n" for line in links.lines())
    seconds = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps([*seconds, memory.before, memory.peak, time.process_time()]))
"""


SETTING = (
    "Hansards, from a file of pairs to a file of links, both directions, one process and one "
    "thread, five laps of each model unless a row says otherwise: CPU seconds, and MB of anonymous "
    "memory at most. Kernels and Python's bytecode come from caches; seconds of a whole process "
    "have imports and a small fit that fetches kernels in them too. Peers' figures are of whole "
    "processes, with their defaults."
)
FASTER = " The faster of two runs of HMM and model 1, with one thread and with two."


class Used(NamedTuple):
    """Seconds of CPU and of the clock, MB of anonymous memory before and at most; and seconds of
    CPU of the whole process, with imports and a small fit that fetches kernels from the cache.
    """

    cpu: float
    wall: float
    before: float
    peak: float
    whole: float

    def __str__(self) -> str:
        return f"{self.cpu:.1f} s, {self.peak:.0f} MB"


def ours(
    path: Path, model: str, *, inference: str = "collapsed", jobs: int = 1, laps: int = 5
) -> Used:
    """A fit in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(path), f"{folder}/links", model, inference, str(jobs), str(laps)]
        done = subprocess.run(
            [sys.executable, "-c", CODE, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).resolve().parent.parent,
            env=keeping_bytecode(),
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return Used(*json.loads(done.stdout.splitlines()[-1]))


def faster(path: Path, model: str, jobs: int) -> Used:
    """The faster one of two fits."""
    return min((ours(path, model, jobs=jobs) for _ in range(2)), key=lambda used: used.wall)


def repeated(path: Path, times: int) -> Path:
    """The same pairs several times over."""
    target = Path(tempfile.mkdtemp()) / "pairs.txt"
    text = path.read_bytes()
    with target.open("wb") as file:
        for _ in range(times):
            file.write(text)
    return target


def against(found: Used, run_peer: Any, what: str) -> tuple[str, str]:
    """Seconds of CPU of a fit and of a tool, and the ratio of whole processes."""
    mine = f"{found}; whole process {found.whole:.1f} s"
    try:
        theirs = run_peer().seconds
    except MissingPeerError as error:
        return mine, f"{what}: not installed ({error})"
    ratios = f"{found.cpu / theirs:.3f}, of whole processes {found.whole / theirs:.3f}"
    return f"{mine}; ratio {ratios}", f"{what} {theirs:.1f} s"


def run() -> Experiment:
    """File to file, one thread; then two."""
    pairs = read_hansards(2000 if is_quick() else None)
    few = pairs.bitext.part(0, min(5000, len(pairs.bitext)))
    path, short = write_pairs(pairs.bitext), write_pairs(few)
    rows: list[Row] = []

    def add(what: str, found: str, theirs: str = "") -> None:
        rows.append(Row(what, found, "", theirs))
        print(rows[-1], flush=True)

    chain, bag = faster(path, "HMMAligner", 1), faster(path, "IBM1", 1)
    for what, name, one in (("HMM", "HMMAligner", chain), ("model 1", "IBM1", bag)):
        two = faster(path, name, 2)
        shown = f"{one.wall:.1f}, {two.wall:.1f}: {one.wall / two.wall:.2f} times as fast"
        add(f"{what}, seconds with one thread and with two", f"{shown}; CPU {one}; {two}")
    add("HMM", *against(chain, lambda: by_eflomal(path, 2), "eflomal model 2"))
    add("model 1", *against(bag, lambda: by_systran(path), "systran-align"))
    toy = cache(lambda: by_nltk(short))  # one run for both rows
    add("model 1, 5,000 pairs", *against(ours(short, "IBM1"), toy, "nltk"))
    add("model 1 by EM, 5,000 pairs", *against(ours(short, "IBM1", inference="em"), toy, "nltk"))
    return Experiment("Speed of word alignment", SETTING + FASTER, rows)
