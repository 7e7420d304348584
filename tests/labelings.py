"""Chains of symbols that are small enough for all labelings: joints, bounds and sweeps by brute
force, in plain numpy.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise, product

import numpy as np
from enumeration import log_dirichlet_multinomial
from scipy.special import digamma, xlogy

Array = np.ndarray


class Labelings:
    """All labelings of short sequences, every prior count the same.

    legal : states that each symbol may have; those of others have no labeling
    """

    def __init__(self, texts: tuple[str, ...], n_states: int, n_symbols: int, prior: float,
                 legal: dict[int, list[int]] | None = None) -> None:  # fmt: skip
        self.texts = [[int(c) for c in text] for text in texts]
        self.shape, self.prior = (n_states, n_symbols), prior
        all_states = list(range(n_states))
        choices = [[(legal or {}).get(w, all_states) for w in text] for text in self.texts]
        self.paths = [list(product(*of_text)) for of_text in choices]
        self.counted = [
            [self._count(path, text) for path in paths]
            for paths, text in zip(self.paths, self.texts, strict=True)
        ]

    def _count(self, path: tuple[int, ...], text: list[int]) -> Array:
        """Flat counts of one path: first states, steps, emissions."""
        K, V = self.shape
        first, steps, words = np.zeros(K), np.zeros((K, K)), np.zeros((K, V))
        first[path[0]] = 1
        for j, k in pairwise(path):
            steps[j, k] += 1
        np.add.at(words, (path, text), 1)
        return np.concatenate([first, steps.ravel(), words.ravel()])

    def tables(self, counts: Array) -> tuple[Array, Array, Array]:
        """First states (..., 1, K), steps (..., K, K), emissions (..., K, V)."""
        (K, V), lead = self.shape, counts.shape[:-1]
        first, steps, words = np.split(counts, [K, K + K * K], axis=-1)
        return (
            first.reshape(*lead, 1, K), steps.reshape(*lead, K, K), words.reshape(*lead, K, V)
        )  # fmt: skip

    def log_joint(self, counts: Array | None = None) -> Array:
        """Log p(x, z) of counts (..., C), or of all labelings."""
        counts = self.all_counts() if counts is None else counts
        found = [
            log_dirichlet_multinomial(t, np.full(t.shape[-2:], self.prior)).sum(-1)
            for t in self.tables(counts)
        ]
        return np.asarray(sum(found))

    def all_counts(self) -> Array:
        """(M, C) counts of all labelings, the last sequence fastest."""
        add = lambda a, b: (a[:, None] + np.array(b)[None]).reshape(-1, a.shape[1])
        return reduce(add, self.counted[1:], np.array(self.counted[0]))

    def chance(self, q: list[Array]) -> Array:
        """(M,) of all labelings, where q has the probability of each path of each sequence."""
        return reduce(lambda a, b: np.outer(a, b).ravel(), q)

    def mean(self, q: list[Array]) -> list[Array]:
        """(C,) expected counts of each sequence."""
        return [p @ np.array(c) for p, c in zip(q, self.counted, strict=True)]

    def lower(self, q: list[Array]) -> float:
        """E_q[log p(x, z)] + entropy, parameters integrated out."""
        return float(self.chance(q) @ self.log_joint() - sum(xlogy(p, p).sum() for p in q))

    def bound(self, q: list[Array]) -> float:
        """The variational bound at q: parameters have the posterior of the expected counts."""
        return float(self.log_joint(sum(self.mean(q))) - sum(xlogy(p, p).sum() for p in q))

    def rows(self, q: list[Array]) -> Array:
        """(n, K) posterior of every row."""
        found = []
        for p, paths in zip(q, self.paths, strict=True):
            states = np.array(paths)
            found += [np.bincount(s, p, self.shape[0]) for s in states.T]
        return np.array(found)

    def independent(self, of_symbol: dict[int, Array]) -> list[Array]:
        """Paths whose states are independent, given by the symbol."""
        found = []
        for paths, text in zip(self.paths, self.texts, strict=True):
            p = np.array([np.prod([of_symbol[w][k] for w, k in zip(text, z, strict=True)])
                          for z in paths])  # fmt: skip
            found.append(p / p.sum())
        return found

    def under(self, s: int, counts: Array, is_mean_log: bool = False) -> Array:
        """Posterior of the paths of sequence s: (C + a) / (sum + a), or exp E[log]."""
        logs = []
        for table in self.tables(counts):
            n = table + self.prior
            if is_mean_log:
                logs.append(digamma(n) - digamma(n.sum(1))[:, None])
            else:
                logs.append(np.log(n) - np.log(n.sum(1))[:, None])
        weight = np.array(self.counted[s]) @ np.concatenate([t.ravel() for t in logs])
        p = np.exp(weight - weight.max())
        return np.asarray(p / p.sum())

    def sweep(self, q: list[Array]) -> None:
        """Each sequence given the counts of all others, in turn; changes q."""
        for s in range(len(q)):
            mean = self.mean(q)
            q[s] = self.under(s, sum(mean) - mean[s])

    def step(self, q: list[Array], is_mean_log: bool = False) -> list[Array]:
        """All sequences given the counts of all: variational Bayes, or without exclusion."""
        total = sum(self.mean(q))
        return [self.under(s, total, is_mean_log) for s in range(len(q))]
