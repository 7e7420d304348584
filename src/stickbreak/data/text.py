"""Separated text (`.csv`, `.tsv`) as pieces of numbers, in one pass and bounded memory.

Errors name the row and the column.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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

from .limits import MAX_CELL, limit, refusal
from .runs import Runs, join_runs
from .words import MISSING, Codes, WordsError, read_number

__all__ = ["TextSource", "open_text"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]
_Piece = TypeVar("_Piece")

CHUNK = 1 << 22  # bytes read at once
MAX_ODD = 4096  # unusual cells that are read one by one, per piece
MAX_WORDS = 1 << 16  # ids compared at once
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

    def pieces(
        self,
        wanted: Array,
        report: Report | None = None,
        codes: Mapping[int, Codes] | None = None,
    ) -> Iterator[Array]:
        """Numbers (n, D) of the columns at positions `wanted`, piece by piece.

        report : called with bytes read and total bytes. codes : of columns of words.
        """
        slots = np.full(self.n_columns, SKIPPED)
        slots[wanted] = np.arange(len(wanted))
        if not codes:
            return self._read(slots, self._numbers, report)
        slots[list(codes)] = WORDS
        return self._read(slots, partial(self._mixed, wanted.tolist(), codes), report)

    def words(self, columns: Sequence[int], report: Report | None = None) -> dict[int, set[str]]:
        """Distinct cells of the columns at these positions."""
        slots = np.full(self.n_columns, SKIPPED)
        slots[list(columns)] = WORDS
        found: dict[int, set[str]] = {column: set() for column in columns}
        for piece in self._read(slots, _distinct, report):
            for column, cells in piece.items():
                found[column] |= cells
                if len(found[column]) > limit("SYMBOLS"):
                    what = f"{len(found[column]):,} or more distinct words"
                    raise refusal("SYMBOLS", f"{self.path}, {self._name(column)}", what)
        return found

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
        text, row, is_last, longest = b"", self.row, False, limit("LINE")
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
                if len(text) > longest:
                    found = f"{len(text):,} bytes or more, or a quote that is never closed"
                    raise refusal("LINE", f"{self.path}, row {row}", found)
                if report is not None:
                    report(file.tell(), size)

    def _parse(
        self, text: bytes, row: int, slots: Array, is_last: bool, settle: Callable[..., _Piece]
    ) -> Iterator[tuple[_Piece, int]]:
        """Pieces of the whole records of a text that starts in row `row`, and where each ends."""
        symbols, at = np.frombuffer(text, dtype=np.uint8), 0
        n_wanted, width = int((slots != SKIPPED).sum()), int(slots.max(initial=-1)) + 1
        odd = np.empty((max(MAX_WORDS if WORDS in slots else MAX_ODD, n_wanted), 4), dtype=np.int64)
        while True:
            most = min(text.count(b"\n", at), (len(text) - at) // self.n_columns) + 1
            out = np.empty((most, max(width, 0)))
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

    def _mixed(
        self,
        wanted: list[int],
        codes: Mapping[int, Codes],
        text: bytes,
        row: int,
        slots: Array,
        out: Array,
        odd: Array,
    ) -> Array:
        """A piece of numbers (n, D), with words replaced by the numbers of their categories."""
        found = np.empty((len(out), len(wanted)))
        found[:, : out.shape[1]] = out
        places, known = {field: j for j, field in enumerate(wanted)}, {}
        for i, field, first, last in odd.tolist():
            if field not in codes:
                found[i, places[field]] = self._read_odd(text, row, field, first, last)
                continue
            key = field, text[first:last]
            if key not in known:
                known[key] = self._code(codes[field], text, row, field, first, last)
            found[i, places[field]] = known[key]
        return found

    def _code(
        self, codes: Codes, text: bytes, row: int, field: int, first: int, last: int
    ) -> float:
        """The number of a word; one that is no category is an error."""
        cell = _cell(text, first, last)
        code = codes.find(cell)
        if code is not None:
            return code
        row += text.count(b"\n", 0, first)
        shown = cell if len(cell) <= 40 else cell[:40] + "..."
        raise ValueError(
            f"{self.path}, row {row}, {self._name(field)}: {shown!r} is not among the categories "
            f"that the model knows: {codes.show()}"
        )

    def _name(self, field: int) -> str:
        """What messages call a column."""
        if self.names is None:
            return f"column {field + 1} of {self.n_columns}"
        return f"column {self.names[field]!r}"

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
        shown = cell if len(cell) <= 40 else cell[:40] + "..."
        hint = (
            "; is this row a header? Then say header=True (--header)"
            if self.names is None and row == self.row
            else ""
        )
        raise WordsError(
            f"{self.path}, row {row}, {self._name(field)}: {shown!r} is not a number{hint}", field
        )


def _distinct(text: bytes, row: int, slots: Array, out: Array, odd: Array) -> dict[int, set[str]]:
    """Distinct cells of a piece, by column."""
    found: dict[int, set[bytes]] = {}
    for _, field, first, last in odd.tolist():
        found.setdefault(field, set()).add(text[first : min(last, first + MAX_CELL + 1)])
    return {field: {_cell(c, 0, len(c)) for c in cells} for field, cells in found.items()}


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


def open_text(path: Path, separator: str, header: bool | None = None) -> TextSource:
    """Examine the first row of a file.

    header : whether it holds names. None: it does if it has words and no number.
    """
    longest = limit("LINE")
    with path.open("rb") as file:
        head = file.read(longest + 2)  # a row that is too long, and its end
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
    if end > longest + 1:
        raise refusal("LINE", f"the first row of {path}", f"more than {longest:,} bytes")
    if len(cells) > limit("COLUMNS"):
        raise refusal("COLUMNS", str(path), f"{len(cells):,} columns")
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
