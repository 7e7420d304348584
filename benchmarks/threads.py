"""Two threads against one: the only figure that needs the wall clock, and so an idle machine."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from stickbreak.inference import workers

from .laps import Laps, clusters
from .report import Report, Row, fastest, load, milliseconds

TARGET = 1.5
IDLE = 0.3  # load average up to which nobody else is working


class Speeds(NamedTuple):
    """Least seconds of a lap on one thread and on two: wall clock, then CPU time."""

    alone: float
    shared: float
    cpu_alone: float
    cpu_shared: float

    def rows(self, case: str, idle: bool) -> list[Row]:
        ratio, cpu_ratio = self.alone / self.shared, self.cpu_alone / self.cpu_shared
        met, shared, alone = ratio >= TARGET if idle else None, milliseconds(self.shared), milliseconds(self.alone)
        return [
            Row(f"{case}: wall clock of a lap", shared, alone, f"{ratio:.2f}x", f"{TARGET}x", met),
            Row(f"{case}: CPU time of a lap", milliseconds(self.cpu_shared), milliseconds(self.cpu_alone), f"{cpu_ratio:.2f}x"),
        ]


def compare(laps: Laps, rounds: int) -> Speeds:
    """Laps on one thread and on two in turn."""
    with workers(1) as one, workers(2) as two:

        def lap_with(pool) -> None:
            laps.pool = pool
            laps.lap()

        pair = (lambda: lap_with(one), lambda: lap_with(two))
        return Speeds(*fastest(*pair, rounds=rounds, clock=time.perf_counter), *fastest(*pair, rounds=rounds))


def is_idle(before: str) -> bool:
    """Whether a load average, as `load` gives it, says that nobody else is working on two cores or more."""
    return before != "unknown" and float(before) <= IDLE and (os.cpu_count() or 1) >= 2


def load_note(before: str) -> str:
    judged = "idle" if is_idle(before) else "not idle: the wall clock is not judged"
    return f"Load average when this benchmark began: {before}, {judged}."


def run(quick: bool = False) -> Report:
    before, n = load(), 40_000 if quick else 400_000
    found = compare(Laps(clusters(n, 10, 20), 20), rounds=3 if quick else 10)
    share = f"{found.cpu_alone / found.alone:.2f}"
    notes = (load_note(before), f"CPU time over wall clock of the fastest lap on one thread: {share} (1 when nobody interferes).")
    return Report("Two threads", found.rows(f"N={n} D=10 K=20", is_idle(before)), notes, ours="two threads", peer="one thread")
