"""Empirical Bayes: hyperparameters that make the counts more probable.

Given the counts, of the bound only M = sum(log_marginal(counts)) depends on the hyperparameters of
a family, so whatever raises M raises the bound. Components without rows have a log marginal of zero
under every prior, and have no say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from scipy.special import gammaln

from stickbreak.protocols import Array, Counts

__all__ = [
    "EM_STEPS",
    "NARROWEST",
    "best_concentration",
    "climb",
    "keep_better",
    "learn_number",
    "occupied",
]

WEAKEST, STRONGEST = 1e-4, 100.0
"""Rows (or symbols) that a learned prior may be worth. Where the data would have all components
alike, or each of one
symbol only, M has no largest value inside; a prior at the edge leaves room for components that are
yet to come.
"""

STEPS = 8  # Newton steps of a search; laps repeat it
WIDEST = 2.0  # of a step, in logs
# of the differences, in logs: rounding of M over its square stays below M's curvature
NARROW = 1e-3
SETTLED = 1e-4  # of a step, in logs: the error after a Newton step is about its square

EM_STEPS = 3  # of a prior covariance in each lap
# of a column's variance: the least that a learned prior covariance has in any direction
NARROWEST = 1e-6

F = TypeVar("F")


def keep_better(old: F, new: F, counts: Counts) -> F:
    """The family under which the counts are more probable; the old one unless the new one is
    strictly better.
    """
    return new if _total(new, counts) > _total(old, counts) else old


def _total(family: Any, counts: Counts) -> float:
    return float(family.log_marginal(counts).sum())


def occupied(rows: Array) -> int:
    """Components with at least one row; rows (K,) or (K, D)."""
    return int((rows.reshape(len(rows), -1).max(1) >= 1.0).sum())


def climb(
    value: Callable[[Array], Array], start: Any, lowest: float = WEAKEST, highest: float = STRONGEST
) -> Array:
    """Positive x near a maximum of value(x), by Newton steps in log x from `start`; never lower
    than there, element by element.

    value : function of x () or (D,), of the same shape; each element depends on its own x alone.
    lowest, highest : limits of the search; a start beyond them is its own limit.
    """
    best = np.array(start, dtype=float)
    lowest, highest = np.minimum(lowest, best), np.maximum(highest, best)
    here, reach = np.asarray(value(best)), np.full(best.shape, WIDEST)
    for _ in range(STEPS):
        below, above = value(best * np.exp(-NARROW)), value(best * np.exp(NARROW))
        slope, bend = (above - below) / (2.0 * NARROW), (above - 2.0 * here + below) / NARROW**2
        newton = np.where(bend < 0, -slope / np.where(bend < 0, bend, 1.0), np.sign(slope) * WIDEST)
        step = np.clip(newton, -reach, reach)
        there = np.clip(best * np.exp(step), lowest, highest)
        found = np.asarray(value(there))
        better = found > here
        best, here = np.where(better, there, best), np.where(better, found, here)
        reach = np.where(better, reach, 0.25 * np.abs(step))
        if not (better | (reach > SETTLED)).any() or (np.abs(step) < SETTLED).all():
            break
    return best


def learn_number(
    family: F,
    counts: Counts,
    make: Callable[[float], F],
    start: float,
    lowest: float = WEAKEST,
    highest: float = STRONGEST,
) -> F:
    """make(x) for the x near `start` under which the counts are most probable; `family` =
    make(start), if none is better.
    """
    found = climb(lambda x: np.asarray(_total(make(float(x)), counts)), start, lowest, highest)
    return keep_better(family, make(float(found)), counts)


def best_concentration(tables: Iterable[tuple[Array, Array, int]], start: float) -> float:
    """Symmetric Dirichlet concentration a for tables (V, K) with totals (K,) and V symbols: the
    climb of

    sum_k [sum_v lgamma(a + n_vk) - lgamma(a)] - lgamma(V a + n_k) + lgamma(V a).
    """
    # the others add nothing
    parts = [(table[table > 1e-20], total, n_symbols) for table, total, n_symbols in tables]

    def value(a: Array) -> Array:
        rise = 0.0
        for seen, total, n_symbols in parts:
            rise += gammaln(seen + a).sum() - len(seen) * gammaln(a)
            rise += len(total) * gammaln(n_symbols * a) - gammaln(total + n_symbols * a).sum()
        return np.asarray(rise)

    return float(climb(value, start))
