"""Gamma and Dirichlet draws as logarithms, so that small values are not lost; tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from .fields import Array

__all__ = ["draw_log_dirichlet", "draw_tables", "log_gamma_draws"]

CHUNK = 1 << 20  # draws in memory at once


def log_gamma_draws(shape: Any, rng: np.random.Generator) -> Array:
    """Logs of Gamma(shape, 1) draws, an array like `shape`; -inf where the shape is 0.

    log G(a) = log G(a + 1) + log(U) / a with U uniform: a draw with a tiny shape may be e**-1000 or
    less, but never 0.
    """
    shape = np.asarray(shape, dtype=float)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(
            np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential(shape.shape) / shape
        )


def draw_log_dirichlet(alpha: Array, rest: Array | float | None, rng: np.random.Generator) -> Array:
    """Log shares like `alpha`, drawn along the last axis.

    rest : prior mass outside `alpha`, one number per line.
    """
    draws = log_gamma_draws(alpha, rng)
    total = logsumexp(draws, axis=-1)
    if rest is not None:
        total = np.logaddexp(total, log_gamma_draws(np.broadcast_to(rest, total.shape), rng))
    return np.asarray(draws - total[..., None])


def draw_tables(counts: Array, concentration: Array, rng: np.random.Generator) -> Array:
    """Draw how many of `counts` outcomes came from the base measure, not from an earlier outcome.

    Both arrays have the same shape. Outcome i = 0, 1, ... of an entry is new with probability
    c / (c + i), where c is its concentration (tables of a Chinese restaurant).
    """
    n, c = np.rint(counts).astype(np.int64).ravel(), np.asarray(concentration, dtype=float).ravel()
    ends, out = n.cumsum(), np.zeros(n.size)
    for low in range(0, int(n.sum()), CHUNK):
        places = np.arange(low, min(low + CHUNK, int(ends[-1])))
        entry = np.searchsorted(ends, places, side="right")
        earlier = places - (ends - n)[entry]
        is_new = rng.random(len(places)) * (c[entry] + earlier) < c[entry]
        out += np.bincount(entry, weights=is_new, minlength=n.size)
    return out.reshape(np.shape(counts))
