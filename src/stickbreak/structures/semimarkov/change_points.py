"""Known change points: the rows of a sequence at which a segment may begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.protocols import Array

__all__ = ["check_change_points", "free_rows"]


def check_change_points(given: Sequence[Any], lengths: Array) -> Companion:
    """Rows at which segments may begin, for each sequence, as the companion of the sequences.

    given : for every sequence its rows, in increasing order, the first of them 0
    """
    if len(given) != len(lengths):
        raise ValueError(
            f"change points are given for {len(given)} sequences, but there are {len(lengths)}"
        )
    parts = []
    for i, (points, n_rows) in enumerate(zip(given, lengths, strict=True)):
        found = np.asarray(points)
        if found.ndim != 1 or found.size == 0 or not np.issubdtype(found.dtype, np.integer):
            raise ValueError(
                f"change points of sequence {i} must be whole numbers, at least the 0 at which "
                f"it begins; got {points!r}"
            )
        if found[0] != 0:
            raise ValueError(
                f"change points of sequence {i} begin with {found[0]}; the first segment begins "
                "at 0"
            )
        if (np.diff(found) <= 0).any():
            raise ValueError(f"change points of sequence {i} must increase; got {found.tolist()}")
        if found[-1] >= n_rows:
            raise ValueError(
                f"sequence {i} has a change point at {found[-1]}, but only {n_rows} rows"
            )
        parts.append(found.astype(np.int64))
    return Companion(np.concatenate(parts), np.r_[0, np.cumsum([len(part) for part in parts])])


def free_rows(block: Batch) -> Array | None:
    """(n,) whether a segment may begin at a row; None for everywhere."""
    known = block.companion
    if known is None:
        return None
    assert block.offsets is not None
    unit = np.repeat(np.arange(block.n_spans), np.diff(known.offsets))
    is_free = np.zeros(block.n_rows, dtype=np.bool_)
    is_free[block.offsets[unit] + known.rows] = True
    return is_free
