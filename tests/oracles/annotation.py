"""Trees with subtypes by trying every one.

tables : logarithms root (R, H), binary_rule (B, H, H, H), unary_rule (U, H, H), word_rule (L, H);
nodes (n, 6) : a tree, see `stickbreak.data.treebank.number_trees`.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Listing

Array = np.ndarray


def cells_of(nodes: Array) -> list[tuple[str, int, tuple[int, ...]]]:
    """(table, rule, variables) of every rule of a tree: 2 v is node v, 2 v + 1 above its unary."""
    n, found = len(nodes), []

    def top(v: int) -> int:
        rule = nodes[v, 1] if v < n else nodes[v - n + 1, 3]
        return 2 * v + int(rule >= 0)

    for v in range(2 * n - 1):
        rule = nodes[v, 1] if v < n else nodes[v - n + 1, 3]
        if v < n:
            found.append(("word_rule", int(nodes[v, 0]), (2 * v,)))
        else:
            row = nodes[v - n + 1]
            found.append(("binary_rule", int(row[2]), (2 * v, top(row[4]), top(row[5]))))
        if rule >= 0:
            found.append(("unary_rule", int(rule), (2 * v + 1, 2 * v)))
    return [*found, ("root", int(nodes[0, 2]), (top(2 * n - 2),))]


def infer(tables: dict[str, Array], nodes: Array) -> tuple[float, dict[str, Array], Array, float]:
    """log_z, expected counts, posteriors (n, H) of tags, and the log of the best annotation."""
    H, cells = tables["root"].shape[1], cells_of(nodes)
    names = sorted({v for _, _, variables in cells for v in variables})
    at = {v: i for i, v in enumerate(names)}
    labels = np.array(list(product(range(H), repeat=len(names))))
    logs = sum(
        tables[name][(rule, *(labels[:, at[v]] for v in variables))]
        for name, rule, variables in cells
    )
    log_z = float(logsumexp(logs))
    shares = np.exp(logs - log_z)
    counts = {name: np.zeros_like(table) for name, table in tables.items()}
    for name, rule, variables in cells:
        where = tuple(labels[:, at[v]] for v in variables)
        np.add.at(counts[name], (np.full(len(labels), rule), *where), shares)
    rows = np.zeros((len(nodes), H))
    for i in range(len(nodes)):
        np.add.at(rows[i], labels[:, at[2 * i]], shares)
    return log_z, counts, rows, float(logs.max())


def all_trees(words: Array, listing: Listing) -> list[Array]:
    """Nodes (n, 6) of every tree of listed rules over words (n,)."""
    n = len(words)

    def tops(i: int, j: int) -> list[tuple[int, tuple]]:
        """(symbol, derivation); a derivation is (unary rule or -1, rule, split, children)."""
        low: list[tuple[int, tuple]] = []
        if j == i + 1:
            for r, (tag, word) in enumerate(listing.emits):
                low += [(tag, (r, i, ()))] if word == words[i] else []
        for m in range(i + 1, j):
            for (b, left), (c, right) in product(tops(i, m), tops(m, j)):
                for r, rule in enumerate(listing.binary):
                    if rule[1] == b and rule[2] == c:
                        low.append((rule[0], (r, m, (left, right))))
        found = [(symbol, (-1, *rest)) for symbol, rest in low]
        for r, (parent, child) in enumerate(listing.unary):
            found += [(parent, (r, *rest)) for symbol, rest in low if symbol == child]
        return found

    trees = []
    for symbol, derivation in tops(0, n):
        for place in np.flatnonzero(listing.tops == symbol):
            nodes, count = np.full((n, 6), -1), [0]

            def write(one: tuple, nodes: Array = nodes, count: list[int] = count) -> int:
                chain, rule, m, children = one
                if not children:
                    nodes[m, :2] = rule, chain
                    return m
                codes = [write(child) for child in children]
                count[0] += 1
                nodes[count[0], 2:] = rule, chain, *codes
                return n + count[0] - 1

            write(derivation)
            nodes[0, 2] = place
            trees.append(nodes)
    return trees
