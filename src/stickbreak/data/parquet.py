"""Parquet files as pieces of numbers, through polars (the extra `parquet`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stickbreak.errors import in_one_line

from .limits import limit, refusal
from .runs import Runs, join_runs
from .words import Codes, WordsError

__all__ = ["ParquetSource", "open_parquet"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

# values decoded at once; a row group may be larger, and polars then holds all of it
PIECE_VALUES = 1 << 20


@dataclass(frozen=True)
class ParquetSource:
    """An examined file: lazy frame, names and number of columns, number of rows."""

    path: Path
    frame: Any
    names: tuple[str, ...]
    n_rows: int

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    def pieces(
        self,
        wanted: Array,
        report: Report | None = None,
        codes: Mapping[int, Codes] | None = None,
    ) -> Iterator[Array]:
        """Numbers (n, D) of the columns at positions `wanted`, piece by piece; nulls are NaN.

        codes : of columns of words.
        """
        import polars as pl

        chosen, known = [self.names[i] for i in wanted], codes or {}
        schema = _run(self.path, self.frame.select(chosen).collect_schema)
        asked = []
        for i, name in zip(wanted.tolist(), chosen, strict=True):
            kind = schema[name]
            if i in known and not kind.is_nested():
                asked.append(pl.col(name).cast(pl.String))
            elif kind.is_numeric() or kind == pl.Boolean:
                asked.append(pl.col(name).cast(pl.Float64))
            else:
                message = (
                    f"{self.path}, column {name!r} holds {kind}, not numbers; choose "
                    "others with columns= (--columns)"
                )
                raise WordsError(message, i)
        done = 0
        for piece in self._slices(self.frame.select(asked), max(1, len(chosen)), report):
            if not known:
                yield piece.to_numpy().astype(np.float64, copy=False)
                continue
            yield np.column_stack(
                [
                    self._coded(piece.to_series(j), known.get(i), done)
                    for j, i in enumerate(wanted.tolist())
                ]
            )
            done += len(piece)

    def _coded(self, column: Any, codes: Codes | None, first: int) -> Array:
        """(n,) numbers of a column, or of its words. first : row of the file that it begins at."""
        if codes is None:
            return np.asarray(column.to_numpy(), dtype=np.float64)
        known: dict[str | None, float] = {None: np.nan}
        for value in column.unique().to_list():
            code = np.nan if value is None else codes.find(value.strip())
            if code is None:
                row = first + int((column == value).arg_true()[0])
                raise ValueError(
                    f"{self.path}, row {row}, column {column.name!r}: {value[:40]!r} is not among "
                    f"the categories that the model knows: {codes.show()}"
                )
            known[value] = code
        return np.array([known[value] for value in column.to_list()])

    def words(self, columns: Sequence[int], report: Report | None = None) -> dict[int, set[str]]:
        """Distinct words of the columns at these positions; none of a column of numbers."""
        import polars as pl

        schema = _run(self.path, self.frame.collect_schema)
        found: dict[int, set[str]] = {}
        for column in columns:
            name = self.names[column]
            if not isinstance(schema[name], pl.String | pl.Categorical | pl.Enum):
                found[column] = set()
                continue
            cells = self.frame.select(pl.col(name).cast(pl.String).unique())
            values = _run(self.path, cells.collect).to_series(0).drop_nulls().to_list()
            if len(values) > limit("SYMBOLS"):
                what = f"{len(values):,} distinct words"
                raise refusal("SYMBOLS", f"{self.path}, column {name!r}", what)
            found[column] = {value.strip() for value in values}
        return found

    def runs(self, column: int, report: Report | None = None) -> Runs:
        """Ids in a column of any type except nested ones such as lists."""
        import polars as pl

        name = self.names[column]
        kind, found = _run(self.path, self.frame.collect_schema)[name], pl.col(name)
        if kind.is_nested() or kind == pl.Object:
            raise ValueError(
                f"{self.path}, column {name!r} holds {kind}, which cannot name "
                "sequences; use numbers or words"
            )
        if kind.is_float():
            found = found.fill_nan(None)
        if isinstance(kind, pl.Categorical | pl.Enum):
            found = found.cast(pl.String)
        return join_runs(
            _find_runs(piece.to_series(0))
            for piece in self._slices(self.frame.select(found), 1, report)
        )

    def _slices(self, frame: Any, width: int, report: Report | None) -> Iterator[Any]:
        """A lazy frame with `width` columns, piece by piece."""
        step = max(1, PIECE_VALUES // width)
        for lo in range(0, self.n_rows, step):
            yield _run(self.path, frame.slice(lo, step).collect)
            if report is not None:
                report(min(lo + step, self.n_rows), self.n_rows)


def _find_runs(column: Any) -> Runs:
    """Runs of a series; nulls are None."""
    found = column.rle().struct
    lengths = found.field("len").to_numpy().astype(np.int64)
    return Runs(found.field("value").to_list(), np.r_[0, lengths.cumsum()[:-1]], len(column))


def open_parquet(path: Path) -> ParquetSource:
    """Examine a file's schema."""
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ValueError(
            f"reading {path} needs polars; pip install 'stickbreak[parquet]'"
        ) from None
    frame = _run(path, lambda: pl.scan_parquet(path, glob=False))
    names = tuple(_run(path, frame.collect_schema).names())
    n_rows = int(_run(path, frame.select(pl.len()).collect).item())
    return ParquetSource(path, frame, names, n_rows)


def _run(path: Path, act: Callable[[], Any]) -> Any:
    """Run polars; any failure in it, even a panic, becomes a ValueError that names the file."""
    import polars as pl

    try:
        return act()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {in_one_line(error)}") from None
