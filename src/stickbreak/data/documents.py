"""Documents as the engines see them: units of words, each word with its number of occurrences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .batches import Array, Batch
from .picked_rows import is_by_reference
from .sequences import Sequences
from .spool import GrowingColumn
from .table import Steps, Table, is_on_disk, is_sparse

__all__ = ["Documents"]

BATCH_WORDS = 100_000  # default: distinct words (summed over documents) of a batch
STEP_DOCUMENTS = 256  # default: documents of a step of stochastic inference


@dataclass(frozen=True)
class Documents(Sequences):
    """Symbols (n, 1) with their occurrences; document d owns rows offsets[d]:offsets[d + 1].

    Rows may also be vectors. Documents are then groups that mix the same components.

    repeats (n,) : number of occurrences of each symbol
    times (S,) : how often each document counts; None for once
    """

    times: Array | None = None

    unit_name = "documents"

    @classmethod
    def from_counts(cls, counts: Any, times: Array | None = None) -> Documents:
        """Documents from a matrix (S, V) of counts, dense or sparse.

        One that `read_corpus` left in files is used as it is.
        """
        if is_sparse(counts) and is_on_disk(counts.data):
            ends = counts.indptr.astype(np.int64)
            return cls(counts.indices[:, None], counts.data, None, ends, times)
        matrix = sparse.csr_array(counts, dtype=float, copy=True)  # it is changed below
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        offsets = matrix.indptr.astype(np.int64)
        return cls(matrix.indices.astype(np.int32)[:, None], matrix.data, None, offsets, times)

    @property
    def n_units(self) -> float:
        """Number of documents."""
        return float(self.n_spans) if self.times is None else float(self.times.sum())

    @property
    def n_observations(self) -> float:
        """Number of words, all occurrences counted."""
        return self.whole().n_observations

    @property
    def step_size(self) -> int:
        """Default number of documents in a step of stochastic inference."""
        return min(STEP_DOCUMENTS, self.n_spans)

    @property
    def steps(self) -> Steps:
        """Careful ones: a step shows few of the words."""
        return Steps(self.step_size)

    def whole(self) -> Batch:
        """All documents as one batch."""
        return replace(super().whole(), times=self.times)

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Contiguous batches with nearly equal numbers of distinct words; "auto": 100,000 each.

        Each batch has its own vocabulary, but for shards, whose batches are as large as those of
        other shards.
        """
        parts = self._cut(n_batches)
        if len(parts) == 1:
            return [self.whole()]
        if is_by_reference(self.rows):  # to know their words, all would have to be read
            return parts
        if is_on_disk(self.rows):
            return own_vocabularies(parts)
        return [own_vocabulary(part) for part in parts]

    def _cut(self, n_batches: int | str) -> list[Batch]:
        """The same batches, with the vocabulary of all."""
        if n_batches == "auto":
            most = self.batch_rows if is_by_reference(self.rows) else BATCH_WORDS
            n_batches = max(1, round(self.n_rows / most))
        count = max(1, min(int(n_batches), self.n_spans))
        assert self.offsets is not None
        cuts = np.searchsorted(self.offsets, np.linspace(0, self.n_rows, count + 1)[1:-1])
        whole, bounds = self.whole(), np.unique(np.r_[0, cuts, self.n_spans])
        parts = (whole.part(int(lo), int(hi)).alone() for lo, hi in pairwise(bounds))
        return [replace(part, id=i) for i, part in enumerate(parts)]

    def parts(self) -> list[Table]:
        """The batches as separate documents, with the vocabulary of all."""
        return [self._of(batch) for batch in self._cut("auto")]

    def in_order(self) -> Iterator[Batch]:
        """The batches one by one, with the vocabulary of all."""
        return iter(self._cut("auto"))

    def _of(self, batch: Batch) -> Documents:
        """The documents of a batch, with the vocabulary of all."""
        rows = batch.rows if batch.symbols is None else batch.symbols[batch.rows]
        return replace(
            self, rows=rows, repeats=batch.repeats, sets=batch.sets, offsets=batch.offsets,
            times=batch.times,
        )  # fmt: skip

    def take(self, indices: Array, id: int = 0) -> Batch:
        """The documents `indices`, in their order, with their own vocabulary."""
        return own_vocabulary(self._taken(indices, id).loaded())

    def pick(self, indices: Array, id: int = 0) -> Batch:
        """As `take`; but many of shards stay where they are, with the vocabulary of all."""
        found = self._taken(indices, id)
        return found if found.is_by_reference else own_vocabulary(found)

    def _taken(self, indices: Array, id: int) -> Batch:
        chosen = np.sort(indices)
        found = super().take(chosen, id)
        return replace(found, times=None if self.times is None else self.times[chosen])

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Random documents with positive weight, about `size` distinct words in total, or all."""
        assert self.offsets is not None
        possible = np.arange(self.n_spans) if self.times is None else np.flatnonzero(self.times > 0)
        if self.n_rows <= size:
            return self.take(possible)
        order = rng.permutation(possible)
        n_documents = int(np.searchsorted(np.cumsum(np.diff(self.offsets)[order]), size))
        return self.take(order[: max(n_documents, 1)])

    def some(self, size: int, rng: np.random.Generator) -> Documents:
        """Random documents of about `size` distinct words in total, or all, as data of their own.

        Words keep their numbers.
        """
        if self.n_rows <= size:
            return self
        batch = self.sample(size, rng)
        return self._of(batch)

    def fingerprint(self) -> str:
        """A digest that identifies these data."""
        times = b"" if self.times is None else np.ascontiguousarray(self.times).tobytes()
        return hashlib.blake2b(super().fingerprint().encode() + times, digest_size=16).hexdigest()


def own_vocabularies(batches: list[Batch]) -> list[Batch]:
    """As `own_vocabulary`, with the new numbers in a temporary file once they are many."""
    column, found, at = GrowingColumn(np.int32), [], 0
    for batch in batches:
        own = own_vocabulary(batch)
        if own.symbols is not None:
            column.add(own.rows[:, 0])
        found.append(replace(own, rows=batch.rows))
    numbers = column.whole()
    for i, batch in enumerate(found):
        if batch.symbols is not None:
            found[i] = batch.with_rows(numbers[at : at + batch.n_rows, None])
            at += batch.n_rows
    return found


def own_vocabulary(batch: Batch) -> Batch:
    """The batch with its own vocabulary, so that counts and potentials are as small as its data.

    Vectors stay as they are, and so do rows of several symbols, or with missing ones.
    """
    rows = batch.rows
    if rows.dtype.kind not in "iu" or rows.shape[1] != 1 or (rows < 0).any():
        return batch
    symbols, renamed = np.unique(rows, return_inverse=True)
    return replace(
        batch, rows=renamed.reshape(-1, 1).astype(np.int32), symbols=symbols.astype(np.int64)
    )
