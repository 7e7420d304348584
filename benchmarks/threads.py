"""Two threads against one: the only figure that needs the wall clock, and so an idle machine."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from stickbreak.inference import workers

from .laps import Laps, clusters
from .report import Report, Row, fastest, milliseconds

TARGET = 1.5
IDLE = 0.05  # share of the processors' time up to which nobody else is working


class Speeds(NamedTuple):
    """Least seconds of a lap on one thread and on two: wall clock, then CPU time."""

    alone: float
    shared: float
    cpu_alone: float
    cpu_shared: float

    def rows(self, case: str, idle: bool) -> list[Row]:
        ratio, cpu_ratio = self.alone / self.shared, self.cpu_alone / self.cpu_shared
        met, shared, alone = (
            ratio >= TARGET if idle else None,
            milliseconds(self.shared),
            milliseconds(self.alone),
        )
        return [
            Row(f"{case}: wall clock of a lap", shared, alone, f"{ratio:.2f}x", f"{TARGET}x", met),
            Row(
                f"{case}: CPU time of a lap",
                milliseconds(self.cpu_shared),
                milliseconds(self.cpu_alone),
                f"{cpu_ratio:.2f}x",
            ),
        ]


def compare(laps: Laps, rounds: int) -> Speeds:
    """Laps on one thread and on two in turn."""
    with workers(1) as one, workers(2) as two:

        def lap_with(pool) -> None:
            laps.pool = pool
            laps.lap()

        pair = (lambda: lap_with(one), lambda: lap_with(two))
        return Speeds(
            *fastest(*pair, rounds=rounds, clock=time.perf_counter), *fastest(*pair, rounds=rounds)
        )


def others(seconds: float = 0.5) -> float | None:
    """Share of the processors' time that is used while this process sleeps; None where the system
    does not say.
    """
    try:
        before = _ticks()
        time.sleep(seconds)
        after = _ticks()
    except OSError:
        return None
    spent = [b - a for a, b in zip(before, after, strict=True)]
    return 1.0 - sum(spent[3:5]) / max(sum(spent), 1)  # idle, and idle for want of a disk


def _ticks() -> list[int]:
    """Clock ticks of all processors: user, nice, system, idle, waiting for a disk, interrupts (2),
    and those given to others.
    """
    with open("/proc/stat", encoding="ascii") as file:
        return [int(value) for value in file.readline().split()[1:9]]


def is_idle(used: float | None) -> bool:
    """Whether nobody else is working, on two cores or more."""
    return used is not None and used <= IDLE and (os.cpu_count() or 1) >= 2


def idle_note(used: float | None) -> str:
    judged = "idle" if is_idle(used) else "not idle: the wall clock is not judged"
    return (
        f"Others used {'an unknown share' if used is None else f'{used:.0%}'} of the processors "
        f"before this benchmark: {judged}."
    )


def run(quick: bool = False) -> Report:
    used, n = others(), 40_000 if quick else 400_000
    found = compare(Laps(clusters(n, 10, 20), 20), rounds=3 if quick else 10)
    share = f"{found.cpu_alone / found.alone:.2f}"
    notes = (
        idle_note(used),
        f"CPU time over wall clock of the fastest lap on one thread: {share} "
        "(1 when nobody interferes).",
    )
    return Report(
        "Two threads",
        found.rows(f"N={n} D=10 K=20", is_idle(used)),
        notes,
        ours="two threads",
        peer="one thread",
    )
