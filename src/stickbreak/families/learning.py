"""Empirical Bayes: hyperparameters that make the counts more probable.

Given the counts, only the part M = sum(log_marginal(counts)) of the bound depends on a family's
hyperparameters, so whatever raises M raises the bound. Components without rows have log marginal
zero under every prior and do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from stickbreak.protocols import Array, Counts
from stickbreak.stats import log_gamma_rise

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
"""Rows (or symbols) that a learned prior may be worth. If the data want all components alike, or
each with a single symbol, M has no maximum inside. A prior at the limit leaves room for components
that are still to come.
"""

STEPS = 8  # Newton steps of a search; laps repeat it
WIDEST = 2.0  # largest step, in logs
# of the finite differences, in logs: rounding of M over its square stays below M's curvature
NARROW = 1e-3
SETTLED = 1e-4  # smallest step, in logs: the error after a Newton step is about its square

EM_STEPS = 3  # for a prior covariance in each lap
# smallest variance of a learned prior in any direction, as part of a column's variance
NARROWEST = 1e-6

F = TypeVar("F")


def keep_better(old: F, new: F, counts: Counts) -> F:
    """The family that makes the counts more probable; the new one only if strictly better."""
    return new if _total(new, counts) > _total(old, counts) else old


def _total(family: Any, counts: Counts) -> float:
    return float(family.log_marginal(counts).sum())


def occupied(rows: Array) -> int:
    """Components with at least one row; rows (K,) or (K, D)."""
    return int((rows.reshape(len(rows), -1).max(1) >= 1.0).sum())


def climb(
    value: Callable[[Array], Array], start: Any, lowest: float = WEAKEST, highest: float = STRONGEST
) -> Array:
    """Positive x near a maximum of value(x), by Newton steps in log x from `start`.

    Element by element, the value is never lower than at the start.

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
    """The family make(x) with x near `start` that makes the counts most probable.

    `family` = make(start), which is returned if no x is better.
    """
    found = climb(lambda x: np.asarray(_total(make(float(x)), counts)), start, lowest, highest)
    return keep_better(family, make(float(found)), counts)


def best_concentration(tables: Iterable[tuple[Array, Array, int]], start: float) -> float:
    """Symmetric Dirichlet concentration a for tables (V, K) with totals (K,) and V symbols.

    It climbs sum_k [sum_v lgamma(a + n_vk) - lgamma(a)] - lgamma(V a + n_k) + lgamma(V a).
    """
    # empty entries add nothing
    parts = [(table[table > 1e-20], total, n_symbols) for table, total, n_symbols in tables]

    def value(a: Array) -> Array:
        rise = 0.0
        for seen, total, n_symbols in parts:
            rise += log_gamma_rise(a, seen).sum() - log_gamma_rise(n_symbols * a, total).sum()
        return np.asarray(rise)

    return float(climb(value, start))
