"""Starts for sequences: each component is first seen in one contiguous block of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference import Start
from stickbreak.inference.engine import Data
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array

from .counts import count_labels
from .plusplus import SAMPLE_ROWS, examples_of_sets

__all__ = ["choose_blocks", "from_blocks"]


def choose_blocks(
    batch: Batch, n_blocks: int, length: int, rng: np.random.Generator, within: Array | None = None
) -> list[tuple[int, int]]:
    """(begin, end) of up to n_blocks random blocks of `length` rows, none across two sequences or over another.

    A sequence that is shorter is a block as it is. within (n,): rows at which a block may be centred; default all that count.
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
    model: Any, data: Data, n_components: int, rng: np.random.Generator, *, length: int = 20, legal: Array | None = None
) -> Start:
    """Random contiguous blocks of `length` rows of (a sample of) the sequences, one for each component [H16, 6.6].

    Components beyond the blocks that find room are empty. A legal set with a single component seeds that one by its own rows.
    """
    require_whole(length=length)
    batch = data.sample(SAMPLE_ROWS, rng)
    labels = np.full(batch.n_rows, -1)
    own = examples_of_sets(batch, legal, rng)
    for slot in own:
        assert legal is not None
        assert batch.sets is not None
        labels[(legal[batch.sets] > 0).sum(1) + (legal[batch.sets, slot] <= 0) == 1] = slot
    free = [k for k in range(n_components) if k not in own]
    for slot, (begin, end) in zip(free, choose_blocks(batch, len(free), length, rng, labels < 0), strict=False):
        block = labels[begin:end]
        block[block < 0] = slot
    seed = count_labels(model, replace(batch, sets=None), labels, n_components)
    return Start(seed, model.start_params(n_components, legal))
