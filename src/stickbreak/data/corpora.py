"""Files of documents, and word lists: which format a file has, and what is read from it."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .document_formats import (
    read_docword,
    read_ldac,
    read_numbers,
    read_texts,
    show_start,
)
from .limits import limit, refusal
from .lines import LineReader, Report

__all__ = ["Corpus", "open_file", "read_corpus", "read_vocabulary", "read_words", "require_file"]

LDAC_LINE = re.compile(rb"\s*(\d{1,18})((?:\s+\d+:\d+)+)\s*")


@dataclass(frozen=True)
class Corpus:
    """Documents as a matrix of counts; `fit` and `transform` take it like a matrix.

    counts (S, V) : CSR matrix. words (V,) : None if the file has none.
    """

    counts: Any
    words: tuple[str, ...] | None = None

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return int(self.counts.shape[0])


def read_corpus(
    path: str | os.PathLike[str],
    *,
    words: str | os.PathLike[str] | Sequence[str] | None = None,
    n_words: int | None = None,
    report: Report | None = None,
) -> Corpus:
    r"""Read a file of documents.

    Parameters
    ----------
    path : one of three formats, also compressed (`.gz`). LDA-C: a line `n id:count id:count ...`
        for each document, ids from 0. UCI docword: three lines with the numbers of documents, words
        and entries, then lines `document word count`, from 1. Words: a document on each line, its
        words separated by blanks, UTF-8. A file of words is named `.txt` or `.txt.gz`; it must not
        start like a docword file, and its name must not start with "docword". The first line tells
        the other two formats apart.
    words : the words in the order of their ids, or a file with one word per line. Other words of a
        `.txt` file are left out, with a warning. Default: all words of a `.txt` file, sorted.
    n_words : size of the vocabulary of numbered words. Default: that of `words`, of the file, or
        the largest id plus one.
    report : called with bytes read and total bytes, now and then.

    Returns
    -------
    Corpus. Counts of large files (over eight million) are in temporary files, which fits and
    answers read batch by batch. Words of a document are in order, each once.

    Examples
    --------
    >>> import pathlib, tempfile, stickbreak as sb
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "docs.ldac"
    >>> _ = path.write_text("2 0:1 3:2\n1 1:5\n")
    >>> sb.read_corpus(path).counts.toarray().astype(int).tolist()
    [[1, 0, 0, 2], [0, 5, 0, 0]]
    """
    path = require_file(path)
    known = read_vocabulary(words, n_words)
    try:
        with open_file(path) as file:
            head = LineReader(path, file).first(4)
            file.seek(0)
            if _holds_words(path, head):
                return Corpus(*read_texts(path, file, known, report))
            read = read_ldac if b":" in head[0] or head[0].split() == [b"0"] else read_docword
            return Corpus(
                read(path, file, len(known) if known is not None else n_words, report), known
            )
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def read_words(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Words of a vocabulary file, one per line."""
    path = require_file(path)
    try:
        with open_file(path) as file:
            pieces, n_words = [], 0
            for _, piece in LineReader(path, file).pieces():
                pieces.append(piece)
                n_words += piece.count(b"\n")
                if n_words > limit("SYMBOLS"):
                    raise refusal("SYMBOLS", str(path), f"{n_words:,} or more words")
            text = b"".join(pieces).decode("utf-8-sig").removesuffix("\n")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not text:
        raise ValueError(f"{path} is empty; expected a word on each line")
    return tuple(word.strip() for word in text.split("\n"))


def require_file(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is there."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    return path


def read_vocabulary(words: Any, n_words: int | None = None) -> tuple[str, ...] | None:
    """The user's vocabulary, given as a file or as words. n_words : what its size must be"""
    if words is None:
        return None
    is_file = isinstance(words, str | os.PathLike)
    known = read_words(words) if is_file else tuple(str(word) for word in words)
    if n_words is not None and len(known) != n_words:
        raise ValueError(f"n_words={n_words} but {_name_list(words)} has {len(known)} words")
    return known


def _name_list(words: Any) -> str:
    return str(words) if isinstance(words, str | os.PathLike) else "`words`"


def _holds_words(path: Path, head: list[bytes]) -> bool:
    """Whether a file holds words: by its name, unless it is docword (named docword.*.txt)."""
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith(".txt") or name.startswith("docword"):
        return False
    line = LDAC_LINE.fullmatch(head[0])
    if line is not None and int(line[1]) == line[2].count(b":"):
        raise ValueError(
            f"{path} begins as LDA-C files do, with {show_start(head[0])}, but .txt is for "
            "documents as words: rename it to .ldac"
        )
    return [len(line.split()) if read_numbers(line) is not None else 0 for line in head] != [
        1,
        1,
        1,
        3,
    ]


def open_file(path: Path) -> Any:
    """The bytes of a file, decompressed if its name ends in `.gz`."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")
