"""Differences of log gammas that lose no digits, however large the arguments are.

lgamma(1e12) is 3e13, of which rounding takes 0.004; so a log-partition must not be taken as the
difference of two. What prior counts of that size leave over is small, and is computed as such.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from stickbreak.kernels.rows import LARGE, log_gamma_rises

from .fields import Array

__all__ = ["log_beta", "log_gamma_rise", "log_mode_beta"]


# From here on the largest parameter is paired with the total, so that only the log gammas of the
# others are added up. Below, rounding takes 2e-9 nats at most, and the plain sum is faster.
HUGE = 1e6


def log_gamma_rise(a: Any, x: Any) -> Array:
    """lgamma(a + x) - lgamma(a) for a > 0 and x >= 0, broadcast.

    The error is that of rounding x log a.
    """
    if np.max(a, initial=0.0) < LARGE:
        return np.asarray(gammaln(np.add(a, x)) - gammaln(a))
    first, second = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(x, dtype=float))
    out = np.empty(first.size)
    log_gamma_rises(np.ravel(first), np.ravel(second), out)
    return out.reshape(first.shape)


def log_beta(alpha: Array) -> Array:
    """Sum lgamma(alpha) - lgamma(sum alpha) over the last axis; an alpha of 0 is left out."""
    if alpha.max(initial=0.0) < HUGE:
        return np.asarray(_log_gammas(alpha).sum(-1) - gammaln(alpha.sum(-1)))
    largest, others, rest = _set_apart(alpha)
    return np.asarray(_log_gammas(others).sum(-1) - log_gamma_rise(largest, rest))


def log_mode_beta(alpha: Array) -> Array:
    """Sum alpha log(alpha / sum alpha) over the last axis, 0 log 0 = 0: `log_beta` at the mode."""
    if alpha.max(initial=0.0) < HUGE:
        total = alpha.sum(-1)
        return np.asarray(xlogy(alpha, alpha).sum(-1) - xlogy(total, total))
    largest, others, rest = _set_apart(alpha)
    each = xlogy(others, others / (largest + rest)[..., None])
    return np.asarray(each.sum(-1) - largest * np.log1p(rest / largest))


def _log_gammas(alpha: Array) -> Array:
    return np.asarray(gammaln(np.where(alpha > 0, alpha, 1.0)))  # lgamma(1) = 0


def _set_apart(alpha: Array) -> tuple[Array, Array, Array]:
    """The largest entry of each line, the others (0 in its place), and their sum."""
    at = np.argmax(alpha, axis=-1)[..., None]
    others = alpha.copy()
    np.put_along_axis(others, at, 0.0, axis=-1)
    return np.take_along_axis(alpha, at, axis=-1)[..., 0], others, others.sum(-1)
