"""Charts over listed rules with subtypes, for the symbols that a chart without them has left.

A slot is one of these: a symbol of a span. slots (spans, S) has its number or -1; the slots of span
s are ends[s] to ends[s + 1], and symbols tells which they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .coarse import largest_split, span_at

__all__ = ["FineRoom", "Slots", "inside_fine", "outside_fine", "pair_weight", "sum_rule"]


class Slots(NamedTuple):
    """Which symbols spans have, see the module."""

    slots: np.ndarray
    ends: np.ndarray
    symbols: np.ndarray


class FineRoom(NamedTuple):
    """low, top, out_low, out_top (slots, H), scale (spans,)."""

    low: np.ndarray
    top: np.ndarray
    out_low: np.ndarray
    out_top: np.ndarray
    scale: np.ndarray


@kernel
def sum_rule(weights, left, right, x, out):
    """Out (H,) += x * weights (H, H, H) times left and right."""
    H = out.shape[0]
    for a in range(H):
        for b in range(H):
            value, y = 0.0, x * left[b]
            if y > 0.0:
                for c in range(H):
                    value += weights[a, b, c] * right[c]
                out[a] += y * value


@kernel
def finish_fine(index, tables, where, s, offset, room):
    """Unary rules and scale of a span."""
    H, largest = room.low.shape[1], 0.0
    for at in range(where.ends[s], where.ends[s + 1]):
        for a in range(H):
            room.top[at, a] = room.low[at, a]
    for at in range(where.ends[s], where.ends[s + 1]):
        x = where.symbols[at]
        for k in range(index.down_ends[x], index.down_ends[x + 1]):
            above = where.slots[s, index.up[k]]
            if above >= 0:
                weights = tables.unary[index.chain[k]]
                for a in range(H):
                    for b in range(H):
                        room.top[above, a] += weights[a, b] * room.low[at, b]
    for at in range(where.ends[s], where.ends[s + 1]):
        for a in range(H):
            largest = max(largest, room.top[at, a])
    room.scale[s] = offset + np.log(largest) if largest > 0.0 else -np.inf
    if largest > 0.0:
        for at in range(where.ends[s], where.ends[s + 1]):
            for a in range(H):
                room.low[at, a] /= largest
                room.top[at, a] /= largest


@kernel
def inside_fine(index, tables, words, where, room):
    """Fill low, top and scale; returns log Z, -inf if nothing is left."""
    n, H = words.shape[0], room.low.shape[1]
    room.low[: where.ends[span_at(n, n, 0) + 1]] = 0.0
    for i in range(n):
        for k in range(index.word_ends[words[i]], index.word_ends[words[i] + 1]):
            at = where.slots[i, index.tag[k]]
            if at >= 0:
                for a in range(H):
                    room.low[at, a] = tables.emit[index.emit[k], a]
        finish_fine(index, tables, where, i, 0.0, room)
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            offset = largest_split(n, w, i, room.scale)
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                factor = np.exp(room.scale[left] + room.scale[right] - offset)
                if where.ends[s] == where.ends[s + 1] or not factor > 0.0:
                    continue
                for at in range(where.ends[left], where.ends[left + 1]):
                    b = where.symbols[at]
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, own = where.slots[right, index.right[k]], where.slots[s, index.parent[k]]
                        if c >= 0 and own >= 0:
                            sum_rule(
                                tables.binary[index.rule[k]], room.top[at], room.top[c], factor,
                                room.low[own],
                            )  # fmt: skip
            finish_fine(index, tables, where, s, offset, room)
    total, last = 0.0, span_at(n, n, 0)
    for r in range(index.tops.shape[0]):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            for a in range(H):
                total += tables.root[r, a] * room.top[at, a]
    return np.log(total) + room.scale[last] if total > 0.0 else -np.inf


@kernel
def tell_children(weights, out, left, right, factor, out_left, out_right):
    """Outside of both children += factor * what a binary rule tells them."""
    H = out.shape[0]
    for a in range(H):
        x = factor * out[a]
        if x > 0.0:
            for b in range(H):
                y, value = x * left[b], 0.0
                for c in range(H):
                    value += weights[a, b, c] * right[c]
                    out_right[c] += y * weights[a, b, c]
                out_left[b] += x * value


@kernel
def open_fine(index, tables, where, s, room):
    """Out_low of a span from its out_top."""
    H = room.low.shape[1]
    for at in range(where.ends[s], where.ends[s + 1]):
        x = where.symbols[at]
        for a in range(H):
            room.out_low[at, a] = room.out_top[at, a]
        for k in range(index.down_ends[x], index.down_ends[x + 1]):
            above = where.slots[s, index.up[k]]
            if above >= 0:
                weights = tables.unary[index.chain[k]]
                for a in range(H):
                    for b in range(H):
                        room.out_low[at, b] += room.out_top[above, a] * weights[a, b]


@kernel
def outside_fine(index, tables, n, log_z, where, room):
    """Fill out_low and out_top, the derivatives of log Z."""
    H, last = room.low.shape[1], span_at(n, n, 0)
    room.out_top[: where.ends[last + 1]] = 0.0
    share = np.exp(room.scale[last] - log_z)
    for r in range(index.tops.shape[0]):
        at = where.slots[last, index.tops[r]]
        if at >= 0:
            for a in range(H):
                room.out_top[at, a] += tables.root[r, a] * share
    for w in range(n, 0, -1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            open_fine(index, tables, where, s, room)
            if room.scale[s] == -np.inf:
                continue
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                factor = np.exp(room.scale[left] + room.scale[right] - room.scale[s])
                if not factor > 0.0:
                    continue
                for at in range(where.ends[left], where.ends[left + 1]):
                    b = where.symbols[at]
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, own = where.slots[right, index.right[k]], where.slots[s, index.parent[k]]
                        if c >= 0 and own >= 0:
                            tell_children(
                                tables.binary[index.rule[k]], room.out_low[own], room.top[at],
                                room.top[c], factor, room.out_top[at], room.out_top[c],
                            )  # fmt: skip


@kernel
def pair_weight(weights, out, left, right):
    """Sum of out (H,), weights (H, H, H), left and right: the posterior of a rule at a place."""
    total, H = 0.0, out.shape[0]
    for a in range(H):
        if out[a] > 0.0:
            for b in range(H):
                value = 0.0
                for c in range(H):
                    value += weights[a, b, c] * right[c]
                total += out[a] * left[b] * value
    return total
