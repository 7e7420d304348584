"""Forward-backward of semi-Markov chains: log evidence in, posteriors and expected counts out.

Vectors run over the states. Work is O(T D K + T K^2) and memory O(T K), for each sequence.
"""

from __future__ import annotations

import math

import numpy as np

from ..chain.collapsed import longest_span
from ..compile import kernel
from ..rows import exp_fast
from ..vectors import EIGHT, load, store
from .messages import load_sequence, scan
from .tables import complete, segment_tables

__all__ = ["smooth_segments"]

MOST = 550.0  # log of a factor below which what is lost of a step does not matter


@kernel
def reach_back(rows, D, out):
    """Out (W,): the least row from which a segment of each state may last to the end."""
    T, width = rows.shape
    for k in range(width):
        t = T
        while t > 0 and T - t < D and rows[t - 1, k] > -np.inf:
            t -= 1
        out[k] = t


@kernel
def close(begun, total, log_last, log_whole, oldest, K):
    """log_z: the sum over all last segments. total (T + 1, W)."""
    T = begun.shape[0]
    top, found = -np.inf, 0.0
    for is_sum in (False, True):
        for k in range(K):
            for s in range(oldest[k], T):
                value = begun[s, k] - total[s, k] + total[T, k]
                value += log_whole[T - 1, k] if s == 0 else log_last[T - s - 1, k]
                if is_sum:
                    found += math.exp(value - top)
                else:
                    top = value if value > top else top
        if top == -np.inf:
            return top
    return top + math.log(found)


@kernel
def count_first(rows, log_start, after, total, logs, K, log_z, weight, oldest, outs):
    """Count first segments, and those that are whole sequences.

    after (T, W) : the backward `begun`; logs : log_first, log_whole. outs : first, whole (D, W),
    and begins (W,), their sum over lengths.
    """
    (T, width), (log_first, log_whole), (first, whole, begins) = rows.shape, logs, outs
    D = log_first.shape[0]
    for k in range(width):
        begins[k] = 0.0
    for k in range(K):
        for d in range(1, min(D, T - 1) + 1):
            if rows[d - 1, k] == -np.inf:
                break
            value = log_start[k] + log_first[d - 1, k] + total[d, k] + after[T - d, k] - log_z
            chance = weight * math.exp(value)
            first[d - 1, k] += chance
            begins[k] += chance
        if oldest[k] == 0:
            chance = weight * math.exp(log_start[k] + log_whole[T - 1, k] + total[T, k] - log_z)
            whole[T - 1, k] += chance
            begins[k] += chance


@kernel
def count_steps(
    ended, after, is_free, log_transition, step_shift, log_z, weight, K, out, past, future
):
    """Past and future (T, W), whose product over rows, times the transitions, are the steps.

    ended : of the forward scan; after : of the backward scan, both (T + 1, W). out (K, K) += what
    is out of their range.
    """
    T, width = past.shape
    for t in range(T):
        is_step = t > 0 and is_free[t]
        top, high = -np.inf, -np.inf
        if is_step:
            for k in range(K):
                top, high = max(top, ended[t, k]), max(high, after[T - t, k])
        factor = top + high + step_shift - log_z
        if not (is_step and factor > -1e300):
            for k in range(width):
                past[t, k] = future[t, k] = 0.0
        elif factor > MOST:
            for k in range(width):
                past[t, k] = future[t, k] = 0.0
            for i in range(K):
                for j in range(K):
                    value = ended[t, i] + log_transition[i, j] + after[T - t, j] - log_z
                    out[i, j] += weight * math.exp(value)
        else:
            scale = weight * math.exp(factor)
            for k in range(0, width, EIGHT):
                store(past, t * width + k, exp_fast(load(ended, t * width + k) - top))
                x = exp_fast(load(after, (T - t) * width + k) - high)
                store(future, t * width + k, scale * x)


@kernel
def write_states(rows, begins, ended, after, log_z, weight, K, begin, out):
    """Out (K, n)[:, begin:] = posteriors of states: segments begun and not yet ended.

    after : the backward `begun`.
    """
    T, width = rows.shape
    here, gone = np.zeros(width), np.zeros(width)
    for t in range(T):
        if t > 0:
            for k in range(0, width, EIGHT):
                value = load(ended, t * width + k) + load(after, (T - t) * width + k) - log_z
                store(gone, k, weight * exp_fast(value))
        total = 0.0
        for k in range(K):
            value = here[k] + begins[t, k] - gone[k]
            here[k] = value if value > 0.0 and rows[t, k] > -np.inf else 0.0
            total += here[k]
        for k in range(K):
            out[k, begin + t] = here[k] * (weight / total)


@kernel
def smooth_sequences(
    evidence_t, offsets, weights, is_free, tables, out_log_z, out_states, out_start, out_steps,
    out_lengths, past, future,
):  # fmt: skip
    """`smooth_segments` of every sequence.

    out_lengths : seen lengths (D, W) of inner, last, first and whole segments, the first two
    without their weights; then inner and last ones with weights.
    """
    K, width, n = evidence_t.shape[0], past.shape[1], longest_span(offsets)
    D = tables.inner.shape[0]
    rows, back, linear, lines = (
        np.empty((n, width)), np.empty((n, width)), np.empty((n, width)), np.empty((5, width))
    )  # fmt: skip
    begun, before, ended = np.empty((n, width)), np.empty((n + 1, width)), np.empty((n + 1, width))
    after, behind, coming = np.empty((n, width)), np.empty((n + 1, width)), np.empty((n + 1, width))
    begins, zeros = np.zeros((n, width)), np.full(width, -np.inf)
    none, oldest = np.empty((0, width)), np.empty(width, dtype=np.int64)
    for k in range(K):
        zeros[k] = 0.0
    steps = tables.shift, tables.transition, tables.log_transition, tables.step_shift
    turned = tables.shift, tables.transposed, tables.log_transposed, tables.step_shift
    ahead = (tables.inner, tables.first, tables.log_inner, tables.log_first, *steps)
    again = (tables.inner, tables.last, tables.log_inner, tables.log_last, *turned)
    inner, last, first, whole, more_inner, more_last = out_lengths
    counts = inner, last, more_inner, more_last
    for s in range(offsets.shape[0] - 1):
        lo, T, weight = offsets[s], offsets[s + 1] - offsets[s], weights[s]
        free = is_free[lo : lo + T] if is_free.shape[0] > 0 else is_free
        shift = load_sequence(evidence_t, lo, rows[:T], back[:T])
        log_z = shift
        if shift > -np.inf:
            scan(
                rows[:T], free, False, tables.start, ahead, (linear[:T], lines), K, none, 0.0, 1.0,
                begun[:T], before, ended, counts, begins[:T],
            )  # fmt: skip
            reach_back(rows[:T], D, oldest)
            log_z = close(begun[:T], before, tables.log_last, tables.log_whole, oldest, K)
            out_log_z[s] = log_z + shift
        else:
            out_log_z[s] = shift
        if not log_z > -np.inf or weight == 0.0:
            for k in range(K):
                for t in range(T):
                    out_states[k, lo + t] = 0.0 if log_z == log_z else np.nan
            for t in range(T):
                for k in range(width):
                    past[lo + t, k] = future[lo + t, k] = 0.0
            continue
        scan(
            back[:T], free, True, zeros, again, (linear[:T], lines), K, begun[:T], log_z, weight,
            after[:T], behind, coming, counts, begins[:T],
        )  # fmt: skip
        logs = tables.log_first, tables.log_whole
        count_first(
            rows[:T], tables.start, after[:T], before, logs, K, log_z, weight, oldest,
            (first, whole, begins[0]),
        )  # fmt: skip
        for k in range(K):
            out_start[k] += begins[0, k]
        count_steps(
            ended, coming, free, tables.log_transition, tables.step_shift, log_z, weight, K,
            out_steps, past[lo : lo + T], future[lo : lo + T],
        )  # fmt: skip
        write_states(rows[:T], begins, ended, after, log_z, weight, K, lo, out_states)


def smooth_segments(
    evidence_t, log_start, log_transition, log_duration, offsets, weights=None, is_free=None, *,
    right_censored=True, left_censored=False, start, transition, duration, out=None,
):  # fmt: skip
    """Forward-backward: posteriors of all rows and expected counts of all sequences.

    Returns log_z (S,) and shares_t (K, n). Adds, weighted, first states to start (K,), steps
    between segments to transition (K, K) and complete lengths to duration (K, D).

    is_free (n,) : whether a segment may begin at a row; None for everywhere
    out : as in `chain/smooth.py`
    """
    K, n, D = len(log_start), evidence_t.shape[1], log_duration.shape[1]
    longest = int(np.diff(offsets).max())
    tables = segment_tables(
        log_start, log_transition, log_duration, longest,
        right_censored=right_censored, left_censored=left_censored,
    )  # fmt: skip
    width, seen = len(tables.start), len(tables.inner)
    weights = np.ones(len(offsets) - 1) if weights is None else np.asarray(weights, dtype=float)
    is_free = np.ones(n, dtype=np.bool_) if is_free is None else is_free
    log_z, past, future = np.empty(len(weights)), np.empty((n, width)), np.empty((n, width))
    states = np.empty(evidence_t.shape) if out is None else out
    lengths = tuple(np.zeros((seen, width)) for _ in range(6))
    steps = np.zeros((K, K))
    smooth_sequences(
        evidence_t, offsets, weights, is_free, tables, log_z, states, start, steps, lengths, past,
        future,
    )  # fmt: skip
    transition += steps + (past[:, :K].T @ future[:, :K]) * tables.transition[:K, :K]
    inner, last, first, whole, more_inner, more_last = lengths
    inner = inner * tables.inner + more_inner
    last = last * tables.last + more_last
    duration += complete(tables, log_duration, inner, first, last, whole)
    return log_z, states
