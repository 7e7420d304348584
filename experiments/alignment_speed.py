"""CPU time and memory of aligners from a file of sentence pairs to a file of links, and how they
grow with the number of pairs; other tools in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
print(json.dumps([*seconds, memory.before, memory.peak]))
"""


def ours(
    path: Path, model: str, *, inference: str = "collapsed", jobs: int = 1, laps: int = 5
) -> Any:
    """CPU seconds, wall seconds, MB of anonymous memory before and at most."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(path), f"{folder}/links", model, inference, str(jobs), str(laps)]
        done = subprocess.run(
            [sys.executable, "-c", CODE, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).resolve().parent.parent,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def show(found: Any) -> str:
    """CPU seconds and memory."""
    return f"{found[0]:.1f} s, {found[3]:.0f} MB"


def repeated(path: Path, times: int) -> Path:
    """The same pairs several times over."""
    target = Path(tempfile.mkdtemp()) / "pairs.txt"
    text = path.read_bytes()
    with target.open("wb") as file:
        for _ in range(times):
            file.write(text)
    return target


def peer(run_peer: Any) -> str:
    """CPU seconds of a tool, or that it is not there."""
    try:
        return f"{run_peer().seconds:.1f} s"
    except MissingPeerError as error:
        return f"not installed ({error})"


def run() -> Experiment:
    """File to file, one thread; then two, more pairs, and other engines."""
    pairs = read_hansards(2000 if is_quick() else None)
    path, few = (
        write_pairs(pairs.bitext),
        write_pairs(pairs.bitext.part(0, min(5000, len(pairs.bitext)))),
    )
    rows: list[Row] = []

    def add(what: str, ours: str, peer: str = "") -> None:
        rows.append(Row(what, ours, "", peer))
        print(rows[-1], flush=True)

    chain = ours(path, "HMMAligner")
    add("HMM", show(chain), f"eflomal model 2 {peer(lambda: by_eflomal(path, 2))}")
    bag = ours(path, "IBM1")
    add("model 1", show(bag), f"systran-align {peer(lambda: by_systran(path))}")
    by_em = show(ours(few, "IBM1", inference="em"))
    add("model 1 by EM, 5,000 pairs", by_em, f"nltk {peer(lambda: by_nltk(few))}")
    for name, one in (("HMMAligner", chain), ("IBM1", bag)):
        two = ours(path, name, jobs=2)
        add(
            f"{name}, wall seconds with one thread and with two",
            f"{one[1]:.1f}, {two[1]:.1f}; CPU seconds {one[0]:.1f}, {two[0]:.1f}",
        )
    for times in (1, 2, 4, 10):
        found = ours(repeated(path, times), "HMMAligner", laps=1)
        add(f"HMM, one lap of each model, {times * len(pairs.bitext):,} pairs", show(found))
    for engine in ("stochastic", "stochastic-collapsed"):
        for times in (1, 4):
            found = ours(repeated(path, times), "HMMAligner", inference=engine, laps=1)
            n = times * len(pairs.bitext)
            add(f"HMM, {engine}, one pass of each model, {n:,} pairs", show(found))
    return Experiment(
        "Speed of word alignment",
        "Hansards, from a file of pairs to a file of links, both directions, one process and one "
        "thread, five laps of each model unless a row says otherwise: CPU seconds, and MB of "
        "anonymous memory at most. More pairs are the same ones repeated. Kernels come from the "
        "cache; peers' figures are of whole processes, with their defaults.",
        rows,
    )
