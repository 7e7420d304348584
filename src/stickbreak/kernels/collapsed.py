"""Collapsed sweeps: a word's component given the components of all other words (CVB0).

The document's shares and the components' tables are integrated out, and what is left is a table of
expected counts. Word n of document d, which occurs c times, has shares r (K,), the same for its
occurrences. One occurrence is taken out, and

    r_k  ~  (counts_dk - r_k + pseudo_k) (table_vk - r_k + base) / (totals_k - r_k + base_total);

then the counts change at once by c (new r - old r). Sums may round to just below zero: they are
held there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel

__all__ = ["LiveTable", "count_documents", "sweep_documents"]


class LiveTable(NamedTuple):
    """Symbols of one column: counts (V, K), totals (K,), prior count of a symbol and of all."""

    counts: np.ndarray
    totals: np.ndarray
    pseudo: float
    pseudo_total: float


@kernel
def weigh_word(mine, row, totals, r, pseudo, base, base_total, weights):
    """Weights (K,) of one occurrence; returns their sum."""
    for k in range(weights.shape[0]):
        left = max(mine[k] - r[k], 0.0) + pseudo[k]
        weights[k] = left * (max(row[k] - r[k], 0.0) + base) / (totals[k] - r[k] + base_total)
    total = 0.0
    for k in range(weights.shape[0]):
        total += weights[k]
    return total


@kernel
def sweep_documents(
    table, totals, base, base_total, index, repeats, offsets, times, pseudo, rest, sets, legal,
    own, is_live,
):  # fmt: skip
    """Every word of every document once, in order. Returns the sum of log predictives.

    table (V, K), totals (K,) : counts of all data, of which own are part if `is_live`; they then
        change with every word, else they stay as they are.
    index, repeats (n,), offsets (S + 1,), times (S,) : words, documents and their weights
    pseudo (K,), rest : prior counts of a document
    sets (n,), legal (M, K) : which components a word may have; sets (0,) for all
    own (n, K) : shares of the words, float32; replaced
    """
    K, log_z = totals.shape[0], 0.0
    weights, mine = np.empty(K), np.empty(K)
    prior = pseudo.sum() + rest
    for s in range(offsets.shape[0] - 1):
        lo, hi, length = offsets[s], offsets[s + 1], 0.0
        mine[:] = 0.0
        for n in range(lo, hi):
            length += repeats[n]
            for k in range(K):
                mine[k] += repeats[n] * own[n, k]
        for n in range(lo, hi):
            if repeats[n] == 0.0:
                continue
            r, row = own[n], table[index[n]]
            total = weigh_word(mine, row, totals, r, pseudo, base, base_total, weights)
            if sets.shape[0] > 0:
                total = 0.0
                for k in range(K):
                    weights[k] *= legal[sets[n], k]
                    total += weights[k]
            log_z += times[s] * repeats[n] * math.log(total / (max(length - 1.0, 0.0) + prior))
            change = repeats[n] * times[s] if is_live else 0.0
            for k in range(K):
                new = np.float32(weights[k] / total)
                step = np.float64(new) - np.float64(r[k])
                mine[k] += repeats[n] * step
                row[k] += change * step
                totals[k] += change * step
                r[k] = new
    return log_z


@kernel
def count_documents(index, repeats, offsets, times, own, table, counts):
    """Add the words' shares to table (V, K), set counts (S, K); returns the shares' entropy."""
    K, entropy = own.shape[1], 0.0
    counts[:] = 0.0
    for s in range(offsets.shape[0] - 1):
        for n in range(offsets[s], offsets[s + 1]):
            weight, row, held = repeats[n] * times[s], table[index[n]], 0.0
            for k in range(K):
                r = np.float64(own[n, k])
                counts[s, k] += repeats[n] * r
                row[k] += weight * r
                if r > 0.0:
                    held -= r * math.log(r)
            entropy += weight * held
    return entropy
