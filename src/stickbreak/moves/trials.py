"""Trials: a move that a lap cannot track fits the units it touches from a changed start.

If a trial ends above the bound of the fit, the fit continues from it; else it is dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.errors import ImpossibleError
from stickbreak.inference import MeanLog
from stickbreak.inference.posteriors import OwnCounts, Part, Posteriors
from stickbreak.inference.proposals import TIE, Outcome
from stickbreak.inference.scene import Scene
from stickbreak.protocols import Array
from stickbreak.stats import NOTHING, Fields, Fold, Regroup, Summary, Tally

from .little_fits import Goal, little_fit, overrated
from .partial_fits import PartialFit

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .newborns import Newborns

__all__ = ["join", "keeps_some", "split", "try_fit", "try_sweeps"]

# Share of a target's steps to itself that stay within a newborn. If all did, a short chain would
# not leave the newborn that it begins with, however little that one explains.
STAY = 0.9
TOL = 1e-5  # nats per observation; a trial ends with a pass that gains less
LOOK = 0.25  # part of the touched units that a trial looks at first
MANY_UNITS = 256  # touched units from which on it does
# A trial without a component looks at so many units and rows first, if there are more than twice
# as many: what most of them lose shows there.
FEW_UNITS, FEW_ROWS = 5, 5_000
LEAST_GAIN = 0.1  # nats; a few more passes may gain as much with any components


def try_fit(
    scene: Scene,
    counts: Summary,
    params: Fields,
    kept: list[int],
    n_passes: int,
    how: Regroup | None = None,
    least: float = NOTHING,
) -> Outcome | None:
    """Fit from changed counts; components beyond those `kept` (permanent ids) are new.

    Units that hold no more than `least` rows of what changes keep their posteriors. Units with
    values of their own (documents) start cold: a warm start would keep them where they are.

    how : what happens to the components in units that keep their posteriors; None if none does
    """
    model, data = scene.model, scene.data
    posteriors, part, bound = _touched(scene, counts, params, how, least)
    loose = replace(model.prior.loosened(counts, params), sides={})
    scene.spent.n_passes += part.n_again / data.n_spans
    fit = PartialFit(model, part, loose, params, scene.pool)
    n_lost = max(0, len(scene.ids) - counts.size(model.axis))
    share = 1.0 if part.how is None else _share_seen(part, n_lost)
    if share < 1.0:
        scene.spent.gain = _look(scene, fit, n_passes, share, n_lost)
        if scene.spent.gain < 0.0:
            return None
    goal = _goal(model, bound, n_lost)
    try:
        fit.run(n_passes if len(part.units) else 1, goal, TOL * data.n_observations)
    except ImpossibleError:  # too few components, as one that may not follow itself
        return None
    scene.spend(part, fit.n_infers)
    scene.spent.n_units, scene.spent.gain = len(part.units), fit.bound - bound
    if not fit.bound > bound + max(LEAST_GAIN, TIE * abs(bound)):
        return None
    assert fit.source is not None
    assert fit.found is not None
    born = counts.size(model.axis) - len(kept)
    ids = (*kept, *range(scene.next_id, scene.next_id + born))
    own = posteriors.layer(part.units, *fit.source, fit.start, fit.found)
    after = replace(posteriors, layers=(*fit.layers, own) if len(part.units) else fit.layers)
    return Outcome(fit.total, fit.params, ids, scene.next_id + born, fit.bound, after)


def try_sweeps(
    scene: Scene,
    counts: Summary,
    params: Fields,
    own: Fields,
    ids: tuple[int, ...],
    n_passes: int,
) -> Outcome | None:
    """Collapsed sweeps from changed own counts, whose sums are `counts`."""
    goal = Goal(scene.bound, patience=scene.model.structure.patience)
    model, data, pool = scene.model, scene.data, scene.pool
    found = little_fit(model, data, counts, n_passes, goal=goal, params=params, own=own, pool=pool)
    scene.spend(scene.none_kept()[1], len(found.trace))
    scene.spent.n_units, scene.spent.gain = scene.data.n_spans, found.bound - scene.bound
    if not found.bound > scene.bound + max(LEAST_GAIN, TIE * abs(scene.bound)):
        return None
    kept = OwnCounts(found.warm())
    return Outcome(found.counts, found.params, ids, scene.next_id, found.bound, kept)


def _goal(model: Model, bound: float, n_lost: int) -> Goal:
    """What ends a trial that will not reach a bound. n_lost : components that it does without"""
    structure = model.structure
    least_closed = structure.least_closed if n_lost else 0.0
    return Goal(bound, patience=structure.patience, least_closed=least_closed)


def _share_seen(part: Part, n_lost: int) -> float:
    """Part of the touched units to look at first; 1 for no look. n_lost : components that go."""
    n_units, n_rows = len(part.units), sum(batch.n_rows for batch in part.batches)
    if n_units >= MANY_UNITS:
        return LOOK
    few = max(FEW_UNITS / max(n_units, 1), FEW_ROWS / max(n_rows, 1))
    return few if n_lost and few < 0.5 else 1.0


def _look(scene: Scene, fit: PartialFit, n_passes: int, share: float, n_lost: int) -> float:
    """What a trial gains on some of the touched units, which stand for all of them.

    A sample promises too much: its units count several times, and so does what fits by chance. So
    what gains nothing here is hopeless. It also fits the sample too well to begin with what it
    found. What would go is overrated as well, and few units overrate it by much.

    n_lost : components that go
    """
    model, (some, known) = scene.model, _seen_first(scene, fit.part, share)
    scale = len(fit.part.units) / len(some.units)
    is_few = len(fit.part.units) < MANY_UNITS
    bound = known - (n_lost * overrated(model, 1.0 / share) if is_few else 0.0)
    goal = _goal(model, bound, n_lost)
    look = replace(fit, part=some, scale=scale)
    look.run(n_passes, goal, TOL * scene.data.n_observations, enough=bound)
    scene.spend(some, look.n_infers)
    scene.spent.n_units = len(some.units)
    return look.bound - bound


def _seen_first(scene: Scene, part: Part, share: float) -> tuple[Part, float]:
    """Some of the touched units, and the bound if they stood for all of those.

    The same for all trials of a scene that touch all units: only one of them pays for it.
    """
    is_all = len(part.units) == scene.data.n_spans
    if is_all and share in scene.seen_first:
        known, bound = scene.seen_first[share]
        return replace(part, units=known.units, batches=known.batches), bound
    model, some = scene.model, part.some(share, scene.posteriors, scene.rng)
    scale = len(part.units) / len(some.units)
    before = Tally(scene.posteriors.counts_of(some.units).scale(scale))
    for layer in some.layers:
        before.add(layer.counts)
    params = model.global_step(before.view(), scene.params)
    bound = float(model.bound(before.view(), params))
    scene.spend(some, 1)
    if is_all:
        scene.seen_first[share] = some, bound
    return some, bound


def _touched(
    scene: Scene, counts: Summary, params: Fields, how: Regroup | None, least: float
) -> tuple[Posteriors, Part, float]:
    """The posteriors, the part of the units that a trial infers again, and the bound to beat."""
    model = scene.model
    if how is not None and keeps_some(scene, how.taken):
        prior, rule = model.prior, MeanLog()
        now = prior.potentials(scene.total, scene.params, rule)
        then = prior.potentials(counts, params, rule)
        if model.structure.regroup(now, then, how) is not None:
            found = scene.posteriors
            return found, found.part(how, least), scene.bound_to_beat
    return *scene.none_kept(), scene.bound


def keeps_some(scene: Scene, taken: tuple[int, ...]) -> bool:
    """Whether units that hold nothing of some components may keep their posteriors."""
    return scene.model.structure.least_held is not None and len(taken) < len(scene.ids)


def join(scene: Scene, taken: tuple[int, ...]) -> tuple[Scene, int]:
    """The scene with the components at some positions merged, and the position of the result."""
    first, axis = min(taken), scene.model.axis
    total, params, ids, shares = scene.total, scene.params, scene.ids, scene.sample.shares
    for drop in sorted(set(taken) - {first}, reverse=True):
        fold = Fold(axis, first, drop)
        total, params, ids = fold(total), fold(params), fold.rename(ids, scene.next_id)
        both = shares[:, first] + shares[:, drop]
        shares = np.delete(shares, drop, axis=1)
        shares[:, first] = both
    joined = replace(scene, total=total, params=params, ids=ids)
    joined.sample = replace(scene.sample, shares=shares)  # not drawn again
    return joined, first


def split(scene: Scene, target: int, newborns: Newborns) -> tuple[Summary, Fields]:
    """Counts and parameters with newborns in place of the target, at the end.

    The prior's counts are divided by size. Most steps from the target to itself stay within the
    same newborn. Where newborns begin with seeds, their rules are divided at random: those that are
    alike would stay alike. Clusters of rows differ by themselves.
    """
    model, axis = scene.model, scene.model.axis
    is_seeded = any(division.by == "seeds" for division in model.structure.births)
    others = [k for k in range(len(scene.ids)) if k != target]
    shares = newborns.sizes / newborns.sizes.sum()
    order = [*others, *[target] * len(shares)]
    total = scene.total if newborns.total is None else newborns.total
    wide, kept = total.permute(axis, order), total.permute(axis, others)
    known = {**newborns.counts.arrays, **model.prior.of_sizes(newborns.sizes)}
    arrays = {}
    for name, field in wide.layout.items():
        if name in known:
            arrays[name] = np.concatenate([kept[name], known[name]], axis=field.axes.index(axis))
        else:
            arrays[name] = _share_out(wide[name], field.axes, axis, shares)
            if is_seeded and field.axes.count(axis) == 3:
                arrays[name] = _unlike(arrays[name], len(shares), scene.rng)
    params = scene.params.permute(axis, order)
    own = {
        n: _share_out(a, params.layout[n].axes, axis, shares)
        for n, a in params.arrays.items()
        if params.layout[n].merge == "add"
    }
    return replace(wide, arrays=arrays, sides={}), replace(params, arrays={**params.arrays, **own})


def _share_out(values: Array, axes: tuple[str | None, ...], axis: str, shares: Array) -> Array:
    """Multiply the last slots along each `axis`, which hold the same value, by their shares."""
    out, last = np.array(values, dtype=float), slice(-len(shares), None)
    where = [dimension for dimension, name in enumerate(axes) if name == axis]
    for dimension in where:
        np.moveaxis(out, dimension, -1)[..., last] *= shares
    if len(where) == 2:  # from row to column, for each entry of other axes
        both = np.moveaxis(out, where, (-2, -1))[..., last, last]
        stays = np.eye(len(shares)) * both.sum(axis=-1, keepdims=True)
        both[...] = STAY * stays + (1.0 - STAY) * both
    return out


def _unlike(rules: Array, n_new: int, rng: np.random.Generator) -> Array:
    """Rules (K, K, K) with those of the last n_new categories at random; the sum stays."""
    is_new = np.arange(len(rules)) >= len(rules) - n_new
    takes_part = is_new[:, None, None] | is_new[:, None] | is_new
    found = np.where(takes_part, rules * rng.standard_exponential(rules.shape), rules)
    divided, total = found[takes_part].sum(), rules[takes_part].sum()
    found[takes_part] *= total / divided if divided > 0 else 1.0
    return found
