"""Many Markov chains side by side: one lane for each sequence, one vector instruction for several of them.

Tables are (K, R), a column for each row of a sequence, sorted by time: the lanes at time t have columns position[t] to
position[t + 1], of which the first alive[t] are in use, since the lanes are sorted by decreasing length. The others fill up a
cache line: their likelihood is 1 and what later rows say of them 0, so that they count for nothing. No lane knows of another, and
sums over states are taken in the order of `chain_rows`.
"""

from __future__ import annotations

import math

import numpy as np

from .chain_rows import LOG_2, LOST, TILE, TINY
from .compile import kernel
from .rows import exp_fast

__all__ = [
    "IS_BAD", "backward_lanes", "begin_lanes", "finish_backward", "finish_forward",
    "forward_lanes", "load_lanes", "log_scales", "place_carry", "plan_lanes", "store_lanes",
]  # fmt: skip

GROUP = 32  # lanes whose rows are fetched together: so many cache lines that all stay at hand while TILE times are taken from them
# Rows of a block's state (3, lanes): one over the last scale; product of all scales, without exponent; sum of largest evidences.
LATEST, PRODUCT, TOPS = 0, 1, 2
EXPONENT, IS_BAD = 0, 1  # of its flags (2, lanes): exponent of that product; whether a scale was nearly zero or not a number


@kernel
def plan_lanes(lengths, out_alive, out_position):
    """Lanes alive at each time, out_alive (T + 1,), and out_position (T + 2,), for lengths (S,) that decrease, the first T."""
    T, n_alive = out_alive.shape[0] - 1, lengths.shape[0]
    out_position[0] = 0
    for t in range(T + 1):
        while n_alive > 0 and lengths[n_alive - 1] <= t:
            n_alive -= 1
        out_alive[t] = n_alive
        out_position[t + 1] = out_position[t] + (n_alive + TILE - 1) // TILE * TILE


@kernel
def begin_lanes(start, message, state, flags):
    """Before the first row: message (K, lanes) = start (K,), no scale yet, no logarithms, nothing bad."""
    for s in range(message.shape[1]):
        state[LATEST, s], state[PRODUCT, s], state[TOPS, s] = 1.0, 1.0, 0.0
        flags[EXPONENT, s], flags[IS_BAD, s] = 0, 0
    for k in range(message.shape[0]):
        row = message[k]
        for s in range(message.shape[1]):
            row[s] = start[k]


@kernel
def load_lanes(evidence_t, begins, alive, position, first, last, state, top, out):
    """Out (K, R) = exp(evidence - top) of times first to last, top (R,) the largest of each row, which is added up in each lane."""
    K, base, sums = evidence_t.shape[0], position[first], state[TOPS]
    for t0 in range(first, last, TILE):
        t1 = min(t0 + TILE, last)
        lo, hi = position[t0] - base, position[t1] - base
        best = top[lo:hi]
        for r in range(hi - lo):
            best[r] = -np.inf
        for k in range(K):
            source, row = evidence_t[k], out[k, lo:hi]
            for s0 in range(0, alive[t0], GROUP):
                for t in range(t0, t1):
                    target = out[k, position[t] - base :]
                    for s in range(s0, min(s0 + GROUP, alive[t])):
                        target[s] = source[begins[s] + t]
            for t in range(t0, t1):
                for r in range(position[t] - base + alive[t], position[t + 1] - base):
                    out[k, r] = 0.0
            for r in range(hi - lo):
                best[r] = row[r] if row[r] > best[r] else best[r]
        for r in range(hi - lo):
            best[r] = best[r] if best[r] != -np.inf else 0.0  # nothing is possible: -inf less -inf would be NaN
        for k in range(K):
            row = out[k, lo:hi]
            for r in range(hi - lo):
                row[r] = exp_fast(row[r] - best[r])
        for t in range(t0, t1):
            best = top[position[t] - base :]
            for s in range(alive[t]):
                sums[s] += best[s]


@kernel
def multiply_lanes(table, source, at, width, out):
    """Out (K, lanes)[:, :width] = table (K, W) @ source (K, R)[:, at : at + width]; two sums of four terms at a time.

    table is padded with zeros to fours, source is not: the last terms of fewer are taken with care, and come out the same.
    """
    K = out.shape[0]
    for j in range(K):
        target = out[j]
        for s in range(width):
            target[s] = 0.0
    for j in range(0, K, 2):
        o, p, g, h = out[j], out[min(j + 1, K - 1)], table[j], table[min(j + 1, K - 1)]
        is_pair = j + 1 < K
        for i in range(0, K, 4):
            a, b, c, d = g[i], g[i + 1], g[i + 2], g[i + 3]
            e, f, q, r = h[i], h[i + 1], h[i + 2], h[i + 3]
            w, x = source[i, at : at + width], source[min(i + 1, K - 1), at : at + width]
            y, z = source[min(i + 2, K - 1), at : at + width], source[min(i + 3, K - 1), at : at + width]
            if is_pair:
                for s in range(width):
                    o[s] += (a * w[s] + b * x[s]) + (c * y[s] + d * z[s])
                    p[s] += (e * w[s] + f * x[s]) + (q * y[s] + r * z[s])
            else:
                for s in range(width):
                    o[s] += (a * w[s] + b * x[s]) + (c * y[s] + d * z[s])


@kernel
def weigh_lanes(predicted, inverse, rows, at, out, out_total):
    """Out (K, R)[:, at:] = predicted (K, lanes) * inverse (lanes,) * rows (K, R)[:, at:]; out_total (width,): sums over states."""
    K, width = rows.shape[0], out_total.shape[0]
    for s in range(width):
        out_total[s] = 0.0
    for k in range(K):
        source, row, target = predicted[k], rows[k, at:], out[k, at:]
        for s in range(width):
            target[s] = source[s] * inverse[s] * row[s] if source[s] > LOST else 0.0
    for k in range(0, K - 3, 4):
        a, b, c, d = out[k, at:], out[k + 1, at:], out[k + 2, at:], out[k + 3, at:]
        for s in range(width):
            out_total[s] += (a[s] + b[s]) + (c[s] + d[s])
    if K % 4 > 0:
        first = K - K % 4
        a, b, c = out[first, at:], out[min(first + 1, K - 1), at:], out[K - 1, at:]
        for s in range(width):
            out_total[s] += (a[s] + b[s]) + c[s] if K % 4 == 3 else (a[s] + b[s] if K % 4 == 2 else a[s])


@kernel
def track_totals(total, n_alive, state, flags):
    """Multiply total into the product, in [1, 2), times 2 ** exponent, of each lane; it is bad if nearly zero or not a number."""
    product, exponent, is_bad = state[PRODUCT], flags[EXPONENT], flags[IS_BAD]
    for s in range(n_alive):
        is_bad[s] = is_bad[s] if total[s] > TINY else 1
        bits = np.float64(product[s] * total[s]).view(np.uint64)
        exponent[s] += np.int64(bits >> np.uint64(52)) - 1023
        product[s] = np.uint64((bits & np.uint64(0xFFFFFFFFFFFFF)) | np.uint64(1023 << 52)).view(np.float64)


@kernel
def finish_forward(predicted, state, flags, rows, at, width, n_alive, out_weights, out_inverse):
    """Columns `at` to at + width of out_weights (K, R) = predicted (K, lanes) * rows (K, R) / latest scale of the lane.

    out_inverse (R,): one over their sum over states, the next scale.
    """
    total, latest = out_inverse[at : at + width], state[LATEST]
    weigh_lanes(predicted, latest, rows, at, out_weights, total)
    track_totals(total, n_alive, state, flags)
    for s in range(width):
        total[s] = 1.0 / total[s]
        latest[s] = total[s]


@kernel
def forward_lanes(
    evidence_t,
    begins,
    start,
    transposed,
    alive,
    position,
    first,
    last,
    message,
    state,
    flags,
    top,
    out_rows,
    out_weights,
    out_inverse,
):
    """Load and forward pass from time `first` to `last`: as `chain_rows.forward_rows`, in every lane.

    message (K, lanes): prediction of the first time on entry, of time `last` on return, still to be divided by the latest scale.
    """
    if first == 0:
        begin_lanes(start, message, state, flags)
    load_lanes(evidence_t, begins, alive, position, first, last, state, top, out_rows)
    base = position[first]
    for t in range(first, last):
        at, width, after = position[t] - base, position[t + 1] - position[t], position[t + 2] - position[t + 1]
        finish_forward(message, state, flags, out_rows, at, width, alive[t], out_weights, out_inverse)
        multiply_lanes(transposed, out_weights, at, after, message)


@kernel
def finish_backward(message, rows, weights, inverse, at, width, n_alive, n_next, repeats, scale, scale_at, out, out_at, room):
    """In place: columns `at` to at + width of rows (K, R) become shares, weights (K, R) * message.

    message (K, lanes) is right for the first n_next lanes; those up to n_alive end here, with repeats (lanes,) * inverse (R,), the
    others ended before. Columns out_at on of out (K, .) become message * rows * scale (.,)[scale_at:], what a step into these rows
    is worth; zero from width to room.
    """
    factor = scale[scale_at : scale_at + width]
    for k in range(rows.shape[0]):
        source, row, weight, target = message[k], rows[k, at:], weights[k, at:], out[k, out_at:]
        for s in range(n_next, width):
            source[s] = repeats[s] * inverse[at + s] if s < n_alive else 0.0
        for s in range(width):
            value = source[s] if weight[s] > LOST else 0.0
            target[s] = value * row[s] * factor[s]
            row[s] = weight[s] * value
        for s in range(width, room):
            target[s] = 0.0


@kernel
def place_carry(carry, inverse, at, width, out_future):
    """out_future (K, R)[:, at:] = carry (K, lanes) * inverse (R,)[at:]."""
    factor = inverse[at : at + width]
    for k in range(carry.shape[0]):
        source, target = carry[k], out_future[k, at:]
        for s in range(width):
            target[s] = source[s] * factor[s]


@kernel
def store_lanes(shares, begins, alive, position, first, last, out):
    """Out (K, n)[:, begins[s] + t] = shares (K, R), for the times first to last of every lane."""
    base = position[first]
    for t0 in range(first, last, TILE):
        t1 = min(t0 + TILE, last)
        for k in range(shares.shape[0]):
            target = out[k]
            for s0 in range(0, alive[t0], GROUP):
                for t in range(t0, t1):
                    source = shares[k, position[t] - base :]
                    for s in range(s0, min(s0 + GROUP, alive[t])):
                        target[begins[s] + t] = source[s]


@kernel
def backward_lanes(
    carry, transition, rows, weights, inverse, alive, position, first, last, repeats, message, begins, out_future, out_shares
):
    """Backward pass from time `last` to `first`: as `chain_rows.backward_rows`, in every lane; rows become shares, and are stored.

    repeats (lanes,): weights of the sequences. out_future (K, R): in the columns of time t what the step to t + 1 is worth.
    carry (K, lanes): that of the last time on entry, of the time before the first on return, still to be divided by its scale.
    message (K, lanes) is used up.
    """
    base, ones = position[first], np.ones(repeats.shape[0])
    place_carry(carry, inverse, position[last - 1] - base, position[last] - position[last - 1], out_future)
    for t in range(last - 1, first - 1, -1):
        at, width, after, n_next = (
            position[t] - base,
            position[t + 1] - position[t],
            position[t + 2] - position[t + 1],
            alive[t + 1],
        )
        multiply_lanes(transition, out_future, at, after, message)
        room = at + base - position[t - 1] if t > 0 else width
        is_inner = t > first  # else its future belongs to the chunk before
        scale, target, before = inverse if is_inner else ones, out_future if is_inner else carry, at - room if is_inner else 0
        finish_backward(message, rows, weights, inverse, at, width, alive[t], n_next, repeats, scale, before, target, before, room)
    store_lanes(rows, begins, alive, position, first, last, out_shares)


@kernel
def log_scales(state, flags, out):
    """Out (n,): logarithms of the products of scales, and largest evidences, of the first n lanes."""
    for s in range(out.shape[0]):
        out[s] = flags[EXPONENT, s] * LOG_2 + math.log(state[PRODUCT, s]) + state[TOPS, s]
