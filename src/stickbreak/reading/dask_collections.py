"""dask arrays and data frames as shards: partitions that the cluster computes once, and keeps.

Without a client they are computed here, one after another, into temporary files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stickbreak.data import ShardRows, ShardTable, scratch
from stickbreak.data.held_shards import HeldShard, digest_rows
from stickbreak.data.readers import kept_dtype
from stickbreak.inference.remote import DaskPlace, Partition, current_place, placed
from stickbreak.stats import Array

from .schema import Given

__all__ = ["collected", "collection_kind", "require_whole_rows"]

NUMBERS = "fiub"  # kinds of dtype that are read


def collection_kind(X: Any) -> str | None:
    """`array` or `frame` for dask's collections, None for anything else; imports nothing."""
    kinds = {"Array": "array", "DataFrame": "frame"}
    names = {c.__name__ for c in type(X).__mro__ if c.__module__.partition(".")[0] == "dask"}
    return next((kind for name, kind in kinds.items() if name in names), None)


@contextmanager
def collected(given: Given, reads_shards: bool) -> Iterator[Given]:
    """The arguments of a fit with a dask collection replaced by shards, beside those who hold them.

    Everything else is left as it is. reads_shards : whether the estimator can use them
    """
    X: Any = given.X
    kind = collection_kind(X)
    if kind is None or not reads_shards:
        yield given
        return
    place = current_place()
    if place is None:
        client = _default_client()
        place = None if client is None else DaskPlace(client)
    elif not isinstance(place, DaskPlace):
        raise ValueError(
            "a dask collection is read by the workers of its cluster: use sb.workers(client), or "
            "no workers at all to have it read here"
        )
    column = given.sequence_id if isinstance(given.sequence_id, str) else None
    if kind == "array" and given.sequence_id is not None:
        raise ValueError(
            "sequence_id of a dask array is not read by partitions: give lengths=, or a dask "
            "DataFrame with a column of ids"
        )
    if kind == "frame" and given.sequence_id is not None and column is None:
        raise ValueError("sequence_id of a dask DataFrame must be the name of one of its columns")
    names = None if kind == "array" else _names(X, column)
    parts = _delayed_parts(X, kind)
    dtype = kept_dtype(X.dtype) if kind == "array" else np.dtype(np.float64)
    kinds = [X.dtypes[name].kind for name in names or ()]
    read = partial(_read_part, names=names, kinds=kinds, column=column, dtype=dtype)
    kept = _keep_here(parts, read) if place is None else _keep_there(parts, read, place)
    table = _as_table(kept, names, dtype)
    lengths = given.lengths if column is None else _lengths_of(kept, column)
    if column is None and lengths is not None:
        _require_whole(np.asarray(lengths), table.rows)
    with placed(place):
        yield replace(given, X=table, lengths=lengths, sequence_id=None)


class Part(NamedTuple):
    """What is told of a partition.

    ids, sizes : of its sequences, in order; none if no column names them
    """

    n_rows: int
    n_columns: int
    size: int
    digest: str
    ids: tuple[Any, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Here:
    """A partition in a temporary file of this process."""

    rows: Array

    def between(self, begin: int, end: int) -> Array:
        """Rows begin:end."""
        return self.rows[begin:end]

    def take(self, at: Array) -> Array:
        """Rows at positions (m,)."""
        return self.rows[at]


Kept = list[tuple[Part, Any]]  # with the partition's holder


def _default_client() -> Any:
    """Dask's current client; None if there is none."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def require_whole_rows(X: Any) -> Any:
    """A dask array whose chunks hold whole rows of numbers."""
    if X.ndim != 2:
        raise ValueError(f"the dask array has shape {X.shape}; expected a table (n, D)")
    if X.dtype.kind not in "fiu":
        raise ValueError(f"the dask array holds {X.dtype}, not numbers")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _delayed_parts(X: Any, kind: str) -> list[Any]:
    if kind == "array":
        return list(require_whole_rows(X).to_delayed().ravel())
    return list(X.to_delayed())


def _names(X: Any, column: str | None) -> tuple[str, ...]:
    """Names of the columns of numbers; those of anything else are refused."""
    if column is not None and column not in list(X.columns):
        raise ValueError(
            f"the dask DataFrame has no column {column!r}, which sequence_id names; it has the "
            f"columns {', '.join(map(repr, list(X.columns)[:8]))}"
        )
    for name, dtype in X.dtypes.items():
        if name != column and getattr(dtype, "kind", "O") not in NUMBERS:
            raise ValueError(
                f"column {name!r} of the dask DataFrame holds {dtype}, not numbers: convert it, "
                "or leave it out"
            )
    return tuple(str(name) for name in X.columns if name != column)


def _read_part(
    part: Any,
    at: int,
    *,
    names: tuple[str, ...] | None,
    kinds: Sequence[str],
    column: str | None,
    dtype: np.dtype[Any],
) -> tuple[Array, Part]:
    """The numbers of a partition, in C order, and what is told of it. Runs where it is.

    kinds : of the columns of a data frame, as it says
    """
    ids: Any = None
    if names is not None:
        if column is not None:
            ids = part[column].to_numpy()
        for name, kind in zip(names, kinds, strict=True):
            if getattr(part.dtypes[name], "kind", "O") != kind:
                raise ValueError(
                    f"partition {at} of the dask DataFrame holds {part.dtypes[name]} in column "
                    f"{name!r}, the DataFrame says another kind of numbers: give all partitions "
                    "the same dtypes (astype)"
                )
        part = part[list(names)].to_numpy(dtype=np.float64, na_value=np.nan)
    found = np.asarray(part)
    if found.ndim != 2 or found.dtype.kind not in "fiu":
        raise ValueError(
            f"partition {at} of the dask array has shape {found.shape} and holds {found.dtype}: "
            "expected rows of numbers (n, D)"
        )
    rows = np.ascontiguousarray(found, dtype=dtype)
    starts = np.zeros(0, dtype=np.int64)
    if ids is not None and len(ids):
        starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    sizes = np.diff(np.r_[starts, len(rows)]) if len(starts) else starts
    named = tuple(ids[starts].tolist()) if ids is not None else ()
    facts = Part(
        len(rows), rows.shape[1], rows.nbytes, digest_rows(rows), named, tuple(sizes.tolist())
    )
    return rows, facts


def _keep_here(parts: list[Any], read: Any) -> Kept:
    """Compute the partitions one after another, each into a temporary file."""
    from dask import compute

    kept: Kept = []
    for at, part in enumerate(parts):
        rows, facts = read(compute(part)[0], at=at)
        held = scratch(rows.shape, rows.dtype)
        held[...] = rows
        kept.append((facts, Here(held)))
    return kept


def _keep_there(parts: list[Any], read: Any, place: DaskPlace) -> Kept:
    """Compute the partitions on the cluster, where they stay while somebody refers to them."""
    from dask import delayed

    client = place.client
    both = [delayed(read, pure=False)(part, at=at) for at, part in enumerate(parts)]
    # in one call, so that nothing is computed twice
    futures = client.compute([pair[0] for pair in both] + [pair[1] for pair in both])
    try:
        told = client.gather(futures[len(both) :])
    except BaseException:
        client.cancel(futures)
        raise
    return [
        (Part(*facts), Partition(client, future))
        for facts, future in zip(told, futures[: len(both)], strict=True)
    ]


def _as_table(kept: Kept, names: tuple[str, ...] | None, dtype: np.dtype[Any]) -> ShardTable:
    """Partitions with rows as one table."""
    shards = tuple(
        HeldShard(f"partition {at}", f"{at}-{part.digest}", part.n_rows, names, part.size,
                  part.digest, holder)
        for at, (part, holder) in enumerate(kept)
        if part.n_rows
    )  # fmt: skip
    if not shards:
        raise ValueError("the dask collection has no rows")
    starts = tuple(np.cumsum([0, *(shard.n_rows for shard in shards)]).tolist())
    n_columns = kept[0][0].n_columns
    rows: Any = ShardRows(shards, starts, 0, starts[-1], n_columns, dtype)
    return ShardTable(rows, names, Path("the dask collection"))


def _lengths_of(kept: Kept, column: str) -> Array:
    """(S,) rows of each sequence; one that is cut by partitions is refused."""
    seen: dict[Any, int] = {}
    for at, (part, _) in enumerate(kept):
        for name in part.ids:
            if name is None or name != name:  # NaN
                raise ValueError(f"partition {at} has a row without {column}")
            if name in seen:
                raise ValueError(
                    f"sequence {name!r} is in partition {seen[name]} and again in partition {at}: "
                    "the rows of a sequence must stand together, within one partition; "
                    f"set_index({column!r}) brings them together"
                )
            seen[name] = at
    return np.concatenate([np.array(part.sizes, dtype=np.int64) for part, _ in kept])


def _require_whole(lengths: Array, rows: Any) -> None:
    """Raise ValueError if a partition ends within a sequence."""
    ends = np.r_[0, np.cumsum(lengths)]
    for shard, end in zip(rows.files, rows.starts[1:], strict=True):
        s = int(np.searchsorted(ends, end))
        if s < len(ends) and ends[s] != end:
            raise ValueError(
                f"sequence {s - 1} goes on after {shard.path} of the dask array ends (row {end}): "
                "rechunk so that every chunk holds whole sequences"
            )
