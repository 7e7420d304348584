"""Posteriors of the links of sentence pairs, in units of their own.

A pair has J target words (rows) and N source words, at positions 1 to N; position 0 of a row's
links is NULL. Weights w (J, N + 1) say how well each source word translates into each row. In a bag
every row is linked by itself: p0 w_0 for NULL, p1 w_i / N for a word. In a chain a word at i is
reached by a jump from p, the position of the last row linked to a word: p1 w_i jump(i - p); the
first such word, with p = 0, by p1 w_i / N. NULL keeps p. So what has to be remembered is p, and

    a_j(p)  =  p0 w_j0 a_(j-1)(p)  +  p1 w_jp sum_q a_(j-1)(q) jump(p - q)

Rows are scaled to sum to one on the way, in both directions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..rows import exp_fast
from ..vectors import EIGHT, fill, fma, load, store

__all__ = [
    "add_jumps",
    "bag_pair",
    "best_pairs",
    "chain_pair",
    "chances",
    "count_places",
    "infer_pairs",
    "largest_places",
    "local_jumps",
    "longest",
    "make_room",
]


class Room(NamedTuple):
    """What the inference of a chain works in, large enough for every pair; see `local_jumps`."""

    a: np.ndarray
    pred: np.ndarray
    x: np.ndarray
    beta: np.ndarray
    back: np.ndarray
    steps: np.ndarray
    jumps: np.ndarray
    turned: np.ndarray
    scale: np.ndarray


@kernel
def make_room(rows, most):
    """Room for pairs of at most `rows` target and `most` source words."""
    width = (most + EIGHT) // EIGHT * EIGHT
    lines, jumps = (rows + 1) * width, 2 * most + 3 * EIGHT
    return Room(
        np.zeros(lines), np.zeros(lines), np.zeros(width), np.zeros(width), np.zeros(width),
        np.zeros(width * width), np.zeros(jumps), np.zeros(jumps), np.zeros(most + 1),
    )  # fmt: skip


@kernel
def chances(chance, length):
    """p0 and p1 of a source sentence; chance (2,), or () where NULL is one more position."""
    if chance.shape[0] == 0:
        return 1.0 / (length + 1.0), length / (length + 1.0)
    return chance[0], chance[1]


@kernel
def local_jumps(jump, length, is_open, room):
    """Weights of the jumps of a sentence, d above -N: room.jumps[d + N - 1 + EIGHT].

    jump (2 W + 1,) : weights of widths from -W to W, the outermost also those of longer ones
    room.turned has them in reverse. room.scale (N + 1,) : of the jumps from each position, one if
    they are open, else they sum to one
    """
    W, jumps, n = jump.shape[0] // 2, room.jumps, 2 * length + 3 * EIGHT
    for k in range(n):
        d = k - EIGHT - length + 1
        jumps[k] = jump[min(max(d, -W), W) + W] if -length < d <= length else 0.0
    for k in range(n):
        room.turned[k] = jumps[n - 1 - k]
    for p in range(length + 1):
        total = 1.0
        if p > 0 and not is_open:
            total = 0.0
            for i in range(1, length + 1):
                total += jumps[i - p + length - 1 + EIGHT]
        room.scale[p] = 1.0 / total


@kernel
def bag_pair(w, J, N, p0, p1, out):
    """Out (J (N + 1),) = posteriors of links; returns the log normalizer of the pair."""
    log_z, each = 0.0, p1 / max(N, 1)
    for j in range(J):
        at = j * (N + 1)
        total = p0 * w[at]
        out[at] = total
        for i in range(1, N + 1):
            out[at + i] = each * w[at + i]
            total += out[at + i]
        log_z += math.log(total) if total > 0.0 else -np.inf
        total = 1.0 / total if total > 0.0 else np.nan
        for i in range(N + 1):
            out[at + i] *= total
    return log_z


@kernel
def convolve(values, at, n, kernel_values, shift, width, out, to):
    """out[to + i] = sum_k values[at + k] kernel_values[shift + i - k], k < n, i < width."""
    for i in range(0, width, EIGHT):
        even, odd = fill(0.0), fill(0.0)
        for k in range(0, n - 1, 2):
            even = fma(load(kernel_values, shift + i - k), values[at + k], even)
            odd = fma(load(kernel_values, shift + i - k - 1), values[at + k + 1], odd)
        if n % 2:
            even = fma(load(kernel_values, shift + i - n + 1), values[at + n - 1], even)
        store(out, to + i, even + odd)


@kernel
def forward(w, J, N, p0, p1, room):
    """Set room.a to a_j(p), after a first line, room.pred to sums over jumps; log normalizer."""
    width, log_z = (N + EIGHT) // EIGHT * EIGHT, 0.0
    a, pred, x = room.a, room.pred, room.x
    for p in range(width):
        a[p] = 0.0
    a[0] = 1.0
    for j in range(J):
        at, old, new = j * (N + 1), j * width, (j + 1) * width
        for p in range(1, N + 1):
            x[p] = a[old + p] * room.scale[p]
        x[0] = 0.0
        convolve(x, 0, N + 1, room.jumps, N - 1 + EIGHT, width, pred, old)
        null, total, first = p0 * w[at], 0.0, a[old] / max(N, 1)
        for i in range(1, N + 1):
            pred[old + i] += first
        pred[old] = 0.0
        for i in range(N + 1):
            a[new + i] = null * a[old + i] + p1 * w[at + i] * pred[old + i]
            total += a[new + i]
        if not total > 0.0:
            return -np.inf
        log_z += math.log(total)
        total = 1.0 / total
        for i in range(N + 1):
            a[new + i] *= total
        for i in range(N + 1, width):
            a[new + i] = 0.0
    return log_z


@kernel
def chain_pair(w, J, N, p0, p1, room, out, out_jumps):
    """Out (J (N + 1),) = posteriors of links, out_jumps (2 N,) = expected jumps from 1 - N on.

    room : see `make_room`, with the jumps of `local_jumps`
    Returns the log normalizer; -inf if no alignment is possible.
    """
    width, log_z = (N + EIGHT) // EIGHT * EIGHT, forward(w, J, N, p0, p1, room)
    a, pred, x, beta, back, steps = room.a, room.pred, room.x, room.beta, room.back, room.steps
    if not log_z > -np.inf:
        return log_z
    for p in range(width):
        beta[p] = 1.0 if p <= N else 0.0
        x[p] = 0.0
    for k in range((N + 1) * width):
        steps[k] = 0.0
    for j in range(J - 1, -1, -1):
        at, old = j * (N + 1), j * width
        null, total = p0 * w[at], 0.0
        for p in range(N + 1):
            total += a[old + p] * beta[p]
        out[at] = null * total
        total = out[at]
        for i in range(1, N + 1):
            x[i] = p1 * w[at + i] * beta[i]
            out[at + i] = x[i] * pred[old + i]
            total += out[at + i]
        total = 1.0 / total
        for i in range(N + 1):
            out[at + i] *= total
        for p in range(1, N + 1):
            from_p = a[old + p] * room.scale[p] * total
            if from_p > 0.0:
                for i in range(0, width, EIGHT):
                    k = p * width + i
                    store(steps, k, fma(load(x, i), from_p, load(steps, k)))
        convolve(x, 0, N + 1, room.turned, N + 2 * EIGHT, width, back, 0)
        total = 0.0
        for i in range(1, N + 1):
            total += x[i]
        back[0], total = total / max(N, 1), 0.0
        for p in range(N + 1):
            back[p] = null * beta[p] + room.scale[p] * back[p]
            total += back[p]
        total = 1.0 / total
        for p in range(N + 1):
            beta[p] = back[p] * total
    for k in range(2 * N):
        out_jumps[k] = 0.0
    for p in range(1, N + 1):
        for i in range(1, N + 1):
            out_jumps[i - p + N - 1] += steps[p * width + i]
    for k in range(2 * N):
        out_jumps[k] *= room.jumps[k + EIGHT]
    return log_z


@kernel
def add_jumps(counts, N, sign, out):
    """Out (2 W + 1,) += sign * counts (2 N,) of the widths from 1 - N to N."""
    W = out.shape[0] // 2
    for k in range(2 * N):
        out[min(max(k - N + 1, -W), W) + W] += sign * counts[k]


@kernel
def weigh_pair(log_cells, log_absent, links, at, words, N, J, out):
    """Out (J (N + 1),) = weights of links, those of each row over its largest.

    words (N,) : source words; log_absent (K,) of what is not a cell. Out has room for seven more.
    Returns the sum of the logs of what rows were divided by.
    """
    shift = 0.0
    for j in range(J):
        row, top = j * (N + 1), -np.inf
        for i in range(N + 1):
            cell = links[at + row + i]
            word = words[i - 1] if i > 0 else 0
            out[row + i] = log_cells[cell] if cell >= 0 else log_absent[word]
            top = max(top, out[row + i])
        shift += top
        for i in range(0, N + 1, EIGHT):  # what lies after the row is not there yet
            eight = exp_fast(load(out, row + i) - top) if top > -np.inf else fill(0.0)
            store(out, row + i, eight)
    return shift


@kernel
def longest(offsets):
    """The largest unit."""
    most = 0
    for u in range(offsets.shape[0] - 1):
        most = max(most, offsets[u + 1] - offsets[u])
    return most


@kernel
def count_places(places, source_offsets, offsets, out_shares, out_null, out_jump):
    """out_shares (L,) = 1 for the links of the positions places (n,), 0 for NULL; counts added."""
    at, W = 0, out_jump.shape[0] // 2
    for u in range(offsets.shape[0] - 1):
        width, last = source_offsets[u + 1] - source_offsets[u] + 1, 0
        for j in range(offsets[u], offsets[u + 1]):
            i = places[j]
            out_shares[at + i] = 1.0
            out_null[1 if i > 0 else 0] += 1.0
            if i > 0:
                if last > 0 and W > 0:
                    out_jump[min(max(i - last, -W), W) + W] += 1.0
                last = i
            at += width


@kernel
def infer_pairs(
    log_cells, log_absent, links, source, source_offsets, offsets, chance, jump, is_open,
    out_shares, out_null, out_jump, out_log_z,
):  # fmt: skip
    """Posteriors of all links, out_shares (L,); log normalizers of the pairs, out_log_z (S,).

    chance : see `chances`. jump (2 W + 1,) : weights of jumps; () for a bag
    out_null (2,) += links to NULL and to words, out_jump += jumps
    """
    most, rows = longest(source_offsets), longest(offsets)
    w, found, at = np.zeros(rows * (most + 1) + EIGHT), np.zeros(rows * (most + 1)), 0
    room, own = make_room(rows, most), np.zeros(2 * most + 1)
    for u in range(offsets.shape[0] - 1):
        lo = source_offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - offsets[u]
        shift = weigh_pair(log_cells, log_absent, links, at, source[lo : lo + N], N, J, w)
        p0, p1 = chances(chance, N)
        if jump.shape[0] > 0:
            local_jumps(jump, N, is_open, room)
            log_z = chain_pair(w, J, N, p0, p1, room, found, own)
            add_jumps(own, N, 1.0, out_jump)
        else:
            log_z = bag_pair(w, J, N, p0, p1, found)
        out_log_z[u] = log_z + shift
        for j in range(J):
            out_null[0] += found[j * (N + 1)]
            out_null[1] += 1.0 - found[j * (N + 1)]
        for k in range(J * (N + 1)):
            out_shares[at + k] = found[k]
        at += J * (N + 1)


@kernel
def best_chain(w, J, N, p0, p1, room, held, back, out):
    """Out (J,) = positions of the best alignment, 0 for NULL; returns the log of its weight.

    held (2, N + 1), back (J, N + 1) : room
    """
    log_best = 0.0
    for p in range(N + 1):
        held[0, p] = 1.0 if p == 0 else 0.0
    for j in range(J):
        at, top = j * (N + 1), 0.0
        for i in range(N + 1):
            held[1, i], back[j, i] = p0 * w[at] * held[0, i], -1
            if i > 0:
                for p in range(N + 1):
                    step = room.jumps[i - p + N - 1 + EIGHT] if p > 0 else 1.0 / N
                    value = p1 * w[at + i] * held[0, p] * room.scale[p] * step
                    if value > held[1, i]:
                        held[1, i], back[j, i] = value, p
            top = max(top, held[1, i])
        if not top > 0.0:
            return -np.inf
        log_best += math.log(top)
        for i in range(N + 1):
            held[0, i] = held[1, i] / top
    p = 0
    for i in range(N + 1):
        p = i if held[0, i] > held[0, p] else p
    for j in range(J - 1, -1, -1):
        before = back[j, p]
        out[j] = 0 if before < 0 else p
        p = p if before < 0 else before
    return log_best


@kernel
def best_pairs(
    log_cells, log_absent, links, source, source_offsets, offsets, chance, jump, is_open,
    out_places, out_log_z,
):  # fmt: skip
    """out_places (n,) = position of each row in the best alignment of its pair, 0 for NULL."""
    most, rows = longest(source_offsets), longest(offsets)
    w, held = np.zeros(rows * (most + 1) + EIGHT), np.zeros((2, most + 1))
    back = np.zeros((rows, most + 1))
    room, at, steps = make_room(rows, most), 0, back.astype(np.int64)
    for u in range(offsets.shape[0] - 1):
        lo, first = source_offsets[u], offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - first
        shift = weigh_pair(log_cells, log_absent, links, at, source[lo : lo + N], N, J, w)
        p0, p1 = chances(chance, N)
        places = out_places[first : first + J]
        if jump.shape[0] > 0:
            local_jumps(jump, N, is_open, room)
            out_log_z[u] = shift + best_chain(w, J, N, p0, p1, room, held, steps, places)
        else:
            out_log_z[u] = shift
            for j in range(J):
                best, top = 0, p0 * w[j * (N + 1)]
                for i in range(1, N + 1):
                    value = p1 / N * w[j * (N + 1) + i]
                    if value > top:
                        best, top = i, value
                places[j] = best
                out_log_z[u] += math.log(top) if top > 0.0 else -np.inf
        at += J * (N + 1)


@kernel
def largest_places(shares, source_offsets, offsets, out):
    """Out (n,) = position with the largest of the shares (L,) of each row, 0 for NULL."""
    at = 0
    for u in range(offsets.shape[0] - 1):
        width = source_offsets[u + 1] - source_offsets[u] + 1
        for j in range(offsets[u], offsets[u + 1]):
            best = 0
            for i in range(1, width):
                best = i if shares[at + i] > shares[at + best] else best
            out[j] = best
            at += width
