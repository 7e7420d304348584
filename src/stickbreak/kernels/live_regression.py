"""Live counts of values given their context: see `live.py`.

The joint scatter of context and value holds that of the context, V, and with it B = |joint| / |V|
in determinants. So the Student t of a value is made of the extents of two Gaussians, of both and of
the context alone, that rows leave and join as in `live_gaussian.py`:

    log p = Student t of the ratios of determinants  +  D / 2 (log |V less the row| - log |V with|).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .compile import by_type, kernel
from .live import score_without, tally
from .live_gaussian import LiveNormal, LiveSums, LiveWishart, make_scale, refresh_wishart, student
from .live_inverses import LEAST_LEFT, add_moments, form_of, invert

__all__ = ["ContextRows", "LiveRegression", "LiveRegressionSums"]


class LiveRegression(NamedTuple):
    """Both are `LiveNormal`, or both `LiveWishart`: of contexts and values (W), of contexts (E)."""

    joint: Any
    context: Any


class LiveRegressionSums(NamedTuple):
    """Moments of contexts and values, which rows only join."""

    joint: LiveSums


class ContextRows(NamedTuple):
    """joint (n, E + D), contexts first; context (n, E). NaN for a row that lacks an entry."""

    joint: np.ndarray
    context: np.ndarray


@by_type
def extents(live, k, z, r, d, work):
    """Component k less weight r of z: dof, strength, and log determinants of its scale.

    Of B less the row, and of B with all of it. Without noise of rounding. d, work (D,) : scratch
    """


@kernel
def normal_afresh(live, k, z, r, d):
    """As `extents`, from the moments."""
    D = z.shape[0]
    moments, mean = live.moments[k].copy(), np.empty(D)
    scale, inverse = np.empty((D, D)), np.empty((D, D))
    add_moments(moments, live.anchor[k], z, -r)
    strength = live.prior_strength + make_scale(live, k, moments, mean, scale)
    log_less = invert(scale, inverse)
    for i in range(D):
        mean[i] = (z[i] - live.anchor[k, i]) - mean[i]
    form = form_of(inverse, mean, d)
    log_more = log_less + math.log1p(form * strength / (strength + 1.0))
    return live.prior_dof - live.prior_strength + strength, strength, log_less, log_more


@extents.of(LiveNormal)
@kernel
def normal_extents(live, k, z, r, d, work):
    """See `extents`; the formulas are those of `live_gaussian.py`."""
    rows = live.moments[k, 0]
    if live.is_ill[k] > 0.0 or rows - r <= live.empty < rows:
        return normal_afresh(live, k, z, r, d)
    s, less = live.prior_strength + rows, live.prior_strength + rows - r
    if rows <= live.empty:
        s = less = live.prior_strength
    for i in range(z.shape[0]):
        d[i] = (z[i] - live.anchor[k, i]) - live.mean[k, i]
    form, gone = form_of(live.inverse[k], d, work), (s - less) * s / less
    factor, more = 1.0 - gone * form, s * s / (less * (less + 1.0)) - gone
    if not factor >= LEAST_LEFT:
        return normal_afresh(live, k, z, r, d)
    log_det = live.log_det[k]
    log_less, log_more = log_det + math.log(factor), log_det + math.log1p(more * form)
    return live.prior_dof - live.prior_strength + less, less, log_less, log_more


@extents.of(LiveWishart)
@kernel
def wishart_extents(live, k, z, r, d, work):
    """See `extents`; the strength of a mean that is known is infinite."""
    log_det, form = live.log_det[k], form_of(live.inverse[k], z, work)
    factor, dof = 1.0 - r * form, live.prior_dof + live.moments[k, 0] - r
    if live.is_ill[k] > 0.0 or not factor >= LEAST_LEFT:
        moments, inverse, was_ill = live.moments[k].copy(), live.inverse[k].copy(), live.is_ill[k]
        add_moments(moments, live.anchor[k], z, -r)
        log_det = refresh_wishart(live, k, moments, inverse)
        live.is_ill[k] = was_ill
        form, factor, r = form_of(inverse, z, work), 1.0, 0.0
    log_more = log_det + math.log1p((1.0 - r) * form)
    return dof, math.inf, log_det + math.log(factor), log_more


@score_without.of(LiveRegression)
@kernel
def score_regression(live, rows, n, own, out):
    """Student t of the value given the context."""
    z, p = rows.joint[n], rows.context[n]
    D, d, work = z.shape[0] - p.shape[0], np.empty(z.shape[0]), np.empty(z.shape[0])
    d_context, work_context = d[: p.shape[0]], work[: p.shape[0]]
    for k in range(out.shape[0]):
        if z[0] != z[0]:
            out[k] = 0.0
            continue
        dof, strength, log_less, log_more = extents(live.joint, k, z, own[k], d, work)
        _, _, less, more = extents(live.context, k, p, own[k], d_context, work_context)
        out[k] = student(D, dof, strength, log_less - less, log_more - more, live.joint.per_row)
        out[k] += 0.5 * D * (less - more)


@tally.of(LiveRegression)
@kernel
def tally_regression(live, rows, lo, hi, shares, sign):
    """Both."""
    tally(live.joint, rows.joint, lo, hi, shares, sign)
    tally(live.context, rows.context, lo, hi, shares, sign)


@tally.of(LiveRegressionSums)
@kernel
def tally_regression_sums(live, rows, lo, hi, shares, sign):
    """Moments alone."""
    tally(live.joint, rows.joint, lo, hi, shares, sign)
