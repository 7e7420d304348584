"""Births in a stream, for models whose changes a lap cannot track: topics, states.

Rows seen before are gone and keep their posteriors, which hold nothing of newborns. The new rows
are fitted alone first. What that finds and no known component explains as well is tried as a
newborn: the new rows are inferred again beside the counts of all earlier ones, so the bound of
every trial is exactly that of all rows seen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from stickbreak.inference import MeanLog, MoveRecord
from stickbreak.inference.posteriors import Inferred, Layer, Outcome
from stickbreak.inference.scene import Scene
from stickbreak.protocols import Array
from stickbreak.stats import Fields, Regroup, Summary

from .little_fits import Goal
from .partial_fits import PartialFit
from .trials import LEAST_GAIN, TOL

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["are_explained", "gain_together", "idle_components", "join_stream"]

N_PASSES = 50
FEW_ROWS = 8.0  # a component of fewer is idle
MISFIT = 3.0  # |z| of a component's new rows from which newborns are looked for


def idle_components(scene: Scene) -> Array:
    """Components that hold next to nothing of the rows seen before, ascending."""
    return np.flatnonzero(scene.sizes < min(FEW_ROWS, 0.01 * float(scene.sizes.sum())))


def are_explained(scene: Scene) -> bool:
    """Whether the new rows look as the known components expect, and lie where these lie.

    False if the family cannot tell. Rows of a new cluster may all be those of one component that
    has no others in this call: then their shape says nothing, but they and the rows seen before
    are better explained apart.
    """
    if scene.misfit is None or not (scene.misfit < MISFIT).all():
        return False
    family, sample = scene.model.family, scene.sample
    out = dict(scene.total.empty().arrays)
    rows = family.prepare(sample.batch.rows)
    family.mean_log(scene.total).collect(rows, np.asfortranarray(sample.shares), out)
    new = replace(scene.total.empty(), arrays=out)
    alone = family.log_marginal(scene.total) + family.log_marginal(new)
    return bool((family.log_marginal(scene.total + new) >= alone).all())


def join_stream(
    scene: Scene, alone: Summary | None, idle: Array | None = None
) -> tuple[Outcome, MoveRecord | None]:
    """All rows seen, with the newborns that pay for themselves; a record of them if some did.

    scene : counts and parameters of the rows seen before; its data are the new rows
    alone : counts of a fit to the new rows; None for no newborns
    idle : components that newborns fill, where their number is fixed
    """
    if alone is None:
        return _outcome(scene, _fit(scene, scene.total, 0, -np.inf)), None
    model, K, began = scene.model, len(scene.ids), time.monotonic()
    likes = np.array([gain_together(model, scene.total, alone, k) for k in range(K)])
    if idle is not None:
        likes[idle] = -np.inf
    known = _fit(scene, scene.total + _matched(model, alone, likes, {}), 0, -np.inf)
    new = np.flatnonzero((likes.max(0) < 0) & (model.prior.sizes(alone) >= 1.0))
    if idle is not None:
        new = new[np.argsort(-model.prior.sizes(alone)[new], kind="stable")][: len(idle)]
    if not len(new):
        return _outcome(scene, known), None
    homes = range(K, K + len(new)) if idle is None else idle.tolist()
    n_born = len(new) if idle is None else 0
    start = scene.total.insert(model.axis, n_born)
    start = start + _matched(model, alone, likes, dict(zip(homes, new.tolist(), strict=False)))
    born = _fit(scene, start, n_born, known.bound)
    born = _with_fewer(scene, born) if n_born > 1 else born
    gain, best = born.bound - known.bound, known
    is_accepted = gain > LEAST_GAIN
    if is_accepted:
        best = born
    found = _outcome(scene, best)
    children = found.ids if is_accepted else ()
    cost = scene.data.n_spans, float(known.n_infers + born.n_infers), time.monotonic() - began
    record = scene.lap + 1, "birth", scene.ids, children, gain, gain, is_accepted, *cost
    return found, MoveRecord(*record)


def gain_together(model: Model, old: Summary, found: Summary, k: int) -> Array:
    """(J,) what the family gains if old component k and each found one are one component."""
    first = old.permute(model.axis, [k] * found.size(model.axis))
    together = model.family.log_marginal(first + found)
    return np.asarray(
        together - model.family.log_marginal(first) - model.family.log_marginal(found)
    )


def _matched(model: Model, alone: Summary, likes: Array, new: Mapping[int, int]) -> Summary:
    """The counts of a fit alone, each component in the place of the known one most like it.

    likes (K, J) : see `gain_together`; new : by their place, components with one of their own
    """
    places = likes.argmax(0)
    places[list(new.values())] = list(new)
    n_places = max([len(likes), *(home + 1 for home in new)])
    sources = [tuple(np.flatnonzero(places == k).tolist()) for k in range(n_places)]
    return Regroup(model.axis, tuple(sources), ())(replace(alone, sides={}))


def _with_fewer(scene: Scene, fit: PartialFit) -> PartialFit:
    """The fit without the newborns that the bound is higher without, the smallest tried first."""
    model, K, n_infers = scene.model, len(scene.ids), fit.n_infers
    names = list(range(fit.total.size(model.axis)))
    for name in K + np.argsort(model.prior.sizes(fit.total)[K:], kind="stable"):
        keep = [at for at, old in enumerate(names) if old != name]
        if len(keep) == K:
            break
        fewer = _fit(scene, fit.total.permute(model.axis, keep), len(keep) - K, fit.bound)
        n_infers += fewer.n_infers
        if fewer.bound > fit.bound:
            fit, names = fewer, [old for old in names if old != name]
    fit.n_infers = n_infers
    return fit


def _fit(scene: Scene, start: Summary, n_born: int, wanted: float) -> PartialFit:
    """The new rows beside the counts of all earlier ones, with newborns behind all components."""
    model, K, data = scene.model, len(scene.ids), scene.data
    params = _params(scene, n_born)
    sources = (*((k,) for k in range(K)), *((),) * n_born)
    how = Regroup(model.axis, sources, ())
    part = replace(scene.none_kept()[1], layers=(_seen(scene),), how=how)
    fit = PartialFit(model, part, model.prior.loosened(start, params), params, scene.pool)
    patience = model.structure.patience if np.isfinite(wanted) else np.inf
    fit.run(N_PASSES, Goal(wanted, patience=patience), TOL * data.n_observations)
    return fit


def _seen(scene: Scene) -> Layer:
    """The rows seen before: counts without units."""
    total, params = replace(scene.total, sides={}), scene.params
    found = Inferred(total, None, sparse.csc_array((0, len(scene.ids))))
    tables = scene.model.prior.potentials(total, params, MeanLog())
    return Layer(np.zeros(0, dtype=np.int64), total, params, None, found, tables, total)


def _params(scene: Scene, n_born: int) -> Fields:
    """Parameters with newborns, to which half of the unused mass of shares goes."""
    if not n_born:
        return scene.params
    axis = scene.model.axis
    params = scene.params.insert(axis, n_born)
    arrays = dict(params.arrays)
    for name, field in params.layout.items():
        if field.axes == (axis,) and field.merge == "add":
            shares = np.array(arrays[name])
            shares[-n_born:] = max(1.0 - shares.sum(), 0.0) / (2 * n_born)
            arrays[name] = shares
    return replace(params, arrays=arrays)


def _outcome(scene: Scene, fit: PartialFit) -> Outcome:
    n_born = fit.total.size(scene.model.axis) - len(scene.ids)
    ids = (*scene.ids, *range(scene.next_id, scene.next_id + n_born))
    nobody = scene.none_kept()[0]
    return Outcome(fit.total, fit.params, ids, scene.next_id + n_born, fit.bound, nobody)
