"""Whole dependency trees drawn given those of all other sentences, and accepted or not.

The trees of sentences are heads (n,), 0 for the root. See `kernels/tree/hastings.py` for the rule.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, uniform_of
from .logs import join_trees, pick_tree
from .sentences import longest_of, room_for
from .sweeps import predict_sentence, take_logs

__all__ = ["draw_sentences"]


@kernel
def count_choice(row, v, g, sign, prior):
    """Count one decision, row (2, 2); returns the log of its probability before."""
    value = np.log((row[v, g] + prior) / (row[v, 0] + row[v, 1] + 2.0 * prior))
    row[v, g] += sign
    return value


@kernel
def move_tree(tags, lo, n, sign, heads, at, tables, totals, prior):
    """Tables, and attach's totals (V, 2), += sign * a tree, whose sentence begins at `at` in heads.

    Returns the log of its probability given the counts before, if sign is 1, up to the number of
    sentences.
    """
    V, value = tables.root.shape[0], 0.0
    for a in range(n):
        head, tag = heads[at + a], tags[lo + a]
        if head == 0:
            value += np.log(tables.root[tag] + prior.root)
            tables.root[tag] += sign
            continue
        other, side = tags[lo + head - 1], int(a > head - 1)
        total = totals[other, side] + V * prior.attach
        value += np.log((tables.attach[other, side, tag] + prior.attach) / total)
        tables.attach[other, side, tag] += sign
        totals[other, side] += sign
    for h in range(n):
        for side in range(2):
            first, last = (0, h) if side == 0 else (h + 1, n)
            row, v = tables.stop[tags[lo + h], side], 0
            for a in range(first, last):
                if heads[at + a] == h + 1:
                    value += count_choice(row, v, 1, sign, prior.stop)
                    v = 1
            value += count_choice(row, v, 0, sign, prior.stop)
    return value


@kernel
def weigh_tree(w, n, heads, at):
    """Sum of the log weights of a tree."""
    value = 0.0
    for a in range(n):
        head = heads[at + a]
        value += w.root[a] if head == 0 else w.attach[head - 1, a]
    for h in range(n):
        for side in range(2):
            first, last = (0, h) if side == 0 else (h + 1, n)
            v = 0
            for a in range(first, last):
                if heads[at + a] == h + 1:
                    value += w.choice[h, side, v, 1]
                    v = 1
            value += w.choice[h, side, v, 0]
    return value


@kernel
def raise_weights(w, n, power):
    """Log weights times a power."""
    for a in range(n):
        w.root[a] *= power
        for h in range(n):
            w.attach[h, a] *= power
        for side in range(2):
            for v in range(2):
                for g in range(2):
                    w.choice[a, side, v, g] *= power


@kernel
def draw_sentences(
    tables, totals, prior, tags, offsets, known, is_used, heads, is_part, seeds, power, accepted,
    out, out_log_z,
):  # fmt: skip
    """A tree for every sentence, in order. Returns the first without a possible tree, or -1.

    tables, totals (V, 2) : counts of all data, of which heads are part if `is_part`; they then
        change with every sentence, else they stay as they are, and every tree is taken
    seeds (n,) : uint64, of which a sentence uses its first. power : of all probabilities
    heads (n,), accepted (S,) : replaced; 1 for a new tree, 0 for the last one, -1 if there was none
    out : += the lane's new counts. out_log_z (1,) : += the sum of log predictives
    """
    V, longest, n_roots = tables.root.shape[0], longest_of(offsets), 0.0
    w, c, _, _ = room_for(longest)
    none, new, uniforms = np.zeros((V, 2)), np.empty(longest, dtype=np.int64), np.empty(2 * longest)
    for tag in range(V):
        n_roots += tables.root[tag]
    for s in range(offsets.shape[0] - 1):
        if not is_used[s]:
            continue
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        if is_part:
            move_tree(tags, lo, n, -1.0, heads, lo, tables, totals, prior)
        others = n_roots - 1.0 if is_part else n_roots
        predict_sentence(tables, totals, others, prior, tags, known, lo, n, w)
        take_logs(w, n)
        if power != 1.0:
            raise_weights(w, n, power)
        log_z, state = join_trees(w, n, False, c), seeds[lo]
        if log_z == -np.inf:
            return s
        out_log_z[0] += log_z
        for i in range(2 * n):
            state += GOLDEN
            uniforms[i] = uniform_of(state)
        pick_tree(w, n, c, uniforms, new)
        is_taken = True
        if is_part:
            theirs = move_tree(tags, lo, n, 1.0, heads, lo, tables, totals, prior)
            move_tree(tags, lo, n, -1.0, heads, lo, tables, totals, prior)
            ours = move_tree(tags, lo, n, 1.0, new, 0, tables, totals, prior)
            gain = power * (ours - theirs) + weigh_tree(w, n, heads, lo) - weigh_tree(w, n, new, 0)
            is_taken = np.log(1.0 - uniform_of(seeds[lo])) < gain
            if not is_taken:
                move_tree(tags, lo, n, -1.0, new, 0, tables, totals, prior)
                move_tree(tags, lo, n, 1.0, heads, lo, tables, totals, prior)
        accepted[s] = int(is_taken) if is_part else -1
        if is_taken:
            for a in range(n):
                heads[lo + a] = new[a]
        move_tree(tags, lo, n, 1.0, heads, lo, out, none, prior)
    return -1
