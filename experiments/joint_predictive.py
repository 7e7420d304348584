"""Many new symbols at once: what collapsed inference of sequences neglects.

Within a sequence, each symbol is predicted from those of other sequences; the symbols before it in
its own are left out. How far is that from the predictive that counts them?
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, is_quick, seeds

N_RUNS = 20
PRIORS = ((0.1, 10), (0.1, 50), (10.0, 10))  # prior count of a symbol, and symbols
PUBLISHED = {(1_000_000, 10): "below 1e-6", (1_000_000, 1_000): "below 1e-5"}


def predictives(
    counts: np.ndarray, rows: np.ndarray, concentration: float
) -> tuple[np.ndarray, np.ndarray]:
    """(M,) probability of each new symbol given the old ones and the new ones before it, and given
    the old ones alone.
    """
    n = len(counts)
    family = replace(sb.Categorical(concentration), n_symbols=(n,))
    old = family.zeros(1) | {
        "emission": counts[:, None].astype(float),
        "emission_total": np.array([[float(counts.sum())]]),
    }
    alone = np.exp(np.asarray(family.log_mean(old).evidence(rows[:, None])))[:, 0]
    exact = (counts[rows] + count_earlier(rows) + concentration) / (
        counts.sum() + np.arange(len(rows)) + n * concentration
    )
    return exact, alone


def count_earlier(rows: np.ndarray) -> np.ndarray:
    """(M,) how many earlier entries are the same."""
    order = np.argsort(rows, kind="stable")
    sizes = np.bincount(rows)
    found = np.empty(len(rows), dtype=np.int64)
    found[order] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def error(n_old: int, n_new: int, concentration: float, n_symbols: int, seed: int) -> float:
    """Mean absolute difference of the two probabilities over the new symbols of one draw."""
    rng = np.random.default_rng([seed, n_old, n_new, n_symbols, int(10 * concentration)])
    shares = rng.dirichlet(np.full(n_symbols, concentration))
    counts = rng.multinomial(n_old, shares)
    rows = rng.choice(n_symbols, n_new, p=shares)
    exact, alone = predictives(counts, rows, concentration)
    return float(np.abs(exact - alone).mean())


def row_of(n_old: int, n_new: int) -> Row:
    """Errors of all priors."""
    found = [
        np.mean([error(n_old, n_new, *prior, seed) for seed in seeds(N_RUNS)]) for prior in PRIORS
    ]
    return Row(
        f"{n_old:,} old symbols, {n_new:,} new",
        ", ".join(f"{value:.1e}" for value in found),
        PUBLISHED.get((n_old, n_new), ""),
    )


def run() -> Experiment:
    olds = (1_000,) if is_quick() else (1_000, 1_000_000)
    rows = [
        row_of(n_old, 10**power) for n_old in olds for power in range(round(np.log10(n_old)) + 1)
    ]
    text = (
        "Symbols of one distribution drawn from a symmetric Dirichlet prior: mean absolute "
        "difference between the probability of a new symbol given all before it, and given the "
        "old ones alone, which is what a sequence is inferred with. Means of "
        f"{N_RUNS} draws for (prior count, symbols) "
        f"{', '.join(f'({c:g}, {n})' for c, n in PRIORS)}."
    )
    return Experiment("Symbols predicted together", text, rows)
