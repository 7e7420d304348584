"""What a task found, ready to travel: of large counts of words, only those of words that occur.

Large arrays are not copied into the bytes: a worker that adds sums reads them where they are.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stickbreak.protocols import Array
from stickbreak.stats import SYMBOL, Field, Fields, Summary

__all__ = ["Parcel", "pack_total", "unpack_total"]

Parcel = list[Any]  # bytes, and the large arrays that they refer to, as bytes (n,)

LEAST_BYTES = 1 << 16  # of an array that is looked at
MOST_WORDS = 0.9  # part of the vocabulary, above which all of it travels


class Columns(NamedTuple):
    """An array that is zero but for some entries of one dimension.

    at (m,) : those. values : the array with these alone
    """

    shape: tuple[int, ...]
    dimension: int
    at: Array
    values: Array

    def widened(self) -> Array:
        """The array."""
        found = np.zeros(self.shape, self.values.dtype)
        found[(slice(None),) * self.dimension + (self.at,)] = self.values
        return found


def pack_total(total: Summary, kept: list[Fields]) -> Parcel:
    """A sum of Summaries, and what their units keep; nobody may change them afterwards."""
    large: list[pickle.PickleBuffer] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < LEAST_BYTES:
            return True
        large.append(buffer)
        return False

    data = pickle.dumps((_thin(total), kept), 5, buffer_callback=is_small)
    return [data, *(np.frombuffer(buffer.raw(), np.uint8) for buffer in large)]


def unpack_total(parcel: Parcel, *, reads_only: bool = False) -> tuple[Summary, list[Fields]]:
    """The inverse of `pack_total`, to the last bit.

    reads_only : share arrays with the parcel, which others may still need
    """
    data, *large = parcel
    total, kept = pickle.loads(data, buffers=large if reads_only else [a.copy() for a in large])
    return _wide(total), kept


def _thin(total: Summary) -> Summary:
    arrays: Any = {n: _thin_array(a, total.layout[n]) for n, a in total.arrays.items()}
    sides = {name: _thin(side) for name, side in total.sides.items()}
    return replace(total, arrays=arrays, sides=sides)


def _thin_array(array: Array, meaning: Field) -> Array | Columns:
    if meaning.axes.count(SYMBOL) != 1 or array.nbytes < LEAST_BYTES:
        return array
    at = meaning.axes.index(SYMBOL)
    occurs = (array != 0).any(axis=tuple(d for d in range(array.ndim) if d != at))
    if occurs.mean() > MOST_WORDS:
        return array
    return Columns(array.shape, at, np.flatnonzero(occurs), array.compress(occurs, at))


def _wide(total: Summary) -> Summary:
    packed: Mapping[str, Any] = total.arrays
    arrays = {n: a.widened() if isinstance(a, Columns) else a for n, a in packed.items()}
    sides = {name: _wide(side) for name, side in total.sides.items()}
    return replace(total, arrays=arrays, sides=sides)
