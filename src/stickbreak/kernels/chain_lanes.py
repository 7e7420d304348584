"""Many Markov chains side by side: one lane for each sequence, one vector instruction for several of them.

Tables are (K, R), a column for each row of a sequence, sorted by time: the lanes at time t have columns position[t] to
position[t + 1], of which the first alive[t] are in use, since the lanes are sorted by decreasing length. The others fill up a cache
line: their likelihood is 1 and what later rows say of them 0, so that they count for nothing. Sums over states run from the first to
the last; no lane knows of another.
"""

from __future__ import annotations

import numpy as np

from .chain_rows import LOST, TILE, TINY
from .compile import kernel
from .rows import exp_fast

__all__ = ["backward_lanes", "finish_backward", "finish_forward", "forward_lanes", "load_lanes", "store_lanes"]


@kernel
def load_lanes(evidence_t, begins, lengths, alive, position, first, last, out, top, out_sum):
    """Out (K, R) = exp(evidence - top) of times first to last, top (R,) the largest of each row; out_sum (lanes,) += top."""
    K, base = evidence_t.shape[0], position[first]
    for t0 in range(first, last, TILE):
        t1 = min(t0 + TILE, last)
        lo, hi = position[t0] - base, position[t1] - base
        best = top[lo:hi]
        for r in range(hi - lo):
            best[r] = -np.inf
        for k in range(K):
            source, target, row = evidence_t[k], out[k], out[k, lo:hi]
            for s in range(alive[t0]):
                begin = begins[s]
                for t in range(t0, min(t1, lengths[s])):
                    target[position[t] - base + s] = source[begin + t]
            for t in range(t0, t1):
                for r in range(position[t] - base + alive[t], position[t + 1] - base):
                    target[r] = 0.0
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
                out_sum[s] += best[s]


@kernel
def multiply_lanes(table, source, at, width, out):
    """Out (K, lanes)[:, :width] = table (K, K) @ source (K, R)[:, at : at + width]; two sums of four terms at a time."""
    K = table.shape[0]
    for j in range(K):
        target = out[j]
        for s in range(width):
            target[s] = 0.0
    for j in range(0, K - 1, 2):
        o, p, g, h = out[j], out[j + 1], table[j], table[j + 1]
        for i in range(0, K - 3, 4):
            a, b, c, d, w, x = g[i], g[i + 1], g[i + 2], g[i + 3], source[i, at : at + width], source[i + 1, at : at + width]
            e, f, q, r, y, z = h[i], h[i + 1], h[i + 2], h[i + 3], source[i + 2, at : at + width], source[i + 3, at : at + width]
            for s in range(width):
                o[s] = o[s] + a * w[s] + b * x[s] + c * y[s] + d * z[s]
                p[s] = p[s] + e * w[s] + f * x[s] + q * y[s] + r * z[s]
        for i in range(K - K % 4, K):
            a, e, w = g[i], h[i], source[i, at : at + width]
            for s in range(width):
                o[s] += a * w[s]
                p[s] += e * w[s]
    if K % 2 == 1:
        o, g = out[K - 1], table[K - 1]
        for i in range(K):
            a, w = g[i], source[i, at : at + width]
            for s in range(width):
                o[s] += a * w[s]


@kernel
def sum_lanes(predicted, rows, at, out):
    """Out (width,) = sum over states of predicted (K, lanes) * rows (K, R)[:, at:]."""
    K, width = rows.shape[0], out.shape[0]
    for s in range(width):
        out[s] = 0.0
    for k in range(0, K - 3, 4):
        a, b, c, d = predicted[k], predicted[k + 1], predicted[k + 2], predicted[k + 3]
        w, x, y, z = rows[k, at:], rows[k + 1, at:], rows[k + 2, at:], rows[k + 3, at:]
        for s in range(width):
            out[s] = out[s] + a[s] * w[s] + b[s] * x[s] + c[s] * y[s] + d[s] * z[s]
    for k in range(K - K % 4, K):
        a, w = predicted[k], rows[k, at:]
        for s in range(width):
            out[s] += a[s] * w[s]


@kernel
def track_totals(total, n_alive, product, exponent, is_bad):
    """Multiply total into product (lanes,), in [1, 2), times 2 ** exponent; is_bad where it is nearly zero or not a number."""
    for s in range(n_alive):
        is_bad[s] = is_bad[s] if total[s] > TINY else 1
        bits = np.float64(product[s] * total[s]).view(np.uint64)
        exponent[s] += np.int64(bits >> np.uint64(52)) - 1023
        product[s] = np.uint64((bits & np.uint64(0xFFFFFFFFFFFFF)) | np.uint64(1023 << 52)).view(np.float64)


@kernel
def finish_forward(predicted, rows, at, width, n_alive, out, out_inverse, product, exponent, is_bad):
    """Out (K, R)[:, at : at + width] = predicted (K, lanes) * rows, summing to one; out_inverse (R,): one over the sum before that."""
    total = out_inverse[at : at + width]
    sum_lanes(predicted, rows, at, total)
    track_totals(total, n_alive, product, exponent, is_bad)
    for s in range(width):
        total[s] = 1.0 / total[s]
    for k in range(rows.shape[0]):
        a, w, target = predicted[k], rows[k, at:], out[k, at:]
        for s in range(width):
            target[s] = a[s] * w[s] * total[s] if a[s] > LOST else 0.0


@kernel
def forward_lanes(predicted, transposed, rows, alive, position, first, last, out, out_inverse, product, exponent, is_bad):
    """Forward pass from time `first` to `last`: as `chain_rows.forward_rows`, in every lane.

    predicted (K, lanes): that of the first time on entry, of time `last` on return.
    """
    base = position[first]
    for t in range(first, last):
        at, width, after = position[t] - base, position[t + 1] - position[t], position[t + 2] - position[t + 1]
        finish_forward(predicted, rows, at, width, alive[t], out, out_inverse, product, exponent, is_bad)
        multiply_lanes(transposed, out, at, after, predicted)


@kernel
def finish_backward(beta, rows, filtered, inverse, at, width, n_alive, n_next, weights, out, out_at, room):
    """In place: rows (K, R)[:, at : at + width] become shares, filtered * beta; out[:, out_at:] what a step into them is worth.

    beta (K, lanes) is right for the first n_next lanes; others end here, with beta = weights (lanes,). Room up to `room` is zeroed.
    """
    scale = inverse[at : at + width]
    for k in range(rows.shape[0]):
        b, row, known, future = beta[k], rows[k, at:], filtered[k, at:], out[k, out_at:]
        for s in range(n_next, width):
            b[s] = weights[s] if s < n_alive else 0.0
        for s in range(width):
            value = b[s] if known[s] > LOST else 0.0
            future[s] = value * row[s] * scale[s]
            row[s] = known[s] * value
        for s in range(width, room):
            future[s] = 0.0


@kernel
def backward_lanes(carry, transition, rows, filtered, inverse, alive, position, first, last, weights, beta, out_future):
    """Backward pass from time `last` to `first`: as `chain_rows.backward_rows`, in every lane; rows become shares.

    out_future (K, R): in the columns of time t what the step to t + 1 is worth. carry (K, lanes): that of the last time on entry, of
    the time before the first on return. beta (K, lanes) is used up.
    """
    base = position[first]
    for t in range(last - 1, first - 1, -1):
        at, width, after = position[t] - base, position[t + 1] - position[t], position[t + 2] - position[t + 1]
        if t == last - 1:
            for k in range(rows.shape[0]):
                source, target = carry[k], out_future[k, at:]
                for s in range(width):
                    target[s] = source[s]
        multiply_lanes(transition, out_future, at, after, beta)
        if t == first:
            room = width if t == 0 else position[t] - position[t - 1]
            finish_backward(beta, rows, filtered, inverse, at, width, alive[t], alive[t + 1], weights, carry, 0, room)
        else:
            before = position[t - 1] - base
            finish_backward(
                beta, rows, filtered, inverse, at, width, alive[t], alive[t + 1], weights, out_future, before, at - before
            )


@kernel
def store_lanes(shares, begins, lengths, alive, position, first, last, out):
    """Out (K, n)[:, begins[s] + t] = shares (K, R), for the times first to last of every lane."""
    base = position[first]
    for t0 in range(first, last, TILE):
        t1 = min(t0 + TILE, last)
        for k in range(shares.shape[0]):
            source, target = shares[k], out[k]
            for s in range(alive[t0]):
                begin = begins[s]
                for t in range(t0, min(t1, lengths[s])):
                    target[begin + t] = source[position[t] - base + s]
