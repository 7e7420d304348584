"""Forward-backward of Markov chains: log evidence in, posteriors and expected counts out.

Conventions of all chain kernels. Sequences are stacked: sequence s has rows offsets[s] to offsets[s + 1] - 1, at least one.
evidence_t (K, n), log_start (K,) and log_transition (K, K), from row to column, are logarithms of any scale; -inf is impossible.
Recursions run in the linear domain, every row scaled. A sequence whose scale comes out as (nearly) zero, because the states that
it can be in lie hundreds of nats below the best of a row, is done again in the log domain. A sequence without a possible path has
log_z = -inf and no counts; one with NaN in its evidence has log_z = NaN and no counts. Others are not touched by it.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .chain_lanes import (
    IS_BAD,
    backward_lanes,
    begin_lanes,
    finish_backward,
    finish_forward,
    forward_lanes,
    load_lanes,
    log_scales,
    place_carry,
    plan_lanes,
    store_lanes,
)
from .chain_rows import (
    TILE,
    Tables,
    add_log_steps,
    backward_rows,
    forward_rows,
    linear_tables,
    load_rows,
    log_backward,
    log_forward,
    log_sums,
    sum_logs,
    write_shares,
)

__all__ = ["Buffers", "linear_tables", "smooth"]

# Measured, and only for speed.
LANES, MIN_LANES = 256, 64  # sequences side by side: fewer if they are so long that a table would have more than
BLOCK_NUMBERS = 1 << 22  # numbers
MANY_STATES = 32  # from here on the steps of lanes are matrix products
CHUNK_NUMBERS = 1 << 17  # of a table between two matrix products for its counts: it stays in the cache
WINDOW = 8192  # rows within which sequences of like length are looked for: others are far away in memory
LONG = 256  # rows from which on a sequence may be done alone: if it outlives by far all but a few of its block
FEW = ((8, 8), (16, 16), (96, 48), (math.inf, 20))  # (states up to, sequences): with no more of them, lanes are not worth it


class Buffers(dict[str, np.ndarray]):
    """Memory that is used again and again, by one thread: fresh memory costs as much as the work on it."""

    def take(self, name, *shape):
        """An array of this shape; what it holds is left over from the last user of the name."""
        size = math.prod(shape)
        if name not in self or len(self[name]) < size:
            self[name] = np.empty(size)
        return self[name][:size].reshape(shape)


def smooth(evidence_t, log_start, log_transition, offsets, weights=None, *, start, transition, out=None, tables=None, buffers=None):
    """Forward-backward: posteriors of all rows and expected counts of all sequences.

    Returns log_z (S,) and shares_t (K, n): posteriors times the weight of their sequence; its transpose is what families collect.
    Adds, weighted, p(z_1) to start (K,) and the sum over steps of p(z_t, z_(t + 1)) to transition (K, K).
    out: where the shares are to go, a C-contiguous (K, n); may be evidence_t itself, which is then used up.
    tables: `linear_tables` of the potentials, if they are at hand. buffers: a `Buffers` that one thread uses for all its calls.
    """
    K, lengths = len(log_start), np.diff(offsets)
    weights = np.ones(len(lengths)) if weights is None else np.asarray(weights, dtype=float)
    shares_t = np.empty(evidence_t.shape) if out is None else out
    tables = linear_tables(log_start, log_transition) if tables is None else tables
    buffers = Buffers() if buffers is None else buffers
    log_z, steps = np.empty(len(lengths)), np.zeros((K, K))
    job = _Job(evidence_t, log_start, log_transition, tables, offsets, weights, log_z, shares_t, start, steps, transition)
    for alone, blocks in _share_out(lengths, K):
        for block in blocks:
            alone.extend(_smooth_block(job, block, buffers))
        for s in alone:
            _smooth_alone(job, s, buffers)
    transition += steps * tables.transition[:K, :K]
    return log_z, shares_t


class _Job(NamedTuple):
    """A call of `smooth`: its arguments, and what it writes to. steps (K, K): transition counts, to be multiplied by the table."""

    evidence_t: np.ndarray
    log_start: np.ndarray
    log_transition: np.ndarray
    tables: Tables
    offsets: np.ndarray
    weights: np.ndarray
    log_z: np.ndarray
    shares_t: np.ndarray
    start: np.ndarray
    steps: np.ndarray
    transition: np.ndarray


def _share_out(lengths, n_states):
    """In windows: sequences to be done alone, and blocks of sequences to be done side by side, each sorted by decreasing length."""
    most = max(MIN_LANES, min(LANES, BLOCK_NUMBERS // (n_states * int(lengths.max()))))
    few = next(sequences for states, sequences in FEW if n_states <= states)
    for first, last in pairwise(_windows(lengths, 2 * most)):
        alone, blocks = [], []
        order = first + np.argsort(-lengths[first:last], kind="stable")
        n_blocks = -(-len(order) // most)
        cuts = [len(order) * b // n_blocks for b in range(n_blocks + 1)]
        for block in (order[begin:end] for begin, end in pairwise(cuts)):
            longest = lengths[block[: few + 1]].tolist()
            least = max(LONG - 1, 2 * longest[few] if len(block) > few else 0)
            rare = sum(length > least for length in longest[:few])
            alone.extend(block[:rare].tolist())
            if rare < len(block):
                blocks.append(block[rare:])
        yield alone, blocks


def _windows(lengths, n_least):
    """Where to cut the sequences so that each part has WINDOW rows, or the least number of sequences if that is more."""
    cuts, ends = [0], np.cumsum(lengths)
    while cuts[-1] + n_least < len(lengths):
        reached = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(int(np.searchsorted(ends, reached + WINDOW, side="right")), cuts[-1] + n_least))
    return [*cuts[:-1], len(lengths)] if len(cuts) > 1 else [0, len(lengths)]


# ---- one sequence --------------------------------------------------------------------------------------------------
def _smooth_alone(job, s, buffers):
    """Sequence s in the linear domain, or in the log domain if that fails."""
    begin, end, K, width = int(job.offsets[s]), int(job.offsets[s + 1]), len(job.log_start), len(job.tables.start)
    T, chunk = end - begin, max(TILE, CHUNK_NUMBERS // (8 * width))
    rows, weights, top, scale = buffers.take("rows", T, width), buffers.take("weights", T, width), np.empty(T), np.empty(T)
    load_rows(job.evidence_t, begin, rows, top)
    if forward_rows(job.tables.start.copy(), job.tables.transition, rows, weights, scale) < T:
        _smooth_in_logs(job, s)
        return
    message, messages, futures = np.full(width, job.weights[s] / scale[-1]), np.empty((chunk, width)), np.empty((chunk, width))
    for last in range(T, 0, -chunk):
        first = max(last - chunk, 0)
        backward_rows(message, job.tables.transposed, rows, weights, scale, first, last, messages, futures)
        write_shares(weights[first:last], messages, begin + first, job.shares_t)
        before = max(first, 1)
        np.add(job.steps, weights[before - 1 : last - 1, :K].T @ futures[before - first : last - first, :K], out=job.steps)
    np.add(job.start, job.shares_t[:, begin], out=job.start)
    job.log_z[s] = sum_logs(scale, top) + job.tables.start_shift + (T - 1) * job.tables.step_shift


def _smooth_in_logs(job, s):
    """Sequence s in the log domain: exact, and slow."""
    span, weight, K = slice(int(job.offsets[s]), int(job.offsets[s + 1])), job.weights[s], len(job.log_start)
    evidence_t, shares_t = np.ascontiguousarray(job.evidence_t[:, span]), job.shares_t[:, span]
    forward, beta, future = np.empty((3, evidence_t.shape[1], K))
    log_forward(job.log_start, job.log_transition, evidence_t, forward)
    log_z = job.log_z[s] = float(log_sums(forward[-1:])[0])
    if not np.isfinite(log_z):
        shares_t[:] = 0.0 if log_z == -np.inf else np.nan
        return
    log_backward(np.zeros(K), job.log_transition, evidence_t, beta, future)
    shares_t[:] = weight * np.exp(forward + beta - log_z).T
    np.add(job.start, shares_t[:, 0], out=job.start)
    add_log_steps(forward[:-1], job.log_transition, future[1:], log_z, weight, job.transition)


# ---- sequences side by side ----------------------------------------------------------------------------------------
class _Lanes(NamedTuple):
    """Sequences side by side, in chunks of time `bounds`: plan as in `chain_lanes`, tables (chunks, K, R), messages (K, lanes)."""

    begins: np.ndarray
    alive: np.ndarray
    position: np.ndarray
    bounds: list[int]
    rows: np.ndarray
    weights: np.ndarray
    inverse: np.ndarray
    message: np.ndarray


def _smooth_block(job, block, buffers):
    """Sequences `block`, sorted by decreasing length, in the linear domain. Returns those whose scale fails, with nothing done."""
    begins, n = job.offsets[block], len(block)
    lengths = job.offsets[block + 1] - begins
    lanes = _plan(begins, lengths, len(job.log_start), buffers)
    state, flags = _forward(job, lanes, buffers)
    is_bad = flags[IS_BAD, :n] > 0
    if is_bad.any():
        rest = block[~is_bad]
        return [*block[is_bad].tolist(), *(_smooth_block(job, rest, buffers) if len(rest) else [])]
    log_scale = np.empty(n)
    log_scales(state, flags, log_scale)
    job.log_z[block] = log_scale + job.tables.start_shift + (lengths - 1) * job.tables.step_shift
    _backward(job, lanes, job.weights[block], buffers)
    return []


def _plan(begins, lengths, K, buffers):
    """Where the rows of sequences are to stand; they go into chunks of so many columns that matrix products pay."""
    T = int(lengths[0])
    alive, position = np.empty(T + 1, dtype=np.int64), np.empty(T + 2, dtype=np.int64)
    plan_lanes(lengths, alive, position)
    width, columns = int(position[1]), int(position[T])
    size, bounds = min(max(CHUNK_NUMBERS // K, TILE * width), columns), [0]
    while bounds[-1] < T:
        bounds.append(
            T if size == columns else int(np.searchsorted(position[: T + 1], position[bounds[-1]] + size, side="right")) - 1
        )
    shape = len(bounds) - 1, K, size
    rows, weights, inverse = buffers.take("rows", *shape), buffers.take("weights", *shape), buffers.take("inverse", shape[0], size)
    return _Lanes(begins, alive, position, bounds, rows, weights, inverse, buffers.take("message", K, width))


def _forward(job, lanes, buffers):
    """Forward pass. Returns the state and the flags of the lanes."""
    _, K, size = lanes.rows.shape
    width = lanes.message.shape[1]
    state, flags, top = np.empty((3, width)), np.empty((2, width), dtype=np.int64), buffers.take("top", size)
    go, transposed = _forward_products if K >= MANY_STATES else forward_lanes, job.tables.transposed[:K]
    for c, (first, last) in enumerate(pairwise(lanes.bounds)):
        plan, tables = (lanes.alive, lanes.position, first, last), (lanes.rows[c], lanes.weights[c], lanes.inverse[c])
        go(job.evidence_t, lanes.begins, job.tables.start, transposed, *plan, lanes.message, state, flags, top, *tables)
    return state, flags


def _backward(job, lanes, repeats, buffers):
    """Backward pass: shares and counts."""
    _, K, size = lanes.rows.shape
    width, n = lanes.message.shape[1], len(repeats)
    ends, carry = np.zeros(width), np.zeros((K, width))
    ends[:n] = repeats
    go, transition = _backward_products if K >= MANY_STATES else backward_lanes, job.tables.transition[:K]
    future = buffers.take("future", K, size)
    for c in range(len(lanes.bounds) - 2, -1, -1):
        first, last = lanes.bounds[c], lanes.bounds[c + 1]
        plan, tables = (lanes.alive, lanes.position, first, last), (lanes.rows[c], lanes.weights[c], lanes.inverse[c])
        go(carry, transition, *tables, *plan, ends, lanes.message, lanes.begins, future, job.shares_t)
        used = int(lanes.position[last] - lanes.position[first])
        np.add(job.steps, lanes.weights[c, :, :used] @ future[:, :used].T, out=job.steps)
    np.add(job.start, lanes.rows[0, :, :n].sum(1), out=job.start)


def _forward_products(
    evidence_t, begins, start, transposed, alive, position, first, last, message, state, flags, top, rows, weights, inverse
):
    """`forward_lanes` with matrix products."""
    if first == 0:
        begin_lanes(start, message, state, flags)
    load_lanes(evidence_t, begins, alive, position, first, last, state, top, rows)
    (places, counts), table = _lists(alive, position, first, last), transposed[:, : len(message)]
    for t in range(last - first):
        at, end, after = places[t], places[t + 1], places[t + 2] - places[t + 1]
        finish_forward(message, state, flags, rows, at, end - at, counts[t], weights, inverse)
        np.matmul(table, weights[:, at : at + after], out=message[:, :after])


def _backward_products(
    carry, transition, rows, weights, inverse, alive, position, first, last, repeats, message, begins, future, shares_t
):
    """`backward_lanes` with matrix products."""
    (places, counts), table = _lists(alive, position, first, last), transition[:, : len(message)]
    ones, n = np.ones(len(repeats)), last - first
    place_carry(carry, inverse, places[n - 1], places[n] - places[n - 1], future)
    for t in range(n - 1, -1, -1):
        at, end, after = places[t], places[t + 1], places[t + 2] - places[t + 1]
        np.matmul(table, future[:, at : at + after], out=message[:, :after])
        if t > 0:
            before, scale, target = places[t - 1], inverse, future
            room = at - before
        else:
            before, scale, target = 0, ones, carry
            room = int(position[first] - position[first - 1]) if first > 0 else end - at
        lanes = at, end - at, counts[t], counts[t + 1]
        finish_backward(message, rows, weights, inverse, *lanes, repeats, scale, before, target, before, room)
    store_lanes(rows, begins, alive, position, first, last, shares_t)


def _lists(alive, position, first, last):
    """Places within the chunk and lanes alive, from time `first` on, as lists: the loop over time is Python's."""
    return (position[first : last + 2] - position[first]).tolist(), alive[first : last + 1].tolist()
