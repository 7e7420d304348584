"""Markov chains one sequence at a time: forward and backward passes in the linear domain, and in the log domain.

Linear rows are (T, W), states padded with zeros to whole cache lines. Sums over states run from the first to the last, so that a
sequence has the same bits here and in `chain_lanes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .rows import exp_fast

__all__ = [
    "LOST", "TILE", "TINY", "Tables", "add_log_steps", "backward_rows", "filter_rows", "forward_rows", "linear_tables", "load_rows",
    "log_backward", "log_forward", "log_sums", "step_rows", "sum_logs", "write_shares",
]  # fmt: skip

TINY = 1e-260  # a smaller scale is mistrusted: what exp_fast set to zero (1e-308) could be more than rounding of it
LOST = 1e-300  # a state of smaller probability counts as unreachable: what later rows say of it, scaled, could overflow
TILE = 8  # doubles of a cache line
LOG_2 = math.log(2.0)


class Tables(NamedTuple):
    """Linear potentials: start (W,), transition (K, W), transposed (K, W), zero from K to W; log shifts that were taken off."""

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
    start, transition, transposed = np.zeros(width), np.zeros((K, width)), np.zeros((K, width))
    start[:K] = np.exp(log_start - shifts[0])
    transition[:, :K] = np.exp(log_transition - shifts[1])
    transposed[:, :K] = transition[:, :K].T
    return Tables(start, transition, transposed, *shifts)


# ---- the linear domain ---------------------------------------------------------------------------------------------
@kernel
def load_rows(evidence_t, begin, out, out_top):
    """Out (T, W) = exp(evidence - top), padded with 0; out_top (T,) is the largest evidence of each row from `begin` on."""
    K = evidence_t.shape[0]
    T, width = out.shape
    for t in range(T):
        out_top[t] = -np.inf
    for first in range(0, T, TILE):
        last = min(first + TILE, T)
        for k in range(K):
            source = evidence_t[k]
            for t in range(first, last):
                value = source[begin + t]
                out[t, k] = value
                out_top[t] = value if value > out_top[t] else out_top[t]
        for t in range(first, last):
            row = out[t]
            if out_top[t] == -np.inf:  # nothing is possible: -inf less -inf would be NaN
                out_top[t] = 0.0
            for k in range(K, width):
                row[k] = -np.inf
            top = out_top[t]
            for k in range(width):
                row[k] = exp_fast(row[k] - top)


@kernel
def step_rows(message, table, out):
    """Out (W,) = message (K,) @ table (K, W)."""
    K, width = table.shape
    for j in range(width):
        out[j] = 0.0
    i = 0
    while i + 4 <= K:
        a, b, c, d = message[i], message[i + 1], message[i + 2], message[i + 3]
        first, second, third, fourth = table[i], table[i + 1], table[i + 2], table[i + 3]
        for j in range(width):
            out[j] = out[j] + a * first[j] + b * second[j] + c * third[j] + d * fourth[j]
        i += 4
    while i < K:
        a, first = message[i], table[i]
        for j in range(width):
            out[j] += a * first[j]
        i += 1


@kernel
def scale_row(predicted, likelihood, out):
    """Out (W,) = predicted (W,) times likelihood (W,), summing to one. Returns the sum before that."""
    total = 0.0
    for j in range(out.shape[0]):
        total += predicted[j] * likelihood[j]
    inverse = 1.0 / total
    for j in range(out.shape[0]):
        out[j] = predicted[j] * likelihood[j] * inverse if predicted[j] > LOST else 0.0
    return total


@kernel
def forward_rows(predicted, transition, rows, out_filtered, out_scale):
    """p(z_t | x_1 .. x_t) (T, W) and scales (T,) of likelihoods rows (T, W).

    predicted (W,): that of the first row on entry, used up. Returns the number of rows before the first scale that is nearly zero
    or not a number.
    """
    T = rows.shape[0]
    for t in range(T):
        if t > 0:
            step_rows(out_filtered[t - 1], transition, predicted)
        out_scale[t] = scale_row(predicted, rows[t], out_filtered[t])
        if not out_scale[t] > TINY:
            return t
    return T


@kernel
def backward_rows(beta, transposed, rows, scale, filtered, out_beta, out_future):
    """out_beta (T, W): p(x_(t + 1) .. | z_t), scaled; out_future (T, W) = likelihood * beta / scale: what a step into t is worth.

    beta (W,): that of the last row on entry, that of the row before the first on return. It is set to zero where no path leads
    to, since a state that explains many rows far better but cannot be reached would overflow.
    """
    T, width = rows.shape
    for t in range(T - 1, -1, -1):
        keep, future, row, known, inverse = out_beta[t], out_future[t], rows[t], filtered[t], 1.0 / scale[t]
        for j in range(width):
            keep[j] = beta[j] if known[j] > LOST else 0.0
            future[j] = keep[j] * row[j] * inverse
        step_rows(future, transposed, beta)


@kernel
def write_shares(filtered, beta, begin, out):
    """Out (K, n)[:, begin + t] = filtered (T, W)[t] * beta (T, W)[t]."""
    T = filtered.shape[0]
    for first in range(0, T, TILE):
        for k in range(out.shape[0]):
            target = out[k]
            for t in range(first, min(first + TILE, T)):
                target[begin + t] = filtered[t, k] * beta[t, k]


@kernel
def sum_logs(scale, top):
    """Sum of log(scale) + top, both (T,), scales positive: by one product, its exponent counted apart."""
    product, exponent, total = 1.0, np.int64(0), 0.0
    for t in range(scale.shape[0]):
        product *= scale[t]
        total += top[t]
        bits = np.float64(product).view(np.int64)
        exponent += (bits >> 52) - 1023
        product = np.int64((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    return exponent * LOG_2 + math.log(product) + total


@kernel
def filter_rows(evidence_t, start, transition, offsets, out_filtered, out_scale, out_top):
    """`forward_rows` of every sequence: out_filtered (n, W), out_scale (n,), out_top (n,); a bad scale ends its sequence."""
    width = out_filtered.shape[1]
    rows, predicted = np.empty((TILE, width)), np.empty(width)
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        for k in range(width):
            predicted[k] = start[k]
        for t in range(begin, end, TILE):
            last = min(t + TILE, end)
            if t > begin:
                step_rows(out_filtered[t - 1], transition, predicted)
            load_rows(evidence_t, t, rows[: last - t], out_top[t:last])
            good = forward_rows(predicted, transition, rows[: last - t], out_filtered[t:last], out_scale[t:last])
            if good < last - t:
                break


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
