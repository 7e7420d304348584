"""Newborns from the rows of a component, or from whole units; `blocks.py` has those from blocks.

Which of these a model uses, and in which order, its structure declares (`births`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stickbreak.data import Table
from stickbreak.inference import MeanLog
from stickbreak.inference.scene import Scene
from stickbreak.initialize import SMOOTHING, from_plusplus, word_counts
from stickbreak.protocols import Array
from stickbreak.stats import Summary

from .little_fits import little_fit, rows_of
from .merge import Merge

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Newborns", "newborns_from_rows", "newborns_from_units"]

N_COARSE = 10  # passes of k-means that newborns begin with
LEAST_WORDS = 3.0  # rows of a component that a unit must have to be heard
SAMPLE_WORDS = 500_000  # rows of units that a birth looks at


class Newborns(NamedTuple):
    """Counts of the family, and the rows (J,) of each newborn.

    total : counts of all components if the newborns took rows from others than the target
    """

    counts: Summary
    sizes: Array
    total: Summary | None = None


def newborns_from_rows(scene: Scene, target: int, n_newborn: int, n_passes: int) -> Newborns | None:
    """A mixture of the target's rows, whatever their order.

    If that is one cluster, two halves of it: order may tell two clusters apart that overlap too
    much for a mixture.
    """
    table = rows_of(scene.model, scene.sample, (target,))
    if table is None:
        return None
    mixture = scene.model.mixture()
    is_simple = mixture.family.coarse() is mixture.family
    # what is one cluster to k-means may be two to the family
    for n_coarse in (0,) if is_simple else (N_COARSE, 0):
        size, n_exact = min(n_newborn, table.n_rows), 0 if n_coarse else 2
        start = from_plusplus(mixture, table, size, scene.rng, n_passes=n_exact, n_coarse=n_coarse)
        merges = (Merge(start=3),)
        found = little_fit(mixture, table, start.seed, n_passes, moves=merges, reorder=True)
        newborns = _of_some_size(mixture, found.counts)
        if newborns is not None:
            return newborns
    halves = from_plusplus(mixture, table, min(2, table.n_rows), scene.rng, n_passes=2)
    return _of_some_size(mixture, halves.seed)


def _of_some_size(mixture: Model, counts: Summary) -> Newborns | None:
    """The components that hold at least one row; None when that is at most one of them."""
    sizes = mixture.prior.sizes(counts)
    keep = np.flatnonzero(sizes >= 1.0)
    if len(keep) < 2:
        return None
    return Newborns(counts.permute(mixture.axis, keep.tolist()), sizes[keep])


def newborns_from_units(
    scene: Scene, target: int, n_newborn: int, n_passes: int
) -> Newborns | None:
    """Clusters of units by the sums of the rows that they have of the target.

    Where the family has no such sums, clusters of rows.
    """
    model, grouped = scene.model, scene.model.family.grouped(SMOOTHING)
    if grouped is None:
        return newborns_from_rows(scene, target, n_newborn, n_passes)
    table = Table(_sums_of(scene, target, grouped.n_columns))
    if table.n_rows < 2:
        return None
    mixture = model.finite_mixture(grouped)
    size = min(n_newborn, table.n_rows)
    found = from_plusplus(mixture, table, size, scene.rng, n_passes=2).seed
    arrays, sizes = model.family.from_grouped(found)
    keep = np.flatnonzero(sizes >= 1.0)
    if len(keep) < 2:
        return None
    own = Summary({name: model.layout()[name] for name in arrays}, arrays)
    return Newborns(own.permute(model.axis, keep.tolist()), sizes[keep])


def _sums_of(scene: Scene, target: int, n_columns: int) -> Array:
    """(S, V) expected sums of the rows that some units have of a component; those with hardly any
    are left out.
    """
    model = scene.model
    batch = scene.data.sample(SAMPLE_WORDS, scene.rng)
    potentials = model.potentials(scene.total.restrict(batch.symbols), scene.params, MeanLog())
    block = batch.with_rows(model.family.prepare(batch.rows))
    local = model.structure.infer(potentials, block, None, dict(potentials.empty.empty().arrays))
    held = replace(batch, repeats=local.shares[:, [target]][:, 0])
    words = word_counts(held, n_columns)
    return words[np.flatnonzero(np.asarray(words.sum(1)).ravel() >= LEAST_WORDS)]
