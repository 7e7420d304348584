"""Moments about a reference point, and how to move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from .fields import Array, Fields

__all__ = ["Reanchor", "shift_moments", "triangle"]

F = TypeVar("F", bound="Fields")


@lru_cache(maxsize=64)
def triangle(n_features: int) -> tuple[Array, Array]:
    """Row and column of each entry of a packed upper triangle."""
    rows, columns = np.triu_indices(n_features)
    return rows, columns


def shift_moments(moments: Array, shift: Array, missing: Array | None = None) -> Array:
    """Moments (K, P) about points moved by shift (K, D).

    An entry of moments is [n, sum z, sum of products]. The products are squares (P = 1 + 2 D) or a
    packed upper triangle. If columns lack entries, missing (K, D), a column's sums are over
    n - missing rows; products are then squares.
    """
    D = shift.shape[1]
    out = moments.copy()
    count, first, second = moments[:, :1], moments[:, 1 : 1 + D], out[:, 1 + D :]
    if missing is not None:
        count = count - missing
    out[:, 1 : 1 + D] -= count * shift
    if second.shape[1] == D:
        second += count * shift**2 - 2.0 * first * shift
    else:
        rows, columns = triangle(D)
        cross = first[:, rows] * shift[:, columns] + first[:, columns] * shift[:, rows]
        second += count * shift[:, rows] * shift[:, columns] - cross
    return out


@dataclass(frozen=True)
class Reanchor:
    """Edit that moves all moments about `name` to new reference points anchor (K, D)."""

    name: str
    anchor: Array

    def __call__(self, fields: F) -> F:
        """Shift the moments; Fields without such a reference point stay as they are."""
        if self.name not in fields:
            return fields
        moved = {
            n: fields.moments_about(n, self.anchor)
            for n, f in fields.layout.items()
            if f.about == self.name
        }
        return replace(fields, arrays={**fields.arrays, **moved, self.name: self.anchor})

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        """Ids stay the same."""
        return ids
