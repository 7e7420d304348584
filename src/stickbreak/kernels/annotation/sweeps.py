"""Collapsed sweeps over given trees: each is inferred from the counts of all others.

What a tree keeps, by its words (n): rows (n, H) of tags; pairs (n, H, H, H), row i of binary node
i - 1; chains (n, 2, H, H), of the unary rules above words and above binary nodes; roots (S, H).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .skeletons import (
    AnnotatedTables,
    inside_logs,
    inside_nodes,
    make_skeleton_room,
    outside_logs,
    outside_nodes,
)

__all__ = ["RuleGroups", "SkeletonOwn", "SkeletonUnits", "count_skeletons", "sweep_skeletons"]


class RuleGroups(NamedTuple):
    """Which rules share a Dirichlet, and its prior counts.

    binary (B,), unary (U,), emit (L,) : their parents
    rule_prior, word_prior, root_prior : of each entry; prior (S,) : their sums of each parent
    """

    binary: np.ndarray
    unary: np.ndarray
    emit: np.ndarray
    rule_prior: float
    word_prior: float
    root_prior: float
    prior: np.ndarray


class SkeletonUnits(NamedTuple):
    """nodes (n, 6), offsets (S + 1,) : the trees; is_used (S,)."""

    nodes: np.ndarray
    offsets: np.ndarray
    is_used: np.ndarray


class SkeletonOwn(NamedTuple):
    """What trees keep, see the module."""

    rows: np.ndarray
    pairs: np.ndarray
    chains: np.ndarray
    roots: np.ndarray


@kernel
def move_tree(units, s, sign, own, groups, counts, totals):
    """Counts, and totals (S, H) of each parent, += sign * what tree s keeps."""
    lo, hi, H = units.offsets[s], units.offsets[s + 1], own.rows.shape[1]
    for a in range(H):
        counts.root[units.nodes[lo, 2], a] += sign * own.roots[s, a]
    for t in range(lo, hi):
        emit, binary = units.nodes[t, 0], units.nodes[t, 2]
        for a in range(H):
            counts.emit[emit, a] += sign * own.rows[t, a]
            totals[groups.emit[emit], a] += sign * own.rows[t, a]
        if t > lo:
            for a in range(H):
                total = 0.0
                for b in range(H):
                    for c in range(H):
                        value = sign * own.pairs[t, a, b, c]
                        counts.binary[binary, a, b, c] += value
                        total += value
                totals[groups.binary[binary], a] += total
        for side in range(2):
            rule = units.nodes[t, 1 + 2 * side]
            if rule >= 0:
                for a in range(H):
                    total = 0.0
                    for b in range(H):
                        value = sign * own.chains[t, side, a, b]
                        counts.unary[rule, a, b] += value
                        total += value
                    totals[groups.unary[rule], a] += total


@kernel
def predict_tree(units, s, groups, counts, totals, nodes, out):
    """Predictive weights of the rules of tree s, one entry for each node; nodes says which.

    Counts below zero are taken as zero.
    """
    lo, n, H = units.offsets[s], units.offsets[s + 1] - units.offsets[s], totals.shape[1]
    total = groups.root_prior * counts.root.size
    for r in range(counts.root.shape[0]):
        for a in range(H):
            total += max(counts.root[r, a], 0.0)
    for a in range(H):
        out.root[0, a] = (max(counts.root[units.nodes[lo, 2], a], 0.0) + groups.root_prior) / total
    for i in range(n):
        given = units.nodes[lo + i]
        nodes[i, 0], nodes[i, 2] = i, i if i > 0 else 0
        nodes[i, 4], nodes[i, 5] = given[4], given[5]
        parent = groups.emit[given[0]]
        for a in range(H):
            below = max(totals[parent, a], 0.0) + groups.prior[parent]
            out.emit[i, a] = (max(counts.emit[given[0], a], 0.0) + groups.word_prior) / below
        if i > 0:
            parent = groups.binary[given[2]]
            for a in range(H):
                below = max(totals[parent, a], 0.0) + groups.prior[parent]
                for b in range(H):
                    for c in range(H):
                        value = max(counts.binary[given[2], a, b, c], 0.0) + groups.rule_prior
                        out.binary[i, a, b, c] = value / below
        for side in range(2):
            rule = given[1 + 2 * side]
            nodes[i, 1 + 2 * side] = 2 * i + side if rule >= 0 else -1
            if rule >= 0:
                parent = groups.unary[rule]
                for a in range(H):
                    below = max(totals[parent, a], 0.0) + groups.prior[parent]
                    for b in range(H):
                        value = max(counts.unary[rule, a, b], 0.0) + groups.rule_prior
                        out.unary[2 * i + side, a, b] = value / below


@kernel
def blank(tables, n):
    """Entries of the first n words become zero."""
    tables.root[0] = 0.0
    tables.emit[:n] = 0.0
    tables.binary[:n] = 0.0
    tables.unary[: 2 * n] = 0.0


@kernel
def infer_tree(weights, nodes, n, room, found, rows):
    """Log Z and counts of one tree; in logarithms if sums underflow."""
    log_z = inside_nodes(weights, nodes, room)
    if not np.isnan(log_z):
        outside_nodes(weights, nodes, 1.0, room, found, rows)
        return log_z
    logs = AnnotatedTables(
        np.log(weights.root), np.log(weights.binary[:n]), np.log(weights.unary[: 2 * n]),
        np.log(weights.emit[:n]),
    )  # fmt: skip
    log_z = inside_logs(logs, nodes, room)
    if log_z > -np.inf:
        outside_logs(logs, nodes, 1.0, log_z, room, found, rows)
    return log_z


@kernel
def keep_tree(units, s, nodes, found, own):
    """Own = what was found."""
    lo, n, H = units.offsets[s], units.offsets[s + 1] - units.offsets[s], own.rows.shape[1]
    for a in range(H):
        own.roots[s, a] = found.root[0, a]
    for i in range(n):
        for a in range(H):
            own.rows[lo + i, a] = found.emit[i, a]
            for b in range(H):
                for side in range(2):
                    own.chains[lo + i, side, a, b] = found.unary[2 * i + side, a, b]
                for c in range(H):
                    own.pairs[lo + i, a, b, c] = found.binary[i, a, b, c]


@kernel
def pair_entries(found, weights):
    """Sum of counts (m,) times logs of weights (m,)."""
    total = 0.0
    for i in range(found.shape[0]):
        if found[i] > 0.0:
            total += found[i] * np.log(weights[i])
    return total


@kernel
def pair_tree(n, found, weights):
    """Sum of expected counts times log weights."""
    total = pair_entries(found.root.reshape(-1), weights.root.reshape(-1))
    total += pair_entries(found.emit[:n].reshape(-1), weights.emit[:n].reshape(-1))
    total += pair_entries(found.binary[:n].reshape(-1), weights.binary[:n].reshape(-1))
    total += pair_entries(found.unary[: 2 * n].reshape(-1), weights.unary[: 2 * n].reshape(-1))
    return total


@kernel
def tree_tables(n, H):
    """Tables with an entry for each node of a tree of n words."""
    return AnnotatedTables(
        np.ones((1, H)), np.ones((n, H, H, H)), np.ones((2 * n, H, H)), np.ones((n, H))
    )


@kernel
def sweep_skeletons(
    counts, totals, groups, units, own, block, is_part, is_measured, out, out_totals, out_found
):
    """Every tree once, in order. Returns the first that is impossible, or -1.

    counts, totals : of all data, of which own are part if `is_part`; they then change with every
        tree, else they stay as they are
    block : trees that share an exclusion
    own : counts of each tree, replaced
    out, out_totals : += the lane's new counts
    out_found (2,) : sum of log predictives, and of the entropies of trees if `is_measured`
    """
    n_units, H, longest = units.offsets.shape[0] - 1, own.rows.shape[1], 1
    for s in range(n_units):
        longest = max(longest, units.offsets[s + 1] - units.offsets[s])
    room, rows = make_skeleton_room(longest, H), np.empty((longest, H))
    weights, found = tree_tables(longest, H), tree_tables(longest, H)
    nodes = np.empty((longest, 6), dtype=np.int64)
    for first in range(0, n_units, block):
        last = min(first + block, n_units)
        for s in range(first, last):
            if is_part and units.is_used[s]:
                move_tree(units, s, -1.0, own, groups, counts, totals)
        for s in range(first, last):
            if units.is_used[s]:
                n = units.offsets[s + 1] - units.offsets[s]
                predict_tree(units, s, groups, counts, totals, nodes, weights)
                blank(found, n)
                log_z = infer_tree(weights, nodes[:n], n, room, found, rows[:n])
                if not log_z > -np.inf:
                    return s
                out_found[0] += log_z
                if is_measured:
                    out_found[1] += log_z - pair_tree(n, found, weights)
                keep_tree(units, s, nodes, found, own)
                move_tree(units, s, 1.0, own, groups, out, out_totals)
        for s in range(first, last):
            if is_part and units.is_used[s]:
                move_tree(units, s, 1.0, own, groups, counts, totals)
    return -1


@kernel
def count_skeletons(units, own, groups, out, out_totals):
    """Counts of trees as they are."""
    for s in range(units.offsets.shape[0] - 1):
        if units.is_used[s]:
            move_tree(units, s, 1.0, own, groups, out, out_totals)
