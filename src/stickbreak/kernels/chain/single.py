"""Markov chains one sequence at a time: passes in the linear domain and in the log domain.

Linear rows are (T, W), states padded with zeros to whole vectors. Sums over states have the same
order here and in `eight.py`, so that a sequence gets the same bits in both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..rows import exp_fast
from ..vectors import (
    EIGHT,
    at_least,
    fill,
    first_four,
    fma,
    larger,
    last_four,
    load,
    spread,
    store,
    turn,
)

__all__ = [
    "LOST", "LOWEST_TOP", "TINY", "Tables", "add_log_steps", "backward_rows", "filter_rows",
    "forward_rows", "linear_tables",
    "load_rows", "log_backward", "log_forward", "log_sums", "smooth_rows", "step_rows", "sum_logs",
    "write_shares",
]  # fmt: skip

# A state with less weight than LOST counts as unreachable: its scaled message from later rows could
# overflow. A scale below TINY is not trusted: a state that was lost before could matter in it.
LOST, TINY = 1e-300, 1e-150
LOWEST_TOP = -1e308  # the largest evidence of a row is below this only if nothing is possible
BLOCK = 64  # rows whose likelihoods are held at once if only weights are needed
LOG_2 = math.log(2.0)


class Tables(NamedTuple):
    """Linear potentials: start (W,), transition and transposed (W, W), zero from K to W.

    Also the log shifts that were subtracted.
    """

    start: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    start_shift: float
    step_shift: float


def linear_tables(log_start, log_transition):
    """Tables with largest entries 1; entries below LOST are 0, as arithmetic with them is slow."""
    K = len(log_start)
    width = -(-K // EIGHT) * EIGHT
    shifts = [
        float(top) if np.isfinite(top) else 0.0 for top in (log_start.max(), log_transition.max())
    ]
    start, transition = np.zeros(width), np.zeros((width, width))
    start[:K] = np.exp(log_start - shifts[0])
    transition[:K, :K] = np.exp(log_transition - shifts[1])
    for table in (start, transition):
        table[table < LOST] = 0.0
    return Tables(start, transition, np.ascontiguousarray(transition.T), *shifts)


# ---- the linear domain ---------------------------------------------------------------------------
@kernel
def load_rows(evidence_t, begin, out, out_top):
    """Out (T, W) = exp(evidence - top), padded with 0, for the rows from `begin` on.

    out_top (T,) : the largest evidence of each row.
    """
    K, n = evidence_t.shape
    T, width = out.shape
    block, square = np.zeros((width, EIGHT)), np.empty(EIGHT * EIGHT)
    for first in range(0, T, EIGHT):
        size, top = min(EIGHT, T - first), fill(-np.inf)
        for k in range(K):
            if size == EIGHT:
                store(block, EIGHT * k, load(evidence_t, k * n + begin + first))
            else:
                for t in range(size):
                    block[k, t] = evidence_t[k, begin + first + t]
            top = larger(load(block, EIGHT * k), top)
        # if nothing is possible, -inf minus -inf would be NaN
        top = at_least(top, LOWEST_TOP, top, 0.0)
        for k in range(K):
            store(block, EIGHT * k, exp_fast(load(block, EIGHT * k) - top))
        store(square, 0, top)
        for t in range(size):
            out_top[first + t] = square[t]
        for k in range(0, width, EIGHT):
            if size == EIGHT:
                turn(block, EIGHT * k, EIGHT, out, first * width + k, width)
            else:
                turn(block, EIGHT * k, EIGHT, square, 0, EIGHT)
                for t in range(size):
                    store(out, (first + t) * width + k, load(square, EIGHT * t))


@kernel
def four_columns(message, at, n_states, table, width, column):
    """Sums over states i of message[at + i] * table (., width)[i, column:], for 32 columns."""
    a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    for i in range(n_states):
        x, line = spread(message, at + i), i * width + column
        a = fma(x, load(table, line), a)
        b = fma(x, load(table, line + EIGHT), b)
        c = fma(x, load(table, line + 2 * EIGHT), c)
        d = fma(x, load(table, line + 3 * EIGHT), d)
    return a, b, c, d


@kernel
def step_rows(message, at, n_states, table, out, out_at):
    """Out[out_at:], W numbers, = message[at:] @ table (W, W), summed over the first n_states.

    Terms are added one after the other.
    """
    width = table.shape[1]
    if width < 4 * EIGHT:
        for column in range(0, width, EIGHT):
            a = fill(0.0)
            for i in range(n_states):
                a = fma(spread(message, at + i), load(table, i * width + column), a)
            store(out, out_at + column, a)
    else:
        for first in range(0, width, 4 * EIGHT):
            # the last ones may be done twice, which is faster than fewer at a time
            column = min(first, width - 4 * EIGHT)
            a, b, c, d = four_columns(message, at, n_states, table, width, column)
            store(out, out_at + column, a)
            store(out, out_at + column + EIGHT, b)
            store(out, out_at + column + 2 * EIGHT, c)
            store(out, out_at + column + 3 * EIGHT, d)


@kernel
def weigh_row(predicted, inverse, rows, out, at, width):
    """Out[at:] = predicted (W,) * inverse * rows[at:]. Returns its sum, four terms at a time."""
    total = 0.0
    for column in range(0, width, EIGHT):
        x = load(predicted, column)
        weight = at_least(x, LOST, x * inverse * load(rows, at + column), 0.0)
        store(out, at + column, weight)
        total = (total + first_four(weight)) + last_four(weight)
    return total


@kernel
def forward_rows(predicted, n_states, transition, rows, out_weights, out_scale):
    """Weights (T, W) = p(z_t, x_t | x_1 .. x_(t - 1)) and their sums, the scales (T,).

    rows (T, W) : likelihoods. predicted (W,) : that of the first row on entry, overwritten. Returns
    the number of rows before the first scale that is nearly zero or NaN.
    """
    (T, width), inverse = rows.shape, 1.0
    for t in range(T):
        if t > 0:
            step_rows(out_weights, (t - 1) * width, n_states, transition, predicted, 0)
        out_scale[t] = weigh_row(predicted, inverse, rows, out_weights, t * width, width)
        if not out_scale[t] >= TINY:
            return t
        inverse = 1.0 / out_scale[t]  # the next step does not wait for it
    return T


@kernel
def backward_rows(
    message, n_states, transposed, rows, weights, scale, first, last, out_message, out_future
):
    """Backward pass over rows first to last: messages p(x_(t + 1) .. | z_t).

    They are scaled so that weights * message = shares. out_message (last - first, W).
    out_future (last - first, W) : likelihood * message / scale of the row before, so that
    weights[t - 1] (x) future[t] * transition are the posteriors of the step into row t.
    message (W,) : that of row last - 1 on entry, of the row before `first` on return. It is set to
    zero for states that no path leads to: a state that explains many rows far better, but cannot be
    reached, would overflow.
    """
    width = rows.shape[1]
    for t in range(last - 1, first - 1, -1):
        inverse, at, out = 1.0 / scale[t - 1] if t > 0 else 1.0, t * width, (t - first) * width
        for column in range(0, width, EIGHT):
            value = at_least(load(weights, at + column), LOST, load(message, column), 0.0)
            store(out_message, out + column, value)
            store(out_future, out + column, value * load(rows, at + column) * inverse)
        step_rows(out_future, out, n_states, transposed, message, 0)


@kernel
def write_shares(weights, message, begin, out):
    """Out (K, n)[:, begin + t] = weights (T, W)[t] * message (T, W)[t]."""
    (T, width), (K, n), square = weights.shape, out.shape, np.empty(EIGHT * EIGHT)
    for first in range(0, T, EIGHT):
        size = min(EIGHT, T - first)
        for k in range(0, width, EIGHT):
            for t in range(size):
                at = (first + t) * width + k
                store(square, EIGHT * t, load(weights, at) * load(message, at))
            turn(square, 0, EIGHT, square, 0, EIGHT)
            for i in range(min(EIGHT, K - k)):
                if size == EIGHT:
                    store(out, (k + i) * n + begin + first, load(square, EIGHT * i))
                else:
                    for t in range(size):
                        out[k + i, begin + first + t] = square[EIGHT * i + t]


@kernel
def sum_logs(scale, top):
    """Sum of log(scale) + top, both (T,), for scales from TINY on.

    It is the log of one product, whose exponent is counted separately in every other row.
    """
    product, exponent, total = 1.0, np.int64(0), 0.0
    for t in range(scale.shape[0]):
        product *= scale[t]
        total += top[t]
        if t % 2 == 1 or t == scale.shape[0] - 1:
            bits = np.float64(product).view(np.int64)
            exponent += (bits >> 52) - 1023
            product = np.int64((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    return exponent * LOG_2 + math.log(product) + total


@kernel
def filter_rows(evidence_t, start, transition, offsets, out_weights, out_scale, out_top):
    """`forward_rows` of every sequence; a bad scale ends its sequence.

    out_weights (n, W), out_scale (n,), out_top (n,).
    """
    K, predicted, rows = (
        evidence_t.shape[0],
        np.empty(start.shape[0]),
        np.empty((BLOCK, start.shape[0])),
    )
    for s in range(offsets.shape[0] - 1):
        end = offsets[s + 1]
        for k in range(start.shape[0]):
            predicted[k] = start[k]
        for t in range(offsets[s], end, BLOCK):
            last = min(t + BLOCK, end)
            if t > offsets[s]:
                step_rows(out_weights, (t - 1) * start.shape[0], K, transition, predicted, 0)
                for k in range(start.shape[0]):
                    predicted[k] *= 1.0 / out_scale[t - 1]
            load_rows(evidence_t, t, rows[: last - t], out_top[t:last])
            likelihoods, weights, scale = rows[: last - t], out_weights[t:last], out_scale[t:last]
            if forward_rows(predicted, K, transition, likelihoods, weights, scale) < last - t:
                break


@kernel
def smooth_rows(
    evidence_t,
    start,
    transition,
    transposed,
    offsets,
    out_weights,
    out_message,
    out_future,
    out_is_bad,
):
    """Forward-backward of every sequence, with all messages kept, (n, W) each.

    Messages are as in `backward_rows`. out_is_bad marks sequences that fail.
    """
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    rows, scale, top, message = (
        np.empty((longest, start.shape[0])),
        np.empty(longest),
        np.empty(longest),
        np.empty(start.shape[0]),
    )
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        T, weights = end - begin, out_weights[begin:end]
        load_rows(evidence_t, begin, rows[:T], top)
        for k in range(start.shape[0]):
            message[k] = start[k]
        out_is_bad[s] = (
            forward_rows(message, evidence_t.shape[0], transition, rows[:T], weights, scale) < T
        )
        if not out_is_bad[s]:
            for k in range(start.shape[0]):
                message[k] = 1.0 / scale[T - 1]
            outs = out_message[begin:end], out_future[begin:end]
            backward_rows(
                message,
                evidence_t.shape[0],
                transposed,
                rows,
                weights,
                scale,
                0,
                T,
                outs[0],
                outs[1],
            )


# ---- the log domain ------------------------------------------------------------------------------
@kernel
def log_sums(values):
    """(T,) logs of the sums of exp(values) (T, K) over K; NaN for NaN; -inf and NaN do not warn."""
    out = np.full(values.shape[0], -np.inf)
    for t in range(values.shape[0]):
        total = 0.0
        for k in range(values.shape[1]):
            out[t] = (
                values[t, k] if values[t, k] > out[t] or values[t, k] != values[t, k] else out[t]
            )
        if out[t] != -np.inf:
            for k in range(values.shape[1]):
                total += math.exp(values[t, k] - out[t])
            out[t] += math.log(total)
    return out


@kernel
def log_forward(log_predicted, log_transition, evidence_t, out):
    """Out (T, K) = log p(z_t, x_1 .. x_t) of one sequence, evidence_t (K, T). Exact but slow."""
    K, T = evidence_t.shape
    for t in range(T):
        for j in range(K):
            out[t, j] = log_predicted[j] + evidence_t[j, t]
            if t > 0:
                top, total = -np.inf, 0.0
                for i in range(K):
                    value = out[t - 1, i] + log_transition[i, j]
                    top = value if value > top or value != value else top
                for i in range(K):
                    total += (
                        math.exp(out[t - 1, i] + log_transition[i, j] - top)
                        if top != -np.inf
                        else 0.0
                    )
                out[t, j] = top + math.log(total) + evidence_t[j, t] if top != -np.inf else -np.inf


@kernel
def log_backward(log_beta, log_transition, evidence_t, out_beta, out_future):
    """out_beta (T, K) = log p(x_(t + 1) .. | z_t); out_future (T, K) = that plus row t's evidence.

    log_beta (K,) : that of the last row on entry, of the row before the first on return.
    """
    K, T = evidence_t.shape
    for t in range(T - 1, -1, -1):
        for j in range(K):
            out_beta[t, j] = log_beta[j]
            out_future[t, j] = log_beta[j] + evidence_t[j, t]
        for i in range(K):
            top, total = -np.inf, 0.0
            for j in range(K):
                value = log_transition[i, j] + out_future[t, j]
                top = value if value > top or value != value else top
            for j in range(K):
                total += (
                    math.exp(log_transition[i, j] + out_future[t, j] - top)
                    if top != -np.inf
                    else 0.0
                )
            log_beta[i] = top + math.log(total) if top != -np.inf else -np.inf


@kernel
def add_log_steps(log_filtered, log_transition, log_future, log_z, weight, out):
    """Out (K, K) += weight * posterior of each step, log_filtered[t] to log_future[t].

    log_filtered, log_future (T, K).
    """
    T, K = log_filtered.shape
    for t in range(T):
        for i in range(K):
            if log_filtered[t, i] > -np.inf:
                for j in range(K):
                    out[i, j] += weight * math.exp(
                        log_filtered[t, i] + log_transition[i, j] + log_future[t, j] - log_z
                    )
