"""Rows of several shards, by reference: sliced without reading, read where a lane is inferred."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stickbreak.errors import ShardError

__all__ = [
    "Shard",
    "ShardFile",
    "ShardRows",
    "digest_file",
    "require_contents",
    "same_file_twice",
    "shard_digests",
]

Array = npt.NDArray[Any]

PLACES, PLACE_BYTES = 16, 4096  # of a file, which its digest is of
MOST_OPEN = 1024  # files that a process keeps open


def digest_file(path: str, size: int) -> str:
    """A digest of sixteen places of a file, spread evenly from its first bytes to its last."""
    found = hashlib.blake2b(str(size).encode(), digest_size=16)
    with open(path, "rb") as file:
        for at in np.unique(np.linspace(0, max(0, size - PLACE_BYTES), PLACES).astype(np.int64)):
            file.seek(int(at))
            found.update(file.read(PLACE_BYTES))
    return found.hexdigest()


def require_contents(path: str, size: int, digest: str) -> None:
    """Raise ShardError, with this process, if a file is not there or not what it was."""
    reader = socket.gethostname(), os.getpid()
    try:
        found = os.stat(path).st_size
        if found != size:
            raise ShardError(
                f"shard {path} has {found:,} bytes on {reader[0]}; it had {size:,} when it was "
                "opened",
                reader,
            )
        if digest_file(path, size) != digest:
            raise ShardError(
                f"shard {path} has other contents on {reader[0]} than when it was opened", reader
            )
    except OSError as error:
        raise ShardError(
            f"shard {path} cannot be read by process {reader[1]} on {reader[0]} "
            f"({error.strerror}): put it where all workers see it under this name",
            reader,
        ) from None


@dataclass(frozen=True)
class ShardFile:
    """A file of rows, known by its contents: whoever reads it first compares them.

    columns : names of its columns; None if they have none
    size : bytes of the file
    digest : of sixteen places, see `digest_file`
    """

    path: str
    n_rows: int
    columns: tuple[str, ...] | None
    size: int
    digest: str

    def rows(self) -> Array:
        """All rows (n, D), mapped; opened once in each process."""
        key = self.path, self.digest, self.columns
        with _LOCK:
            if key in _OPEN:
                _OPEN.move_to_end(key)
                return _OPEN[key]
            _OPEN[key] = rows = self._read()
            while len(_OPEN) > MOST_OPEN:
                _OPEN.popitem(last=False)
            return rows

    def between(self, begin: int, end: int) -> Array:
        """Rows begin:end (n, D), mapped."""
        return self.rows()[begin:end]

    def take(self, at: Array) -> Array:
        """Rows at positions (m,)."""
        return self.rows()[at]

    def _read(self) -> Array:
        from .readers import open_table

        require_contents(self.path, self.size, self.digest)
        names = None if self.columns is None else list(self.columns)
        rows = open_table(self.path, columns=names).rows
        return rows if rows.flags.c_contiguous else np.ascontiguousarray(rows)


_OPEN: OrderedDict[Any, Array] = OrderedDict()
_LOCK = threading.RLock()


class Shard(Protocol):
    """A part of a table that is read where it is used: a file, or what a cluster holds.

    It is known by its size and digest, wherever it is.
    """

    @property
    def path(self) -> str:
        """What messages call it."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of its columns; None if they have none."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def digest(self) -> str:
        """Of sixteen places, see `digest_file`."""

    def between(self, begin: int, end: int) -> Array:
        """Rows begin:end (n, D)."""

    def take(self, at: Array) -> Array:
        """Rows at positions (m,)."""


@dataclass(frozen=True)
class ShardRows:
    """Rows begin:end of some shards, one after another. A slice is another ShardRows.

    files : those that hold any of the rows
    starts (S + 1,) : where each of them starts among all rows of the table
    n_columns, dtype : the same in all files
    """

    files: tuple[Shard, ...]
    starts: tuple[int, ...]
    begin: int
    end: int
    n_columns: int
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D)."""
        return self.end - self.begin, self.n_columns

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    def __len__(self) -> int:
        return self.end - self.begin

    @cached_property
    def cuts(self) -> Array:
        """Where files end within these rows: lanes do not cross them."""
        inner = np.array(self.starts[1:-1], dtype=np.int64) - self.begin
        return inner[(inner > 0) & (inner < len(self))]

    def __getitem__(self, at: Any) -> Any:
        """A slice as a reference; rows at positions (m,), read here."""
        if isinstance(at, tuple):
            return np.asarray(self[at[0]])[(slice(None), *at[1:])]
        if not isinstance(at, slice):
            return self._take(np.asarray(at))
        lo, hi, step = at.indices(len(self))
        if step != 1:
            return self._take(np.arange(lo, hi, step))
        begin, end = self.begin + lo, self.begin + max(lo, hi)
        kept = [
            i
            for i in range(len(self.files))
            if self.starts[i] < max(end, begin + 1) and self.starts[i + 1] > begin
        ] or [len(self.files) - 1]
        first, last = kept[0], kept[-1]
        files, starts = self.files[first : last + 1], self.starts[first : last + 2]
        return ShardRows(files, starts, begin, end, self.n_columns, self.dtype)

    def load(self) -> Array:
        """The rows (n, D) in memory; those of a single file are mapped."""
        parts = [
            file.between(max(self.begin - start, 0), min(self.end - start, file.n_rows))
            for file, start in zip(self.files, self.starts, strict=False)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.load(), dtype=dtype)

    def _take(self, at: Array) -> Array:
        """Rows at positions (m,), in this order."""
        if at.dtype == bool:
            at = np.flatnonzero(at)
        if at.ndim == 0:
            return self.load_one(int(at))
        where = np.where(at < 0, at + len(self), at) + self.begin
        owner = np.searchsorted(self.starts, where, side="right") - 1
        found = np.empty((len(where), self.n_columns), dtype=self.dtype)
        for i in np.unique(owner):
            mine = owner == i
            found[mine] = self.files[i].take(where[mine] - self.starts[i])
        return found

    def load_one(self, at: int) -> Array:
        """One row (D,)."""
        return self._take(np.array([at]))[0]

    def fingerprint(self) -> str:
        """A digest of the contents, whatever the files are called and wherever they are."""
        found = hashlib.blake2b(f"{self.shape}{self.dtype}{self.begin}".encode(), digest_size=16)
        for file in self.files:
            found.update(f"{file.n_rows} {file.size} {file.digest} {file.columns}".encode())
        return found.hexdigest()


def shard_digests(rows: Any) -> list[list[str]] | None:
    """Name and digest of each shard, without folders; None for rows that are no shards."""
    if not isinstance(rows, ShardRows):
        return None
    return [[os.path.basename(shard.path), shard.digest] for shard in rows.files]


def same_file_twice(paths: Sequence[str]) -> str | None:
    """The first of some paths that is a file named before, by whatever path or link."""
    seen: set[str | tuple[int, int]] = set()
    for path in paths:
        names: set[str | tuple[int, int]] = {os.path.realpath(path)}
        with suppress(OSError):  # who reads it says what is wrong
            found = os.stat(path)
            if found.st_ino:  # some file systems have none
                names.add((found.st_dev, found.st_ino))
        if names & seen:
            return path
        seen |= names
    return None
