"""Collapsed sweeps: a word's component given the components of all other words (CVB0).

The document's shares and the components' tables are integrated out, and what is left is a table of
expected counts. Word n of document d, which occurs c times, has shares r (K,), the same for its
occurrences. One occurrence is taken out (all of it, if c < 1), and

    r_k  ~  (counts_dk - r_k + pseudo_k) (table_vk - r_k + base) / (totals_k - r_k + base_total);

then the counts change at once by c (new r - old r). A document that counts several times does so as
its words do: one of them is taken out of the tables, or all of it if it counts less than once.
Differences that round to below zero are held there. Tables have a width that is a multiple of
eight; components beyond K have prior count 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import inline, kernel
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


@inline
def weigh(own, held, mine, pseudo, table, base, totals, base_total):
    """Weights of eight components for one occurrence of a word.

    own, held : what of its shares is in the counts of its document, and in those of all data
    """
    left = larger(mine - own, 0.0) + pseudo
    return left * ((larger(table - held, 0.0) + base) / (larger(totals - held, 0.0) + base_total))


@kernel
def load_shares(own, n, out):
    """Out (width,) = shares of word n, 0 beyond the last component."""
    K = own.shape[1]
    whole = K // EIGHT * EIGHT
    for k in range(0, whole, EIGHT):
        store(out, k, load(own, n * K + k))
    for k in range(whole, K):
        out[k] = own[n, k]


@kernel
def store_shares(shares, own, n):
    """Shares (width,) of word n; the opposite of load_shares."""
    K = own.shape[1]
    whole = K // EIGHT * EIGHT
    for k in range(0, whole, EIGHT):
        store(own, n * K + k, load(shares, k))
    for k in range(whole, K):
        own[n, k] = shares[k]


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
    own, is_part, moves, is_measured, out_table, out_counts,
):  # fmt: skip
    """Every word of every document once, in order. Returns log predictives and entropy, summed.

    table (V, width), totals (width,) : counts of all data, of which own are part if `is_part`; they
        then change with every word, else they stay as they are
    index, repeats (n,), offsets (S + 1,), times (S,) : words, documents and their weights
    pseudo (width,), rest : prior counts of a document
    sets (n,), legal (M, width) : which components a word may have; sets (0,) for all
    own (n, K) : shares of the words, float32; replaced if `moves`
    is_measured : whether the entropy is wanted, half of the time of a sweep; else it is 0
    out_table (V, width), out_counts (S, width) : += and = the counts of the words' shares
    """
    width, log_z, entropy = totals.shape[0], 0.0, 0.0
    weights, old = np.zeros(width), np.zeros(width)
    new = np.zeros(width, dtype=np.float32)  # what is kept is what counts
    prior = pseudo.sum() + rest
    for s in range(offsets.shape[0] - 1):
        lo, hi, length, mine = offsets[s], offsets[s + 1], 0.0, out_counts[s]
        mine[:] = 0.0
        for n in range(lo, hi):
            length += repeats[n]
            load_shares(own, n, old)
            add_scaled(old, repeats[n], mine, 0)
        part = min(times[s], 1.0) if is_part else 0.0
        for n in range(lo, hi):
            weight, at = repeats[n] * times[s], index[n] * width
            load_shares(own, n, old)
            if not moves or repeats[n] == 0.0:
                add_scaled(old, weight, out_table, at)
                entropy += weight * entropy_of(old)
                continue
            one, sums = min(repeats[n], 1.0), fill(0.0)
            before = max(length - one, 0.0) + prior
            for k in range(0, width, EIGHT):
                r = load(old, k) * one
                chance = weigh(
                    r, r * part, load(mine, k), load(pseudo, k),
                    load(table, at + k), base, load(totals, k), base_total,
                )  # fmt: skip
                store(weights, k, chance)
                sums = sums + chance
            total = first_four(sums) + last_four(sums)
            if sets.shape[0] > 0:
                total = 0.0
                for k in range(width):
                    weights[k] *= legal[sets[n], k]
                    total += weights[k]
            log_z += weight * math.log(total / before)
            for k in range(0, width, EIGHT):
                store(new, k, load(weights, k) * (1.0 / total))
                r = load(new, k)
                step = r - load(old, k)
                store(mine, k, fma(step, repeats[n], load(mine, k)))
                store(out_table, at + k, fma(r, weight, load(out_table, at + k)))
                if is_part:
                    store(table, at + k, fma(step, weight, load(table, at + k)))
                    store(totals, k, fma(step, weight, load(totals, k)))
            store_shares(new, own, n)
            if is_measured:
                entropy += weight * entropy_of(new)
    return log_z, entropy
