"""Collapsed sweeps: a word's component given the components of all other words (CVB0).

The document's shares and the components' tables are integrated out, and what is left is a table of
expected counts. Word n of document d, which occurs c times, has shares r (K,), the same for its
occurrences. One occurrence is taken out, and

    r_k  ~  (counts_dk - r_k + pseudo_k) (table_vk - r_k + base) / (totals_k - r_k + base_total);

then the counts change at once by c (new r - old r). Differences that round to below zero are held
there. Tables have a width that is a multiple of eight; components beyond K have prior count 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .gamma import log_fast
from .vectors import EIGHT, fill, first_four, fma, larger, last_four, load, store

__all__ = ["LiveTable", "sweep_documents"]

TINY = 1e-300  # shares below it have no entropy


class LiveTable(NamedTuple):
    """Symbols of one column: counts (V, width), totals (width,), prior counts of one and of all."""

    counts: np.ndarray
    totals: np.ndarray
    pseudo: float
    pseudo_total: float


@kernel
def weigh_word(mine, table, at, totals, r, pseudo, base, base_total, weights):
    """Weights (width,) of one occurrence; returns their sum. at : where the word's line begins."""
    total = fill(0.0)
    for k in range(0, weights.shape[0], EIGHT):
        own = load(r, k)
        left = larger(load(mine, k) - own, 0.0) + load(pseudo, k)
        right = (larger(load(table, at + k) - own, 0.0) + base) / (
            larger(load(totals, k) - own, 0.0) + base_total
        )
        weight = left * right
        store(weights, k, weight)
        total = total + weight
    return first_four(total) + last_four(total)


@kernel
def entropy_of(shares):
    """- sum of r log r, shares (width,)."""
    total = fill(0.0)
    for k in range(0, shares.shape[0], EIGHT):
        r = load(shares, k)
        total = fma(r, log_fast(larger(r, TINY)), total)
    return -(first_four(total) + last_four(total))


@kernel
def add_scaled(values, scale, out, at):
    """out[at:] += scale * values (width,)."""
    for k in range(0, values.shape[0], EIGHT):
        store(out, at + k, fma(load(values, k), scale, load(out, at + k)))


@kernel
def sweep_documents(
    table, totals, base, base_total, index, repeats, offsets, times, pseudo, rest, sets, legal,
    own, is_part, moves, out_table, out_counts,
):  # fmt: skip
    """Every word of every document once, in order. Returns log predictives and entropy, summed.

    table (V, width), totals (width,) : counts of all data, of which own are part if `is_part`; they
        then change with every word, else they stay as they are
    index, repeats (n,), offsets (S + 1,), times (S,) : words, documents and their weights
    pseudo (width,), rest : prior counts of a document
    sets (n,), legal (M, width) : which components a word may have; sets (0,) for all
    own (n, K) : shares of the words, float32; replaced if `moves`
    out_table (V, width), out_counts (S, width) : += and = the counts of the words' shares
    """
    K, width, log_z, entropy = own.shape[1], totals.shape[0], 0.0, 0.0
    weights, old, step = np.zeros(width), np.zeros(width), np.zeros(width)
    prior = pseudo.sum() + rest
    for s in range(offsets.shape[0] - 1):
        lo, hi, length, mine = offsets[s], offsets[s + 1], 0.0, out_counts[s]
        mine[:] = 0.0
        for n in range(lo, hi):
            length += repeats[n]
            for k in range(K):
                mine[k] += repeats[n] * own[n, k]
        before = max(length - 1.0, 0.0) + prior
        for n in range(lo, hi):
            weight, at = repeats[n] * times[s], index[n] * width
            for k in range(K):
                old[k] = own[n, k]
            if not moves or repeats[n] == 0.0:
                add_scaled(old, weight, out_table, at)
                entropy += weight * entropy_of(old)
                continue
            total = weigh_word(mine, table, at, totals, old, pseudo, base, base_total, weights)
            if sets.shape[0] > 0:
                total = 0.0
                for k in range(K):
                    weights[k] *= legal[sets[n], k]
                    total += weights[k]
            log_z += weight * math.log(total / before)
            for k in range(K):
                own[n, k] = weights[k] / total
                weights[k] = own[n, k]
                step[k] = weights[k] - old[k]
            entropy += weight * entropy_of(weights)
            add_scaled(weights, weight, out_table, at)
            add_scaled(step, repeats[n], mine, 0)
            if is_part:
                add_scaled(step, weight, table, at)
                add_scaled(step, weight, totals, 0)
    return log_z, entropy
