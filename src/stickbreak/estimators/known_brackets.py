"""Brackets that users know, checked and as a structure of trees reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Companion, ConstituentTree
from stickbreak.reading import Schema, Stack
from stickbreak.stats import Array

__all__ = ["read_brackets"]


def read_brackets(given: Any, table: Stack, schema: Schema) -> Companion:
    """Brackets (B, 2) of all sentences: begin and end, of at least two words and not all."""
    assert table.offsets is not None
    sizes = np.diff(table.offsets)
    if not isinstance(given, list | tuple) or len(given) != len(sizes):
        n = len(given) if isinstance(given, list | tuple) else type(given).__name__
        raise ValueError(
            f"brackets must be a list with an entry for each of {len(sizes)} sentences; got {n}"
        )
    found = []
    for s, (one, n) in enumerate(zip(given, sizes, strict=True)):
        if isinstance(one, ConstituentTree) or callable(getattr(one, "label", None)):
            tree = ConstituentTree.of(one)
            _check_words(tree, _words_of(table, schema, s), int(n), s)
            one = [(begin, end) for begin, end, _ in tree.spans()]
        found.append(_of_sentence(one, int(n), s))
    ends = np.r_[0, np.cumsum([len(one) for one in found])]
    return Companion(np.concatenate(found), ends)


def _words_of(table: Stack, schema: Schema, s: int) -> list[str] | None:
    """Words of a sentence; None if they are numbers or vectors, or some are missing."""
    assert table.offsets is not None
    words = next(iter(schema.categories.values()), None)
    if words is None:
        return None
    rows = np.asarray(table.rows[table.offsets[s] : table.offsets[s + 1], 0])
    return [str(words[int(code)]) for code in rows] if (rows >= 0).all() else None


def _check_words(tree: ConstituentTree, words: list[str] | None, n: int, s: int) -> None:
    """Raise ValueError unless a sentence is the words of its tree, or their tags."""
    if len(tree.words) != n:
        raise ValueError(f"the tree of sentence {s} has {len(tree.words)} words; it has {n}")
    if words is not None and words not in (tree.words, tree.tags):
        raise ValueError(
            f"sentence {s} is {' '.join(words)!r}, but its tree has the words "
            f"{' '.join(tree.words)!r} and the tags {' '.join(tree.tags)!r}"
        )


def _of_sentence(given: Any, n: int, s: int) -> Array:
    found = np.array(given, dtype=object).reshape(-1, 2) if len(given) else np.zeros((0, 2))
    for begin, end in found.tolist():
        if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin < end <= n):
            raise ValueError(
                f"sentence {s} has bracket ({begin}, {end}); expected 0 <= begin < end <= {n}"
            )
    spans = sorted({(b, e) for b, e in found.tolist() if 1 < e - b < n})
    for i, (b, e) in enumerate(spans):
        for begin, end in spans[i + 1 :]:
            if b < begin < e < end:
                raise ValueError(
                    f"brackets ({b}, {e}) and ({begin}, {end}) of sentence {s} cross each other"
                )
    return np.array(spans, dtype=np.int64).reshape(-1, 2)
