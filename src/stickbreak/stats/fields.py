"""Named arrays with named axes, and the edits of one axis that act on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from .moments import shift_moments

__all__ = ["Array", "Field", "Fields", "Filler", "LinearFiller", "join"]

Array = npt.NDArray[Any]
Filler = Callable[["Fields"], Any]


@dataclass(frozen=True)
class Field:
    """The meaning of an array, which says what an edit does to it.

    axes : one name (or None) for each dimension; a name may occur more than once
    nonnegative : clamp at zero after a subtraction
    merge : value of the merged slot. "add": the sum; "keep": the kept slot's value; "max": the
        larger (legal sets); "tracked": not a function of the two, but read from the "merge" side
        that a watch collected
    insert : value of a new slot, unless the edit has a filler (tracked fields: the prior knows the
        right one)
    additive : False for a value that describes the others (a reference point); `+`, `-` and `scale`
        leave it alone
    about : for moments about a reference point, the name of the field that holds it (slots come
        first in both)
    missing : for moments of columns with missing entries, the name of the field that counts them,
        (slots, columns)
    per : what is counted: each "row", each "pair" of neighboring rows, or whole units ("unit").
        Windows of sequences hold all rows, but not all pairs and units
    """

    axes: tuple[str | None, ...]
    nonnegative: bool = True
    merge: Literal["add", "keep", "max", "tracked"] = "add"
    insert: float = 0.0
    additive: bool = True
    about: str | None = None
    missing: str | None = None
    per: Literal["row", "pair", "unit"] = "row"

    def renamed(self, rename: Callable[[str], str]) -> Field:
        """The same meaning with other names of axes and fields."""
        axes = tuple(None if axis is None else rename(axis) for axis in self.axes)
        about, missing = (
            None if name is None else rename(name) for name in (self.about, self.missing)
        )
        return replace(self, axes=axes, about=about, missing=missing)


@dataclass(frozen=True)
class LinearFiller:
    """constant + per_unit * n_units + sum of coefficient * field: a new slot's value in a batch.

    For example E[log share] of an unused topic is that of the remainder, shifted:
    LinearFiller(shift, {"log_rest": 1.0}).
    """

    per_unit: float = 0.0
    of: Mapping[str, float] | None = None
    constant: float = 0.0

    def __call__(self, fields: Fields) -> Any:
        """The value of a new slot in these Fields."""
        value: Any = self.constant + self.per_unit * float(getattr(fields, "n_units", 0.0))
        for name, coefficient in (self.of or {}).items():
            value = value + coefficient * fields[name]
        return value


def _without(array: Array, index: int, dimension: int) -> Array:
    """A copy that lacks one slot. np.delete does the same, and more slowly."""
    before = (slice(None),) * dimension
    parts = array[(*before, slice(None, index))], array[(*before, slice(index + 1, None))]
    return np.concatenate(parts, axis=dimension)


@dataclass(frozen=True)
class Fields:
    """Named arrays that are edited by axis name: warm starts, parameters and Summaries."""

    layout: Mapping[str, Field]
    arrays: Mapping[str, Array]

    is_stored: ClassVar[bool] = False
    """Whether the arrays are in files, to be read when they are needed (`StoredFields`)."""

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def size(self, axis: str) -> int:
        """Length of an axis."""
        for name, field in self.layout.items():
            if axis in field.axes:
                return int(self.arrays[name].shape[field.axes.index(axis)])
        raise KeyError(f"no field carries the axis {axis!r}; fields: {sorted(self.layout)}")

    def copy(self) -> Self:
        """A copy with its own arrays."""
        return replace(self, arrays={name: array.copy() for name, array in self.arrays.items()})

    def owned(self) -> Fields:
        """These, and what they refer to is removed with them."""
        return self

    def followed_by(self, others: Sequence[Fields]) -> Fields:
        """These and others, one after another along their first axis."""
        parts = self, *others
        joined = {n: np.concatenate([part.arrays[n] for part in parts]) for n in self.arrays}
        return replace(self, arrays=joined)

    # ---------------------------------------------------------------------------- edits of one axis

    def _along(self, axis: str, change: Callable[[str, Array, int], Array]) -> Self:
        """Apply `change(name, array, dimension)` to every dimension that carries `axis`."""
        arrays = dict(self.arrays)
        for name, field in self.layout.items():
            for dimension, label in enumerate(field.axes):
                if label == axis:
                    arrays[name] = change(name, arrays[name], dimension)
        return replace(self, arrays=arrays)

    def merge(self, axis: str, keep: int, drop: int) -> Self:
        """Fold slot `drop` into slot `keep`.

        Tracked fields keep the kept slot's value until `Merge` sets the right one.
        """

        def change(name: str, array: Array, dimension: int) -> Array:
            out, before = _without(array, drop, dimension), (slice(None),) * dimension
            heir: Any = (*before, keep - (drop < keep))
            gone: Any = (*before, drop)
            rule, about = self.layout[name].merge, self.layout[name].about
            if rule == "add":
                out[heir] += (
                    array[gone]
                    if about is None
                    else self.moments_about(name, self.arrays[about][[keep]], [drop])[0]
                )
            elif rule == "max":
                out[heir] = np.maximum(out[heir], array[gone])
            return out

        return self._along(axis, change)

    def moments_about(
        self, name: str, reference: Array, slots: Sequence[int] | None = None
    ) -> Array:
        """The moments `name` of `slots` (default: all), moved to reference points (slots, D)."""
        declared, at = self.layout[name], slice(None) if slots is None else list(slots)
        assert declared.about is not None
        shift = reference - self.arrays[declared.about][at]
        missing = None if declared.missing is None else self.arrays[declared.missing][at]
        return (
            shift_moments(self.arrays[name][at], shift, missing)
            if shift.any()
            else self.arrays[name][at]
        )

    def remove(self, axis: str, index: int) -> Self:
        """Drop one slot."""
        return self._along(axis, lambda _, array, dimension: _without(array, index, dimension))

    def insert(self, axis: str, count: int, fill: Mapping[str, Filler] | None = None) -> Self:
        """Append `count` slots with the fields' declared values or those in `fill`.

        A filler is evaluated on these Fields, because each remembered batch has its own n_units. A
        filler for a field without the axis replaces its value: an unused remainder shrinks when new
        slots are cut from it.
        """
        values = {name: filler(self) for name, filler in (fill or {}).items()}

        def change(name: str, array: Array, dimension: int) -> Array:
            shape = list(array.shape)
            shape[dimension] = count
            new = np.full(shape, self.layout[name].insert, dtype=array.dtype)
            if name in values:
                new[...] = values[name]
            return np.concatenate([array, new], axis=dimension)

        grown = self._along(axis, change)
        whole = {
            name: np.broadcast_to(
                np.asarray(value, dtype=self.arrays[name].dtype), self.arrays[name].shape
            ).copy()
            for name, value in values.items()
            if name in self.arrays and axis not in self.layout[name].axes
        }
        return replace(grown, arrays={**grown.arrays, **whole})

    def permute(self, axis: str, order: Sequence[int]) -> Self:
        """Slots in the given order; an index may repeat or be left out, which makes a selection."""
        return self._along(axis, lambda _, array, dimension: np.take(array, order, dimension))

    def cut(self, **parts: slice) -> Self:
        """Views of the parts `axis=slice`, e.g. `cut(row=slice(0, 10), unit=slice(0, 2))`."""
        out = self
        for axis, part in parts.items():

            def take(_: str, array: Array, dimension: int, part: slice = part) -> Array:
                return array[(slice(None),) * dimension + (part,)]

            out = out._along(axis, take)
        return out

    # ---------------------------------------------------------------------- what only a Summary has

    def take_merge_terms(self, keep: int, pair: int, earlier: Sequence[int]) -> Self:
        """Set the terms that a merge watch collected; plain Fields have none."""
        return self

    def add_side(self, axis: str, slots: Sequence[int], name: str) -> Self:
        """Add the side `name`; plain Fields have no sides."""
        return self

    def add_bound(self, per_unit: float) -> Self:
        """Add to the local bound; plain Fields have none."""
        return self

    def forget(self) -> Self:
        """Drop all sides; plain Fields have none."""
        return self


def join(parts: Sequence[Fields]) -> Fields:
    """Put the parts of a warm start back together along their first axis (row or unit)."""
    return parts[0].followed_by(parts[1:])
