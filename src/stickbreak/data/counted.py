"""Counts of documents as files are read: in memory, or in temporary files once they are large."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from . import spool
from .spool import GrowingColumn

__all__ = ["CountedDocuments"]

Array = npt.NDArray[Any]

STEP = 1 << 20  # entries that are renumbered at a time


class CountedDocuments:
    """Entries of documents, one document after another: words in order, none twice, none zero.

    What is held besides the temporary files is 8 bytes for each document.
    """

    def __init__(self) -> None:
        # so that both go to files at the same number of entries
        self._symbols = GrowingColumn(np.int32, spool.HELD // 2)
        self._counts = GrowingColumn(np.float64, spool.HELD)
        self._lengths: list[Array] = []
        self.n_documents, self.n_entries = 0, 0
        self.largest = -1

    def add(self, lengths: Array, symbols: Array, counts: Array) -> None:
        """Documents with these numbers of entries (L,), and the entries (E,)."""
        largest = int(symbols.max(initial=-1))
        self.largest = max(self.largest, largest)
        offsets = np.r_[0, np.cumsum(lengths)]
        entries: Any = np.asarray(counts, dtype=float), np.array(symbols), offsets
        piece = sparse.csr_array(entries, shape=(len(lengths), largest + 1))
        piece.sum_duplicates()
        piece.eliminate_zeros()
        self._symbols.add(piece.indices)
        self._counts.add(piece.data)
        self._lengths.append(np.diff(piece.indptr).astype(np.int64))
        self.n_documents += len(lengths)
        self.n_entries += int(piece.nnz)

    def matrix(self, n_words: int | None = None) -> Any:
        """Counts (S, V) as CSR, read-only if they are in files; by default as wide as needed."""
        offsets = np.zeros(self.n_documents + 1, dtype=np.int64)
        np.cumsum(np.concatenate([np.zeros(0, np.int64), *self._lengths]), out=offsets[1:])
        if self.n_entries < 1 << 31:  # else scipy wants words in 64 bits, and copies them
            offsets = offsets.astype(np.int32)
        entries: Any = self._counts.whole(), self._symbols.whole(), offsets
        width = self.largest + 1 if n_words is None else n_words
        found = sparse.csr_array(entries, shape=(self.n_documents, width))
        found.has_canonical_format = True
        return found

    def renumbered(self, rank: Callable[[Array], Array], n_words: int) -> Any:
        """As `matrix`, with other numbers of the words."""
        plain, new = self.matrix(), CountedDocuments()
        steps = np.searchsorted(plain.indptr, np.arange(STEP, self.n_entries, STEP))
        for lo, hi in pairwise(np.unique(np.r_[0, steps, self.n_documents]).tolist()):
            a, b = int(plain.indptr[lo]), int(plain.indptr[hi])
            lengths = np.diff(plain.indptr[lo : hi + 1])
            new.add(lengths, rank(plain.indices[a:b]), plain.data[a:b])
        return new.matrix(n_words)
