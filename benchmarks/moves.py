"""What finding the number of components costs: fits with moves, against laps without moves at the
same numbers of components.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.inference import MemoizedVB, Start
from stickbreak.inference import run as fit
from stickbreak.initialize import from_plusplus
from stickbreak.models import dp_mixture

from .laps import clusters
from .report import Report, Row

TARGET = 1.6
MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
NOTE = """\
The whole fit from one component, planning and watches included, over the sum of one plain lap for
each of its laps: memoized, the same batches, as many components as that lap had, the least of
three. Planning looks at 20,000 rows at most, so its part shrinks with the table."""


def lap_seconds(model: Any, table: Table, counts: Any, n_batches: int) -> float:
    """CPU seconds of a lap without moves, from the fit's own result with components left out or
    repeated.
    """
    start = Start(counts, model.start_params(counts.size(model.axis)))
    ends: list[float] = []

    class Clock(sb.Callback):
        def on_lap(self, record: Any) -> None:
            ends.append(time.process_time())

    fit(
        model,
        MemoizedVB(n_batches=n_batches, max_iter=5, tol=0.0, callbacks=(Clock(),)),
        table,
        start,
    )
    found = np.diff(ends)[1:]
    return float(found.min())


def measure_fit(name: str, X: np.ndarray, family: Any, n_batches: int) -> Row:
    """One row of the table."""
    table = Table(X)
    model = dp_mixture(
        family.locate(None, X.shape[1]).resolve(measure(table, family.check_rows)), 1.0
    )
    start = from_plusplus(model, table, 1, np.random.default_rng(0))
    began = time.process_time()
    result = fit(
        model, MemoizedVB(n_batches=n_batches, moves=MOVES, max_iter=100), table, start, seed=0
    )
    seconds = time.process_time() - began
    numbers = [record.n_components for record in result.trace]
    final = result.counts.size(model.axis)
    plain = {
        K: lap_seconds(
            model,
            table,
            result.counts.permute(model.axis, [k % final for k in range(K)]),
            n_batches,
        )
        for K in sorted(set(numbers))
    }
    without = sum(plain[K] for K in numbers)
    ratio = seconds / without
    what = f"{name}, {n_batches} batches: {len(numbers)} laps, {final} components found"
    return Row(
        what,
        f"{seconds:.1f} s",
        f"{without:.1f} s",
        f"{ratio:.2f}x",
        f"at most {TARGET}x",
        ratio <= TARGET,
    )


def run_sizes(is_quick: bool) -> list[Row]:
    """Tables of growing length."""
    sizes = (5_000, 20_000) if is_quick else (20_000, 100_000, 1_000_000)
    return [
        measure_fit(
            f"{n:,} x 10, full covariances",
            clusters(n, 10, 20, seed=1),
            sb.Gaussian(),
            max(1, n // 20_000),
        )
        for n in sizes
    ]


def run(is_quick: bool) -> Report:
    """The table."""
    return Report(
        "Fits that find the number of components",
        run_sizes(is_quick),
        (NOTE,),
        "fit with moves",
        "its laps without",
    )
