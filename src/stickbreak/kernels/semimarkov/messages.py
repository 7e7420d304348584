"""Messages of one semi-Markov sequence, in either direction.

Forward, begun[t] is the log weight of all rows before t with a segment that begins at row t, and
ended[t] that of a segment that ends before row t:

    ended[t] = sum_d begun[t - d] w[d] exp(total[t] - total[t - d]),   begun[t] = ended[t] @ steps

where total[t] sums a state's log evidence of the rows before t. Backward the same holds of the
reversed rows with the steps transposed. The sum over lengths is one multiply-add for each length
and state: begun[s] exp(-total[s]) is kept in the linear domain, relative to a reference of each
state that follows it. A sum that comes out so small that something lost could matter in it is done
again in logarithms; so there is no sequence for which the result is not exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..chain.single import step_rows
from ..compile import kernel
from ..gamma import log_fast
from ..rows import exp_fast
from ..vectors import EIGHT, at_least, fill, fma, larger, load, store

__all__ = ["Messages", "load_sequences", "log_sum_ended", "scan_sequences"]

# Kept values are at most exp(HIGH) times their reference. Weights of lengths are flushed below
# 1e-300 of the largest, so what is lost is below 1e-170; a sum from TINY on does not notice.
HIGH, TINY = 300.0, 1e-150
LEAST = 1e-300  # smaller numbers have no normal logarithm
FAR = 200.0  # a reference that is so far above all that is in reach is set anew
UNSEEN = 1e-18  # beginnings with less posterior weight count for no length


class Messages(NamedTuple):
    """Messages of stacked sequences; sequence s has lines offsets[s] + s to offsets[s + 1] + s.

    begun, total, ended (n + S, W) : see above, the last line of `begun` unused, the first of
    `ended`, and the last, which is not known
    """

    begun: np.ndarray
    total: np.ndarray
    ended: np.ndarray


@kernel
def load_sequences(evidence_t, offsets, out, out_shift):
    """Out (n, W) = evidence of each row minus its largest. out_shift (S,) : sums of the largest.

    NaN if there is one, -inf if a row is impossible; the rows of that sequence are meaningless.
    """
    K, width = evidence_t.shape[0], out.shape[1]
    for s in range(offsets.shape[0] - 1):
        out_shift[s] = 0.0
        for t in range(offsets[s], offsets[s + 1]):
            top = -np.inf
            for k in range(K):
                value = evidence_t[k, t]
                top = value if value > top or value != value else top
            out_shift[s] += top
            if not top > -np.inf:
                break
            for k in range(K):
                out[t, k] = evidence_t[k, t] - top
            for k in range(K, width):
                out[t, k] = 0.0


@kernel
def sum_ahead(linear, inner, base, low, at, out):
    """Out (8, W)[:, at:] = sums over s of linear[s] * inner[base + j - s], for j = 0 to 7.

    These are the parts of the sums of eight rows that starts from `low` to before `base` have. Each
    number that is loaded is used for several of them.
    """
    width, s = inner.shape[1], base - 1
    a0, a1, a2, a3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    a4, a5, a6, a7 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    while s - 3 >= low:
        x, y = s * width + at, (base - s) * width + at
        u0, u1 = load(linear, x), load(linear, x - width)
        u2, u3 = load(linear, x - 2 * width), load(linear, x - 3 * width)
        w0 = load(inner, y)
        w1 = load(inner, y + width)
        w2 = load(inner, y + 2 * width)
        w3 = load(inner, y + 3 * width)
        w4 = load(inner, y + 4 * width)
        w5 = load(inner, y + 5 * width)
        w6 = load(inner, y + 6 * width)
        w7 = load(inner, y + 7 * width)
        w8 = load(inner, y + 8 * width)
        w9 = load(inner, y + 9 * width)
        w10 = load(inner, y + 10 * width)
        a0 = fma(u3, w3, fma(u2, w2, fma(u1, w1, fma(u0, w0, a0))))
        a1 = fma(u3, w4, fma(u2, w3, fma(u1, w2, fma(u0, w1, a1))))
        a2 = fma(u3, w5, fma(u2, w4, fma(u1, w3, fma(u0, w2, a2))))
        a3 = fma(u3, w6, fma(u2, w5, fma(u1, w4, fma(u0, w3, a3))))
        a4 = fma(u3, w7, fma(u2, w6, fma(u1, w5, fma(u0, w4, a4))))
        a5 = fma(u3, w8, fma(u2, w7, fma(u1, w6, fma(u0, w5, a5))))
        a6 = fma(u3, w9, fma(u2, w8, fma(u1, w7, fma(u0, w6, a6))))
        a7 = fma(u3, w10, fma(u2, w9, fma(u1, w8, fma(u0, w7, a7))))
        s -= 4
    while s >= low:
        u0, y = load(linear, s * width + at), (base - s) * width + at
        a0 = fma(u0, load(inner, y), a0)
        a1 = fma(u0, load(inner, y + width), a1)
        a2 = fma(u0, load(inner, y + 2 * width), a2)
        a3 = fma(u0, load(inner, y + 3 * width), a3)
        a4 = fma(u0, load(inner, y + 4 * width), a4)
        a5 = fma(u0, load(inner, y + 5 * width), a5)
        a6 = fma(u0, load(inner, y + 6 * width), a6)
        a7 = fma(u0, load(inner, y + 7 * width), a7)
        s -= 1
    store(out, at, a0)
    store(out, width + at, a1)
    store(out, 2 * width + at, a2)
    store(out, 3 * width + at, a3)
    store(out, 4 * width + at, a4)
    store(out, 5 * width + at, a5)
    store(out, 6 * width + at, a6)
    store(out, 7 * width + at, a7)


@kernel
def sum_lengths(linear, inner, edge, ahead, base, end, first, at):
    """Eight sums over s of linear[s] * weight of the length end - s, of columns `at` to `at` + 8.

    ahead : see `sum_ahead`; segments from s = 0 have the weights `edge`, if `first` is 0.
    """
    width = inner.shape[1]
    found = load(ahead, (end - 1 - base) * width + at)
    for s in range(max(base, 1), end):
        found = fma(load(linear, s * width + at), load(inner, (end - s - 1) * width + at), found)
    if first == 0:
        found = fma(load(linear, at), load(edge, (end - 1) * width + at), found)
    return found


@kernel
def log_sum_ended(begun, total, log_inner, log_edge, end, first, k):
    """Log weight of state k's segments that end before row `end`, and the largest of begun - total.

    In logarithms: exact but slow.
    """
    top, high = -np.inf, -np.inf
    for s in range(first, end):
        value = begun[s, k] - total[s, k]
        high = value if value > high else high
        value += log_edge[end - 1, k] if s == 0 else log_inner[end - s - 1, k]
        top = value if value > top else top
    if top == -np.inf:
        return -np.inf, high
    found = 0.0
    for s in range(first, end):
        value = begun[s, k] - total[s, k] - top
        value += log_edge[end - 1, k] if s == 0 else log_inner[end - s - 1, k]
        found += math.exp(value)
    return top + math.log(found) + total[end, k], high


@kernel
def refer(begun, total, linear, inner, ahead, base, first, end, reference, k):
    """Linear (., k) of the rows first to end = exp(begun - total - reference), and `ahead`."""
    for s in range(first, end):
        linear[s, k] = math.exp(begun[s, k] - total[s, k] - reference)
    for j in range(EIGHT):
        ahead[j, k] = 0.0
        for s in range(max(first, 1), base):
            ahead[j, k] += linear[s, k] * inner[base + j - s, k]


@kernel
def step_logs(ended, t, transition, log_transition, step_shift, K, scratch, out):
    """Out (., W)[t] = log(exp(ended[t]) @ transition); sums near zero are done in logarithms."""
    width, top = out.shape[1], -np.inf
    at = t * width
    for k in range(K):
        top = ended[t, k] if ended[t, k] > top else top
    if top == -np.inf:
        for k in range(width):
            out[t, k] = -np.inf
        return
    for k in range(0, width, EIGHT):
        store(scratch, k, exp_fast(load(ended, at + k) - top))
    step_rows(scratch, 0, K, transition, scratch, width)
    for k in range(0, width, EIGHT):
        x = load(scratch, width + k)
        y = log_fast(larger(x, LEAST)) + (top + step_shift)
        store(out, at + k, at_least(x, LEAST, y, -np.inf))
    for j in range(K):
        if scratch[width + j] < TINY:
            high, found = -np.inf, 0.0
            for i in range(K):
                value = ended[t, i] + log_transition[i, j]
                high = value if value > high else high
            if high > -np.inf:
                for i in range(K):
                    found += math.exp(ended[t, i] + log_transition[i, j] - high)
                high += math.log(found)
            out[t, j] = high


@kernel
def keep_linear(begun, total, linear, ahead, t, oldest, live, K, reference):
    """Linear[t] = exp(begun[t] - total[t] - reference); references that are too low are raised.

    oldest (W,) : the least row that a state's segments may still begin at; live (W,) : the least
    that is not zero, or lower.
    """
    width = begun.shape[1]
    for k in range(K):
        value = begun[t, k] - total[t, k]
        if value > reference[k] + HIGH:
            factor = math.exp(reference[k] - value)
            for j in range(EIGHT):
                ahead[j, k] *= factor
            live[k] = max(live[k], oldest[k])
            for s in range(live[k], t):
                linear[s, k] *= factor
                if linear[s, k] == 0.0 and s == live[k]:  # it stays so
                    live[k] += 1
            reference[k] = value
    for k in range(0, width, EIGHT):
        at = t * width + k
        x = load(begun, at) - load(total, at) - load(reference, k)
        store(linear, at, at_least(x, -1e300, exp_fast(x), 0.0))


@kernel
def add_row(rows, at, end, D, linear, ahead, oldest, total):
    """Total[end] = total[end - 1] + rows[at]; no segment passes through a row that is -inf."""
    for k in range(rows.shape[1]):
        oldest[k] = max(oldest[k], end - D)
        value = rows[at, k]
        if value == -np.inf:
            for s in range(oldest[k], end):
                linear[s, k] = 0.0
            for j in range(EIGHT):
                ahead[j, k] = 0.0
            oldest[k], value = end, 0.0
        total[end, k] = total[end - 1, k] + value


@kernel
def count_lengths(linear, chance, total, end, first, at, out_inner, out_edge):
    """Add the posteriors of lengths of segments in columns `at` to `at` + 8, weights left out.

    chance[T - end, at:] : posterior that a segment is here; total[at:] : the sum over lengths.
    """
    T, width = linear.shape
    x, is_seen = load(total, at), False
    for k in range(at, at + EIGHT):
        is_seen = is_seen or chance[T - end, k] > UNSEEN
    if not is_seen:
        return
    share = at_least(x, TINY, load(chance, (T - end) * width + at) / larger(x, TINY), 0.0)
    for s in range(max(first, 1), end):
        y = (end - s - 1) * width + at
        store(out_inner, y, fma(share, load(linear, s * width + at), load(out_inner, y)))
    if first == 0:
        y = (end - 1) * width + at
        store(out_edge, y, fma(share, load(linear, at), load(out_edge, y)))


@kernel
def count_lengths_in_logs(
    begun, total, log_inner, log_edge, end, first, k, shift, out_inner, out_edge
):
    """`count_lengths` of one state, with weights: += exp(log weight of the segment + shift)."""
    for s in range(first, end):
        value = begun[s, k] - total[s, k] + total[end, k] + shift
        if s == 0:
            out_edge[end - 1, k] += math.exp(value + log_edge[end - 1, k])
        else:
            out_inner[end - s - 1, k] += math.exp(value + log_inner[end - s - 1, k])


@kernel
def find_ended(known, ended, end, K, log_z, weight, out):
    """Out (., W)[T - end] = weight * exp(known[T - end] + ended[end] - log_z): the posterior of
    segments that have just ended.
    """
    T, width = known.shape
    for k in range(0, width, EIGHT):
        at = (T - end) * width + k
        value = load(known, at) + load(ended, end * width + k) - log_z
        store(out, at, weight * exp_fast(value))


@kernel
def count_small(sums, messages, logs, counts, end, oldest, K, known, log_z, weight, chance):
    """Count the lengths of segments whose sum is nearly zero, in logarithms."""
    (begun, total), T = messages, known.shape[0]
    for k in range(K):
        if not sums[k] >= TINY and chance[T - end, k] > UNSEEN:
            shift = known[T - end, k] - log_z + math.log(weight)
            count_lengths_in_logs(
                begun, total, logs[0], logs[1], end, oldest[k], k, shift, counts[0], counts[1]
            )


@kernel
def scan(rows, is_free, way, work, K, known, log_z, weight, begun, total, ended, counts, chance):
    """Messages of one sequence. See `scan_sequences`."""
    linear, lines = work
    reference, sums, scratch, ahead = lines[0], lines[1], lines[2:5].reshape(-1), lines[5:]
    # tables and tuples are taken apart and made here: in each row that would take as long as a sum
    inner, edge, log_inner, log_edge = way.inner, way.edge, way.log_inner, way.log_edge
    transition, log_transition, shift = way.transition, way.log_transition, way.shift
    inner_counts, edge_counts = counts[:2]
    messages, logs, small_counts = (begun, total), (log_inner, log_edge), counts[2:]
    (T, width), D, base = rows.shape, way.log_inner.shape[0], 0
    oldest, live = np.zeros(width, dtype=np.int64), np.zeros(width, dtype=np.int64)
    for k in range(width):
        reference[k], total[0, k] = -np.inf, 0.0
        begun[0, k] = way.log_open[k] if k < K else -np.inf
    for t in range(T):
        end = t + 1
        if t > 0:
            if is_free[T - t if way.is_back else t]:
                step_logs(ended, t, transition, log_transition, way.step_shift, K, scratch, begun)
            else:
                for k in range(width):
                    begun[t, k] = -np.inf
        if t % EIGHT == 0:
            base = t
            for k in range(0, width, EIGHT):
                sum_ahead(linear, inner, base, max(1, base + 1 - D), k, ahead)
        keep_linear(begun, total, linear, ahead, t, oldest, live, K, reference)
        add_row(rows, T - end if way.is_back else t, end, D, linear, ahead, oldest, total)
        if end == T:
            break
        first, is_small = max(0, end - D), False
        for k in range(0, width, EIGHT):
            x = sum_lengths(linear, inner, edge, ahead, base, end, first, k)
            store(sums, k, x)
            y = log_fast(larger(x, LEAST)) + load(reference, k) + load(total, end * width + k)
            store(ended, end * width + k, y + load(shift, k))
        for k in range(K):
            if not sums[k] >= TINY:
                is_small = True
                value, high = log_sum_ended(begun, total, log_inner, log_edge, end, oldest[k], k)
                ended[end, k] = value
                if high < reference[k] - FAR and high > -np.inf:
                    reference[k], live[k] = high, oldest[k]
                    refer(begun, total, linear, inner, ahead, base, oldest[k], end, high, k)
        for k in range(K, width):
            ended[end, k] = -np.inf
        if known.shape[0] > 0:
            find_ended(known, ended, end, K, log_z, weight, chance)
            for k in range(0, width, EIGHT):
                count_lengths(linear, chance, sums, end, first, k, inner_counts, edge_counts)
            if is_small:
                count_small(
                    sums, messages, logs, small_counts, end, oldest, K, known, log_z, weight, chance
                )


@kernel
def scan_sequences(rows, offsets, is_free, way, K, known, log_z, weights, out, counts, chance):
    """Messages of every sequence whose log_z (S,) is finite and whose weight (S,) is not zero.

    rows (n, W) : log evidence; is_free (n,) : whether a segment may begin at a row
    known (n + S, W) : `begun` of the other direction, to count lengths by; (0, W) for no counts
    out : Messages, written. counts : inner and edge (D, W), still without their weights, and the
        same with weights. chance (n, W) : posterior that a segment begins at each row but the first
    """
    n, width = 0, rows.shape[1]
    for s in range(offsets.shape[0] - 1):
        n = max(n, offsets[s + 1] - offsets[s])
    linear, lines = np.empty((n, width)), np.empty((5 + EIGHT, width))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if weights[s] > 0.0 and log_z[s] > -np.inf:
            at, stop = lo + s, hi + s + 1
            scan(
                rows[lo:hi], is_free[lo:hi], way, (linear[: hi - lo], lines), K,
                known[at : stop - 1] if known.shape[0] > 0 else known, log_z[s], weights[s],
                out.begun[at:stop], out.total[at:stop], out.ended[at:stop], counts, chance[lo:hi],
            )  # fmt: skip
