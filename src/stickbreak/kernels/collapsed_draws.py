"""Collapsed Gibbs sampling of documents: the label of a word given the labels of all others.

As `collapsed.py`, with a label of its own for each of the c occurrences of a word. Own shares are
the counts of these labels over c. Occurrences are alike, so what is kept are the counts; they are
visited in random order, as if each had kept its label. An order that depends on the labels would
change the stationary distribution.
"""

from __future__ import annotations

import math

import numpy as np

from .collapsed import weigh
from .compile import kernel
from .draws import GOLDEN, choose, choose_powered, uniform_of
from .vectors import EIGHT, fill, first_four, last_four, load, store

__all__ = ["draw_words", "sweep_labels"]

NEAR = 0.01  # how far counts of labels may be from whole numbers, by rounding in float32


@kernel
def read_labels(shares, repeats, out):
    """Out (width,): counts of a word's labels, or zeros if its shares are not those of labels."""
    total = 0.0
    for k in range(shares.shape[0]):
        held = repeats * shares[k]
        out[k] = np.rint(held)
        total += out[k] if abs(held - out[k]) < NEAR else math.nan
    if total != repeats:
        out[:] = 0.0
        return False
    return True


@kernel
def add_label(k, by, weight, at, mine, table, totals, is_part):
    """Add one label to the counts of its document, and of all data if own counts are part."""
    mine[k] += by
    if is_part:
        table[at, k] += by * weight
        totals[k] += by * weight


@kernel
def weigh_label(mine, pseudo, table, at, base, totals, base_total, weights):
    """Weights (width,) of a word's label, own label taken out; returns their sum."""
    sums = fill(0.0)
    for k in range(0, weights.shape[0], EIGHT):
        chance = weigh(
            fill(0.0), fill(0.0), load(mine, k) + load(pseudo, k), load(pseudo, k),
            load(table, at + k), base, load(totals, k) + base_total, base_total,
        )  # fmt: skip
        store(weights, k, chance)
        sums = sums + chance
    return first_four(sums) + last_four(sums)


@kernel
def sweep_labels(
    table, totals, base, base_total, index, repeats, offsets, times, pseudo, rest, sets, legal,
    own, is_part, seeds, power, out_table, out_counts,
):  # fmt: skip
    """Every occurrence of every word once. Returns the sum of leave-one-out log predictives.

    seeds (n,) : of each word. power : of the probabilities that labels are drawn from
    Others as in `sweep_documents`. Words whose own shares are not those of labels, as before the
    first visit, are taken out as a whole.
    """
    K, width, log_z, prior = own.shape[1], totals.shape[0], 0.0, pseudo.sum() + rest
    weights, left, new = np.zeros(width), np.zeros(width), np.zeros(width)
    for s in range(offsets.shape[0] - 1):
        lo, hi, mine, weight, held = offsets[s], offsets[s + 1], out_counts[s], times[s], 0.0
        mine[:] = 0.0
        for n in range(lo, hi):
            for k in range(K):
                mine[k] += repeats[n] * own[n, k]
        for k in range(K):
            held += mine[k]
        for n in range(lo, hi):
            at, state = index[n], seeds[n]
            has_labels = read_labels(own[n], repeats[n], left)
            if not has_labels:
                for k in range(K):
                    add_label(k, -repeats[n] * own[n, k], weight, at, mine, table, totals, is_part)
                    held -= repeats[n] * own[n, k]
            new[:] = 0.0
            for _ in range(int(repeats[n])):
                if has_labels:
                    state += GOLDEN
                    old = choose(left, uniform_of(state))
                    left[old] -= 1.0
                    add_label(old, -1.0, weight, at, mine, table, totals, is_part)
                    held -= 1.0
                total = weigh_label(
                    mine, pseudo, table, at * width, base, totals, base_total, weights
                )
                if sets.shape[0] > 0:
                    total = 0.0
                    for k in range(K):
                        weights[k] *= legal[sets[n], k]
                        total += weights[k]
                log_z += weight * math.log(total / (max(held, 0.0) + prior))
                state += GOLDEN
                k = choose_powered(weights, total, power, uniform_of(state))
                new[k] += 1.0
                add_label(k, 1.0, weight, at, mine, table, totals, is_part)
                held += 1.0
            for k in range(K):
                own[n, k] = new[k] / repeats[n] if repeats[n] > 0.0 else 0.0
                out_table[at, k] += weight * new[k]
    return log_z


@kernel
def draw_words(table, index, repeats, offsets, shares, seeds, out):
    """Labels of words given their documents' shares (S, K) and linear evidence, table (V, width).

    Word n has the line index[n] of the table. out (n, K) : counts of its labels. Returns the first
    word that no component can have; -1 if there is none. Sets log_z of a word of weight w to
    w log sum_k shares_k table_k, and returns their sum too.
    """
    K, log_z = shares.shape[1], 0.0
    weights = np.empty(K)
    for s in range(offsets.shape[0] - 1):
        for n in range(offsets[s], offsets[s + 1]):
            total, state = 0.0, seeds[n]
            for k in range(K):
                out[n, k] = 0.0
                weights[k] = shares[s, k] * table[index[n], k]
                total += weights[k]
            if repeats[n] > 0.0:
                if not total > 0.0:
                    return n, log_z
                log_z += repeats[n] * math.log(total)
            for _ in range(int(repeats[n])):
                state += GOLDEN
                out[n, choose(weights, uniform_of(state))] += 1.0
    return -1, log_z
