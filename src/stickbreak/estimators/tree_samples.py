"""Sentences with their trees, drawn from a fitted grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stickbreak.stats import Array

__all__ = ["draw_constituents", "draw_dependencies", "try_until"]

MOST_TRIES = 1000


def try_until(draw: Callable[[], Any], refused: str) -> Any:
    """The first draw that is not None. refused : what was wrong with the others, for a message."""
    for _ in range(MOST_TRIES):
        found = draw()
        if found is not None:
            return found
    raise ValueError(f"{MOST_TRIES} draws in succession had {refused}; raise it")


def draw_dependencies(
    tables: Mapping[str, Array], max_length: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Tags (n,) and heads (n,) of one sentence. tables : probabilities root, stop and attach."""
    return try_until(
        lambda: _draw_words(tables, max_length, rng), f"more than max_length={max_length} words"
    )


def _draw_words(
    tables: Mapping[str, Array], max_length: int, rng: np.random.Generator
) -> tuple[Array, Array] | None:
    """One sentence, or None if it becomes too long."""

    def pick(row: Array) -> int:
        return int(np.searchsorted(np.cumsum(row), rng.random() * row.sum(), side="right"))

    tags, heads = [pick(tables["root"])], [-1]
    sides: list[tuple[list[int], list[int]]] = [([], [])]
    todo = [0]
    while todo:
        word = todo.pop()
        for side in (0, 1):
            children = sides[word][side]
            while rng.random() >= tables["stop"][tags[word], side, int(bool(children)), 0]:
                if len(tags) == max_length:
                    return None
                children.append(len(tags))
                tags.append(pick(tables["attach"][tags[word], side]))
                heads.append(word)
                sides.append(([], []))
                todo.append(len(tags) - 1)
    order = _in_order(sides)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    above = np.array(heads)[order]
    return np.array(tags)[order], np.where(above < 0, 0, place[above] + 1)


def _in_order(sides: list[tuple[list[int], list[int]]]) -> Array:
    """Words from left to right; children of a side are listed from the inside out."""
    found: list[int] = []
    todo: list[tuple[int, bool]] = [(0, False)]
    while todo:
        word, is_open = todo.pop()
        if is_open:
            found.append(word)
            continue
        left, right = sides[word]
        todo += [(child, False) for child in reversed(right)]
        todo.append((word, True))
        todo += [(child, False) for child in left]
    return np.array(found, dtype=np.int64)


def draw_constituents(
    tables: Mapping[str, Array], max_length: int, rng: np.random.Generator
) -> Array:
    """Nodes (2 n - 1, 4) of one tree, see `structures/tree`.

    tables : probabilities root, kind and binary_rule
    """
    refused = f"more than max_length={max_length} words"
    return np.asarray(try_until(lambda: _draw_nodes(tables, max_length, rng), refused))


def _draw_nodes(
    tables: Mapping[str, Array], max_length: int, rng: np.random.Generator
) -> list[list[int]] | None:
    """One tree in preorder, or None if it becomes too long."""
    K = len(tables["root"])
    nodes: list[list[int]] = []
    ends: list[int] = []  # open nodes, whose right child is still to come
    todo, n_words = [int(rng.choice(K, p=_share(tables["root"])))], 0
    while todo:
        category = todo.pop()
        node = [n_words, -1, -1, category]
        nodes.append(node)
        if rng.random() * tables["kind"][category].sum() < tables["kind"][category, 1]:
            if len(todo) + n_words + 2 > max_length:
                return None
            pair = int(rng.choice(K * K, p=_share(tables["binary_rule"][category].ravel())))
            todo += [pair % K, pair // K]
            ends.append(len(nodes) - 1)
            continue
        n_words += 1
        node[1] = n_words
        while ends and nodes[ends[-1]][2] >= 0:
            nodes[ends.pop()][1] = n_words
        if ends:
            nodes[ends[-1]][2] = n_words
    return nodes


def _share(weights: Array) -> Array:
    return np.asarray(weights / weights.sum())
