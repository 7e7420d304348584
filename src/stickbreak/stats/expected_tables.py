"""Expected tables of a Chinese restaurant, from expected counts and the probability of any."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma

from .fields import Array

__all__ = ["LEAST", "N_INNER", "RARE", "best_concentration", "expected_tables"]

LEAST = 1e-6  # of a learned concentration
RARE = 1e-12  # a step less probable than this has as many tables as expected steps
N_INNER = 5  # steps of the fixed points of the concentrations, in one update


def expected_tables(weight: Any, steps: Array, is_step: Array) -> Array:
    """E[s] = q x (digamma(x + E / q) - digamma(x)), from q to E; arrays are broadcast.

    weight x : prior count; steps E, is_step q <= E : expected, and q(at least one)
    """
    given = np.maximum(steps / np.maximum(is_step, RARE), 1.0)
    # 1 / x apart, so that nothing is lost where x is tiny
    each = 1.0 + weight * (digamma(weight + given) - digamma(weight + 1.0))
    return np.asarray(np.where(is_step < RARE, steps, np.clip(is_step * each, is_step, steps)))


def best_concentration(
    c: float, most: float, n_tables: float, taken: Array, is_taken: Array
) -> float:
    """Some steps of the fixed point c = tables / sum_j q_j (digamma(c + E_j) - digamma(c)).

    taken E, is_taken q (R,) : expected counts of each row, and the probability of any

    Without a limit c would grow for ever while rows are still alike: equal rows are a maximum,
    which keeps them alike.
    """
    if not n_tables > 0:
        return c
    for _ in range(N_INNER):
        slope = expected_tables(c, taken, is_taken).sum() / c
        c = float(np.clip(n_tables / slope, min(LEAST, most), most))
    return c
