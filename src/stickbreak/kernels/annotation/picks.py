"""Trees picked from charts: by the product of the posteriors of rules, or the most probable.

The first is a tree of symbols; the second has subtypes too, and is found in logarithms. Back
pointers of a slot, or of a slot and subtype: low_back (m, 4), binary rule, words of the left child,
and the children's subtypes; top_back (m, 2), unary rule (-1 for none) and its child's subtype.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .coarse import span_at
from .fine import pair_weight
from .logs import add_logs, pair_log, unary_log

__all__ = [
    "Back", "best_rules", "best_subtypes", "best_top", "best_top_subtype", "unary_share",
    "write_tree",
]  # fmt: skip


class Back(NamedTuple):
    """Logs of the best low and top, and back pointers, see the module."""

    low: np.ndarray
    top: np.ndarray
    low_back: np.ndarray
    top_back: np.ndarray


@kernel
def unary_share(weights, above, low):
    """Posterior of a unary rule at a span."""
    total = 0.0
    for a in range(above.shape[0]):
        for b in range(low.shape[0]):
            total += above[a] * weights[a, b] * low[b]
    return total


@kernel
def log_share(low, out, in_logs):
    """Log of the posterior of a symbol, from its inside and outside values (H,)."""
    total, logs = 0.0, -np.inf
    for a in range(low.shape[0]):
        if in_logs:
            logs = add_logs(logs, low[a] + out[a])
        else:
            total += low[a] * out[a]
    return np.log(total) if total > 0.0 else logs


@kernel
def log_unary_share(weights, above, low, in_logs):
    """Log of the posterior of a unary rule at a span."""
    if in_logs:
        return unary_log(weights, above, low)
    share = unary_share(weights, above, low)
    return np.log(share) if share > 0.0 else -np.inf


@kernel
def log_pair_share(weights, out, left, right, in_logs):
    """Log of the posterior of a binary rule at a place, less what spans were divided by."""
    if in_logs:
        return pair_log(weights, out, left, right)
    share = pair_weight(weights, out, left, right)
    return np.log(share) if share > 0.0 else -np.inf


@kernel
def best_chains(index, tables, where, s, room, in_logs, back):
    """Tops of a span: with the best unary rule, or with none."""
    for at in range(where.ends[s], where.ends[s + 1]):
        back.top[at], back.top_back[at, 0], back.top_back[at, 1] = back.low[at], -1, 0
    for at in range(where.ends[s], where.ends[s + 1]):
        x = where.symbols[at]
        for k in range(index.down_ends[x], index.down_ends[x + 1]):
            above = where.slots[s, index.up[k]]
            if above >= 0 and back.low[at] > -np.inf:
                rule = index.chain[k]
                value = back.low[at] + log_unary_share(
                    tables.unary[rule], room.out_top[above], room.low[at], in_logs
                )
                if value > back.top[above]:
                    back.top[above], back.top_back[above, 0] = value, rule


@kernel
def best_rules(index, tables, words, where, room, in_logs, back):
    """The tree with the largest product of posteriors of its rules.

    in_logs : whether tables and room are logarithms
    """
    n = words.shape[0]
    back.low[: where.ends[span_at(n, n, 0) + 1]] = -np.inf
    for i in range(n):
        for k in range(index.word_ends[words[i]], index.word_ends[words[i] + 1]):
            at = where.slots[i, index.tag[k]]
            if at >= 0:
                back.low[at] = log_share(room.low[at], room.out_low[at], in_logs)
                back.low_back[at, 0], back.low_back[at, 1] = index.emit[k], 0
        best_chains(index, tables, where, i, room, in_logs, back)
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                factor = 0.0
                if not in_logs:
                    factor = room.scale[left] + room.scale[right] - room.scale[s]
                for at in range(where.ends[left], where.ends[left + 1]):
                    b = where.symbols[at]
                    if back.top[at] == -np.inf:
                        continue
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, own = where.slots[right, index.right[k]], where.slots[s, index.parent[k]]
                        if c < 0 or own < 0 or back.top[at] + back.top[c] <= back.low[own]:
                            continue
                        value = log_pair_share(
                            tables.binary[index.rule[k]], room.out_low[own], room.top[at],
                            room.top[c], in_logs,
                        )  # fmt: skip
                        value += back.top[at] + back.top[c] + factor
                        if value > back.low[own]:
                            back.low[own] = value
                            back.low_back[own, 0], back.low_back[own, 1] = index.rule[k], u
            best_chains(index, tables, where, s, room, in_logs, back)


@kernel
def best_top(index, n, where, room, in_logs, back):
    """Log of the best tree and the place of its symbol; -inf and -1 if there is none."""
    best, place, last = -np.inf, -1, span_at(n, n, 0)
    for r in range(index.tops.shape[0]):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            value = back.top[at] + log_share(room.top[at], room.out_top[at], in_logs)
            if value > best:
                best, place = value, r
    return best, place


@kernel
def best_top_subtype(index, logs, n, where, back):
    """As `best_top`, and the subtype."""
    best, place, subtype, last, H = -np.inf, -1, 0, span_at(n, n, 0), logs.emit.shape[1]
    for r in range(index.tops.shape[0]):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            for a in range(H):
                value = logs.root[r, a] + back.top[at * H + a]
                if value > best:
                    best, place, subtype = value, r, a
    return best, place, subtype


@kernel
def best_pairs(logs, left, right, H, back, own, rule, u):
    """Low of slot `own` by one binary rule and split, if it is better than what is known."""
    for a in range(H):
        for b in range(H):
            ours = back.top[left * H + b]
            if ours == -np.inf:
                continue
            for c in range(H):
                value = logs[a, b, c] + ours + back.top[right * H + c]
                if value > back.low[own * H + a]:
                    back.low[own * H + a] = value
                    pointer = back.low_back[own * H + a]
                    pointer[0], pointer[1], pointer[2], pointer[3] = rule, u, b, c


@kernel
def best_tops(index, logs, where, s, H, back):
    """Tops of a span with subtypes."""
    for at in range(where.ends[s] * H, where.ends[s + 1] * H):
        back.top[at], back.top_back[at, 0], back.top_back[at, 1] = back.low[at], -1, 0
    for at in range(where.ends[s], where.ends[s + 1]):
        x = where.symbols[at]
        for k in range(index.down_ends[x], index.down_ends[x + 1]):
            above, rule = where.slots[s, index.up[k]], index.chain[k]
            if above >= 0:
                for a in range(H):
                    for b in range(H):
                        value = logs.unary[rule, a, b] + back.low[at * H + b]
                        if value > back.top[above * H + a]:
                            back.top[above * H + a] = value
                            back.top_back[above * H + a, 0] = rule
                            back.top_back[above * H + a, 1] = b


@kernel
def best_subtypes(index, logs, words, where, back):
    """The most probable tree with its subtypes, in logarithms."""
    n, H = words.shape[0], logs.emit.shape[1]
    back.low[: where.ends[span_at(n, n, 0) + 1] * H] = -np.inf
    for i in range(n):
        for k in range(index.word_ends[words[i]], index.word_ends[words[i] + 1]):
            at, rule = where.slots[i, index.tag[k]], index.emit[k]
            if at >= 0:
                for a in range(H):
                    back.low[at * H + a] = logs.emit[rule, a]
                    back.low_back[at * H + a, 0] = rule
        best_tops(index, logs, where, i, H, back)
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                for at in range(where.ends[left], where.ends[left + 1]):
                    b = where.symbols[at]
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, own = where.slots[right, index.right[k]], where.slots[s, index.parent[k]]
                        if c >= 0 and own >= 0:
                            rule = index.rule[k]
                            best_pairs(logs.binary[rule], at, c, H, back, own, rule, u)
            best_tops(index, logs, where, s, H, back)


@kernel
def write_tree(binary, unary, n, H, place, slot, subtype, where, back, out):
    """Nodes (n, 6) of the tree below a top, see `skeletons.py`, by back pointers.

    binary (B, 3), unary (U, 2) : symbols of the listed rules; H : 1 if pointers have no subtypes
    """
    out[:, :] = -1
    todo = np.empty((n + 1, 5), dtype=np.int64)  # begin, words, slot, subtype, what waits for it
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3], todo[0, 4] = 0, n, slot, subtype, -1
    n_todo, node = 1, n - 1
    while n_todo > 0:
        n_todo -= 1
        i, w, at, a = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
        waits = todo[n_todo, 4]
        rule, s = back.top_back[at * H + a, 0], span_at(n, w, i)
        if rule >= 0:
            a = back.top_back[at * H + a, 1]
            at = where.slots[s, unary[rule, 1]]
        pointer, code = back.low_back[at * H + a], i
        if w == 1:
            out[i, 0], out[i, 1] = pointer[0], rule
        else:
            code, u = n + node - 1, pointer[1]
            out[node, 2], out[node, 3] = pointer[0], rule
            left, right = span_at(n, u, i), span_at(n, w - u, i + u)
            ours = where.slots[left, binary[pointer[0], 1]]
            theirs = where.slots[right, binary[pointer[0], 2]]
            for side in range(2):
                entry = todo[n_todo + side]
                entry[0], entry[1] = (i + u, w - u) if side == 0 else (i, u)
                entry[2] = theirs if side == 0 else ours
                entry[3] = pointer[3] if side == 0 else pointer[2]
                entry[4] = 2 * node + 1 - side
            n_todo += 2
            node -= 1
        if waits >= 0:
            out[waits // 2, 4 + waits % 2] = code
    out[0, 2] = place
