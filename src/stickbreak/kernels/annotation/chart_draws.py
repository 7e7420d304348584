"""Trees with subtypes drawn from charts over listed rules, from the top down."""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from .coarse import span_at
from .draws import choose_log

__all__ = ["draw_chart"]


@kernel
def log_of(value, in_logs):
    """The logarithm of what tables and rooms hold, logarithms if in_logs."""
    if in_logs:
        return value
    return np.log(value) if value > 0.0 else -np.inf


@kernel
def draw_chain(index, tables, where, s, room, in_logs, want, goals, codes, u, back):
    """What is below a wanted top, slot * H + subtype: its code, with no unary rule or with one."""
    H, m = room.low.shape[1], 1
    slot, a = want // H, want % H
    goals[0], codes[0, 0], codes[0, 1] = log_of(room.low[slot, a], in_logs), want, -1
    x = where.symbols[slot]
    for at in range(where.ends[s], where.ends[s + 1]):
        y = where.symbols[at]
        for k in range(index.down_ends[y], index.down_ends[y + 1]):
            if index.up[k] != x:
                continue
            for b in range(H):
                weight = log_of(tables.unary[index.chain[k], a, b], in_logs)
                goals[m] = weight + log_of(room.low[at, b], in_logs)
                codes[m, 0], codes[m, 1] = at * H + b, index.chain[k]
                m += 1
    found = choose_log(goals[:m], u)
    back.top_back[want, 0], back.top_back[want, 1] = codes[found, 1], codes[found, 0] % H
    return codes[found, 0]


@kernel
def draw_split(index, tables, n, w, i, where, room, in_logs, low, u, chosen):
    """Chosen (6,) = rule and words of the left child of a low, slot * H + subtype, and slot and
    subtype of both children.
    """
    H, s = room.low.shape[1], span_at(n, w, i)
    a, x = low % H, where.symbols[low // H]
    total, reached = log_of(room.low[low // H, a], in_logs), 0.0
    for words in range(1, w):
        left, right = span_at(n, words, i), span_at(n, w - words, i + words)
        factor = 0.0 if in_logs else room.scale[left] + room.scale[right] - room.scale[s]
        for at in range(where.ends[left], where.ends[left + 1]):
            y = where.symbols[at]
            for k in range(index.left_ends[y], index.left_ends[y + 1]):
                other = where.slots[right, index.right[k]]
                if index.parent[k] != x or other < 0:
                    continue
                for b in range(H):
                    for c in range(H):
                        value = factor + log_of(tables.binary[index.rule[k], a, b, c], in_logs)
                        value += log_of(room.top[at, b], in_logs)
                        value += log_of(room.top[other, c], in_logs)
                        share = np.exp(value - total)
                        reached += share
                        if share > 0.0:  # the last of these if rounding leaves none beyond u
                            chosen[0], chosen[1], chosen[2] = index.rule[k], words, at
                            chosen[3], chosen[4], chosen[5] = b, other, c
                        if reached > u:
                            return


@kernel
def draw_top(index, tables, n, where, room, in_logs, u):
    """Place of the symbol of the whole sentence, and its slot * H + subtype."""
    H, last, m = room.low.shape[1], span_at(n, n, 0), index.tops.shape[0]
    goals = np.full(m * H, -np.inf)
    for r in range(m):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            for a in range(H):
                value = log_of(tables.root[r, a], in_logs)
                goals[r * H + a] = value + log_of(room.top[at, a], in_logs)
    found = choose_log(goals, u)
    return found // H, where.slots[last, index.tops[found // H]] * H + found % H


@kernel
def draw_chart(index, tables, words, where, room, in_logs, uniforms, back):
    """Back pointers of a drawn tree, as those of `best_subtypes`, from a chart with a sum.

    tables, room : weights and sums, or logarithms if in_logs; uniforms (3 n,)
    Returns the place of the top symbol, its slot and its subtype.
    """
    n, H, at = words.shape[0], room.low.shape[1], 1
    wanted = np.full(n * (n + 1) // 2, -1, dtype=np.int64)
    size = 1 + index.up.shape[0] * H
    goals, codes, chosen = (
        np.empty(size),
        np.empty((size, 2), dtype=np.int64),
        np.empty(6, np.int64),
    )
    place, top = draw_top(index, tables, n, where, room, in_logs, uniforms[0])
    wanted[span_at(n, n, 0)] = top
    for w in range(n, 0, -1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            if wanted[s] < 0:
                continue
            low = draw_chain(
                index, tables, where, s, room, in_logs, wanted[s], goals, codes, uniforms[at], back
            )
            at += 1
            if w == 1:
                x = where.symbols[low // H]
                for k in range(index.word_ends[words[i]], index.word_ends[words[i] + 1]):
                    if index.tag[k] == x:
                        back.low_back[low, 0] = index.emit[k]
                continue
            u, pointer = uniforms[at], back.low_back[low]
            at += 1
            draw_split(index, tables, n, w, i, where, room, in_logs, low, u, chosen)
            pointer[0], pointer[1] = chosen[0], chosen[1]
            pointer[2], pointer[3] = chosen[3], chosen[5]
            wanted[span_at(n, chosen[1], i)] = chosen[2] * H + chosen[3]
            wanted[span_at(n, w - chosen[1], i + chosen[1])] = chosen[4] * H + chosen[5]
    return place, top // H, top % H
