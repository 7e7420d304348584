"""eflomal, systran-align and nltk on the same sentence pairs, each in a process of its own.

They are optional: a Python that has them is named by STICKBREAK_PEERS, default the one that runs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import stickbreak as sb
from stickbreak.data import Links

SYSTRAN = """
import sys, systran_align
path, out, diagonal, bayes = sys.argv[1:5]
systran_align.generate_alignment_probabilities(
    path, out + ".forward", out + ".reverse", favor_diagonal=diagonal == "1",
    variational_bayes=bayes == "1")
sides = [line.split(" ||| ") for line in open(path, encoding="utf-8")]
aligner = systran_align.Aligner(out + ".forward", out + ".reverse")
found = aligner.align_batch([s.split() for s, _ in sides], [t.split() for _, t in sides])
with open(out, "w") as file:
    for pair in found:
        file.write(" ".join(f"{i}-{j}" for i, j in pair["alignments"]) + "\\n")
"""
NLTK = """
import sys
from nltk.translate import AlignedSent, IBMModel1
path, out, turned, laps = sys.argv[1:5]
sides = [line.split(" ||| ") for line in open(path, encoding="utf-8")]
sides = [(t.split(), s.split()) if turned == "0" else (s.split(), t.split()) for s, t in sides]
pairs = [AlignedSent(target, source) for target, source in sides]
IBMModel1(pairs, int(laps))
with open(out, "w") as file:
    for pair in pairs:
        links = sorted((i, j) for j, i in pair.alignment if i is not None)
        file.write(" ".join(f"{i}-{j}" for i, j in links) + "\\n")
"""


class PeerLinks(NamedTuple):
    """Links of both directions as (source, target), or one set joined by the peer itself.

    seconds : of CPU, from file to file, both directions
    """

    forward: Links
    reverse: Links | None
    seconds: float


class MissingPeerError(Exception):
    """A peer is not installed."""


def python() -> str:
    """The Python that has the peers."""
    return os.environ.get("STICKBREAK_PEERS", sys.executable)


def _run(*command: str) -> float:
    """CPU seconds of a command."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before = used()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MissingPeerError(str(error)) from None
    if done.returncode:
        raise MissingPeerError(done.stderr.strip().splitlines()[-1] if done.stderr else command[0])
    return used() - before


def by_eflomal(path: Path, model: int) -> PeerLinks:
    """eflomal's defaults, with model 1, 2 (HMM) or 3 (fertility)."""
    tool = Path(python()).parent / "eflomal-align"
    with tempfile.TemporaryDirectory() as folder:
        out = [f"{folder}/forward", f"{folder}/reverse"]
        seconds = _run(
            str(tool), "-i", str(path), "-m", str(model), "-f", out[0], "-r", out[1], "--overwrite"
        )  # fmt: skip
        forward, reverse = (sb.read_links(name) for name in out)
    return PeerLinks(forward, reverse, seconds)


def by_systran(path: Path, diagonal: bool = False, bayes: bool = False) -> PeerLinks:
    """systran-align's defaults: fast_align's models, five laps, joined inside."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/links"
        flags = (str(int(diagonal)), str(int(bayes)))
        seconds = _run(python(), "-c", SYSTRAN, str(path), out, *flags)
        return PeerLinks(sb.read_links(out), None, seconds)


def by_nltk(path: Path, laps: int = 5) -> PeerLinks:
    """nltk's IBMModel1 in both directions."""
    with tempfile.TemporaryDirectory() as folder:
        out = [f"{folder}/forward", f"{folder}/reverse"]
        seconds = sum(
            _run(python(), "-c", NLTK, str(path), name, turned, str(laps))
            for name, turned in zip(out, "01", strict=True)
        )
        forward, reverse = (sb.read_links(name) for name in out)
    return PeerLinks(forward, reverse.swapped(), seconds)


# tools, and how often they are run: eflomal draws other numbers each time
PEERS: dict[str, tuple[Callable[[Path], PeerLinks], int]] = {
    "eflomal model 1": (lambda path: by_eflomal(path, 1), 1),
    "eflomal model 2 (HMM)": (lambda path: by_eflomal(path, 2), 3),
    "eflomal model 3 (HMM, fertility)": (lambda path: by_eflomal(path, 3), 1),
    "systran-align, EM": (by_systran, 1),
    "systran-align, VB": (lambda path: by_systran(path, bayes=True), 1),
    "systran-align, diagonal": (lambda path: by_systran(path, diagonal=True), 1),
}
