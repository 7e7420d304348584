"""Inside and outside sums of a grammar with dense rules, one sentence at a time.

Span s = base(w) + i has the w words from i on; narrow spans come first, so the words themselves are
the first n. Charts: inside (spans, K), joint (spans, K K) the sum over splits of the products of
both children, and outside (spans, K), the derivative of log Z. Every span has a scale of its own,
the log of what its largest entry was, so that entries stay near one.

    joint[s, b, c] = sum over splits inside[left, b] inside[right, c],  inside[s] = rule @ joint[s]

The sum over splits comes before the rules: n^3 K^2 + n^2 K^3 in place of n^3 K^3, and the rules
follow for all spans of a width together (`products.py`). Expected counts of rules are
rule * gather, gather[a, b c] = sum over spans of outside[a] joint[b c].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .products import add_gather, sum_messages, sum_rules

__all__ = [
    "Grammar", "Room", "crosses", "fill", "infer_sentence", "inside_sums", "make_room", "n_spans",
    "outside_sums", "span_at",
]  # fmt: skip

LEAST = 1e-100  # of a span before it is scaled; below, or where nothing is left, see `logs.py`


class Grammar(NamedTuple):
    """Weights: root (K,), rule (K, K K) times that of splitting.

    is_lossy : whether some weight is zero only because it underflowed
    """

    root: np.ndarray
    rule: np.ndarray
    is_lossy: bool


class Room(NamedTuple):
    """Charts: see the module. message (n, K K) : what the spans of a width tell their children;
    turned (K, K) : one of these, transposed.
    """

    inside: np.ndarray
    outside: np.ndarray
    joint: np.ndarray
    scale: np.ndarray
    message: np.ndarray
    turned: np.ndarray


@kernel
def fill(values, value):
    """All values (m,) = value."""
    for i in range(values.shape[0]):
        values[i] = value


@kernel
def n_spans(n):
    """Spans of n words."""
    return n * (n + 1) // 2


@kernel
def span_at(n, w, i):
    """Position of the span of the w words from i on."""
    return (w - 1) * n - (w - 1) * (w - 2) // 2 + i


@kernel
def make_room(n, K):
    """Room for n words and K categories."""
    m = n_spans(n)
    return Room(
        np.empty((m, K)), np.empty((m, K)), np.empty((m, K * K)), np.empty(m),
        np.empty((n, K * K)), np.empty((K, K)),
    )  # fmt: skip


@kernel
def crosses(brackets, lo, hi, i, w):
    """Whether the span of the w words from i on crosses one of the brackets lo to hi."""
    for b in range(lo, hi):
        begin, end = brackets[b, 0], brackets[b, 1]
        if begin < i < end < i + w or i < begin < i + w < end:
            return True
    return False


@kernel
def join_splits(n, w, i, room, joint):
    """Joint (K K,) = sum over splits; returns the log of the largest factor, -inf if none."""
    inside, scale, K = room.inside, room.scale, room.inside.shape[1]
    top = -np.inf
    for u in range(1, w):
        top = max(top, scale[span_at(n, u, i)] + scale[span_at(n, w - u, i + u)])
    fill(joint, 0.0)
    if top == -np.inf:
        return top
    for u in range(1, w):
        left, right = span_at(n, u, i), span_at(n, w - u, i + u)
        factor = np.exp(scale[left] + scale[right] - top)
        if factor > 0.0:
            ours = inside[right]
            for b in range(K):
                x, line = factor * inside[left, b], joint[b * K : b * K + K]
                if x > 0.0:
                    for c in range(K):
                        line[c] += x * ours[c]
    return top


@kernel
def scale_spans(first, m, is_lossy, room):
    """Divide spans by their largest entries; False where weights may have been lost.

    Scales are those of the factors: -inf if there are none, inf for spans that may not be.
    """
    inside, joint, scale = room.inside, room.joint, room.scale
    for s in range(first, first + m):
        top, largest = scale[s], 0.0
        scale[s] = -np.inf
        for k in range(inside.shape[1]):
            largest = max(largest, inside[s, k])
        if top == np.inf:
            continue
        if largest < LEAST:
            if largest > 0.0 or is_lossy:
                return False
            continue
        scale[s] = top + np.log(largest)
        for k in range(inside.shape[1]):
            inside[s, k] /= largest
        for p in range(joint.shape[1]):
            joint[s, p] /= largest
    return True


@kernel
def inside_sums(grammar, evidence, brackets, lo, hi, n, room):
    """Fill inside, joint and scale from evidence (n, K), whose largest entry of a row is one.

    Returns log Z, or NaN where weights may have been lost.
    """
    inside, scale, K = room.inside, room.scale, evidence.shape[1]
    for i in range(n):
        scale[i] = 0.0
        for k in range(K):
            inside[i, k] = evidence[i, k]
    for w in range(2, n + 1):
        first, m = span_at(n, w, 0), n - w + 1
        for i in range(m):
            if crosses(brackets, lo, hi, i, w):
                fill(room.joint[first + i], 0.0)
                scale[first + i] = np.inf
            else:
                scale[first + i] = join_splits(n, w, i, room, room.joint[first + i])
        sum_rules(grammar.rule, room.joint, first, m, inside)
        if not scale_spans(first, m, grammar.is_lossy, room):
            return np.nan
    total, last = 0.0, span_at(n, n, 0)
    for k in range(K):
        total += grammar.root[k] * inside[last, k]
    if total < LEAST:
        return np.nan
    return np.log(total) + scale[last]


@kernel
def tell_children(n, w, i, room):
    """Outside of all children of a span += its message."""
    inside, outside, scale, K = room.inside, room.outside, room.scale, room.inside.shape[1]
    s, message = span_at(n, w, i), room.message[i]
    for b in range(K):
        for c in range(K):
            room.turned[c, b] = message[b * K + c]
    for u in range(1, w):
        left, right = span_at(n, u, i), span_at(n, w - u, i + u)
        factor = np.exp(scale[left] + scale[right] - scale[s])
        if factor > 0.0:
            ours, theirs = outside[left], outside[right]
            for b in range(K):
                x, y = factor * inside[left, b], factor * inside[right, b]
                line, turned = message[b * K : b * K + K], room.turned[b]
                for c in range(K):
                    theirs[c] += x * line[c]
                    ours[c] += y * turned[c]


@kernel
def outside_sums(grammar, n, times, log_z, room, out_gather):
    """Fill outside, and out_gather (K, K K) += times * the sums of outside and joint."""
    outside, K = room.outside, room.inside.shape[1]
    last = span_at(n, n, 0)
    fill(outside.reshape(-1), 0.0)
    share = np.exp(room.scale[last] - log_z)
    for k in range(K):
        outside[last, k] = grammar.root[k] * share
    for w in range(n, 1, -1):
        first, m = span_at(n, w, 0), n - w + 1
        sum_messages(grammar.rule, outside, first, m, room.message)
        add_gather(outside, room.joint, first, m, times, out_gather)
        for i in range(m):
            is_used = False
            for a in range(K):
                is_used = is_used or outside[first + i, a] > 0.0
            if is_used and room.scale[first + i] > -np.inf:
                tell_children(n, w, i, room)


@kernel
def infer_sentence(grammar, evidence, brackets, lo, hi, n, times, room, out_gather):
    """Inside and outside of one sentence; returns log Z, or NaN where weights may be lost."""
    log_z = inside_sums(grammar, evidence, brackets, lo, hi, n, room)
    if not np.isnan(log_z):
        outside_sums(grammar, n, times, log_z, room, out_gather)
    return log_z
