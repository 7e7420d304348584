"""The charts of `charts.py` in logarithms: for sums that underflow, best trees and drawn trees.

Log weights: root (K,), rule (K, K K) with that of splitting, evidence (n, K) with that of emitting.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from .charts import crosses, fill, span_at

__all__ = ["infer_in_logs", "join_in_logs", "pick_tree"]


@kernel
def add_logs(a, b, is_best):
    """The larger of two logs, or the log of the sum."""
    top, low = (a, b) if a > b else (b, a)
    return top if is_best or low == -np.inf else top + np.log1p(np.exp(low - top))


@kernel
def join_in_logs(root, rule, evidence, brackets, lo, hi, n, is_best, room):
    """Fill inside and joint with logs; returns the log of the sum of all trees, or of the best."""
    inside, K = room.inside, evidence.shape[1]
    for i in range(n):
        for k in range(K):
            inside[i, k] = evidence[i, k]
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            joint, row = room.joint[s], inside[s]
            fill(joint, -np.inf)
            fill(row, -np.inf)
            if crosses(brackets, lo, hi, i, w):
                continue
            for u in range(1, w):
                left, right = inside[span_at(n, u, i)], inside[span_at(n, w - u, i + u)]
                for b in range(K):
                    for c in range(K):
                        p = b * K + c
                        joint[p] = add_logs(joint[p], left[b] + right[c], is_best)
            for a in range(K):
                for p in range(K * K):
                    row[a] = add_logs(row[a], rule[a, p] + joint[p], is_best)
    total, last = -np.inf, span_at(n, n, 0)
    for k in range(K):
        total = add_logs(total, root[k] + inside[last, k], is_best)
    return total


@kernel
def infer_in_logs(root, rule, evidence, brackets, lo, hi, n, times, room, out_counts):
    """As `infer_sentence`; out_counts (K, K K) += times * expected counts of rules.

    Afterwards inside * outside, linear, are the posteriors of spans. -inf if no tree is possible.
    """
    inside, outside, K = room.inside, room.outside, evidence.shape[1]
    total = join_in_logs(root, rule, evidence, brackets, lo, hi, n, False, room)
    if total == -np.inf:
        return total
    last = span_at(n, n, 0)
    fill(outside.reshape(-1), -np.inf)
    for k in range(K):
        outside[last, k] = root[k] - total
    for w in range(n, 1, -1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            message = room.message[0]
            fill(message, -np.inf)
            for a in range(K):
                for p in range(K * K):
                    weight = outside[s, a] + rule[a, p]
                    message[p] = add_logs(message[p], weight, False)
                    out_counts[a, p] += times * np.exp(weight + room.joint[s, p])
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                for b in range(K):
                    for c in range(K):
                        # a span that crosses a bracket has no weight inside
                        if room.joint[s, b * K + c] == -np.inf:
                            continue
                        x = message[b * K + c]
                        outside[left, b] = add_logs(outside[left, b], x + inside[right, c], False)
                        outside[right, c] = add_logs(outside[right, c], x + inside[left, b], False)
    for s in range(last + 1):
        for k in range(K):
            inside[s, k] = np.exp(inside[s, k] + outside[s, k])
            outside[s, k] = 1.0
    return total


@kernel
def pick(weights, n, uniform):
    """The largest of n logs if uniform is negative (the first of equals), else one by its share."""
    best = 0
    for k in range(1, n):
        if weights[k] > weights[best]:
            best = k
    if uniform < 0.0:
        return best
    total, top = 0.0, weights[best]
    for k in range(n):
        total += np.exp(weights[k] - top)
    goal, reached, last = uniform * total, 0.0, best
    for k in range(n):
        share = np.exp(weights[k] - top)
        if share > 0.0:
            last = k
            reached += share
            if reached > goal:
                break
    return last


@kernel
def pick_tree(root, rule, n, room, uniforms, nodes):
    """Nodes (2 n - 1, 4) of a tree in preorder: begin, end, where its right child begins, category.

    Words have -1 for the third. uniforms (n,) : in [0, 1) for a tree by its share, negative for the
    best one. Charts are those of `join_in_logs`.
    """
    inside, K = room.inside, root.shape[0]
    logs, todo = np.empty(max(K, (n - 1) * K * K)), np.empty((n + 1, 3), dtype=np.int64)
    for k in range(K):
        logs[k] = root[k] + inside[span_at(n, n, 0), k]
    todo[0, 0], todo[0, 1], todo[0, 2] = 0, n, pick(logs, K, uniforms[0])
    n_todo, n_used, n_nodes = 1, 1, 0
    while n_todo > 0:
        n_todo -= 1
        i, w, a = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2]
        node = nodes[n_nodes]
        node[0], node[1], node[2], node[3] = i, i + w, -1, a
        n_nodes += 1
        if w == 1:
            continue
        for u in range(1, w):
            left, right = inside[span_at(n, u, i)], inside[span_at(n, w - u, i + u)]
            for p in range(K * K):
                logs[(u - 1) * K * K + p] = rule[a, p] + left[p // K] + right[p % K]
        at = pick(logs, (w - 1) * K * K, uniforms[n_used])
        n_used += 1
        u, p = at // (K * K) + 1, at % (K * K)
        node[2] = i + u
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2] = i + u, w - u, p % K
        todo[n_todo + 1, 0], todo[n_todo + 1, 1], todo[n_todo + 1, 2] = i, u, p // K
        n_todo += 2
