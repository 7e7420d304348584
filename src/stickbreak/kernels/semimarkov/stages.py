"""Negative binomial lengths in linear time: every state is a chain of r stages.

A segment of length d has the weight C(d + r - 2, d - 1) p^(d - 1) q^r. So has the sum over all ways
through r stages: enter with m stages to go after this one, weight C(r - 1, m) p^m q^(r - 1 - m);
stay in a stage, weight p; go on to the next, weight q; leave the last one (m = 0), weight q. This
holds for weights p + q < 1 too, as variational ones are. A sequence that ends in the middle of a
segment has lost the sum over all that could have come, (q / (1 - p))^(m + 1).

Stages are counted from the last one, (R, W), so that all states leave at m = 0; states with fewer
stages than R have zeros. Only messages of states, not of stages, are kept for each row: a state's
posterior is that of segments begun and not yet ended. Memory is O(T K), work O(T sum(r) + T K^2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ..chain.single import LOST, TINY, load_rows, step_rows, sum_logs
from ..compile import kernel
from ..vectors import EIGHT, at_least, first_four, fma, last_four, load, store
from .stage_draws import draw_back

__all__ = [
    "StageTables", "backward_stages", "close_stages", "forward_stages", "log_lengths",
    "smooth_sequence", "stage_tables", "write_rows",
]  # fmt: skip

AGREES = 1e-6  # how far the two directions may differ before the linear domain is left
NEGLIGIBLE = 1e-17  # part of a law's weight that its table of lengths may leave out


class StageTables(NamedTuple):
    """Linear weights, states padded to whole vectors.

    start (W,), transition, transposed (W, W), stay (W,), advance (W,)
    entry (R, W) : of the stages at which a segment begins; n_stages (W / 8,) : the most of a vector
    close (R, W) : of the stages at which a sequence ends
    extra (R, W) : rows that are still to come of a segment that is cut there, expected
    """

    start: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    stay: np.ndarray
    advance: np.ndarray
    entry: np.ndarray
    n_stages: np.ndarray
    close: np.ndarray
    extra: np.ndarray


def stage_tables(log_start, log_transition, lengths, right_censored=True):
    """Tables of negative binomials; lengths : log p, r log q and r (K,) of each state."""
    log_stay, log_segment, shape = lengths
    K, r = len(log_start), np.asarray(shape).astype(np.int64)
    width, depth = -(-K // EIGHT) * EIGHT, int(r.max())
    log_advance = log_segment / r
    start, stay, advance = np.zeros((3, width))
    transition = np.zeros((width, width))
    start[:K], transition[:K, :K] = np.exp(log_start), np.exp(log_transition)
    np.fill_diagonal(transition, 0.0)
    stay[:K], advance[:K] = np.exp(log_stay), np.exp(log_advance)
    m, entry, close = np.arange(depth)[:, None], np.zeros((depth, width)), np.zeros((depth, width))
    extra = np.zeros((depth, width))
    with np.errstate(invalid="ignore", divide="ignore"):
        ways = gammaln(r) - gammaln(m + 1) - gammaln(np.maximum(r - m, 1))
        stays = np.where(m > 0, m * log_stay, 0.0)
        goes = np.where(r - 1 - m > 0, (r - 1 - m) * log_advance, 0.0)
        entry[:, :K] = np.where(m < r, np.exp(ways + stays + goes), 0.0)
        left = 1.0 - stay[:K]
        if right_censored:
            close[:, :K] = np.where(m < r, np.exp((m + 1) * (log_advance - np.log(left))), 0.0)
            extra[:, :K] = np.where(m < r, m + (m + 1) * stay[:K] / left, 0.0)
        else:
            close[0, :K] = advance[:K]
    n_stages = np.array([r[k : k + EIGHT].max() for k in range(0, K, EIGHT)])
    for table in (start, transition, entry, close):
        table[table < LOST] = 0.0
    turned = np.ascontiguousarray(transition.T)
    return StageTables(start, transition, turned, stay, advance, entry, n_stages, close, extra)


def log_lengths(lengths, longest, tail=True):
    """(K, D) log weights of the lengths 1 to D, by which stages can do without.

    D is `longest`, or so large that what is beyond does not matter, if the tail is wanted.
    """
    log_stay, log_segment, shape = lengths
    D, r = int(longest), np.asarray(shape)[:, None]

    def table(n):
        d = np.arange(1, n + 1)
        ways = gammaln(d + r - 1) - gammaln(d) - gammaln(r)
        with np.errstate(invalid="ignore"):
            return ways + np.where(d > 1, (d - 1) * log_stay[:, None], 0.0) + log_segment[:, None]

    while tail:
        found = table(2 * D)
        # beyond its mode the tail falls at least like the ratio of its last two lengths
        fall = np.exp(found[:, -1] - found[:, -2])
        rest = np.where(fall < 1, found[:, -1] + np.log(fall / np.maximum(1 - fall, 1e-300)), 0.0)
        if (rest <= found.max(1) + np.log(NEGLIGIBLE)).all() or D > 1 << 22:
            return found
        D *= 2
    return table(D)


@kernel
def close_stages(x, close, out):
    """Out (W,) = sum over stages of x * close, both (R, W). Returns the sum of all."""
    depth, width = x.shape
    total = 0.0
    for k in range(width):
        out[k] = 0.0
        for m in range(depth):
            out[k] += x[m, k] * close[m, k]
        total += out[k]
    return total


@kernel
def forward_stages(rows, is_free, is_start, tables, K, x, out_ended, out_begun, out_scale):
    """Forward pass over rows (T, W) of likelihoods. Returns how many have a scale to trust.

    x (R, W) : messages of the row before, on return of the last row; unused if `is_start`. They are
        scaled to sum to one
    out_ended, out_begun (T, W) : weight of a segment that ends before each row, and that begins at
        it, relative to all rows before. out_scale (T,)
    """
    (T, width), inverse = rows.shape, 1.0
    for t in range(T):
        at = t * width
        if t == 0 and is_start:
            for k in range(width):
                out_ended[t, k], out_begun[t, k] = 0.0, tables.start[k]
                for m in range(x.shape[0]):
                    x[m, k] = 0.0
        else:
            for k in range(0, width, EIGHT):
                store(out_ended, at + k, load(x, k) * load(tables.advance, k) * inverse)
            if is_free[t]:
                step_rows(out_ended, at, K, tables.transition, out_begun, at)
            else:
                for k in range(width):
                    out_begun[t, k] = 0.0
        total = 0.0
        for k in range(0, width, EIGHT):
            n, seen = tables.n_stages[k // EIGHT], load(rows, at + k)
            p, q = load(tables.stay, k) * inverse * seen, load(tables.advance, k) * inverse * seen
            begun, here, sums = load(out_begun, at + k) * seen, load(x, k), seen * 0.0
            for m in range(n - 1):
                above = load(x, (m + 1) * width + k)
                value = fma(p, here, fma(q, above, begun * load(tables.entry, m * width + k)))
                value = at_least(value, LOST, value, 0.0)
                store(x, m * width + k, value)
                sums, here = sums + value, above
            value = fma(p, here, begun * load(tables.entry, (n - 1) * width + k))
            value = at_least(value, LOST, value, 0.0)
            store(x, (n - 1) * width + k, value)
            sums = sums + value
            total = (total + first_four(sums)) + last_four(sums)
        out_scale[t] = total
        if not total >= TINY:
            return t
        inverse = 1.0 / total
    for m in range(x.shape[0]):
        for k in range(width):
            x[m, k] *= inverse
    return T


@kernel
def backward_stages(
    rows, is_free, tables, K, y, here, ended, begun, scale, out_segments, out_future, out_shares
):
    """Backward pass over rows (T, W), with the results of the forward pass.

    y (R, W) : messages of the last row, on return of the row before the first
    here (W,) : posterior of the last row's states, on return of the row before the first
    out_segments (W,) += posteriors of all begins. out_future (T, W) : ended (x) future times the
        transitions are the posteriors of the steps into each row; zero where none is possible
    out_shares (T, W) : posteriors of states
    """
    T, width = rows.shape
    after = np.zeros(width)
    for t in range(T - 1, -1, -1):
        at, inverse = t * width, 1.0 / scale[t]
        for k in range(0, width, EIGHT):
            n, seen = tables.n_stages[k // EIGHT], load(rows, at + k) * inverse
            future = seen * 0.0
            for m in range(n):
                value = load(y, m * width + k) * seen
                store(y, m * width + k, value)
                future = fma(value, load(tables.entry, m * width + k), future)
            store(out_future, at + k, future)
        if is_free[t]:
            step_rows(out_future, at, K, tables.transposed, after, 0)
        else:
            for k in range(width):
                after[k] = 0.0
        for k in range(0, width, EIGHT):
            starts = load(begun, at + k) * load(out_future, at + k)
            store(out_segments, k, load(out_segments, k) + starts)
            share = load(here, k)
            store(out_shares, at + k, at_least(share, 0.0, share, 0.0))
            share = fma(load(ended, at + k), load(after, k), share - starts)
            store(here, k, at_least(share, 0.0, share, 0.0))
            p, q = load(tables.stay, k), load(tables.advance, k)
            below = load(after, k)
            for m in range(tables.n_stages[k // EIGHT]):
                value = load(y, m * width + k)
                store(y, m * width + k, fma(p, value, q * below))
                below = value
        if not is_free[t]:
            for k in range(width):
                out_future[t, k] = 0.0


@kernel
def write_rows(shares, rows, weight, K, begin, out):
    """Out (K, n)[:, begin:] = shares (T, W), made to sum to `weight`; none where impossible."""
    for t in range(rows.shape[0]):
        total = 0.0
        for k in range(K):
            total += shares[t, k] if rows[t, k] > 0.0 else 0.0
        factor = weight / total if total > 0.0 else 0.0
        for k in range(K):
            out[k, begin + t] = shares[t, k] * factor if rows[t, k] > 0.0 else 0.0


@kernel
def draw_alone(rows, ended, begun, scale, x, tables, K, goes_on, lo, hi, draws):
    """`draw_back` of one sequence, whose messages (T, W) are those of `forward_stages`.

    tables : stacked, see `stages_eight.py`
    """
    shape = (rows.shape[0], rows.shape[1], 1)
    last, inverses = np.empty((tables.first[K], 1)), np.empty((rows.shape[0], 1))
    for k in range(K):
        for i in range(tables.first[k], tables.first[k + 1]):
            last[i, 0] = x[i - tables.first[k], k]
    for t in range(rows.shape[0]):
        inverses[t, 0] = 1.0 / scale[t]
    messages = rows.reshape(shape), ended.reshape(shape), begun.reshape(shape), inverses
    return draw_back(messages, last, 0, tables, K, goes_on, lo, hi, draws)


@kernel
def smooth_sequence(
    evidence_t, lo, hi, weight, is_free, tables, stages, goes_on, draws, is_counted, out_states,
    out_start, out_segments, out_extra, ended, coming,
):  # fmt: skip
    """Forward-backward of one sequence, rows lo to hi; forward alone for draws alone.

    tables, stages : padded, and stacked. draws, is_counted : see `stages_eight.smooth_group`
    ended, coming (T, W) : see `backward_stages`. out_extra (W,) += rows still to come of the
        segment that is cut. Returns log_z, -inf if the linear domain fails, and what the last
        segment of a drawn path lacks
    """
    K, (depth, width), T = evidence_t.shape[0], tables.entry.shape, hi - lo
    rows, begun = np.empty((T, width)), np.empty((T, width))
    top, scale, here, before = np.empty(T), np.empty(T), np.empty(width), np.empty(width)
    x, total, lacks = np.empty((depth, width)), 0.0, 0
    load_rows(evidence_t, lo, rows, top)
    done = forward_stages(rows, is_free[lo:hi], True, tables, K, x, ended, begun, scale)
    if done == T:
        total = close_stages(x, tables.close, here)
    if not total >= TINY:
        return -np.inf, lacks
    log_z = sum_logs(scale, top) + np.log(total)
    if draws.uniforms.shape[0] > 0:
        lacks = draw_alone(rows, ended, begun, scale, x, stages, K, goes_on, lo, hi, draws)
    if not is_counted:
        return log_z, lacks
    shares, y, segments = np.empty((T, width)), np.empty((depth, width)), np.zeros(width)
    for k in range(width):
        here[k] *= weight / total
        for m in range(depth):
            y[m, k] = tables.close[m, k] * (weight / total)
            before[k] = x[m, k] * y[m, k] * tables.extra[m, k] + (before[k] if m > 0 else 0.0)
    backward_stages(
        rows, is_free[lo:hi], tables, K, y, here, ended, begun, scale, segments, coming, shares
    )
    found = 0.0
    for k in range(K):
        coming[0, k] *= tables.start[k]
        found += coming[0, k]
    if not abs(found - weight) <= AGREES * weight:
        return -np.inf, lacks
    for k in range(K):
        out_start[k] += coming[0, k]
        out_segments[k] += segments[k]
        out_extra[k] += before[k]
    write_rows(shares, rows, weight, K, lo, out_states)
    for k in range(width):
        coming[0, k] = 0.0
    return log_z, lacks
