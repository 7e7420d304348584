"""Documents in several files with one vocabulary, which workers read themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from stickbreak.errors import ShardError

from .corpora import read_corpus
from .documents import Documents
from .file_jobs import over_files
from .picked_rows import PickedRows
from .shard_rows import ShardRows, digest_file, require_contents

__all__ = ["DocumentFile", "DocumentShards", "ShardCounts", "open_documents"]

Array = npt.NDArray[Any]

MOST_OPEN = 64  # files whose words a process keeps


class Words(NamedTuple):
    """Entries of a file: ids (n,) of words, their counts (n,), and where documents end (S + 1,)."""

    ids: Array
    counts: Array
    ends: Array


@dataclass(frozen=True)
class DocumentFile:
    """A file of documents, known by its contents; its rows are the entries (word, count).

    n_words, n_documents : size of the vocabulary; documents, empty ones too
    columns, size, digest : as of a `ShardFile`
    """

    path: str
    n_rows: int
    size: int
    digest: str
    n_words: int
    n_documents: int
    columns: tuple[str, ...] | None = None

    def between(self, begin: int, end: int) -> Array:
        """Ids of words (n, 1) of the entries begin:end."""
        return self.words().ids[begin:end, None]

    def take(self, at: Array) -> Array:
        """Ids of words (m, 1) at positions (m,)."""
        return self.words().ids[at][:, None]

    def words(self) -> Words:
        """All entries; read once in each process, and kept in temporary files if they are many."""
        key = self.path, self.digest, self.n_words
        with _LOCK:
            if key in _OPEN:
                _OPEN.move_to_end(key)
                return _OPEN[key]
            require_contents(self.path, self.size, self.digest)
            _OPEN[key] = found = read_words_of(self.path, self.n_words)
            while len(_OPEN) > MOST_OPEN:
                _OPEN.popitem(last=False)
            return found


_OPEN: OrderedDict[Any, Words] = OrderedDict()
_LOCK = RLock()


def read_words_of(path: str, n_words: int | None) -> Words:
    """The entries of a file. n_words : size of the vocabulary; None for the largest id and one."""
    if path.endswith(".npz"):
        counts = _load_npz(path)
    else:
        corpus = read_corpus(path, n_words=n_words)
        if corpus.words is not None:
            raise ShardError(
                f"shard {path} holds words as text: shards hold numbered words (LDA-C, docword, or "
                "sparse .npz), so that all files have one vocabulary"
            )
        counts = corpus.counts
    if n_words is not None and counts.shape[1] > n_words:
        raise ShardError(f"shard {path} has {counts.shape[1]} words, the vocabulary has {n_words}")
    return Words(counts.indices, counts.data, counts.indptr.astype(np.int64))


def _load_npz(path: str) -> Any:
    """Counts that `scipy.sparse.save_npz` wrote."""
    try:
        stored: Any = sparse.load_npz(path)
        found: Any = sparse.csr_array(stored, dtype=float)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"{path} is no sparse matrix of scipy.sparse.save_npz: {error}") from None
    if not np.isfinite(found.data).all() or (found.data < 0).any():
        raise ValueError(f"{path} holds counts that are negative or not finite")
    found.sum_duplicates()
    found.eliminate_zeros()
    found.indices = found.indices.astype(np.int32)
    return found


@dataclass(frozen=True)
class Sums:
    """Of all entries: where documents end (S + 1,), and the counts up to there (S + 1,)."""

    ends: Array
    counts: Array

    def between(self, begins: Array, ends: Array) -> float | None:
        """Sum of the counts of ranges of whole documents; None if one ends within a document."""
        lo, hi = np.searchsorted(self.ends, begins), np.searchsorted(self.ends, ends)
        if (self.ends[lo] != begins).any() or (self.ends[hi] != ends).any():
            return None
        return float((self.counts[hi] - self.counts[lo]).sum())


@dataclass(frozen=True)
class ShardCounts:
    """Counts (n,) of the entries of document shards, by reference. A slice is another one.

    rows : the entries. sums : of all documents; stays in the process that opened them
    """

    rows: ShardRows | PickedRows
    sums: Sums | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "sums": None}

    @property
    def shape(self) -> tuple[int]:
        """(n,)."""
        return (len(self.rows),)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floats."""
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        """A slice as a reference; counts at positions (m,), read here."""
        if isinstance(at, slice) and at.step in (None, 1):
            return ShardCounts(self.rows[at], self.sums)
        if isinstance(self.rows, PickedRows):
            return self.load()[at]
        return _take_counts(self.rows, np.asarray(at))

    def pick(self, rows: PickedRows) -> ShardCounts:
        """The counts of some of the entries, by reference."""
        return ShardCounts(rows, self.sums)

    def sum(self) -> float:
        """Of all counts; without reading, if they are those of whole documents."""
        if self.sums is None:
            return float(self.load().sum())
        known = self.sums.between(*_bounds(self.rows))
        return float(self.load().sum()) if known is None else known

    def load(self) -> Array:
        """(n,) in memory, or mapped."""
        spans = [self.rows] if isinstance(self.rows, ShardRows) else self.rows.spans()
        parts = [part for span in spans for part in _counts_of(span)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.load(), dtype=dtype)


def _bounds(rows: ShardRows | PickedRows) -> tuple[Array, Array]:
    """Where the ranges of some entries begin and end, among all entries."""
    if isinstance(rows, ShardRows):
        return np.array([rows.begin]), np.array([rows.end])
    begins = rows.begins + rows.source.begin
    return begins, begins + np.diff(rows.ends)


def _counts_of(rows: ShardRows) -> list[Array]:
    """Counts of entries, file by file."""
    parts = []
    for file, start in zip(rows.files, rows.starts, strict=False):
        assert isinstance(file, DocumentFile)
        lo, hi = max(rows.begin - start, 0), min(rows.end - start, file.n_rows)
        parts.append(file.words().counts[lo:hi])
    return parts


def _take_counts(rows: ShardRows, at: Array) -> Array:
    """Counts of the entries at positions (m,)."""
    where = at + rows.begin
    owner = np.searchsorted(rows.starts, where, side="right") - 1
    found = np.empty(len(where))
    for i in np.unique(owner):
        file, mine = rows.files[i], owner == i
        assert isinstance(file, DocumentFile)
        found[mine] = file.words().counts[where[mine] - rows.starts[i]]
    return found


@dataclass(frozen=True)
class DocumentShards:
    """Documents of several files, by reference; `fit` and `transform` of topic models take them.

    words (V,) : the vocabulary; None if words are numbers
    """

    documents: Documents
    n_words: int
    words: tuple[str, ...] | None = None

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self.documents.n_spans

    @property
    def files(self) -> tuple[DocumentFile, ...]:
        """The files, in order."""
        rows: Any = self.documents.rows
        return rows.files


class _Examined(NamedTuple):
    """Of a file: where documents end (S + 1,), their counts (S,), and the largest id of a word."""

    size: int
    digest: str
    ends: Array
    counts: Array
    largest: int


def _examine(path: str, n_words: int | None) -> _Examined:
    try:
        size = Path(path).stat().st_size
        digest, words = digest_file(path, size), read_words_of(path, n_words)
    except OSError as error:
        raise ShardError(f"shard {path} cannot be read: {error.strerror}") from None
    except ShardError:
        raise
    except ValueError as error:
        raise ShardError(f"shard {path} cannot be opened: {error}") from None
    counts = np.diff(np.r_[0.0, np.cumsum(words.counts)][words.ends])
    return _Examined(size, digest, words.ends, counts, int(words.ids.max(initial=-1)))


def open_documents(
    paths: Sequence[str], words: tuple[str, ...] | None, n_words: int | None
) -> DocumentShards:
    """Documents in some files. Each is read once, to count its documents and their words."""
    known = n_words if words is None else len(words)
    found = over_files(partial(_examine, n_words=known), paths)
    if known is None:
        known = 1 + max((file.largest for file in found), default=-1)
    files = tuple(
        DocumentFile(path, int(f.ends[-1]), f.size, f.digest, known, len(f.ends) - 1)
        for path, f in zip(paths, found, strict=True)
    )
    empty = [file.path for file in files if not file.n_rows]
    if empty:
        raise ShardError(f"shard {empty[0]} has no words: leave it out")
    starts = tuple(np.cumsum([0, *(file.n_rows for file in files)]).tolist())
    rows = ShardRows(files, starts, 0, starts[-1], 1, np.dtype(np.int32))
    ends = np.concatenate(
        [[0], *(file.ends[1:] + start for file, start in zip(found, starts, strict=False))]
    ).astype(np.int64)
    counted = np.concatenate([[0.0], *(file.counts for file in found)]).cumsum()
    counts: Any = ShardCounts(rows, Sums(ends, counted))
    return DocumentShards(Documents(rows, counts, offsets=ends), known, words)
