"""Trees of many sentences: evidence of words in, counts of rules out.

evidence (n, K) and offsets (S + 1,) are the sentences; brackets (B, 2), begin and end, and ends
(S + 1,) those that no span of a sentence may cross.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .absent import absent_in_logs, absent_spans, log_absent, make_absent
from .charts import infer_sentence, inside_sums, make_room, n_spans, span_at
from .logs import infer_in_logs, join_in_logs, pick_tree

__all__ = [
    "LogGrammar", "absent_sentences", "best_spans", "count_nodes", "infer_sentences", "longest_of",
    "pick_sentences", "sum_sentences",
]  # fmt: skip


class LogGrammar(NamedTuple):
    """Log weights root (K,), rule (K, K K) with that of splitting."""

    root: np.ndarray
    rule: np.ndarray


@kernel
def longest_of(offsets):
    """Words of the longest sentence."""
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@kernel
def scale_evidence(logs, lo, n, out):
    """Out (n, K) = exp(logs - largest of the row); returns the sum of the largest.

    Also whether something underflowed.
    """
    total, is_lossy = 0.0, False
    for i in range(n):
        top = -np.inf
        for k in range(logs.shape[1]):
            top = max(top, logs[lo + i, k])
        for k in range(logs.shape[1]):
            out[i, k] = np.exp(logs[lo + i, k] - top) if top > -np.inf else 0.0
            is_lossy = is_lossy or (out[i, k] == 0.0 and logs[lo + i, k] > -np.inf)
        total += top
    return total, is_lossy


@kernel
def infer_sentences(
    grammar, logs, evidence, offsets, brackets, ends, times, out_gather, out_counts, out_root,
    out_rows, out_spans, out_log_z,
):  # fmt: skip
    """Posteriors of every sentence, times (S,).

    grammar, logs : weights, and their logarithms for sums that underflow
    evidence (n, K) : logs, with that of emitting
    out_gather (K, K K) : += counts of rules before they are multiplied by their weights
    out_counts (K, K K) : += those of sentences that were done in logarithms
    out_root (K,), out_rows (n, K) : += counts of roots; = posteriors of the categories of words
    out_spans (m, K) : = those of all spans, one sentence after another, if it has rows
    out_log_z (S,) : = logs of the sums, -inf if no tree is possible
    """
    longest, K = longest_of(offsets), evidence.shape[1]
    room, scaled, at = make_room(longest, K), np.empty((longest, K)), 0
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        between = ends[s], ends[s + 1]
        top, is_lossy = scale_evidence(evidence, lo, n, scaled)
        log_z = np.nan
        if not is_lossy and top > -np.inf:
            log_z = top + infer_sentence(
                grammar, scaled, brackets, between[0], between[1], n, times[s], room, out_gather
            )
        if np.isnan(log_z):
            log_z = infer_in_logs(
                logs.root, logs.rule, evidence[lo : lo + n], brackets, between[0], between[1], n,
                times[s], room, out_counts,
            )  # fmt: skip
        out_log_z[s] = log_z
        if log_z > -np.inf:
            last = span_at(n, n, 0)
            for k in range(K):
                out_root[k] += times[s] * room.inside[last, k] * room.outside[last, k]
            for i in range(n):
                for k in range(K):
                    out_rows[lo + i, k] = times[s] * room.inside[i, k] * room.outside[i, k]
            if out_spans.shape[0] > 0:
                for i in range(last + 1):
                    for k in range(K):
                        out_spans[at + i, k] = room.inside[i, k] * room.outside[i, k]
        at += n_spans(n)


@kernel
def absent_sentences(
    grammar, logs, evidence, offsets, brackets, ends, times, out_rules, out_rows, out_root
):
    """Logs of q(not used), times (S,): += rules (K, K K), rows (K,), and roots (K,).

    Arguments are those of `infer_sentences`. Impossible sentences add nothing.
    """
    longest, K = longest_of(offsets), evidence.shape[1]
    room, scaled, absent = make_room(longest, K), np.empty((longest, K)), make_absent(K, True)
    gather = np.empty((K, K * K))
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        a, b = ends[s], ends[s + 1]
        top, is_lossy = scale_evidence(evidence, lo, n, scaled)
        log_z = np.nan
        if not is_lossy and top > -np.inf:
            log_z = infer_sentence(grammar, scaled, brackets, a, b, n, 1.0, room, gather)
            if not np.isnan(log_z):
                absent_spans(grammar, n, room, absent)
        if np.isnan(log_z):
            line = evidence[lo : lo + n]
            log_z = infer_in_logs(logs.root, logs.rule, line, brackets, a, b, n, 1.0, room, gather)
            if log_z == -np.inf:
                continue
            absent_in_logs(logs.rule, n, room, absent)
        last = span_at(n, n, 0)
        for k in range(K):
            share = room.inside[last, k] * room.outside[last, k]
            out_root[k] += times[s] * log_absent(1.0 - share)
            out_rows[k] += times[s] * log_absent(absent.rows[k])
            for p in range(K * K):
                out_rules[k, p] += times[s] * log_absent(absent.rules[k, p])


@kernel
def sum_sentences(grammar, logs, evidence, offsets, brackets, ends, out_log_z):
    """out_log_z (S,) = logs of the sums over all trees."""
    longest, K = longest_of(offsets), evidence.shape[1]
    room, scaled = make_room(longest, K), np.empty((longest, K))
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        top, is_lossy = scale_evidence(evidence, lo, n, scaled)
        log_z = np.nan
        if not is_lossy and top > -np.inf:
            log_z = top + inside_sums(grammar, scaled, brackets, ends[s], ends[s + 1], n, room)
        if np.isnan(log_z):
            log_z = join_in_logs(
                logs.root, logs.rule, evidence[lo : lo + n], brackets, ends[s], ends[s + 1], n,
                False, room,
            )  # fmt: skip
        out_log_z[s] = log_z


@kernel
def is_repeated(evidence, offsets, ends, s):
    """Whether sentence s has the evidence of the one before, and neither has known brackets."""
    begin, lo, hi = offsets[s - 1], offsets[s], offsets[s + 1]
    if hi - lo != lo - begin or ends[s - 1] != ends[s + 1]:
        return False
    for i in range(hi - lo):
        for k in range(evidence.shape[1]):
            if evidence[begin + i, k] != evidence[lo + i, k]:
                return False
    return True


@kernel
def pick_sentences(logs, evidence, offsets, brackets, ends, uniforms, out_nodes, out_log_z):
    """out_nodes = nodes of a tree of every sentence: by its share, or the best without uniforms.

    A sentence like the one before keeps its chart, so that many trees of one cost little more.
    out_nodes (2 n - S, 4) : see `pick_tree`; out_log_z (S,) : = log of the sum, or of the best tree
    """
    longest, K, is_best = longest_of(offsets), evidence.shape[1], uniforms.shape[0] == 0
    room, none, at = make_room(longest, K), np.full(longest, -1.0), 0
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        if s > 0 and is_repeated(evidence, offsets, ends, s):
            out_log_z[s] = out_log_z[s - 1]
        else:
            out_log_z[s] = join_in_logs(
                logs.root, logs.rule, evidence[lo : lo + n], brackets, ends[s], ends[s + 1], n,
                is_best, room,
            )  # fmt: skip
        if out_log_z[s] > -np.inf:
            drawn = none if is_best else uniforms[lo : lo + n]
            pick_tree(logs.root, logs.rule, n, room, drawn, out_nodes[at : at + 2 * n - 1])
        at += 2 * n - 1


@kernel
def count_nodes(nodes, ends, times, out_root, out_kind, out_rule):
    """Counts of given trees: nodes (m, 4) in preorder, ends (S + 1,), times (S,)."""
    for s in range(ends.shape[0] - 1):
        out_root[nodes[ends[s], 3]] += times[s]
        for v in range(ends[s], ends[s + 1]):
            end, split, a = nodes[v, 1], nodes[v, 2], nodes[v, 3]
            if split < 0:
                out_kind[a, 0] += times[s]
                continue
            right = v + 2
            while nodes[right, 0] != split or nodes[right, 1] != end:
                right += 1
            out_kind[a, 1] += times[s]
            out_rule[a, nodes[v + 1, 3], nodes[right, 3]] += times[s]


@kernel
def best_spans(shares, n, nodes):
    """Nodes of the tree with the largest sum of shares (spans,) of its spans; see `pick_tree`."""
    best, split = np.empty(n_spans(n)), np.full(n_spans(n), -1, dtype=np.int64)
    for i in range(n):
        best[i] = shares[i]
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            best[s] = -1.0
            for u in range(1, w):
                value = best[span_at(n, u, i)] + best[span_at(n, w - u, i + u)]
                if value > best[s]:
                    best[s], split[s] = value, i + u
            best[s] += shares[s]
    todo, n_todo, n_nodes = np.empty((n + 1, 2), dtype=np.int64), 1, 0
    todo[0, 0], todo[0, 1] = 0, n
    while n_todo > 0:
        n_todo -= 1
        i, w = todo[n_todo, 0], todo[n_todo, 1]
        s = span_at(n, w, i)
        nodes[n_nodes, 0], nodes[n_nodes, 1] = i, i + w
        nodes[n_nodes, 2], nodes[n_nodes, 3] = split[s], s
        n_nodes += 1
        if w > 1:
            u = split[s] - i
            todo[n_todo, 0], todo[n_todo, 1] = i + u, w - u
            todo[n_todo + 1, 0], todo[n_todo + 1, 1] = i, u
            n_todo += 2
