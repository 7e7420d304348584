"""The best subtypes of the nodes of given trees, in logarithms; trees are as in `skeletons.py`."""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from .skeletons import make_skeleton_room, rule_above

__all__ = ["pick_skeletons"]


@kernel
def best_inside(logs, nodes, room):
    """Fill low and top with the best log weights below each node; returns that of the tree."""
    n, H, value = nodes.shape[0], logs.emit.shape[1], -np.inf
    for v in range(2 * n - 1):
        low, top, rule = room.low[v], room.top[v], rule_above(nodes, n, v)
        for a in range(H):
            low[a] = logs.emit[nodes[v, 0], a] if v < n else -np.inf
        if v >= n:
            j = v - n + 1
            left, right = room.top[nodes[j, 4]], room.top[nodes[j, 5]]
            weights = logs.binary[nodes[j, 2]]
            for a in range(H):
                for b in range(H):
                    for c in range(H):
                        low[a] = max(low[a], weights[a, b, c] + left[b] + right[c])
        for a in range(H):
            top[a] = low[a] if rule < 0 else -np.inf
            if rule >= 0:
                for b in range(H):
                    top[a] = max(top[a], logs.unary[rule, a, b] + low[b])
    for a in range(H):
        value = max(value, logs.root[nodes[0, 2], a] + room.top[2 * n - 2, a])
    return value


@kernel
def count_best(logs, nodes, times, room, picked, out, out_rows):
    """Out += times * the counts of the best subtypes, from the top down; the first of equals.

    picked (2 N,) : room for the subtype of each node above its unary rule
    """
    n, H, last = nodes.shape[0], logs.emit.shape[1], 2 * nodes.shape[0] - 2
    symbol, best = nodes[0, 2], 0
    for a in range(1, H):
        value = logs.root[symbol, a] + room.top[last, a]
        if value > logs.root[symbol, best] + room.top[last, best]:
            best = a
    picked[last] = best
    out.root[symbol, best] += times
    for v in range(last, -1, -1):
        a, rule = picked[v], rule_above(nodes, n, v)
        if rule >= 0:
            best = 0
            for b in range(1, H):
                value = logs.unary[rule, a, b] + room.low[v, b]
                if value > logs.unary[rule, a, best] + room.low[v, best]:
                    best = b
            out.unary[rule, a, best] += times
            a = best
        if v < n:
            out.emit[nodes[v, 0], a] += times
            out_rows[v, a] = times
            continue
        j = v - n + 1
        left, right, binary = nodes[j, 4], nodes[j, 5], nodes[j, 2]
        most, first, second = -np.inf, 0, 0
        for b in range(H):
            for c in range(H):
                value = logs.binary[binary, a, b, c] + room.top[left, b] + room.top[right, c]
                if value > most:
                    most, first, second = value, b, c
        picked[left], picked[right] = first, second
        out.binary[binary, a, first, second] += times


@kernel
def pick_skeletons(logs, nodes, offsets, times, out, out_rows, out_log):
    """The best subtypes of many trees, times (S,) each.

    out : += their counts; out_rows (n, H) : = those of tags; out_log (S,) : = logs of their
        weights, -inf for an impossible tree
    """
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    room = make_skeleton_room(longest, logs.emit.shape[1])
    picked = np.empty(2 * longest, dtype=np.int64)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        out_log[s] = best_inside(logs, nodes[lo:hi], room)
        if out_log[s] > -np.inf:
            count_best(logs, nodes[lo:hi], times[s], room, picked, out, out_rows[lo:hi])
