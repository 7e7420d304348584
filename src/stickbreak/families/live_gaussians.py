"""Live counts of Gaussians with full covariance, from their moments and their prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.kernels.live_gaussian import (
    LiveNormal,
    LiveSums,
    LiveWishart,
    refresh_all,
    refresh_wisharts,
)
from stickbreak.kernels.live_regression import LiveRegression
from stickbreak.protocols import Array
from stickbreak.stats import triangle

from .moments import EMPTY

__all__ = ["live_normal", "live_regression", "live_wishart"]


def live_normal(sums: LiveSums, prior: tuple[Any, ...], noise: Array, per_row: float) -> LiveNormal:
    """Normal-Wishart; prior : strength, mean (D,), dof, scatter (D, D); noise (D,)."""
    (K, D), n_inner = sums.anchor.shape, len(sums.anchor) if noise.any() else 0
    strength, mean, dof, scale = prior
    posterior = np.empty((K, D, D)), np.empty(K), np.empty((n_inner, D, D)), np.empty(n_inner)
    live = LiveNormal(
        *sums,
        float(strength),
        np.asarray(mean),
        float(dof),
        np.ascontiguousarray(scale),
        np.asarray(noise),
        per_row,
        EMPTY,
        np.empty((K, D)),
        *posterior,
        np.empty(K),
        np.empty(K),
    )
    refresh_all(live)
    return live


def live_wishart(sums: LiveSums, dof: float, scale: Array, per_row: float) -> LiveWishart:
    """Mean zero; scale (D, D)."""
    K, D = sums.anchor.shape
    prior = float(dof), np.ascontiguousarray(scale)
    live = LiveWishart(*sums, *prior, per_row, np.empty((K, D, D)), np.empty(K), np.zeros(K))
    refresh_wisharts(live)
    return live


def live_regression(
    sums: LiveSums, prior: tuple[Any, ...], n_context: int, per_row: float, *, intercept: bool
) -> LiveRegression:
    """Values given the context, which comes first; prior : of both, as of `live_normal`."""
    E, (strength, mean, dof, scale) = n_context, prior
    within, inner = LiveSums(_leading(sums, E), sums.anchor[:, :E].copy()), scale[:E, :E]
    if not intercept:
        joint = live_wishart(sums, dof, scale, per_row)
        return LiveRegression(joint, live_wishart(within, dof, inner, per_row))
    joint_normal = live_normal(sums, prior, np.zeros(len(scale)), per_row)
    prior = strength, mean[:E], dof, inner
    return LiveRegression(joint_normal, live_normal(within, prior, np.zeros(E), per_row))


def _leading(sums: LiveSums, n: int) -> Array:
    """Moments of the first n columns."""
    width = sums.anchor.shape[1]
    rows, columns = triangle(width)
    is_within = np.r_[np.arange(1 + width) <= n, (rows < n) & (columns < n)]
    return np.ascontiguousarray(sums.moments[:, is_within])
