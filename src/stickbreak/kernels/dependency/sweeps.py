"""Collapsed sweeps of dependency trees: a sentence's tree given the trees of all others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .charts import infer_tree
from .logs import infer_in_logs
from .sentences import longest_of, room_for

__all__ = ["Own", "PriorCounts", "count_sentences", "guess_trees", "sweep_sentences"]


class Own(NamedTuple):
    """What sentences keep: heads (n, L + 1) of each word, and its decisions choice (n, 2, 2, 2)."""

    heads: np.ndarray
    choice: np.ndarray


class PriorCounts(NamedTuple):
    """Prior count of each entry."""

    root: float
    stop: float
    attach: float


@kernel
def move_sentence(tags, lo, n, sign, own, out, totals):
    """Counts of tags, and attach's totals (V, 2), += sign * what a sentence keeps."""
    heads, choice = own.heads, own.choice
    for a in range(n):
        tag = tags[lo + a]
        out.root[tag] += sign * heads[lo + a, 0]
        for h in range(n):
            value = sign * heads[lo + a, h + 1]
            if value != 0.0:
                head, side = tags[lo + h], int(a > h)
                out.attach[head, side, tag] += value
                totals[head, side] += value
        for s in range(2):
            for v in range(2):
                for g in range(2):
                    out.stop[tag, s, v, g] += sign * choice[lo + a, s, v, g]


@kernel
def roots_in(lo, n, own):
    """Roots that a sentence keeps: one, but for a start, which guesses words one by one."""
    total = 0.0
    for a in range(n):
        total += own.heads[lo + a, 0]
    return total


@kernel
def predict_sentence(tables, totals, root_total, prior, tags, known, lo, n, w):
    """Posterior predictive weights of one sentence; counts below zero are taken as zero."""
    V = tables.root.shape[0]
    for a in range(n):
        tag, head = tags[lo + a], known[lo + a] if known.shape[0] > 0 else -1
        root = (max(tables.root[tag], 0.0) + prior.root) / (max(root_total, 0.0) + V * prior.root)
        w.root[a] = root if head <= 0 else 0.0
        for h in range(n):
            other, side = tags[lo + h], int(a > h)
            total = max(totals[other, side], 0.0) + V * prior.attach
            value = (max(tables.attach[other, side, tag], 0.0) + prior.attach) / total
            w.attach[h, a] = value if head < 0 or head == h + 1 else 0.0
        for s in range(2):
            for v in range(2):
                stop = max(tables.stop[tag, s, v, 0], 0.0) + prior.stop
                go = max(tables.stop[tag, s, v, 1], 0.0) + prior.stop
                w.choice[a, s, v, 0], w.choice[a, s, v, 1] = stop / (stop + go), go / (stop + go)


@kernel
def take_logs(w, n):
    """Weights become their logarithms."""
    for a in range(n):
        w.root[a] = np.log(w.root[a])
        for h in range(n):
            w.attach[h, a] = np.log(w.attach[h, a])
        for s in range(2):
            for v in range(2):
                for g in range(2):
                    w.choice[a, s, v, g] = np.log(w.choice[a, s, v, g])


@kernel
def pair_sentence(w, n, found):
    """Sum of expected counts times log weights."""
    total = 0.0
    for a in range(n):
        if found.head[a, 0] > 0.0:
            total += found.head[a, 0] * np.log(w.root[a])
        for h in range(n):
            if h != a and found.head[a, h + 1] > 0.0:
                total += found.head[a, h + 1] * np.log(w.attach[h, a])
        for s in range(2):
            for v in range(2):
                for g in range(2):
                    if found.choice[a, s, v, g] > 0.0:
                        total += found.choice[a, s, v, g] * np.log(w.choice[a, s, v, g])
    return total


@kernel
def keep_sentence(lo, n, found, own):
    """Own = what was found."""
    heads, choice = own.heads, own.choice
    for a in range(n):
        for h in range(n + 1):
            heads[lo + a, h] = found.head[a, h]
        for s in range(2):
            for v in range(2):
                for g in range(2):
                    choice[lo + a, s, v, g] = found.choice[a, s, v, g]


@kernel
def sweep_sentences(
    tables, totals, prior, tags, offsets, known, is_used, own, block, is_part, is_measured, out,
    out_found,
):  # fmt: skip
    """Every sentence once, in order. Returns the first without a possible tree, or -1.

    tables, totals (V, 2) : counts of all data, of which own are part if `is_part`; they then
        change with every sentence, else they stay as they are
    block : sentences that share an exclusion
    own : counts of each sentence, replaced
    out : += the lane's new counts
    out_found (2,) : sum of log predictives, and of the entropies of trees if `is_measured`
    """
    V, n_units = tables.root.shape[0], offsets.shape[0] - 1
    w, c, d, found = room_for(longest_of(offsets))
    none, n_roots = np.zeros((V, 2)), 0.0
    for tag in range(V):
        n_roots += tables.root[tag]
    for first in range(0, n_units, block):
        last = min(first + block, n_units)
        for s in range(first, last):
            if is_part and is_used[s]:
                lo, n = offsets[s], offsets[s + 1] - offsets[s]
                move_sentence(tags, lo, n, -1.0, own, tables, totals)
                n_roots -= roots_in(lo, n, own)
        for s in range(first, last):
            if is_used[s]:
                lo, n = offsets[s], offsets[s + 1] - offsets[s]
                predict_sentence(tables, totals, n_roots, prior, tags, known, lo, n, w)
                log_z = infer_tree(w, n, c, d, found)
                if np.isnan(log_z):
                    predict_sentence(tables, totals, n_roots, prior, tags, known, lo, n, w)
                    take_logs(w, n)
                    log_z = infer_in_logs(w, n, c, d, found)
                    if log_z == -np.inf:
                        return s
                out_found[0] += log_z
                if is_measured:
                    predict_sentence(tables, totals, n_roots, prior, tags, known, lo, n, w)
                    out_found[1] += log_z - pair_sentence(w, n, found)
                keep_sentence(lo, n, found, own)
                move_sentence(tags, lo, n, 1.0, own, out, none)
        for s in range(first, last):
            if is_part and is_used[s]:
                lo, n = offsets[s], offsets[s + 1] - offsets[s]
                move_sentence(tags, lo, n, 1.0, own, tables, totals)
                n_roots += roots_in(lo, n, own)
    return -1


@kernel
def count_sentences(tags, offsets, is_used, own, out):
    """Counts of sentences as they are."""
    none = np.zeros((out.root.shape[0], 2))
    for s in range(offsets.shape[0] - 1):
        if is_used[s]:
            move_sentence(tags, offsets[s], offsets[s + 1] - offsets[s], 1.0, own, out, none)


@kernel
def guess_trees(offsets, known, own):
    """Own = a guess without parameters: near words are heads rather than far ones.

    Every word is the root with probability 1 / n, else the child of word h with a weight of
    1 / (distance + 1), unless its head is known. Decisions to stop are as if the words of a side
    chose independently.
    """
    heads, choice = own.heads, own.choice
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        for a in range(n):
            head, total = known[lo + a] if known.shape[0] > 0 else -1, 0.0
            for h in range(n):
                total += 0.0 if h == a else 1.0 / (abs(h - a) + 1.0)
            for h in range(n + 1):
                chance = 1.0 / n
                if h > 0:
                    chance = 0.0 if h == a + 1 else (1.0 - 1.0 / n) / (abs(h - 1 - a) + 1.0) / total
                heads[lo + a, h] = chance if head < 0 else 1.0 * (head == h)
        for h in range(n):
            for side in range(2):
                first, last = (0, h) if side == 0 else (h + 1, n)
                none, expected, row = 1.0, 0.0, choice[lo + h, side]
                for a in range(first, last):
                    none *= 1.0 - heads[lo + a, h + 1]
                    expected += heads[lo + a, h + 1]
                row[0, 0], row[1, 0] = none, 1.0 - none
                row[0, 1], row[1, 1] = 1.0 - none, max(expected - (1.0 - none), 0.0)
