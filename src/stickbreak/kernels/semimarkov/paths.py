"""Segmentations of semi-Markov chains: the best one, random ones, and filtering by the rows before.

Arguments as in `smooth.py`. The first and last segments may be cut: their complete lengths come
with the path.
"""

from __future__ import annotations

import math

import numpy as np

from ..chain.collapsed import longest_span
from ..compile import kernel
from ..draws import GOLDEN, uniform_of
from ..vectors import EIGHT, fill, larger, load, store
from .messages import load_sequences, log_sum_ended
from .smooth import log_evidence, scan_forward
from .tables import segment_tables

__all__ = ["best_segments", "draw_segments", "filter_segments"]


# ---- the best segmentation -----------------------------------------------------------------------
@kernel
def best_length(kept, log_inner, log_edge, end, first, k):
    """The start of state k's best segment that ends before row `end`; the longest of equals."""
    best, top = -1, -np.inf
    for s in range(first, end):
        value = kept[s, k] + (log_edge[end - 1, k] if s == 0 else log_inner[end - s - 1, k])
        if value > top:
            best, top = s, value
    return best, top


@kernel
def scan_best(rows, is_free, log_open, tables, K, kept, total, oldest):
    """As `scan` forward, with the best segment in place of all; kept (T, W) is begun - total.

    oldest (T + 1, W) : the least row that a segment which ends there may begin at.
    """
    log_inner, log_edge, log_transition = tables
    (T, width), D = rows.shape, log_inner.shape[0]
    ended = np.full(width, -np.inf)
    for k in range(width):
        total[0, k], oldest[0, k] = 0.0, 0
    for t in range(T):
        for k in range(K):
            value = log_open[k]
            if t > 0:
                value = -np.inf
                if is_free[t]:
                    for i in range(K):
                        value = max(value, ended[i] + log_transition[i, k])
            kept[t, k] = value - total[t, k]
        for k in range(K, width):
            kept[t, k] = -np.inf
        end = t + 1
        for k in range(width):
            value = rows[t, k]
            is_barred = value == -np.inf
            oldest[end, k] = end if is_barred else max(oldest[t, k], end - D)
            total[end, k] = total[t, k] + (0.0 if is_barred else value)
        if end == T:
            break
        best_sums(kept, log_inner, log_edge, end, max(0, end - D), ended)
        for k in range(K):
            if oldest[end, k] > max(0, end - D):  # not all starts are in reach
                ended[k] = best_length(kept, log_inner, log_edge, end, oldest[end, k], k)[1]
            ended[k] += total[end, k]


@kernel
def best_sums(kept, log_inner, log_edge, end, first, out):
    """Out (W,) = the largest kept[s] + log weight of the length end - s, over s from `first`."""
    width = log_inner.shape[1]
    for at in range(0, width, EIGHT):
        a, b = fill(-np.inf), fill(-np.inf)
        s, low = end - 1, max(first, 1)
        while s - 1 >= low:
            x, y = s * width + at, (end - s - 1) * width + at
            a = larger(load(kept, x) + load(log_inner, y), a)
            b = larger(load(kept, x - width) + load(log_inner, y + width), b)
            s -= 2
        if s >= low:
            a = larger(load(kept, s * width + at) + load(log_inner, (end - s - 1) * width + at), a)
        if first == 0:
            b = larger(load(kept, at) + load(log_edge, (end - 1) * width + at), b)
        store(out, at, larger(a, b))


@kernel
def trace_back(kept, total, oldest, tables, log_last, log_whole, K, out_path):
    """The best path (T,) and its log weight."""
    log_inner, log_edge, log_transition = tables
    T, state, begin, top = out_path.shape[0], 0, -1, -np.inf
    for k in range(K):
        s, value = best_length(kept, log_last, log_whole, T, oldest[T, k], k)
        if value + total[T, k] > top:
            state, begin, top = k, s, value + total[T, k]
    end = T
    while begin >= 0:
        for t in range(begin, end):
            out_path[t] = state
        if begin == 0:
            break
        end, wanted, best, start = begin, -np.inf, -1, -1
        for i in range(K):
            s, value = best_length(kept, log_inner, log_edge, end, oldest[end, i], i)
            value += total[end, i] + log_transition[i, state]
            if value > wanted:
                wanted, best, start = value, i, s
        state, begin = best, start
    return top


@kernel
def best_sequences(rows, offsets, is_free, tables, K, out_path, out_value):
    """`best_segments` of every sequence; out_value (S,) holds the shift of its rows."""
    n, width = longest_span(offsets), rows.shape[1]
    kept, total = np.empty((n, width)), np.empty((n + 1, width))
    oldest = np.empty((n + 1, width), dtype=np.int64)
    logs = tables.log_inner, tables.log_first, tables.log_transition
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        for t in range(lo, hi):
            out_path[t] = 0
        if out_value[s] > -np.inf:
            scan_best(rows[lo:hi], is_free[lo:hi], tables.start, logs, K, kept, total, oldest)
            out_value[s] += trace_back(
                kept, total, oldest, logs, tables.log_last, tables.log_whole, K, out_path[lo:hi]
            )


# ---- random segmentations ------------------------------------------------------------------------
@kernel
def choose_log(weights, size, uniform):
    """An index below `size`, drawn by exp(weights); -1 if all are -inf."""
    top, total, reached, last = -np.inf, 0.0, 0.0, -1
    for i in range(size):
        top = weights[i] if weights[i] > top else top
    if top == -np.inf:
        return -1
    for i in range(size):
        total += math.exp(weights[i] - top)
    for i in range(size):
        if weights[i] > -np.inf:
            x = math.exp(weights[i] - top)
            last = i if x > 0.0 else last
            reached += x
            if reached > uniform * total:
                break
    return last


@kernel
def draw_length(begun, total, log_inner, log_edge, end, first, k, uniform, scratch):
    """The begin of state k's segment that ends before row `end`, drawn."""
    for s in range(first, end):
        scratch[s - first] = begun[s, k] - total[s, k]
        scratch[s - first] += log_edge[end - 1, k] if s == 0 else log_inner[end - s - 1, k]
    return first + choose_log(scratch, end - first, uniform)


@kernel
def draw_back(rows, begun, total, ended, tables, K, uniforms, scratch, out_path):
    """A segmentation, last segment first. Row `end` - 1 has two random numbers for its segment."""
    T, D, state = rows.shape[0], tables.inner.shape[0], -1
    end = T
    while end > 0:
        seed = np.uint64(uniforms[end - 1] * 2.0**53)
        if end == T:
            for k in range(K):
                first = barrier(rows, end, D, k)
                scratch[k] = log_sum_ended(
                    begun, total, tables.log_last, tables.log_whole, end, first, k
                )[0]
        else:
            for k in range(K):
                scratch[k] = ended[end, k] + tables.log_transition[k, state]
        state = choose_log(scratch, K, uniform_of(seed + GOLDEN))
        if state < 0:
            return
        first = barrier(rows, end, D, state)
        logs = (tables.log_inner, tables.log_first)
        if end == T:
            logs = (tables.log_last, tables.log_whole)
        uniform = uniform_of(seed + GOLDEN + GOLDEN)
        begin = draw_length(begun, total, logs[0], logs[1], end, first, state, uniform, scratch)
        for t in range(begin, end):
            out_path[t] = state
        end = begin


@kernel
def barrier(rows, end, D, k):
    """The least row that state k's segment which ends before row `end` may begin at."""
    t = end
    while t > 0 and end - t < D and rows[t - 1, k] > -np.inf:
        t -= 1
    return t


@kernel
def draw_sequences(rows, offsets, messages, tables, K, log_z, uniforms, out_path):
    """`draw_segments` of every sequence that is possible."""
    scratch = np.empty(max(longest_span(offsets), K))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        at, stop = lo + s, hi + s + 1
        for t in range(lo, hi):
            out_path[t] = 0
        if log_z[s] > -np.inf:
            draw_back(
                rows[lo:hi], messages.begun[at:stop], messages.total[at:stop],
                messages.ended[at:stop], tables, K, uniforms[lo:hi], scratch, out_path[lo:hi],
            )  # fmt: skip


# ---- complete lengths of segments that are cut ---------------------------------------------------
@kernel
def draw_complete(log_duration, k, seen, is_left, is_both, uniform, scratch):
    """A complete length of state k's segment of which `seen` rows are seen."""
    D = log_duration.shape[1]
    for d in range(seen, D + 1):
        value = log_duration[k, d - 1]
        if is_left or is_both:
            value -= math.log(d)
        if is_both:
            value += math.log(d - seen + 1.0)
        scratch[d - seen] = value
    return seen + choose_log(scratch, D - seen + 1, uniform)


@kernel
def complete_ends(path, offsets, log_duration, right, left, is_best, uniforms, out_first, out_last):
    """out_first, out_last (S,): complete lengths of the first and last segment of every path.

    They are drawn, or the best ones; equal to the seen ones where nothing is cut. A path of one
    segment has the same in both.
    """
    scratch = np.empty(log_duration.shape[1] + 1)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        head, tail = lo + 1, hi - 1
        while head < hi and path[head] == path[lo]:
            head += 1
        while tail > lo and path[tail - 1] == path[hi - 1]:
            tail -= 1
        is_one = head == hi
        for is_end in range(2):
            seen = hi - tail if is_end else head - lo
            k = path[hi - 1] if is_end else path[lo]
            is_left = left and (not is_end or is_one)
            is_right = right and (is_end or is_one)
            length = seen
            if (is_left or is_right) and is_best:
                top = -np.inf
                for d in range(seen, log_duration.shape[1] + 1):
                    value = log_duration[k, d - 1] - (math.log(d) if is_left else 0.0)
                    if value > top:
                        length, top = d, value
            elif is_left or is_right:
                seed = np.uint64(uniforms[hi - 1 if is_one or is_end else lo] * 2.0**53)
                uniform = uniform_of(seed + GOLDEN * np.uint64(3 if is_one or is_end else 4))
                is_both = is_left and is_right
                length = draw_complete(log_duration, k, seen, is_left, is_both, uniform, scratch)
            if is_end:
                out_last[s] = length
            else:
                out_first[s] = length


# ---- filtering -----------------------------------------------------------------------------------
@kernel
def filter_sequences(
    evidence_t, rows, offsets, messages, tables, ends, shift, out_shares, out_step
):
    """`filter_segments` of every sequence; ends : log_last and log_whole of the last row."""
    K, D = evidence_t.shape[0], tables.inner.shape[0]
    here = np.empty(K)
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        begun, total = messages.begun[lo + s : hi + s], messages.total[lo + s : hi + s + 1]
        before = 0.0
        for t in range(hi - lo):
            if shift[s] != shift[s] or before == -np.inf:  # nothing follows an impossible row
                for k in range(K):
                    out_shares[lo + t, k] = 0.0 if shift[s] == shift[s] else np.nan
                out_step[lo + t] = -np.inf if shift[s] == shift[s] else np.nan
                continue
            logs, top, high, found = (tables.log_last, tables.log_whole), -np.inf, -np.inf, 0.0
            if t == hi - lo - 1:
                logs = ends
            for k in range(K):
                high = max(high, evidence_t[k, lo + t])
                here[k] = -np.inf
            if high > -np.inf:
                for k in range(K):
                    first = barrier(rows[lo:hi], t + 1, D, k)
                    here[k] = log_sum_ended(begun, total, logs[0], logs[1], t + 1, first, k)[0]
                    top = max(top, here[k])
            for k in range(K):
                out_shares[lo + t, k] = math.exp(here[k] - top) if top > -np.inf else 0.0
                found += out_shares[lo + t, k]
            if top > -np.inf:
                for k in range(K):
                    out_shares[lo + t, k] /= found
                top += math.log(found)
            out_step[lo + t] = top - before + high
            before = top


# ---- for Python ----------------------------------------------------------------------------------
def _prepared(log_start, log_transition, log_duration, offsets, is_free, censoring, is_best=False):
    """Tables, and where segments may begin."""
    longest = int(np.diff(offsets).max())
    tables = segment_tables(
        log_start, log_transition, log_duration, longest, is_best=is_best, **censoring
    )
    return tables, np.ones(int(offsets[-1]), dtype=np.bool_) if is_free is None else is_free


def best_segments(
    evidence_t, log_start, log_transition, log_duration, offsets, is_free=None, *,
    right_censored=True, left_censored=False,
):  # fmt: skip
    """Most probable path (n,) of each sequence and its log weight (S,), with its first and last
    segments' complete lengths (S,), which are the best ones.

    The weight is -inf if no path is possible and NaN if the evidence has NaN; the rest is
    meaningless then.
    """
    censoring = {"right_censored": right_censored, "left_censored": left_censored}
    given = log_start, log_transition, log_duration, offsets, is_free
    tables, is_free = _prepared(*given, censoring, is_best=True)
    path, value = np.empty(int(offsets[-1]), dtype=np.int64), np.empty(len(offsets) - 1)
    rows = np.empty((len(path), len(tables.start)))
    load_sequences(evidence_t, offsets, rows, value)
    best_sequences(rows, offsets, is_free, tables, len(log_start), path, value)
    ends = _complete(path, log_duration, offsets, right_censored, left_censored, None)
    return path, value, *ends


def draw_segments(
    evidence_t, log_start, log_transition, log_duration, offsets, uniforms, is_free=None, *,
    right_censored=True, left_censored=False,
):  # fmt: skip
    """A random path (n,) of each sequence from its posterior, and log_z (S,), with its first and
    last segments' complete lengths (S,), drawn. uniforms (n,) in [0, 1), one per row.
    """
    censoring = {"right_censored": right_censored, "left_censored": left_censored}
    tables, is_free = _prepared(
        log_start, log_transition, log_duration, offsets, is_free, censoring
    )
    path, K = np.empty(int(offsets[-1]), dtype=np.int64), len(log_start)
    rows, messages, shift = scan_forward(evidence_t, tables, offsets, is_free)
    log_z = log_evidence(rows, messages, tables, offsets, shift)
    draw_sequences(rows, offsets, messages, tables, K, log_z, uniforms, path)
    ends = _complete(path, log_duration, offsets, right_censored, left_censored, uniforms)
    return path, log_z + shift, *ends


def _complete(path, log_duration, offsets, right, left, uniforms):
    """Complete lengths of the first and last segments."""
    first, last = np.empty((2, len(offsets) - 1), dtype=np.int64)
    is_best = uniforms is None
    uniforms = np.empty(0) if uniforms is None else uniforms
    log_duration = np.ascontiguousarray(log_duration)
    complete_ends(path, offsets, log_duration, right, left, is_best, uniforms, first, last)
    return first, last


def filter_segments(
    evidence_t, log_start, log_transition, log_duration, offsets, is_free=None, *,
    right_censored=True, left_censored=False,
):  # fmt: skip
    """p(z_t | x_1 .. x_t) (n, K), and log p(x_t | x_1 .. x_(t - 1)) (n,), whose sum is log_z.

    Every row but the last is taken to be within a segment that may last on.
    """
    given, n = (log_start, log_transition, log_duration, offsets, is_free), int(offsets[-1])
    goes_on = {"right_censored": True, "left_censored": left_censored}
    tables, is_free = _prepared(*given, goes_on)
    ends = tables
    if not right_censored:
        ends, _ = _prepared(*given, {"right_censored": False, "left_censored": left_censored})
    shares, log_step = np.empty((n, len(log_start))), np.empty(n)
    of_last_row = ends.log_last, ends.log_whole
    rows, messages, shift = scan_forward(evidence_t, tables, offsets, is_free)
    filter_sequences(
        evidence_t, rows, offsets, messages, tables, of_last_row, shift, shares, log_step
    )
    return shares, log_step
