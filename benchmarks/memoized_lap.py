"""A memoized lap against a batch lap over the same rows, and what a visit costs besides
its rows.
"""

from __future__ import annotations

import numpy as np

from .laps import Laps, clusters
from .report import Report, Row, fastest, milliseconds

TARGET = 1.15
LOCAL_OVER_GLOBAL = 20.0  # how much more a batch's local step costs than the global step
N_BATCHES = 8
CASES = [(10, 10), (10, 100)]  # columns, components


def rows_of_a_batch(D: int, K: int) -> tuple[int, float, float]:
    """Rows whose local step costs 20 global steps (potentials and bound), and the seconds
    of each.
    """
    probe = Laps(clusters(20_000, D, K), K)
    potentials = probe.potentials()
    local, both = fastest(
        lambda: probe.local(probe.batches[0], potentials),
        lambda: (probe.potentials(), probe.bound()),
        rounds=15,
    )
    return int(LOCAL_OVER_GLOBAL * both / local * 20_000), local / 20_000, both


def visit_overhead(D: int, K: int) -> float:
    """Seconds of a visit to a batch of ten rows."""
    laps = Laps(clusters(20_000, D, K), K, n_batches=2_000)
    few = laps.batches[:50]
    return fastest(lambda: [laps.visit(batch) for batch in few], rounds=20)[0] / len(few)


def run(quick: bool = False) -> Report:
    rows = []
    for D, K in CASES[:1] if quick else CASES:
        size, per_row, global_step = rows_of_a_batch(D, K)
        X = clusters(N_BATCHES * size, D, K)
        batch, memoized = Laps(X, K), Laps(X, K, N_BATCHES)
        whole, parts = fastest(batch.lap, memoized.lap, rounds=3 if quick else 20)
        ratio, local, case = parts / whole, per_row * size, f"D={D} K={K}"
        what = f"{case}: a lap, {N_BATCHES} batches of {size} rows"
        rows += [
            Row(
                what,
                milliseconds(parts),
                milliseconds(whole),
                f"{ratio:.2f}x",
                f"at most {TARGET}x",
                ratio <= TARGET,
            ),
            Row(
                f"{case}: local step of a batch",
                milliseconds(local),
                milliseconds(global_step),
                f"{local / global_step:.0f}x",
            ),
            Row(f"{case}: a visit to a batch of ten rows", milliseconds(visit_overhead(D, K))),
        ]
        assert np.isfinite(memoized.bounds[-1])
    return Report(
        "Memoized lap",
        rows,
        (
            "One thread, CPU time. The global step is new potentials and the bound; batches are as "
            "large as the second line says.",
        ),
        peer="batch lap; global step",
    )
