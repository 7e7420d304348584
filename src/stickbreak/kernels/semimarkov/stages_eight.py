"""Chains of stages side by side: eight sequences at a time, one in each slot of a vector.

As `stages.py`, with tables (T, K, 8) of a group of sequences of similar length, see
`chain/eight.py`. The stages of all states are stacked, (M, 8): those of state k begin at
first[k], last stage first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..chain.eight import four_sums, least, load_slots, one_sum, store_slots
from ..chain.single import LOG_2, LOST, TINY
from ..compile import kernel
from ..vectors import EIGHT, at_least, exponent, fill, fma, load, mantissa, spread, store
from .stage_draws import draw_back

TIMES = 64  # rows whose products are added together

__all__ = ["StackedStages", "smooth_group", "stacked"]


class StackedStages(NamedTuple):
    """Linear weights. start, stay, advance (W,), transition, transposed (W, W).

    first (K + 1,) : where the stages of each state begin. entry, close, extra (M,) : of each stage
    """

    start: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    stay: np.ndarray
    advance: np.ndarray
    first: np.ndarray
    entry: np.ndarray
    close: np.ndarray
    extra: np.ndarray


def stacked(tables, shape):
    """The tables of `stages.py` with the stages of one state after those of another."""
    r = np.asarray(shape).astype(np.int64)

    def stack(table):
        return np.concatenate([table[:n, k] for k, n in enumerate(r)])

    return StackedStages(
        tables.start, tables.transition, tables.transposed, tables.stay, tables.advance,
        np.r_[0, np.cumsum(r)], stack(tables.entry), stack(tables.close), stack(tables.extra),
    )  # fmt: skip


@kernel
def mix_states(table, K, source, at, out, out_at):
    """Out (., 8)[out_at + k] = sum over states i of table[k, i] * source (., 8)[at + i]."""
    width = table.shape[1]
    for k in range(0, K - K % 4, 4):
        a, b, c, d = four_sums(table, k, width, K, source, at)
        store(out, EIGHT * (out_at + k), a)
        store(out, EIGHT * (out_at + k + 1), b)
        store(out, EIGHT * (out_at + k + 2), c)
        store(out, EIGHT * (out_at + k + 3), d)
    for k in range(K - K % 4, K):
        store(out, EIGHT * (out_at + k), one_sum(table, k, width, K, source, at))


@kernel
def forward_group(
    tables, K, lengths, shortest, T, rows, x, last, ended, begun, inverses, log_scale
):
    """Forward pass of every slot.

    rows (T, K, 8) : likelihoods. last (M, 8) : messages of each slot's last row, scaled
    ended, begun (T, K, 8) : see `stages.forward_stages`; inverses (T, 8) : one over the scales
    log_scale (8,) : sum of their logs, -inf for a slot whose scale is not to be trusted
    """
    product, exponents, worst, inverse = fill(1.0), fill(0.0), fill(1.0), fill(1.0)
    first = tables.first
    for i in range(first[K]):
        store(x, EIGHT * i, fill(0.0))
        store(last, EIGHT * i, fill(0.0))
    for t in range(T):
        now = t * K
        for k in range(K):
            here = load(x, EIGHT * first[k]) * (spread(tables.advance, k) * inverse)
            store(ended, EIGHT * (now + k), here)
            if t == 0:
                store(begun, EIGHT * k, spread(tables.start, k))
        if t > 0:
            mix_states(tables.transposed, K, ended, now, begun, now)
        total = fill(0.0)
        for k in range(K):
            seen = load(rows, EIGHT * (now + k))
            p = spread(tables.stay, k) * inverse * seen
            q = spread(tables.advance, k) * inverse * seen
            new, end = load(begun, EIGHT * (now + k)) * seen, first[k + 1] - 1
            here = load(x, EIGHT * first[k])
            for i in range(first[k], end):
                above = load(x, EIGHT * (i + 1))
                value = fma(p, here, fma(q, above, new * spread(tables.entry, i)))
                value = at_least(value, LOST, value, 0.0)
                store(x, EIGHT * i, value)
                total, here = total + value, above
            value = fma(p, here, new * spread(tables.entry, end))
            value = at_least(value, LOST, value, 0.0)
            store(x, EIGHT * end, value)
            total = total + value
        if t >= shortest:
            store(inverses, EIGHT * t, total)
            for s in range(EIGHT):
                if t >= lengths[s]:
                    inverses[t, s] = 1.0
            total = load(inverses, EIGHT * t)
        worst = at_least(total, TINY, worst, 0.0)
        product = product * total
        exponents = exponents + exponent(product)
        product = mantissa(product)
        inverse = 1.0 / total
        store(inverses, EIGHT * t, inverse)
        if t + 1 >= shortest:
            for s in range(EIGHT):
                if t + 1 == lengths[s]:
                    for i in range(first[K]):
                        last[i, s] = x[i, s] * inverses[t, s]
    store(log_scale, 0, product * worst)
    for s in range(EIGHT):
        log_scale[s] = math.log(log_scale[s]) if log_scale[s] > 0.0 else -np.inf
    store(log_scale, 0, exponents * LOG_2 + load(log_scale, 0))


@kernel
def end_slots(tables, K, t, lengths, factors, last, y, here):
    """Begin the backward pass of the slots that end with row t: y (M, 8) and here (K, 8)."""
    for s in range(EIGHT):
        if t + 1 == lengths[s] and factors[s] > 0.0:
            for k in range(K):
                here[k, s] = 0.0
                for i in range(tables.first[k], tables.first[k + 1]):
                    y[i, s] = tables.close[i] * factors[s]
                    here[k, s] += last[i, s] * y[i, s]


@kernel
def backward_group(
    tables, K, lengths, shortest, T, factors, last, y, here, after, ended, begun, inverses, rows,
    segments,
):  # fmt: skip
    """Backward pass of every slot. Rows (T, K, 8) become posteriors, `begun` futures.

    See `stages.backward_stages`. factors (8,) : weight over the sum at a slot's end, 0 to leave it
    out. segments (K, 8) += begins.
    """
    first = tables.first
    for i in range(first[K]):
        store(y, EIGHT * i, fill(0.0))
    for k in range(K):
        store(here, EIGHT * k, fill(0.0))
        store(segments, EIGHT * k, fill(0.0))
    for t in range(T - 1, -1, -1):
        now, inverse = t * K, load(inverses, EIGHT * t)
        if t + 1 >= shortest:
            end_slots(tables, K, t, lengths, factors, last, y, here)
        for k in range(K):
            seen, future = load(rows, EIGHT * (now + k)) * inverse, fill(0.0)
            for i in range(first[k], first[k + 1]):
                value = load(y, EIGHT * i) * seen
                store(y, EIGHT * i, value)
                future = fma(value, spread(tables.entry, i), future)
            starts = load(begun, EIGHT * (now + k)) * future
            store(begun, EIGHT * (now + k), future)
            store(segments, EIGHT * k, load(segments, EIGHT * k) + starts)
            share = load(here, EIGHT * k)
            # illegal states have no weight, whatever rounding says
            share = at_least(share, 0.0, share, 0.0)
            possible = load(rows, EIGHT * (now + k))
            store(rows, EIGHT * (now + k), at_least(possible, LOST, share, 0.0))
            store(here, EIGHT * k, share - starts)
        mix_states(tables.transition, K, begun, now, after, 0)
        for k in range(K):
            below = load(after, EIGHT * k)
            share = fma(load(ended, EIGHT * (now + k)), below, load(here, EIGHT * k))
            store(here, EIGHT * k, share)
            p, q = spread(tables.stay, k), spread(tables.advance, k)
            for i in range(first[k], first[k + 1]):
                value = load(y, EIGHT * i)
                store(y, EIGHT * i, fma(p, value, q * below))
                below = value


@kernel
def add_two_by_two(ended, future, first, last, K, i, j, out):
    """Products of states i, i + 1 of `ended` and j, j + 1 of `future`, summed over rows."""
    upper, lower = EIGHT * (i * K + j), EIGHT * ((i + 1) * K + j)
    a, b = load(out, upper), load(out, upper + EIGHT)
    c, d = load(out, lower), load(out, lower + EIGHT)
    for t in range(first, last):
        at, to = EIGHT * (t * K + i), EIGHT * (t * K + j)
        x, y = load(ended, at), load(ended, at + EIGHT)
        left, right = load(future, to), load(future, to + EIGHT)
        a, b, c, d = fma(x, left, a), fma(x, right, b), fma(y, left, c), fma(y, right, d)
    store(out, upper, a)
    store(out, upper + EIGHT, b)
    store(out, lower, c)
    store(out, lower + EIGHT, d)


@kernel
def add_products(ended, future, T, K, out):
    """Out (K, K, 8)[i, j] += sum over rows of ended (T, K, 8)[t, i] * future (T, K, 8)[t, j].

    Some rows at a time, which stay in the cache.
    """
    even = K - K % 2
    for first in range(0, T, TIMES):
        last = min(first + TIMES, T)
        for i in range(0, even, 2):
            for j in range(0, even, 2):
                add_two_by_two(ended, future, first, last, K, i, j, out)
        if even < K:
            for k in range(K):
                a, b = load(out, EIGHT * (even * K + k)), load(out, EIGHT * (k * K + even))
                for t in range(first, last):
                    at = t * K
                    a = fma(load(ended, EIGHT * (at + even)), load(future, EIGHT * (at + k)), a)
                    b = fma(load(ended, EIGHT * (at + k)), load(future, EIGHT * (at + even)), b)
                store(out, EIGHT * (even * K + k), a)
                if k < even:
                    store(out, EIGHT * (k * K + even), b)


@kernel
def settle_slots(rows, T, K, repeats):
    """Posteriors rows (T, K, 8) of every row are made to sum to repeats (8,)."""
    wanted = load(repeats, 0)
    for t in range(T):
        total = fill(0.0)
        for k in range(K):
            total = total + load(rows, EIGHT * (t * K + k))
        factor = at_least(total, LOST, wanted / at_least(total, LOST, total, 1.0), 0.0)
        for k in range(K):
            at = EIGHT * (t * K + k)
            store(rows, at, load(rows, at) * factor)


@kernel
def smooth_group(
    evidence_t, sequences, offsets, weights, tables, rows, ended, begun, inverses, messages,
    goes_on, draws, is_counted, out_log_z, out_states, out_start, out_segments, out_extra,
    out_steps,
):  # fmt: skip
    """Forward-backward of up to eight sequences, the longest first; forward alone for draws alone.

    goes_on, draws : whether sequences may go on, and their random paths, see `stage_draws.py`
    is_counted : whether posteriors and counts are wanted

    out_log_z (S,) : -inf for those that the linear domain cannot do, of which nothing is counted
    out_states (K, n), out_start, out_segments, out_extra (K,) : see `stages.smooth_sequences`
    out_steps (K, K, 8) : steps, still without the transitions
    """
    K, n_used = evidence_t.shape[0], sequences.shape[0]
    x, last, y = messages
    begins, lengths = np.empty(EIGHT, np.int64), np.empty(EIGHT, np.int64)
    repeats, factors, square = np.empty(EIGHT), np.empty(EIGHT), np.empty(EIGHT * EIGHT)
    tops, log_scale = np.empty(EIGHT), np.empty(EIGHT)
    here, after, segments = np.empty((K, EIGHT)), np.empty((K, EIGHT)), np.empty((K, EIGHT))
    for s in range(EIGHT):
        sequence = sequences[min(s, n_used - 1)]
        begins[s], repeats[s] = offsets[sequence], weights[sequence]
        lengths[s] = offsets[sequence + 1] - begins[s] if s < n_used else 0
    T, shortest = lengths[0], least(lengths)
    load_slots(evidence_t, begins, lengths, shortest, T, square, rows, tops)
    forward_group(tables, K, lengths, shortest, T, rows, x, last, ended, begun, inverses, log_scale)
    for s in range(EIGHT):
        total, factors[s] = 0.0, 0.0
        for i in range(tables.first[K]):
            total += last[i, s] * tables.close[i]
        if lengths[s] > 0 and log_scale[s] > -np.inf and total >= TINY:
            factors[s] = repeats[s] / total
            log_scale[s] += tops[s] + math.log(total)
            if draws.uniforms.shape[0] > 0:
                draws.extra[sequences[s]] = draw_back(
                    (rows, ended, begun, inverses), last, s, tables, K, goes_on, begins[s],
                    begins[s] + lengths[s], draws,
                )  # fmt: skip
        else:
            log_scale[s] = -np.inf
        if s < n_used:
            out_log_z[sequences[s]] = log_scale[s]
    if not is_counted:
        return
    backward_group(
        tables, K, lengths, shortest, T, factors, last, y, here, after, ended, begun, inverses,
        rows, segments,
    )  # fmt: skip
    for s in range(n_used):
        found = 0.0
        for k in range(K):
            found += tables.start[k] * begun[0, k, s]
        if not abs(found - repeats[s]) <= 1e-6 * repeats[s]:
            log_scale[s] = -np.inf
        out_log_z[sequences[s]] = log_scale[s]
        for k in range(K):
            if log_scale[s] > -np.inf:
                out_start[k] += tables.start[k] * begun[0, k, s]
                out_segments[k] += segments[k, s]
                for i in range(tables.first[k], tables.first[k + 1]):
                    out_extra[k] += last[i, s] * tables.close[i] * factors[s] * tables.extra[i]
            else:
                for t in range(T):
                    ended[t, k, s] = begun[t, k, s] = 0.0
        if log_scale[s] == -np.inf:
            lengths[s] = shortest = 0  # its rows are left as they are
    add_products(ended, begun, T, K, out_steps)
    settle_slots(rows, T, K, repeats)
    store_slots(rows, 0, T, begins, lengths, shortest, square, out_states)
