"""Partitions of a table that a cluster holds, as shards: a worker that infers one is given it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stickbreak.errors import ShardError

from .shard_rows import PLACE_BYTES, PLACES, ShardRows

__all__ = ["HeldShard", "Holder", "Span", "digest_rows", "given_rows", "held_spans"]

Array = npt.NDArray[Any]


class Holder(Protocol):
    """Who can fetch rows of one partition, in the process that opened the collection."""

    def between(self, begin: int, end: int) -> Array:
        """Rows (n, D)."""

    def take(self, at: Array) -> Array:
        """Rows at positions (m,)."""


@dataclass(frozen=True)
class HeldShard:
    """A partition, known by its contents.

    path : what messages call it
    key : its name among what a task is given
    columns, size, digest : as of a `ShardFile`
    holder : stays in the process that opened the collection, and keeps the partition alive
    """

    path: str
    key: str
    n_rows: int
    columns: tuple[str, ...] | None
    size: int
    digest: str
    holder: Holder | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "holder": None}

    def between(self, begin: int, end: int) -> Array:
        """Rows begin:end (n, D)."""
        given = _GIVEN.get().get(self.key)
        if given is not None:
            first, rows = given
            return rows[begin - first : end - first]
        return self._require_holder().between(begin, end)

    def take(self, at: Array) -> Array:
        """Rows at positions (m,)."""
        given = _GIVEN.get().get(self.key)
        return given[1][at - given[0]] if given is not None else self._require_holder().take(at)

    def _require_holder(self) -> Holder:
        if self.holder is None:
            raise ShardError(
                f"{self.path} is held by a dask cluster and cannot be read elsewhere: run the fit "
                "in sb.workers(client) of that cluster, or write the collection to files and open "
                "them with open_shards"
            )
        return self.holder


_NONE: Mapping[str, tuple[int, Array]] = MappingProxyType({})
_GIVEN: ContextVar[Mapping[str, tuple[int, Array]]] = ContextVar("stickbreak_given", default=_NONE)


@contextmanager
def given_rows(given: Mapping[str, tuple[int, Array]]) -> Iterator[None]:
    """Read partitions from memory: for each key, the number of the first row, and rows (n, D)."""
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(token)


class Span(NamedTuple):
    """Rows begin:end of a partition."""

    shard: HeldShard
    begin: int
    end: int


def held_spans(rows: Any) -> list[Span]:
    """What rows by reference need of partitions; none of other rows."""
    if not isinstance(rows, ShardRows):
        rows = getattr(rows, "source", None)
    if not isinstance(rows, ShardRows):
        return []
    starts = zip(rows.files, rows.starts, strict=False)
    return [
        Span(file, max(rows.begin - start, 0), min(rows.end - start, file.n_rows))
        for file, start in starts
        if isinstance(file, HeldShard)
    ]


def digest_rows(rows: Array) -> str:
    """A digest of sixteen places of rows (n, D) in C order, spread evenly, as of a file."""
    whole = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
    found = hashlib.blake2b(str(whole.size).encode(), digest_size=16)
    for at in np.unique(np.linspace(0, max(0, whole.size - PLACE_BYTES), PLACES).astype(np.int64)):
        found.update(whole[int(at) : int(at) + PLACE_BYTES].tobytes())
    return found.hexdigest()
