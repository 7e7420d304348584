"""Subtypes of the nodes of given trees, drawn from their posterior, or given all other trees.

Drawn subtypes are picked (n, 4): row i has that of word i below its unary rule and above it, and
those of binary node i - 1; see `skeletons.py` for trees. A draw takes three uniforms a row.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of
from .skeletons import AnnotatedTables, inside_logs, make_skeleton_room, rule_above
from .sweeps import predict_tree, tree_tables

__all__ = ["choose_log", "draw_annotations", "draw_skeletons"]


@kernel
def choose_log(logs, uniform):
    """An index by log weights (m,), which are overwritten."""
    most = -np.inf
    for k in range(logs.shape[0]):
        most = max(most, logs[k])
    for k in range(logs.shape[0]):
        logs[k] = np.exp(logs[k] - most)
    return choose(logs, uniform)


@kernel
def set_above(picked, n, v, a):
    """Subtype of node v, above its unary rule."""
    if v < n:
        picked[v, 1] = a
    else:
        picked[v - n + 1, 3] = a


@kernel
def get_above(picked, n, v):
    """Subtype of node v, above its unary rule."""
    return picked[v, 1] if v < n else picked[v - n + 1, 3]


@kernel
def draw_nodes(logs, nodes, uniforms, room, picked):
    """Subtypes of one tree, from the top down; the room holds its inside sums."""
    n, H, last, at = nodes.shape[0], logs.emit.shape[1], 2 * nodes.shape[0] - 2, 0
    ones, pairs = np.empty(H), np.empty(H * H)
    for a in range(H):
        ones[a] = logs.root[nodes[0, 2], a] + room.top[last, a]
    set_above(picked, n, last, choose_log(ones, uniforms[at]))
    for v in range(last, -1, -1):
        a, rule = get_above(picked, n, v), rule_above(nodes, n, v)
        if rule >= 0:
            at += 1
            for b in range(H):
                ones[b] = logs.unary[rule, a, b] + room.low[v, b]
            a = choose_log(ones, uniforms[at])
        if v < n:
            picked[v, 0] = a
            continue
        j = v - n + 1
        left, right, binary = nodes[j, 4], nodes[j, 5], nodes[j, 2]
        for b in range(H):
            for c in range(H):
                value = logs.binary[binary, a, b, c] + room.top[left, b]
                pairs[b * H + c] = value + room.top[right, c]
        at += 1
        code = choose_log(pairs, uniforms[at])
        picked[j, 2] = a
        set_above(picked, n, left, code // H)
        set_above(picked, n, right, code % H)


@kernel
def longest_tree(offsets):
    """Words of the longest tree."""
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@kernel
def draw_skeletons(logs, nodes, offsets, times, uniforms, out, out_rows, out_log_z):
    """Drawn subtypes of many trees, times (S,) each.

    logs : log weights; uniforms (n, 3)
    out : += their counts; out_rows (n, H) : = those of tags; out_log_z (S,) : = log Z
    """
    longest = longest_tree(offsets)
    room = make_skeleton_room(longest, logs.emit.shape[1])
    picked = np.zeros((longest, 4), dtype=np.int64)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        given, drawn, n = nodes[lo:hi], picked[: hi - lo], hi - lo
        out_log_z[s] = inside_logs(logs, given, room)
        if out_log_z[s] == -np.inf:
            continue
        draw_nodes(logs, given, uniforms[lo:hi].reshape(-1), room, drawn)
        out.root[given[0, 2], get_above(drawn, n, 2 * n - 2)] += times[s]
        for i in range(n):
            out.emit[given[i, 0], drawn[i, 0]] += times[s]
            out_rows[lo + i, drawn[i, 0]] = times[s]
            for side in range(2):
                rule = given[i, 1 + 2 * side]
                if rule >= 0:
                    out.unary[rule, drawn[i, 2 * side + 1], drawn[i, 2 * side]] += times[s]
            if i > 0:
                left, right = get_above(drawn, n, given[i, 4]), get_above(drawn, n, given[i, 5])
                out.binary[given[i, 2], drawn[i, 2], left, right] += times[s]


@kernel
def count_rule(counts, totals, parent, a, prior, groups, sign):
    """Counts (1,) and the total of a parent += sign; returns the log predictive before."""
    value = np.log((counts[0] + prior) / (totals[parent, a] + groups.prior[parent]))
    counts[0] += sign
    totals[parent, a] += sign
    return value


@kernel
def move_picked(nodes, picked, sign, groups, counts, totals):
    """Counts, and totals (S, H) of each parent, += sign * one tree with its subtypes.

    Returns the log of its probability given the counts before, if sign is 1, up to the number of
    trees.
    """
    n = nodes.shape[0]
    top = get_above(picked, n, 2 * n - 2)
    value = np.log(counts.root[nodes[0, 2], top] + groups.root_prior)
    counts.root[nodes[0, 2], top] += sign
    for i in range(n):
        rule, a = nodes[i, 0], picked[i, 0]
        value += count_rule(
            counts.emit[rule, a : a + 1], totals, groups.emit[rule], a, groups.word_prior, groups,
            sign,
        )  # fmt: skip
        for side in range(2):
            rule, a, b = nodes[i, 1 + 2 * side], picked[i, 2 * side + 1], picked[i, 2 * side]
            if rule >= 0:
                value += count_rule(
                    counts.unary[rule, a, b : b + 1], totals, groups.unary[rule], a,
                    groups.rule_prior, groups, sign,
                )  # fmt: skip
        if i > 0:
            rule, a = nodes[i, 2], picked[i, 2]
            b, c = get_above(picked, n, nodes[i, 4]), get_above(picked, n, nodes[i, 5])
            value += count_rule(
                counts.binary[rule, a, b, c : c + 1], totals, groups.binary[rule], a,
                groups.rule_prior, groups, sign,
            )  # fmt: skip
    return value


@kernel
def weigh_picked(logs, nodes, picked):
    """Sum of the log weights of one tree with its subtypes."""
    n = nodes.shape[0]
    value = logs.root[nodes[0, 2], get_above(picked, n, 2 * n - 2)]
    for i in range(n):
        value += logs.emit[nodes[i, 0], picked[i, 0]]
        for side in range(2):
            rule = nodes[i, 1 + 2 * side]
            if rule >= 0:
                value += logs.unary[rule, picked[i, 2 * side + 1], picked[i, 2 * side]]
        if i > 0:
            b, c = get_above(picked, n, nodes[i, 4]), get_above(picked, n, nodes[i, 5])
            value += logs.binary[nodes[i, 2], picked[i, 2], b, c]
    return value


@kernel
def draw_annotations(
    counts, totals, groups, units, picked, is_part, seeds, power, accepted, out, out_totals,
    out_log_z,
):  # fmt: skip
    """Subtypes of every tree, in order, accepted or not: see `kernels/tree/hastings.py`.

    Returns the first impossible tree, or -1.

    counts, totals : of all data, of which the trees are part if `is_part`; they then change with
        every tree, else they stay as they are, and every draw is taken
    seeds (n,) : uint64, of which a tree uses its first. power : of all probabilities
    picked (n, 4), accepted (S,) : replaced; 1 for a new draw, 0 for the last one, -1 if there was
        none
    out, out_totals : += the lane's new counts. out_log_z (1,) : += the sum of log predictives
    """
    longest, H = longest_tree(units.offsets), totals.shape[1]
    room, weights = make_skeleton_room(longest, H), tree_tables(longest, H)
    nodes, new = np.empty((longest, 6), dtype=np.int64), np.empty((longest, 4), dtype=np.int64)
    uniforms = np.empty(3 * longest)
    for s in range(units.offsets.shape[0] - 1):
        if not units.is_used[s]:
            continue
        lo, hi = units.offsets[s], units.offsets[s + 1]
        n = hi - lo
        given, old, ours = units.nodes[lo:hi], picked[lo:hi], new[:n]
        if is_part:
            move_picked(given, old, -1.0, groups, counts, totals)
        predict_tree(units, s, groups, counts, totals, nodes, weights)
        logs = AnnotatedTables(
            power * np.log(weights.root), power * np.log(weights.binary[:n]),
            power * np.log(weights.unary[: 2 * n]), power * np.log(weights.emit[:n]),
        )  # fmt: skip
        log_z, state = inside_logs(logs, nodes[:n], room), seeds[lo]
        if log_z == -np.inf:
            return s
        out_log_z[0] += log_z
        for i in range(3 * n):
            state += GOLDEN
            uniforms[i] = uniform_of(state)
        ours[:, :] = 0
        draw_nodes(logs, nodes[:n], uniforms, room, ours)
        is_taken = True
        if is_part:
            before = move_picked(given, old, 1.0, groups, counts, totals)
            move_picked(given, old, -1.0, groups, counts, totals)
            gain = move_picked(given, ours, 1.0, groups, counts, totals) - before
            gain = power * gain + weigh_picked(logs, nodes[:n], old)
            gain -= weigh_picked(logs, nodes[:n], ours)
            is_taken = np.log(1.0 - uniform_of(seeds[lo])) < gain
            if not is_taken:
                move_picked(given, ours, -1.0, groups, counts, totals)
                move_picked(given, old, 1.0, groups, counts, totals)
        accepted[s] = int(is_taken) if is_part else -1
        if is_taken:
            old[:, :] = ours
        move_picked(given, old, 1.0, groups, out, out_totals)
    return -1
