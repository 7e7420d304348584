"""Products of rules with all spans of one width: eight pairs of children at a time, in registers.

rule (K, K K), and charts of which m rows from `first` on are the spans. Rules are read once for
some spans, and spans once for some categories, instead of each for each.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..vectors import EIGHT, fill, fma, load, spread, spread_sum, store

__all__ = ["add_gather", "sum_messages", "sum_rules"]

BLOCK = 4  # categories, or spans, whose sums are in registers together


@kernel
def sum_two(rule, a, joint, i, n_full, out):
    """Out (8,) = sums over pairs of rule[a + r] joint[i], and then rule[a + r] joint[i + 1]."""
    n, x, y = rule.shape[1], i * rule.shape[1], (i + 1) * rule.shape[1]
    at = a * n
    a0, a1, a2, a3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    b0, b1, b2, b3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    for p in range(0, n_full, EIGHT):
        u, v = load(joint, x + p), load(joint, y + p)
        r0, r1 = load(rule, at + p), load(rule, at + n + p)
        r2, r3 = load(rule, at + 2 * n + p), load(rule, at + 3 * n + p)
        a0, a1, a2, a3 = fma(r0, u, a0), fma(r1, u, a1), fma(r2, u, a2), fma(r3, u, a3)
        b0, b1, b2, b3 = fma(r0, v, b0), fma(r1, v, b1), fma(r2, v, b2), fma(r3, v, b3)
    cell = np.empty(EIGHT)
    store(cell, 0, spread_sum(a0))
    out[0] = cell[0]
    store(cell, 0, spread_sum(a1))
    out[1] = cell[0]
    store(cell, 0, spread_sum(a2))
    out[2] = cell[0]
    store(cell, 0, spread_sum(a3))
    out[3] = cell[0]
    store(cell, 0, spread_sum(b0))
    out[4] = cell[0]
    store(cell, 0, spread_sum(b1))
    out[5] = cell[0]
    store(cell, 0, spread_sum(b2))
    out[6] = cell[0]
    store(cell, 0, spread_sum(b3))
    out[7] = cell[0]
    for p in range(n_full, n):
        for r in range(BLOCK):
            out[r] += rule[a + r, p] * joint[i, p]
            out[BLOCK + r] += rule[a + r, p] * joint[i + 1, p]


@kernel
def sum_rules(rule, joint, first, m, out):
    """Out (spans, K) = rule @ joint, for the spans."""
    K, n = rule.shape
    if K < BLOCK or m < 2:
        for i in range(first, first + m):
            for a in range(K):
                total = 0.0
                for p in range(n):
                    total += rule[a, p] * joint[i, p]
                out[i, a] = total
        return
    n_full, found = n - n % EIGHT, np.empty(2 * BLOCK)
    for k in range(0, m, 2):
        i = first + min(k, m - 2)  # the last may be done twice
        for c in range(0, K, BLOCK):
            a = min(c, K - BLOCK)
            sum_two(rule, a, joint, i, n_full, found)
            for r in range(BLOCK):
                out[i, a + r], out[i + 1, a + r] = found[r], found[BLOCK + r]


@kernel
def sum_messages(rule, outside, first, m, out):
    """Out (m, K K) = outside @ rule, for the spans."""
    K, n = rule.shape
    n_full = n - n % EIGHT
    for k in range(0, m, BLOCK):
        i0, i1 = min(k, m - 1), min(k + 1, m - 1)
        i2, i3 = min(k + 2, m - 1), min(k + 3, m - 1)  # the last may be done again
        x0, x1 = (first + i0) * K, (first + i1) * K
        x2, x3 = (first + i2) * K, (first + i3) * K
        for p in range(0, n_full, EIGHT):
            s0, s1, s2, s3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for a in range(K):
                line = load(rule, a * n + p)
                s0 = fma(spread(outside, x0 + a), line, s0)
                s1 = fma(spread(outside, x1 + a), line, s1)
                s2 = fma(spread(outside, x2 + a), line, s2)
                s3 = fma(spread(outside, x3 + a), line, s3)
            store(out, i0 * n + p, s0)
            store(out, i1 * n + p, s1)
            store(out, i2 * n + p, s2)
            store(out, i3 * n + p, s3)
    for i in range(m):
        for p in range(n_full, n):
            total = 0.0
            for a in range(K):
                total += outside[first + i, a] * rule[a, p]
            out[i, p] = total


@kernel
def add_gather(outside, joint, first, m, times, out):
    """Out (K, K K) += times * outside.T @ joint, for the spans."""
    K, n = out.shape
    n_full, n_blocks = n - n % EIGHT, K - K % BLOCK
    for a in range(0, n_blocks, BLOCK):
        for p in range(0, n_full, EIGHT):
            s0, s1, s2, s3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for i in range(first, first + m):
                line, x = load(joint, i * n + p), i * K + a
                s0 = fma(spread(outside, x), line, s0)
                s1 = fma(spread(outside, x + 1), line, s1)
                s2 = fma(spread(outside, x + 2), line, s2)
                s3 = fma(spread(outside, x + 3), line, s3)
            at = a * n + p
            store(out, at, load(out, at) + s0 * times)
            store(out, at + n, load(out, at + n) + s1 * times)
            store(out, at + 2 * n, load(out, at + 2 * n) + s2 * times)
            store(out, at + 3 * n, load(out, at + 3 * n) + s3 * times)
    for a in range(K):
        done = n_full if a < n_blocks else 0
        for i in range(first, first + m):
            x = times * outside[i, a]
            for p in range(done, n):
                out[a, p] += x * joint[i, p]
