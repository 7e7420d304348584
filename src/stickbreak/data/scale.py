"""The scale of a table: moments of its columns, for default priors; checks of its values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stickbreak.errors import DataWarning, shards_named
from stickbreak.protocols import Pool

from .batches import Batch
from .picked_rows import load_rows
from .shard_rows import ShardRows
from .table import Table, is_sparse

__all__ = ["Scale", "check_table", "measure", "name_columns"]

Array = npt.NDArray[Any]

SCAN_VALUES = 1 << 20  # values read at once in a pass over the whole table


@dataclass(frozen=True)
class Scale:
    """Weighted moments of each column, for default priors.

    Repeats are counted; missing entries (NaN) are left out.

    seen (D,) : weight of the entries present.
    mean, variance, square (D,) : variance is about the mean, 0 for a constant column; square is the
        mean of x**2.
    largest (D,) : largest value of each column. It includes rows without weight, which are read all
        the same.
    is_whole (D,) : whether all entries of a column are whole numbers; False for CSR matrices. None
        if nobody looked.
    A column without entries has mean, variance and square 0 and largest -1.
    names : what messages call the columns; None for their positions.
    look_again : measures columns that are made from these; see `of`.
    """

    n_features: int
    n_units: float
    seen: Array
    mean: Array
    variance: Array
    square: Array
    largest: Array
    names: tuple[Any, ...] | None = None
    look_again: Callable[[Callable[[Any], Any]], Scale] | None = field(
        default=None, repr=False, compare=False
    )
    is_whole: Array | None = None

    def of(self, change: Callable[[Any], Any]) -> Scale:
        """The scale of columns derived from the rows; NaN is left out.

        For default priors that need more than moments of single columns. It makes two more passes
        over the table.

        change : makes columns (n, C) from rows (n, D), row by row.
        """
        if self.look_again is None:
            raise ValueError(
                "this scale was not measured from a table, so no other columns can "
                "be; use measure(table)"
            )
        return self.look_again(change)

    def name(self, column: int) -> str:
        """What messages call a column."""
        return str(column) if self.names is None else repr(self.names[column])

    def take(self, columns: Sequence[int]) -> Scale:
        """The scale of some columns, with the names they have here."""
        at = list(columns)
        own = {
            f.name: getattr(self, f.name)[at]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        names = tuple(at) if self.names is None else tuple(self.names[c] for c in at)
        look_again = lambda change: self.of(partial(_change_some, change, at))
        return replace(self, n_features=len(at), names=names, look_again=look_again, **own)


def check_table(
    table: Table,
    check: Callable[[Any, int], None],
    *,
    allow_missing: bool = False,
    pool: Pool | None = None,
) -> None:
    """Check a table in one pass, by the workers of a pool if they read the rows.

    Values that are not finite raise ValueError, and so does what `check` refuses.
    """
    for _ in _each(table, partial(_check_lane, check, allow_missing), pool):
        pass


def measure(
    table: Table,
    check: Callable[[Any, int], None] | None = None,
    *,
    allow_missing: bool = False,
    pool: Pool | None = None,
) -> Scale:
    """The scale of a table, in two passes, by the workers of a pool if they read the rows.

    A value that is not finite raises an error that names its row (of shards, the shard too), and
    so does one that `check` refuses. Sums of pieces are added in order, whoever makes them.

    allow_missing : NaN is a missing entry and left out; a column with no other entries gets a
        warning.
    """
    scale = _moments(table, pool, _same, check, allow_missing)
    _warn_of_empty_columns(scale.seen == 0)
    return scale


def _same(rows: Any) -> Any:
    return rows


def _change_some(change: Callable[[Any], Any], at: list[int], rows: Any) -> Any:
    return change(rows[:, at])


class _First(NamedTuple):
    """What the first pass finds of a piece; see `Scale`."""

    seen: Array | float
    total: Array
    largest: Array
    is_whole: Array


def _moments(
    table: Table,
    pool: Pool | None,
    change: Callable[[Any], Any],
    check: Callable[[Any, int], None] | None = None,
    allow_missing: bool = True,
) -> Scale:
    """The scale of the columns that `change` makes from the rows."""
    n_columns = int(change(load_rows(table.rows[:1])).shape[1])
    first, largest = np.zeros(n_columns), np.full(n_columns, -np.inf)
    seen, is_whole = np.zeros_like(first), np.full(n_columns, not is_sparse(table.rows))
    # What overflows becomes infinite: families that need squares refuse it.
    with np.errstate(over="ignore", invalid="ignore"):
        for found in _each(table, partial(_measure_lane, change, check, allow_missing), pool):
            seen += found.seen
            first += found.total
            largest = np.fmax(largest, found.largest)
            is_whole &= found.is_whole
        weight = np.where(seen > 0, seen, 1.0)
        mean = first / weight
        second, spread = np.zeros_like(first), np.zeros_like(first)
        for squares, departures in _each(
            table, partial(_measure_spread_lane, change, mean, allow_missing), pool
        ):
            second += squares
            spread += departures
        square = second / weight
        variance = np.maximum(square - mean**2, 0.0) if is_sparse(table.rows) else spread / weight
    largest = np.where(np.isfinite(largest), largest, -1.0)
    return Scale(
        n_columns,
        table.n_observations,
        seen,
        mean,
        variance,
        square,
        largest,
        is_whole=is_whole & (seen > 0),
        look_again=partial(_moments, table, pool),
    )


def _each(table: Table, act: Callable[[Batch], Any], pool: Pool | None) -> Iterator[Any]:
    """What `act` finds in each piece of a table, in order: (n, D) rows of some megabytes.

    Rows in memory are looked at here, on the threads of the pool.
    """
    size = max(1, SCAN_VALUES // max(1, table.rows.shape[1]))
    whole = Table.whole(table)
    pieces = (
        Batch(
            0,
            whole.rows[lo : lo + size],
            repeats=None if whole.repeats is None else whole.repeats[lo : lo + size],
            row_at=lo,
        )
        for lo in range(0, table.n_rows, size)
    )
    if pool is None:
        yield from map(act, map(Batch.loaded, pieces))
        return
    if not isinstance(table.rows, ShardRows):
        yield from pool.here.map(act, pieces)
        return
    begin, files = table.rows.begin, table.rows.files
    with shards_named([start - begin for start in table.rows.starts[:-1]], [f.path for f in files]):
        yield from pool.map(act, pieces)


def _check_lane(check: Callable[[Any, int], None], allow_missing: bool, piece: Batch) -> None:
    _find_missing(piece.rows, piece.row_at, allow_missing)
    check(piece.rows, piece.row_at)


def _measure_lane(
    change: Callable[[Any], Any],
    check: Callable[[Any, int], None] | None,
    allow_missing: bool,
    piece: Batch,
) -> _First:
    rows, lo, repeats = change(piece.rows), piece.row_at, piece.repeats_or_ones()
    with np.errstate(over="ignore", invalid="ignore"):
        missing = _find_missing(rows, lo, allow_missing)
        if check is not None:
            check(rows, lo)
        whole = np.zeros(rows.shape[1], dtype=bool) if is_sparse(rows) else _are_whole(rows)
        seen = repeats.sum() if missing is None else repeats @ ~missing
        highest = rows.max(axis=0) if missing is None else np.fmax.reduce(rows, axis=0)
        largest = highest.toarray().ravel() if is_sparse(rows) else highest
        return _First(seen, _column_sums(_filled(rows, missing), repeats), largest, whole)


def _measure_spread_lane(
    change: Callable[[Any], Any], mean: Array, allow_missing: bool, piece: Batch
) -> tuple[Array | float, Array | float]:
    """Sums of squares, and of squares about the mean; the latter is 0 for CSR matrices."""
    rows, repeats = change(piece.rows), piece.repeats_or_ones()
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(rows):
            return _column_sums(rows.multiply(rows).tocsr(), repeats), 0.0
        missing = _find_missing(rows, 0, allow_missing)
        squares = repeats @ (np.asarray(_filled(rows, missing), dtype=float) ** 2)
        return squares, repeats @ (_filled(rows - mean, missing) ** 2)


def _warn_of_empty_columns(empty: Array) -> None:
    if empty.any():
        warnings.warn(
            f"{name_columns(empty)}: no value in any row, so nothing is learned of it",
            DataWarning,
            stacklevel=3,
        )


def name_columns(chosen: Array) -> str:
    """Text for the marked columns: "columns 3, 4, 7"."""
    where = np.flatnonzero(chosen)
    shown = ", ".join(map(str, where[:5])) + ("..." if len(where) > 5 else "")
    return f"column{'s' if len(where) > 1 else ''} {shown}"


def _are_whole(rows: Array) -> Array:
    """(D,) whether the entries of each column, where they are present, are whole numbers."""
    if rows.dtype.kind != "f":
        return np.ones(rows.shape[1], dtype=bool)
    is_whole = rows[:100] == np.floor(rows[:100])  # most columns are ruled out by a few rows
    if not (is_whole | np.isnan(rows[:100])).all(0).any():
        return np.zeros(rows.shape[1], dtype=bool)
    return np.asarray(((rows == np.floor(rows)) | np.isnan(rows)).all(0))


def _column_sums(rows: Any, repeats: Array) -> Array:
    return np.asarray(repeats @ rows, dtype=float).ravel()


def _filled(rows: Any, missing: Array | None) -> Any:
    """Rows with 0 where an entry is missing."""
    return rows if missing is None else np.where(missing, 0.0, rows)


def _find_missing(rows: Any, lo: int, allow_missing: bool) -> Array | None:
    """(n, D) where entries are missing; None if rows are complete.

    Other values that are not finite are an error.
    """
    values = rows.data if is_sparse(rows) else rows
    # infinities of both signs have no sum, and sums of large values may overflow
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(values.sum(dtype=float)):
            return None
    bad = ~np.isfinite(values)
    if not bad.any():
        return None
    if is_sparse(rows):
        raise ValueError(f"the matrix holds {values[bad][0]}; counts must be finite")
    missing = np.isnan(values)
    refused = bad & ~missing if allow_missing else bad
    if refused.any():
        at, column = np.argwhere(refused)[0]
        raise ValueError(
            f"row {lo + at}, column {column} is {rows[at, column]}; values must be finite"
        )
    return missing
