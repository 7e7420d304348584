"""Separated text (`.csv`, `.tsv`) as pieces of numbers: one pass in bounded memory, and errors that name the row and the column."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stickbreak.kernels.text import COMPLETE, UNCLOSED, decimal_powers, parse_records

from .spool import MAX_COLUMNS

__all__ = ["MAX_CELL", "MAX_RECORD", "TextSource", "open_text"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

CHUNK = 1 << 22  # bytes read at once
MAX_RECORD = 1 << 24  # bytes of one row
MAX_CELL = 1000  # characters of a number
MAX_ODD = 4096  # cells that are looked at one by one, at once
MISSING = frozenset({"", "na", "nan"})
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextSource:
    """An examined file: its separator, the names of its columns (None without a header), their number, and where the data begin.

    begin, row : first byte of the data, and the row of the file (counted from 1, header and blank lines too) that it belongs to
    has_returns : whether lines end in a carriage return alone
    """

    path: Path
    separator: str
    names: tuple[str, ...] | None
    n_columns: int
    begin: int
    row: int
    has_returns: bool = False
    n_rows = None  # not known before the end

    def pieces(self, wanted: Array, report: Report | None = None) -> Iterator[Array]:
        """Numbers (n, D) of the wanted columns, by position, piece by piece. report: told bytes read, and bytes in all."""
        slots = np.full(self.n_columns, -1)
        slots[wanted] = np.arange(len(wanted))
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
                for piece, end in self._parse(text, row, slots, is_last):
                    at = end
                    yield piece
                row += text.count(b"\n", 0, at)
                text = text[at:]
                if len(text) > MAX_RECORD:
                    raise ValueError(f"{self.path}, row {row} has more than {MAX_RECORD:,} bytes, or a quote that is never closed")
                if report is not None:
                    report(file.tell(), size)

    def _parse(self, text: bytes, row: int, slots: Array, is_last: bool) -> Iterator[tuple[Array, int]]:
        """Pieces of the whole records of a text that begins in row `row`, and where each one ends."""
        symbols, at = np.frombuffer(text, dtype=np.uint8), 0
        n_wanted = int(slots.max()) + 1
        odd = np.empty((max(MAX_ODD, n_wanted), 4), dtype=np.int64)
        while True:
            most = min(text.count(b"\n", at), (len(text) - at) // self.n_columns) + 1
            out = np.empty((most, n_wanted))
            found = parse_records(symbols, at, ord(self.separator), slots, is_last, decimal_powers(), out, odd)
            n_rows, n_odd, end, status, n_fields = found
            for i, field, first, last in odd[:n_odd].tolist():
                out[i, slots[field]] = self._read_odd(text, row, field, first, last)
            if status != COMPLETE:
                where = f"{self.path}, row {row + _lines_before(text, end)}"
                if status == UNCLOSED:
                    raise ValueError(f"{where} has a quote that is never closed")
                raise ValueError(f"{where} has {n_fields} columns; the first row has {self.n_columns}")
            if n_rows:
                yield out[:n_rows], end
            if end == at or end == len(text):
                return
            at = end

    def _read_odd(self, text: bytes, row: int, field: int, first: int, last: int) -> float:
        """A cell that the kernel leaves to Python: a number with very many digits, a quoted one, an infinity; or no number."""
        cell = text[first : min(last, first + MAX_CELL + 1)].decode("utf-8", "backslashreplace").replace('""', '"').strip()
        value = read_number(cell)
        if value is not None:
            return value
        row += text.count(b"\n", 0, first)
        column = f"column {field + 1} of {self.n_columns}" if self.names is None else f"column {self.names[field]!r}"
        shown = cell if len(cell) <= 40 else cell[:40] + "..."
        hint = "; is this row a header? Then say header=True (--header)" if self.names is None and row == self.row else ""
        raise ValueError(f"{self.path}, row {row}, {column}: {shown!r} is not a number{hint}")


def _lines_before(text: bytes, at: int) -> int:
    """Lines before the record that is found at `at` or, after blank lines, later."""
    rest = text[at:]
    return text.count(b"\n", 0, at + len(rest) - len(rest.lstrip()))


def read_number(cell: str) -> float | None:
    """The number that a cell spells, NaN for a missing one; None for anything else, and for more than MAX_CELL characters."""
    if cell.lower() in MISSING:
        return np.nan
    if len(cell) > MAX_CELL or not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def open_text(path: Path, separator: str, header: bool | None = None) -> TextSource:
    """Examine the first row. header: whether it holds names; None: it does if it has words and no number."""
    with path.open("rb") as file:
        head = file.read(MAX_RECORD)
    has_returns = b"\r" in head and b"\n" not in head  # as on old Macintoshes
    head = head.replace(b"\r", b"\n") if has_returns else head
    first = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    words = first + len(head[first:]) - len(head[first:].lstrip(b" \r\n" if separator == "\t" else b" \t\r\n"))
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
    return TextSource(path, separator, tuple(cells), len(cells), end, 1 + head.count(b"\n", 0, end), has_returns)


def _first_record(path: Path, head: bytes, begin: int, separator: str) -> tuple[list[str], int]:
    """Cells of the record that begins at `begin`, and where the next one begins."""
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
