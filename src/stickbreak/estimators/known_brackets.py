"""Brackets that users know, checked and as a structure of trees reads them."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from stickbreak.data import Companion, ConstituentTree
from stickbreak.reading import Schema, Stack
from stickbreak.stats import Array

__all__ = ["read_brackets", "with_right_branches"]


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


def with_right_branches(table: Stack) -> Stack:
    """Sentences with the brackets of trees that always branch to the right, unless some are known.

    Brackets end where their sentence ends, so that each has one tree.
    """
    assert table.offsets is not None
    found = []
    for s, n in enumerate(np.diff(table.offsets).tolist()):
        own = np.zeros((0, 2)) if table.companion is None else table.companion.of(s)
        begins = np.arange(1, n - 1)
        found.append(own if len(own) else np.stack([begins, np.full(len(begins), n)], 1))
    rows = np.concatenate(found).astype(np.int64)
    ends = np.r_[0, np.cumsum([len(one) for one in found])]
    return replace(table, companion=Companion(rows, ends))


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


def _pair(given: Any, n: int, s: int) -> tuple[int, int]:
    """One bracket: two whole numbers of words."""
    try:
        begin, end = map(index, given)
        is_right = 0 <= begin < end <= n
    except (TypeError, ValueError):
        is_right = False
    if not is_right:
        shown = tuple(given) if np.iterable(given) else given
        raise ValueError(
            f"sentence {s} has bracket {shown}; expected (begin, end), whole numbers with "
            f"0 <= begin < end <= {n}"
        )
    return begin, end


def _of_sentence(given: Any, n: int, s: int) -> Array:
    if not np.iterable(given) or isinstance(given, str):
        raise ValueError(
            f"brackets of sentence {s} are {given!r}; expected a list of pairs (begin, end), empty "
            "if none is known, or a tree"
        )
    found = [_pair(one, n, s) for one in given]
    spans = sorted({(b, e) for b, e in found if 1 < e - b < n})
    for i, (b, e) in enumerate(spans):
        for begin, end in spans[i + 1 :]:
            if b < begin < e < end:
                raise ValueError(
                    f"brackets ({b}, {e}) and ({begin}, {end}) of sentence {s} cross each other"
                )
    return np.array(spans, dtype=np.int64).reshape(-1, 2)
