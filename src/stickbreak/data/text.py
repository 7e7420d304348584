"""Separated text (`.csv`, `.tsv`) as pieces of numbers, in one pass and bounded memory.

Errors name the row and the column.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stickbreak.kernels.text import (
    COMPLETE,
    SKIPPED,
    UNCLOSED,
    WORDS,
    decimal_powers,
    find_changes,
    parse_records,
)

from .runs import Runs, join_runs
from .spool import MAX_COLUMNS

__all__ = ["MAX_CELL", "MAX_RECORD", "TextSource", "open_text"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]
_Piece = TypeVar("_Piece")

CHUNK = 1 << 22  # bytes read at once
MAX_RECORD = 1 << 24  # bytes in a row
MAX_CELL = 1000  # bytes in a number or id
MAX_ODD = 4096  # unusual cells that are read one by one, per piece
MAX_WORDS = 1 << 16  # ids compared at once
MISSING = frozenset({"", "na", "nan"})
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextSource:
    """An examined file: separator, column names (None without a header) and number, data start.

    begin : first byte of the data
    row : row of the file at `begin`, counted from 1, header and blank lines included
    has_returns : whether lines end in a carriage return alone
    """

    path: Path
    separator: str
    names: tuple[str, ...] | None
    n_columns: int
    begin: int
    row: int
    has_returns: bool = False
    n_rows = None  # unknown before the end

    def pieces(self, wanted: Array, report: Report | None = None) -> Iterator[Array]:
        """Numbers (n, D) of the columns at positions `wanted`, piece by piece.

        report : called with bytes read and total bytes.
        """
        slots = np.full(self.n_columns, SKIPPED)
        slots[wanted] = np.arange(len(wanted))
        return self._read(slots, self._numbers, report)

    def runs(self, column: int, report: Report | None = None) -> Runs:
        """Ids in a column: numbers if all of them are, else words as written."""
        slots = np.full(self.n_columns, SKIPPED)
        slots[column] = WORDS
        found = join_runs(self._read(slots, self._words, report))
        return found.with_ids(read_ids(found.ids))

    def _read(
        self, slots: Array, settle: Callable[..., _Piece], report: Report | None
    ) -> Iterator[_Piece]:
        """The records as `settle` converts them, piece by piece."""
        text, row, is_last = b"", self.row, False
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(self.begin)
            while not is_last:
                more = file.read(CHUNK)
                is_last = not more
                more = more.replace(b"\r", b"\n") if self.has_returns else more
                if b"\0" in more:
                    raise ValueError(f"{self.path} holds NUL bytes: it is not UTF-8 text")
                text += more
                at = 0
                for piece, end in self._parse(text, row, slots, is_last, settle):
                    at = end
                    yield piece
                row += text.count(b"\n", 0, at)
                text = text[at:]
                if len(text) > MAX_RECORD:
                    raise ValueError(
                        f"{self.path}, row {row} has more than {MAX_RECORD:,} bytes, "
                        "or a quote that is never closed"
                    )
                if report is not None:
                    report(file.tell(), size)

    def _parse(
        self, text: bytes, row: int, slots: Array, is_last: bool, settle: Callable[..., _Piece]
    ) -> Iterator[tuple[_Piece, int]]:
        """Pieces of the whole records of a text that starts in row `row`, and where each ends."""
        symbols, at = np.frombuffer(text, dtype=np.uint8), 0
        n_wanted = int((slots >= 0).sum())
        odd = np.empty((max(MAX_WORDS if WORDS in slots else MAX_ODD, n_wanted), 4), dtype=np.int64)
        while True:
            most = min(text.count(b"\n", at), (len(text) - at) // self.n_columns) + 1
            out = np.empty((most, n_wanted))
            found = parse_records(
                symbols, at, ord(self.separator), slots, is_last, decimal_powers(), out, odd
            )
            n_rows, n_odd, end, status, n_fields = found
            piece = settle(text, row, slots, out[:n_rows], odd[:n_odd])
            if status != COMPLETE:
                where = f"{self.path}, row {row + _lines_before(text, end)}"
                if status == UNCLOSED:
                    raise ValueError(f"{where} has a quote that is never closed")
                raise ValueError(
                    f"{where} has {n_fields} columns; the first row has {self.n_columns}"
                )
            if n_rows:
                yield piece, end
            if end == at or end == len(text):
                return
            at = end

    def _numbers(self, text: bytes, row: int, slots: Array, out: Array, odd: Array) -> Array:
        """A piece of numbers (n, D), with odd cells read."""
        for i, field, first, last in odd.tolist():
            out[i, slots[field]] = self._read_odd(text, row, field, first, last)
        return out

    def _words(self, text: bytes, row: int, slots: Array, out: Array, odd: Array) -> Runs:
        """Runs of ids in a piece of a column."""
        is_new = np.empty(len(odd), dtype=np.bool_)
        find_changes(np.frombuffer(text, dtype=np.uint8), odd[:, 2:], is_new)
        cells = odd[is_new, 2:]
        long = np.flatnonzero(cells[:, 1] - cells[:, 0] > MAX_CELL)
        if len(long):
            row += text.count(b"\n", 0, int(cells[long[0], 0]))
            raise ValueError(
                f"{self.path}, row {row}: "
                f"{_cell(text, *cells[long[0]])[:40] + '...'!r} is too long for an id"
            )
        return Runs(
            [_cell(text, first, last) for first, last in cells.tolist()],
            np.flatnonzero(is_new),
            len(odd),
        )

    def _read_odd(self, text: bytes, row: int, field: int, first: int, last: int) -> float:
        """A number that the kernel leaves to Python: very many digits, quoted, or infinite.

        A cell that is no number is an error.
        """
        cell = _cell(text, first, last)
        value = read_number(cell)
        if value is not None:
            return value
        row += text.count(b"\n", 0, first)
        column = (
            f"column {field + 1} of {self.n_columns}"
            if self.names is None
            else f"column {self.names[field]!r}"
        )
        shown = cell if len(cell) <= 40 else cell[:40] + "..."
        hint = (
            "; is this row a header? Then say header=True (--header)"
            if self.names is None and row == self.row
            else ""
        )
        raise ValueError(f"{self.path}, row {row}, {column}: {shown!r} is not a number{hint}")


def _cell(text: bytes, first: int, last: int) -> str:
    """The text of a cell without doubled quotes, cut just above the largest length allowed."""
    return (
        text[first : min(last, first + MAX_CELL + 1)]
        .decode("utf-8", "backslashreplace")
        .replace('""', '"')
        .strip()
    )


def _lines_before(text: bytes, at: int) -> int:
    """Number of lines before the record that starts at `at`, or later after blank lines."""
    rest = text[at:]
    return text.count(b"\n", 0, at + len(rest) - len(rest.lstrip()))


def read_ids(cells: list[str]) -> list[Any]:
    """Ids from cells, None for missing ones.

    Numbers if all cells are numbers, so that 7 and 7.0 are the same; else words.
    """
    words = [None if cell.lower() in MISSING else cell for cell in cells]
    numbers = [None if word is None else _read_exactly(word) for word in words]
    return (
        words
        if any(n is None and w is not None for n, w in zip(numbers, words, strict=True))
        else numbers
    )


def _read_exactly(cell: str) -> float | None:
    """Like `read_number`, but whole numbers of any size stay distinct."""
    return int(cell) if cell.isascii() and cell.isdigit() else read_number(cell)


def read_number(cell: str) -> float | None:
    """The number in a cell, NaN if missing; None for anything else or above MAX_CELL characters."""
    if cell.lower() in MISSING:
        return np.nan
    if len(cell) > MAX_CELL or not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def open_text(path: Path, separator: str, header: bool | None = None) -> TextSource:
    """Examine the first row of a file.

    header : whether it holds names. None: it does if it has words and no number.
    """
    with path.open("rb") as file:
        head = file.read(MAX_RECORD)
    has_returns = b"\r" in head and b"\n" not in head  # as on old Macintoshes
    head = head.replace(b"\r", b"\n") if has_returns else head
    first = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    words = (
        first
        + len(head[first:])
        - len(head[first:].lstrip(b" \r\n" if separator == "\t" else b" \t\r\n"))
    )
    if words == len(head):
        raise ValueError(f"{path} is empty")
    begin = max(first, head.rfind(b"\n", 0, words) + 1)
    cells, end = _first_record(path, head, begin, separator)
    if end == MAX_RECORD:
        raise ValueError(f"the first row of {path} has more than {MAX_RECORD:,} bytes")
    if len(cells) > MAX_COLUMNS:
        raise ValueError(f"{path} has {len(cells):,} columns; at most {MAX_COLUMNS:,} can be read")
    row = 1 + head.count(b"\n", 0, begin)
    if header is None:
        numbers = [read_number(cell) for cell in cells]
        header = None in numbers and all(v is None or np.isnan(v) for v in numbers)
    if not header:
        return TextSource(path, separator, None, len(cells), begin, row, has_returns)
    return TextSource(
        path, separator, tuple(cells), len(cells), end, 1 + head.count(b"\n", 0, end), has_returns
    )


def _first_record(path: Path, head: bytes, begin: int, separator: str) -> tuple[list[str], int]:
    """Cells of the record at `begin`, and where the next record starts."""
    lines = (line.decode() for line in io.BytesIO(head[begin:]))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        cells = next(reader)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except csv.Error as error:
        raise ValueError(f"the first row of {path} cannot be read: {error}") from None
    end = begin
    for _ in range(reader.line_num):
        found = head.find(b"\n", end)
        end = len(head) if found < 0 else found + 1
    return [cell.strip() for cell in cells], end
