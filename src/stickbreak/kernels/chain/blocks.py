"""Collapsed sweeps of long chains of symbols: q(z) is a product over blocks of rows (CVI-3).

Within a block q is a chain, found as that of a sequence. At its edges the last posterior of the
block before and the first of the block after, its guards, stand for the neighbors' states; expected
steps between blocks are products of these. Counts for a step between two blocks leave out both:

    left_k   =  sum_j q(z_0 = j) theta_jk,      without this block and the one before
    right_k  =  sum_l theta_kl q(z_(T + 1) = l),  without this block and the one after.

theta are predictive rows. The left guard as published has counts that are not divided by the sums
of their rows, in place of theta_jk [W16, 3.73]; `is_divided` chooses. A block at the start of its
sequence has the start row on its left, one at the end nothing on its right.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..vectors import EIGHT, at_least, larger, load, store
from .absent import keep_absent
from .collapsed import invert_totals, keep_sequence, longest_span, score_words, tally
from .single import step_rows
from .spans import LEAST, add_line, infer_span, make_span, predict_line, predict_lines

__all__ = ["count_blocks", "inner_steps", "sweep_blocks"]


@kernel
def inner_steps(rows, offsets, pairs):
    """Pairs (S, K, K) = products of neighboring posteriors rows (n, K) within each block."""
    K = rows.shape[1]
    for s in range(offsets.shape[0] - 1):
        for i in range(K):
            for j in range(K):
                total = 0.0
                for t in range(offsets[s] + 1, offsets[s + 1]):
                    total += rows[t - 1, i] * rows[t, j]
                pairs[s, i, j] = total


@kernel
def joined(joins, s):
    """Whether blocks s - 1 and s follow each other in one sequence."""
    return 0 < s < joins.shape[0] and joins[s]


@kernel
def move_edge(rows, row, K, sign, transition, width):
    """Transition (W W,) += sign * the step from row - 1 to row, a product of posteriors."""
    for i in range(K):
        add_line(rows, row * K, K, sign * rows[(row - 1) * K + i], transition, i * width)


@kernel
def move_steps(offsets, joins, s, but, K, own, sign, transition, width):
    """Transition (W W,) += sign * steps within block s and to its neighbors, except to `but`."""
    rows, pairs = own
    for i in range(K):
        add_line(pairs, (s * K + i) * K, K, sign, transition, i * width)
    if joined(joins, s) and s - 1 != but:
        move_edge(rows, offsets[s], K, sign, transition, width)
    if joined(joins, s + 1) and s + 1 != but:
        move_edge(rows, offsets[s + 1], K, sign, transition, width)


@kernel
def move_block(words, offsets, joins, s, K, own, sign, counts):
    """Counts += sign * all that block s has a part in."""
    table, totals, start, transition = counts
    rows, lo = own[0], offsets[s]
    tally(words, rows, K, lo, offsets[s + 1], sign, table, totals)
    if not joined(joins, s):
        add_line(rows, lo * K, K, sign, start, 0)
    move_steps(offsets, joins, s, -1, K, own, sign, transition, totals.shape[0])


@kernel
def without_block(transition, width, offsets, joins, s, but, K, own, out):
    """Out (W W,) = steps counted without those of block s; those to `but` are out already."""
    for k in range(0, width * width, EIGHT):
        store(out, k, load(transition, k))
    move_steps(offsets, joins, s, but, K, own, -1.0, out, width)


@kernel
def enter_block(others, steps, rows, row, K, is_divided, theta, guard, out):
    """Out (W,) = left factor of the block that begins at `row`; theta, guard : scratch."""
    width, total = out.shape[0], 0.0
    flat, prior = theta.reshape(-1), steps.transition_pseudo.reshape(-1)
    for i in range(K):
        guard[i] = rows[(row - 1) * K + i]
        if is_divided:
            predict_line(others, prior, steps.transition_rest[i], i * width, width, flat)
        else:
            for k in range(i * width, (i + 1) * width, EIGHT):
                pseudo = load(prior, k)
                value = larger(load(others, k), 0.0) + pseudo
                store(flat, k, at_least(pseudo, LEAST, value, 0.0))
    step_rows(guard, 0, K, theta, out, 0)
    if not is_divided:  # any factor will do; this one keeps log_z in bounds
        for k in range(K):
            total += out[k]
        for k in range(K):
            out[k] /= total


@kernel
def leave_block(others, steps, rows, row, K, theta, out):
    """Out (W,) = right factor of the block before the one that begins at `row`."""
    width, prior = out.shape[0], steps.transition_pseudo.reshape(-1)
    flat = theta.reshape(-1)
    for i in range(K):
        predict_line(others, prior, steps.transition_rest[i], i * width, width, flat)
        factor = 0.0
        for j in range(K):
            factor += theta[i, j] * rows[row * K + j]
        out[i] = factor


@kernel
def sweep_blocks(
    table, totals, base, base_total, words, offsets, is_used, steps, sets, legal, own_rows,
    own_pairs, joins, is_divided, is_measured, out_table, out_totals, out_start, out_transition,
    out_found, absent=None,
):  # fmt: skip
    """Every block once, in order; own counts are part of those of all data.

    joins (S,) : whether a block goes on where the one before ends. Other arguments, and what is
    returned, are those of `collapsed.sweep_sequences`, with blocks for sequences.
    """
    K, width, n_units = own_rows.shape[1], totals.shape[0], offsets.shape[0] - 1
    span, inverse, guard = make_span(longest_span(offsets), width), np.empty(width), np.zeros(width)
    own = own_rows.reshape(-1), own_pairs.reshape(-1)
    counts = table.reshape(-1), totals, steps.start, steps.transition.reshape(-1)
    others, theta = np.empty(width * width), np.zeros((width, width))
    for s in range(n_units):
        lo, hi = offsets[s], offsets[s + 1]
        if not is_used[s]:
            continue
        move_block(words, offsets, joins, s, K, own, -1.0, counts)
        invert_totals(totals, base_total, inverse)
        score_words(table, inverse, base, words, lo, hi, sets, legal, span.rows)
        if joined(joins, s):
            without_block(counts[3], width, offsets, joins, s - 1, s, K, own, others)
            enter_block(others, steps, own[0], lo, K, is_divided, theta, guard, span.start)
        else:
            predict_line(steps.start, steps.start_pseudo, steps.start_rest, 0, width, span.start)
        if joined(joins, s + 1):
            without_block(counts[3], width, offsets, joins, s + 1, s, K, own, others)
            leave_block(others, steps, own[0], hi, K, theta, guard)
            for i in range(K):
                span.rows[hi - lo - 1, i] *= guard[i]
        predict_lines(
            steps.transition, steps.transition_pseudo, steps.transition_rest, K,
            span.transition, span.transposed,
        )  # fmt: skip
        log_z, entropy = infer_span(span, K, hi - lo, is_measured)
        if log_z == -np.inf:
            return s
        out_found[0] += log_z
        out_found[1] += entropy
        keep_sequence(span, lo, hi, s, K, own)
        if absent is not None:
            keep_absent(span, s, lo, hi - lo, absent)
        move_block(words, offsets, joins, s, K, own, 1.0, counts)
    count_blocks(
        words, offsets, is_used, own_rows, own_pairs, joins, out_table, out_totals, out_start,
        out_transition,
    )  # fmt: skip
    return -1


@kernel
def count_blocks(
    words, offsets, is_used, own_rows, own_pairs, joins, out_table, out_totals, out_start,
    out_transition,
):  # fmt: skip
    """Counts of blocks as they are, and of the steps between them; see `sweep_blocks`."""
    K, width = own_rows.shape[1], out_totals.shape[0]
    rows, pairs = own_rows.reshape(-1), own_pairs.reshape(-1)
    flat, transition = out_table.reshape(-1), out_transition.reshape(-1)
    for s in range(offsets.shape[0] - 1):
        if is_used[s]:
            tally(words, rows, K, offsets[s], offsets[s + 1], 1.0, flat, out_totals)
            for i in range(K):
                add_line(pairs, (s * K + i) * K, K, 1.0, transition, i * width)
            if joined(joins, s):
                move_edge(rows, offsets[s], K, 1.0, transition, width)
            else:
                add_line(rows, offsets[s] * K, K, 1.0, out_start, 0)
