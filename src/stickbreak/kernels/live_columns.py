"""Live counts of Gaussians with independent columns: see `live.py`.

As in `live_gaussian.py`, for each column by itself: the scatter S of a column has

    S less the row = S - d^2 r s / s' - r noise,   S with all of it = S + g d^2 + (1 - r) noise.

Arrays are (D, K), so that components are next to each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .gamma import log_fast
from .live import score_without, tally
from .rows import log_rising

__all__ = ["LiveColumnSums", "LiveMeans", "LiveNormalColumns"]

HALF_LOG_PI = 0.5 * math.log(math.pi)


class LiveColumnSums(NamedTuple):
    """Moments (K, 1 + 2 D) about anchors (K, D), missing (K, D): rows only join them."""

    moments: np.ndarray
    anchor: np.ndarray
    missing: np.ndarray


class LiveNormalColumns(NamedTuple):
    """Normal-Gamma: rows (K,); seen, mean from the anchor, scatter and anchor (D, K); the prior.

    is_partial (1,) : 1 once an entry has been missing. per_row (D,) : constants of a density.
    """

    rows: np.ndarray
    seen: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    anchor: np.ndarray
    is_partial: np.ndarray
    prior_strength: float
    prior_mean: np.ndarray
    prior_dof: float
    prior_scatter: np.ndarray
    noise: np.ndarray
    per_row: np.ndarray
    empty: float


class LiveMeans(NamedTuple):
    """Known variances (D,): rows (K,); seen, sum from the anchor, anchor (D, K); the prior."""

    rows: np.ndarray
    seen: np.ndarray
    first: np.ndarray
    anchor: np.ndarray
    is_partial: np.ndarray
    prior_strength: float
    prior_mean: np.ndarray
    variance: np.ndarray
    per_row: np.ndarray
    empty: float


@tally.of(LiveColumnSums)
@kernel
def tally_column_sums(live, rows, lo, hi, shares, sign):
    """Moments alone; rows (n, D) in the frame, NaN where missing."""
    K, D = live.anchor.shape
    for t in range(lo, hi):
        for k in range(K):
            r = sign * shares[t - lo, k]
            if r == 0.0:
                continue
            moments, missing = live.moments[k], live.missing[k]
            moments[0] += r
            for d in range(D):
                z = rows[t, d] - live.anchor[k, d]
                if z == z:
                    moments[1 + d] += r * z
                    moments[1 + D + d] += r * z * z
                else:
                    missing[d] += r


@kernel
def is_complete(row):
    """Whether no entry of a row (D,) is missing."""
    n_lost = 0
    for d in range(row.shape[0]):
        n_lost += row[d] != row[d]
    return n_lost == 0


# ------------------------------------------------------------------------------------ Normal-Gamma


@kernel
def log_column(live, dof, strength):
    """Log constants of one column: of a Student t with dof and strength without the row."""
    half = 0.5 * dof
    rise = 0.5 * math.log(half) + log_rising(half, 0.5)
    return rise - 0.5 * math.log1p(1.0 / strength) - HALF_LOG_PI


@score_without.of(LiveNormalColumns)
@kernel
def score_normal_columns(live, rows, n, own, out):
    """Student t of every column; rows (n, D) in the frame, NaN where missing."""
    D, K = live.mean.shape
    x = rows[n]
    if live.is_partial[0] > 0.0 or not is_complete(x):
        score_partial_columns(live, x, own, out)
        return
    gone, more, half = np.empty(K), np.empty(K), np.empty(K)
    per_row = live.per_row.sum()
    for k in range(K):
        s, less = live.prior_strength + live.rows[k], live.prior_strength + live.rows[k] - own[k]
        if live.rows[k] - own[k] <= live.empty:
            s = less = live.prior_strength
        dof = live.prior_dof - live.prior_strength + less
        gone[k], half[k] = (s - less) * s / less, 0.5 * dof
        more[k] = s * s / (less * (less + 1.0)) - gone[k]
        out[k] = D * log_column(live, dof, less) + per_row
    for d in range(D):
        mean, scatter, anchor = live.mean[d], live.scatter[d], live.anchor[d]
        z, noise, least, prior = x[d], live.noise[d], live.prior_scatter[d], live.prior_mean[d]
        for k in range(K):
            is_empty = live.rows[k] - own[k] <= live.empty
            center = prior - anchor[k] if is_empty else mean[k]
            away = (z - anchor[k]) - center
            square, r = away * away, 0.0 if is_empty else own[k]
            whole = least if is_empty else scatter[k]
            less = max(whole - gone[k] * square - r * noise, least)
            grown = max(whole + more[k] * square + (1.0 - r) * noise, least)
            out[k] += half[k] * log_fast(less / grown) - 0.5 * log_fast(grown)


@kernel
def score_partial_columns(live, x, own, out):
    """As `score_normal_columns`, where columns have counts of their own."""
    D, K = live.mean.shape
    out[:] = 0.0
    for d in range(D):
        if x[d] != x[d]:
            continue
        for k in range(K):
            left = live.seen[d, k] - own[k]
            s, less = live.prior_strength + live.seen[d, k], live.prior_strength + left
            whole, r, center = live.scatter[d, k], own[k], live.mean[d, k]
            if left <= live.empty:
                s = less = live.prior_strength
                whole, r, center = (
                    live.prior_scatter[d],
                    0.0,
                    live.prior_mean[d] - live.anchor[d, k],
                )
            away = (x[d] - live.anchor[d, k]) - center
            gone = (s - less) * s / less
            grown = whole + (s * s / (less * (less + 1.0)) - gone) * away * away
            grown = max(grown + (1.0 - r) * live.noise[d], live.prior_scatter[d])
            whole = max(whole - gone * away * away - r * live.noise[d], live.prior_scatter[d])
            dof = live.prior_dof - live.prior_strength + less
            out[k] += log_column(live, dof, less) + live.per_row[d]
            out[k] += 0.5 * dof * math.log(whole / grown) - 0.5 * math.log(grown)


@tally.of(LiveNormalColumns)
@kernel
def tally_normal_columns(live, rows, lo, hi, shares, sign):
    """Rows, means and scatters."""
    D, K = live.mean.shape
    for t in range(lo, hi):
        for d in range(D):
            if rows[t, d] != rows[t, d]:
                live.is_partial[0] = 1.0
                continue
            count, mean, scatter, anchor = (
                live.seen[d],
                live.mean[d],
                live.scatter[d],
                live.anchor[d],
            )
            z, prior, least = rows[t, d], live.prior_mean[d], live.prior_scatter[d]
            for k in range(K):
                w = sign * shares[t - lo, k]
                s, after = live.prior_strength + count[k], count[k] + w
                away = (z - anchor[k]) - mean[k]
                grown = scatter[k] + w * (s / (s + w) * away * away + live.noise[d])
                is_empty = after <= live.empty
                count[k] = after
                scatter[k] = least if is_empty else max(grown, least)
                mean[k] = prior - anchor[k] if is_empty else mean[k] + w / (s + w) * away
        for k in range(K):
            live.rows[k] += sign * shares[t - lo, k]


# ---------------------------------------------------------------------------------- known variances


@score_without.of(LiveMeans)
@kernel
def score_means(live, rows, n, own, out):
    """Normal of every column; rows (n, D) in the frame, NaN where missing."""
    D, K = live.first.shape
    x = rows[n]
    is_partial = live.is_partial[0] > 0.0 or not is_complete(x)
    out[:] = 0.0
    for d in range(D):
        if x[d] != x[d]:
            continue
        count, first, anchor = live.seen[d], live.first[d], live.anchor[d]
        z, prior = x[d], live.prior_mean[d]
        for k in range(K):
            left = count[k] - own[k]
            is_empty = left <= live.empty
            s = live.prior_strength + (0.0 if is_empty else left)
            here = z - anchor[k]
            rest = 0.0 if is_empty else first[k] - own[k] * here
            away = here - (live.prior_strength * (prior - anchor[k]) + rest) / s
            out[k] -= 0.5 * away * away * s / ((s + 1.0) * live.variance[d])
            out[k] += live.per_row[d]
            if is_partial:
                out[k] -= 0.5 * math.log1p(1.0 / s)
    if not is_partial:
        for k in range(K):
            left = live.rows[k] - own[k]
            s = live.prior_strength + (0.0 if left <= live.empty else left)
            out[k] -= 0.5 * D * math.log1p(1.0 / s)


@tally.of(LiveMeans)
@kernel
def tally_means(live, rows, lo, hi, shares, sign):
    """Rows and sums."""
    D, K = live.first.shape
    for t in range(lo, hi):
        for d in range(D):
            if rows[t, d] != rows[t, d]:
                live.is_partial[0] = 1.0
                continue
            count, first, anchor, z = live.seen[d], live.first[d], live.anchor[d], rows[t, d]
            for k in range(K):
                w = sign * shares[t - lo, k]
                count[k] += w
                first[k] += w * (z - anchor[k])
        for k in range(K):
            live.rows[k] += sign * shares[t - lo, k]
