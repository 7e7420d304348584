"""Files of documents: LDA-C (`n id:count ...`, a line for each document) and UCI's docword, also compressed; and word lists.

A text is read in pieces that end at the end of a line, so that what is held besides the counts stays small.
"""

from __future__ import annotations

import gzip
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = ["Corpus", "read_corpus", "read_words"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

PIECE_BYTES = 1 << 24
MAX_WORDS = 50_000_000  # a vocabulary larger than this is a damaged file


@dataclass(frozen=True)
class Corpus:
    """counts (S, V), a CSR matrix; words (V,), or None where the file has none. `fit` and `transform` take it like a matrix."""

    counts: Any
    words: tuple[str, ...] | None = None

    @property
    def n_documents(self) -> int:
        """Documents."""
        return int(self.counts.shape[0])


def read_corpus(
    path: str | os.PathLike[str],
    *,
    words: str | os.PathLike[str] | None = None,
    n_words: int | None = None,
    report: Report | None = None,
) -> Corpus:
    r"""Read a file of documents.

    Parameters
    ----------
    path : LDA-C (a line `n id:count id:count ...` for each document, ids from 0) or UCI docword (three lines with the numbers of
        documents, words and entries; then lines `document word count`, from 1); also compressed (`.gz`). Which of them it is, the
        first line says.
    words : file with a word on each line, in the order of their ids.
    n_words : size of the vocabulary; default: that of `words`, of the file, or the largest id plus one.
    report : called with the bytes read and all bytes, now and then.

    Returns
    -------
    Corpus

    Examples
    --------
    >>> import pathlib, tempfile, stickbreak as sb
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "docs.ldac"
    >>> _ = path.write_text("2 0:1 3:2\n1 1:5\n")
    >>> sb.read_corpus(path).counts.toarray().astype(int).tolist()
    [[1, 0, 0, 2], [0, 5, 0, 0]]
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    known = None if words is None else read_words(words)
    if known is not None and n_words is not None and len(known) != n_words:
        raise ValueError(f"n_words={n_words} but {words} has {len(known)} words")
    n_words = len(known) if known is not None else n_words
    try:
        with _open(path) as file:
            first = file.readline()
            is_ldac = b":" in first or first.split() == [b"0"]
            if is_ldac:
                file.seek(0)
            counts = _read_ldac(path, file, n_words, report) if is_ldac else _read_docword(path, file, first, n_words, report)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    return Corpus(counts, known)


def read_words(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Words of a vocabulary file, one on each line."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    try:
        with _open(path) as file:
            found = tuple(file.read().decode("utf-8").splitlines())
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not found:
        raise ValueError(f"{path} is empty; expected a word on each line")
    return found


def _open(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _pieces(path: Path, file: IO[bytes], report: Report | None) -> Iterator[tuple[int, bytes]]:
    """Whole lines, some at a time, with the number of the first (from 1)."""
    line, left, size = 1, b"", path.stat().st_size
    while True:
        piece = file.read(PIECE_BYTES)
        whole = left + piece
        end = len(whole) if not piece else whole.rfind(b"\n") + 1
        if end:
            yield line, whole[:end]
            line += whole.count(b"\n", 0, end)
        left = whole[end:]
        if report is not None:
            raw = getattr(file, "fileobj", None) or file
            report(min(raw.tell(), size), size)
        if not piece:
            return


def _numbers(text: bytes) -> Array | None:
    """All whole numbers of a text; None if it holds anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # what cannot be read to its end
        try:
            return np.fromstring(text.decode("ascii"), dtype=np.int64, sep=" ")
        except (DeprecationWarning, ValueError, UnicodeDecodeError):
            return None


# ---------------------------------------------------------------------------------------------- LDA-C


def _read_ldac(path: Path, file: IO[bytes], n_words: int | None, report: Report | None) -> Any:
    lengths, ids, counts = [], [], []
    for line, piece in _pieces(path, file, report):
        found = _ldac_piece(piece)
        if found is None:
            raise ValueError(f"{path}, {_first_bad(piece, line, _ldac_piece)}; expected `n id:count id:count ...`")
        lengths.append(found[0])
        ids.append(found[1])
        counts.append(found[2])
    return _matrix(path, lengths, ids, counts, n_words)


def _ldac_piece(text: bytes) -> tuple[Array, Array, Array] | None:
    """Numbers of entries (L,) of the lines, ids and counts (E,) of all; None if the text is not of this form."""
    lines = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)
    ends = np.flatnonzero(lines == ord("\n"))
    colons = np.searchsorted(np.flatnonzero(lines == ord(":")), ends)
    n_entries = np.diff(colons, prepend=0)
    numbers = _numbers(text.replace(b":", b" "))
    if numbers is None or len(numbers) != 2 * n_entries.sum() + len(n_entries):
        return None
    starts = np.cumsum(2 * n_entries + 1) - (2 * n_entries + 1)
    is_first = np.zeros(len(numbers), dtype=bool)
    is_first[starts] = True
    if not np.array_equal(numbers[starts], n_entries):
        return None
    pairs = numbers[~is_first].reshape(-1, 2)
    if len(pairs) and (pairs.min() < 0 or pairs[:, 0].max() >= MAX_WORDS):
        return None
    return n_entries, pairs[:, 0], pairs[:, 1]


def _first_bad(piece: bytes, line: int, read: Callable[[bytes], Any]) -> str:
    """Where a piece is not of the form that it should have."""
    for i, text in enumerate(piece.splitlines()):
        if read(text) is None:
            shown = text[:40].decode("utf-8", "replace")
            return f"line {line + i} is {shown + ('...' if len(text) > 40 else '')!r}"
    return f"line {line} and those after it do not fit together"


# ---------------------------------------------------------------------------------------------- docword


def _read_docword(path: Path, file: IO[bytes], first: bytes, n_words: int | None, report: Report | None) -> Any:
    header = [first, file.readline(), file.readline()]
    sizes = [_numbers(line) for line in header]
    if any(found is None or len(found) != 1 for found in sizes):
        raise ValueError(
            f"{path} is neither LDA-C (`n id:count ...` on each line) nor docword (three lines with a number each, then "
            f"`document word count`): it begins with {first[:40].decode('utf-8', 'replace').strip()!r}"
        )
    n_documents, size, n_entries = (int(found[0]) for found in sizes if found is not None)
    if n_words is not None and n_words != size:
        raise ValueError(f"{path} has a vocabulary of {size} words; got {n_words}")
    parts = []
    for line, piece in _pieces(path, file, report):
        found = _triples(piece)
        if found is None:
            raise ValueError(f"{path}, {_first_bad(piece, line + 3, _triples)}; expected `document word count`")
        parts.append(found)
    rows = np.concatenate(parts) if parts else np.zeros((0, 3), dtype=np.int64)
    if len(rows) != n_entries:
        raise ValueError(f"{path} says that it has {n_entries} entries, but has {len(rows)}: it is not complete")
    for column, limit, what in ((0, n_documents, "document"), (1, size, "word")):
        bad = np.flatnonzero((rows[:, column] < 1) | (rows[:, column] > limit))
        if len(bad):
            raise ValueError(f"{path}, line {bad[0] + 4}: {what} {rows[bad[0], column]} is not between 1 and {limit}")
    parts_of: Any = rows[:, 2].astype(float), (rows[:, 0] - 1, rows[:, 1] - 1)
    return sparse.csr_array(parts_of, shape=(n_documents, size))


def _triples(text: bytes) -> Array | None:
    numbers = _numbers(text)
    if numbers is None or len(numbers) % 3 or (len(numbers) and numbers.min() < 0):
        return None
    return numbers.reshape(-1, 3)


def _matrix(path: Path, lengths: list[Array], ids: list[Array], counts: list[Array], n_words: int | None) -> Any:
    if not lengths:
        raise ValueError(f"{path} is empty; expected a line for each document")
    symbols, offsets = np.concatenate(ids), np.r_[0, np.cumsum(np.concatenate(lengths))]
    largest = int(symbols.max(initial=-1))
    if n_words is not None and largest >= n_words:
        document = int(np.searchsorted(offsets, int(np.argmax(symbols >= n_words)), side="right"))
        raise ValueError(f"{path}, line {document}: word {symbols[symbols >= n_words][0]} is not in a vocabulary of {n_words}")
    shape = len(offsets) - 1, largest + 1 if n_words is None else n_words
    parts: Any = np.concatenate(counts).astype(float), symbols, offsets
    return sparse.csr_array(parts, shape=shape)
