"""Files as tables of numbers.

`.npy` files are mapped as they are. `.npz`, `.csv`, `.tsv` and `.parquet` files cannot be read at
random places. They are streamed once, in bounded memory, into an unnamed temporary file of float64,
and every later pass runs at the speed of a memory map.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .runs import Runs
from .spool import require_room, spool
from .words import Codes, WordsError, order_words

__all__ = [
    "KINDS",
    "FileTable",
    "kept_dtype",
    "open_like",
    "open_table",
    "read_names",
    "read_pieces",
    "read_runs",
]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

KINDS = (".npy", ".npz", ".csv", ".tsv", ".parquet")
PIECE_ROWS = 1 << 16


class Source(Protocol):
    """An examined file that is read from start to end."""

    @property
    def n_columns(self) -> int:
        """Number of columns in the file."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if unknown before the end."""

    def pieces(self, wanted: Array, report: Report | None = None) -> Iterator[Array]:
        """Numbers (n, D) of the columns at positions `wanted`, piece by piece.

        report : called with the work done and the total work.
        """


@runtime_checkable
class NamedSource(Source, Protocol):
    """A source whose columns may have names and hold words."""

    def runs(self, column: int, report: Report | None = None) -> Runs:
        """Runs of ids, numbers or words, in the column at position `column`."""

    def words(self, columns: Sequence[int], report: Report | None = None) -> dict[int, set[str]]:
        """Distinct cells of the columns at these positions; none if a column cannot hold words."""

    def pieces(
        self,
        wanted: Array,
        report: Report | None = None,
        codes: Mapping[int, Codes] | None = None,
    ) -> Iterator[Array]:
        """As in `Source`. codes : numbers of the words in some columns."""


@dataclass(frozen=True)
class FileTable:
    """Rows (n, D) of a file, mapped, with column names if it has any.

    `fit` and `predict` take it like an array.

    categories : of columns of words, by name (by position without names); the v-th has number v
    """

    rows: Array
    names: tuple[str, ...] | None
    path: Path
    categories: Mapping[Any, list[Any]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def parts(self, size: int) -> Iterator[FileTable]:
        """Consecutive parts of at most `size` rows."""
        for lo in range(0, self.n_rows, size):
            yield replace(self, rows=self.rows[lo : lo + size])


def open_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | int] | None = None,
    array: str | None = None,
    header: bool | None = None,
    report: Report | None = None,
    categories: Mapping[Any, list[Any] | None] | None = None,
) -> FileTable:
    r"""Open a file as a table of numbers that is never held in memory.

    Parameters
    ----------
    path : `.npy`, `.npz`, `.csv`, `.tsv` or `.parquet` (needs the extra `parquet`). Empty cells, NA
        and NaN are missing values.
    columns : names of the columns to read, in this order, or their positions from 0; default all.
    array : name of the array in a `.npz` file; default: its only table.
    header : whether the first row of text holds names; default: it does if it has words and no
        number.
    report : called with the work done and the total work, now and then.
    categories : columns of words, by name (by position in the result without names), each with the
        list of its categories, or None to learn them: sorted, none for a column of numbers.

    Returns
    -------
    FileTable

    Examples
    --------
    >>> import pathlib, tempfile, stickbreak as sb
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("x,y,who\n1,2,ann\n3,,bob\n")
    >>> table = sb.open_table(path, columns=["y", "x"])
    >>> table.names, table.rows.tolist()
    (('y', 'x'), [[2.0, 1.0], [nan, 3.0]])
    """
    path = _check_path(path)
    if path.suffix.lower() == ".npy":
        return _open_npy(path, columns, array, header)
    source, names = _examine(path, array, header)
    wanted = _choose(path, names, source.n_columns, columns)
    if source.n_rows is not None:
        require_room(source.n_rows * len(wanted) * 8, str(path))
    codes, found = _find_codes(source, names, wanted, categories)
    try:
        rows = spool(_pieces_of(source, wanted, report, codes), len(wanted))
    except WordsError as error:
        error.columns, error.names = wanted.tolist(), names  # for those who can read words
        raise
    if not len(rows):
        raise ValueError(
            f"{path} has a header but no rows" if names is not None else f"{path} has no rows"
        )
    return FileTable(rows, None if names is None else tuple(names[i] for i in wanted), path, found)


def _find_codes(
    source: Source,
    names: tuple[str, ...] | None,
    wanted: Array,
    categories: Mapping[Any, list[Any] | None] | None,
) -> tuple[dict[int, Codes], dict[Any, list[Any]]]:
    """Numbers of the words in columns of the file, by position; and the categories, by label."""
    if not isinstance(source, NamedSource) or not categories:
        return {}, {}
    labels = {i if names is None else names[at]: at for i, at in enumerate(wanted.tolist())}
    given = {at: categories[label] for label, at in labels.items() if label in categories}
    unknown = [at for at, values in given.items() if values is None]
    learned = source.words(unknown) if unknown else {}
    lists = {**given, **{at: order_words(cells) for at, cells in learned.items()}}
    codes = {at: Codes(values) for at, values in lists.items() if values is not None}
    return codes, {label: codes[at].categories for label, at in labels.items() if at in codes}


def _pieces_of(
    source: Source, wanted: Array, report: Report | None, codes: Mapping[int, Codes]
) -> Iterator[Array]:
    if not codes:
        return source.pieces(wanted, report)
    assert isinstance(source, NamedSource)
    return source.pieces(wanted, report, codes)


def open_like(
    path: str | os.PathLike[str],
    names: Sequence[str] | None,
    report: Report | None = None,
    *,
    array: str | None = None,
    header: bool | None = None,
    categories: Mapping[Any, list[Any] | None] | None = None,
) -> FileTable:
    """Open a file for a model that was fitted to columns with these names.

    Columns are found by name if the file has names; otherwise all are read.
    """
    path = _check_path(path)
    has_names = (
        path.suffix.lower() not in (".npy", ".npz") and _examine(path, array, header)[1] is not None
    )
    columns = list(names) if names is not None and has_names else None
    return open_table(
        path, columns=columns, array=array, header=header, report=report, categories=categories
    )


def read_names(
    path: str | os.PathLike[str], *, array: str | None = None, header: bool | None = None
) -> tuple[str, ...] | None:
    """Names of a file's columns; None if it has none."""
    path = _check_path(path)
    return None if path.suffix.lower() == ".npy" else _examine(path, array, header)[1]


def read_runs(
    path: str | os.PathLike[str],
    column: str,
    *,
    array: str | None = None,
    header: bool | None = None,
    report: Report | None = None,
) -> Runs:
    """Runs of ids, numbers or words, in a column of a file whose columns have names.

    Parameters
    ----------
    column : name of the column.
    path, array, header, report : as in `open_table`.

    Returns
    -------
    Runs
    """
    path = _check_path(path)
    if read_names(path, array=array, header=header) is None:
        raise ValueError(
            f"the columns of {path} have no names, so there is no {column!r} among them"
        )
    source, names = _examine(path, array, header)
    assert isinstance(source, NamedSource)
    return source.runs(int(_choose(path, names, source.n_columns, [column])[0]), report)


def read_pieces(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | int] | None = None,
    array: str | None = None,
    header: bool | None = None,
    report: Report | None = None,
) -> Iterator[FileTable]:
    """Read a file piece by piece in bounded memory, without a temporary file: for `partial_fit`.

    Parameters
    ----------
    path, columns, array, header, report : as in `open_table`.

    Returns
    -------
    Iterator over FileTable, about ten thousand rows each.
    """
    path = _check_path(path)
    if path.suffix.lower() == ".npy":
        yield from _open_npy(path, columns, array, header).parts(PIECE_ROWS)
        return
    source, names = _examine(path, array, header)
    wanted = _choose(path, names, source.n_columns, columns)
    chosen = None if names is None else tuple(names[i] for i in wanted)
    yield from (FileTable(piece, chosen, path) for piece in source.pieces(wanted, report))


def _check_path(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    kinds = ", ".join(KINDS)
    try:
        is_there, is_folder, is_file = path.exists(), path.is_dir(), path.is_file()
    except OSError as error:  # a name that no file can have
        raise ValueError(f"X={str(path)[:200]!r} cannot be opened: {error.strerror}") from None
    if not is_there:
        raise ValueError(
            f"X={str(path)!r}: no such file; expected an array, a data frame or a "
            f"path to a {kinds} file"
        )
    if not is_file:
        raise ValueError(
            f"X={str(path)!r} is a {'folder' if is_folder else 'device'}; expected a "
            f"path to a {kinds} file"
        )
    if path.suffix.lower() not in KINDS:
        raise ValueError(
            f"X={str(path)!r}: files of kind {path.suffix!r} are not read; expected a "
            f"path to a {kinds} file"
        )
    if not os.access(path, os.R_OK):
        raise ValueError(f"X={str(path)!r} may not be read: permission denied")
    return path


def _examine(
    path: Path, array: str | None, header: bool | None
) -> tuple[Source, tuple[str, ...] | None]:
    """The source for a path, chosen by its suffix, and the names of its columns."""
    kind = path.suffix.lower()
    _refuse_options(
        path,
        array=array if kind != ".npz" else None,
        header=header if kind not in (".csv", ".tsv") else None,
    )
    if kind == ".npz":
        from .archives import find_array

        return find_array(path, array), None
    if kind == ".parquet":
        from .parquet import open_parquet

        frame = open_parquet(path)
        return frame, frame.names
    from .text import open_text

    text = open_text(path, "," if kind == ".csv" else "\t", header)
    return text, text.names


def _refuse_options(path: Path, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} does not apply to {path.suffix} files")


def _open_npy(
    path: Path, columns: Sequence[str | int] | None, array: str | None, header: bool | None
) -> FileTable:
    from .archives import PIECE_VALUES, open_npy

    _refuse_options(path, array=array, header=header)
    rows = open_npy(path)
    if columns is None and kept_dtype(rows.dtype) == rows.dtype:
        return FileTable(rows, None, path)
    wanted = _choose(path, None, rows.shape[1], columns)
    step = max(1, PIECE_VALUES // max(1, rows.shape[1]))
    return FileTable(
        spool((rows[lo : lo + step, wanted] for lo in range(0, len(rows), step)), len(wanted)),
        None,
        path,
    )


def kept_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which the rows of a `.npy` file are used: their own, or float64."""
    is_kept = dtype.isnative and dtype.kind in "fiu" and dtype.itemsize <= 8
    return dtype if is_kept and dtype != np.float16 else np.dtype(np.float64)


def _choose(
    path: Path, names: tuple[str, ...] | None, n_columns: int, columns: Sequence[str | int] | None
) -> Array:
    """(D,) positions of the requested columns."""
    if names is not None and len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(f"{path} has two columns named {twice!r}; rename one")
    if columns is None:
        return np.arange(n_columns)
    if isinstance(columns, str) or not len(columns):
        raise ValueError(f"columns must be a list of names or positions; got {columns!r}")
    wanted = [_find_column(path, names, n_columns, column) for column in columns]
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"columns names a column twice; got {list(columns)!r}")
    return np.array(wanted)


def _find_column(
    path: Path, names: tuple[str, ...] | None, n_columns: int, column: str | int
) -> int:
    if isinstance(column, str) and names is not None and column in names:
        return names.index(column)
    is_position = isinstance(column, int | np.integer) or (
        names is None and column.isascii() and column.isdigit() and len(column) < 9
    )
    if is_position and not isinstance(column, bool) and 0 <= int(column) < n_columns:
        return int(column)
    has = (
        f"it has {', '.join(map(repr, names[:20]))}"
        if names is not None
        else f"its {n_columns} columns have no names, only positions from 0"
    )
    raise ValueError(f"{path} has no column {column!r}; {has}")
