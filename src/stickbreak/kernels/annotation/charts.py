"""Sentences parsed by charts over listed rules: first without subtypes, which leaves few symbols
to each span, then with them. Where sums are lost, or may be, charts are in logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .chart_draws import draw_chart
from .coarse import (
    CoarseWeights,
    inside_coarse,
    make_coarse_room,
    n_spans,
    outside_coarse,
    prune_spans,
    span_at,
)
from .fine import FineRoom, Slots, inside_fine, outside_fine
from .logs import inside_chart, number_all, outside_chart, prune_chart, share_chart
from .picks import (
    Back,
    best_rules,
    best_subtypes,
    best_top,
    best_top_subtype,
    unary_share,
    write_tree,
)
from .skeletons import SAFE, AnnotatedTables

__all__ = ["ChartWeights", "draw_sentences", "parse_sentences", "share_sentences", "sum_sentences"]


class ChartWeights(NamedTuple):
    """Weights of rules.

    coarse, tables : without subtypes and with them; coarse_logs, logs : their logarithms, both in
        the order of the tables, with one subtype where there are none
    is_lossy : whether some weight is zero only because it underflowed
    """

    coarse: CoarseWeights
    tables: AnnotatedTables
    coarse_logs: AnnotatedTables
    logs: AnnotatedTables
    is_lossy: bool


@kernel
def longest_of(offsets):
    """Words of the longest sentence."""
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@kernel
def make_slots(n, S):
    """Room for the slots of n words and S symbols."""
    m = n_spans(n)
    return Slots(
        np.empty((m, S), dtype=np.int32), np.empty(m + 1, dtype=np.int64),
        np.empty(m * S, dtype=np.int32),
    )  # fmt: skip


@kernel
def is_lost(log_z, is_lossy):
    """Whether a sum of weights near one or below has lost what matters, or may have."""
    return log_z == -np.inf or (is_lossy and log_z < SAFE)


@kernel
def make_fine_room(m, n, H):
    """Room for m slots of n words."""
    return FineRoom(
        np.empty((m, H)), np.empty((m, H)), np.empty((m, H)), np.empty((m, H)),
        np.empty(n_spans(n)),
    )  # fmt: skip


@kernel
def find_slots(index, weights, words, prune, room, where):
    """Slots of a sentence; their number, or -1 if no rules cover it."""
    n, S = words.shape[0], room.low.shape[1]
    log_z = inside_coarse(index, weights.coarse, words, room)
    if not is_lost(log_z, weights.is_lossy):
        outside_coarse(index, weights.coarse, n, log_z, room)
        return prune_spans(n, prune, room, where.slots, where.ends, where.symbols)
    number_all(n, S, where)
    logs, chart = weights.coarse_logs, make_fine_room(n_spans(n) * S, n, 1)
    log_z = inside_chart(index, logs, words, where, chart)
    if log_z == -np.inf:
        return -1
    outside_chart(index, logs, n, log_z, where, chart)
    return prune_chart(n, S, prune, chart, where)


@kernel
def sum_chart(index, weights, words, where, room):
    """Log Z of a sentence, and whether the room has logarithms."""
    log_z = inside_fine(index, weights.tables, words, where, room)
    if not is_lost(log_z, weights.is_lossy):
        return log_z, False
    return inside_chart(index, weights.logs, words, where, room), True


@kernel
def make_back(m):
    """Back pointers of m slots."""
    return Back(
        np.empty(m), np.empty(m), np.zeros((m, 4), dtype=np.int64), np.zeros((m, 2), dtype=np.int64)
    )


@kernel
def parse_product(index, symbols, weights, words, where, m, out):
    """Nodes of the tree with the largest product of posteriors; its log, -inf if there is none.

    symbols : binary (B, 3) and unary (U, 2) rules
    """
    n, H = words.shape[0], weights.tables.emit.shape[1]
    room, back = make_fine_room(m, n, H), make_back(m)
    log_z, in_logs = sum_chart(index, weights, words, where, room)
    if log_z == -np.inf:
        return log_z
    if in_logs:
        outside_chart(index, weights.logs, n, log_z, where, room)
        best_rules(index, weights.logs, words, where, room, in_logs, back)
    else:
        outside_fine(index, weights.tables, n, log_z, where, room)
        best_rules(index, weights.tables, words, where, room, in_logs, back)
    best, place = best_top(index, n, where, room, in_logs, back)
    if place >= 0:
        slot = where.slots[span_at(n, n, 0), index.tops[place]]
        write_tree(symbols[0], symbols[1], n, 1, place, slot, 0, where, back, out)
    return best


@kernel
def parse_best(index, symbols, logs, words, where, m, out):
    """Nodes of the most probable tree with subtypes; its log."""
    n, H = words.shape[0], logs.emit.shape[1]
    back = make_back(m * H)
    best_subtypes(index, logs, words, where, back)
    best, place, subtype = best_top_subtype(index, logs, n, where, back)
    if place >= 0:
        slot = where.slots[span_at(n, n, 0), index.tops[place]]
        write_tree(symbols[0], symbols[1], n, H, place, slot, subtype, where, back, out)
    return best


@kernel
def parse_sentences(index, symbols, weights, words, offsets, prune, is_product, out_nodes, out_log):
    """A tree of every sentence: by the product of posteriors of rules, or the most probable.

    words (n,), offsets (S + 1,); prune : see `prune_spans`
    out_nodes (n, 6) : see `skeletons.py`; out_log (S,) : -inf if no rules cover a sentence
    """
    longest, n_symbols = longest_of(offsets), index.left_ends.shape[0] - 1
    room, where = make_coarse_room(longest, n_symbols), make_slots(longest, n_symbols)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        m, out_log[s] = find_slots(index, weights, words[lo:hi], prune, room, where), -np.inf
        if m > 0:
            given, out = words[lo:hi], out_nodes[lo:hi]
            if is_product:
                out_log[s] = parse_product(index, symbols, weights, given, where, m, out)
            else:
                out_log[s] = parse_best(index, symbols, weights.logs, given, where, m, out)


@kernel
def draw_sentences(index, symbols, weights, words, offsets, prune, uniforms, out_nodes, out_log):
    """A tree of every sentence, drawn from what pruning leaves.

    uniforms (n, 3); out_nodes (n, 6), out_log (S,) : = log Z; -inf if no rules cover a sentence
    """
    longest, n_symbols = longest_of(offsets), index.left_ends.shape[0] - 1
    room, where = make_coarse_room(longest, n_symbols), make_slots(longest, n_symbols)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        given, own = words[lo:hi], uniforms[lo:hi].reshape(-1)
        m, out_log[s] = find_slots(index, weights, given, prune, room, where), -np.inf
        if m <= 0:
            continue
        n, H = hi - lo, weights.tables.emit.shape[1]
        fine, back = make_fine_room(m, n, H), make_back(m * H)
        out_log[s], in_logs = sum_chart(index, weights, given, where, fine)
        if out_log[s] > -np.inf:
            tables = weights.logs if in_logs else weights.tables
            place, slot, a = draw_chart(index, tables, given, where, fine, in_logs, own, back)
            write_tree(symbols[0], symbols[1], n, H, place, slot, a, where, back, out_nodes[lo:hi])


@kernel
def sum_sentences(index, weights, words, offsets, prune, out_log):
    """out_log (S,) = log of the sum over all trees that pruning leaves; -inf if there is none."""
    longest, n_symbols = longest_of(offsets), index.left_ends.shape[0] - 1
    room, where = make_coarse_room(longest, n_symbols), make_slots(longest, n_symbols)
    for s in range(offsets.shape[0] - 1):
        given = words[offsets[s] : offsets[s + 1]]
        m, out_log[s] = find_slots(index, weights, given, prune, room, where), -np.inf
        if m > 0:
            fine = make_fine_room(m, given.shape[0], weights.tables.emit.shape[1])
            out_log[s], _ = sum_chart(index, weights, given, where, fine)


@kernel
def slot_shares(index, tables, n, where, room, shares):
    """Shares (m,) = posterior that a tree has a node with the symbol of a slot at its span."""
    for s in range(n_spans(n)):
        for at in range(where.ends[s], where.ends[s + 1]):
            for a in range(room.low.shape[1]):
                shares[at] += room.low[at, a] * room.out_low[at, a]
            x = where.symbols[at]
            for k in range(index.down_ends[x], index.down_ends[x + 1]):
                above = where.slots[s, index.up[k]]
                if above >= 0:
                    weights = tables.unary[index.chain[k]]
                    shares[above] += unary_share(weights, room.out_top[above], room.low[at])


@kernel
def share_sentences(index, weights, words, offsets, prune, is_kept, least):
    """Posteriors of labeled spans above `least`: rows (m, 4) begin, end, symbol, posterior.

    is_kept (S,) : symbols to tell of. Also returns ends (S + 1,), and logs (S,) of the sums.
    """
    longest, n_symbols, count = longest_of(offsets), index.left_ends.shape[0] - 1, 0
    room, where = make_coarse_room(longest, n_symbols), make_slots(longest, n_symbols)
    found, ends = np.empty((1024, 4)), np.zeros(offsets.shape[0], dtype=np.int64)
    logs = np.full(offsets.shape[0] - 1, -np.inf)
    for s in range(offsets.shape[0] - 1):
        given = words[offsets[s] : offsets[s + 1]]
        n, m = given.shape[0], find_slots(index, weights, given, prune, room, where)
        if m > 0:
            fine, shares = make_fine_room(m, n, weights.tables.emit.shape[1]), np.zeros(m)
            logs[s], in_logs = sum_chart(index, weights, given, where, fine)
            if logs[s] > -np.inf and in_logs:
                outside_chart(index, weights.logs, n, logs[s], where, fine)
                share_chart(index, weights.logs, n, where, fine, shares)
            elif logs[s] > -np.inf:
                outside_fine(index, weights.tables, n, logs[s], where, fine)
                slot_shares(index, weights.tables, n, where, fine, shares)
            while count + m > found.shape[0]:
                found = np.concatenate((found, np.empty_like(found)))
            for w in range(1, n + 1):
                for i in range(n - w + 1):
                    at = span_at(n, w, i)
                    for k in range(where.ends[at], where.ends[at + 1]):
                        if is_kept[where.symbols[k]] and shares[k] > least:
                            found[count, 0], found[count, 1] = i, i + w
                            found[count, 2], found[count, 3] = where.symbols[k], shares[k]
                            count += 1
        ends[s + 1] = count
    return found[:count], ends, logs
