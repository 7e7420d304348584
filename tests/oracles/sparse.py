"""Posteriors that use a few components only, by trying every set of components."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray


def best_subset(weights: Array, size: int) -> float:
    """Largest objective of a posterior over at most `size` of the components: max over sets of
    logsumexp.
    """
    K = len(weights)
    return max(
        float(logsumexp(weights[list(chosen)]))
        for m in range(1, min(size, K) + 1)
        for chosen in combinations(range(K), m)
    )


def first_best(weights: Array, size: int) -> list[int]:
    """The `size` largest, of equal ones the first; those that are -inf are none."""
    order = sorted(range(len(weights)), key=lambda k: (-weights[k], k))
    return sorted(k for k in order[:size] if weights[k] > -np.inf)


def limited_shares(weights: Array, size: int) -> Array:
    """(K,) softmax over the best `size`, zeros elsewhere."""
    out, chosen = np.zeros(len(weights)), first_best(weights, size)
    out[chosen] = np.exp(weights[chosen] - logsumexp(weights[chosen]))
    return out


def objective(weights: Array, shares: Array) -> float:
    """sum_k r_k (W_k - log r_k)."""
    used = shares > 0
    return float((shares[used] * (weights[used] - np.log(shares[used]))).sum())
