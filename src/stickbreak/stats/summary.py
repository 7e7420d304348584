"""Expected counts of some units with the local part of the bound.

All algorithms add, subtract and remember Summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from .fields import Array, Field, Fields

__all__ = ["SYMBOL", "Summary", "Tally"]

SYMBOL = "symbol"


@dataclass(frozen=True)
class Summary(Fields):
    """Expected counts of some units. A value: it never changes.

    local_bound : the local part of the bound, log_z + own_bound - <potentials, counts>
    log_z : sum of local log normalizers: the objective of EM, a monitor for stochastic and
        collapsed inference
    n_units : number of units (rows, sequences, documents) in the sum, repeats counted
    sides : what this lap's moves asked for, as separate Summaries; a missing side is zero
    index : the symbols on the axis "symbol" of a compact Summary; None for all
    """

    local_bound: float = 0.0
    log_z: float = 0.0
    n_units: float = 0.0
    sides: Mapping[str, Summary] = field(default_factory=dict)
    index: Array | None = None

    def empty(self) -> Self:
        """Zeros of the same shape; fields that are not additive keep their values."""
        arrays = {
            n: np.zeros(a.shape, a.dtype) if self.layout[n].additive else a
            for n, a in self.arrays.items()
        }
        return replace(self, arrays=arrays, local_bound=0.0, log_z=0.0, n_units=0.0, sides={})

    def restrict(self, symbols: Array | None) -> Self:
        """Counts of these symbols only: all that a batch needs, and small if tables are large."""
        if symbols is None:
            return self
        return replace(self.permute(SYMBOL, symbols), index=symbols)  # type: ignore[arg-type]

    def __add__(self, other: Summary) -> Summary:
        return Tally(self).add(other).summary()

    def __sub__(self, other: Summary) -> Summary:
        return Tally(self).subtract(other).summary()

    def scale(self, factor: float, by_field: Mapping[str, float] | None = None) -> Self:
        """Multiply all by `factor`; a field in `by_field` has its own factor (parts of a chain)."""
        own = by_field or {}
        arrays = {
            n: np.asarray(a * own.get(n, factor)) if self.layout[n].additive else a
            for n, a in self.arrays.items()
        }
        return replace(
            self,
            arrays=arrays,
            sides={n: s.scale(factor) for n, s in self.sides.items()},
            local_bound=factor * self.local_bound,
            log_z=factor * self.log_z,
            n_units=factor * self.n_units,
        )

    def take_merge_terms(self, keep: int, pair: int, earlier: Sequence[int]) -> Self:
        """Set the merged slot's tracked fields and the local bound from the "merge" side.

        gain[p] is the exact change of the local bound when pair p is merged; cross[p, q] the
        correction if q was merged before.
        """
        if "merge" not in self.sides:
            return self
        tracked = [name for name, declared in self.layout.items() if declared.merge == "tracked"]
        side, arrays = self.sides["merge"], dict(self.arrays)
        for name in tracked:
            arrays[name] = arrays[name].copy()
            arrays[name][keep] = side[name][pair]
        gain = side["gain"][pair] + side["cross"][pair, list(earlier)].sum()
        return replace(self, arrays=arrays, local_bound=self.local_bound + float(gain))

    def add_side(self, axis: str, slots: Sequence[int], name: str) -> Self:
        """Add a side; its axis "slot" stands for the positions `slots` of `axis`.

        A missing side is zero.
        """
        if name not in self.sides:
            return self
        side, arrays = self.sides[name], dict(self.arrays)
        for n, extra in side.arrays.items():
            if not self.layout[n].additive:
                continue
            arrays[n] = arrays[n].copy()
            about = self.layout[n].about
            if about is not None and about in side:
                extra = side.moments_about(n, self.arrays[about][list(slots)])
            labels = zip(self.layout[n].axes, arrays[n].shape, strict=True)
            at = np.ix_(
                *[np.asarray(slots) if label == axis else np.arange(size) for label, size in labels]
            )
            arrays[n][at] += extra
            if self.layout[n].nonnegative:
                np.maximum(arrays[n], 0.0, out=arrays[n])
        return replace(self, arrays=arrays, local_bound=self.local_bound + side.local_bound)

    def add_bound(self, per_unit: float) -> Self:
        """Add a constant per unit to the local bound."""
        return replace(self, local_bound=self.local_bound + per_unit * self.n_units)

    def forget(self) -> Self:
        """Drop all sides: this lap's proposals have been decided."""
        return replace(self, sides={})


class Tally:
    """A running total that owns its arrays, and the only object that adds in place.

    It takes and returns values.
    """

    def __init__(self, start: Summary) -> None:
        self._value = replace(start.copy(), sides={n: s.copy() for n, s in start.sides.items()})

    @classmethod
    def taking(cls, start: Summary) -> Tally:
        """A total that takes over the arrays of `start`, which nothing else may use."""
        tally = cls.__new__(cls)
        tally._value = start
        return tally

    def view(self) -> Summary:
        """The total without a copy; valid only until the next `add` changes it."""
        return self._value

    def summary(self) -> Summary:
        """The total as a value that takes over the arrays; do not use this Tally afterwards.

        To go on, make a new Tally from the value.
        """
        return self._value

    def snapshot(self) -> Summary:
        """A copy of the total."""
        return Tally(self._value).summary()

    def add(self, other: Summary) -> Tally:
        """Add in place. A compact `other` changes only its own symbols."""
        return self._combine(other, 1.0)

    def subtract(self, other: Summary) -> Tally:
        """Subtract in place; entries declared non-negative are clamped at zero.

        Running differences drift below it.
        """
        return self._combine(other, -1.0)

    def _combine(self, other: Summary, sign: float) -> Tally:
        mine = self._value
        if mine.index is not None and (
            other.index is None or not np.array_equal(mine.index, other.index)
        ):
            raise ValueError(
                "a compact Summary adds up with others of the same symbols only; add "
                "it to a whole one"
            )
        for name, array in mine.arrays.items():
            if mine.layout[name].additive:
                index = None if mine.index is not None else other.index
                _add_array(mine.layout[name], array, _about(mine, other, name), sign, index)
        sides = dict(mine.sides)
        for name, side in other.sides.items():
            begun = sides[name] if name in sides else _empty_side(side, mine)
            sides[name] = Tally(begun)._combine(side, sign).summary()
        self._value = replace(
            mine,
            sides=sides,
            local_bound=mine.local_bound + sign * other.local_bound,
            log_z=mine.log_z + sign * other.log_z,
            n_units=mine.n_units + sign * other.n_units,
        )
        return self


def _add_array(
    declared: Field, mine: Array, theirs: Array, sign: float, index: Array | None
) -> None:
    """Mine += sign * theirs; at the symbols `index` only, if `theirs` is compact."""
    if index is None or SYMBOL not in declared.axes:  # both are whole, or nothing to select
        if sign > 0:
            mine += theirs
        else:
            mine -= theirs
            if declared.nonnegative:
                np.maximum(mine, 0.0, out=mine)
        return
    if declared.axes.count(SYMBOL) == 1:
        at: Any = (slice(None),) * declared.axes.index(SYMBOL) + (index,)
    else:
        at = np.ix_(
            *[
                index if label == SYMBOL else np.arange(size)
                for label, size in zip(declared.axes, mine.shape, strict=True)
            ]
        )
    changed = mine[at] + sign * theirs
    mine[at] = np.maximum(changed, 0.0) if sign < 0 and declared.nonnegative else changed


def _about(mine: Summary, other: Summary, name: str) -> Array:
    """The other's values, with moments shifted to the reference points of `mine`."""
    about = mine.layout[name].about
    if about is None or np.array_equal(mine[about], other[about]):
        return other.arrays[name]
    return other.moments_about(name, mine[about])


def _empty_side(side: Summary, total: Summary) -> Summary:
    """Zeros for a side that the total does not have yet.

    It has all symbols if the total is whole and the side compact.
    """
    empty = side.empty()
    if side.index is None or total.index is not None:
        return empty
    n_symbols = total.size(SYMBOL)
    arrays = {}
    for name, array in empty.arrays.items():
        shape = [
            n_symbols if label == SYMBOL else size
            for label, size in zip(side.layout[name].axes, array.shape, strict=True)
        ]
        arrays[name] = np.zeros(shape) if SYMBOL in side.layout[name].axes else array
    return replace(empty, arrays=arrays, index=None)
