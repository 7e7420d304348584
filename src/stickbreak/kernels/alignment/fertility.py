"""Fertilities: how many target words each source word of a sentence is linked to.

With links that are independent given a pair's posteriors q_j, the fertility of a position is a sum
of coins. Its distribution has M + 1 entries; the last stands for M and more. Only few links of a
position have a share that matters; the others are left out.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel

__all__ = ["add_fertilities", "weigh_fertilities"]

LEAST = 1e-4  # of a share


@kernel
def toss(chance, out):
    """Out (M + 1,), the distribution of a sum, with one more coin."""
    M = out.shape[0] - 1
    out[M] += chance * out[M - 1]
    for m in range(M - 1, 0, -1):
        out[m] += chance * (out[m - 1] - out[m])
    out[0] *= 1.0 - chance


@kernel
def fertility_of(shares, at, J, step, skipped, out):
    """Out (M + 1,) = distribution of the links to a position; row `skipped` is left out."""
    out[:] = 0.0
    out[0] = 1.0
    for j in range(J):
        q = min(np.float64(shares[at + j * step]), 1.0)
        if q >= LEAST and j != skipped:
            toss(q, out)


@kernel
def add_fertilities(shares, at, words, N, J, sign, room, out):
    """Out (K, M + 1) += sign * distributions of the fertilities of a pair's source words."""
    for i in range(1, N + 1):
        fertility_of(shares, at + i, J, N + 1, -1, room)
        for m in range(room.shape[0]):
            out[words[i - 1], m] += sign * room[m]


@kernel
def gain_of(table, word, pseudo, room):
    """How much more probable one more link is, given the distribution of the others."""
    more, same, M = 0.0, 0.0, room.shape[0] - 1
    for m in range(M + 1):
        same += room[m] * (max(table[word, m], 0.0) + pseudo[m])
        more += room[m] * (max(table[word, min(m + 1, M)], 0.0) + pseudo[min(m + 1, M)])
    return more / same


@kernel
def weigh_fertilities(table, pseudo, shares, at, words, N, J, room, out):
    """Out (J (N + 1),), weights of links, times what fertilities of other pairs say of one more.

    table (K, M + 1) : counts of others. shares : of the links of this pair so far
    """
    for i in range(1, N + 1):
        word = words[i - 1]
        fertility_of(shares, at + i, J, N + 1, -1, room)
        usual = gain_of(table, word, pseudo, room)
        for j in range(J):
            gain = usual
            if np.float64(shares[at + i + j * (N + 1)]) >= LEAST:
                fertility_of(shares, at + i, J, N + 1, j, room)
                gain = gain_of(table, word, pseudo, room)
            out[j * (N + 1) + i] *= gain
