"""Subtypes of the nodes of given trees: inside and outside sums, H^3 for each binary node.

A tree of n words is nodes (n, 6): row i has the rules that emit word i and above its tag, and, from
i = 1 on, the rule of binary node i - 1, the one above it, and its children: a word, or n + a binary
node, which comes earlier. Row 0 has the place of the top symbol instead; -1 is for no rule.
Every node belongs to the tree, so inside times outside sums to one everywhere: values stay near one
and only the inside sums need scales.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel

__all__ = [
    "AnnotatedTables", "SkeletonRoom", "infer_skeletons", "inside_logs", "inside_nodes",
    "make_skeleton_room", "outside_logs", "outside_nodes",
]  # fmt: skip

LEAST = 1e-100  # of a node before it is scaled; below, the tree is done again in logarithms
# Weights are at most one: what has underflowed weighs less than 1e-307, nothing above this log Z.
SAFE = -600.0


class AnnotatedTables(NamedTuple):
    """Weights or counts: root (R, H), binary (B, H, H, H), unary (U, H, H), emit (L, H).

    Parent first, then the children.
    """

    root: np.ndarray
    binary: np.ndarray
    unary: np.ndarray
    emit: np.ndarray


class SkeletonRoom(NamedTuple):
    """low, top (2 N, H) : inside of nodes, below and above their unary rule; out (2 N, H).

    low_scale, top_scale (2 N,) : what they were divided by
    """

    low: np.ndarray
    top: np.ndarray
    out: np.ndarray
    low_scale: np.ndarray
    top_scale: np.ndarray


@kernel
def make_skeleton_room(n, H):
    """Room for n words and H subtypes."""
    m = 2 * n
    return SkeletonRoom(
        np.empty((m, H)), np.empty((m, H)), np.empty((m, H)), np.empty(m), np.empty(m)
    )


@kernel
def scaled(values):
    """Divide values (H,) by the largest, which is returned."""
    largest = 0.0
    for a in range(values.shape[0]):
        largest = max(largest, values[a])
    if largest >= LEAST:
        for a in range(values.shape[0]):
            values[a] /= largest
    return largest


@kernel
def rule_above(nodes, n, v):
    """The unary rule above node v, or -1."""
    return nodes[v, 1] if v < n else nodes[v - n + 1, 3]


@kernel
def inside_nodes(tables, nodes, room):
    """Fill low and top; returns log Z, or NaN where weights may have been lost."""
    n, H, total = nodes.shape[0], tables.emit.shape[1], 0.0
    for v in range(2 * n - 1):
        low, top = room.low[v], room.top[v]
        if v < n:
            for a in range(H):
                low[a] = tables.emit[nodes[v, 0], a]
        else:
            j = v - n + 1
            weights, left, right = tables.binary[nodes[j, 2]], room.top[nodes[j, 4]], nodes[j, 5]
            ours = room.top[right]
            for a in range(H):
                low[a] = 0.0
                for b in range(H):
                    value = 0.0
                    for c in range(H):
                        value += weights[a, b, c] * ours[c]
                    low[a] += value * left[b]
        room.low_scale[v], room.top_scale[v] = scaled(low), 1.0
        rule = rule_above(nodes, n, v)
        for a in range(H):
            top[a] = low[a]
        if rule >= 0:
            for a in range(H):
                top[a] = 0.0
                for b in range(H):
                    top[a] += tables.unary[rule, a, b] * low[b]
            room.top_scale[v] = scaled(top)
        if not (room.low_scale[v] >= LEAST and room.top_scale[v] >= LEAST):
            return np.nan
        total += np.log(room.low_scale[v]) + np.log(room.top_scale[v])
    value = 0.0
    for a in range(H):
        value += tables.root[nodes[0, 2], a] * room.top[2 * n - 2, a]
    return total + np.log(value) if value >= LEAST else np.nan


@kernel
def tell_pair(weights, out, scale, left, right, times, counts, out_left, out_right):
    """Counts (H, H, H) += times * posterior of a binary rule; outside of both children."""
    H = out.shape[0]
    for b in range(H):
        out_left[b] = out_right[b] = 0.0
    for a in range(H):
        x = out[a] / scale
        if x > 0.0:
            for b in range(H):
                y, value = x * left[b], 0.0
                for c in range(H):
                    value += weights[a, b, c] * right[c]
                    out_right[c] += y * weights[a, b, c]
                    counts[a, b, c] += times * (y * weights[a, b, c]) * right[c]
                out_left[b] += x * value


@kernel
def outside_nodes(tables, nodes, times, room, out, out_rows):
    """Fill outside sums from the top; out += times * expected counts, out_rows (n, H) = times *
    posteriors of the subtypes of tags.
    """
    n, H = nodes.shape[0], tables.emit.shape[1]
    last, top, total, message = 2 * n - 2, nodes[0, 2], 0.0, np.empty(H)
    for a in range(H):
        total += tables.root[top, a] * room.top[last, a]
    for a in range(H):
        room.out[last, a] = tables.root[top, a] / total
        out.root[top, a] += times * room.out[last, a] * room.top[last, a]
    for v in range(last, -1, -1):
        own, low, rule = room.out[v], room.low[v], rule_above(nodes, n, v)
        if rule >= 0:
            for b in range(H):
                message[b] = 0.0
            for a in range(H):
                x = own[a] / room.top_scale[v]
                for b in range(H):
                    value = x * tables.unary[rule, a, b]
                    message[b] += value
                    out.unary[rule, a, b] += times * value * low[b]
            for b in range(H):
                own[b] = message[b]
        if v < n:
            for a in range(H):
                out_rows[v, a] = times * own[a] * low[a]
                out.emit[nodes[v, 0], a] += out_rows[v, a]
        else:
            j = v - n + 1
            left, right, binary = nodes[j, 4], nodes[j, 5], nodes[j, 2]
            tell_pair(
                tables.binary[binary], own, room.low_scale[v], room.top[left], room.top[right],
                times, out.binary[binary], room.out[left], room.out[right],
            )  # fmt: skip


@kernel
def add_logs(a, b):
    """Log of the sum of two exponentials."""
    top, low = (a, b) if a > b else (b, a)
    return top if low == -np.inf else top + np.log1p(np.exp(low - top))


@kernel
def inside_logs(logs, nodes, room):
    """As `inside_nodes`, all in logarithms; -inf if the tree is impossible."""
    n, H, value = nodes.shape[0], logs.emit.shape[1], -np.inf
    for v in range(2 * n - 1):
        low, top, rule = room.low[v], room.top[v], rule_above(nodes, n, v)
        for a in range(H):
            low[a] = logs.emit[nodes[v, 0], a] if v < n else -np.inf
        if v >= n:
            j = v - n + 1
            left, right = room.top[nodes[j, 4]], room.top[nodes[j, 5]]
            for a in range(H):
                for b in range(H):
                    for c in range(H):
                        weight = logs.binary[nodes[j, 2], a, b, c]
                        low[a] = add_logs(low[a], weight + left[b] + right[c])
        for a in range(H):
            top[a] = low[a] if rule < 0 else -np.inf
            if rule >= 0:
                for b in range(H):
                    top[a] = add_logs(top[a], logs.unary[rule, a, b] + low[b])
    for a in range(H):
        value = add_logs(value, logs.root[nodes[0, 2], a] + room.top[2 * n - 2, a])
    return value


@kernel
def outside_logs(logs, nodes, times, log_z, room, out, out_rows):
    """As `outside_nodes`, all in logarithms."""
    n, H, last, symbol = nodes.shape[0], logs.emit.shape[1], 2 * nodes.shape[0] - 2, nodes[0, 2]
    for v in range(last + 1):
        for a in range(H):
            room.out[v, a] = -np.inf
    for a in range(H):
        room.out[last, a] = logs.root[symbol, a] - log_z
        out.root[symbol, a] += times * np.exp(room.out[last, a] + room.top[last, a])
    message = np.empty(H)
    for v in range(last, -1, -1):
        own, low, rule = room.out[v], room.low[v], rule_above(nodes, n, v)
        if rule >= 0:
            for b in range(H):
                message[b] = -np.inf
                for a in range(H):
                    value = own[a] + logs.unary[rule, a, b]
                    message[b] = add_logs(message[b], value)
                    out.unary[rule, a, b] += times * np.exp(value + low[b])
            for b in range(H):
                own[b] = message[b]
        if v < n:
            for a in range(H):
                out_rows[v, a] = times * np.exp(own[a] + low[a])
                out.emit[nodes[v, 0], a] += out_rows[v, a]
            continue
        j = v - n + 1
        left, right, binary = nodes[j, 4], nodes[j, 5], nodes[j, 2]
        for a in range(H):
            for b in range(H):
                for c in range(H):
                    value = own[a] + logs.binary[binary, a, b, c]
                    ours, theirs = room.top[left, b], room.top[right, c]
                    room.out[left, b] = add_logs(room.out[left, b], value + theirs)
                    room.out[right, c] = add_logs(room.out[right, c], value + ours)
                    out.binary[binary, a, b, c] += times * np.exp(value + ours + theirs)


@kernel
def infer_skeleton(tables, logs, is_lossy, nodes, times, room, out, out_rows):
    """Log Z of one tree and its counts, see `outside_nodes`; in logarithms if sums underflow."""
    log_z = inside_nodes(tables, nodes, room)
    if log_z > SAFE or not (is_lossy or np.isnan(log_z)):
        outside_nodes(tables, nodes, times, room, out, out_rows)
        return log_z
    log_z = inside_logs(logs, nodes, room)
    if log_z > -np.inf:
        outside_logs(logs, nodes, times, log_z, room, out, out_rows)
    return log_z


@kernel
def infer_skeletons(tables, logs, is_lossy, nodes, offsets, times, out, out_rows, out_log_z):
    """Subtypes of the nodes of many trees, times (S,) each.

    tables, logs : weights, at most one, and their logarithms
    is_lossy : whether some weight is zero only because it underflowed
    nodes (n, 6), offsets (S + 1,) : the trees
    out : += expected counts; out_rows (n, H) : = those of tags; out_log_z (S,) : = log Z
    """
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    room = make_skeleton_room(longest, tables.emit.shape[1])
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        out_log_z[s] = infer_skeleton(
            tables, logs, is_lossy, nodes[lo:hi], times[s], room, out, out_rows[lo:hi]
        )
