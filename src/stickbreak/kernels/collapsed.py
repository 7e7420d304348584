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
    doubles,
    fill,
    first_float,
    first_four,
    floats,
    fma,
    larger,
    last_four,
    load,
    load_floats,
    prefetch,
    spread_sum,
    store,
    store_some,
)

__all__ = ["LiveTable", "count_documents", "sweep_documents"]

TINY = 1e-300  # shares below it have no entropy
LEAST = 1e-30  # sums of floats below it are of doubles instead


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
    """Weights of eight components from k on, kept in weights (width,), floats.

    Counts of all data are others + times * mine.
    """
    counts = load_floats(mine, k)
    every = fma(counts, times, load_floats(others, k))
    word, least = load_floats(table, at + k), load_floats(pseudo, k)
    chance = weigh(own, own * part, counts, least, word, base, every, base_total)
    store(weights, k, chance)
    return chance


@inline
def renew_slots(k, new, old, mine, repeats, out_table, at, weight, joins):
    """Counts of eight components from k on, when a word's shares `old` become `new`."""
    store(mine, k, fma(new - old, repeats, load_floats(mine, k)))
    change = fma(doubles(old), -joins, doubles(new))  # exact: tables are not counted anew
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
def begin_document(own, repeats, lo, hi, share, out_counts, totals):
    """Counts (width,) of a document; `share` of it is taken from totals (width,).

    Returns how many words the document has.
    """
    length = 0.0
    for n in range(lo, hi):
        length += repeats[n]
    out_counts[:] = 0.0
    add_words(own, repeats, lo, hi, out_counts)
    for k in range(totals.shape[0]):
        totals[k] -= share * out_counts[k]
    return length


@kernel
def round_document(counts, totals, pseudo, base_total, share, out_mine, out_others):
    """Counts (width,) of a document and those of all others, prior counts added, as floats."""
    for k in range(counts.shape[0]):
        out_mine[k] = counts[k] + pseudo[k]
        out_others[k] = totals[k] + (base_total - share * pseudo[k])


@kernel
def weigh_exactly(
    own, one, mine, pseudo, table, base, others, base_total, share, part, legal, weights
):  # fmt: skip
    """Weights (width,) of a word, divided by their sum, where floats underflow. Returns the sum."""
    K, total = own.shape[0], 0.0
    exact = np.zeros(K)
    for k in range(K):
        r = own[k] * one
        word = max(table[k] - r * part, 0.0) + base
        every = max(others[k] + share * mine[k] - r * part, base_total)
        exact[k] = legal[k] * max(mine[k] - r, pseudo[k]) * (word / every)
        total += exact[k]
    for k in range(K):
        weights[k] = exact[k] / total
    return total


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
def end_document(own, repeats, lo, hi, share, out_counts, totals):
    """Counts (width,) of a document after its sweep; `share` of it is added to totals (width,)."""
    out_counts[:] = 0.0
    add_words(own, repeats, lo, hi, out_counts)
    for k in range(totals.shape[0]):
        totals[k] += share * out_counts[k]


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
    whole, last, first = K // EIGHT * EIGHT, floats(0.0), pseudo.astype(np.float32)
    mine, others, weights = first.copy(), first.copy(), np.zeros(width, dtype=np.float32)
    is_live, spare, sums = live_slots(K), np.zeros(EIGHT), np.ones(longest(offsets) + EIGHT)
    prior, joins = pseudo.sum() + rest, 1.0 if is_part else 0.0
    for s in range(offsets.shape[0] - 1):
        lo, hi, share = offsets[s], offsets[s + 1], times[s] * joins
        part = min(times[s], 1.0) * joins
        length = begin_document(own, repeats, lo, hi, share, out_counts[s], totals)
        round_document(out_counts[s], totals, pseudo, base_total, share, mine, others)
        for n in range(lo, hi):
            sums[n - lo], c, start, at = 1.0, repeats[n], n * K, index[n] * width
            if c == 0.0:
                continue
            weight, ahead, chances = c * times[s], index[min(n + 2, hi - 1)] * width, floats(0.0)
            one = min(c, 1.0)
            for k in range(0, whole, EIGHT):
                chances = chances + weigh_slots(
                    k, load_floats(own, start + k) * one,
                    mine, first, table, at, base, others, base_total, share, part, weights,
                )  # fmt: skip
            if whole < K:
                if start + whole + EIGHT <= own.size:  # also shares of the next word
                    last = load_floats(own, start + whole) * load_floats(is_live, 0)
                else:
                    for k in range(whole, K):
                        spare[k - whole] = own[n, k]
                    last = load_floats(spare, 0)
                chances = chances + weigh_slots(
                    whole, last * one,
                    mine, first, table, at, base, others, base_total, share, part, weights,
                )  # fmt: skip
            chances = spread_sum(chances)
            scale, total = 1.0 / chances, first_float(chances)
            if sets.shape[0] > 0:
                total = choose_legal(legal, sets[n], weights)
                scale = floats(1.0 / total)
            if not total > LEAST:
                total = weigh_exactly(
                    own[n], one, mine, pseudo, table[index[n]], base, others, base_total, share,
                    part, legal[sets[n] if sets.shape[0] > 0 else 0], weights,
                )  # fmt: skip
                scale = floats(1.0)
            if total > TINY:
                sums[n - lo] = total / (max(length - one, 0.0) + prior)
            else:  # no component is possible, or none is finite
                log_z += weight * math.log(total)
            for k in range(0, whole, EIGHT):
                new, old = load_floats(weights, k) * scale, load_floats(own, start + k)
                store(own, start + k, new)
                renew_slots(k, new, old, mine, c, out_table, at, weight, joins)
                prefetch(table, ahead + k)
            if whole < K:
                new = load_floats(weights, whole) * scale
                renew_slots(whole, new, last, mine, c, out_table, at, weight, joins)
                prefetch(table, ahead + whole)
                store_some(own, start + whole, new, K - whole)
        log_z += times[s] * sum_logs(sums, repeats, lo, hi)
        if is_measured:
            entropy += times[s] * entropy_of_words(own, repeats, lo, hi)
        end_document(own, repeats, lo, hi, share, out_counts[s], totals)
    return log_z, entropy
