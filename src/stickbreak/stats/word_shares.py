"""Shares of words in documents, kept as factors.

What documents, words and components have in common is stored once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .fields import Array

__all__ = ["WordShares"]


@dataclass(frozen=True, eq=False)
class WordShares(NDArrayOperatorsMixin):
    """Shares (n, K) = scale * table[index] * weights[document of the word], the first K columns.

    scale (n,), table (M, width), index (n,), weights (S, width). offsets (S + 1,) give the words of
    each document. `sum(0)` is available from counts (S, width), each times (S,). Any other NumPy
    operation works on the dense table.
    """

    table: Array
    index: Array
    offsets: Array
    weights: Array
    scale: Array
    counts: Array
    times: Array
    n_components: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K)."""
        return len(self.index), self.n_components

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    def __len__(self) -> int:
        return len(self.index)

    def columns(self, which: Any) -> Array:
        """Dense columns of some components."""
        units = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        weights = self.weights[:, : self.n_components][:, which]
        return np.asarray(
            self.scale[:, None]
            * self.table[:, : self.n_components][:, which][self.index]
            * weights[units]
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The dense table."""
        return np.asarray(self.columns(slice(None)), dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        dense = [np.asarray(value) if isinstance(value, WordShares) else value for value in inputs]
        return getattr(ufunc, method)(*dense, **options)

    @property
    def T(self) -> Array:
        """(K, n) dense."""
        return np.asarray(self).T

    def sum(self, axis: int | None = None) -> Any:
        """Sums by component (axis 0), by word (axis 1), or over all."""
        if axis == 1:
            return np.asarray(self).sum(1)
        sums = self.times @ self.counts[:, : self.n_components]
        return sums if axis == 0 else sums.sum()

    def __getitem__(self, key: Any) -> Any:
        """Dense rows or columns."""
        if (
            isinstance(key, tuple)
            and isinstance(key[0], slice)
            and key[0] == slice(None)
            and not np.isscalar(key[1])
        ):
            return self.columns(key[1])
        return np.asarray(self)[key]
