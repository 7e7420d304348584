"""Forward-backward of Markov chains with sparse rows: O(L^2) per row for any number of states.

support (n, L) : the states that a row may use, each once, -1 for none. Evidence and shares (n, L)
belong to these states. Only transitions from one row's states to the next row's are read. All else
is as in `smooth.py`, which gives the same result for evidence that is -inf outside the support.
"""

from __future__ import annotations

import math

import numpy as np

from ..compile import kernel
from ..rows import exp_fast
from .single import LOG_2, LOST, TINY, linear_tables

__all__ = ["messages_sparse", "smooth_sparse"]


@kernel
def load_sparse(evidence, support, begin, end, out_rows, out_index):
    """out_rows (T, L) = exp(evidence - top), 0 for no state; out_index (T, L): state, 0 for none.

    Returns the sum of top.
    """
    total = 0.0
    for t in range(begin, end):
        top, row, index = -np.inf, out_rows[t - begin], out_index[t - begin]
        for a in range(row.shape[0]):
            is_none = support[t, a] < 0
            index[a] = 0 if is_none else support[t, a]
            row[a] = -np.inf if is_none else evidence[t, a]
            top = row[a] if row[a] > top else top
        top = top if top != -np.inf else 0.0
        for a in range(row.shape[0]):
            row[a] = exp_fast(row[a] - top)
        total += top
    return total


@kernel
def step_sparse(source, before, now, table, out):
    """Out (L,)[b] = sum_a source (L,)[a] * table[before[a], now[b]]."""
    for b in range(out.shape[0]):
        out[b] = 0.0
    for a in range(out.shape[0]):
        if source[a] != 0.0:
            value, line = source[a], table[before[a]]
            for b in range(out.shape[0]):
                out[b] += value * line[now[b]]


@kernel
def forward_sparse(start, table, rows, index, out_weights, out_scale):
    """Like `single.forward_rows`; returns the log of the product of scales, and if all are good."""
    T, L = rows.shape
    predicted, inverse, product, exponent = np.empty(L), 1.0, 1.0, np.int64(0)
    for t in range(T):
        if t > 0:
            step_sparse(out_weights[t - 1], index[t - 1], index[t], table, predicted)
        total, weights = 0.0, out_weights[t]
        for a in range(L):
            value = start[index[t, a]] if t == 0 else predicted[a]
            weights[a] = value * inverse * rows[t, a] if value > LOST else 0.0
            total += weights[a]
        out_scale[t] = total
        if not total > TINY:
            return 0.0, False
        inverse = 1.0 / total
        product *= total
        bits = np.float64(product).view(np.int64)
        exponent += (bits >> 52) - 1023
        product = np.int64((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    return exponent * LOG_2 + math.log(product), True


@kernel
def backward_sparse(repeat, table, rows, index, weights, scale, out_future, out_shares, out_steps):
    """Like `single.backward_rows`; writes out_shares (T, L).

    out_steps (K, K) += transition counts, still to be multiplied by the table.
    """
    T, L = rows.shape
    message = np.empty(L)
    for a in range(L):
        message[a] = repeat / scale[T - 1]
    for t in range(T - 1, -1, -1):
        inverse, future = 1.0 / scale[t - 1] if t > 0 else 1.0, out_future[t]
        for a in range(L):
            value = message[a] if weights[t, a] > LOST else 0.0
            out_shares[t, a] = weights[t, a] * value
            future[a] = value * rows[t, a] * inverse
        if t > 0:
            now = index[t]
            for a in range(L):
                known, line, counts, total = (
                    weights[t - 1, a],
                    table[index[t - 1, a]],
                    out_steps[index[t - 1, a]],
                    0.0,
                )
                if known > 0.0:
                    for b in range(L):
                        total += line[now[b]] * future[b]
                        counts[now[b]] += known * future[b]
                message[a] = total


@kernel
def log_sum(values):
    """Log of the sum of exp(values), values (L,)."""
    top, total = -np.inf, 0.0
    for a in range(values.shape[0]):
        top = values[a] if values[a] > top or values[a] != values[a] else top
    if top == -np.inf:
        return top
    for a in range(values.shape[0]):
        total += math.exp(values[a] - top)
    return top + math.log(total)


@kernel
def smooth_sparse_in_logs(
    evidence,
    support,
    begin,
    end,
    log_start,
    log_table,
    repeat,
    out_shares,
    out_start,
    out_transition,
):
    """One sequence in the log domain: writes its shares, adds its counts, returns log_z."""
    T, L = end - begin, support.shape[1]
    forward, message, future, values = (
        np.full((T, L), -np.inf),
        np.zeros(L),
        np.empty(L),
        np.empty(L),
    )
    for t in range(T):
        for b in range(L):
            j = support[begin + t, b]
            if j >= 0:
                for a in range(L):
                    i = support[begin + t - 1, a] if t > 0 else -1
                    values[a] = forward[t - 1, a] + log_table[i, j] if i >= 0 else -np.inf
                forward[t, b] = (log_start[j] if t == 0 else log_sum(values)) + evidence[
                    begin + t, b
                ]
    log_z = log_sum(forward[T - 1])
    if log_z == -np.inf or log_z != log_z:
        out_shares[begin:end] = 0.0 if log_z == -np.inf else np.nan
        return log_z
    for t in range(T - 1, -1, -1):
        for b in range(L):
            future[b] = (
                message[b] + evidence[begin + t, b] if support[begin + t, b] >= 0 else -np.inf
            )
            out_shares[begin + t, b] = repeat * math.exp(forward[t, b] + message[b] - log_z)
            if t == 0 and support[begin, b] >= 0:
                out_start[support[begin, b]] += out_shares[begin, b]
        for a in range(L if t > 0 else 0):
            i = support[begin + t - 1, a]
            for b in range(L):
                j = support[begin + t, b]
                values[b] = log_table[i, j] + future[b] if i >= 0 and j >= 0 else -np.inf
                if values[b] > -np.inf and forward[t - 1, a] > -np.inf:
                    out_transition[i, j] += repeat * math.exp(forward[t - 1, a] + values[b] - log_z)
            message[a] = log_sum(values)
    return log_z


@kernel
def smooth_sequences(
    evidence,
    support,
    offsets,
    repeats,
    start,
    table,
    shifts,
    out_log_z,
    out_weights,
    out_future,
    out_shares,
    out_start,
    out_steps,
):
    """Every sequence in the linear domain; if that fails out_log_z (S,) is -inf, without counts."""
    longest, L = 0, support.shape[1]
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    rows, scale, index = (
        np.empty((longest, L)),
        np.empty(longest),
        np.empty((longest, L), dtype=np.int64),
    )
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        T, weights, shares = end - begin, out_weights[begin:end], out_shares[begin:end]
        tops = load_sparse(evidence, support, begin, end, rows, index)
        log_scale, is_good = forward_sparse(start, table, rows[:T], index, weights, scale)
        out_log_z[s] = log_scale + tops + shifts[0] + (T - 1) * shifts[1] if is_good else -np.inf
        if is_good:
            backward_sparse(
                repeats[s],
                table,
                rows[:T],
                index,
                weights,
                scale,
                out_future[begin:end],
                shares,
                out_steps,
            )
            for a in range(L):
                out_start[index[0, a]] += shares[0, a]


def messages_sparse(evidence, support, tables, offsets):
    """Weights, futures and shares (n, L) of each row, as in `single.backward_rows`, and log_z (S,).

    log_z is -inf where the linear domain fails. The posterior of a step is
    weights[t - 1, a] * transition[support[t - 1, a], support[t, b]] * futures[t, b].
    """
    log_z, weights, futures, shares = np.empty(len(offsets) - 1), *np.empty((3, *support.shape))
    ones, start, steps = (
        np.ones(len(log_z)),
        np.zeros_like(tables.start),
        np.zeros_like(tables.transition),
    )
    shifts = np.array([tables.start_shift, tables.step_shift])
    linear = ones, tables.start, tables.transition, shifts
    smooth_sequences(
        evidence, support, offsets, *linear, log_z, weights, futures, shares, start, steps
    )
    return weights, futures, shares, log_z


def smooth_sparse(
    evidence,
    support,
    log_start,
    log_transition,
    offsets,
    weights=None,
    *,
    start,
    transition,
    tables=None,
):
    """Forward-backward over the states of support (n, L), with evidence (n, L).

    Returns log_z (S,) and shares (n, L). log_z = -inf: no path stays within the support. Adds
    counts to start (K,) and transition (K, K), like `smooth`. tables : `linear_tables` of the
    potentials, if available; for many states they cost as much as the rows.
    """
    tables = linear_tables(log_start, log_transition) if tables is None else tables
    K = len(log_start)
    repeats = np.ones(len(offsets) - 1) if weights is None else np.asarray(weights, dtype=float)
    log_z, steps, shifts = (
        np.empty(len(repeats)),
        np.zeros((K, K)),
        np.array([tables.start_shift, tables.step_shift]),
    )
    known, futures, shares = np.empty((3, *support.shape))
    linear = repeats, tables.start, tables.transition, shifts
    smooth_sequences(
        evidence, support, offsets, *linear, log_z, known, futures, shares, start, steps
    )
    transition += steps * tables.transition[:K, :K]
    for s in np.flatnonzero(log_z == -np.inf):
        begin, end = int(offsets[s]), int(offsets[s + 1])
        potentials = log_start, log_transition, repeats[s]
        log_z[s] = smooth_sparse_in_logs(
            evidence, support, begin, end, *potentials, shares, start, transition
        )
    return log_z, shares
