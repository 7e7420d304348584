"""Sparse shares: an (n, K) table in which each row uses few components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from stickbreak.kernels.sparse import add_sparse, transpose

from .fields import Array
from .link_shares import LinkShares
from .word_shares import WordShares

__all__ = ["Shares", "SparseShares", "rows_first", "weigh"]


@dataclass(frozen=True, eq=False)
class SparseShares(NDArrayOperatorsMixin):
    """Shares (n, K) with at most L components per row: values (n, L) of components index (n, L).

    A component occurs at most once in a row. A place without a component has value 0. `weigh`,
    `sum`, `[:, slots]`, `[rows]` and `numbers @ shares` cost O(L) per row. Any other NumPy
    operation works on the dense table.
    """

    values: Array
    index: Array
    n_components: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K)."""
        return len(self.values), self.n_components

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The dense table; its transpose is C-contiguous, like that of evidence."""
        out = np.zeros((self.n_components, len(self)), dtype=dtype)
        rows = np.arange(len(self))
        # places without a component have index 0, so add instead of set
        for place in reversed(range(self.values.shape[1])):
            out[self.index[:, place], rows] += self.values[:, place]
        return out.T

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if (
            ufunc is np.matmul
            and method == "__call__"
            and inputs[1] is self
            and np.ndim(inputs[0]) == 1
            and not options
        ):
            return self._sum(self.values * inputs[0][:, None])
        dense = [
            np.asarray(value) if isinstance(value, SparseShares) else value for value in inputs
        ]
        return getattr(ufunc, method)(*dense, **options)

    @property
    def T(self) -> Array:
        """(K, n) dense."""
        return np.asarray(self).T

    def sum(self, axis: int | None = None) -> Any:
        """Sums by component (axis 0), by row (axis 1), or over all."""
        return self._sum(self.values) if axis == 0 else self.values.sum(axis)

    def _sum(self, values: Array) -> Array:
        return np.bincount(self.index.ravel(), weights=values.ravel(), minlength=self.n_components)

    def __getitem__(self, key: Any) -> Any:
        """Rows as sparse shares; columns and single numbers as arrays."""
        if not isinstance(key, tuple):
            return SparseShares(self.values[key], self.index[key], self.n_components)
        if not isinstance(key[0], slice) or key[0] != slice(None) or isinstance(key[1], slice):
            return np.asarray(self)[key]
        if np.ndim(key[1]) == 0:
            return np.where(self.index == key[1], self.values, 0.0).sum(1)
        columns = [self[:, int(k)] for k in key[1]]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    def n_used(self) -> Array:
        """(n,) number of components that each row uses."""
        return np.count_nonzero(self.values, axis=1)

    def best(self) -> Array:
        """(n,) component with the largest share of each row."""
        return self.index[np.arange(len(self)), self.values.argmax(1)]

    def without(self, slots: list[int]) -> SparseShares:
        """The same shares with 0 for the components `slots`."""
        if not slots:
            return self
        return SparseShares(
            np.where(np.isin(self.index, slots), 0.0, self.values), self.index, self.n_components
        )


Shares = Array | SparseShares | WordShares | LinkShares


def weigh(shares: Shares, table: Array, out: Array, skip: list[int] | None = None) -> None:
    """Out (K, P) += shares (n, K)' table (n, P), except for the components `skip`."""
    if isinstance(shares, SparseShares):
        kept = shares.without(skip or [])
        add_sparse(rows_first(table), kept.values, kept.index, out)
        return
    sums = shares.T @ table
    if skip:
        sums[skip] = 0.0
    out += sums


def rows_first(table: Array) -> Array:
    """The table (n, P) with the numbers of a row next to each other in memory."""
    if table.flags.c_contiguous:
        return table
    out = np.empty(table.shape)
    transpose(table.T, out)
    return out
