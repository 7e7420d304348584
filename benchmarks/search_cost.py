"""What default fits that find the number of components cost, against as many laps without moves."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import stickbreak as sb

from .laps import clusters
from .report import Report, Row, fastest

N_FOUND = 10
NOTE = """\
`DPMixture()` and `HDPHMM()` untouched, start and planning included, over the same model with the
number of components that was found, its plainest start (k-means++, blocks), and as many laps
without moves. CPU seconds, the least of two fits each, in turn. Passes: laps, and what trials
amount to; those over samples are not counted."""
PLAIN = {sb.DPMixture: "k-means++", sb.HDPHMM: "blocks"}


def sequences(n_rows: int, n_sequences: int, seed: int) -> list[np.ndarray]:
    """Ten Gaussian states in four dimensions, each stayed in for twenty rows on average."""
    rng, K = np.random.default_rng(seed), N_FOUND
    means, length = rng.normal(0, 3, (K, 4)), n_rows // n_sequences
    parts = []
    for _ in range(n_sequences):
        jumps = rng.random(length) < 0.05
        jumps[0] = True
        states = rng.integers(0, K, length)[np.maximum.accumulate(jumps * np.arange(length))]
        parts.append(means[states] + rng.normal(size=(length, 4)))
    return parts


def measure(name: str, make: Any, X: Any, most: float) -> Row:
    """One row of the table. make : the estimator's class"""
    found: list[Any] = []

    def search() -> None:
        found.append(make(random_state=0).fit(X))

    def laps() -> None:
        n_laps = len(found[-1].trace_)
        engine = sb.MemoizedVB(moves=(), max_iter=n_laps, tol=0.0)
        K = found[-1].n_components_
        make(K, inference=engine, init=PLAIN[make], random_state=0).fit(X)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        search()  # compiles the kernels
        seconds, plain = fastest(search, laps, rounds=2, clock=time.process_time)
    fit, ratio = found[-1], seconds / plain
    n_passes = len(fit.trace_) + sum(record.n_passes for record in fit.trace_.moves)
    return Row(
        f"{name}: {fit.n_components_} found, {len(fit.trace_)} laps, {n_passes:.0f} passes",
        f"{seconds:.2f} s",
        f"{plain:.2f} s",
        f"{ratio:.1f}x",
        f"at most {most:g}x",
        ratio <= most,
    )


def run(is_quick: bool) -> Report:
    """The table."""
    sizes = {2_000: 6.0} if is_quick else {20_000: 6.0, 100_000: 3.0, 1_000_000: 2.0}
    rows = [
        measure(f"DPMixture, {n:,} x 10", sb.DPMixture, clusters(n, 10, N_FOUND, seed=1), most)
        for n, most in sizes.items()
    ]
    n = 2_000 if is_quick else 100_000
    name = f"HDPHMM, {n:,} x 4 in 100 sequences"
    rows.append(measure(name, sb.HDPHMM, sequences(n, 100, seed=0), 5.0))
    return Report(
        "What the default search costs", rows, (NOTE,), "default fit", "its laps without moves"
    )
