"""Random segmentations of pieces of a long sequence by stages, and filtering.

Arguments as in `embedded.py`; sequences in memory are drawn by `stage_draws.py`.
"""

from __future__ import annotations

import math

import numpy as np

from ..chain.collapsed import longest_span
from ..chain.single import TINY, load_rows
from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of
from .stages import close_stages, forward_stages

__all__ = ["draw_end", "draw_rows", "filter_sequences"]


@kernel
def draw_end(x, tables, uniform, scratch):
    """The stage m and state k of a sequence's last row, as m * W + k, drawn."""
    depth, width = x.shape
    for m in range(depth):
        for k in range(width):
            scratch[m * width + k] = x[m, k] * tables.close[m, k]
    return choose(scratch[: depth * width], uniform)


@kernel
def step_back(x, ended, begun, tables, at, uniform, scratch):
    """Stage and state of the row before, given those of a row, `at`; and whether one begins there.

    x (R, W) : messages of the row before; ended, begun (W,) : at the border between the two.
    """
    depth, width = x.shape
    m, k = at // width, at % width
    scratch[0] = tables.stay[k] * x[m, k]
    scratch[1] = tables.advance[k] * x[m + 1, k] if m + 1 < depth else 0.0
    scratch[2] = tables.entry[m, k] * begun[k]
    seed = np.uint64(uniform * 2.0**53)
    way = choose(scratch[:3], uniform_of(seed + GOLDEN))
    if way < 2:
        return (m + way) * width + k
    for i in range(width):
        scratch[i] = ended[i] * tables.transition[i, k]
    return choose(scratch[:width], uniform_of(seed + GOLDEN + GOLDEN))


@kernel
def copy_stages(source, out):
    """Out (R, W) = source. Numba's own assignment of arrays takes seconds to compile."""
    for m in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[m, k] = source[m, k]


@kernel
def draw_rows(rows, is_free, is_start, tables, K, x, at, uniforms, out_path):
    """States (T,) of some rows, from the last one to the first.

    x (R, W) : messages of the row before the first, overwritten
    at : stage and state of the last row, see `draw_end`. Returns those of the row before the first;
        -1 if there is none. Messages are kept for sqrt(T) rows, and made twice.
    """
    T, (depth, width) = rows.shape[0], x.shape
    size = max(1, int(math.sqrt(T)))
    n_parts = -(-T // size)
    marks, kept = np.empty((n_parts, depth, width)), np.empty((size + 1, depth, width))
    ended, begun = np.empty((T, width)), np.empty((T, width))
    scale, scratch = np.empty(T), np.empty(max(width, 3))
    for part in range(n_parts):
        copy_stages(x, marks[part])
        lo, hi = part * size, min(part * size + size, T)
        forward_stages(
            rows[lo:hi], is_free[lo:hi], is_start and lo == 0, tables, K, x, ended[lo:hi],
            begun[lo:hi], scale[lo:hi],
        )  # fmt: skip
    for part in range(n_parts - 1, -1, -1):
        lo, hi = part * size, min(part * size + size, T)
        copy_stages(marks[part], x)
        copy_stages(x, kept[0])
        for t in range(lo, hi):
            forward_stages(
                rows[t : t + 1], is_free[t : t + 1], is_start and t == 0, tables, K, x,
                ended[t : t + 1], begun[t : t + 1], scale[t : t + 1],
            )  # fmt: skip
            copy_stages(x, kept[t - lo + 1])
        for t in range(hi - 1, lo - 1, -1):
            out_path[t] = at % width
            if is_start and t == 0:
                return -1
            at = step_back(kept[t - lo], ended[t], begun[t], tables, at, uniforms[t], scratch)
    return at


@kernel
def filter_rows(rows, top, is_free, is_start, tables, goes_on, is_end, K, x, before, outs):
    """p(state | rows so far) (T, K) and log steps (T,), of some rows. Returns the last sum.

    goes_on (R, W) : weights of stages within a sequence, of which `before` is the last sum;
        tables.close : those of its last row. NaN if the linear domain fails.
    """
    shares, steps = outs
    width, T = x.shape[1], rows.shape[0]
    ended, begun, scale = np.empty((1, width)), np.empty((1, width)), np.empty(1)
    here = np.empty(width)
    for t in range(T):
        done = forward_stages(
            rows[t : t + 1], is_free[t : t + 1], is_start and t == 0, tables, K, x, ended, begun,
            scale,
        )  # fmt: skip
        total = 0.0
        if done == 1:
            total = close_stages(x, tables.close if is_end and t == T - 1 else goes_on, here)
        if not total >= TINY:
            return np.nan
        for k in range(K):
            shares[t, k] = here[k] / total
        steps[t] = math.log(scale[0]) + top[t] + math.log(total) - math.log(before)
        before = total
    return before


@kernel
def filter_sequences(evidence_t, offsets, is_free, tables, goes_on, out_shares, out_step, out_bad):
    """`filter_rows` of every sequence; out_bad (S,) marks those that fail."""
    K, (depth, width), n = evidence_t.shape[0], tables.entry.shape, longest_span(offsets)
    rows, top, x = np.empty((n, width)), np.empty(n), np.empty((depth, width))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        load_rows(evidence_t, lo, rows[: hi - lo], top[: hi - lo])
        last = filter_rows(
            rows[: hi - lo], top, is_free[lo:hi], True, tables, goes_on, True, K, x, 1.0,
            (out_shares[lo:hi], out_step[lo:hi]),
        )  # fmt: skip
        out_bad[s] = not last > 0.0
