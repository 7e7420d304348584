"""Forward-backward of Markov chains: log evidence in, posteriors and expected counts out.

Conventions of all chain kernels. Sequences are stacked: sequence s has rows offsets[s] to offsets[s + 1] - 1, at least one.
evidence_t (K, n), log_start (K,) and log_transition (K, K), from row to column, are logarithms of any scale; -inf is impossible.
Recursions run in the linear domain, every row scaled. A sequence whose scale comes out as (nearly) zero, because the states that
it can be in lie hundreds of nats below the best of a row, is done again in the log domain. A sequence without a possible path has
log_z = -inf and no counts; one with NaN in its evidence has log_z = NaN and no counts. Others are not touched by it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .rows import exp_fast

__all__ = ["Tables", "filter_rows", "linear_tables", "log_backward", "log_forward", "log_sums", "smooth", "smooth_in_logs"]

TINY = 1e-260  # a smaller scale is mistrusted: what exp_fast set to zero (1e-308) could be more than rounding of it
LOST = 1e-300  # filtered probability below which a state counts as unreachable: its scaled beta could overflow
TILE = 8  # doubles of a cache line
CHUNK = 256  # rows of a chain between two matrix products for its counts
LOG_2 = math.log(2.0)


class Tables(NamedTuple):
    """Linear potentials: start (W,), transition (K, W), transposed (K, W), zero from K to W; log shifts that were taken off."""

    start: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    start_shift: float
    step_shift: float


def linear_tables(log_start, log_transition):
    """Tables whose largest entries are 1, with rows padded to whole cache lines."""
    K = len(log_start)
    width = -(-K // TILE) * TILE
    shifts = [float(top) if np.isfinite(top) else 0.0 for top in (log_start.max(), log_transition.max())]
    start, transition, transposed = np.zeros(width), np.zeros((K, width)), np.zeros((K, width))
    start[:K] = np.exp(log_start - shifts[0])
    transition[:, :K] = np.exp(log_transition - shifts[1])
    transposed[:, :K] = transition[:, :K].T
    return Tables(start, transition, transposed, *shifts)


# ---- one sequence after the other, rows (n, W) ---------------------------------------------------------------------
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
def step_forward(message, table, out):
    """Out (W,) = message (K,) @ table (K, W), summed from the first state to the last."""
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
def scale_row(row, likelihood):
    """In place: row (W,) times likelihood (W,), summing to one. Returns the sum before that."""
    for j in range(row.shape[0]):
        row[j] *= likelihood[j]
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j]
    inverse = 1.0 / total
    for j in range(row.shape[0]):
        row[j] *= inverse
    return total


@kernel
def forward_rows(predicted, transition, rows, out_filtered, out_scale):
    """p(z_t | x_1 .. x_t) (T, W) and scales (T,) of likelihoods rows (T, W), from the prediction (W,) of the first row.

    Returns the row after the last one that is good: T, or that of the first scale that is nearly zero or not a number.
    """
    T, width = rows.shape
    for t in range(T):
        current = out_filtered[t]
        if t == 0:
            for j in range(width):
                current[j] = predicted[j]
        else:
            step_forward(out_filtered[t - 1], transition, current)
        total = scale_row(current, rows[t])
        out_scale[t] = total
        if not total > TINY:
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
        step_forward(future, transposed, beta)


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
def sum_logs(scale):
    """Sum of logarithms of scale (T,), which are positive: by one product, its exponent counted apart."""
    product, exponent = 1.0, np.int64(0)
    for t in range(scale.shape[0]):
        product *= scale[t]
        bits = np.float64(product).view(np.int64)
        exponent += (bits >> 52) - 1023
        product = np.int64((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    return exponent * LOG_2 + math.log(product)


@kernel
def filter_rows(evidence_t, start, transition, offsets, out_filtered, out_scale, out_top):
    """`forward_rows` of every sequence: out_filtered (n, W), out_scale (n,), out_top (n,); a bad scale ends its sequence."""
    rows = np.empty((TILE, out_filtered.shape[1]))
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        for t in range(begin, end, TILE):
            last = min(t + TILE, end)
            load_rows(evidence_t, t, rows[: last - t], out_top[t:last])
            if t == begin:
                predicted = start
            else:
                predicted = np.empty(out_filtered.shape[1])
                step_forward(out_filtered[t - 1], transition, predicted)
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


def smooth_in_logs(evidence_t, log_start, log_transition, weight, shares_t, start, transition):
    """log_z of one sequence, evidence_t (K, T); writes shares_t (K, T), adds to start (K,) and transition (K, K)."""
    evidence_t = np.ascontiguousarray(evidence_t)
    K, T = evidence_t.shape
    forward, beta, future = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    log_forward(log_start, log_transition, evidence_t, forward)
    log_z = float(log_sums(forward[-1:])[0])
    if not np.isfinite(log_z):
        shares_t[:] = 0.0 if log_z == -np.inf else np.nan
        return log_z
    log_backward(np.zeros(K), log_transition, evidence_t, beta, future)
    shares_t[:] = weight * np.exp(forward + beta - log_z).T
    start += shares_t[:, 0]
    add_log_steps(forward[:-1], log_transition, future[1:], log_z, weight, transition)
    return log_z


# ---- all sequences -------------------------------------------------------------------------------------------------
def smooth(evidence_t, log_start, log_transition, offsets, weights=None, *, start, transition):
    """Forward-backward: posteriors of all rows and expected counts of all sequences.

    Returns log_z (S,) and shares_t (K, n): posteriors times the weight of their sequence; its transpose is what families collect.
    Adds, weighted, p(z_1) to start (K,) and the sum over steps of p(z_t, z_(t + 1)) to transition (K, K).
    """
    K, n = evidence_t.shape
    tables = linear_tables(log_start, log_transition)
    log_z, shares_t = np.empty(len(offsets) - 1), np.empty((K, n))
    for s in range(len(offsets) - 1):
        begin, end = int(offsets[s]), int(offsets[s + 1])
        weight = 1.0 if weights is None else float(weights[s])
        log_z[s] = _smooth_one(evidence_t, begin, end, tables, weight, shares_t, start, transition)
        if log_z[s] == -np.inf:
            rows = slice(begin, end)
            log_z[s] = smooth_in_logs(evidence_t[:, rows], log_start, log_transition, weight, shares_t[:, rows], start, transition)
        elif np.isnan(log_z[s]):
            shares_t[:, begin:end] = np.nan
    return log_z, shares_t


def _smooth_one(evidence_t, begin, end, tables, weight, shares_t, start, transition):
    """One sequence in the linear domain; -inf if a scale is nearly zero, NaN if one is not a number: then nothing is added."""
    K, T, width = len(evidence_t), end - begin, len(tables.start)
    rows, filtered, top, scale = np.empty((T, width)), np.empty((T, width)), np.empty(T), np.empty(T)
    load_rows(evidence_t, begin, rows, top)
    good = forward_rows(tables.start, tables.transition, rows, filtered, scale)
    if good < T:
        return -np.inf if scale[good] <= TINY else np.nan
    beta, betas, futures = np.full(width, weight), np.empty((CHUNK, width)), np.empty((CHUNK, width))
    steps = np.zeros((width, width))
    for last in range(T, 0, -CHUNK):
        first = max(last - CHUNK, 0)
        future = futures[: last - first]
        backward_rows(beta, tables.transposed, rows[first:last], scale[first:last], filtered[first:last], betas, future)
        write_shares(filtered[first:last], betas, begin + first, shares_t)
        before = max(first - 1, 0)
        steps += filtered[before : last - 1].T @ future[before + 1 - first :]
    start += shares_t[:, begin]
    transition += steps[:K, :K] * tables.transition[:, :K]
    return sum_logs(scale) + top.sum() + tables.start_shift + (T - 1) * tables.step_shift
