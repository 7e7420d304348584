"""Values of units in files that workers write and read; the driver keeps their names and edits."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from .fields import Array, Field, Fields, Filler, join

__all__ = ["StoredFields", "store"]

Call = tuple[str, tuple[Any, ...]]  # a method of Fields and its arguments


class Owner:
    """Removes files when nobody needs them any more."""

    def __init__(self, paths: Sequence[str]) -> None:
        weakref.finalize(self, _remove, tuple(paths))


def _remove(paths: Sequence[str]) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:  # the folder is gone, or no longer ours: nothing depends on it
            continue


@dataclass(frozen=True)
class Piece:
    """Some entries of the arrays that a task has written, one file for each array.

    path : how their names begin
    spans : first and last entry (exclusive) along each axis of units or rows
    owner : stays in the process that fits
    """

    path: str
    spans: Mapping[str, tuple[int, int]]
    owner: Owner | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "owner": None}

    def file(self, number: int) -> str:
        """Name of the file of an array, by its number among the fields."""
        return f"{self.path}-{number}.npy"

    def size(self, axis: str) -> int:
        """Entries along an axis."""
        lo, hi = self.spans[axis]
        return hi - lo

    def cut(self, parts: Mapping[str, tuple[int, int]]) -> Piece:
        """Entries lo:hi of these, along each axis."""
        first = {axis: self.spans[axis][0] for axis in parts}
        spans = {axis: (first[axis] + lo, first[axis] + hi) for axis, (lo, hi) in parts.items()}
        return replace(self, spans={**self.spans, **spans})


class StoredArrays(Mapping[str, Array]):
    """The arrays of some pieces, one after another, read whenever one is asked for.

    calls : edits since they were written, to be replayed
    """

    def __init__(
        self, layout: Mapping[str, Field], pieces: Sequence[Piece], calls: Sequence[Call] = ()
    ) -> None:
        self.layout, self.pieces, self.calls = dict(layout), tuple(pieces), tuple(calls)

    def load(self) -> Fields:
        """What is in the files, edited."""
        arrays = {name: self._read(i, name) for i, name in enumerate(self.layout)}
        fields = Fields(self.layout, arrays)
        for name, arguments in self.calls:
            fields = getattr(fields, name)(*arguments)
        return fields

    def _read(self, number: int, name: str) -> Array:
        parts = []
        for piece in self.pieces:
            lo, hi = piece.spans[_first(self.layout[name])]
            # not mapped: the file may be replaced by that of the next visit
            parts.append(np.load(piece.file(number), mmap_mode="r")[lo:hi].copy())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __getitem__(self, name: str) -> Array:
        return self.load()[name]

    def __contains__(self, name: object) -> bool:
        return name in self.layout

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout)

    def __len__(self) -> int:
        return len(self.layout)


def _first(meaning: Field) -> str:
    """The axis of units or rows."""
    axis = meaning.axes[0]
    assert axis is not None
    return axis


@dataclass(frozen=True)
class StoredFields(Fields):
    """Fields whose arrays are in files. Edits are noted; whoever needs values reads them."""

    arrays: StoredArrays
    is_stored: ClassVar[bool] = True

    def copy(self) -> Fields:  # type: ignore[override]
        """The values, read."""
        return self.arrays.load()

    def owned(self) -> StoredFields:
        """The same; the files are removed when nothing refers to them any more."""
        n = len(self.layout)
        pieces = [
            replace(piece, owner=Owner([piece.file(i) for i in range(n)]))
            for piece in self.arrays.pieces
        ]
        return replace(self, arrays=StoredArrays(self.layout, pieces, self.arrays.calls))

    def followed_by(self, others: Sequence[Fields]) -> Fields:
        """All of them, by reference where they had the same edits."""
        pieces, calls = list(self.arrays.pieces), self.arrays.calls
        for other in others:
            if not isinstance(other, StoredFields) or other.arrays.calls != calls:
                return join([each.copy() for each in (self, *others)])
            pieces += other.arrays.pieces
        return replace(self, arrays=StoredArrays(self.layout, pieces, calls))

    def _along(self, axis: str, change: Any) -> Fields:  # type: ignore[override]
        return self.copy()._along(axis, change)

    def _is_of_units(self, axis: str) -> bool:
        return any(axis == _first(meaning) for meaning in self.layout.values())

    def _noted(self, name: str, axis: str, *arguments: Any) -> Any:
        """An edit of slots, to be replayed; one of units is done on the values."""
        if self._is_of_units(axis):
            return getattr(self.copy(), name)(axis, *arguments)
        calls = (*self.arrays.calls, (name, (axis, *arguments)))
        return replace(self, arrays=StoredArrays(self.layout, self.arrays.pieces, calls))

    def merge(self, axis: str, keep: int, drop: int) -> Any:
        """Fold slot `drop` into slot `keep`."""
        return self._noted("merge", axis, keep, drop)

    def remove(self, axis: str, index: int) -> Any:
        """Drop one slot."""
        return self._noted("remove", axis, index)

    def insert(self, axis: str, count: int, fill: Mapping[str, Filler] | None = None) -> Any:
        """Append `count` slots."""
        return self._noted("insert", axis, count, fill)

    def permute(self, axis: str, order: Sequence[int]) -> Any:
        """Slots in the given order."""
        return self._noted("permute", axis, order)

    def cut(self, **parts: slice) -> Any:
        """Parts along axes of units or rows, by reference."""
        own = {axis: part for axis, part in parts.items() if self._is_of_units(axis)}
        pieces, at = [], dict.fromkeys(own, 0)
        for piece in self.arrays.pieces:
            spans = {}
            for axis, part in own.items():
                size, begin = piece.size(axis), at[axis]
                lo, hi = (min(max(edge - begin, 0), size) for edge in (part.start, part.stop))
                spans[axis] = lo, max(lo, hi)
                at[axis] += size
            if any(hi > lo for lo, hi in spans.values()):
                pieces.append(piece.cut(spans))
        return replace(self, arrays=StoredArrays(self.layout, pieces, self.arrays.calls))


def store(values: Fields, folder: str) -> StoredFields:
    """Write values to new files in a folder."""
    path = os.path.join(folder, f"stickbreak-{uuid4().hex}")
    axes = {_first(meaning): len(values[name]) for name, meaning in values.layout.items()}
    piece = Piece(path, {axis: (0, n) for axis, n in axes.items()})
    for i, name in enumerate(values.layout):
        np.save(piece.file(i), values[name], allow_pickle=False)
    return StoredFields(values.layout, StoredArrays(values.layout, [piece]))
