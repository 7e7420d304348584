"""Formats of document files: LDA-C, UCI docword, and plain words.

Text is read in pieces that end at a line end, so that little is held besides the counts.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from stickbreak.errors import DataWarning, quoted

from .counted import CountedDocuments
from .limits import limit, refusal
from .lines import LineReader, Report

__all__ = ["read_docword", "read_ldac", "read_numbers", "read_texts", "show_start"]

Array = npt.NDArray[Any]
WORD_BYTES = 1 << 20  # of words at once: each becomes an object
MARK = b"\xef\xbb\xbf"  # byte-order mark, with which some programs start a text


def show_start(text: bytes) -> str:
    """The start of a line, in quotes."""
    shown = text[:40].decode("utf-8", "replace").strip()
    return repr(shown + ("..." if len(text.strip()) > 40 else ""))


def read_numbers(text: bytes) -> Array | None:
    """All whole numbers in a text; None if it holds anything else."""
    with warnings.catch_warnings():
        # raised for a text that cannot be read to its end
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text.decode("ascii"), dtype=np.int64, sep=" ")
        except (DeprecationWarning, ValueError, UnicodeDecodeError):
            return None


def _parse(
    path: Path,
    pieces: Iterator[tuple[int, bytes]],
    read: Callable[[bytes], Any],
    expected: str,
) -> Iterator[tuple[int, Any]]:
    """What `read` finds in each piece, with its first line; raises if it is None."""
    for line, piece in pieces:
        found = read(piece)
        if found is None:
            at, text = _first_bad(piece, line, read)
            raise ValueError(f"{path}, line {at} is {show_start(text)}; expected `{expected}`")
        yield line, found


def _first_bad(piece: bytes, line: int, read: Callable[[bytes], Any]) -> tuple[int, bytes]:
    """The first line of a piece that cannot be read, and its number; found by halving."""
    lines = piece.splitlines(keepends=True)
    lo, hi = 0, len(lines)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if read(b"".join(lines[lo:middle])) is None:
            hi = middle
        else:
            lo = middle
    return line + lo, lines[lo]


def _check_entries(path: Path, line: int, lengths: Array, symbols: Array, counts: Array) -> None:
    """Refuse words and counts beyond the limits, in lines from `line` on, of lengths (L,)."""
    for name, values, what in (
        ("SYMBOLS", symbols, "the word"),
        ("COUNT", counts - 1, "a count of"),
    ):
        if len(values) and values.max() >= limit(name):
            first = int(np.argmax(values >= limit(name)))
            at = line + int(np.searchsorted(np.cumsum(lengths), first, side="right"))
            value = int(symbols[first] if name == "SYMBOLS" else counts[first])
            more = " or more" if value == np.iinfo(np.int64).max else ""
            raise refusal(name, f"{path}, line {at}", f"{what} {value:,}{more}")


def _check_empty(path: Path, n_empty: int) -> None:
    """Refuse a file of hardly anything but documents without words."""
    if n_empty > limit("EMPTY_DOCUMENTS"):
        raise refusal("EMPTY_DOCUMENTS", str(path), f"{n_empty:,} or more documents without words")


# -------------------------------------------------------------------------------------------- LDA-C


def read_ldac(path: Path, file: IO[bytes], n_words: int | None, report: Report | None) -> Any:
    """Counts (S, V) of lines `n id:count id:count ...`, ids from 0."""
    pieces = LineReader(path, file).pieces(report)
    made, n_empty = CountedDocuments(), 0
    for line, found in _parse(path, pieces, _ldac_piece, "n id:count id:count ..."):
        lengths, symbols, counts = found
        own = (
            symbols if n_words is None else symbols[:0]
        )  # a known vocabulary is checked at the end
        _check_entries(path, line, lengths, own, counts)
        n_empty += int((lengths == 0).sum())
        _check_empty(path, n_empty)
        _check_known(path, line, lengths, symbols, n_words)
        made.add(*found)
    return _require_some(path, made).matrix(n_words)


def _ldac_piece(text: bytes) -> tuple[Array, Array, Array] | None:
    """Entries per line (L,), ids and counts (E,) of all entries; None if the text is invalid."""
    lines = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)
    ends = np.flatnonzero(lines == ord("\n"))
    colons = np.searchsorted(np.flatnonzero(lines == ord(":")), ends)
    n_entries = np.diff(colons, prepend=0)
    plain = text.replace(b":", b" ")
    numbers = read_numbers(plain)
    if numbers is None or len(numbers) != 2 * n_entries.sum() + len(n_entries):
        return None
    if not np.array_equal(_numbers_of_lines(plain)[: len(n_entries)], 2 * n_entries + 1):
        return None  # a number of one line would be read as part of the next
    starts = np.cumsum(2 * n_entries + 1) - (2 * n_entries + 1)
    is_first = np.zeros(len(numbers), dtype=bool)
    is_first[starts] = True
    if not np.array_equal(numbers[starts], n_entries):
        return None
    pairs = numbers[~is_first].reshape(-1, 2)
    if len(pairs) and pairs.min() < 0:
        return None
    return n_entries, pairs[:, 0], pairs[:, 1]


# ------------------------------------------------------------------------------------------ docword


def read_docword(path: Path, file: IO[bytes], n_words: int | None, report: Report | None) -> Any:
    """Counts (S, V) of three lines of sizes and lines `document word count`, both from 1."""
    reader = LineReader(path, file)
    n_documents, size, n_entries = _read_sizes(path, reader.first(3))
    if n_words is not None and n_words != size:
        raise ValueError(f"{path} has a vocabulary of {size} words; got {n_words}")
    if n_words is None and size > limit("SYMBOLS"):
        raise refusal("SYMBOLS", f"{path}, line 2", f"a vocabulary of {size:,} words")
    found = _Triples(path, n_documents, size)
    for line, rows in _parse(path, reader.pieces(report), _triples, "document word count"):
        _check_entries(path, line, np.ones(len(rows)), rows[:0, 1], rows[:, 2])
        found.add(line, rows)
    if found.n_read != n_entries:
        raise ValueError(
            f"{path} says that it has {n_entries} entries, but has {found.n_read}: it is not "
            "complete"
        )
    return found.matrix()


class _Triples:
    """Entries of a docword file; documents are in order, or all entries are held until its end."""

    def __init__(self, path: Path, n_documents: int, size: int) -> None:
        self._path, self._n_documents, self._size = path, n_documents, size
        self._made, self._n_empty = CountedDocuments(), 0
        self._open = np.zeros((0, 3), dtype=np.int64)  # of the last document, which may go on
        self._others: list[Array] | None = None  # once some entry is of an earlier document
        self.n_read = 0

    def add(self, line: int, rows: Array) -> None:
        """Lines (E, 3) document, word, count, from line `line` on."""
        for column, most, what in ((0, self._n_documents, "document"), (1, self._size, "word")):
            bad = np.flatnonzero((rows[:, column] < 1) | (rows[:, column] > most))
            if len(bad):
                raise ValueError(
                    f"{self._path}, line {bad[0] + line}: {what} {rows[bad[0], column]} is not "
                    f"between 1 and {most}"
                )
        self.n_read += len(rows)
        if self._others is not None:
            self._others.append(rows)
            return
        rows = np.concatenate([self._open, rows])
        is_ordered = not len(rows) or (
            bool((np.diff(rows[:, 0]) >= 0).all()) and rows[0, 0] > self._made.n_documents
        )
        if not is_ordered:
            self._others = [rows]
            return
        last = int(np.searchsorted(rows[:, 0], rows[-1, 0])) if len(rows) else 0
        self._open = rows[last:]
        self._close(rows[:last], int(rows[last, 0]) - 1 if len(rows) else self._made.n_documents)

    def _close(self, rows: Array, until: int) -> None:
        """Documents up to number `until` are complete."""
        n = until - self._made.n_documents
        if n > 0:
            self._n_empty += n - len(np.unique(rows[:, 0]))
            _check_empty(self._path, self._n_empty)
            lengths = np.bincount(rows[:, 0] - self._made.n_documents - 1, minlength=n)
            self._made.add(lengths, rows[:, 1] - 1, rows[:, 2])

    def matrix(self) -> Any:
        """Counts (S, V) of all entries."""
        if self._others is None:
            self._close(self._open, self._n_documents)
            return self._made.matrix(self._size)
        rows, n = np.concatenate(self._others), self._n_documents
        _check_empty(self._path, n - self._made.n_documents - len(np.unique(rows[:, 0])))
        parts: Any = rows[:, 2].astype(float), (rows[:, 0] - 1, rows[:, 1] - 1)
        before = self._made.matrix(self._size)
        before.resize((n, self._size))
        found = before + sparse.csr_array(parts, shape=(n, self._size))
        _check_empty(self._path, int((np.diff(found.indptr) == 0).sum()))
        return found


def _read_sizes(path: Path, header: list[bytes]) -> list[int]:
    """Numbers of documents, words and entries from the first three lines."""
    if not header[0]:
        raise ValueError(f"{path} is empty; expected a line for each document")
    sizes = [read_numbers(line) for line in header]
    found = [int(size[0]) for size in sizes if size is not None and len(size) == 1 and size[0] >= 0]
    if len(found) < 3:
        raise ValueError(
            f"{path} is neither LDA-C (`n id:count ...` on each line) nor docword (three lines "
            "with a number each, then `document word count`): it begins with "
            f"{show_start(header[0])}; documents as words go to a .txt file, one on each line"
        )
    return found


def _triples(text: bytes) -> Array | None:
    """Documents, words and counts (E, 3) of the lines; None if a line is invalid."""
    numbers = read_numbers(text)
    if numbers is None or len(numbers) % 3 or (len(numbers) and numbers.min() < 0):
        return None
    if not np.isin(_numbers_of_lines(text), (0, 3)).all():
        return None  # a number of one line would be read as part of the next
    return numbers.reshape(-1, 3)


def _numbers_of_lines(text: bytes) -> Array:
    """(L,) number of words, separated by blanks, on each line."""
    letters = np.frombuffer(b"\n" + text + b"\n", dtype=np.uint8)
    is_blank = letters <= ord(" ")
    begins = np.flatnonzero(is_blank[:-1] & ~is_blank[1:])
    ends = np.flatnonzero(letters == ord("\n"))[1:]
    return np.diff(np.searchsorted(begins, ends), prepend=0)


# -------------------------------------------------------------------------------------------- words


def read_texts(
    path: Path, file: IO[bytes], known: tuple[str, ...] | None, report: Report | None
) -> tuple[Any, tuple[str, ...]]:
    """Counts (S, V) of a document on each line, and the words; known : count only these."""
    ids = _number_words(known)
    left_out: set[bytes] | None = None if known is None else set()
    made, n_empty = CountedDocuments(), 0
    for line, piece in LineReader(path, file).pieces(report, WORD_BYTES):
        text = piece.removeprefix(MARK) if line == 1 else piece
        _check_empty(path, text.count(b"\n\n"))  # before a loop over them
        _require_utf8(path, text, line)
        found = _count_piece(text, ids, left_out)
        made.add(*found)
        if known is None and len(ids) > limit("SYMBOLS"):
            raise refusal("SYMBOLS", str(path), f"{len(ids):,} or more distinct words")
        n_empty += int((found[0] == 0).sum())
        _check_empty(path, n_empty)
    if left_out:
        _warn_of_others(path, left_out)
    if made.n_documents and not made.n_entries:
        raise ValueError(
            f"{path} has no words"
            + ("" if known is None else " of the vocabulary; capitals count in words")
        )
    _require_some(path, made)
    if known is not None:
        return made.matrix(len(known)), known
    order = sorted(ids)
    rank = np.empty(len(ids), dtype=np.int64)
    rank[[ids[word] for word in order]] = np.arange(len(ids))
    words = tuple(word.decode("utf-8") for word in order)
    return made.renumbered(rank.__getitem__, len(words)), words


def _number_words(known: tuple[str, ...] | None) -> dict[bytes, int]:
    """Ids of the words of a vocabulary."""
    ids: dict[bytes, int] = {}
    for i, word in enumerate(known or ()):
        first = ids.setdefault(word.encode("utf-8"), i)
        if first != i:
            raise ValueError(f"the vocabulary has {quoted(word)} twice, as words {first} and {i}")
    return ids


def _require_utf8(path: Path, text: bytes, line: int) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + text.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}, line {at} holds the byte 0x{text[error.start]:02x}, which is not UTF-8: "
            "convert the file"
        ) from None


def _count_piece(
    text: bytes, ids: dict[bytes, int], left_out: set[bytes] | None
) -> tuple[Array, Array, Array]:
    """Distinct words per line (L,), and ids and counts (E,) of all.

    New words get ids, or go to left_out.
    """
    found, ends = array("q"), [0]
    for line in text.removesuffix(b"\n").split(b"\n"):
        words = line.split()
        if left_out is None:
            found.extend([ids.setdefault(word, len(ids)) for word in words])
        else:
            found.extend([ids[word] for word in words if word in ids])
            left_out.update(word for word in words if word not in ids)
        ends.append(len(found))
    symbols = np.array(found, dtype=np.int64)
    parts: Any = np.ones(len(symbols)), symbols, np.array(ends)
    matrix = sparse.csr_array(parts, shape=(len(ends) - 1, max(len(ids), 1)))
    matrix.sum_duplicates()
    return np.diff(matrix.indptr), matrix.indices, matrix.data


def _warn_of_others(path: Path, words: set[bytes]) -> None:
    shown = ", ".join(quoted(word.decode("utf-8")) for word in sorted(words)[:3]) + (
        ", ..." if len(words) > 3 else ""
    )
    message = f"{len(words)} words of {path} are not in the vocabulary and are left out: {shown}"
    warnings.warn(message, DataWarning, stacklevel=4)


# ---------------------------------------------------------------------------------------------- all


def _check_known(
    path: Path, line: int, lengths: Array, symbols: Array, n_words: int | None
) -> None:
    """Refuse words beyond a given vocabulary, in lines from `line` on, of lengths (L,)."""
    if n_words is not None and symbols.max(initial=-1) >= n_words:
        first = int(np.argmax(symbols >= n_words))
        at = line + int(np.searchsorted(np.cumsum(lengths), first, side="right"))
        raise ValueError(
            f"{path}, line {at}: word {symbols[first]} is not in a vocabulary of {n_words}"
        )


def _require_some(path: Path, made: CountedDocuments) -> CountedDocuments:
    """The documents, if there are any."""
    if not made.n_documents:
        raise ValueError(f"{path} is empty; expected a line for each document")
    return made
