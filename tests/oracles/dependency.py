"""Dependency trees by trying every one: heads (n,), 0 for the root, else 1 + the head's position.

root (V,), stop (V, 2, 2, 2), attach (V, 2, V): logarithms; tags (n,).
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray


def is_tree(heads: tuple[int, ...]) -> bool:
    """One root, no cycle, and no arc over a word that does not hang below its head."""
    n = len(heads)
    if sum(h == 0 for h in heads) != 1:
        return False

    def above(a: int) -> list[int]:
        """The words above a, by position, or nothing that ends: a cycle."""
        found: list[int] = []
        while heads[a] and len(found) <= n:
            a = heads[a] - 1
            found.append(a)
        return found

    if any(len(above(a)) > n for a in range(n)):
        return False
    return all(
        heads[a] - 1 in above(k)
        for a in range(n)
        if heads[a]
        for k in range(min(a, heads[a] - 1) + 1, max(a, heads[a] - 1))
    )


def all_trees(n: int) -> list[Array]:
    return [np.array(h) for h in product(range(n + 1), repeat=n) if is_tree(h)]


def counts_of(heads: Array, tags: Array, V: int) -> dict[str, Array]:
    out = {"root": np.zeros(V), "stop": np.zeros((V, 2, 2, 2)), "attach": np.zeros((V, 2, V))}
    for h in range(len(tags)):
        if heads[h] == 0:
            out["root"][tags[h]] += 1
        for side in (0, 1):
            own = [a for a in range(len(tags)) if heads[a] == h + 1 and (a > h) == bool(side)]
            for m, a in enumerate(own):
                out["stop"][tags[h], side, int(m > 0), 1] += 1
                out["attach"][tags[h], side, tags[a]] += 1
            out["stop"][tags[h], side, int(bool(own)), 0] += 1
    return out


def infer(
    tables: dict[str, Array], tags: Array
) -> tuple[float, dict[str, Array], Array, Array, float]:
    """log_z, expected counts, posterior heads (n, n + 1), best tree and its log weight."""
    V, n = len(tables["root"]), len(tags)
    trees = all_trees(n)
    counts = [counts_of(heads, tags, V) for heads in trees]
    logs = np.array(
        [sum(tables[k][c[k] > 0] @ c[k][c[k] > 0] for k in tables) for c in counts], dtype=float
    )
    log_z = float(logsumexp(logs))
    shares = np.exp(logs - log_z)
    expected = {k: sum(p * c[k] for p, c in zip(shares, counts, strict=True)) for k in tables}
    heads = np.zeros((n, n + 1))
    for p, tree in zip(shares, trees, strict=True):
        heads[np.arange(n), tree] += p
    return log_z, expected, heads, trees[int(logs.argmax())], float(logs.max())
