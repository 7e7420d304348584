"""Parquet files as pieces of numbers, through polars (the extra `parquet`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stickbreak.errors import in_one_line

__all__ = ["ParquetSource", "open_parquet"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

PIECE_VALUES = 1 << 20  # values decoded at once; a row group may be larger, and polars then holds one


@dataclass(frozen=True)
class ParquetSource:
    """An examined file: the lazy frame, names and number of its columns, and its rows."""

    path: Path
    frame: Any
    names: tuple[str, ...]
    n_rows: int

    @property
    def n_columns(self) -> int:
        """Columns."""
        return len(self.names)

    def pieces(self, wanted: Array, report: Report | None = None) -> Iterator[Array]:
        """Numbers (n, D) of the wanted columns, by position, piece by piece; nulls are NaN."""
        import polars as pl

        chosen = [self.names[i] for i in wanted]
        for name, kind in _run(self.path, self.frame.select(chosen).collect_schema).items():
            if not (kind.is_numeric() or kind == pl.Boolean):
                raise ValueError(f"{self.path}, column {name!r} holds {kind}, not numbers; choose others with columns= (--columns)")
        numbers = self.frame.select(pl.col(chosen).cast(pl.Float64))
        step = max(1, PIECE_VALUES // max(1, len(chosen)))
        for lo in range(0, self.n_rows, step):
            piece = _run(self.path, numbers.slice(lo, step).collect)
            yield piece.to_numpy().astype(np.float64, copy=False)
            if report is not None:
                report(min(lo + step, self.n_rows), self.n_rows)


def open_parquet(path: Path) -> ParquetSource:
    """Examine a file's schema."""
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise ValueError(f"reading {path} needs polars; pip install 'stickbreak[parquet]'") from None
    frame = _run(path, lambda: pl.scan_parquet(path, glob=False))
    names = tuple(_run(path, frame.collect_schema).names())
    n_rows = int(_run(path, frame.select(pl.len()).collect).item())
    return ParquetSource(path, frame, names, n_rows)


def _run(path: Path, act: Callable[[], Any]) -> Any:
    """Polars at work: whatever goes wrong in it, a panic of its own included, is a ValueError that names the file."""
    import polars as pl

    try:
        return act()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {in_one_line(error)}") from None
