"""Alignments of one sentence pair, all of them listed; sweeps in plain loops."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Listed(NamedTuple):
    """log_z, posteriors of links (J, N + 1), links to NULL and to words (2,), jumps (2 W + 1,)."""

    log_z: float
    shares: Array
    null: Array
    jump: Array
    best: tuple[int, ...]
    log_best: float


def list_alignments(
    w: Array, chance: Array, jump: Array | None = None, is_open: bool = True
) -> Listed:
    """w (J, N + 1): weights of links, NULL first. jump (2 W + 1,): None for a bag."""
    J, N = w.shape[0], w.shape[1] - 1
    W = 0 if jump is None else len(jump) // 2
    total, shares, null, jumps = 0.0, np.zeros(w.shape), np.zeros(2), np.zeros(2 * W + 1)
    best, top = (), -1.0
    for links in product(range(N + 1), repeat=J):
        weight, last, made = 1.0, 0, []
        for j, i in enumerate(links):
            if i == 0:
                weight *= chance[0] * w[j, 0]
                continue
            step = 1.0 / N
            if jump is not None and last > 0:
                width = int(np.clip(i - last, -W, W)) + W
                inside = [jump[int(np.clip(k - last, -W, W)) + W] for k in range(1, N + 1)]
                step = jump[width] / (1.0 if is_open else sum(inside))
                made.append(width)
            weight *= chance[1] * w[j, i] * step
            last = i
        total += weight
        if weight > top:
            best, top = links, weight
        for j, i in enumerate(links):
            shares[j, i] += weight
            null[int(i > 0)] += weight
        for width in made:
            jumps[width] += weight
    found = shares / total, null / total, jumps / total
    return Listed(float(np.log(total)), *found, best, float(np.log(top)))


class Sweeper:
    """Collapsed inference of sentence pairs, sentence by sentence, with dictionaries.

    pairs : (source words, target words), numbers. Counts of NULL and jumps change once a lap.
    """

    def __init__(self, pairs: Any, n_symbols: int, base: float, prior: Any) -> None:
        self.pairs, self.base, self.n_symbols = pairs, base, n_symbols
        self.null_prior, self.jump_prior, self.is_open = prior
        self.own: list[Any] = [None] * len(pairs)
        self.null, self.jump = np.zeros(2), np.zeros(len(self.jump_prior or ()))

    def count(self, skipped: int) -> dict[tuple[int, int], float]:
        """Expected links of all pairs but one."""
        counts: dict[tuple[int, int], float] = {}
        for u, (source, target) in enumerate(self.pairs):
            if u == skipped or self.own[u] is None:
                continue
            for j, t in enumerate(target):
                for i, s in enumerate([0, *source]):
                    counts[s, t] = counts.get((s, t), 0.0) + self.own[u].shares[j, i]
        return counts

    def lap(self) -> float:
        """Every pair once; returns the sum of leave-one-out log predictives."""
        before, log_z = list(self.own), 0.0
        for u, (source, target) in enumerate(self.pairs):
            counts, words = self.count(u), [0, *source]
            totals = {s: sum(c for (a, _), c in counts.items() if a == s) for s in words}
            w = np.array(
                [
                    [
                        (counts.get((s, t), 0.0) + self.base)
                        / (totals[s] + self.n_symbols * self.base)
                        for s in words
                    ]
                    for t in target
                ]
            )
            others = [own for k, own in enumerate(before) if k != u and own is not None]
            null = sum((o.null for o in others), np.array(self.null_prior, dtype=float))
            jump = None
            if self.jump_prior is not None:
                jump = sum((o.jump for o in others), np.array(self.jump_prior, dtype=float))
                jump = jump / jump.sum()
            self.own[u] = list_alignments(w, null / null.sum(), jump, self.is_open)
            log_z += self.own[u].log_z
        return log_z
