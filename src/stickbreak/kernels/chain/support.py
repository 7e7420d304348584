"""Support of sparse chains: which L states each row of a Markov chain may use, O(L K) per row.

For supports A_1, ..., A_T, the paths that stay within them have the sum

    Z = sum over j in A_t of m_t(j),   m_t(j) = [sum_i f(i) a(i, j)] e_t(j) [sum_k a(j, k) g(k)],
    i in A_(t - 1), k in A_(t + 1),

where f and g come from the rows before and after. So the L states with the largest m_t are the best
support of row t, given those of all other rows. A forward pass selects by the first two factors,
what is known up to a row. A backward pass selects again by all three, and so never lowers Z. Any
support gives a valid posterior. Arguments as in `smooth.py`.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..rows import copy_line, exp_fast
from .single import TINY

__all__ = ["choose_states"]

BLOCK = 64  # rows that are transposed from state-major to row-major at once


@kernel
def load_block(evidence_t, begin, out, out_top):
    """Out (T, W)[:, :K] = evidence of the T rows from `begin` on.

    out_top (T,) : the largest of a row, NaN if there is one.
    """
    K, T = evidence_t.shape[0], out.shape[0]
    for t in range(T):
        out_top[t] = -np.inf
    for i in range(0, K, 4):  # four states at a time, because rows are written
        j, k, m = min(i + 1, K - 1), min(i + 2, K - 1), min(i + 3, K - 1)
        for t in range(T):
            a, b, c, d = (
                evidence_t[i, begin + t],
                evidence_t[j, begin + t],
                evidence_t[k, begin + t],
                evidence_t[m, begin + t],
            )
            row = out[t]
            row[i], row[j], row[k], row[m] = a, b, c, d
            x, y = a if a > b or a != a else b, c if c > d or c != c else d
            z = x if x > y or x != x else y
            out_top[t] = z if z > out_top[t] or z != z else out_top[t]
    for t in range(T):
        # if nothing is possible, -inf minus -inf would be NaN
        out_top[t] = out_top[t] if out_top[t] != -np.inf else 0.0


@kernel
def mix_lines(table, index, weights, out):
    """Out (W,) = sum_a weights (M,)[a] * table (W, W)[index (M,)[a]], M a multiple of four."""
    width = out.shape[0]
    for a in range(0, index.shape[0], 4):
        first, second, third, last = (
            table[index[a]],
            table[index[a + 1]],
            table[index[a + 2]],
            table[index[a + 3]],
        )
        x, y, z, w = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
        if a == 0:
            for k in range(width):
                out[k] = (x * first[k] + y * second[k]) + (z * third[k] + w * last[k])
        else:
            for k in range(width):
                out[k] += (x * first[k] + y * second[k]) + (z * third[k] + w * last[k])


@kernel
def find_worst(values):
    """Index of the smallest value."""
    worst, least = 0, values[0]
    for a in range(1, values.shape[0]):
        is_less = values[a] < least
        worst, least = a if is_less else worst, values[a] if is_less else least
    return worst


@kernel
def keep_best(values, guess, hidden, index, out):
    """The states index (L,) with the largest positive values (W,), and those values, out (L,).

    They are unsorted; -1 and 0 for none. guess (L,) : distinct states, or -1; it saves work if it
    is nearly right. hidden (L,) : scratch. Returns the sum of out.
    """
    L, total = index.shape[0], 0.0
    for a in range(L):  # the guess comes first, and must not be found again
        k = guess[a]
        hidden[a] = values[k] if k >= 0 else 0.0
        out[a] = hidden[a] if hidden[a] > 0.0 else 0.0
        index[a] = k if out[a] > 0.0 else -1
        if k >= 0:
            values[k] = 0.0
    worst = find_worst(out)
    least = out[worst]
    for k in range(values.shape[0]):
        if values[k] > least:
            index[worst], out[worst] = k, values[k]
            worst = find_worst(out)
            least = out[worst]
    for a in range(L):
        total += out[a]
        if guess[a] >= 0:
            values[guess[a]] = hidden[a]
    return total


@kernel
def set_message(index, values, total, out_index, out_weights):
    """Input of `mix_lines`, (M,) each: the states index (L,), with weights values (L,) / total."""
    for a in range(index.shape[0]):
        out_index[a] = max(index[a], 0)
        out_weights[a] = values[a] / total


@kernel
def choose_forward(evidence_t, begin, predicted, table, lines, weights, rows, out_joint, out_index):
    """States out_index (T, L) of each row with the largest weights given the rows up to it.

    out_joint (T, W) : predicted weight * likelihood. predicted (W,) : that of the first row on
    entry, overwritten. rows (BLOCK, W) : zero beyond K. Returns whether every row has a state.
    """
    T, L = out_index.shape
    top, values, hidden, guess = (
        np.empty(BLOCK),
        np.empty(L),
        np.empty(L),
        np.full(L, -1, out_index.dtype),
    )
    for first in range(0, T, BLOCK):
        last = min(first + BLOCK, T)
        load_block(evidence_t, begin + first, rows[: last - first], top)
        for t in range(first, last):
            if t > 0:
                mix_lines(table, lines, weights, predicted)
            joint, row, shift = out_joint[t], rows[t - first], top[t - first]
            for k in range(predicted.shape[0]):
                joint[k] = predicted[k] * exp_fast(row[k] - shift)
            total = keep_best(joint, guess, hidden, out_index[t], values)
            if not total > TINY:
                return False
            set_message(out_index[t], values, total, lines, weights)
            for a in range(L):
                guess[a] = out_index[t, a]
    return True


@kernel
def weigh_support(evidence_t, row, index, future, out_evidence, out):
    """Evidence (L,) of the states index (L,) of a row, and out (L,): likelihood * future (W,).

    out has any scale. Returns its sum.
    """
    top, total = -np.inf, 0.0
    for a in range(index.shape[0]):
        out_evidence[a] = evidence_t[index[a], row] if index[a] >= 0 else -np.inf
        top = max(top, out_evidence[a])
    for a in range(index.shape[0]):
        out[a] = future[index[a]] * exp_fast(out_evidence[a] - top) if index[a] >= 0 else 0.0
        total += out[a]
    return total


@kernel
def choose_backward(evidence_t, begin, transposed, lines, weights, joint, index, out_evidence):
    """Select index (T, L) again, now also by the rows after each row; joint is overwritten.

    out_evidence (T, L) : that of the states selected. Returns whether every row has a state.
    """
    T, L = index.shape
    future, values, hidden, guess = (
        np.ones(joint.shape[1]),
        np.empty(L),
        np.empty(L),
        np.empty(L, index.dtype),
    )
    for t in range(T - 1, -1, -1):
        if t < T - 1:  # no row follows the last one
            mix_lines(transposed, lines, weights, future)
            row = joint[t]
            for k in range(future.shape[0]):
                row[k] *= future[k]
            for a in range(L):
                guess[a] = index[t, a]
            keep_best(row, guess, hidden, index[t], values)
        total = weigh_support(evidence_t, begin + t, index[t], future, out_evidence[t], values)
        if not total > 0.0:
            return False
        set_message(index[t], values, total, lines, weights)
    return True


@kernel
def choose_sequences(
    evidence_t, offsets, start, table, transposed, joint, out_index, out_evidence, out_is_bad
):
    """Both passes over every sequence. joint (longest, W) : scratch."""
    width, n_lines = start.shape[0], (out_index.shape[1] + 3) // 4 * 4
    lines, weights, predicted, rows = (
        np.zeros(n_lines, np.int64),
        np.zeros(n_lines),
        np.empty(width),
        np.zeros((BLOCK, width)),
    )
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        copy_line(start, predicted)
        part, index = joint[: end - begin], out_index[begin:end]
        is_good = choose_forward(
            evidence_t, begin, predicted, table, lines, weights, rows, part, index
        )
        if is_good:
            is_good = choose_backward(
                evidence_t, begin, transposed, lines, weights, part, index, out_evidence[begin:end]
            )
        out_is_bad[s] = not is_good


def choose_states(evidence_t, offsets, tables, n_states, joint):
    """Support (n, L) of every row, distinct states and -1 for none, and its evidence (n, L).

    L = n_states. tables : `linear_tables` of the potentials. joint (longest, W) : scratch.

    Also returns is_bad (S,): sequences left without a path, because the first pass found none,
    weights underflow, or the evidence has NaN. Their support is meaningless.
    """
    n = evidence_t.shape[1]
    support, evidence, is_bad = (
        np.empty((n, n_states), np.int32),
        np.empty((n, n_states)),
        np.empty(len(offsets) - 1, np.bool_),
    )
    choose_sequences(
        evidence_t,
        offsets,
        tables.start,
        tables.transition,
        tables.transposed,
        joint,
        support,
        evidence,
        is_bad,
    )
    return support, evidence, is_bad
