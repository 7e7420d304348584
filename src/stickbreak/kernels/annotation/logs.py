"""Charts over listed rules in logarithms, for sentences whose sums are lost otherwise.

Rooms and slots are those of `fine.py`, all values logarithms; without subtypes H is one.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from .coarse import n_spans, span_at
from .skeletons import add_logs

__all__ = [
    "add_logs", "inside_chart", "number_all", "outside_chart", "pair_log", "prune_chart",
    "share_chart", "unary_log",
]  # fmt: skip


@kernel
def is_dead(values):
    """Whether all values (H,) are -inf."""
    most = -np.inf
    for a in range(values.shape[0]):
        most = max(most, values[a])
    return most == -np.inf


@kernel
def unary_log(weights, above, low):
    """Log of the sum of above (H,), weights (H, H) and low."""
    total = -np.inf
    for a in range(above.shape[0]):
        for b in range(low.shape[0]):
            total = add_logs(total, above[a] + weights[a, b] + low[b])
    return total


@kernel
def pair_log(weights, out, left, right):
    """Log of the sum of out (H,), weights (H, H, H), left and right."""
    total, H = -np.inf, out.shape[0]
    for a in range(H):
        for b in range(H):
            for c in range(H):
                total = add_logs(total, out[a] + weights[a, b, c] + left[b] + right[c])
    return total


@kernel
def add_pairs(weights, left, right, out):
    """Out (H,) += weights (H, H, H) times left and right."""
    H = out.shape[0]
    for a in range(H):
        for b in range(H):
            for c in range(H):
                out[a] = add_logs(out[a], weights[a, b, c] + left[b] + right[c])


@kernel
def close_span(index, logs, where, s, room):
    """Unary rules of a span."""
    H = room.low.shape[1]
    for at in range(where.ends[s], where.ends[s + 1]):
        for a in range(H):
            room.top[at, a] = room.low[at, a]
    for at in range(where.ends[s], where.ends[s + 1]):
        x = where.symbols[at]
        for k in range(index.down_ends[x], index.down_ends[x + 1]):
            above = where.slots[s, index.up[k]]
            if above >= 0:
                weights = logs.unary[index.chain[k]]
                for a in range(H):
                    for b in range(H):
                        value = weights[a, b] + room.low[at, b]
                        room.top[above, a] = add_logs(room.top[above, a], value)


@kernel
def inside_chart(index, logs, words, where, room):
    """Fill low and top; returns log Z, -inf if no rules cover the words (n,)."""
    n, H, total = words.shape[0], room.low.shape[1], -np.inf
    last = span_at(n, n, 0)
    room.low[: where.ends[last + 1]] = -np.inf
    for i in range(n):
        for k in range(index.word_ends[words[i]], index.word_ends[words[i] + 1]):
            at = where.slots[i, index.tag[k]]
            if at >= 0:
                for a in range(H):
                    room.low[at, a] = logs.emit[index.emit[k], a]
        close_span(index, logs, where, i, room)
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                for at in range(where.ends[left], where.ends[left + 1]):
                    if is_dead(room.top[at]):
                        continue
                    b = where.symbols[at]
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, own = where.slots[right, index.right[k]], where.slots[s, index.parent[k]]
                        if c >= 0 and own >= 0 and not is_dead(room.top[c]):
                            weights = logs.binary[index.rule[k]]
                            add_pairs(weights, room.top[at], room.top[c], room.low[own])
            close_span(index, logs, where, s, room)
    for r in range(index.tops.shape[0]):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            for a in range(H):
                total = add_logs(total, logs.root[r, a] + room.top[at, a])
    return total


@kernel
def tell_pairs(weights, out, left, right, out_left, out_right):
    """Outside of both children += what a binary rule tells them."""
    H = out.shape[0]
    for a in range(H):
        for b in range(H):
            for c in range(H):
                value = weights[a, b, c] + out[a]
                out_left[b] = add_logs(out_left[b], value + right[c])
                out_right[c] = add_logs(out_right[c], value + left[b])


@kernel
def open_span(index, logs, where, s, room):
    """Out_low of a span from its out_top."""
    H = room.low.shape[1]
    for at in range(where.ends[s], where.ends[s + 1]):
        x = where.symbols[at]
        for a in range(H):
            room.out_low[at, a] = room.out_top[at, a]
        for k in range(index.down_ends[x], index.down_ends[x + 1]):
            above = where.slots[s, index.up[k]]
            if above >= 0:
                weights = logs.unary[index.chain[k]]
                for a in range(H):
                    for b in range(H):
                        value = room.out_top[above, a] + weights[a, b]
                        room.out_low[at, b] = add_logs(room.out_low[at, b], value)


@kernel
def outside_chart(index, logs, n, log_z, where, room):
    """Fill out_low and out_top, logs of the derivatives of log Z."""
    H, last = room.low.shape[1], span_at(n, n, 0)
    room.out_top[: where.ends[last + 1]] = -np.inf
    for r in range(index.tops.shape[0]):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            for a in range(H):
                room.out_top[at, a] = add_logs(room.out_top[at, a], logs.root[r, a] - log_z)
    for w in range(n, 0, -1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            open_span(index, logs, where, s, room)
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                for at in range(where.ends[left], where.ends[left + 1]):
                    if is_dead(room.top[at]):
                        continue
                    b = where.symbols[at]
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, own = where.slots[right, index.right[k]], where.slots[s, index.parent[k]]
                        if c >= 0 and own >= 0 and not is_dead(room.out_low[own]):
                            tell_pairs(
                                logs.binary[index.rule[k]], room.out_low[own], room.top[at],
                                room.top[c], room.out_top[at], room.out_top[c],
                            )  # fmt: skip


@kernel
def share_chart(index, logs, n, where, room, shares):
    """Shares (m,) += posterior that a tree has a node with the symbol of a slot at its span."""
    H = room.low.shape[1]
    for s in range(n_spans(n)):
        for at in range(where.ends[s], where.ends[s + 1]):
            for a in range(H):
                shares[at] += np.exp(room.low[at, a] + room.out_low[at, a])
            x = where.symbols[at]
            for k in range(index.down_ends[x], index.down_ends[x + 1]):
                above = where.slots[s, index.up[k]]
                if above >= 0:
                    weights = logs.unary[index.chain[k]]
                    shares[above] += np.exp(unary_log(weights, room.out_top[above], room.low[at]))


@kernel
def number_all(n, S, where):
    """Slots of all symbols of all spans."""
    for s in range(n_spans(n)):
        where.ends[s] = s * S
        for x in range(S):
            where.slots[s, x], where.symbols[s * S + x] = s * S + x, x
    where.ends[n_spans(n)] = n_spans(n) * S


@kernel
def prune_chart(n, S, prune, room, where):
    """Number the symbols of spans with a posterior above `prune`, from a chart of all of them."""
    found = 0
    for s in range(n_spans(n)):
        where.ends[s] = found
        for x in range(S):
            at = s * S + x
            low, top = room.low[at, 0], room.top[at, 0]
            where.slots[s, x] = -1
            if max(np.exp(low + room.out_low[at, 0]), np.exp(top + room.out_top[at, 0])) > prune:
                where.slots[s, x], where.symbols[found] = found, x
                found += 1
    where.ends[n_spans(n)] = found
    return found
