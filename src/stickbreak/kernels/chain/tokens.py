"""Collapsed sweeps of chains of symbols, token by token: q(z) is a product over tokens (CVI-1).

The conditional of a token's state given all other states, with counts replaced by expectations. Its
neighbors a = q(z_(t - 1)) and b = q(z_(t + 1)) take part with their own; C are the expected steps,
sums of a (x) b over neighbors, less those that touch the token or the neighbor:

    q_k  ~  in_k  (out_k + a_k b_k) / (D_k + a_k)  (C_kx + base) / (n_k + base_total)
    in_k   =  sum_j a_j (C_jk + pseudo_jk) + q_(t - 2)k a_k
    out_k  =  sum_l (C_kl + pseudo_kl) b_l + b_k q_(t + 2)k
    D_k    =  steps from k, with the prior's.

The first token has the start row's count in place of `in`, the last one no second factor. Before
the first and after the last row, q is zero, so that what is not there adds nothing. [W16, 3.33]
"""

from __future__ import annotations

import math

import numpy as np

from ..collapsed import entropy_of
from ..compile import kernel
from ..vectors import EIGHT, fill, first_four, fma, larger, last_four, load, spread, store
from .collapsed import longest_span, tally
from .single import step_rows
from .spans import add_line, keep_line

__all__ = ["count_tokens", "sweep_tokens"]

BEFORE = 2  # lines of zeros before and after the posteriors of a sequence


@kernel
def dot(values, at, others, to, width):
    """Sum of values[at:] * others[to:], W numbers."""
    total = fill(0.0)
    for k in range(0, width, EIGHT):
        total = fma(load(values, at + k), load(others, to + k), total)
    return first_four(total) + last_four(total)


@kernel
def load_tokens(rows, lo, hi, K, q):
    """Lines of q (., W) = posteriors of the rows lo to hi, zeros around them."""
    width, n = q.shape[1], hi - lo
    for line in range(n + 2 * BEFORE):
        for k in range(width):
            is_row = BEFORE <= line < n + BEFORE and k < K
            q[line, k] = rows[(lo + line - BEFORE) * K + k] if is_row else 0.0


@kernel
def add_step(left, at, right, to, K, width, table):
    """Table (W W,) += left[at:] (x) right[to:]."""
    for i in range(K):
        x = left[at + i]
        for k in range(0, width, EIGHT):
            place = i * width + k
            store(table, place, fma(load(right, to + k), x, load(table, place)))


@kernel
def enter(q, line, both, K, out):
    """Out (W,) = `in` of the formula, from the posteriors q (n W,), line by line."""
    width = out.shape[0]
    a, old, b, aa = (line - 1) * width, line * width, (line + 1) * width, (line - 2) * width
    step_rows(q, a, K, both, out, 0)
    far, near, mine = dot(q, a, q, aa, width), dot(q, a, q, a, width), dot(q, a, q, old, width)
    for k in range(0, width, EIGHT):
        before = load(q, a + k)
        taken = before * far + load(q, old + k) * near + load(q, b + k) * mine
        value = load(out, k) - taken + load(q, aa + k) * before
        store(out, k, larger(value, 0.0))


@kernel
def leave(q, line, both, leaving, K, out):
    """Out (W,) *= the second factor of the formula; leaving (W,): steps from k, and the prior's."""
    width, flat = out.shape[0], both.reshape(-1)
    a, old, b, bb = (line - 1) * width, line * width, (line + 1) * width, (line + 2) * width
    mine, near, far = dot(q, old, q, b, width), dot(q, b, q, b, width), dot(q, bb, q, b, width)
    for k in range(K):
        x, r, y = q[a + k], q[old + k], q[b + k]
        value = dot(flat, k * width, q, b, width) - x * mine - r * near - y * far + y * q[bb + k]
        out[k] *= (max(value, 0.0) + x * y) / (leaving[k] - r)  # D + a = leaving - a - r + a


@kernel
def weigh_token(table, totals, at, base, base_total, q, old, out):
    """Out (W,) *= predictive probability of the word whose line begins at `at`."""
    for k in range(0, out.shape[0], EIGHT):
        r = load(q, old + k)
        chance = (larger(load(table, at + k) - r, 0.0) + base) / (
            larger(load(totals, k) - r, 0.0) + base_total
        )
        store(out, k, load(out, k) * chance)


@kernel
def sum_line(values, at, width):
    """Sum of W numbers."""
    total = fill(0.0)
    for k in range(0, width, EIGHT):
        total = total + load(values, at + k)
    return first_four(total) + last_four(total)


@kernel
def limit_line(values, legal, at):
    """Values (W,) *= legal[at:]."""
    for k in range(0, values.shape[0], EIGHT):
        store(values, k, load(values, k) * load(legal, at + k))


@kernel
def sweep_tokens(
    table, totals, base, base_total, words, offsets, is_used, steps, sets, legal, own_rows,
    is_measured, out_table, out_totals, out_start, out_transition, out_found,
):  # fmt: skip
    """Every token once, left to right, given all others; own counts are part of those of all data.

    Arguments are those of `collapsed.sweep_sequences`. Returns the first sequence with a token that
    can have no state, or -1.
    """
    K, width, rows = own_rows.shape[1], totals.shape[0], own_rows.reshape(-1)
    posteriors = np.zeros((longest_span(offsets) + 2 * BEFORE, width))
    q, out, new = posteriors.reshape(-1), np.zeros(width), np.zeros(width)
    start, flat = steps.start, table.reshape(-1)
    both, leaving = steps.transition + steps.transition_pseudo, np.zeros(width)
    for k in range(K):
        leaving[k] = sum_line(both.reshape(-1), k * width, width) + steps.transition_rest[k]
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if not is_used[s]:
            continue
        load_tokens(rows, lo, hi, K, posteriors)
        for t in range(lo, hi):
            line = t - lo + BEFORE
            old, at = line * width, words[t] * width
            if t == lo:
                for k in range(0, width, EIGHT):
                    rest = larger(load(start, k) - load(q, old + k), 0.0)
                    store(out, k, rest + load(steps.start_pseudo, k))
            else:
                enter(q, line, both, K, out)
            if t < hi - 1:
                leave(q, line, both, leaving, K, out)
            if sets.shape[0] > 0:
                limit_line(out, legal, sets[t] * width)
            before = sum_line(out, 0, width)
            if at >= 0:
                weigh_token(flat, totals, at, base, base_total, q, old, out)
            total = sum_line(out, 0, width)
            if not total > 0.0:
                return s
            out_found[0] += math.log(total / before)
            ends = t == lo, t == hi - 1
            change_token(q, line, out, total, K, new, rows, t, ends, both, leaving, start)
            if at >= 0:
                add_line(new, 0, width, 1.0, flat, at)
                add_line(new, 0, width, 1.0, totals, 0)
        for t in range(lo, hi):
            out_found[1] += entropy_of(posteriors[t - lo + BEFORE]) if is_measured else 0.0
        count_line(words, lo, hi, K, rows, posteriors, out_table, out_totals, out_start)
        add_steps(posteriors, hi - lo, K, out_transition)
    return -1


@kernel
def change_token(q, line, weights, total, K, new, rows, t, ends, both, leaving, start):
    """Set the posterior of a token, as it is kept, and change the counts of its steps at once.

    ends (2,) : whether it is the first and the last. new (W,) : set to the change of the posterior.
    """
    width = weights.shape[0]
    old, flat = line * width, both.reshape(-1)
    for k in range(0, width, EIGHT):
        store(weights, k, load(weights, k) * (1.0 / total))
    keep_line(weights, 0, K, rows, t * K)
    for k in range(K):
        new[k] = rows[t * K + k] - q[old + k]
        q[old + k] = rows[t * K + k]
    is_first, is_last = ends
    if is_first:
        add_line(new, 0, width, 1.0, start, 0)
    else:
        add_step(q, old - width, new, 0, K, width, flat)
    if not is_last:
        add_step(new, 0, q, old + width, K, width, flat)
        add_line(new, 0, width, 1.0, leaving, 0)


@kernel
def count_line(words, lo, hi, K, rows, posteriors, out_table, out_totals, out_start):
    """Add the words and the start of one sequence."""
    tally(words, rows, K, lo, hi, 1.0, out_table.reshape(-1), out_totals)
    add_line(posteriors.reshape(-1), BEFORE * out_totals.shape[0], K, 1.0, out_start, 0)


@kernel
def add_steps(posteriors, n, K, out):
    """Out (W, W) += q_(t - 1) (x) q_t of the steps of one sequence of n rows."""
    width, q = posteriors.shape[1], posteriors.reshape(-1)
    for i in range(K):
        for k in range(0, width, EIGHT):
            total = load(out, i * width + k)
            for line in range(BEFORE, n + BEFORE - 1):
                total = fma(spread(q, line * width + i), load(q, (line + 1) * width + k), total)
            store(out, i * width + k, total)


@kernel
def count_tokens(
    words, offsets, is_used, own_rows, is_measured, out_table, out_totals, out_start,
    out_transition, out_found,
):  # fmt: skip
    """Counts of sequences whose rows are independent, and their entropy; see `sweep_tokens`."""
    K, width, rows = own_rows.shape[1], out_totals.shape[0], own_rows.reshape(-1)
    posteriors = np.zeros((longest_span(offsets) + 2 * BEFORE, width))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if is_used[s]:
            load_tokens(rows, lo, hi, K, posteriors)
            for t in range(lo, hi):
                out_found[1] += entropy_of(posteriors[t - lo + BEFORE]) if is_measured else 0.0
            count_line(words, lo, hi, K, rows, posteriors, out_table, out_totals, out_start)
            add_steps(posteriors, hi - lo, K, out_transition)
