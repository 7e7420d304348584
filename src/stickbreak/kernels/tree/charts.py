"""Inside and outside sums of a grammar with dense rules, one sentence at a time.

Span s = base(w) + i has the w words from i on; narrow spans come first, so the words themselves are
the first n. Charts: inside (spans, K), joint (spans, K K) the sum over splits of the products of
both children, and outside (spans, K), the derivative of log Z. Every span has a scale of its own,
the log of what its largest entry was, so that entries stay near one.

    joint[s, b, c] = sum over splits inside[left, b] inside[right, c],  inside[s] = rule @ joint[s]

The sum over splits comes before the rules: n^3 K^2 + n^2 K^3 in place of n^3 K^3. Expected counts
of rules are rule * gather, gather[a, b c] = sum over spans of outside[a] joint[b c].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel

__all__ = [
    "Grammar", "Room", "crosses", "fill", "infer_sentence", "inside_sums", "make_room", "n_spans",
    "outside_sums", "span_at",
]  # fmt: skip

LEAST = 1e-100  # of a span before it is scaled; below, or where nothing is left, see `logs.py`


class Grammar(NamedTuple):
    """Weights: root (K,), rule (K, K K) and its transpose, both times that of splitting.

    is_lossy : whether some weight is zero only because it underflowed
    """

    root: np.ndarray
    rule: np.ndarray
    turned: np.ndarray
    is_lossy: bool


class Room(NamedTuple):
    """Charts: see the module. message, turned (K, K) : what a span tells its children."""

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
        np.empty((m, K)), np.empty((m, K)), np.empty((m, K * K)), np.empty(m), np.empty((K, K)),
        np.empty((K, K)),
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
def inside_sums(grammar, evidence, brackets, lo, hi, n, room):
    """Fill inside, joint and scale from evidence (n, K), whose largest entry of a row is one.

    Returns log Z, or NaN where weights may have been lost.
    """
    inside, scale, turned, K = room.inside, room.scale, grammar.turned, evidence.shape[1]
    for i in range(n):
        scale[i] = 0.0
        for k in range(K):
            inside[i, k] = evidence[i, k]
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            joint, row = room.joint[s], inside[s]
            fill(row, 0.0)
            scale[s] = -np.inf
            if crosses(brackets, lo, hi, i, w):
                fill(joint, 0.0)
                continue
            top, largest = join_splits(n, w, i, room, joint), 0.0
            for p in range(K * K):
                x, line = joint[p], turned[p]
                if x > 0.0:
                    for k in range(K):
                        row[k] += x * line[k]
            for k in range(K):
                largest = max(largest, row[k])
            if largest < LEAST:
                if largest > 0.0 or grammar.is_lossy:
                    return np.nan
                continue
            scale[s] = top + np.log(largest)
            for k in range(K):
                row[k] /= largest
            for p in range(K * K):
                joint[p] /= largest
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
    s = span_at(n, w, i)
    for u in range(1, w):
        left, right = span_at(n, u, i), span_at(n, w - u, i + u)
        factor = np.exp(scale[left] + scale[right] - scale[s])
        if factor > 0.0:
            ours, theirs = outside[left], outside[right]
            for b in range(K):
                x, y = factor * inside[left, b], factor * inside[right, b]
                line, turned = room.message[b], room.turned[b]
                for c in range(K):
                    theirs[c] += x * line[c]
                    ours[c] += y * turned[c]


@kernel
def outside_sums(grammar, n, times, log_z, room, out_gather):
    """Fill outside, and out_gather (K, K K) += times * the sums of outside and joint."""
    outside, rule, K = room.outside, grammar.rule, room.inside.shape[1]
    last = span_at(n, n, 0)
    fill(outside.reshape(-1), 0.0)
    share = np.exp(room.scale[last] - log_z)
    for k in range(K):
        outside[last, k] = grammar.root[k] * share
    for w in range(n, 1, -1):
        for i in range(n - w + 1):
            s = span_at(n, w, i)
            if room.scale[s] == -np.inf:
                continue
            message, joint, is_used = room.message.reshape(-1), room.joint[s], False
            fill(message, 0.0)
            for a in range(K):
                x = outside[s, a]
                if x > 0.0:
                    is_used, line, y, out = True, rule[a], times * x, out_gather[a]
                    for p in range(K * K):
                        message[p] += x * line[p]
                        out[p] += y * joint[p]
            if is_used:
                for b in range(K):
                    for c in range(K):
                        room.turned[c, b] = room.message[b, c]
                tell_children(n, w, i, room)


@kernel
def infer_sentence(grammar, evidence, brackets, lo, hi, n, times, room, out_gather):
    """Inside and outside of one sentence; returns log Z, or NaN where weights may be lost."""
    log_z = inside_sums(grammar, evidence, brackets, lo, hi, n, room)
    if not np.isnan(log_z):
        outside_sums(grammar, n, times, log_z, room, out_gather)
    return log_z
