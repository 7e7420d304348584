"""Binary trees with categories by trying every one.

root (K,), kind (K, 2) of emitting and splitting, rule (K, K, K), evidence (n, K): logarithms.
A tree is a list of nodes in preorder: begin, end, where its right child begins (-1: a word),
category.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray
Node = tuple[int, int, int, int]


@cache
def shapes(i: int, j: int) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """All binary trees over [i, j), nodes in preorder without categories."""
    if j == i + 1:
        return (((i, j, -1),),)
    found = []
    for m in range(i + 1, j):
        for left, right in product(shapes(i, m), shapes(m, j)):
            found.append(((i, j, m), *left, *right))
    return tuple(found)


def all_trees(n: int, K: int) -> list[Array]:
    """(2 n - 1, 4) nodes of every tree with every category."""
    return [
        np.array([(*node, k) for node, k in zip(shape, labels, strict=True)])
        for shape in shapes(0, n)
        for labels in product(range(K), repeat=2 * n - 1)
    ]


def counts_of(nodes: Array, K: int) -> dict[str, Array]:
    """Counts of one tree, and rows (n, K) of its words."""
    n = int(nodes[0, 1])
    out = {"root": np.zeros(K), "kind": np.zeros((K, 2)), "binary_rule": np.zeros((K, K, K))}
    out["rows"], out["root"][nodes[0, 3]] = np.zeros((n, K)), 1.0
    named = {(int(i), int(j)): int(k) for i, j, _, k in nodes}
    for i, j, m, k in nodes.tolist():
        out["kind"][k, int(m >= 0)] += 1
        if m < 0:
            out["rows"][i, k] = 1.0
        else:
            out["binary_rule"][k, named[i, m], named[m, j]] += 1
    return out


def infer(
    tables: dict[str, Array], evidence: Array
) -> tuple[float, dict[str, Array], dict[tuple[int, int], Array], Array, float]:
    """log_z, expected counts, posteriors (K,) of spans, best tree and its log weight."""
    n, K = evidence.shape
    trees = all_trees(n, K)
    counts = [counts_of(nodes, K) for nodes in trees]
    weights = {**tables, "rows": evidence}
    logs = np.array([sum(weights[k][c[k] > 0] @ c[k][c[k] > 0] for k in weights) for c in counts])
    log_z = float(logsumexp(logs))
    shares = np.exp(logs - log_z)
    expected = {k: sum(p * c[k] for p, c in zip(shares, counts, strict=True)) for k in weights}
    spans: dict[tuple[int, int], Array] = {}
    for p, nodes in zip(shares, trees, strict=True):
        for i, j, _, k in nodes.tolist():
            spans.setdefault((i, j), np.zeros(K))[k] += p
    return log_z, expected, spans, trees[int(logs.argmax())], float(logs.max())
