"""Sentence pairs: `source ||| target` lines, two parallel files, or lists, as numbered words."""

from __future__ import annotations

import codecs
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stickbreak.errors import quoted

from .corpora import open_file, require_file
from .document_formats import MARK, WORD_BYTES, show_start
from .limits import limit, refusal
from .lines import LineReader, Report
from .spool import GrowingColumn

__all__ = ["Bitext", "Side", "number_pairs", "read_bitext"]

Array = npt.NDArray[Any]
SEPARATOR = b"|||"
EXPECTED = "`source ||| target`, with blanks around |||"


class Side(NamedTuple):
    """One language: sentence s has the words numbers[offsets[s]:offsets[s + 1]].

    numbers (m,) : positions in `words`; int32, in a temporary file if there are many
    offsets (S + 1,)
    words : the vocabulary, in the order of first occurrence
    """

    numbers: Array
    offsets: Array
    words: tuple[str, ...]

    @property
    def lengths(self) -> Array:
        """(S,) words of each sentence."""
        return np.diff(self.offsets)

    def sentence(self, s: int) -> list[str]:
        """The words of one sentence."""
        return [self.words[v] for v in self.numbers[self.offsets[s] : self.offsets[s + 1]]]

    def part(self, lo: int, hi: int) -> Side:
        """Sentences lo:hi, as views."""
        begin, end = int(self.offsets[lo]), int(self.offsets[hi])
        return Side(self.numbers[begin:end], self.offsets[lo : hi + 1] - begin, self.words)


@dataclass(frozen=True)
class Bitext:
    """Sentence pairs, which aligners take. A pair keeps its place even if a side is empty.

    source, target : the two languages
    name : where they come from, for messages
    unit : what a pair is called there, "line" or "pair"; lines are counted from 1, pairs from 0
    """

    source: Side
    target: Side
    name: str = "the bitext"
    unit: str = "line"

    @property
    def n_pairs(self) -> int:
        """Number of sentence pairs, empty ones too."""
        return len(self.source.offsets) - 1

    def __len__(self) -> int:
        return self.n_pairs

    def __getitem__(self, s: int) -> tuple[list[str], list[str]]:
        """The words of one pair."""
        at = range(self.n_pairs)[s]
        return self.source.sentence(at), self.target.sentence(at)

    def part(self, lo: int, hi: int) -> Bitext:
        """Pairs lo:hi, as views."""
        return Bitext(self.source.part(lo, hi), self.target.part(lo, hi), self.name, self.unit)

    def swapped(self) -> Bitext:
        """Source and target exchanged."""
        return Bitext(self.target, self.source, self.name, self.unit)

    def place(self, s: int) -> str:
        """What users call pair s: a line of its file, or its position in their list."""
        return f"line {s + 1}" if self.unit == "line" else f"pair {s}"


class _Vocabulary:
    """Numbers of words, given at their first occurrence; words are UTF-8."""

    def __init__(self) -> None:
        self._ids: defaultdict[bytes, int] = defaultdict()
        self._ids.default_factory = self._ids.__len__

    def number(self, words: Iterable[bytes], count: int) -> Array:
        return np.fromiter(map(self._ids.__getitem__, words), dtype=np.int32, count=count)

    def check(self, where: str) -> None:
        if len(self._ids) > limit("SYMBOLS"):
            raise refusal("SYMBOLS", where, f"{len(self._ids):,} or more distinct words")

    def words(self) -> tuple[str, ...]:
        return tuple(word.decode("utf-8") for word in self._ids)


class _Builder:
    """One side while it is read."""

    def __init__(self) -> None:
        self._vocabulary = _Vocabulary()
        self._numbers, self._lengths = GrowingColumn(np.int32), GrowingColumn(np.int64)

    def add(self, sentences: list[list[bytes]], where: str) -> None:
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        words = chain.from_iterable(sentences)
        self._numbers.add(self._vocabulary.number(words, int(lengths.sum())))
        self._lengths.add(lengths)
        self._vocabulary.check(where)

    def side(self) -> Side:
        offsets = np.concatenate([[0], np.cumsum(self._lengths.whole())])
        return Side(self._numbers.whole(), offsets, self._vocabulary.words())


def read_bitext(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    encoding: str = "utf-8",
    report: Report | None = None,
) -> Bitext:
    r"""Read sentence pairs.

    Words are what blanks separate. Case and punctuation stay as they are. Files are read in pieces;
    word numbers of more than 64 MB go to a temporary file.

    Parameters
    ----------
    path : a file with a pair `source ||| target` on each line, also compressed (`.gz`). With
        `target`: the source sentences, one on each line.
    target : the target sentences, on as many lines as `path` has.
    encoding : of the text: "utf-8", "latin-1", ...
    report : called with bytes read and total bytes, now and then.

    Returns
    -------
    Bitext

    Examples
    --------
    >>> import pathlib, tempfile, stickbreak as sb
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.txt"
    >>> _ = path.write_text("the house ||| das Haus\nthe book ||| das Buch\n")
    >>> sb.read_bitext(path)[1]
    (['the', 'book'], ['das', 'Buch'])
    """
    _check_encoding(encoding)
    source, target_side = _Builder(), _Builder()
    name = str(path) if target is None else f"{path} and {target}"
    pieces = (
        _split_lines(path, _lines(path, encoding, report))
        if target is None
        else _join_lines(path, target, encoding, report)
    )
    for ours, theirs in pieces:
        source.add(ours, name)
        target_side.add(theirs, name)
    return _whole(source, target_side, name, "line", "expected a pair on each line")


def number_pairs(pairs: Sequence[Any]) -> Bitext:
    """A bitext from a list of pairs (source, target), each side a text or a list of words.

    An entry may also be one text, `source ||| target`.
    """
    source, target = _Builder(), _Builder()
    for lo in range(0, len(pairs), 1 << 14):
        chosen = [_read_pair(pairs[s], s) for s in range(lo, min(lo + (1 << 14), len(pairs)))]
        source.add([pair[0] for pair in chosen], "the bitext")
        target.add([pair[1] for pair in chosen], "the bitext")
    return _whole(source, target, "the bitext", "pair", "expected a list of pairs")


def _whole(source: _Builder, target: _Builder, name: str, unit: str, expected: str) -> Bitext:
    found = Bitext(source.side(), target.side(), name, unit)
    if not found.n_pairs:
        raise ValueError(f"{name} is empty; {expected}")
    return found


# -------------------------------------------------------------------------------------------- files


def _check_encoding(encoding: str) -> None:
    try:
        known = codecs.lookup(encoding).name
        is_plain = "\n".encode(known) == b"\n" and " ".encode(known) == b" "
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"unknown encoding {encoding!r}; for instance 'utf-8' or 'latin-1'"
        ) from None
    if not is_plain:
        raise ValueError(
            f"encoding {encoding!r} does not write a line end as one byte: convert the file to "
            "UTF-8"
        )


def _lines(
    path: str | os.PathLike[str], encoding: str, report: Report | None
) -> Iterator[tuple[int, list[bytes]]]:
    """Lines as UTF-8, in pieces, each with the number of its first line."""
    path = require_file(path)
    try:
        with open_file(path) as file:
            for line, piece in LineReader(path, file).pieces(report, WORD_BYTES):
                text = piece.removeprefix(MARK) if line == 1 else piece
                recoded = _recode(path, text, line, encoding)
                yield line, recoded.removesuffix(b"\n").split(b"\n")
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _recode(path: Path, text: bytes, line: int, encoding: str) -> bytes:
    """The text in UTF-8; refused if it is not text of this encoding."""
    null = text.find(b"\0")
    if null >= 0:
        at = line + text.count(b"\n", 0, null)
        raise ValueError(f"{path}, line {at} holds a zero byte: it is not a text")
    try:
        decoded = text.decode(encoding)
    except UnicodeDecodeError as error:
        at = line + text.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}, line {at} holds the byte 0x{text[error.start]:02x}, which is not "
            f"{encoding}: name the encoding of the file, for instance 'latin-1'"
        ) from None
    return decoded.encode("utf-8")


def _split_lines(
    path: Any, pieces: Iterator[tuple[int, list[bytes]]]
) -> Iterator[tuple[list[list[bytes]], list[list[bytes]]]]:
    """Words of both sides, piece by piece, of lines `source ||| target`."""
    for first, lines in pieces:
        words = [line.split() for line in lines]
        ends = []
        for at, found in enumerate(words):
            if found.count(SEPARATOR) != 1:
                raise ValueError(_wrong_line(f"{path}, line {first + at}", lines[at]))
            ends.append(found.index(SEPARATOR))
        yield (
            [found[:end] for found, end in zip(words, ends, strict=True)],
            [found[end + 1 :] for found, end in zip(words, ends, strict=True)],
        )


def _wrong_line(where: str, line: bytes) -> str:
    n = line.split().count(SEPARATOR)
    fault = "has no |||" if n == 0 else f"has ||| {n} times"
    return f"{where} {fault}: {show_start(line)}; expected {EXPECTED}"


def _join_lines(
    path: Any, target: Any, encoding: str, report: Report | None
) -> Iterator[tuple[list[list[bytes]], list[list[bytes]]]]:
    """Words of both sides, piece by piece, of two files."""
    with ExitStack() as stack:
        ours, theirs = (
            stack.enter_context(_Sentences(_lines(p, encoding, r)))
            for p, r in ((path, report), (target, None))
        )
        while True:
            left, right = ours.take(1 << 14), theirs.take(1 << 14)
            if len(left) != len(right):
                counts = [s.n_taken + s.count_rest() for s in (ours, theirs)]
                raise ValueError(
                    f"{path} has {counts[0]:,} lines but {target} has {counts[1]:,}: parallel "
                    "files have a line for each pair"
                )
            if not left:
                return
            yield left, right


class _Sentences:
    """Sentences of one file, some at a time."""

    def __init__(self, pieces: Iterator[tuple[int, list[bytes]]]) -> None:
        self._pieces, self.n_taken = pieces, 0
        self._held: list[list[bytes]] = []

    def __enter__(self) -> _Sentences:
        return self

    def __exit__(self, *_: object) -> None:
        self._pieces.close()  # type: ignore[attr-defined]

    def take(self, n: int) -> list[list[bytes]]:
        """The next n sentences; fewer at the end."""
        while len(self._held) < n:
            _, lines = next(self._pieces, (0, None))
            if lines is None:
                break
            self._held += [line.split() for line in lines]
        found, self._held = self._held[:n], self._held[n:]
        self.n_taken += len(found)
        return found

    def count_rest(self) -> int:
        return len(self._held) + sum(len(lines) for _, lines in self._pieces)


# -------------------------------------------------------------------------------------------- lists


def _read_pair(pair: Any, at: int) -> tuple[list[bytes], list[bytes]]:
    """Words of both sides of one entry of a list."""
    if isinstance(pair, str):
        words = _read_side(pair, at, "text")
        if words.count(SEPARATOR) != 1:
            raise ValueError(_wrong_line(f"pair {at}", pair.encode("utf-8", "replace")))
        end = words.index(SEPARATOR)
        return words[:end], words[end + 1 :]
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        many = f" of {len(pair)}" if isinstance(pair, list | tuple) else ""
        raise ValueError(
            f"pair {at} is of type {type(pair).__name__}{many}; expected (source, target)"
        )
    return _read_side(pair[0], at, "source"), _read_side(pair[1], at, "target")


def _read_side(side: Any, at: int, name: str) -> list[bytes]:
    if isinstance(side, str):
        return _encoded(side, at, name).split()
    if not isinstance(side, list | tuple):
        raise ValueError(
            f"the {name} of pair {at} is of type {type(side).__name__}; give a "
            "text or a list of words"
        )
    for i, word in enumerate(side):
        if not isinstance(word, str):
            raise ValueError(f"{name} word {i} of pair {at} is {word!r}, not a text")
    return [_encoded(word, at, name) for word in side]


def _encoded(text: str, at: int, name: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        raise ValueError(f"the {name} of pair {at} holds {quoted(text)}, not Unicode") from None
