"""CoNLL-U, the files of Universal Dependencies: read and written, nothing lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stickbreak import targets

from .sentence_lines import Line, iter_lines

__all__ = ["ConlluSentence", "check_heads", "iter_conllu", "read_conllu", "write_conllu"]

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
AT = {name: at for at, name in enumerate(COLUMNS)}
HEAD, RELATION = AT["head"], AT["deprel"]


@dataclass(frozen=True)
class ConlluSentence:
    """One sentence: its comments, and its tokens as rows of ten strings.

    Words are the tokens numbered 1 to n. Multiword tokens (1-2) and empty ones (1.1) are kept, and
    are no words.
    """

    comments: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """One of the ten columns, of the words: "form", "upos", "xpos", ..."""
        if name not in AT:
            raise ValueError(f"unknown column {name!r}; choose one of {', '.join(COLUMNS)}")
        return [row[AT[name]] for row in self.rows if row[0].isdigit()]

    @property
    def words(self) -> list[str]:
        """The forms of the words."""
        return self.column("form")

    @property
    def heads(self) -> npt.NDArray[np.int64]:
        """(n,) head of each word, 0 for the root; -1 where the file has none."""
        return np.array([-1 if h == "_" else int(h) for h in self.column("head")], dtype=np.int64)

    def with_heads(self, heads: Sequence[int]) -> ConlluSentence:
        """The same sentence with other heads; relations of words whose head changes are lost."""
        if len(heads) != len(self.words):
            raise ValueError(f"the sentence has {len(self.words)} words, and {len(heads)} heads")
        given, rows = iter(heads), []
        for row in self.rows:
            if not row[0].isdigit():
                rows.append(row)
                continue
            head = str(int(next(given)))
            relation = row[RELATION] if row[HEAD] == head else "root" if head == "0" else "_"
            rows.append((*row[:HEAD], head, relation, *row[RELATION + 1 :]))
        return ConlluSentence(self.comments, tuple(rows))


def iter_conllu(path: str | Path, *, member: str | None = None) -> Iterator[ConlluSentence]:
    """The sentences of a CoNLL-U file (also `.gz`, or members of a `.zip`), one at a time."""
    comments: list[str] = []
    rows: list[tuple[str, ...]] = []
    lines: list[str] = []
    for line in iter_lines(path, member=member):
        if not line.text.strip():
            if rows:
                yield _sentence(comments, rows, lines)
            comments, rows, lines = ([], [], []) if rows else (comments, rows, lines)
        elif line.text.startswith("#"):
            comments.append(line.text)
        else:
            rows.append(_row(line, sum(row[0].isdigit() for row in rows)))
            lines.append(line.where)
    if rows:
        yield _sentence(comments, rows, lines)


def read_conllu(path: str | Path, *, member: str | None = None) -> list[ConlluSentence]:
    """The sentences of a CoNLL-U file.

    Parameters
    ----------
    path : file name; `.gz` and `.zip` are opened.
    member : of a `.zip`, the name of a file in it, or a pattern.

    Returns
    -------
    list of `ConlluSentence`, each with `column(name)`, `words`, `heads` and `with_heads(heads)`.
    """
    return list(iter_conllu(path, member=member))


def write_conllu(path: str | Path, sentences: Iterable[ConlluSentence]) -> None:
    """Write sentences to a CoNLL-U file, completely or not at all."""
    with targets.replacing(Path(path)) as file:
        for sentence in sentences:
            file.write((format_conllu(sentence) + "\n").encode())


def format_conllu(sentence: ConlluSentence) -> str:
    """The lines of one sentence, with the empty one that ends it."""
    return "\n".join([*sentence.comments, *("\t".join(row) for row in sentence.rows), ""])


def _sentence(comments: list[str], rows: list[tuple[str, ...]], lines: list[str]) -> ConlluSentence:
    """One sentence, whose heads are words of it; lines : where each row is, for messages."""
    found = ConlluSentence(tuple(comments), tuple(rows))
    n_words = len(found.words)
    for row, where in zip(rows, lines, strict=True):
        if row[0].isdigit() and row[HEAD] != "_" and int(row[HEAD]) > n_words:
            raise ValueError(f"{where} has head {row[HEAD]}; the sentence has {n_words} word(s)")
    return found


def _row(line: Line, n_words: int) -> tuple[str, ...]:
    """Ten fields, checked: words are numbered in order, heads are numbers."""
    fields = tuple(line.text.split("\t"))
    if len(fields) != len(COLUMNS):
        raise ValueError(f"{line.where} has {len(fields)} fields; CoNLL-U has {len(COLUMNS)}")
    name, head = fields[0], fields[HEAD]
    if name.isdigit() and int(name) != n_words + 1:
        raise ValueError(f"{line.where} is word {name} after word {n_words}")
    if not name.replace("-", "", 1).replace(".", "", 1).isdigit():
        raise ValueError(f"{line.where} begins with {name!r}, which is no number of a token")
    if name.isdigit() and head != "_" and not head.isdigit():
        raise ValueError(f"{line.where} has head {head!r}; expected a number, or _")
    return fields


def check_heads(heads: Any, n_words: int, name: str) -> npt.NDArray[np.int64]:
    """Heads (n,) of one sentence, -1 for unknown; ValueError if no projective tree has them.

    name : of the sentence, for messages
    """
    found = np.asarray(heads)
    if found.shape != (n_words,):
        raise ValueError(f"{name} has {n_words} words, but heads of shape {found.shape}")
    if found.size and found.dtype.kind not in "iu":
        raise ValueError(f"{name} has heads {found.tolist()}; expected whole numbers")
    bad = np.flatnonzero((found < -1) | (found > n_words) | (found == np.arange(1, n_words + 1)))
    if len(bad):
        raise ValueError(
            f"{name}: word {bad[0] + 1} has head {found[bad[0]]}; expected 0 for the root, the "
            f"number of another word, 1 to {n_words}, or -1 for unknown"
        )
    if (found == 0).sum() > 1:
        raise ValueError(f"{name} has {(found == 0).sum()} roots; a tree has one")
    if (found > 0).all():
        raise ValueError(f"{name} has no root; one word must have head 0")
    _refuse_cycle(found, name)
    _refuse_crossing(found, name)
    return found.astype(np.int64)


def _refuse_cycle(heads: npt.NDArray[np.int64], name: str) -> None:
    for first in range(len(heads)):
        at, steps = first, 0
        while heads[at] > 0:
            at, steps = int(heads[at]) - 1, steps + 1
            if steps > len(heads):
                raise ValueError(f"{name} has a cycle above word {first + 1}: it is no tree")


def _refuse_crossing(heads: npt.NDArray[np.int64], name: str) -> None:
    """Two arcs may not cross, and no arc may span the root."""
    arcs = [(min(a, h - 1), max(a, h - 1)) for a, h in enumerate(heads.tolist()) if h > 0]
    roots = np.flatnonzero(heads == 0)
    for lo, hi in arcs:
        crosses = any(lo < a < hi < b or a < lo < b < hi for a, b in arcs)
        if crosses or any(lo < root < hi for root in roots):
            raise ValueError(
                f"{name} is not projective: the arc between words {lo + 1} and {hi + 1} is "
                "crossed; leave the sentence out, or set heads to -1"
            )
