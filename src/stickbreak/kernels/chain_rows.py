"""Markov chains one sequence at a time: forward and backward passes in the linear domain, and in the log domain.

Linear rows are (T, W), states padded with zeros to whole cache lines. Sums over states are taken in the same order here and in
`chain_lanes`, so that a sequence has the same bits in both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .rows import exp_fast

__all__ = [
    "LOST", "TILE", "TINY", "Tables", "add_log_steps", "backward_rows", "filter_rows", "forward_rows", "linear_tables", "load_rows",
    "log_backward", "log_forward", "log_sums", "smooth_rows", "step_rows", "sum_logs", "write_shares",
]  # fmt: skip

# A state of less weight counts as unreachable: what later rows say of it, scaled, could overflow. A smaller scale is mistrusted:
# a state that was lost before could matter in it.
LOST, TINY = 1e-300, 1e-150
TILE = 8  # doubles of a cache line
BLOCK = 64  # rows that are turned from state-major to row-major at once
LOG_2 = math.log(2.0)


class Tables(NamedTuple):
    """Linear potentials: start (W,), transition and transposed (W, W), zero from K to W; log shifts that were taken off."""

    start: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    start_shift: float
    step_shift: float


def linear_tables(log_start, log_transition):
    """Tables whose largest entries are 1."""
    K = len(log_start)
    width = -(-K // TILE) * TILE
    shifts = [float(top) if np.isfinite(top) else 0.0 for top in (log_start.max(), log_transition.max())]
    start, transition = np.zeros(width), np.zeros((width, width))
    start[:K] = np.exp(log_start - shifts[0])
    transition[:K, :K] = np.exp(log_transition - shifts[1])
    return Tables(start, transition, np.ascontiguousarray(transition.T), *shifts)


# ---- the linear domain ---------------------------------------------------------------------------------------------
@kernel
def load_rows(evidence_t, begin, out, out_top):
    """Out (T, W) = exp(evidence - top), padded with 0; out_top (T,) is the largest evidence of each row from `begin` on."""
    K = evidence_t.shape[0]
    T, width = out.shape
    block = np.empty((K, BLOCK))
    for first in range(0, T, BLOCK):
        size = min(BLOCK, T - first)
        top = out_top[first : first + size]
        for t in range(size):
            top[t] = -np.inf
        for k in range(K):
            source = evidence_t[k, begin + first : begin + first + size]
            for t in range(size):
                top[t] = source[t] if source[t] > top[t] else top[t]
        for t in range(size):
            top[t] = top[t] if top[t] != -np.inf else 0.0  # nothing is possible: -inf less -inf would be NaN
        for k in range(K):
            source, target = evidence_t[k, begin + first : begin + first + size], block[k]
            for t in range(size):
                target[t] = exp_fast(source[t] - top[t])
        for t in range(size):
            row = out[first + t]
            for k in range(K):
                row[k] = block[k, t]
            for k in range(K, width):
                row[k] = 0.0


@kernel
def step_rows(message, flat, out):
    """Out (W,) = message (W,) @ table (W, W), given flat; terms are added up in fours, and these one after the other.

    Eight lines of the table at a time, by one pointer: the fewer pointers, the less a vectorized loop has to check first.
    """
    width = out.shape[0]
    for i in range(0, width, TILE):
        a, b, c, d = message[i], message[i + 1], message[i + 2], message[i + 3]
        e, f, g, h = message[i + 4], message[i + 5], message[i + 6], message[i + 7]
        x = flat[i * width : (i + TILE) * width]
        if i == 0:
            for j in range(width):
                low = (a * x[j] + b * x[width + j]) + (c * x[2 * width + j] + d * x[3 * width + j])
                high = (e * x[4 * width + j] + f * x[5 * width + j]) + (g * x[6 * width + j] + h * x[7 * width + j])
                out[j] = low + high
        else:
            for j in range(width):
                low = (a * x[j] + b * x[width + j]) + (c * x[2 * width + j] + d * x[3 * width + j])
                high = (e * x[4 * width + j] + f * x[5 * width + j]) + (g * x[6 * width + j] + h * x[7 * width + j])
                out[j] = (out[j] + low) + high


@kernel
def weigh_row(predicted, inverse, likelihood, out):
    """Out (W,) = predicted (W,) * inverse * likelihood (W,). Returns its sum, four terms at a time."""
    for j in range(out.shape[0]):
        out[j] = predicted[j] * inverse * likelihood[j] if predicted[j] > LOST else 0.0
    total = 0.0
    for j in range(0, out.shape[0], 4):
        total += (out[j] + out[j + 1]) + (out[j + 2] + out[j + 3])
    return total


@kernel
def forward_rows(predicted, transition, rows, out_weights, out_scale):
    """Weights (T, W) = p(z_t, x_t | x_1 .. x_(t - 1)) and their sums, the scales (T,), from likelihoods rows (T, W).

    predicted (W,): that of the first row on entry, used up. Returns the number of rows before the first scale that is nearly zero
    or not a number.
    """
    T, inverse, flat = rows.shape[0], 1.0, transition.reshape(transition.size)
    for t in range(T):
        if t > 0:
            step_rows(out_weights[t - 1], flat, predicted)
        out_scale[t] = weigh_row(predicted, inverse, rows[t], out_weights[t])
        if not out_scale[t] > TINY:
            return t
        inverse = 1.0 / out_scale[t]  # is ready when the next step is, as that does not wait for it
    return T


@kernel
def backward_rows(message, transposed, rows, weights, scale, first, last, out_message, out_future):
    """Backward pass over rows first to last: messages p(x_(t + 1) .. | z_t), scaled so that weights * message = shares.

    out_message (last - first, W); out_future (last - first, W): likelihood * message / scale of the row before: what a step into
    the row is worth, so that weights[t - 1] (x) future[t] * transition are the posteriors of that step. message (W,): that of row
    last - 1 on entry, of the row before `first` on return. It is set to zero where no path leads to, since a state that explains
    many rows far better but cannot be reached would overflow.
    """
    width, flat = rows.shape[1], transposed.reshape(transposed.size)
    for t in range(last - 1, first - 1, -1):
        keep, future, row, weight = out_message[t - first], out_future[t - first], rows[t], weights[t]
        inverse = 1.0 / scale[t - 1] if t > 0 else 1.0
        for j in range(width):
            keep[j] = message[j] if weight[j] > LOST else 0.0
            future[j] = keep[j] * row[j] * inverse
        step_rows(future, flat, message)


@kernel
def write_shares(weights, message, begin, out):
    """Out (K, n)[:, begin + t] = weights (T, W)[t] * message (T, W)[t]."""
    T = weights.shape[0]
    for first in range(0, T, TILE):
        for k in range(out.shape[0]):
            target = out[k]
            for t in range(first, min(first + TILE, T)):
                target[begin + t] = weights[t, k] * message[t, k]


@kernel
def sum_logs(scale, top):
    """Sum of log(scale) + top, both (T,), scales above TINY: by one product, its exponent counted apart in every other row."""
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
    """`forward_rows` of every sequence: out_weights (n, W), out_scale (n,), out_top (n,); a bad scale ends its sequence."""
    predicted = np.empty(start.shape[0])
    rows = np.empty((BLOCK, start.shape[0]))
    for s in range(offsets.shape[0] - 1):
        end = offsets[s + 1]
        for k in range(start.shape[0]):
            predicted[k] = start[k]
        for t in range(offsets[s], end, BLOCK):
            last = min(t + BLOCK, end)
            if t > offsets[s]:
                step_rows(out_weights[t - 1], transition.reshape(transition.size), predicted)
                for k in range(start.shape[0]):
                    predicted[k] *= 1.0 / out_scale[t - 1]
            load_rows(evidence_t, t, rows[: last - t], out_top[t:last])
            likelihoods, weights, scale = rows[: last - t], out_weights[t:last], out_scale[t:last]
            if forward_rows(predicted, transition, likelihoods, weights, scale) < last - t:
                break


@kernel
def smooth_rows(evidence_t, start, transition, transposed, offsets, out_weights, out_message, out_future, out_is_bad):
    """Forward-backward of every sequence, all messages kept: (n, W) each, as `backward_rows` has them; the bad ones are told."""
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    rows, scale, top, message = np.empty((longest, start.shape[0])), np.empty(longest), np.empty(longest), np.empty(start.shape[0])
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        T, weights = end - begin, out_weights[begin:end]
        load_rows(evidence_t, begin, rows[:T], top)
        for k in range(start.shape[0]):
            message[k] = start[k]
        out_is_bad[s] = forward_rows(message, transition, rows[:T], weights, scale) < T
        if not out_is_bad[s]:
            for k in range(start.shape[0]):
                message[k] = 1.0 / scale[T - 1]
            outs = out_message[begin:end], out_future[begin:end]
            backward_rows(message, transposed, rows, weights, scale, 0, T, outs[0], outs[1])


# ---- the log domain ------------------------------------------------------------------------------------------------
@kernel
def log_sums(values):
    """(T,) logarithms of the sums of exp(values) (T, K) over K; NaN for NaN, and no warning for it or for -inf."""
    out = np.full(values.shape[0], -np.inf)
    for t in range(values.shape[0]):
        total = 0.0
        for k in range(values.shape[1]):
            out[t] = values[t, k] if values[t, k] > out[t] or values[t, k] != values[t, k] else out[t]
        if out[t] != -np.inf:
            for k in range(values.shape[1]):
                total += math.exp(values[t, k] - out[t])
            out[t] += math.log(total)
    return out


@kernel
def log_forward(log_predicted, log_transition, evidence_t, out):
    """Out (T, K) = log p(z_t, x_1 .. x_t) of one sequence, evidence_t (K, T). Exact, and slow."""
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
                    total += math.exp(out[t - 1, i] + log_transition[i, j] - top) if top != -np.inf else 0.0
                out[t, j] = top + math.log(total) + evidence_t[j, t] if top != -np.inf else -np.inf


@kernel
def log_backward(log_beta, log_transition, evidence_t, out_beta, out_future):
    """out_beta (T, K) = log p(x_(t + 1) .. | z_t), out_future (T, K) that plus the evidence of row t.

    log_beta (K,): that of the last row on entry, that of the row before the first on return.
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
                total += math.exp(log_transition[i, j] + out_future[t, j] - top) if top != -np.inf else 0.0
            log_beta[i] = top + math.log(total) if top != -np.inf else -np.inf


@kernel
def add_log_steps(log_filtered, log_transition, log_future, log_z, weight, out):
    """Out (K, K) += weight * posterior of each step from log_filtered (T, K)[t] to log_future (T, K)[t]."""
    T, K = log_filtered.shape
    for t in range(T):
        for i in range(K):
            if log_filtered[t, i] > -np.inf:
                for j in range(K):
                    out[i, j] += weight * math.exp(log_filtered[t, i] + log_transition[i, j] + log_future[t, j] - log_z)
