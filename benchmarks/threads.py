"""Two threads against one: the only figure that needs the wall clock, and so an idle machine."""

from __future__ import annotations

import os
import time

from stickbreak.inference import workers

from .laps import Laps, clusters
from .report import Report, Row, fastest, load, milliseconds

TARGET = 1.5
IDLE = 0.3  # load average up to which nobody else is working


def run(quick: bool = False) -> Report:
    before = load()
    n = 40_000 if quick else 400_000
    laps = Laps(clusters(n, 10, 20), 20)
    with workers(1) as one, workers(2) as two:

        def lap_with(pool) -> None:
            laps.pool = pool
            laps.lap()

        rounds = 3 if quick else 10
        pair = (lambda: lap_with(one), lambda: lap_with(two))
        alone, shared = fastest(*pair, rounds=rounds, clock=time.perf_counter)
        cpu_alone, cpu_shared = fastest(*pair, rounds=rounds)
    ratio = alone / shared
    is_idle = before != "unknown" and float(before) <= IDLE and (os.cpu_count() or 1) >= 2
    met, target = ratio >= TARGET if is_idle else None, f"{TARGET}x"
    case, cpu_ratio = f"N={n} D=10 K=20", f"{cpu_alone / cpu_shared:.2f}x"
    rows = [
        Row(f"{case}: wall clock of a lap", milliseconds(shared), milliseconds(alone), f"{ratio:.2f}x", target, met),
        Row(f"{case}: CPU time of a lap", milliseconds(cpu_shared), milliseconds(cpu_alone), cpu_ratio),
    ]
    notes = (
        f"Load average when this benchmark began: {before}, {'idle' if is_idle else 'not idle: the wall clock is not judged'}.",
        f"CPU time over wall clock of the fastest lap on one thread: {cpu_alone / alone:.2f} (1 when nobody interferes).",
    )
    return Report("Two threads", rows, notes, ours="two threads", peer="one thread")
