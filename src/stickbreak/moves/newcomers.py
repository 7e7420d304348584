"""Births in a stream, for structures whose laps cannot track them.

Rows are seen once. Units seen before keep their posteriors, with zeros for newborns, and their
counts are a layer of the total (`inference/posteriors.py`). The new units are inferred with and
without newborns, a few times each, and the bound of all data seen decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from stickbreak.inference.posteriors import Inferred, Layer, Outcome, OwnCounts, Part
from stickbreak.inference.scene import Scene
from stickbreak.initialize import from_plusplus
from stickbreak.protocols import Array
from stickbreak.stats import Fields, Regroup, Summary

from .little_fits import Goal, little_fit, rows_of, side_by_side
from .merge import Merge
from .newborns import Newborns
from .partial_fits import PartialFit
from .trials import LEAST_GAIN, TOL, split

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["clusters_of", "gain_together", "try_newcomers"]

N_PASSES = 40  # of the little fit to the new rows of a component, and over the new units
LEAST_ROWS = 1.0  # a component of fewer is idle


def try_newcomers(
    scene: Scene, targets: Sequence[int], n_newborn: int, idle: Sequence[int] = ()
) -> Outcome | None:
    """The new rows with newborns for those that no component explains; None if they gain nothing.

    targets : components whose new rows are looked at
    idle : components without rows, which become the newborns if their number is fixed
    """
    found = _newcomers(scene, targets, n_newborn)
    if found is None:
        return None
    parent, counts, sizes = found
    if idle:
        counts, sizes = _some(scene, counts, sizes, np.argsort(-sizes, kind="stable")[: len(idle)])
    same = Regroup(scene.model.axis, tuple((k,) for k in range(len(scene.ids))), ())
    plain = _fit(scene, same, scene.total, scene.params)
    n_infers = plain.n_infers
    while len(sizes):
        order, how, start = _place(scene, parent, counts, sizes, idle)
        fit = _fit(scene, how, *start)
        n_infers += fit.n_infers
        held = np.asarray(scene.model.prior.sizes(fit.total))[-len(sizes) :]
        if (held >= LEAST_ROWS).all():
            break
        counts, sizes = _some(scene, counts, sizes, np.flatnonzero(held >= LEAST_ROWS))
    scene.spent.n_units, scene.spent.n_passes = scene.data.n_spans, float(n_infers)
    scene.spent.gain = fit.bound - plain.bound if len(sizes) else 0.0
    if not scene.spent.gain > LEAST_GAIN:
        return None
    born = 0 if idle else len(sizes)
    ids = (*(scene.ids[k] for k in order), *range(scene.next_id, scene.next_id + born))
    done = OwnCounts(None)  # rows are gone: there is nothing to continue from
    return Outcome(fit.total, fit.params, ids, scene.next_id + born, fit.bound, done)


def _some(scene: Scene, counts: Summary, sizes: Array, at: Array) -> tuple[Summary, Array]:
    return counts.permute(scene.model.axis, at.tolist()), sizes[at]


def _place(
    scene: Scene, parent: int, counts: Summary, sizes: Array, idle: Sequence[int]
) -> tuple[list[int], Regroup, tuple[Summary, Fields]]:
    """Old components in their new order, what becomes of all, and where the new units begin.

    Newborns come last; in the place of the first idle components, if there are such.
    """
    model, axis, K = scene.model, scene.model.axis, len(scene.ids)
    own = _family_only(model, scene.total.permute(axis, [parent]))
    newborns = Newborns(
        side_by_side([own, counts], axis), np.append(max(scene.sizes[parent], 1.0), sizes)
    )
    start, params = split(scene, parent, newborns)
    order = [*(k for k in range(K) if k != parent), parent]
    if idle:
        gone = list(idle)[: len(sizes)]
        keep = [at for at, k in enumerate(order) if k not in gone]
        keep += range(K, K + len(sizes))
        start, params = start.permute(axis, keep), params.permute(axis, keep)
        order = [k for k in order if k not in gone] + gone
    born = 0 if idle else len(sizes)
    how = Regroup(axis, (*((k,) for k in order), *[()] * born), ())
    return order, how, (start, params)


def _fit(scene: Scene, how: Regroup, total: Summary, params: Fields) -> PartialFit:
    """Passes over the new units; all others are a layer that keeps its posteriors."""
    model, K = scene.model, len(scene.ids)
    before = replace(scene.total, sides={})
    held = Inferred(before, None, sparse.csc_array((0, K)))
    layer = Layer(np.zeros(0, dtype=np.int64), before, scene.params, None, held, {})
    units, batches = np.arange(scene.data.n_spans), scene.data.batches(1)
    loose = replace(model.prior.loosened(total, params), sides={})
    fit = PartialFit(model, Part(units, batches, (layer,), how), loose, params, scene.pool)
    fit.run(N_PASSES, Goal(), TOL * scene.data.n_observations)
    return fit


def _newcomers(
    scene: Scene, targets: Sequence[int], n_newborn: int
) -> tuple[int, Summary, Array] | None:
    """A component like them, the counts of newcomers, and their sizes (J,)."""
    model, parts, owners = scene.model.mixture(), [], []
    for target in targets:
        clusters = clusters_of(model, scene, (target,), n_newborn)
        if clusters is not None:
            parts.append(clusters)
            owners.append(target)
    if not parts:
        return None
    found = side_by_side(parts, model.axis)
    if len(parts) > 1:  # parts of one cluster that two targets held can now merge
        joint = clusters_of(model, scene, tuple(owners), n_newborn, found)
        found = found if joint is None else joint
    known = [k for k in range(len(scene.ids)) if scene.sizes[k] >= LEAST_ROWS]
    alike = np.array([gain_together(model, scene.total, found, k) for k in known])
    new = np.flatnonzero(alike.max(0) < 0)
    if not len(new):
        return None
    sizes = np.asarray(model.prior.sizes(found))
    # the component that the largest newborn is nearest to, which its steps are taken from
    parent = known[int(alike[:, new[sizes[new].argmax()]].argmax())]
    new_counts = _family_only(model, found.permute(model.axis, new.tolist()))
    return parent, new_counts, sizes[new]


def clusters_of(
    mixture: Model,
    scene: Scene,
    taken: tuple[int, ...],
    n_newborn: int,
    start: Summary | None = None,
    allowance: float = 0.0,
    n_coarse: int = 0,
) -> Summary | None:
    """Counts of clusters of the new rows of some components, one or more; None without rows."""
    table = rows_of(mixture, scene.sample, taken)
    if table is None:
        return None
    if start is None:
        size, n_exact = min(max(2, n_newborn), table.n_rows), 0 if n_coarse else 2
        start = from_plusplus(
            mixture, table, size, scene.rng, n_passes=n_exact, n_coarse=n_coarse
        ).seed
    merges = (Merge(start=3, allowance=allowance),)
    found = little_fit(mixture, table, start, N_PASSES, moves=merges, reorder=True)
    keep = np.flatnonzero(mixture.prior.sizes(found.counts) >= LEAST_ROWS)
    return found.counts.permute(mixture.axis, keep.tolist()) if len(keep) else None


def gain_together(model: Model, old: Summary, found: Summary, k: int) -> Array:
    """(J,) what the family gains if old component k and each found one are one component."""
    found = _family_only(model, found)
    first = _family_only(model, old).permute(model.axis, [k] * found.size(model.axis))
    both, marginal = first + found, model.family.log_marginal
    return np.asarray(marginal(both) - marginal(first) - marginal(found))


def _family_only(model: Model, counts: Summary) -> Summary:
    fields = model.family.fields(model.axis)
    return Summary(fields, {name: counts[name] for name in fields})
