"""Random segmentations by stages, segment by segment from the last one back.

The forward pass says how much weight ends before every row and begins at it. So the begin of a
segment is found by going back from its end, one row at a time, with the messages of its stages
alone: that costs the rows of the segment times its stages, and no messages of other rows are kept.

Tables of messages are (T, K, slots), of eight sequences side by side or of one; see
`stages_eight.py` for the names.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of

__all__ = ["Draws", "count_runs", "draw_back", "draw_extra"]

LARGE = 1e250  # messages above have left the range in which products can be trusted


class Draws(NamedTuple):
    """Random numbers (n,), of none of which no path is drawn; and what they give.

    path (n,) : states. extra (S,) : the rows that each last segment would have had after the end
    scratch (2, .) : numbers of states, and of all stages
    """

    uniforms: np.ndarray
    path: np.ndarray
    extra: np.ndarray
    scratch: np.ndarray

    @staticmethod
    def of(uniforms, n_units, shape):
        """Room for the paths of n_units sequences; shape (K,) : stages of the states."""
        n, size = len(uniforms), max(int(np.sum(shape)), len(shape))
        zeros = np.zeros(n, np.int64), np.zeros(n_units, np.int64)
        return Draws(np.asarray(uniforms, dtype=float), *zeros, np.empty((2, size)))


@kernel
def draw_extra(m, stay, uniform):
    """Rows still to come of a segment that is cut with m stages to go: m, and stays of m + 1."""
    extra, seed = m, np.uint64(uniform * 2.0**53)
    if stay > 0.0:
        for _ in range(m + 1):
            seed += GOLDEN
            extra += int(math.log(1.0 - uniform_of(seed)) / math.log(stay))
    return extra


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
def draw_back(messages, last, slot, tables, K, goes_on, lo, hi, draws):
    """Draw a path of rows lo to hi; returns what its last segment lacks, if that may go on.

    messages : rows, ended, begun (T, K, slots) and inverses (T, slots). last (M, slots) : of the
        last row
    """
    rows, ended, begun, inverses = messages
    T, uniforms, out_path = hi - lo, draws.uniforms[lo:hi], draws.path[lo:hi]
    y, scratch = draws.scratch[0], draws.scratch[1]
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
def add_runs(path, offsets, extra, weights, out):
    """Out (D, K)[d - 1, k] += weight of every segment of state k and length d.

    Returns the longest length; those above D are left out.
    """
    longest = 0
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        for t in range(begin + 1, end + 1):
            if t == end or path[t] != path[begin]:
                length = t - begin + (extra[s] if t == end else 0)
                longest = max(longest, length)
                if length <= out.shape[0]:
                    out[length - 1, path[begin]] += weights[s]
                begin = t
    return longest


def count_runs(path, offsets, extra, weights, K):
    """(D, K) weights of the segments of drawn paths, by length and state.

    path (n,), offsets (S + 1,), extra (S,) : see `Draws`. weights (S,) : of sequences
    """
    longest = add_runs(path, offsets, extra, weights, np.empty((0, K)))
    found = np.zeros((longest, K))
    add_runs(path, offsets, extra, weights, found)
    return found
