"""Markov chains by trying every path. evidence (T, K), start (K,), transition (K, K): logarithms,
of any scale, -inf allowed.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray


def all_paths(T: int, K: int) -> Array:
    """(K**T, T) in lexicographic order."""
    return np.array(list(product(range(K), repeat=T)), dtype=np.int64)


def log_weights(evidence: Array, start: Array, transition: Array) -> tuple[Array, Array]:
    """Every path and its log weight."""
    T, K = evidence.shape
    paths = all_paths(T, K)
    weights = start[paths[:, 0]] + evidence[np.arange(T), paths].sum(1)
    return paths, weights + transition[paths[:, :-1], paths[:, 1:]].sum(1)


def smooth(evidence: Array, start: Array, transition: Array) -> tuple[float, Array, Array]:
    """log_z, posteriors (T, K), and posteriors of neighbors (T - 1, K, K)."""
    T, K = evidence.shape
    paths, weights = log_weights(evidence, start, transition)
    log_z = float(logsumexp(weights))
    shares, pairs = np.zeros((T, K)), np.zeros((T - 1, K, K))
    if log_z > -np.inf:
        for path, chance in zip(paths, np.exp(weights - log_z), strict=True):
            shares[np.arange(T), path] += chance
            pairs[np.arange(T - 1), path[:-1], path[1:]] += chance
    return log_z, shares, pairs


def best_path(evidence: Array, start: Array, transition: Array) -> tuple[Array, float]:
    paths, weights = log_weights(evidence, start, transition)
    return paths[weights.argmax()], float(weights.max())


def filtered(evidence: Array, start: Array, transition: Array) -> tuple[Array, Array]:
    """p(z_t | x_1 .. x_t) (T, K), and log p(x_t | x_1 .. x_(t - 1)) (T,)."""
    T, K = evidence.shape
    out, log_z = np.empty((T, K)), np.zeros(T + 1)
    for t in range(T):
        log_z[t + 1], shares, _ = smooth(evidence[: t + 1], start, transition)
        out[t] = shares[-1]
    return out, np.diff(log_z)


def draw(evidence: Array, start: Array, transition: Array, uniforms: Array) -> Array:
    """A path from its last row to its first: the least k whose cumulative p(z_t | z_(t + 1) .. z_T,
    x) exceeds uniforms[t].
    """
    T, K = evidence.shape
    paths, weights = log_weights(evidence, start, transition)
    for t in range(T - 1, -1, -1):
        chance = np.array(
            [np.exp(logsumexp(weights[paths[:, t] == k]) - logsumexp(weights)) for k in range(K)]
        )
        chosen = int(np.argmax(np.cumsum(chance) > uniforms[t]))
        keep = paths[:, t] == chosen
        paths, weights = paths[keep], weights[keep]
    return paths[0]


def markov_entropy(shares: Array, pairs: Array, merged: Array) -> float:
    """Entropy of the Markov chain that has these posteriors of neighbors, once each two states of
    `merged` (M, 2) are made one.
    """
    fold = np.eye(shares.shape[1])
    for a, b in merged:
        fold[b] = fold[a]
    first, steps = shares[0] @ fold, fold.T @ pairs @ fold
    whole = np.broadcast_to(steps.sum(2, keepdims=True), steps.shape)
    used = steps > 0
    return float(
        -sum(p * np.log(p) for p in first if p > 0)
        - (steps[used] * np.log(steps[used] / whole[used])).sum()
    )


def restrict(evidence: Array, support: list[Array]) -> Array:
    """Evidence (T, K), -inf for states that are not in a row's support."""
    out = np.full_like(evidence, -np.inf)
    for t, states in enumerate(support):
        out[t, states] = evidence[t, states]
    return out


def best_states(scores: Array, size: int) -> Array:
    """The `size` largest of scores (K,), in order of their numbers; those that are -inf
    are none.
    """
    return np.sort([k for k in np.argsort(-scores, kind="stable")[:size] if scores[k] > -np.inf])


def choose_states(
    evidence: Array, start: Array, transition: Array, size: int
) -> tuple[list[Array], list[Array]]:
    """Supports after a pass forward, and after one backward: for each row the best given those of
    all other rows.

    Forward, rows up to and with this one count; backward, all rows do. log_z is taken over all
    paths within the supports.
    """
    T, K = evidence.shape
    support: list[Array] = []

    def scores(t: int, last: int) -> Array:
        one = lambda k: smooth(
            restrict(evidence[:last], [*support[:t], np.array([k]), *support[t + 1 : last]]),
            start,
            transition,
        )[0]
        return np.array([one(k) for k in range(K)])

    for t in range(T):
        support.append(best_states(scores(t, t + 1), size))
    first = list(support)
    for t in range(T - 2, -1, -1):
        support[t] = best_states(scores(t, T), size)
    return first, support
