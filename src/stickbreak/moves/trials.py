"""Moves of structures whose changes cannot be tracked during a lap: all data are fitted for some
passes from a changed start.

What ends above the bound that the fit had is where it goes on; else nothing has happened.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stickbreak.inference.proposals import TIE, Outcome, Scene
from stickbreak.initialize import from_plusplus
from stickbreak.models import dp_mixture
from stickbreak.protocols import Array
from stickbreak.stats import Fields, Fold, Summary

from .merge import Merge
from .redistribute import little_fit, rows_of

__all__ = ["clusters_of", "join", "split", "try_fit"]

N_COARSE = 10  # passes of k-means that newborns begin with
# Share of a target's steps to itself that do not go from one newborn to another. If none did, a
# short chain would not leave the
# newborn that it begins with, however little that one explains.
STAY = 0.9
LEAST_GAIN = 0.1  # nats: less may be had by a few passes more, whatever the components
# times the passes that a trial needs if its gains go on shrinking as they do, it is given
PATIENCE = 3.0


def try_fit(
    scene: Scene, counts: Summary, params: Fields, kept: list[int], n_passes: int
) -> Outcome | None:
    """All data fitted from changed counts; components beyond those `kept` (permanent ids) are new.

    Units that keep values of their own (documents) begin afresh: from those that they have they
    would not leave what they know.
    """
    model, bound = scene.model, scene.bound
    found = little_fit(
        model, scene.data, counts, n_passes, wanted=bound, params=params, patience=PATIENCE
    )
    if not found.bound > bound + max(LEAST_GAIN, TIE * abs(bound)):
        return None
    n_born = counts.size(model.axis) - len(kept)
    names = [*kept, *range(scene.next_id, scene.next_id + n_born)]
    ids = tuple(names[i] for i in found.ids)  # merges keep the elder
    return Outcome(
        found.counts, found.params, ids, scene.next_id + n_born, found.bound, found.warm()
    )


def join(scene: Scene, taken: tuple[int, ...]) -> tuple[Scene, int]:
    """The scene with the components at some positions as one, and where that is."""
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


def split(scene: Scene, target: int, newborn: Summary) -> tuple[Summary, Fields]:
    """Counts and parameters in which newborns (counts of the family, and their rows as "share")
    stand for the target, at the end.

    What the structure counts is shared out by size; of the steps from the target to itself most
    stay with the newborn that they are of.
    """
    axis = scene.model.axis
    others = [k for k in range(len(scene.ids)) if k != target]
    shares = newborn["share"] / newborn["share"].sum()
    order = [*others, *[target] * len(shares)]
    wide = scene.total.permute(axis, order)
    arrays = {}
    for name, field in wide.layout.items():
        if name in newborn:
            kept = scene.total.permute(axis, others)[name]
            arrays[name] = np.concatenate([kept, newborn[name]], axis=field.axes.index(axis))
        else:
            arrays[name] = _share_out(wide[name], field.axes, axis, shares)
    params = scene.params.permute(axis, order)
    own = {
        n: _share_out(a, params.layout[n].axes, axis, shares)
        for n, a in params.arrays.items()
        if params.layout[n].merge == "add"
    }
    return replace(wide, arrays=arrays, sides={}), replace(params, arrays={**params.arrays, **own})


def _share_out(values: Array, axes: tuple[str | None, ...], axis: str, shares: Array) -> Array:
    """The last slots along each `axis` hold the same value: their shares of it."""
    out, last = np.array(values, dtype=float), slice(-len(shares), None)
    where = [dimension for dimension, name in enumerate(axes) if name == axis]
    for dimension in where:
        np.moveaxis(out, dimension, -1)[..., last] *= shares
    if len(where) == 2:
        both = np.moveaxis(out, where, (0, 1))[last, last]
        both[...] = STAY * np.diag(both.sum(axis=1)) + (1.0 - STAY) * both
    return out


def clusters_of(
    scene: Scene, target: int, n_newborn: int, n_passes: int
) -> tuple[Scene, Summary] | None:
    """The scene as it is, and counts of newborns: a mixture of the target's rows, whatever their
    order.

    If that is one cluster, two halves of it: order may tell two clusters apart that overlap too
    much for a mixture.
    """
    table = rows_of(scene.model, scene.sample, (target,))
    if table is None:
        return None
    mixture = dp_mixture(scene.model.family)
    is_simple = mixture.family.coarse() is mixture.family
    # what is one cluster to k-means may be two to the family
    for n_coarse in (0,) if is_simple else (N_COARSE, 0):
        size = min(n_newborn, table.n_rows)
        start = from_plusplus(
            mixture, table, size, scene.rng, n_passes=0 if n_coarse else 2, n_coarse=n_coarse
        )
        found = little_fit(
            mixture, table, start.seed, n_passes, moves=(Merge(start=3),), reorder=True
        )
        newborn = _of_some_size(found.counts, mixture.axis)
        if newborn is not None:
            return scene, newborn
    halves = from_plusplus(mixture, table, min(2, table.n_rows), scene.rng, n_passes=2)
    newborn = _of_some_size(halves.seed, mixture.axis)
    return None if newborn is None else (scene, newborn)


def _of_some_size(counts: Summary, axis: str) -> Summary | None:
    """The components that hold at least one row; None when that is at most one of them."""
    keep = np.flatnonzero(counts["share"] >= 1.0)
    return None if len(keep) < 2 else counts.permute(axis, keep.tolist())
