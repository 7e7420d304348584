"""Many Markov chains side by side: eight sequences at a time, one in each slot of a vector.

A group is eight sequences of similar length. Its tables are (T, K, 8), T the longest. After the end
of its sequence (at once if it is left out, with length 0) a slot has likelihood 0 and scale 1, and
the messages of later rows to it are 0, so that it adds nothing. Slots are independent, and sums
over states have the same order as in `single.py`: a sequence gets the same bits in both.
"""

from __future__ import annotations

import math

import numpy as np

from ..compile import kernel
from ..rows import exp_fast
from ..vectors import (
    EIGHT,
    at_least,
    exponent,
    fill,
    fma,
    gather,
    larger,
    load,
    mantissa,
    scatter,
    spread,
    store,
    turn,
)
from .single import LOG_2, LOST, LOWEST_TOP, TINY

__all__ = ["SMALL_K", "smooth_eight"]

# entries of a cursor: the next group, the time within it (0: its start), then its slots that are
# left out
GROUP, TIME, IS_OUT = 0, 1, 2

SMALL_K = 12  # up to this many states, a matrix product is not worth its call
TIMES = 64  # times loaded or stored together, state by state, in the order of memory


@kernel
def load_ragged(evidence, k, t0, begins, lengths, square):
    """Square (8, 8) = evidence (K, n)[k] of eight times from t0 on, by slot; -inf after its end."""
    n = evidence.shape[1]
    for t in range(EIGHT):
        square[t] = t
    times = load(square, 0)
    for s in range(EIGHT):
        at, left = k * n + begins[s] + t0, lengths[s] - t0
        if left > 0 and at + EIGHT <= evidence.size:
            store(square, EIGHT * s, at_least(times, float(left), -np.inf, load(evidence, at)))
        else:
            for t in range(EIGHT):
                square[EIGHT * s + t] = evidence[k, begins[s] + t0 + t] if t < left else -np.inf


@kernel
def load_slots(evidence, begins, lengths, shortest, T, square, out, out_tops):
    """Out (T, K, 8) = exp(evidence - top), evidence (K, n).

    out_tops (8,) : sum over times of the largest evidence of a row.
    """
    (K, n), tops = evidence.shape, fill(0.0)
    for first in range(0, T, TIMES):
        last = min(first + TIMES, T)
        for k in range(K):
            for begin in range(first, last, EIGHT):
                t0 = max(min(begin, last - EIGHT), first)  # the last ones may be loaded twice
                if t0 + EIGHT <= shortest:
                    gather(evidence, k * n + t0, begins, out, (t0 * K + k) * EIGHT, K * EIGHT)
                else:
                    load_ragged(evidence, k, t0, begins, lengths, square)
                    turn(square, 0, EIGHT, out, (t0 * K + k) * EIGHT, K * EIGHT)
        for t in range(first, last):
            top = fill(-np.inf)
            for at in range(t * K * EIGHT, (t + 1) * K * EIGHT, EIGHT):
                top = larger(load(out, at), top)
            # if nothing is possible, -inf minus -inf would be NaN
            top = at_least(top, LOWEST_TOP, top, 0.0)
            for at in range(t * K * EIGHT, (t + 1) * K * EIGHT, EIGHT):
                store(out, at, exp_fast(load(out, at) - top))
            tops = tops + top
    store(out_tops, 0, tops)


@kernel
def four_sums(table, line, width, K, source, at):
    """Sums over states i of table (., width)[line + 0 .. 3, i] * source (., 8)[at + i]."""
    a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    first, second = line * width, (line + 1) * width
    third, fourth = (line + 2) * width, (line + 3) * width
    for i in range(K):
        x = load(source, EIGHT * (at + i))
        a = fma(spread(table, first + i), x, a)
        b = fma(spread(table, second + i), x, b)
        c = fma(spread(table, third + i), x, c)
        d = fma(spread(table, fourth + i), x, d)
    return a, b, c, d


@kernel
def one_sum(table, line, width, K, source, at):
    """A single sum, as in `four_sums`."""
    a = fill(0.0)
    for i in range(K):
        a = fma(spread(table, line * width + i), load(source, EIGHT * (at + i)), a)
    return a


@kernel
def weigh(predicted, inverse, rows, out, at):
    """Out (., 8)[at] = predicted * inverse * rows (., 8)[at]."""
    weight = predicted * inverse * load(rows, EIGHT * at)
    store(out, EIGHT * at, at_least(predicted, LOST, weight, 0.0))


@kernel
def sum_states(weights, at, K):
    """Sum of K lines of weights (., 8), four at a time."""
    total = fill(0.0)
    for k in range(at, at + K - K % 4, 4):
        low = load(weights, EIGHT * k) + load(weights, EIGHT * (k + 1))
        total = total + (low + (load(weights, EIGHT * (k + 2)) + load(weights, EIGHT * (k + 3))))
    rest = fill(0.0)
    for k in range(at + K - K % 4, at + K):
        rest = rest + load(weights, EIGHT * k)
    return total + rest


@kernel
def forward_slots(
    start, transposed, K, lengths, shortest, T, rows, out_weights, out_inverse, out_log_scale
):
    """Forward pass of every slot, like `single.forward_rows`.

    out_weights (T, K, 8); out_inverse (T, 8): one over their sum over states. out_log_scale (8,):
    log of the product of these sums; -inf if one of them was nearly zero or NaN.
    """
    product, exponents, worst, inverse = fill(1.0), fill(0.0), fill(1.0), fill(1.0)
    width = transposed.shape[1]
    for k in range(K):
        weigh(spread(start, k), inverse, rows, out_weights, k)
    for t in range(T):
        now, before = t * K, (t - 1) * K
        if t > 0:
            for k in range(0, K - K % 4, 4):
                a, b, c, d = four_sums(transposed, k, width, K, out_weights, before)
                weigh(a, inverse, rows, out_weights, now + k)
                weigh(b, inverse, rows, out_weights, now + k + 1)
                weigh(c, inverse, rows, out_weights, now + k + 2)
                weigh(d, inverse, rows, out_weights, now + k + 3)
            for k in range(K - K % 4, K):
                a = one_sum(transposed, k, width, K, out_weights, before)
                weigh(a, inverse, rows, out_weights, now + k)
        total = sum_states(out_weights, now, K)
        if t >= shortest:
            store(out_inverse, EIGHT * t, total)
            for s in range(EIGHT):
                if t >= lengths[s]:
                    out_inverse[t, s] = 1.0
            total = load(out_inverse, EIGHT * t)
        worst = at_least(total, TINY, worst, 0.0)
        product = product * total
        exponents = exponents + exponent(product)
        product = mantissa(product)
        inverse = 1.0 / total
        store(out_inverse, EIGHT * t, inverse)
    store(out_log_scale, 0, product * worst)
    for s in range(EIGHT):
        out_log_scale[s] = math.log(out_log_scale[s])
    store(out_log_scale, 0, exponents * LOG_2 + load(out_log_scale, 0))


@kernel
def place_slots(sequences, offsets, sequence_weights, cursor, begins, lengths, repeats):
    """Fill begins, lengths and repeats (8,) of up to eight sequences; returns the longest length.

    Slots without a sequence, and those that the cursor leaves out, have length 0.
    """
    n_used = sequences.shape[0]
    for s in range(EIGHT):
        sequence = sequences[min(s, n_used - 1)]
        is_in = s < n_used and cursor[IS_OUT + s] == 0
        begins[s], repeats[s] = offsets[sequence], sequence_weights[sequence]
        lengths[s] = offsets[sequence + 1] - begins[s] if is_in else 0
    return offsets[sequences[0] + 1] - offsets[sequences[0]]


@kernel
def begin_group(
    evidence, start, transposed, begins, T, square, lengths, rows, weights, inverse, futures,
    start_shift, step_shift, sequences, out_log_z,
):  # fmt: skip
    """Load a group of up to eight sequences, run its forward pass, and clear its last future.

    Slots whose scale fails get length 0 and out_log_z (S,)[sequences] = -inf.
    """
    K, is_good, tops, log_z = evidence.shape[0], False, np.empty(EIGHT), np.empty(EIGHT)
    while not is_good:
        is_good, shortest = True, least(lengths)
        load_slots(evidence, begins, lengths, shortest, T, square, rows, tops)
        forward_slots(start, transposed, K, lengths, shortest, T, rows, weights, inverse, log_z)
        for s in range(EIGHT):
            if lengths[s] > 0 and log_z[s] == -np.inf:
                lengths[s], is_good = 0, False
    for s in range(sequences.shape[0]):
        log_z[s] += tops[s] if lengths[s] > 0 else -np.inf
        out_log_z[sequences[s]] = log_z[s] + start_shift + (lengths[s] - 1) * step_shift
    for k in range(K):
        store(futures, EIGHT * (T % EIGHT * K + k), fill(0.0))


@kernel
def least(lengths):
    """The smallest of eight lengths."""
    found = lengths[0]
    for s in range(1, EIGHT):
        found = min(found, lengths[s])
    return found


@kernel
def pass_back(message, inverse, rows, weights, at, futures, out):
    """One state at one time: rows (., 8)[at] become the shares, weights * message.

    futures (., 8)[out] = message * rows * inverse.
    """
    weight = load(weights, EIGHT * at)
    value = at_least(weight, LOST, message, 0.0)
    store(futures, EIGHT * out, value * load(rows, EIGHT * at) * inverse)
    store(rows, EIGHT * at, weight * value)


@kernel
def backward_slots(
    t, transition, K, lengths, shortest, repeats, weights, inverse, square, rows, futures
):
    """Time t of the backward pass of every slot, like `single.backward_rows`; rows become shares.

    futures (8, K, 8) : future of the step from t to t + 1 at (t + 1) % 8; that of the step into t
    is written to t % 8. A slot ends with repeats (8,) * inverse (T, 8).
    """
    now, mine, out = t * K, (t + 1) % EIGHT * K, t % EIGHT * K
    width, ends = transition.shape[1], fill(0.0)
    if t + 1 >= shortest:
        for s in range(EIGHT):
            square[s] = repeats[s] * inverse[t, s] if t + 1 == lengths[s] else 0.0
        ends = load(square, 0)
    scale = load(inverse, EIGHT * (t - 1)) if t > 0 else fill(1.0)
    for k in range(0, K - K % 4, 4):
        a, b, c, d = four_sums(transition, k, width, K, futures, mine)
        pass_back(a + ends, scale, rows, weights, now + k, futures, out + k)
        pass_back(b + ends, scale, rows, weights, now + k + 1, futures, out + k + 1)
        pass_back(c + ends, scale, rows, weights, now + k + 2, futures, out + k + 2)
        pass_back(d + ends, scale, rows, weights, now + k + 3, futures, out + k + 3)
    for k in range(K - K % 4, K):
        a = one_sum(transition, k, width, K, futures, mine)
        pass_back(a + ends, scale, rows, weights, now + k, futures, out + k)


@kernel
def add_four(weights, futures, first, last, K, i, j, out):
    """Steps from states i and i + 1 to j and j + 1: see `add_steps`."""
    upper, lower = EIGHT * (i * K + j), EIGHT * ((i + 1) * K + j)
    a, b = load(out, upper), load(out, upper + EIGHT)
    c, d = load(out, lower), load(out, lower + EIGHT)
    for t in range(first, last):
        at, to = EIGHT * ((t - 1) * K + i), EIGHT * (t % EIGHT * K + j)
        x, y = load(weights, at), load(weights, at + EIGHT)
        left, right = load(futures, to), load(futures, to + EIGHT)
        a, b, c, d = fma(x, left, a), fma(x, right, b), fma(y, left, c), fma(y, right, d)
    store(out, upper, a)
    store(out, upper + EIGHT, b)
    store(out, lower, c)
    store(out, lower + EIGHT, d)


@kernel
def add_one(weights, futures, first, last, K, i, j, out):
    """Steps from state i to j: see `add_steps`."""
    a = load(out, EIGHT * (i * K + j))
    for t in range(first, last):
        x, right = (
            load(weights, EIGHT * ((t - 1) * K + i)),
            load(futures, EIGHT * (t % EIGHT * K + j)),
        )
        a = fma(x, right, a)
    store(out, EIGHT * (i * K + j), a)


@kernel
def add_steps(weights, futures, first, last, K, out):
    """Out (K, K, 8)[i, j] += weights (T, K, 8)[t - 1, i] * futures (8, K, 8)[t % 8, j].

    Summed over times first to last - 1.
    """
    even = K - K % 2
    for i in range(0, even, 2):
        for j in range(0, even, 2):
            add_four(weights, futures, first, last, K, i, j, out)
    for k in range(even, K):
        for i in range(K):
            add_one(weights, futures, first, last, K, i, k, out)
        for j in range(even):
            add_one(weights, futures, first, last, K, k, j, out)


@kernel
def store_slots(shares, first, last, begins, lengths, shortest, square, out):
    """Out (K, n)[:, begins + t] = shares (T, K, 8)[t], for times first to last."""
    K, n = out.shape
    for k in range(K):
        for begin in range(first, last, EIGHT):
            t0 = max(min(begin, last - EIGHT), first)
            if t0 + EIGHT <= shortest:
                scatter(shares, (t0 * K + k) * EIGHT, K * EIGHT, out, k * n + t0, begins)
            else:
                turn(shares, (t0 * K + k) * EIGHT, K * EIGHT, square, 0, EIGHT)
                for s in range(EIGHT):
                    if t0 + EIGHT <= lengths[s]:
                        store(out, k * n + begins[s] + t0, load(square, EIGHT * s))
                    else:
                        for t in range(lengths[s] - t0):
                            out[k, begins[s] + t0 + t] = square[EIGHT * s + t]


@kernel
def smooth_eight(
    evidence, order, groups, offsets, sequence_weights, start, transition, transposed, start_shift,
    step_shift, cursor, rows,
    weights, inverse, futures, past, future, out_log_z, out_start, out_steps, out_shares,
):  # fmt: skip
    """Forward-backward of the groups order[groups[g]:groups[g] + 8], until the room is used up.

    past and future (K, R) : weights of rows and futures of the steps out of them; a matrix product
    turns them into counts. With few states, counts are added to out_steps (K, K, 8) instead. When
    they are full, or all is done, it returns the number of columns in use; call it with the same
    cursor (10,), initially zero, until that is past the last group. Scratch: rows and weights
    (T, K, 8), T rounded up to a multiple of eight, inverse (T, 8), futures (8, K, 8). out_log_z
    (S,) is -inf for sequences whose scale fails; nothing else is done for them.
    """
    K, room, used = evidence.shape[0], past.shape[1], 0
    begins, lengths, repeats = np.empty(EIGHT, np.int64), np.empty(EIGHT, np.int64), np.empty(EIGHT)
    square = np.empty(EIGHT * EIGHT)
    while cursor[GROUP] < groups.shape[0]:
        mine = order[groups[cursor[GROUP]] : groups[cursor[GROUP]] + EIGHT]
        T = place_slots(mine, offsets, sequence_weights, cursor, begins, lengths, repeats)
        if cursor[TIME] == 0:
            begin_group(
                evidence, start, transposed, begins, T, square, lengths, rows, weights, inverse,
                futures, start_shift, step_shift, mine, out_log_z,
            )  # fmt: skip
            for s in range(EIGHT):
                cursor[IS_OUT + s] = 1 if lengths[s] == 0 else 0
            cursor[TIME] = T
        shortest = least(lengths)
        while cursor[TIME] > 0:
            if used == room:
                return used
            t = cursor[TIME] - 1
            backward_slots(
                t, transition, K, lengths, shortest, repeats, weights, inverse, square, rows,
                futures,
            )  # fmt: skip
            if K <= SMALL_K:
                if t % EIGHT == 0:  # sums over eight times stay in registers
                    add_steps(weights, futures, max(t, 1), min(t + EIGHT, T), K, out_steps)
            elif t > 0:
                for k in range(K):
                    store(past, k * room + used, load(weights, ((t - 1) * K + k) * EIGHT))
                    store(future, k * room + used, load(futures, EIGHT * (t % EIGHT * K + k)))
                used += EIGHT
            if t % TIMES == 0:
                last = min(t + TIMES, T)
                store_slots(rows, t, last, begins, lengths, shortest, square, out_shares)
            cursor[TIME] = t
        for k in range(K):
            for s in range(EIGHT):
                out_start[k] += rows[0, k, s] if lengths[s] > 0 else 0.0
        cursor[GROUP] += 1
        cursor[IS_OUT:] = 0
    return used
