"""Charts over listed rules without subtypes: which symbols each span may have.

Span s = base(w) + i has the w words from i on, narrow spans first. A symbol of a span is `low` if
it emits the word or splits, and `top` if it is that or has one unary rule to a low one. Spans are
divided by their largest entry; scale is the log of what it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel

__all__ = [
    "CoarseRoom", "CoarseWeights", "RuleIndex", "inside_coarse", "make_coarse_room", "n_spans",
    "outside_coarse", "prune_spans", "span_at",
]  # fmt: skip


class RuleIndex(NamedTuple):
    """Listed rules by what they are looked up with; ends say where each begins.

    parent, right, rule (B,) : of binary rules by their left child, left_ends (S + 1,)
    up, chain (U,) : of unary rules by their child, down_ends (S + 1,)
    tag, emit (L,) : of rules that emit, by their word, word_ends (V + 1,)
    tops (R,) : symbols of whole sentences
    """

    parent: np.ndarray
    right: np.ndarray
    rule: np.ndarray
    left_ends: np.ndarray
    up: np.ndarray
    chain: np.ndarray
    down_ends: np.ndarray
    tag: np.ndarray
    emit: np.ndarray
    word_ends: np.ndarray
    tops: np.ndarray


class CoarseWeights(NamedTuple):
    """root (R,), binary (B,), unary (U,), emit (L,), in the order of `RuleIndex`."""

    root: np.ndarray
    binary: np.ndarray
    unary: np.ndarray
    emit: np.ndarray


class CoarseRoom(NamedTuple):
    """low, top, out_low, out_top (spans, S), scale (spans,); active (spans, S) lists the symbols
    with a top, n_active (spans,) of them.
    """

    low: np.ndarray
    top: np.ndarray
    out_low: np.ndarray
    out_top: np.ndarray
    scale: np.ndarray
    active: np.ndarray
    n_active: np.ndarray


@kernel
def n_spans(n):
    """Spans of n words."""
    return n * (n + 1) // 2


@kernel
def span_at(n, w, i):
    """Position of the span of the w words from i on."""
    return (w - 1) * n - (w - 1) * (w - 2) // 2 + i


@kernel
def make_coarse_room(n, S):
    """Room for n words and S symbols."""
    m = n_spans(n)
    return CoarseRoom(
        np.empty((m, S)), np.empty((m, S)), np.empty((m, S)), np.empty((m, S)), np.empty(m),
        np.empty((m, S), dtype=np.int32), np.zeros(m, dtype=np.int64),
    )  # fmt: skip


@kernel
def finish_coarse(index, weights, s, offset, room):
    """Unary rules, scale and list of active symbols of a span."""
    low, top, S, largest, n = room.low[s], room.top[s], room.low.shape[1], 0.0, 0
    for x in range(S):
        top[x] = low[x]
    for x in range(S):
        if low[x] > 0.0:
            for k in range(index.down_ends[x], index.down_ends[x + 1]):
                top[index.up[k]] += weights.unary[k] * low[x]
    for x in range(S):
        largest = max(largest, top[x])
    room.scale[s] = offset + np.log(largest) if largest > 0.0 else -np.inf
    for x in range(S):
        if top[x] > 0.0:
            low[x] /= largest
            top[x] /= largest
            room.active[s, n] = x
            n += 1
    room.n_active[s] = n


@kernel
def largest_split(n, w, i, scale):
    """Log of the largest factor of the splits of a span; -inf if none is possible."""
    found = -np.inf
    for u in range(1, w):
        found = max(found, scale[span_at(n, u, i)] + scale[span_at(n, w - u, i + u)])
    return found


@kernel
def inside_coarse(index, weights, words, room):
    """Fill low, top, scale and active; returns log Z, -inf if no rules cover the words (n,)."""
    n, S = words.shape[0], room.low.shape[1]
    for i in range(n):
        room.low[i, :] = 0.0
        for k in range(index.word_ends[words[i]], index.word_ends[words[i] + 1]):
            room.low[i, index.tag[k]] = weights.emit[k]
        finish_coarse(index, weights, i, 0.0, room)
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            low, offset = room.low[s], largest_split(n, w, i, room.scale)
            for x in range(S):
                low[x] = 0.0
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                factor = np.exp(room.scale[left] + room.scale[right] - offset)
                if not factor > 0.0:
                    continue
                ours = room.top[right]
                for at in range(room.n_active[left]):
                    b = room.active[left, at]
                    x = factor * room.top[left, b]
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        low[index.parent[k]] += x * weights.binary[k] * ours[index.right[k]]
            finish_coarse(index, weights, s, offset, room)
    total, last = 0.0, span_at(n, n, 0)
    for r in range(index.tops.shape[0]):
        total += weights.root[r] * room.top[last, index.tops[r]]
    return np.log(total) + room.scale[last] if total > 0.0 else -np.inf


@kernel
def outside_coarse(index, weights, n, log_z, room):
    """Fill out_low and out_top, the derivatives of log Z."""
    S, last = room.low.shape[1], span_at(n, n, 0)
    room.out_top[: last + 1] = 0.0
    share = np.exp(room.scale[last] - log_z)
    for r in range(index.tops.shape[0]):
        room.out_top[last, index.tops[r]] += weights.root[r] * share
    for w in range(n, 0, -1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            out, above, low = room.out_low[s], room.out_top[s], room.low[s]
            for x in range(S):
                out[x] = above[x] if low[x] > 0.0 else 0.0
            for x in range(S):
                if low[x] > 0.0:
                    for k in range(index.down_ends[x], index.down_ends[x + 1]):
                        out[x] += weights.unary[k] * above[index.up[k]]
            if room.scale[s] == -np.inf:
                continue
            for u in range(1, w):
                left, right = span_at(n, u, i), span_at(n, w - u, i + u)
                factor = np.exp(room.scale[left] + room.scale[right] - room.scale[s])
                if not factor > 0.0:
                    continue
                ours, theirs = room.top[right], room.out_top[right]
                for at in range(room.n_active[left]):
                    b = room.active[left, at]
                    x, total = factor * room.top[left, b], 0.0
                    for k in range(index.left_ends[b], index.left_ends[b + 1]):
                        c, value = index.right[k], weights.binary[k] * out[index.parent[k]]
                        total += value * ours[c]
                        theirs[c] += x * value
                    room.out_top[left, b] += factor * total


@kernel
def prune_spans(n, prune, room, slots, ends, symbols):
    """Number the symbols of spans with a posterior above `prune`.

    slots (spans, S) : = their numbers, -1 for others; ends (spans + 1,), symbols (m,) : = which
    each span has. Returns how many there are; beyond the length of symbols none is kept.
    """
    found, S = 0, room.low.shape[1]
    for s in range(n_spans(n)):
        ends[s] = found
        for x in range(S):
            share = max(room.low[s, x] * room.out_low[s, x], room.top[s, x] * room.out_top[s, x])
            slots[s, x] = -1
            if share > prune:
                if found < symbols.shape[0]:
                    slots[s, x], symbols[found] = found, x
                found += 1
    ends[n_spans(n)] = found
    return found
