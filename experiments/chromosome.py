"""Chromatin marks along a whole chromosome: a search for states in little time and memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import run_python

from .chromatin import load
from .frame import Experiment, Row, is_quick

FIXED = 30
MOST_SECONDS, MOST_MEGABYTES = 600, 700
FIT = """
import json, sys
import numpy as np
from benchmarks.anonymous import AnonymousPeak
from experiments import chromatin
from experiments.sequences import MOVES
import stickbreak as sb
from stickbreak.initialize import from_blocks

marks, has_moves, n_states = np.load(sys.argv[1]), sys.argv[2] == "moves", int(sys.argv[3])

def engine(**how):
    return sb.BatchVB(moves=MOVES if has_moves else None, tol=1e-5, **how)

few, many = (chromatin.make(chromatin.one_chain(part)) for part in (marks[:5000], marks))
few.fit(engine(max_iter=4), few.start(n_states, 0, from_blocks))  # compiles the kernels
with AnonymousPeak() as memory:
    fit = many.fit(engine(max_iter=200), many.start(n_states, 0, from_blocks))
print(json.dumps({
    "bound": fit.result.bound, "states": len(fit.result.ids), "laps": len(fit.result.trace),
    "cpu": fit.seconds, "before": memory.before, "peak": memory.peak,
}))
"""


def search(marks: np.ndarray, kind: str, n_states: int) -> dict[str, Any]:
    """A fit of all bins, in a process of its own that holds the bins too."""
    with tempfile.TemporaryDirectory(prefix="stickbreak-") as folder:
        path = Path(folder) / "marks.npy"
        np.save(path, marks)
        return dict(run_python(FIT, str(path), kind, str(n_states)))


def run() -> Experiment:
    """One seed of each."""
    marks = load()[0][: 20_000 if is_quick() else None]
    kinds = {"moves from 1": ("moves", 1), f"fixed {FIXED}": ("none", FIXED)}
    rows = []
    for name, (kind, n_states) in kinds.items():
        found = search(marks, kind, n_states)
        told = (
            f"bound {found['bound']:,.1f}; {found['states']} states; {found['laps']} laps; "
            f"{found['cpu']:.0f} CPU s; peak anonymous memory {found['peak']:.0f} MB "
            f"({found['before']:.0f} MB before the fit, bins included)"
        )
        wanted = f"under {MOST_SECONDS} CPU s and {MOST_MEGABYTES} MB, bound above fixed {FIXED}"
        rows.append(Row(name, told, f"{wanted} wanted" if kind == "moves" else ""))
    text = (
        f"GM12878, chromosome 11, 10 binary marks in {len(marks):,} bins of 200 bases, as one "
        "sequence. HDP-HMM, concentration 0.5, start 10, top 10, not sticky; Beta(0.1, 0.3); "
        "loosened steps, births, merges and deletes from one state, beside a fixed number without "
        "moves. One seed, one thread; the whole fit is in the process whose memory is measured."
    )
    return Experiment("A whole chromosome", text, rows)
