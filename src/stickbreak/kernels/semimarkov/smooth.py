"""Forward-backward of semi-Markov chains: log evidence in, posteriors and expected counts out.

Vectors run over the states. Work is O(T D K + T K^2) and memory O(T K), for each sequence.
"""

from __future__ import annotations

import math

import numpy as np

from ..chain.smooth import Buffers
from ..compile import kernel
from ..rows import exp_fast
from ..vectors import EIGHT, at_least, fill, larger, load, store
from .messages import Messages, load_sequences, scan_sequences
from .tables import backward, complete, forward, segment_tables

__all__ = ["log_evidence", "scan_forward", "smooth_segments"]

NONE, LOWEST = -np.inf, -1e308  # the log of no weight, and the least of any
MOST = 550.0  # log of a factor below which what is lost of a step does not matter


@kernel
def reach_back(rows, D, out):
    """Out (W,), of floats: the least row from which segments of each state may last to the end."""
    T, width = rows.shape
    for k in range(0, width, EIGHT):
        possible, found = fill(1.0), fill(float(T))
        for t in range(T - 1, max(T - D, 0) - 1, -1):
            possible = at_least(load(rows, t * width + k), LOWEST, possible, 0.0)
            found = found - possible
        store(out, k, found)


@kernel
def close(begun, total, log_last, log_whole, oldest, scratch):
    """log_z: the sum over all last segments. total (T + 1, W), scratch (8,)."""
    (T, width), first, top = begun.shape, begun.shape[0], -np.inf
    high, found = fill(-np.inf), fill(0.0)
    for k in range(width):
        first = min(first, int(oldest[k]))
    for is_sum in (False, True):
        for k in range(0, width, EIGHT):
            after = load(total, T * width + k)
            for s in range(first, T):
                at, seen = s * width + k, (T - s - 1) * width + k
                lasts = load(log_whole, seen) if s == 0 else load(log_last, seen)
                value = load(begun, at) + (after - load(total, at)) + lasts
                value = at_least(fill(float(s)), load(oldest, k), value, NONE)
                if is_sum:
                    found = found + exp_fast(value - top)
                else:
                    high = larger(value, high)
        store(scratch, 0, found if is_sum else high)
        if not is_sum:
            top = scratch.max()
            if top == -np.inf:
                return top
    return top + math.log(scratch.sum())


@kernel
def count_first(rows, log_start, after, total, logs, log_z, weight, oldest, outs):
    """Count first segments, and those that are whole sequences.

    after (T, W) : the backward `begun`; logs : log_first, log_whole. outs : first, whole (D, W),
    and begins (n, W) with the row that it goes to, their sum over lengths.
    """
    (T, width), (log_first, log_whole), (first, whole, begins, at) = rows.shape, logs, outs
    last = min(log_first.shape[0], T - 1)
    for k in range(0, width, EIGHT):
        possible, found = load(log_start, k) - log_z, fill(0.0)
        for d in range(1, last + 1):
            line = (d - 1) * width + k
            possible = at_least(load(rows, line), LOWEST, possible, NONE)
            seen = load(total, d * width + k) + load(after, (T - d) * width + k)
            chance = weight * exp_fast(possible + load(log_first, line) + seen)
            store(first, line, load(first, line) + chance)
            found = found + chance
        store(begins, at * width + k, found)
    for k in range(width):
        if oldest[k] == 0.0:
            chance = weight * math.exp(log_start[k] + log_whole[T - 1, k] + total[T, k] - log_z)
            whole[T - 1, k] += chance
            begins[at, k] += chance


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
def close_sequences(rows, offsets, messages, log_last, log_whole, out_log_z):
    """out_log_z (S,) += the sum over all last segments, where it is finite."""
    D, oldest, scratch = log_last.shape[0], np.empty(rows.shape[1]), np.empty(EIGHT)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if out_log_z[s] > -np.inf:
            reach_back(rows[lo:hi], D, oldest)
            begun, total = messages.begun[lo + s : hi + s], messages.total[lo + s : hi + s + 1]
            out_log_z[s] += close(begun, total, log_last, log_whole, oldest, scratch)


@kernel
def count_sequences(
    rows, offsets, weights, is_free, tables, log_z, ahead, behind, begins, out_start, out_steps,
    outs, past, future, out_states,
):  # fmt: skip
    """Posteriors of states, starts, steps and first segments; see `smooth_segments`.

    log_z (S,) : of the shifted rows. ahead, behind : Messages forward and backward
    begins (n, W) : posterior that a segment begins at each row but the first. outs : see `_smooth`
    """
    K, D, oldest = out_steps.shape[0], tables.inner.shape[0], np.empty(rows.shape[1])
    for s in range(offsets.shape[0] - 1):
        lo, hi, weight = offsets[s], offsets[s + 1], weights[s]
        at, stop = lo + s, hi + s + 1
        if weight > 0.0 and log_z[s] > -np.inf:
            reach_back(rows[lo:hi], D, oldest)
            ended, coming, after = (
                ahead.ended[at:stop],
                behind.ended[at:stop],
                behind.begun[at:stop],
            )
            count_first(
                rows[lo:hi], tables.start, after, ahead.total[at:stop],
                (tables.log_first, tables.log_whole), log_z[s], weight, oldest,
                (outs[2], outs[3], begins, lo),
            )  # fmt: skip
            for k in range(K):
                out_start[k] += begins[lo, k]
            count_steps(
                ended, coming, is_free[lo:hi], tables.log_transition, tables.step_shift, log_z[s],
                weight, K, out_steps, past[lo:hi], future[lo:hi],
            )  # fmt: skip
            write_states(
                rows[lo:hi], begins[lo:hi], ended, after, log_z[s], weight, K, lo, out_states
            )
        else:
            for t in range(lo, hi):
                for k in range(K):
                    out_states[k, t] = 0.0 if log_z[s] == log_z[s] else np.nan
                for k in range(rows.shape[1]):
                    past[t, k] = future[t, k] = 0.0


def scan_forward(evidence_t, tables, offsets, is_free, buffers=None):
    """Rows (n, W), Messages forward, the log evidence (S,) that was taken out of the rows."""
    (K, n), n_units, width = evidence_t.shape, len(offsets) - 1, len(tables.start)
    buffers = Buffers() if buffers is None else buffers
    shift, none = np.empty(n_units), np.empty((0, width))
    rows = buffers.take("segment rows", n, width)
    load_sequences(evidence_t, offsets, rows, shift)
    found = take_messages("ahead", n + n_units, width, buffers)
    scan_sequences(
        rows, offsets, is_free, forward(tables), K, none, shift, np.ones(n_units), found,
        (none, none, none, none), none,
    )  # fmt: skip
    return rows, found, shift


def take_messages(name, n_lines, width, buffers):
    """Room for messages."""
    parts = ("begun", "total", "ended")
    return Messages(*(buffers.take(f"{name} {part}", n_lines, width) for part in parts))


def log_evidence(rows, messages, tables, offsets, shift):
    """log_z (S,) of the rows, whose evidence had `shift` taken out."""
    log_z = np.where(np.isfinite(shift), 0.0, shift)
    close_sequences(rows, offsets, messages, tables.log_last, tables.log_whole, log_z)
    return log_z


def smooth_segments(
    evidence_t, log_start, log_transition, log_duration, offsets, weights=None, is_free=None, *,
    right_censored=True, left_censored=False, start, transition, duration, out=None, buffers=None,
):  # fmt: skip
    """Forward-backward: posteriors of all rows and expected counts of all sequences.

    Returns log_z (S,) and shares_t (K, n). Adds, weighted, first states to start (K,), steps
    between segments to transition (K, K) and complete lengths to duration (K, D).

    is_free (n,) : whether a segment may begin at a row; None for everywhere
    out, buffers : as in `chain/smooth.py`
    """
    buffers = Buffers() if buffers is None else buffers
    (K, n), n_units = evidence_t.shape, len(offsets) - 1
    tables = segment_tables(
        log_start, log_transition, log_duration, int(np.diff(offsets).max()),
        right_censored=right_censored, left_censored=left_censored,
    )  # fmt: skip
    width = len(tables.start)
    weights = np.ones(n_units) if weights is None else np.asarray(weights, dtype=float)
    is_free = np.ones(n, dtype=np.bool_) if is_free is None else is_free
    rows, ahead, shift = scan_forward(evidence_t, tables, offsets, is_free, buffers)
    log_z = log_evidence(rows, ahead, tables, offsets, shift)
    behind = take_messages("behind", n + n_units, width, buffers)
    # seen lengths of inner, last, first and whole segments, then inner and last ones with weights
    lengths = tuple(np.zeros((len(tables.inner), width)) for _ in range(6))
    inner, last, first, whole, more_inner, more_last = lengths
    begins = buffers.take("begins", n, width)
    scan_sequences(
        rows, offsets, is_free, backward(tables), K, ahead.begun, log_z, weights, behind,
        (inner, last, more_inner, more_last), begins,
    )  # fmt: skip
    past, future = (buffers.take(f"segment {name}", n, width) for name in ("past", "future"))
    steps = np.zeros((K, K))
    states = np.empty(evidence_t.shape) if out is None else out
    count_sequences(
        rows, offsets, weights, is_free, tables, log_z, ahead, behind, begins, start, steps,
        lengths, past, future, states,
    )  # fmt: skip
    transition += steps + (past[:, :K].T @ future[:, :K]) * tables.transition[:K, :K]
    inner = inner * tables.inner + more_inner
    last = last * tables.last + more_last
    duration += complete(tables, log_duration, inner, first, last, whole)
    return log_z + shift, states


def segments_log_z(
    evidence_t, log_start, log_transition, log_duration, offsets, is_free=None, *,
    right_censored=True, left_censored=False,
):  # fmt: skip
    """log_z (S,) alone; arguments as in `smooth_segments`."""
    tables = segment_tables(
        log_start, log_transition, log_duration, int(np.diff(offsets).max()),
        right_censored=right_censored, left_censored=left_censored,
    )  # fmt: skip
    is_free = np.ones(evidence_t.shape[1], dtype=np.bool_) if is_free is None else is_free
    rows, ahead, shift = scan_forward(evidence_t, tables, offsets, is_free)
    return shift + log_evidence(rows, ahead, tables, offsets, shift)
