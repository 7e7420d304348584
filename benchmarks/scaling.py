"""How the time of a lap grows with rows and with components: slopes in the log-log plane."""

from __future__ import annotations

import numpy as np

from .laps import Laps, clusters
from .report import Report, Row, fastest, milliseconds

MOST = 1.1  # linear, with room for what caches and clocks do
ROWS, COMPONENTS = (25_000, 50_000, 100_000, 200_000, 400_000), (10, 20, 40, 80, 160)


def slope(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Exponent of a power law through the points, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def run(quick: bool = False) -> Report:
    shrink, rounds = (10, 3) if quick else (1, 5)
    by_rows = [Laps(clusters(n // shrink, 10, 20), 20) for n in ROWS]
    X = clusters(50_000 // shrink, 10, 20)
    by_components = [Laps(X, K) for K in COMPONENTS]
    rows = []
    for name, sizes, runs in (
        ("rows N, at D=10 K=20", ROWS, by_rows),
        (f"components K, at N={len(X)} D=10", COMPONENTS, by_components),
    ):
        seconds = fastest(*(r.lap for r in runs), rounds=rounds)
        exponent = slope(sizes, seconds)
        times = ", ".join(
            f"{size // (shrink if runs is by_rows else 1)}: {milliseconds(s)}"
            for size, s in zip(sizes, seconds, strict=True)
        )
        rows.append(
            Row(
                f"{name} ({times})",
                f"{exponent:.2f}",
                target=f"at most {MOST}",
                met=None if quick else exponent <= MOST,
            )
        )
    return Report(
        "Growth",
        rows,
        (
            "One thread, CPU time of a lap. Below 1 in K: a row's features cost the same for any "
            "number of components.",
        ),
        ours="exponent",
    )
