"""Random segmentations by stages, segment by segment from the last one back.

The forward pass says how much weight ends before every row and begins at it. So the begin of a
segment is found by going back from its end, one row at a time, with the messages of its stages
alone: that costs the rows of the segment times its stages, and no messages of other rows are kept.

Tables of messages are (T, K, slots), of eight sequences side by side or of one; see
`stages_eight.py` for the names.
"""

from __future__ import annotations

import math

import numpy as np

from ..chain.eight import least, load_slots
from ..chain.single import TINY, load_rows
from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of
from ..vectors import EIGHT
from .stage_paths import draw_extra
from .stages import close_stages, forward_stages
from .stages_eight import forward_group

__all__ = ["draw_alone", "draw_group"]

LARGE = 1e250  # messages above have left the range in which products can be trusted


@kernel
def draw_begin(rows, begun, inverses, entry, ends, p, q, t, goal, y):
    """The row at which a segment of one state begins that ends before row t, drawn.

    rows, begun, inverses (T,) : of that state. entry (r,) : of its stages; ends (r,) : weights with
        which it ends in each of them, or fewer, if the others cannot end it. p, q : to stay in a
        stage, to advance. goal : uniform times the weight of all such segments. y (r,) : on return
        the messages of the segment's last row
    """
    r, reached, found = entry.shape[0], 0.0, t - 1
    for s in range(t - 1, -1, -1):
        seen = rows[s] * inverses[s]
        if s == t - 1:
            for i in range(r):
                y[i] = entry[i] * seen
        else:
            stay, advance = p * seen, q * seen
            for i in range(r - 1):
                y[i] = stay * y[i] + advance * y[i + 1]
            y[r - 1] = stay * y[r - 1]
        weight = 0.0
        for i in range(ends.shape[0]):
            weight += ends[i] * y[i]
        if not weight < LARGE:
            break
        here = begun[s] * weight
        if here > 0.0:
            found = s
            reached += here
            if reached > goal:
                break
    return found


@kernel
def seed_of(uniform):
    """A counter of random numbers."""
    return np.uint64(uniform * 2.0**53)


@kernel
def draw_back(messages, last, slot, tables, T, K, goes_on, uniforms, y, scratch, out_path):
    """A path (T,), and the rows still to come of its last segment, if that may go on.

    messages : rows, ended, begun (T, K, slots) and inverses (T, slots). last (M, slots) : of the
        last row. y : scratch for the most stages; scratch : for states, and for stages
    """
    rows, ended, begun, inverses = messages
    first, extra = tables.first, 0
    for k in range(K):
        scratch[k] = 0.0
        for i in range(first[k], first[k + 1]):
            scratch[k] += last[i, slot] * tables.close[i]
    seed = seed_of(uniforms[T - 1])
    k = choose(scratch[:K], uniform_of(seed + GOLDEN))
    goal, seed = scratch[k] * uniform_of(seed + GOLDEN + GOLDEN), seed + GOLDEN + GOLDEN
    low, r, end, begin = first[k], first[k + 1] - first[k], T, T
    ends = tables.close[low : low + r]
    while True:
        begin = draw_begin(
            rows[:, k, slot], begun[:, k, slot], inverses[:, slot], tables.entry[low : low + r],
            ends, tables.stay[k], tables.advance[k], end, goal, y,
        )  # fmt: skip
        for t in range(begin, end):
            out_path[t] = k
        if end == T and goes_on:
            for i in range(r):
                y[i] *= ends[i]
            stage = choose(y[:r], uniform_of(seed + GOLDEN))
            extra = draw_extra(stage, tables.stay[k], uniform_of(seed + GOLDEN + GOLDEN))
        if begin == 0:
            return extra
        end, seed = begin, seed_of(uniforms[begin - 1])
        for i in range(K):
            scratch[i] = ended[end, i, slot] * tables.transition[i, k]
        k = choose(scratch[:K], uniform_of(seed + GOLDEN))
        goal = uniform_of(seed + GOLDEN + GOLDEN) * ended[end, k, slot]
        low, r, ends = first[k], first[k + 1] - first[k], tables.advance[k : k + 1]


@kernel
def draw_group(
    evidence_t, sequences, offsets, tables, goes_on, uniforms, buffers, last, x, scratch,
    out_path, out_extra, out_log_z,
):  # fmt: skip
    """Paths of up to eight sequences, the longest first.

    buffers : rows, ended, begun (T, K, 8), inverses (T, 8). last, x (M, 8), scratch (2, M or K)
    out_log_z (S,) : -inf for those that the linear domain cannot do, which have no path
    """
    rows, ended, begun, inverses = buffers
    K, n_used = evidence_t.shape[0], sequences.shape[0]
    begins, lengths = np.empty(EIGHT, np.int64), np.empty(EIGHT, np.int64)
    square, tops, log_scale = np.empty(EIGHT * EIGHT), np.empty(EIGHT), np.empty(EIGHT)
    for s in range(EIGHT):
        sequence = sequences[min(s, n_used - 1)]
        begins[s] = offsets[sequence]
        lengths[s] = offsets[sequence + 1] - begins[s] if s < n_used else 0
    T, shortest = lengths[0], least(lengths)
    load_slots(evidence_t, begins, lengths, shortest, T, square, rows, tops)
    forward_group(tables, K, lengths, shortest, T, rows, x, last, ended, begun, inverses, log_scale)
    for s in range(n_used):
        total, sequence = 0.0, sequences[s]
        for i in range(tables.first[K]):
            total += last[i, s] * tables.close[i]
        out_log_z[sequence] = -np.inf
        if lengths[s] > 0 and log_scale[s] > -np.inf and total >= TINY:
            out_log_z[sequence] = log_scale[s] + tops[s] + math.log(total)
            lo, hi = begins[s], begins[s] + lengths[s]
            out_extra[sequence] = draw_back(
                buffers, last, s, tables, lengths[s], K, goes_on, uniforms[lo:hi], scratch[0],
                scratch[1], out_path[lo:hi],
            )  # fmt: skip


@kernel
def draw_alone(evidence_t, lo, hi, is_free, tables, stages, goes_on, uniforms, out_path):
    """A path of one sequence, rows lo to hi. Returns log_z, and what its last segment lacks.

    tables : padded, see `stages.py`; stages : the same, stacked. log_z is -inf if the linear domain
    fails
    """
    K, (depth, width), T = evidence_t.shape[0], tables.entry.shape, hi - lo
    rows, top, scale = np.empty((T, width)), np.empty(T), np.empty(T)
    ended, begun, x = np.empty((T, width)), np.empty((T, width)), np.empty((depth, width))
    scratch, y = np.empty(width), np.empty(depth)
    load_rows(evidence_t, lo, rows, top)
    done = forward_stages(rows, is_free[lo:hi], True, tables, K, x, ended, begun, scale)
    if done < T:
        return -np.inf, 0
    total = close_stages(x, tables.close, scratch)
    if not total >= TINY:
        return -np.inf, 0
    last, inverses, log_z = np.empty((stages.first[K], 1)), np.empty((T, 1)), math.log(total)
    for k in range(K):
        for i in range(stages.first[k], stages.first[k + 1]):
            last[i, 0] = x[i - stages.first[k], k]
    for t in range(T):
        inverses[t, 0] = 1.0 / scale[t]
        log_z += math.log(scale[t]) + top[t]
    shape = (T, width, 1)
    messages = rows.reshape(shape), ended.reshape(shape), begun.reshape(shape), inverses
    extra = draw_back(
        messages, last, 0, stages, T, K, goes_on, uniforms[lo:hi], y, scratch, out_path[lo:hi]
    )
    return log_z, extra
