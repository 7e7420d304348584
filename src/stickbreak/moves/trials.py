"""Moves of structures whose changes cannot be tracked during a lap: all data are fitted for some passes from a changed start.

What ends above the bound that the fit had is where it goes on; else nothing has happened.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference.proposals import TIE, Outcome, Scene
from stickbreak.initialize import choose_blocks, count_labels, from_plusplus
from stickbreak.models import dp_mixture
from stickbreak.protocols import Array
from stickbreak.stats import Fields, Summary

from .merge import Merge
from .redistribute import little_fit, rows_of

__all__ = ["blocks_of", "clusters_of", "split", "try_fit"]

N_COARSE = 10  # passes of k-means that newborns begin with
# Share of a target's steps to itself that do not go from one newborn to another. If none did, a short chain would not leave the
# newborn that it begins with, however little that one explains.
STAY = 0.9
BLOCK_ROWS = 20  # of a contiguous block, at most


def try_fit(scene: Scene, counts: Summary, params: Fields, kept: list[int], n_passes: int) -> Outcome | None:
    """All data fitted from changed counts; components beyond those `kept` (permanent ids) are new."""
    model, bound = scene.model, scene.bound
    found = little_fit(model, scene.data, counts, n_passes, wanted=bound, params=params)
    if not found.bound > bound + TIE * max(1.0, abs(bound)):
        return None
    n_born = counts.size(model.axis) - len(kept)
    names = [*kept, *range(scene.next_id, scene.next_id + n_born)]
    ids = tuple(names[i] for i in found.ids)  # merges keep the elder
    return Outcome(found.counts, found.params, ids, scene.next_id + n_born, found.bound)


def split(scene: Scene, target: int, newborn: Summary) -> tuple[Summary, Fields]:
    """Counts and parameters in which newborns (counts of the family, and their rows as "share") stand for the target, at the end.

    What the structure counts is shared out by size; of the steps from the target to itself most stay with the newborn that they
    are of.
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
        n: _share_out(a, params.layout[n].axes, axis, shares) for n, a in params.arrays.items() if params.layout[n].merge == "add"
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


def clusters_of(scene: Scene, target: int, n_newborn: int, n_passes: int) -> Summary | None:
    """Counts of newborns: a mixture of the target's rows, whatever their order; if that is one cluster, two halves of it.

    Their order may tell two clusters apart that overlap too much for a mixture.
    """
    table = rows_of(scene.model, scene.sample, (target,))
    if table is None:
        return None
    mixture = dp_mixture(scene.model.family)
    is_simple = mixture.family.coarse() is mixture.family
    for n_coarse in (0,) if is_simple else (N_COARSE, 0):  # what is one cluster to k-means may be two to the family
        size = min(n_newborn, table.n_rows)
        start = from_plusplus(mixture, table, size, scene.rng, n_passes=0 if n_coarse else 2, n_coarse=n_coarse)
        found = little_fit(mixture, table, start.seed, n_passes, moves=(Merge(start=3),), reorder=True)
        newborn = _of_some_size(found.counts, mixture.axis)
        if newborn is not None:
            return newborn
    halves = from_plusplus(mixture, table, min(2, table.n_rows), scene.rng, n_passes=2)
    return _of_some_size(halves.seed, mixture.axis)


def blocks_of(scene: Scene, target: int, n_newborn: int, n_passes: int) -> Summary | None:
    """Counts of newborns: one contiguous block of rows each, most of whose rows are the target's."""
    sample, mixture = scene.sample, dp_mixture(scene.model.family)
    is_target = sample.shares[:, target] > 0.5 * sample.batch.repeats_or_ones()
    blocks = choose_blocks(sample.batch, n_newborn, BLOCK_ROWS, scene.rng, is_target)
    labels = np.full(sample.batch.n_rows, -1)
    for k, (begin, end) in enumerate(blocks):
        labels[begin:end] = k
    labels[~is_target] = -1
    rows = np.flatnonzero(labels >= 0)
    if len(rows) < 2:
        return None
    batch = Batch(0, sample.batch.rows[rows], repeats=sample.mass((target,))[rows])
    counts = count_labels(mixture, batch, labels[rows], len(blocks))
    return _of_some_size(counts, mixture.axis)


def _of_some_size(counts: Summary, axis: str) -> Summary | None:
    """The components that hold at least one row; None when that is at most one of them."""
    keep = np.flatnonzero(counts["share"] >= 1.0)
    return None if len(keep) < 2 else counts.permute(axis, keep.tolist())
