"""Live counts of Gaussians with full covariance: see `live.py`.

A component has strength s, dof, mean m and inverse scale B. Weight w of a row at d = z - m gives

    s + w,   dof + w,   m + w d / (s + w),   B + b d d',   b = w s / (s + w).

So the inverse of B and its log determinant change by one vector, D * D numbers. A row that leaves
with weight r and comes back whole needs no change at all: with s' = s - r and f = d' B^-1 d,

    |B less the row| = |B| (1 - f r s / s'),   |B with all of it| = |B| (1 + f g),
    g = (s / s')^2 s' / (s' + 1) - r s / s',

which is all that a Student t takes. Sums that have come far from what they were are made anew from
the moments: `refresh`. So are those of components that are much narrower in one direction than in
another, for every row.

Rounded columns add noise N (a diagonal) for each row, which is not one vector. Two inverses are
kept, of B and of B + N, with the noise of as many rows as the component held when it was last made
anew; that is when their number has changed by a twentieth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .live import score_without, tally
from .live_inverses import (
    ILL,
    LEAST_LEFT,
    add_moments,
    add_vector,
    form_of,
    invert,
    spread_of,
)
from .rows import log_rising

__all__ = ["LiveNormal", "LiveSums", "LiveWishart", "refresh_all", "refresh_wisharts"]

HELD = 0.05  # by which rows may change before the noise of rounding is made anew
LOG_PI = math.log(math.pi)


class LiveSums(NamedTuple):
    """Moments (K, P) about anchors (K, D), which rows only join."""

    moments: np.ndarray
    anchor: np.ndarray


class LiveNormal(NamedTuple):
    """Normal-Wishart: moments (K, P) about anchors (K, D), the prior, and the posterior.

    prior_strength, prior_mean (D,), prior_dof, prior_scale (D, D), noise (D,), per_row : the prior,
        and constants of a density. empty : fewer rows than this are none
    mean (K, D) : from the anchor. inverse, log_det : of B + noise (K, D, D), (K,)
    inner, inner_log_det : of B; (0, D, D), (0,) if there is no noise
    held (K,) : rows whose noise is in them. is_ill (K,) : 1 where an inverse has too few digits
    """

    moments: np.ndarray
    anchor: np.ndarray
    prior_strength: float
    prior_mean: np.ndarray
    prior_dof: float
    prior_scale: np.ndarray
    noise: np.ndarray
    per_row: float
    empty: float
    mean: np.ndarray
    inverse: np.ndarray
    log_det: np.ndarray
    inner: np.ndarray
    inner_log_det: np.ndarray
    held: np.ndarray
    is_ill: np.ndarray


class LiveWishart(NamedTuple):
    """Mean zero: moments (K, P), the prior, inverse (K, D, D) and log determinant (K,) of B.

    is_ill : see `LiveNormal`
    """

    moments: np.ndarray
    anchor: np.ndarray
    prior_dof: float
    prior_scale: np.ndarray
    per_row: float
    inverse: np.ndarray
    log_det: np.ndarray
    is_ill: np.ndarray


# ---------------------------------------------------------------------------------- Normal-Wishart


@kernel
def make_scale(live, k, moments, out_mean, out):
    """B (D, D) of moments (P,) about the anchor of component k, and the mean (D,); rows."""
    D = out_mean.shape[0]
    n = moments[0] if moments[0] > live.empty else 0.0
    total = live.prior_strength + n
    pull, p = live.prior_strength * n / total, 1 + D
    for i in range(D):
        prior = live.prior_mean[i] - live.anchor[k, i]
        average = moments[1 + i] / n if n > 0.0 else prior
        out_mean[i] = average - live.prior_strength / total * (average - prior)
        for j in range(i, D):
            prior_j = live.prior_mean[j] - live.anchor[k, j]
            value = live.prior_scale[i, j]
            if n > 0.0:
                average_j = moments[1 + j] / n
                value += moments[p + j - i] - n * average * average_j
                value += pull * (average - prior) * (average_j - prior_j)
            out[i, j] = out[j, i] = value
        out[i, i] += n * live.noise[i]
        p += D - i
    return n


@kernel
def refresh(live, k):
    """The posterior of component k, from its moments."""
    D = live.mean.shape[1]
    scale = np.empty((D, D))
    live.held[k] = make_scale(live, k, live.moments[k], live.mean[k], scale)
    if live.inner.shape[0] > 0:
        live.inner_log_det[k] = invert(scale.copy(), live.inner[k])
        for i in range(D):
            scale[i, i] += live.noise[i]
    live.log_det[k] = invert(scale.copy(), live.inverse[k])
    live.is_ill[k] = 0.0 if spread_of(scale, live.inverse[k]) < ILL else 1.0


@kernel
def refresh_all(live):
    """The posteriors of all components, from their moments."""
    for k in range(live.mean.shape[0]):
        refresh(live, k)


@kernel
def student(D, dof, strength, log_less, log_more, per_row):
    """Log predictive from the log determinants without the row and with all of it.

    strength, dof : without the row; inf for a mean that is known.
    """
    half = 0.5 * (dof + 1.0 - D)
    value = 0.5 * D * math.log(half) + log_rising(half, 0.5 * D) - 0.5 * D * LOG_PI
    value -= 0.5 * D * math.log1p(1.0 / strength)
    return value + 0.5 * dof * (log_less - log_more) - 0.5 * log_more + per_row


@kernel
def score_afresh(live, k, z, r):
    """Log predictive of z (D,) under component k less weight r of it, from its moments."""
    D = z.shape[0]
    moments, mean, work = live.moments[k].copy(), np.empty(D), np.empty(D)
    scale, inverse = np.empty((D, D)), np.empty((D, D))
    add_moments(moments, live.anchor[k], z, -r)
    n = make_scale(live, k, moments, mean, scale)
    log_less = invert(scale.copy(), inverse)
    if live.inner.shape[0] > 0:
        for i in range(D):
            scale[i, i] += live.noise[i]
        log_more = invert(scale, inverse)
    else:
        log_more = log_less
    for i in range(D):
        mean[i] = (z[i] - live.anchor[k, i]) - mean[i]
    strength = live.prior_strength + n
    log_more += math.log1p(form_of(inverse, mean, work) * strength / (strength + 1.0))
    return student(D, live.prior_dof + n, strength, log_less, log_more, live.per_row)


@score_without.of(LiveNormal)
@kernel
def score_normal(live, rows, n, own, out):
    """Student t; rows (n, D) in the frame, NaN for a row without entries."""
    K, D = live.mean.shape
    z, d, work = rows[n], np.empty(D), np.empty(D)
    for k in range(K):
        if z[0] != z[0]:
            out[k] = 0.0
            continue
        left = live.moments[k, 0] - own[k]
        if live.is_ill[k] > 0.0 or left <= live.empty < live.moments[k, 0]:
            out[k] = score_afresh(live, k, z, own[k])
            continue
        s, less = live.prior_strength + live.moments[k, 0], live.prior_strength + left
        if live.moments[k, 0] <= live.empty:
            s = less = live.prior_strength
        for i in range(D):
            d[i] = (z[i] - live.anchor[k, i]) - live.mean[k, i]
        form = form_of(live.inverse[k], d, work)
        gone = (s - less) * s / less
        inner, log_det = form, live.log_det[k]
        if live.inner.shape[0] > 0:
            inner, log_det = form_of(live.inner[k], d, work), live.inner_log_det[k]
        factor = 1.0 - gone * inner
        if not factor >= LEAST_LEFT:
            out[k] = score_afresh(live, k, z, own[k])
            continue
        more = s * s / (less * (less + 1.0)) - gone
        log_less, log_more = log_det + math.log(factor), live.log_det[k] + math.log1p(more * form)
        dof = live.prior_dof - live.prior_strength + less
        out[k] = student(D, dof, less, log_less, log_more, live.per_row)


@kernel
def join_normal(live, k, z, w, d, work):
    """Weight w of a row z (D,) joins component k; d, work (D,) are overwritten."""
    D = z.shape[0]
    before = live.moments[k, 0]
    add_moments(live.moments[k], live.anchor[k], z, w)
    after = live.moments[k, 0]
    if before <= live.empty or after <= live.empty or live.is_ill[k] > 0.0:
        refresh(live, k)
        return
    if live.inner.shape[0] > 0 and abs(after - live.held[k]) > HELD * after:
        refresh(live, k)
        return
    s = live.prior_strength + before
    for i in range(D):
        d[i] = (z[i] - live.anchor[k, i]) - live.mean[k, i]
    factor = add_vector(live.inverse[k], d, w * s / (s + w), work)
    inner = factor
    if live.inner.shape[0] > 0:
        inner = add_vector(live.inner[k], d, w * s / (s + w), work)
    if factor * inner == 0.0:
        refresh(live, k)
        return
    live.log_det[k] += math.log(factor)
    if live.inner.shape[0] > 0:
        live.inner_log_det[k] += math.log(inner)
    for i in range(D):
        live.mean[k, i] += w / (s + w) * d[i]


@tally.of(LiveNormal)
@kernel
def tally_normal(live, rows, lo, hi, shares, sign):
    """Moments, means and inverses."""
    K, D = live.mean.shape
    d, work = np.empty(D), np.empty(D)
    for t in range(lo, hi):
        if rows[t, 0] == rows[t, 0]:
            for k in range(K):
                if shares[t - lo, k] != 0.0:
                    join_normal(live, k, rows[t], sign * shares[t - lo, k], d, work)


@tally.of(LiveSums)
@kernel
def tally_sums(live, rows, lo, hi, shares, sign):
    """Moments alone."""
    for t in range(lo, hi):
        if rows[t, 0] == rows[t, 0]:
            for k in range(shares.shape[1]):
                if shares[t - lo, k] != 0.0:
                    add_moments(live.moments[k], live.anchor[k], rows[t], sign * shares[t - lo, k])


# ---------------------------------------------------------------------------------------- mean zero


@kernel
def refresh_wishart(live, k, moments, out):
    """The inverse of B (D, D) of moments (P,), into out; its log determinant."""
    D = out.shape[0]
    scale, p = live.prior_scale.copy(), 1 + D
    for i in range(D):
        for j in range(i, D):
            scale[i, j] += moments[p]
            scale[j, i] = scale[i, j]
            p += 1
    log_det = invert(scale.copy(), out)
    live.is_ill[k] = 0.0 if spread_of(scale, out) < ILL else 1.0
    return log_det


@score_without.of(LiveWishart)
@kernel
def score_wishart(live, rows, n, own, out):
    """Student t about zero; rows (n, D) in the frame, NaN for a row without entries."""
    K, D = live.inverse.shape[:2]
    z, work = rows[n], np.empty(D)
    for k in range(K):
        if z[0] != z[0]:
            out[k] = 0.0
            continue
        form, r = form_of(live.inverse[k], z, work), own[k]
        factor, log_det = 1.0 - r * form, live.log_det[k]
        if live.is_ill[k] > 0.0 or not factor >= LEAST_LEFT:
            moments, inverse, was_ill = live.moments[k].copy(), np.empty((D, D)), live.is_ill[k]
            add_moments(moments, live.anchor[k], z, -r)
            log_det = refresh_wishart(live, k, moments, inverse)
            live.is_ill[k] = was_ill
            form, factor, r = form_of(inverse, z, work), 1.0, 0.0
        dof = live.prior_dof + live.moments[k, 0] - own[k]
        log_more = log_det + math.log1p((1.0 - r) * form)
        out[k] = student(D, dof, math.inf, log_det + math.log(factor), log_more, live.per_row)


@tally.of(LiveWishart)
@kernel
def tally_wishart(live, rows, lo, hi, shares, sign):
    """Moments and inverses."""
    K, D = live.inverse.shape[:2]
    work = np.empty(D)
    for t in range(lo, hi):
        for k in range(K):
            w = sign * shares[t - lo, k]
            if w == 0.0 or rows[t, 0] != rows[t, 0]:
                continue
            add_moments(live.moments[k], live.anchor[k], rows[t], w)
            factor = 0.0
            if live.is_ill[k] == 0.0:
                factor = add_vector(live.inverse[k], rows[t], w, work)
            if factor > 0.0:
                live.log_det[k] += math.log(factor)
            else:
                live.log_det[k] = refresh_wishart(live, k, live.moments[k], live.inverse[k])


@kernel
def refresh_wisharts(live):
    """The posteriors of all components, from their moments."""
    for k in range(live.inverse.shape[0]):
        live.log_det[k] = refresh_wishart(live, k, live.moments[k], live.inverse[k])
