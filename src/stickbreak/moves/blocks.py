"""Newborns from blocks of successive rows that would be better off as components of their own.

A block of rows w gains, as the only rows of a component, in the data's part of the bound

    log m(w) - sum over k of [log m(rows of k) - log m(rows of k without those of w)],

where m is the marginal likelihood of a component's rows. This is known before anything is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference.scene import Scene
from stickbreak.initialize import choose_blocks, count_labels
from stickbreak.protocols import Array
from stickbreak.stats import Summary

from .little_fits import side_by_side
from .newborns import Newborns

__all__ = ["count_rows", "newborns_from_blocks", "worth_of_blocks"]

LENGTHS = (20, 40, 80)  # rows of a block
N_BLOCKS = 64  # most blocks evaluated of each length
NUMBERS = 1 << 22  # most numbers in the counts of all of them


def newborns_from_blocks(
    scene: Scene, target: int, n_newborn: int, n_passes: int
) -> Newborns | None:
    """The target, then one newborn for each block around rows of it.

    The blocks' rows are taken from whichever components held them. Rows with a known label stay.
    None if no block would gain.
    """
    sample, model = scene.sample, scene.model
    K, owners = len(scene.ids), sample.shares.argmax(1)
    is_free = np.full(len(owners), True) if sample.batch.sets is None else sample.batch.sets == 0
    labels, used = owners.copy(), 0
    for begin, end in _best_blocks(scene, owners, is_free, target):
        if used < n_newborn and (labels[begin:end] < K).all():
            labels[begin:end] = np.where(is_free[begin:end], K + used, labels[begin:end])
            used += 1
    if used == 0:
        return None
    newborn = count_rows(scene, np.where(labels >= K, labels - K, -1), [target] * used)
    total = scene.total
    # if the data are larger, components hardly notice the loss
    if scene.data.n_observations <= sample.batch.n_observations * (1.0 + 1e-9):
        left = count_rows(scene, np.where(labels < K, labels, -1), range(K))
        kept = {name: left[name] for name in model.family.fields(model.axis)}
        total = replace(total, arrays={**total.arrays, **kept})
    own = total.permute(model.axis, [target])
    fields = model.family.fields(model.axis)
    parts = [Summary(fields, {name: part[name] for name in fields}) for part in (own, newborn)]
    sizes = np.append(np.maximum(scene.sizes[[target]], 1.0), model.mixture().prior.sizes(newborn))
    return Newborns(side_by_side(parts, model.axis), sizes, total)


def _best_blocks(scene: Scene, owners: Array, is_free: Array, target: int) -> list[tuple[int, int]]:
    """(begin, end) of random blocks that gain, the best first."""
    numbers = sum(array.size for array in scene.model.family.zeros(1).values())
    n_blocks = max(1, min(N_BLOCKS, NUMBERS // (4 * numbers)))  # each has about four owners
    found = []
    for length in LENGTHS:
        blocks = choose_blocks(
            scene.sample.batch, n_blocks, length, scene.rng, is_free & (owners == target)
        )
        if blocks:
            found += list(zip(worth_of_blocks(scene, owners, target, blocks), blocks, strict=True))
    return [block for gain, block in sorted(found, reverse=True) if gain > 0.0]


def worth_of_blocks(
    scene: Scene, owners: Array, target: int, blocks: list[tuple[int, int]]
) -> list[float]:
    """Gain of each block alone as a component, if each sampled row belonged to its owner (n,)."""
    n_blocks, log_marginal = len(blocks), scene.model.family.log_marginal
    labels = np.full(len(owners), -1)
    for b, (begin, end) in enumerate(blocks):
        labels[begin:end] = b
    inside = np.flatnonzero(labels >= 0)
    # parts of blocks, one for each owner
    parts, which = np.unique(labels[inside] + n_blocks * owners[inside], return_inverse=True)
    part_of = np.full(len(owners), -1)
    part_of[inside] = which
    concerned, at = np.unique(parts // n_blocks, return_inverse=True)
    position = np.full(len(scene.ids), -1)
    position[concerned] = np.arange(len(concerned))
    had = count_rows(scene, position[owners], concerned).permute(scene.model.axis, at.tolist())
    taken = count_rows(scene, part_of, parts // n_blocks)
    worth = log_marginal(count_rows(scene, labels, [target] * n_blocks))
    np.subtract.at(worth, parts % n_blocks, log_marginal(had) - log_marginal(had - taken))
    return [float(gain) for gain in worth]


def count_rows(scene: Scene, labels: Array, like: Sequence[int] | Array) -> Summary:
    """Counts, as in a mixture, of the sampled rows by labels (n,); -1 is not counted.

    like : for each label, the component that provides reference points of moments, and fills
        missing entries of its rows
    """
    model, batch, rows = scene.model, scene.sample.batch, np.flatnonzero(labels >= 0)
    known, empty = (
        scene.total.permute(model.axis, [int(k) for k in like]),
        model.mixture().zeros(len(like)),
    )
    own = {name: known[name] for name in model.family.fields(model.axis)}
    like_those = replace(empty, arrays={**empty.arrays, **own})
    part = Batch(0, batch.rows[rows], repeats=batch.repeats_or_ones()[rows], symbols=batch.symbols)
    return count_labels(model.mixture(), part, labels[rows], len(like), like=like_those)
