"""Whole fits with moves on two threads against one: trials and laps share the processors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import stickbreak as sb
from experiments import cmu_mocap
from experiments.corpora import read_ap
from experiments.frame import MissingDataError
from stickbreak.inference import run as fit
from stickbreak.inference import workers
from stickbreak.initialize import from_blocks

from .report import Report, Row
from .threads import idle_note, is_idle, others

TARGET = 1.5
MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
TOPICS, STATES, LAPS = 50, 100, 40
NOTE = """\
Wall clock of one fit each, of at most 40 laps, after a short one that loads the kernels. AP:
`HDPTopicModel` of 50 topics, five batches, births, merges and deletes; default: `HDPTopicModel()`,
whose sweeps have one thread. Captures: 119 sequences, 100 states, as in `experiments/cmu_mocap.py`.
The bounds of all laps are the same bits."""

Fit = Callable[[int, int], list[float]]  # threads and laps -> bounds


def of_topics(counts: Any, *, is_default: bool) -> Fit:
    """Fits of AP."""

    def bounds(n_jobs: int, laps: int) -> list[float]:
        model = sb.HDPTopicModel(max_iter=laps, n_jobs=n_jobs, random_state=0)
        if not is_default:
            engine = sb.MemoizedVB(n_batches=5, max_iter=laps, moves=MOVES)
            model.set_params(n_components=TOPICS, init="documents", inference=engine)
        return list(model.fit(counts).trace_.bound)

    return bounds


def of_captures() -> Fit:
    """Fits of 119 motion captures."""
    setting = cmu_mocap.make(cmu_mocap.load()[0])

    def bounds(n_jobs: int, laps: int) -> list[float]:
        engine = sb.MemoizedVB(
            n_batches=cmu_mocap.BATCHES, max_iter=laps, tol=1e-4, moves=cmu_mocap.MOVES
        )
        start = setting.start(STATES, 0, from_blocks)
        with workers(n_jobs) as pool:
            return list(fit(setting.model, engine, setting.table, start, pool=pool).trace.bound)

    return bounds


def compare(name: str, make: Fit, laps: int, *, idle: bool) -> Row:
    """One row of the table."""
    make(2, 3)  # loads the kernels
    seconds, bounds = [], []
    for n_jobs in (1, 2):
        began = time.perf_counter()
        bounds.append(make(n_jobs, laps))
        seconds.append(time.perf_counter() - began)
    assert bounds[0] == bounds[1], name
    ratio = seconds[0] / seconds[1]
    two, one = (f"{value:.1f} s" for value in reversed(seconds))
    what = f"{name}: {len(bounds[0])} laps"
    print(f"# {what}, {two} and {one}", flush=True)
    return Row(what, two, one, f"{ratio:.2f}x", f"{TARGET}x", ratio >= TARGET if idle else None)


def run(quick: bool = False) -> Report:
    """The table; rows whose data are missing are left out."""
    used, rows, laps = others(), [], 5 if quick else LAPS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        try:
            counts = read_ap().train
            for name, is_default in (("AP, 50 topics", False), ("AP, default", True)):
                make = of_topics(counts, is_default=is_default)
                rows.append(compare(name, make, laps, idle=is_idle(used)))
            rows.append(compare("119 captures", of_captures(), laps, idle=is_idle(used)))
        except MissingDataError as missing:
            print(f"left out: {missing}")
    return Report(
        "Fits with moves on two threads", rows, (NOTE, idle_note(used)), "two threads", "one thread"
    )
