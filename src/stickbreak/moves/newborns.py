"""Newborns from the rows of a component, or from whole units; `blocks.py` has those from blocks.

The structure declares which of these a model uses, and in which order (`births`).
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

__all__ = ["Newborns", "newborns_from_rows", "newborns_from_seeds", "newborns_from_units"]

N_COARSE = 10  # passes of k-means that newborns begin with
LEAST_WORDS = 3.0  # units with fewer rows of the target are left out
SAMPLE_WORDS = 500_000  # most rows in a birth's sample of units


class Newborns(NamedTuple):
    """The family's counts of the newborns, and their sizes (J,) in rows.

    total : counts of all components, if newborns took rows from others than the target
    """

    counts: Summary
    sizes: Array
    total: Summary | None = None


def newborns_from_rows(scene: Scene, target: int, n_newborn: int, n_passes: int) -> Newborns | None:
    """Newborns from a mixture of the target's rows, ignoring their order.

    If that finds one cluster only, two halves of it: order may separate clusters that overlap too
    much for a mixture.
    """
    table = rows_of(scene.model, scene.sample, (target,))
    if table is None:
        return None
    mixture = scene.model.mixture()
    is_simple = mixture.family.coarse() is mixture.family
    # k-means may see one cluster where the family sees two
    for n_coarse in (0,) if is_simple else (N_COARSE, 0):
        size, n_exact = min(n_newborn, table.n_rows), 0 if n_coarse else 2
        start = from_plusplus(mixture, table, size, scene.rng, n_passes=n_exact, n_coarse=n_coarse)
        merges = (Merge(start=3),)
        found = little_fit(mixture, table, start.seed, n_passes, moves=merges, reorder=True)
        newborns = _of_some_size(mixture, found.counts)
        if newborns is not None:
            return newborns
    return newborns_from_seeds(scene, target, 2, n_passes)


def newborns_from_seeds(
    scene: Scene, target: int, n_newborn: int, n_passes: int
) -> Newborns | None:
    """Newborns that begin with a few rows of the target each; none are joined."""
    table = rows_of(scene.model, scene.sample, (target,))
    if table is None:
        return None
    mixture = scene.model.mixture()
    found = from_plusplus(mixture, table, min(n_newborn, table.n_rows), scene.rng, n_passes=2)
    return _of_some_size(mixture, found.seed)


def _of_some_size(mixture: Model, counts: Summary) -> Newborns | None:
    """The components that hold at least one row; None if there are fewer than two."""
    sizes = mixture.prior.sizes(counts)
    keep = np.flatnonzero(sizes >= 1.0)
    if len(keep) < 2:
        return None
    return Newborns(counts.permute(mixture.axis, keep.tolist()), sizes[keep])


def newborns_from_units(
    scene: Scene, target: int, n_newborn: int, n_passes: int
) -> Newborns | None:
    """Newborns from clusters of units, by each unit's sum of the target's rows.

    If the family has no such sums, clusters of rows.
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
    """(S, V) expected sums of a component's rows in sampled units; units with few are left out."""
    model = scene.model
    if scene.focus is None:
        batch = scene.data.sample(SAMPLE_WORDS, scene.rng)
    elif len(scene.focus):
        batch = scene.data.some_of(scene.focus, SAMPLE_WORDS, scene.rng)
    else:
        return np.zeros((0, n_columns))
    potentials = model.potentials(scene.total.restrict(batch.symbols), scene.params, MeanLog())
    block = batch.with_rows(model.family.prepare(batch.rows))
    local = model.structure.infer(potentials, block, None, dict(potentials.empty.empty().arrays))
    held = replace(batch, repeats=local.shares[:, [target]][:, 0])
    words = word_counts(held, n_columns)
    return words[np.flatnonzero(np.asarray(words.sum(1)).ravel() >= LEAST_WORDS)]
