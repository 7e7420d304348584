"""Births of chains from contiguous rows: pieces of sequences that would be better off as components of their own.

What a block of rows w gains as the only rows of a component, in the data's part of the bound,

    log m(w) - sum over k of [log m(rows of k) - log m(rows of k without those of w)],

is known before anything is fitted; m is the marginal likelihood of a component's rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference.proposals import Scene
from stickbreak.initialize import choose_blocks, count_labels
from stickbreak.models import dp_mixture
from stickbreak.protocols import Array
from stickbreak.stats import Summary

from .redistribute import side_by_side

__all__ = ["segments_of", "worth_of_blocks"]

LENGTHS = (20, 40, 80)  # rows of a block
N_BLOCKS = 64  # of a length that are looked at


def segments_of(scene: Scene, target: int, n_newborn: int, n_passes: int) -> tuple[Scene, Summary] | None:
    """A scene whose components have lost some blocks, and counts: those of the target, then those of the blocks, a newborn each.

    The blocks are around rows of the target, whoever else has rows in them. None if not one would gain.
    """
    model, sample = scene.model, scene.sample
    K, owners = len(scene.ids), sample.shares.argmax(1)
    labels, used = owners.copy(), 0
    for begin, end in _best_blocks(scene, owners, target):
        if used < n_newborn and (labels[begin:end] < K).all():
            labels[begin:end] = K + used
            used += 1
    if used == 0:
        return None
    counts = count_rows(model, sample.batch, labels, K + used)
    if sample.scale == 1.0:  # of more data than these, components hardly notice the loss
        left = counts.permute(model.axis, range(K))
        kept = {name: left[name] for name in model.family.fields(model.axis)}
        scene = replace(scene, total=replace(scene.total, arrays={**scene.total.arrays, **kept}))
    newborn = counts.permute(model.axis, range(K, K + used))
    own = scene.total.permute(model.axis, [target])
    arrays = {name: np.maximum(scene.sizes[[target]], 1.0) if name == "share" else own[name] for name in newborn}
    return scene, side_by_side([replace(newborn, arrays=arrays), newborn], model.axis)


def _best_blocks(scene: Scene, owners: Array, target: int) -> list[tuple[int, int]]:
    """(begin, end) of random blocks that gain, the best first."""
    found = []
    for length in LENGTHS:
        blocks = choose_blocks(scene.sample.batch, N_BLOCKS, length, scene.rng, owners == target)
        if blocks:
            found += list(zip(worth_of_blocks(scene, owners, blocks), blocks, strict=True))
    return [block for gain, block in sorted(found, reverse=True) if gain > 0.0]


def worth_of_blocks(scene: Scene, owners: Array, blocks: list[tuple[int, int]]) -> list[float]:
    """What each block alone would gain as a component, if rows of the sample belonged to their owners (n,) only."""
    model, batch, n_blocks = scene.model, scene.sample.batch, len(blocks)
    labels = np.full(batch.n_rows, -1)
    for b, (begin, end) in enumerate(blocks):
        labels[begin:end] = b
    inside = np.flatnonzero(labels >= 0)
    parts, which = np.unique(labels[inside] + n_blocks * owners[inside], return_inverse=True)  # of blocks, by their owners
    part_of = np.full(batch.n_rows, -1)
    part_of[inside] = which
    log_marginal, all_rows = model.family.log_marginal, count_rows(model, batch, owners, len(scene.ids))
    taken = count_rows(model, batch, part_of, len(parts))
    had = all_rows.permute(model.axis, (parts // n_blocks).tolist())
    worth = log_marginal(count_rows(model, batch, labels, n_blocks))
    np.subtract.at(worth, parts % n_blocks, log_marginal(had) - log_marginal(had - taken))
    return [float(gain) for gain in worth]


def count_rows(model: object, batch: Batch, labels: Array, n_components: int) -> Summary:
    """The family's counts, and rows as "share", of the rows that labels (n,) name; -1 belongs to nobody."""
    rows = np.flatnonzero(labels >= 0)
    repeats = None if batch.repeats is None else batch.repeats[rows]
    part = Batch(0, batch.rows[rows], repeats=repeats, symbols=batch.symbols)
    return count_labels(dp_mixture(model.family), part, labels[rows], n_components)  # type: ignore[attr-defined]
