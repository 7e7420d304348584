"""One span of a chain under predictive tables: posteriors, expected steps and entropy of its path.

What collapsed sweeps do for every sequence, or block of one. Tables are (W, W), linear, padded with
zeros from K to W, a multiple of eight. They are made anew for every span, from the counts of all
others:

    theta_jk  =  (counts_jk + pseudo_jk) / (sum_k (counts_jk + pseudo_jk) + rest_j).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..gamma import log_fast
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
from .single import (
    LOWEST_TOP,
    add_log_steps,
    backward_rows,
    forward_rows,
    log_backward,
    log_forward,
    log_sums,
    sum_logs,
)

__all__ = [
    "Span", "add_line", "infer_evidence", "infer_span", "keep_line", "log_of", "make_span",
    "predict_line", "predict_lines",
]  # fmt: skip

TINY = 1e-300  # weights below it are worth nothing to the entropy
LEAST = 5e-324  # prior counts below it are zero: impossible


class Span(NamedTuple):
    """Scratch for spans of at most T rows.

    start (W,), transition, transposed (W, W) : predictive tables
    rows (T, W) : likelihoods; weights, shares, futures (T, W) : messages, of which shares are the
        posteriors in the end
    steps (W, W) : expected steps; message (W,); scale, none (T,) : scales of the rows, and zeros
    log_z (1,) : NaN; if not, weights and futures are logs, and this is their normalizer
    """

    start: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    shares: np.ndarray
    futures: np.ndarray
    steps: np.ndarray
    message: np.ndarray
    scale: np.ndarray
    none: np.ndarray
    log_z: np.ndarray


@kernel
def make_span(longest, width):
    """Scratch for spans of at most `longest` rows."""
    return Span(
        np.zeros(width),
        np.zeros((width, width)),
        np.zeros((width, width)),
        np.zeros((longest, width)),
        np.zeros((longest, width)),
        np.zeros((longest, width)),
        np.zeros((longest, width)),
        np.zeros((width, width)),
        np.zeros(width),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(1),
    )


@kernel
def add_line(own, at, n, sign, counts, to):
    """Counts[to:] += sign * own[at:], n numbers of flat arrays."""
    for k in range(0, n - n % EIGHT, EIGHT):
        store(counts, to + k, fma(load(own, at + k), sign, load(counts, to + k)))
    for k in range(n - n % EIGHT, n):
        counts[to + k] += sign * own[at + k]


@kernel
def keep_line(found, at, n, own, to):
    """own[to:] = found[at:], n numbers of flat arrays, rounded as own counts are kept."""
    for k in range(0, n - n % EIGHT, EIGHT):
        store(own, to + k, load(found, at + k))
    for k in range(n - n % EIGHT, n):
        own[to + k] = found[at + k]


@kernel
def predict_line(counts, pseudo, rest, at, width, out):
    """Out[at:], W numbers, = predictive of counts[at:] and pseudo[at:]; `rest` is unused mass."""
    total = fill(0.0)
    for k in range(at, at + width, EIGHT):
        prior = load(pseudo, k)
        value = at_least(prior, LEAST, larger(load(counts, k), 0.0) + prior, 0.0)
        store(out, k, value)
        total = total + value
    inverse = 1.0 / (first_four(total) + last_four(total) + rest)
    for k in range(at, at + width, EIGHT):
        store(out, k, load(out, k) * inverse)


@kernel
def predict_lines(counts, pseudo, rest, K, out, transposed):
    """Out (W, W) = predictives of the first K lines, and their transpose."""
    width = counts.shape[1]
    for i in range(K):
        predict_line(counts, pseudo, rest[i], i * width, width, out)
    for i in range(0, width, EIGHT):
        for j in range(0, width, EIGHT):
            turn(out, i * width + j, width, transposed, j * width + i, width)


@kernel
def four_steps(weights, futures, T, width, i, j):
    """Sums over t of weights[t - 1, i], and i + 1, times futures[t, j:] and [j + 8:]."""
    a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    for t in range(1, T):
        at, to = (t - 1) * width + i, t * width + j
        x, y, left, right = (
            spread(weights, at),
            spread(weights, at + 1),
            load(futures, to),
            load(futures, to + EIGHT),
        )
        a, b, c, d = fma(x, left, a), fma(x, right, b), fma(y, left, c), fma(y, right, d)
    return a, b, c, d


@kernel
def count_steps(weights, futures, T, K, table, out):
    """Out (W, W) = sum over t of weights[t - 1] (x) futures[t], times table (W, W)."""
    width = table.shape[1]
    for i in range(0, K, 2):
        upper, lower = i * width, (i + 1) * width
        for j in range(0, width, 2 * EIGHT):
            column = max(min(j, width - 2 * EIGHT), 0)
            if width == EIGHT:
                a, c = fill(0.0), fill(0.0)
                for t in range(1, T):
                    at, left = (t - 1) * width + i, load(futures, t * width)
                    a = fma(spread(weights, at), left, a)
                    c = fma(spread(weights, at + 1), left, c)
                store(out, upper, a * load(table, upper))
                store(out, lower, c * load(table, lower))
            else:
                a, b, c, d = four_steps(weights, futures, T, width, i, column)
                store(out, upper + column, a * load(table, upper + column))
                store(out, upper + column + EIGHT, b * load(table, upper + column + EIGHT))
                store(out, lower + column, c * load(table, lower + column))
                store(out, lower + column + EIGHT, d * load(table, lower + column + EIGHT))


@kernel
def paired(weights, values, n):
    """Sum of weights * log(values) over the first n numbers of both, a multiple of eight."""
    total = fill(0.0)
    for k in range(0, n, EIGHT):
        total = fma(load(weights, k), log_fast(larger(load(values, k), TINY)), total)
    return first_four(total) + last_four(total)


@kernel
def infer_in_logs(span, evidence, K, T):
    """As `infer_span`, in the log domain, evidence (T, K): exact but slow. -inf if no path."""
    width, evidence_t, forward = span.start.shape[0], np.empty((K, T)), np.empty((T, K))
    log_start, log_transition = np.empty(K), np.empty((K, K))
    for i in range(K):
        log_start[i] = log_of(span.start[i])
        for j in range(K):
            log_transition[i, j] = log_of(span.transition[i, j])
        for t in range(T):
            evidence_t[i, t] = evidence[t, i]
    log_forward(log_start, log_transition, evidence_t, forward)
    log_z = log_sums(forward[T - 1 :])[0]
    if not abs(log_z) < np.inf:
        return -np.inf
    beta, future, steps = np.empty((T, K)), np.empty((T, K)), np.zeros((K, K))
    log_backward(np.zeros(K), log_transition, evidence_t, beta, future)
    add_log_steps(forward[: T - 1], log_transition, future[1:], log_z, 1.0, steps)
    for t in range(T):
        for k in range(width):
            span.shares[t, k] = math.exp(forward[t, k] + beta[t, k] - log_z) if k < K else 0.0
        for k in range(K):
            span.weights[t, k], span.futures[t, k] = forward[t, k], future[t, k]
    for i in range(K):
        for j in range(width):
            span.steps[i, j] = steps[i, j] if j < K else 0.0
    span.log_z[0] = log_z
    return log_z


@kernel
def log_of(x):
    """Log x, -inf for 0."""
    return math.log(x) if x > 0.0 else -np.inf


@kernel
def infer_linear(span, K, T):
    """Posterior of T rows in the linear domain; returns log_z, NaN if a scale fails."""
    width, message = span.start.shape[0], span.message
    rows, weights, scale = span.rows[:T], span.weights[:T], span.scale[:T]
    for k in range(0, width, EIGHT):
        store(message, k, load(span.start, k))
    span.log_z[0] = np.nan
    if forward_rows(message, K, span.transition, rows, weights, scale) < T:
        return math.nan
    for k in range(0, width, EIGHT):
        store(message, k, fill(1.0 / scale[T - 1]))
    backward_rows(
        message, K, span.transposed, rows, weights, scale, 0, T, span.shares, span.futures
    )
    for at in range(0, T * width, EIGHT):
        store(span.shares, at, load(span.weights, at) * load(span.shares, at))
    count_steps(span.weights, span.futures, T, K, span.transition, span.steps)
    return sum_logs(scale, span.none[:T])


@kernel
def pair_tables(span, K, T):
    """<log potentials, counts> of start and steps."""
    width = span.start.shape[0]
    found = paired(span.shares, span.start, width)
    return found + paired(span.steps, span.transition, K * width) if T > 1 else found


@kernel
def infer_span(span, K, T, is_measured):
    """Posterior of T rows. Sets span.shares and span.steps; returns log_z and the path's entropy.

    log_z is -inf if no path is possible; the entropy is 0 if it is not measured.
    """
    log_z = infer_linear(span, K, T)
    if log_z != log_z:
        evidence = np.empty((T, K))
        for t in range(T):
            for k in range(K):
                evidence[t, k] = log_of(span.rows[t, k])
        log_z = infer_in_logs(span, evidence, K, T)
    if log_z == -np.inf or not is_measured:
        return log_z, 0.0
    pairing = pair_tables(span, K, T) + paired(span.shares, span.rows, T * span.start.shape[0])
    return log_z, log_z - pairing


@kernel
def infer_evidence(span, evidence, K, T, is_measured):
    """As `infer_span`, for log evidence (T, K), whatever its range."""
    tops = 0.0
    for t in range(T):
        top = -np.inf
        for k in range(K):
            top = max(top, evidence[t, k])
        top = top if top >= LOWEST_TOP else 0.0  # nothing is possible
        for k in range(K):
            span.rows[t, k] = exp_fast(evidence[t, k] - top)
        tops += top
    log_z = infer_linear(span, K, T) + tops
    if log_z != log_z:
        log_z = infer_in_logs(span, evidence, K, T)
    if log_z == -np.inf or not is_measured:
        return log_z, 0.0
    pairing = pair_tables(span, K, T)
    for t in range(T):
        for k in range(K):
            if span.shares[t, k] > 0.0:
                pairing += span.shares[t, k] * evidence[t, k]
    return log_z, log_z - pairing
