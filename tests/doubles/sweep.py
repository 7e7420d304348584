"""A collapsed sweep for the chain, compiled: one kernel for all families.

A family takes part through a NamedTuple of its live counts and two functions, `score` and `tally`,
which numba picks by the NamedTuple's type. A kernel that took jitted functions as arguments would
never be found in the on-disk cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from stickbreak.data import Batch
from stickbreak.families import Categorical, Gaussian
from stickbreak.families.moments import EMPTY as NO_ROWS
from stickbreak.inference import BaseRule
from stickbreak.kernels.compile import kernel
from stickbreak.stats import Field, Fields, Summary, Tally, join

from .chain import Chain

Array = np.ndarray


# -------------------------------------------------------------------------- families inside a sweep


class LiveTable(NamedTuple):
    """Symbols of one column: counts (V, K), totals (1, K), prior count of a symbol and of all
    symbols.
    """

    counts: Array
    totals: Array
    pseudo: float
    pseudo_total: float


class LiveGaussian(NamedTuple):
    """Normal-Wishart in the standardized frame: moments (K, P) about anchor (K, D); the prior; log
    density of the frame.
    """

    moments: Array
    anchor: Array
    strength: float
    mean: Array
    dof: float
    inverse_scale: Array
    log_jacobian: float


@singledispatch
def make_live(family: Any, counts: Any) -> Any:
    """The family's counts as a NamedTuple that holds its own arrays."""
    raise TypeError(f"{type(family).__name__} takes no part in sweeps")


@make_live.register
def _(family: Categorical, counts: Any) -> LiveTable:
    concentration = float(family.concentration)
    return LiveTable(
        counts["emission"].copy(),
        counts["emission_total"].copy(),
        concentration,
        concentration * family.n_symbols[0],
    )


@make_live.register
def _(family: Gaussian, counts: Any) -> LiveGaussian:
    strength, mean, dof, inverse_scale = family._prior()
    jacobian = -float(np.log(family.scale).sum())
    moments, anchor = counts["moments"].copy(), counts["anchor"].copy()
    return LiveGaussian(moments, anchor, float(strength), mean, float(dof), inverse_scale, jacobian)


@singledispatch
def settle(live: Any) -> dict[str, Array]:
    """Count fields from a NamedTuple."""
    raise TypeError(type(live).__name__)


@settle.register
def _(live: LiveTable) -> dict[str, Array]:
    return {"emission": live.counts, "emission_total": live.totals}


@settle.register
def _(live: LiveGaussian) -> dict[str, Array]:
    return {"moments": live.moments, "anchor": live.anchor}


def tally(live, rows, lo, hi, shares, sign):
    """Add sign * shares (hi - lo, K) of the prepared rows lo..hi to the live counts."""
    raise NotImplementedError


def score(live, rows, lo, hi, out):
    """Predictive weight of the rows lo..hi, out (hi - lo, K), up to a factor a row; returns the sum
    of the log factors.
    """
    raise NotImplementedError


@kernel
def tally_table(counts, totals, rows, lo, hi, shares, sign):
    for t in range(lo, hi):
        v = rows[t, 0]
        if v >= 0:
            for k in range(totals.shape[1]):
                counts[v, k] += sign * shares[t - lo, k]
                totals[0, k] += sign * shares[t - lo, k]


@kernel
def score_table(counts, totals, pseudo, pseudo_total, rows, lo, hi, out):
    for t in range(lo, hi):
        v = rows[t, 0]
        for k in range(totals.shape[1]):
            out[t - lo, k] = (
                1.0
                if v < 0
                else (max(counts[v, k], 0.0) + pseudo) / (max(totals[0, k], 0.0) + pseudo_total)
            )
    return 0.0


@kernel
def tally_gaussian(moments, anchor, rows, lo, hi, shares, sign):
    K, D = anchor.shape
    for t in range(lo, hi):
        for k in range(K):
            r = sign * shares[t - lo, k]
            moments[k, 0] += r
            p = 1 + D
            for i in range(D):
                z = rows[1 + i, t] - anchor[k, i]
                moments[k, 1 + i] += r * z
                for j in range(i, D):
                    moments[k, p] += r * z * (rows[1 + j, t] - anchor[k, j])
                    p += 1


@kernel
def posterior_gaussian(
    moments, anchor, strength, prior_mean, inverse_scale, k, out_mean, out_factor
):
    """Posterior mean (D,) from the anchor and lower Cholesky factor (D, D) of the inverse scale.
    Returns the number of rows.
    """
    D = anchor.shape[1]
    n = moments[k, 0] if moments[k, 0] > NO_ROWS else 0.0
    weight = strength * n / (strength + n)
    p = 1 + D
    for i in range(D):
        center = prior_mean[i] - anchor[k, i]
        out_mean[i] = (strength * center + (moments[k, 1 + i] if n > 0.0 else 0.0)) / (strength + n)
    for i in range(D):
        for j in range(i, D):
            c = inverse_scale[i, j]
            if n > 0.0:
                average_i, average_j = moments[k, 1 + i] / n, moments[k, 1 + j] / n
                away = (average_i - prior_mean[i] + anchor[k, i]) * (
                    average_j - prior_mean[j] + anchor[k, j]
                )
                c += moments[k, p] - n * average_i * average_j + weight * away
            for m in range(i):
                c -= out_factor[i, m] * out_factor[j, m]
            out_factor[j, i] = math.sqrt(c) if i == j else c / out_factor[i, i]
            p += 1
    return n


@kernel
def score_gaussian(
    moments, anchor, strength, prior_mean, prior_dof, inverse_scale, log_jacobian, rows, lo, hi, out
):
    """Student t of each component, one small Cholesky factor per component and call."""
    K, D = anchor.shape
    mean, z, factor = np.empty(D), np.empty(D), np.zeros((D, D))
    for k in range(K):
        n = posterior_gaussian(
            moments, anchor, strength, prior_mean, inverse_scale, k, mean, factor
        )
        dof = prior_dof + n + 1.0 - D
        weight = (strength + n) * dof / (strength + n + 1.0)
        power = 0.5 * (dof + D)
        const = (
            math.lgamma(power)
            - math.lgamma(0.5 * dof)
            - 0.5 * D * math.log(dof * math.pi / weight)
            + log_jacobian
        )
        for i in range(D):
            const -= math.log(factor[i, i])
        for t in range(lo, hi):
            form = 0.0
            for i in range(D):
                z[i] = rows[1 + i, t] - anchor[k, i] - mean[i]
                for m in range(i):
                    z[i] -= factor[i, m] * z[m]
                z[i] /= factor[i, i]
                form += z[i] * z[i]
            out[t - lo, k] = const - power * math.log1p(weight * form / dof)
    return normalize_rows(out, hi - lo)


@kernel
def normalize_rows(logits, n):
    """In place: exp(logits - the row's largest), for n rows. Returns the sum of the largest."""
    shift = 0.0
    for t in range(n):
        top = -math.inf
        for k in range(logits.shape[1]):
            top = max(top, logits[t, k])
        for k in range(logits.shape[1]):
            logits[t, k] = math.exp(logits[t, k] - top)
        shift += top
    return shift


@overload(tally)
def _(live, rows, lo, hi, shares, sign):
    if live.instance_class is LiveTable:
        return lambda live, rows, lo, hi, shares, sign: tally_table(
            live.counts, live.totals, rows, lo, hi, shares, sign
        )
    if live.instance_class is LiveGaussian:
        return lambda live, rows, lo, hi, shares, sign: tally_gaussian(
            live.moments, live.anchor, rows, lo, hi, shares, sign
        )
    return None


@overload(score)
def _(live, rows, lo, hi, out):
    if live.instance_class is LiveTable:
        return lambda live, rows, lo, hi, out: score_table(
            live.counts, live.totals, live.pseudo, live.pseudo_total, rows, lo, hi, out
        )
    if live.instance_class is LiveGaussian:
        return lambda live, rows, lo, hi, out: score_gaussian(
            live.moments,
            live.anchor,
            live.strength,
            live.mean,
            live.dof,
            live.inverse_scale,
            live.log_jacobian,
            rows,
            lo,
            hi,
            out,
        )
    return None


# ------------------------------------------------------------------------------- the chain's kernel


@kernel
def predictive_row(counts, own, pseudo, out):
    """counts (K,) -= own, clamped at zero; out = predictive probabilities."""
    total = 0.0
    for j in range(counts.shape[0]):
        counts[j] = max(counts[j] - own[j], 0.0)
        out[j] = counts[j] + pseudo[j]
        total += out[j]
    for j in range(counts.shape[0]):
        out[j] /= total


@kernel
def infer_path(initial, transition, evidence, n, filtered, scale, out_states, out_pairs):
    """Posterior of one sequence of n rows; scratch filtered, scale. out_states (n, K), out_pairs
    (K, K) are set. Returns log_z.
    """
    K = initial.shape[0]
    log_z = 0.0
    for t in range(n):
        total = 0.0
        for j in range(K):
            reach = initial[j] if t == 0 else 0.0
            if t > 0:
                for i in range(K):
                    reach += filtered[t - 1, i] * transition[i, j]
            filtered[t, j] = reach * evidence[t, j]
            total += filtered[t, j]
        log_z += math.log(total)
        scale[t] = total
        for j in range(K):
            filtered[t, j] /= total
    beta, future = np.ones(K), np.empty(K)
    out_pairs[:] = 0.0
    for t in range(n - 1, -1, -1):
        for j in range(K):
            out_states[t, j] = filtered[t, j] * beta[j]
            future[j] = evidence[t, j] * beta[j] / scale[t]
        if t > 0:
            for i in range(K):
                beta[i] = 0.0
                for j in range(K):
                    beta[i] += transition[i, j] * future[j]
                    out_pairs[i, j] += filtered[t - 1, i] * transition[i, j] * future[j]
    return log_z


@kernel
def sweep_chain(
    live,
    first,
    pairs,
    first_pseudo,
    pairs_pseudo,
    rows,
    offsets,
    own_rows,
    own_pairs,
    out_live,
    out_first,
    out_pairs,
):
    """Every sequence of a lane: its counts out, predictive potentials, infer, counts in.

    live, first (K,), pairs (K, K): counts of all data, changed in place. own_rows (n, K), own_pairs
    (units, K, K): each sequence's own counts, replaced. out_*: += the lane's new counts. Returns
    the sum of leave-one-out log predictives.
    """
    K = first.shape[0]
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    initial, transition = np.empty(K), np.empty((K, K))
    evidence, filtered, scale = np.empty((longest, K)), np.empty((longest, K)), np.empty(longest)
    log_z = 0.0
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        mine, own = own_rows[lo:hi], own_pairs[s]
        tally(live, rows, lo, hi, mine, -1.0)
        predictive_row(first, mine[0], first_pseudo, initial)
        for i in range(K):
            predictive_row(pairs[i], own[i], pairs_pseudo[i], transition[i])
        log_z += score(live, rows, lo, hi, evidence)
        log_z += infer_path(initial, transition, evidence, hi - lo, filtered, scale, mine, own)
        for i in range(K):
            first[i] += mine[0, i]
            out_first[i] += mine[0, i]
            for j in range(K):
                pairs[i, j] += own[i, j]
                out_pairs[i, j] += own[i, j]
        tally(live, rows, lo, hi, mine, 1.0)
        tally(out_live, rows, lo, hi, mine, 1.0)
    return log_z


# ------------------------------------------------------------------------------- structure and rule


@dataclass(frozen=True)
class SweepingChain(Chain):
    """The chain with a compiled sweep."""

    def own_counts(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """K a row and K * K a unit, zero before the first visit."""
        K = n_components
        layout = {"rows": Field(("row", axis)), "pairs": Field(("unit", axis, axis))}
        return Fields(
            layout, {"rows": np.zeros((batch.n_rows, K)), "pairs": np.zeros((batch.n_spans, K, K))}
        )

    def sweep(
        self,
        live: Any,
        tables: dict[str, Array],
        pseudo: dict[str, Array],
        lane: Batch,
        own: Fields,
        out_live: Any,
        out: dict[str, Array],
    ) -> float:
        first, pairs = "initial", "transition"
        arrays = (
            tables[first],
            tables[pairs],
            pseudo[first],
            pseudo[pairs],
            lane.rows,
            lane.offsets,
            own["rows"],
            own["pairs"],
        )
        return float(sweep_chain(live, *arrays, out_live, out[first], out[pairs]))


@dataclass(frozen=True)
class ExcludeOwn(BaseRule):
    """Collapsed inference: each unit is inferred from the counts of all others.

    A lane sees its own changes at once and those of other lanes after the visit: results depend on
    n_lanes, not on workers.
    """

    n_lanes: int = 1

    def pick(self, table: Any) -> Callable[..., Any]:
        return table.log_mean

    def visit(
        self,
        model: Any,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Any],
        pool: Any,
    ) -> tuple[Summary, Fields | None]:
        own = warm
        if own is None:
            own = model.structure.own_counts(batch, counts.size(model.axis), model.axis)
        jobs = [(lane.alone(), own.cut(**lane.cut)) for lane in batch.lanes(self.n_lanes)]
        results = list(pool(partial(sweep_lane, model, counts, params), jobs))
        total = Tally(results[0][0])
        for summary, _ in results[1:]:
            total.add(summary)
        return total.summary(), join([part for _, part in results])

    def bound(self, model: Any, total: Summary, params: Fields) -> None:
        return None


def sweep_lane(
    model: Any, counts: Summary, params: Fields, job: tuple[Batch, Fields]
) -> tuple[Summary, Fields]:
    """One lane on its own copy of the counts."""
    lane, own = job[0].with_rows(model.family.prepare(job[0].rows)), job[1].copy()
    new = counts.empty()
    tables = {name: counts[name].copy() for name in model.prior.fields(model.axis)}
    fresh, out = (
        make_live(model.family, new),
        {name: array.copy() for name, array in new.arrays.items()},
    )
    pseudo = model.prior.pseudo(params, counts.size(model.axis))
    log_z = model.structure.sweep(
        make_live(model.family, counts), tables, pseudo, lane, own, fresh, out
    )
    return replace(new, arrays={**out, **settle(fresh)}, log_z=log_z, n_units=lane.n_units), own
