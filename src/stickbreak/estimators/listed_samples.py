"""Trees drawn from a grammar whose rules are listed, with subtypes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stickbreak.data import Listing
from stickbreak.stats import Array

from .tree_samples import try_until

__all__ = ["draw_tree"]

Tables = Mapping[str, Array]


def draw_tree(tables: Tables, listing: Listing, max_length: int, rng: np.random.Generator) -> Array:
    """Nodes (n, 6) of one tree, see `number_trees`. tables : probabilities."""
    refused = f"more than max_length={max_length} words"
    return np.asarray(try_until(lambda: _draw(tables, listing, max_length, rng), refused))


def _pick(weights: Array, rng: np.random.Generator) -> tuple[int, ...]:
    """An entry by its weight."""
    sums = np.cumsum(weights)
    at = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    return tuple(int(i) for i in np.unravel_index(min(at, len(sums) - 1), weights.shape))


def _draw(
    tables: Tables, listing: Listing, max_length: int, rng: np.random.Generator
) -> Array | None:
    """One tree, or None if it becomes too long or has two unary rules in succession."""
    place, subtype = _pick(tables["root"], rng)
    words: list[tuple[int, int]] = []
    nodes: list[tuple[int, int, int, int]] = []

    def expand(symbol: int, a: int) -> int | None:
        chain, kind, rule, children = -1, *_rule_of(tables, listing, symbol, a, rng)
        if kind == "unary_rule":
            chain, symbol, a = rule, int(listing.unary[rule, 1]), children[0]
            kind, rule, children = _rule_of(tables, listing, symbol, a, rng)
            if kind == "unary_rule":
                return None
        if kind == "word_rule":
            words.append((rule, chain))
            return len(words) - 1 if len(words) <= max_length else None
        codes = []
        for child, subtype in zip(listing.binary[rule, 1:], children, strict=True):
            code = expand(int(child), subtype) if len(nodes) < 2 * max_length else None
            if code is None:
                return None
            codes.append(code)
        nodes.append((rule, chain, *codes))  # type: ignore[arg-type]
        return -len(nodes)

    try:
        is_drawn = expand(int(listing.tops[place]), subtype) is not None
    except RecursionError:
        is_drawn = False
    if not is_drawn:
        return None
    n = len(words)
    rows = np.full((n, 6), -1, dtype=np.int64)
    rows[:, :2], rows[0, 2] = words, place
    for j, (rule, chain, *codes) in enumerate(nodes, 1):
        rows[j, 2:] = rule, chain, *(c if c >= 0 else n - c - 1 for c in codes)
    return rows


def _rule_of(
    tables: Tables, listing: Listing, symbol: int, a: int, rng: np.random.Generator
) -> tuple[str, int, tuple[int, ...]]:
    """Kind and number of a rule of a symbol and subtype, and its children's subtypes."""
    parents = {"binary_rule": listing.binary, "unary_rule": listing.unary}
    parents["word_rule"] = listing.emits
    own = {name: np.flatnonzero(table[:, 0] == symbol) for name, table in parents.items()}
    names = list(own)
    weights = {name: tables[name][own[name], a] for name in names}
    kind = names[_pick(np.array([weights[name].sum() for name in names]), rng)[0]]
    at, *children = _pick(weights[kind], rng)
    return kind, int(own[kind][at]), tuple(children)
