"""Dependency trees of many sentences: tables of tags in, counts of tags out.

Tables: root (V,), stop (V, 2, 2, 2) of a head's tag, the side, whether it has a child there, and
stop or go, and attach (V, 2, V) of a head's tag, the side, and the child's tag. tags (n,) and
offsets (S + 1,) are the sentences. known (n,) : heads that are given, 0 for the root, -1 for
unknown; (0,) if none is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .charts import Charts, Posterior, Weights, infer_tree
from .logs import infer_in_logs, join_trees, pick_tree

__all__ = [
    "Tables", "add_counts", "count_heads", "gather", "infer_sentences",
    "longest_of", "pick_sentences", "sum_sentences",
]  # fmt: skip


class Tables(NamedTuple):
    """Weights, logs or counts of tags: see the module."""

    root: np.ndarray
    stop: np.ndarray
    attach: np.ndarray


@kernel
def longest_of(offsets):
    """Words of the longest sentence."""
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@kernel
def room_for(n):
    """Weights, charts, their derivatives and expected counts of n words."""
    w = Weights(np.empty(n), np.empty((n, n)), np.empty((n, 2, 2, 2)))
    c = Charts(np.empty((n, n)), np.empty((2, n, n)), np.empty((2, n, n)), np.empty((n, n)))
    d = Charts(np.empty((n, n)), np.empty((2, n, n)), np.empty((2, n, n)), np.empty((n, n)))
    return w, c, d, Posterior(np.empty((n, n + 1)), np.empty((n, 2, 2, 2)))


@kernel
def gather(tables, tags, known, lo, n, none, w):
    """Weights of words lo to lo + n; `none` (0, or -inf) where a head is known to be another."""
    for a in range(n):
        tag, head = tags[lo + a], known[lo + a] if known.shape[0] > 0 else -1
        w.root[a] = tables.root[tag] if head <= 0 else none
        for h in range(n):
            is_free = head < 0 or head == h + 1
            w.attach[h, a] = tables.attach[tags[lo + h], int(a > h), tag] if is_free else none
        for s in range(2):
            for v in range(2):
                for g in range(2):
                    w.choice[a, s, v, g] = tables.stop[tag, s, v, g]


@kernel
def add_counts(tags, lo, n, times, found, out):
    """Counts of tags += times * the expected counts of one sentence."""
    for a in range(n):
        tag = tags[lo + a]
        out.root[tag] += times * found.head[a, 0]
        for h in range(n):
            if h != a:
                out.attach[tags[lo + h], int(a > h), tag] += times * found.head[a, h + 1]
        for s in range(2):
            for v in range(2):
                for g in range(2):
                    out.stop[tag, s, v, g] += times * found.choice[a, s, v, g]


@kernel
def infer_sentences(tables, logs, tags, offsets, known, times, out, out_heads, out_log_z):
    """Expected counts of every sentence, times (S,).

    tables, logs : weights and their logarithms, for sums that underflow
    out : += counts of tags; out_heads (n, L + 1) : = posterior heads of each word, if it has rows
    out_log_z (S,) : = logs of the sums, -inf if no tree is possible
    """
    w, c, d, found = room_for(longest_of(offsets))
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        gather(tables, tags, known, lo, n, 0.0, w)
        log_z = infer_tree(w, n, c, d, found)
        if np.isnan(log_z):
            gather(logs, tags, known, lo, n, -np.inf, w)
            log_z = infer_in_logs(w, n, c, d, found)
        out_log_z[s] = log_z
        if log_z > -np.inf:
            add_counts(tags, lo, n, times[s], found, out)
            if out_heads.shape[0] > 0:
                for a in range(n):
                    for h in range(n + 1):
                        out_heads[lo + a, h] = found.head[a, h]


@kernel
def sum_sentences(logs, tags, offsets, known, out_log_z):
    """out_log_z (S,) = logs of the sums over all trees."""
    w, c, _, _ = room_for(longest_of(offsets))
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        gather(logs, tags, known, lo, n, -np.inf, w)
        out_log_z[s] = join_trees(w, n, False, c)


@kernel
def pick_sentences(logs, tags, offsets, known, uniforms, out_heads, out_log_z):
    """out_heads (n,) = a tree of every sentence: by its share, or the best if uniforms are (0, 2).

    out_log_z (S,) : = log of the sum over all trees, or of the best tree
    """
    longest, is_best = longest_of(offsets), uniforms.shape[0] == 0
    w, c, _, _ = room_for(longest)
    drawn = np.full(2 * longest, -1.0)
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        gather(logs, tags, known, lo, n, -np.inf, w)
        out_log_z[s] = join_trees(w, n, is_best, c)
        if not is_best:
            for i in range(2 * n):
                drawn[i] = uniforms[lo + i // 2, i % 2]
        if out_log_z[s] > -np.inf:
            pick_tree(w, n, c, drawn, out_heads[lo : lo + n])


@kernel
def count_heads(tags, offsets, heads, times, out):
    """Out += counts of given trees, heads (n,), times (S,); -1 is unknown.

    A sentence with an unknown head counts its known arcs, and no decision to stop.
    """
    children = np.empty(2, dtype=np.int64)
    for s in range(offsets.shape[0] - 1):
        lo, n, is_whole = offsets[s], offsets[s + 1] - offsets[s], True
        for a in range(n):
            head, tag = heads[lo + a], tags[lo + a]
            if head < 0:
                is_whole = False
            elif head == 0:
                out.root[tag] += times[s]
            else:
                out.attach[tags[lo + head - 1], int(a > head - 1), tag] += times[s]
        for h in range(n):
            if not is_whole:
                break
            children[0] = children[1] = 0
            for a in range(n):
                if heads[lo + a] == h + 1:
                    children[int(a > h)] += 1
            for side in range(2):
                m, row = children[side], out.stop[tags[lo + h], side]
                row[int(m > 0), 0] += times[s]
                row[0, 1] += times[s] * min(m, 1)
                row[1, 1] += times[s] * max(m - 1, 0)
