"""Starts for sequences: each component starts from one contiguous block of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference import Start
from stickbreak.inference.engine import Data
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array

from .counts import count_labels
from .plusplus import SAMPLE_ROWS, examples_of_sets

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["choose_blocks", "from_blocks"]

MAX_CANDIDATES = 1000  # blocks that a start selects from; all their pairs are compared
MAX_NUMBERS = 1 << 24  # limit for the statistics of all candidates: about 128 MB


def choose_blocks(
    batch: Batch, n_blocks: int, length: int, rng: np.random.Generator, within: Array | None = None
) -> list[tuple[int, int]]:
    """(begin, end) of up to n_blocks random blocks of `length` rows that do not overlap.

    A block lies within one sequence; a shorter sequence is a block as a whole.

    within (n,) : rows at which a block may be centered. Default: all with positive weight.
    """
    assert batch.offsets is not None
    possible = np.flatnonzero((batch.repeats_or_ones() > 0) & (True if within is None else within))
    taken = np.zeros(batch.n_rows, dtype=bool)
    found: list[tuple[int, int]] = []
    for row in rng.permutation(possible):
        unit = int(np.searchsorted(batch.offsets, row, side="right")) - 1
        first, last = int(batch.offsets[unit]), int(batch.offsets[unit + 1])
        begin = max(first, min(int(row) - length // 2, last - length))
        end = min(last, begin + length)
        if taken[begin:end].any():
            continue
        taken[begin:end] = True
        found.append((begin, end))
        if len(found) == n_blocks:
            break
    return found


def from_blocks(
    model: Model,
    data: Data,
    n_components: int,
    rng: np.random.Generator,
    *,
    length: int = 20,
    candidates: int = 1,
    legal: Array | None = None,
) -> Start:
    """One random contiguous block of `length` rows for each component [H16, 6.6].

    Large data are sampled. Components beyond the blocks that find room are empty. A legal set with
    a single component seeds that component from its own rows.

    candidates : how many blocks to draw for each component; those far apart are kept, as in
        k-means++. 1 keeps them all.
    """
    require_whole(length=length, candidates=candidates)
    batch = data.sample(SAMPLE_ROWS, rng)
    labels = np.full(batch.n_rows, -1)
    own = examples_of_sets(batch, legal, rng)
    for slot in own:
        assert legal is not None
        assert batch.sets is not None
        labels[(legal[batch.sets] > 0).sum(1) + (legal[batch.sets, slot] <= 0) == 1] = slot
    free = [k for k in range(n_components) if k not in own]
    plain = replace(batch, sets=None)
    blocks = choose_blocks(
        batch, _affordable(model, candidates, len(free)), length, rng, labels < 0
    )
    if len(blocks) > len(free):
        blocks = _far_apart(model, plain, blocks, len(free), rng)
    for slot, (begin, end) in zip(free, blocks, strict=False):
        block = labels[begin:end]
        block[block < 0] = slot
    return Start(
        count_labels(model, plain, labels, n_components), model.start_params(n_components, legal)
    )


def _affordable(model: Model, candidates: int, n_components: int) -> int:
    """How many blocks to draw: their statistics and pairwise divergences must fit in memory."""
    if candidates == 1:
        return n_components
    numbers = sum(array.size for array in model.family.zeros(1).values())
    return max(
        n_components, min(candidates * n_components, MAX_CANDIDATES, MAX_NUMBERS // max(1, numbers))
    )


def _far_apart(
    model: Model,
    batch: Batch,
    blocks: list[tuple[int, int]],
    n_blocks: int,
    rng: np.random.Generator,
) -> list[tuple[int, int]]:
    """A subset of the blocks, as in k-means++.

    The probability of each new block is proportional to the divergence of its mean from that of the
    nearest block selected before.
    """
    labels = np.full(batch.n_rows, -1)
    for slot, (begin, end) in enumerate(blocks):
        labels[begin:end] = slot
    means = model.family.smoothed_mean(count_labels(model, batch, labels, len(blocks)))
    apart = np.maximum(model.family.bregman(means, means), 0.0)
    chosen = [int(rng.integers(len(blocks)))]
    while len(chosen) < n_blocks:
        weight = apart[:, chosen].min(1)
        weight[chosen] = 0.0
        if not weight.sum() > 0:
            weight = np.where(np.isin(np.arange(len(blocks)), chosen), 0.0, 1.0)
        chosen.append(int(rng.choice(len(blocks), p=weight / weight.sum())))
    return [blocks[c] for c in chosen]
