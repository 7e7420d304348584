"""Some rows of shards, by reference: ranges of rows that lie apart, read where they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .shard_rows import Shard, ShardRows

__all__ = ["PickedRows", "are_many", "is_by_reference", "load_rows", "pick_rows"]

Array = npt.NDArray[Any]

FEW_ROWS = 65_536  # as many rows of shards, or fewer, are read at once: samples, steps, starts


@dataclass(frozen=True)
class PickedRows:
    """Ranges of rows of shards, one after another. A slice is another PickedRows.

    source : the rows that they are ranges of
    begins (R,) : where each range starts in them, in rising order
    ends (R + 1,) : where each range starts here, and the number of rows
    """

    source: ShardRows
    begins: Array
    ends: Array

    @classmethod
    def at(cls, source: ShardRows, positions: Array) -> PickedRows:
        """Rows at rising positions (m,)."""
        first = np.flatnonzero(np.r_[True, np.diff(positions) != 1])
        return cls(source, positions[first], np.r_[first, len(positions)])

    @classmethod
    def between(cls, source: ShardRows, begins: Array, ends: Array) -> PickedRows:
        """Rows begins[i]:ends[i] for all i, in rising order."""
        first = np.flatnonzero(np.r_[True, begins[1:] != ends[:-1]])
        last = np.r_[first[1:], len(begins)] - 1
        sizes = ends[last] - begins[first]
        return cls(source, begins[first], np.r_[0, np.cumsum(sizes)])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D)."""
        return int(self.ends[-1]), self.source.n_columns

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """As in the shards."""
        return self.source.dtype

    @property
    def files(self) -> tuple[Shard, ...]:
        """Files that may hold any of the rows."""
        return self.source.files

    @property
    def cuts(self) -> Array:
        """Where files end within these rows: lanes do not cross them."""
        edges = self.source.cuts
        after = np.searchsorted(self.begins, edges, side="right") - 1
        inside = edges - self.begins[after] + self.ends[after]
        found = np.unique(np.minimum(inside, self.ends[after + 1])[after >= 0])
        return found[(found > 0) & (found < len(self))]

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, at: Any) -> Any:
        """A slice as a reference; rows at positions (m,), or columns, read here."""
        if not isinstance(at, slice) or at.step not in (None, 1):
            return self.load()[at]
        lo, hi, _ = at.indices(len(self))
        hi = max(lo, hi)
        first = int(np.searchsorted(self.ends, lo, side="right")) - 1
        last = max(first + 1, int(np.searchsorted(self.ends, hi, side="left")))
        first = min(first, len(self.begins) - 1)
        begins, ends = self.begins[first:last].copy(), np.clip(self.ends[first : last + 1], lo, hi)
        begins[0] += ends[0] - self.ends[first]
        low = int(begins[0])
        high = int(begins[-1] + ends[-1] - ends[-2])
        return PickedRows(self.source[low:high], begins - low, ends - lo)

    def load(self) -> Array:
        """The rows (n, D) in memory."""
        parts = [span.load() for span in self.spans()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def spans(self) -> list[ShardRows]:
        """The ranges."""
        pairs = zip(self.begins.tolist(), np.diff(self.ends).tolist(), strict=True)
        return [self.source[begin : begin + size] for begin, size in pairs]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.load(), dtype=dtype)


def are_many(rows: Any, n: int) -> bool:
    """Whether so many of some rows are left where they are, and not read at once."""
    return isinstance(rows, ShardRows) and n > FEW_ROWS


def pick_rows(rows: Any, at: Array) -> Any:
    """The rows at rising positions (m,); of shards by reference, if they are many."""
    return PickedRows.at(rows, at) if are_many(rows, len(at)) else rows[at]


def is_by_reference(rows: Any) -> bool:
    """Whether rows are read where they are used."""
    return isinstance(rows, ShardRows | PickedRows)


def load_rows(rows: Any) -> Any:
    """Rows in memory, or mapped."""
    return rows.load() if is_by_reference(rows) else rows
