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
from .vectors import (
    EIGHT,
    fill,
    first_four,
    fma,
    larger,
    last_four,
    load,
    prefetch,
    single,
    store,
)

__all__ = ["LiveTable", "count_documents", "sweep_documents"]

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
    mine, totals : with their prior counts, pseudo and base_total
    """
    word = larger(table - held, 0.0) + base
    return larger(mine - own, pseudo) * (word / larger(totals - held, base_total))


@kernel
def live_slots(K):
    """(8,) : 1 for components after the last whole eight, then 0."""
    out = np.zeros(EIGHT)
    out[: K % EIGHT] = 1.0
    return out


@kernel
def entropy_of(shares):
    """- sum of r log r, shares (width,)."""
    total = fill(0.0)
    for k in range(0, shares.shape[0], EIGHT):
        r = load(shares, k)
        total = fma(r, log_fast(larger(r, TINY)), total)
    return -(first_four(total) + last_four(total))


@kernel
def entropy_of_words(own, repeats, lo, hi):
    """Sum of - repeats * r log r over the shares of the words lo to hi."""
    K, total, rest = own.shape[1], fill(0.0), 0.0
    for n in range(lo, hi):
        c = repeats[n]
        for k in range(0, K // EIGHT * EIGHT, EIGHT):
            r = load(own, n * K + k)
            total = fma(r * c, log_fast(larger(r, TINY)), total)
        for k in range(K // EIGHT * EIGHT, K):
            r_k = float(own[n, k])
            rest += c * r_k * log_fast(max(r_k, TINY))
    return -(first_four(total) + last_four(total)) - rest


@kernel
def add_words(own, repeats, lo, hi, out):
    """Out (width,) += counts of the words lo to hi, four at a time."""
    K = own.shape[1]
    whole, fours = K // EIGHT * EIGHT, lo + (hi - lo) // 4 * 4
    for n in range(lo, fours, 4):
        a, b, c, d, at = repeats[n], repeats[n + 1], repeats[n + 2], repeats[n + 3], n * K
        for k in range(0, whole, EIGHT):
            sums = fma(load(own, at + k), a, load(out, k))
            sums = fma(load(own, at + K + k), b, sums)
            sums = fma(load(own, at + 2 * K + k), c, sums)
            store(out, k, fma(load(own, at + 3 * K + k), d, sums))
        for k in range(whole, K):
            sums_k = a * own[n, k] + b * own[n + 1, k] + c * own[n + 2, k] + d * own[n + 3, k]
            out[k] += sums_k
    for n in range(fours, hi):
        for k in range(0, whole, EIGHT):
            store(out, k, fma(load(own, n * K + k), repeats[n], load(out, k)))
        for k in range(whole, K):
            out[k] += repeats[n] * own[n, k]


@kernel
def count_documents(index, repeats, offsets, times, own, out_table, out_counts):
    """The counts of words that have shares own (n, K). Returns their entropy.

    Arguments as of `sweep_documents`.
    """
    K, width, entropy = own.shape[1], out_table.shape[1], 0.0
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        out_counts[s] = 0.0
        add_words(own, repeats, lo, hi, out_counts[s])
        for n in range(lo, hi):
            weight, at = repeats[n] * times[s], index[n] * width
            for k in range(0, K // EIGHT * EIGHT, EIGHT):
                r = load(own, n * K + k)
                store(out_table, at + k, fma(r, weight, load(out_table, at + k)))
            for k in range(K // EIGHT * EIGHT, K):
                out_table[index[n], k] += weight * own[n, k]
        entropy += times[s] * entropy_of_words(own, repeats, lo, hi)
    return entropy


@inline
def weigh_slots(
    k, own, mine, pseudo, table, at, base, others, base_total, times, part, weights
):  # fmt: skip
    """Weights of eight components from k on, kept in weights (width,).

    Counts of all data are others + times * mine.
    """
    counts = load(mine, k)
    every = fma(counts, times, load(others, k))
    word = load(table, at + k)
    chance = weigh(own, own * part, counts, load(pseudo, k), word, base, every, base_total)
    store(weights, k, chance)
    return chance


@inline
def renew_slots(k, new, old, mine, repeats, out_table, at, weight, joins):
    """Counts of eight components from k on, when a word's shares `old` become `new`."""
    store(mine, k, fma(new - old, repeats, load(mine, k)))
    change = fma(old, -joins, new)
    store(out_table, at + k, fma(change, weight, load(out_table, at + k)))


@kernel
def choose_legal(legal, which, weights):
    """Weights (width,) of the components of a legal set, zero for others; returns their sum."""
    total = 0.0
    for k in range(weights.shape[0]):
        weights[k] *= legal[which, k]
        total += weights[k]
    return total


@kernel
def longest(offsets):
    """Words of the longest document."""
    out = 0
    for s in range(offsets.shape[0] - 1):
        out = max(out, offsets[s + 1] - offsets[s])
    return out


@kernel
def begin_document(own, repeats, lo, hi, pseudo, totals, base_total, share, out_mine, out_others):
    """Counts (width,) of a document, and those of all data less `share` of it; prior counts added.

    Returns how many words the document has.
    """
    length = 0.0
    for n in range(lo, hi):
        length += repeats[n]
    out_mine[:] = pseudo
    add_words(own, repeats, lo, hi, out_mine)
    for k in range(totals.shape[0]):
        out_others[k] = totals[k] + base_total - share * out_mine[k]
    return length


@kernel
def sum_logs(values, repeats, lo, hi):
    """Sum of repeats * log of values over the words lo to hi; values become logs."""
    size, total = -(-(hi - lo) // EIGHT) * EIGHT, 0.0
    values[hi - lo : size] = 1.0
    for i in range(0, size, EIGHT):  # the logs of eight cost as much as the log of one
        store(values, i, log_fast(load(values, i)))
    for n in range(lo, hi):
        total += repeats[n] * values[n - lo]
    return total


@kernel
def end_document(others, pseudo, base_total, share, is_part, mine, totals):
    """Counts of the document and of all data, without prior counts."""
    for k in range(mine.shape[0]):
        if is_part:
            totals[k] = others[k] + share * mine[k] - base_total
        mine[k] = max(mine[k] - pseudo[k], 0.0)


@kernel
def sweep_documents(
    table, totals, base, base_total, index, repeats, offsets, times, pseudo, rest, sets, legal,
    own, is_part, is_measured, out_table, out_counts,
):  # fmt: skip
    """Every word of every document once, in order. Returns log predictives and entropy, summed.

    table (V, width), totals (width,) : counts of all data
    is_part : whether own are part of them; then out_table is the table, which changes with every
        word, and totals change too
    index, repeats (n,), offsets (S + 1,), times (S,) : words, documents and their weights
    pseudo (width,), rest : prior counts of a document
    sets (n,), legal (M, width) : which components a word may have; sets (0,) for all
    own (n, K) : shares of the words, float32; replaced
    is_measured : whether the entropy is wanted, half of the time of a sweep; else it is 0
    out_table (V, width), out_counts (S, width) : += and = the counts of the words' shares
    """
    K, width, log_z, entropy = own.shape[1], totals.shape[0], 0.0, 0.0
    whole, last, weights, others = K // EIGHT * EIGHT, fill(0.0), np.zeros(width), np.zeros(width)
    is_live, spare, sums = live_slots(K), np.zeros(EIGHT), np.ones(longest(offsets) + EIGHT)
    prior, joins = pseudo.sum() + rest, 1.0 if is_part else 0.0
    for s in range(offsets.shape[0] - 1):
        lo, hi, mine, share = offsets[s], offsets[s + 1], out_counts[s], times[s] * joins
        part = min(times[s], 1.0) * joins
        length = begin_document(
            own, repeats, lo, hi, pseudo, totals, base_total, share, mine, others
        )
        for n in range(lo, hi):
            sums[n - lo], c, start, at = 1.0, repeats[n], n * K, index[n] * width
            if c == 0.0:
                continue
            weight, ahead, chances = c * times[s], index[min(n + 2, hi - 1)] * width, fill(0.0)
            one = min(c, 1.0)
            for k in range(0, whole, EIGHT):
                chances = chances + weigh_slots(
                    k, load(own, start + k) * one,
                    mine, pseudo, table, at, base, others, base_total, share, part, weights,
                )  # fmt: skip
            if whole < K:
                if start + whole + EIGHT <= own.size:  # also shares of the next word
                    last = load(own, start + whole) * load(is_live, 0)
                else:
                    for k in range(whole, K):
                        spare[k - whole] = own[n, k]
                    last = load(spare, 0)
                chances = chances + weigh_slots(
                    whole, last * one,
                    mine, pseudo, table, at, base, others, base_total, share, part, weights,
                )  # fmt: skip
            total = first_four(chances) + last_four(chances)
            if sets.shape[0] > 0:
                total = choose_legal(legal, sets[n], weights)
            if total > TINY:
                sums[n - lo] = total / (max(length - one, 0.0) + prior)
            else:  # no component is possible, or none is finite
                log_z += weight * math.log(total)
            scale = 1.0 / total
            for k in range(0, whole, EIGHT):
                new, old = single(load(weights, k) * scale), load(own, start + k)
                store(own, start + k, new)
                renew_slots(k, new, old, mine, c, out_table, at, weight, joins)
                prefetch(table, ahead + k)
            if whole < K:
                new = single(load(weights, whole) * scale)
                renew_slots(whole, new, last, mine, c, out_table, at, weight, joins)
                prefetch(table, ahead + whole)
                store(spare, 0, new)
                for k in range(whole, K):
                    own[n, k] = spare[k - whole]
        log_z += times[s] * sum_logs(sums, repeats, lo, hi)
        if is_measured:
            entropy += times[s] * entropy_of_words(own, repeats, lo, hi)
        end_document(others, pseudo, base_total, share, is_part, mine, totals)
    return log_z, entropy
