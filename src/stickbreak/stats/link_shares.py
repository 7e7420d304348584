"""Shares of rows in the words of their own source sentences, as links to positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .fields import Array

__all__ = ["LinkShares"]


@dataclass(frozen=True, eq=False)
class LinkShares(NDArrayOperatorsMixin):
    """Shares (n, K) of which each row has one for every position of its unit's source sentence.

    values (L,) of the cells links (L,), see `Companion.links`; words (m,) of the source sentences
    with word_offsets (S + 1,), rows with offsets (S + 1,). NumPy operations work on the dense
    table, in which a word that occurs twice in its sentence has the sum.
    """

    values: Array
    links: Array
    words: Array
    word_offsets: Array
    offsets: Array
    n_components: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K)."""
        return int(self.offsets[-1]), self.n_components

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The dense table; its transpose is C-contiguous."""
        out = np.zeros((self.n_components, len(self)), dtype=dtype)
        columns, at = [np.r_[0, self.words[lo:hi]] for lo, hi in self._spans(self.word_offsets)], 0
        for source, (lo, hi) in zip(columns, self._spans(self.offsets), strict=True):
            n = (hi - lo) * len(source)
            shares = self.values[at : at + n].reshape(hi - lo, -1)
            for column, word in enumerate(source):
                out[word, lo:hi] += shares[:, column]
            at += n
        return out.T

    @staticmethod
    def _spans(offsets: Array) -> list[tuple[int, int]]:
        return list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        dense = [np.asarray(value) if isinstance(value, LinkShares) else value for value in inputs]
        return getattr(ufunc, method)(*dense, **options)

    @property
    def T(self) -> Array:
        """(K, n) dense."""
        return np.asarray(self).T

    def sum(self, axis: int | None = None) -> Any:
        """Sums of the dense table."""
        return np.asarray(self).sum(axis)

    def __getitem__(self, key: Any) -> Any:
        """Dense rows or columns."""
        return np.asarray(self)[key]
