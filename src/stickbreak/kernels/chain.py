"""Forward-backward of Markov chains: log evidence in, posteriors and expected counts out.

Conventions of all chain kernels. Sequences are stacked: sequence s has rows offsets[s] to offsets[s + 1] - 1, at least one.
evidence_t (K, n), log_start (K,) and log_transition (K, K), from row to column, are logarithms of any scale; -inf is impossible.
Recursions run in the linear domain, every row scaled. A sequence whose scale comes out as (nearly) zero, because the states that
it can be in lie hundreds of nats below the best of a row, is done again in the log domain. A sequence without a possible path has
log_z = -inf and no counts; one with NaN in its evidence has log_z = NaN and no counts. Others are not touched by it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .chain_lanes import backward_lanes, finish_backward, finish_forward, forward_lanes, load_lanes, store_lanes
from .chain_rows import (
    LOG_2,
    TILE,
    TINY,
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

__all__ = ["smooth"]

LANES = 128  # sequences side by side
MANY_STATES = 32  # from here on the steps of lanes are matrix products
CHUNK_NUMBERS = 16_384  # of a table between two matrix products for its counts: it stays in the cache
FEW = 3  # lanes that are not worth it: sequences that outlive all but so many of their block are done alone


def smooth(evidence_t, log_start, log_transition, offsets, weights=None, *, start, transition, out=None):
    """Forward-backward: posteriors of all rows and expected counts of all sequences.

    Returns log_z (S,) and shares_t (K, n): posteriors times the weight of their sequence; its transpose is what families collect.
    Adds, weighted, p(z_1) to start (K,) and the sum over steps of p(z_t, z_(t + 1)) to transition (K, K).
    out: where the shares are to go, a C-contiguous (K, n); may be evidence_t itself.
    """
    tables = linear_tables(log_start, log_transition)
    lengths = np.diff(offsets)
    job = _Job(
        evidence_t, log_start, log_transition, tables, offsets, lengths,
        np.ones(len(lengths)) if weights is None else np.asarray(weights, dtype=float),
        np.empty(len(lengths)), np.empty_like(evidence_t) if out is None else out, start, np.zeros_like(log_transition), transition,
    )  # fmt: skip
    alone, blocks = _share_out(lengths)
    for mine in blocks:
        alone = np.concatenate([alone, _smooth_block(job, mine)])
    for s in alone:
        _smooth_alone(job, int(s))
    transition += job.steps * tables.transition[:, : len(log_start)]
    return job.log_z, job.shares_t


class _Job(NamedTuple):
    """A call of `smooth`: its arguments, and what it writes to. steps (K, K): transition counts before the product with the table."""

    evidence_t: np.ndarray
    log_start: np.ndarray
    log_transition: np.ndarray
    tables: tuple
    offsets: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    log_z: np.ndarray
    shares_t: np.ndarray
    start: np.ndarray
    steps: np.ndarray
    transition: np.ndarray


def _share_out(lengths):
    """Sequences to be done alone, and blocks of sequences to be done side by side, each sorted by decreasing length."""
    order = np.argsort(-lengths, kind="stable")
    blocks, alone = [], []
    for first in range(0, len(order), LANES):
        mine = order[first : first + LANES]
        rare = mine[:FEW][lengths[mine[:FEW]] > 2 * lengths[mine[FEW]]] if len(mine) > FEW else mine
        alone.append(rare)
        if len(rare) < len(mine):
            blocks.append(mine[len(rare) :])
    return np.concatenate(alone), blocks


# ---- one sequence --------------------------------------------------------------------------------------------------
def _smooth_alone(job, s):
    """Sequence s in the linear domain, or in the log domain if that fails."""
    begin, end, K = int(job.offsets[s]), int(job.offsets[s + 1]), len(job.log_start)
    T, width = end - begin, len(job.tables.start)
    rows, filtered, top, scale = np.empty((T, width)), np.empty((T, width)), np.empty(T), np.empty(T)
    load_rows(job.evidence_t, begin, rows, top)
    good = forward_rows(job.tables.start.copy(), job.tables.transition, rows, filtered, scale)
    if good < T:
        _smooth_in_logs(job, s)
        return
    beta, chunk = np.full(width, job.weights[s]), max(TILE, CHUNK_NUMBERS // width)
    betas, futures = np.empty((chunk, width)), np.empty((chunk, width))
    for last in range(T, 0, -chunk):
        first = max(last - chunk, 0)
        future = futures[: last - first]
        backward_rows(beta, job.tables.transposed, rows[first:last], scale[first:last], filtered[first:last], betas, future)
        write_shares(filtered[first:last], betas, begin + first, job.shares_t)
        before = max(first - 1, 0)
        job.steps[:] += filtered[before : last - 1, :K].T @ future[before + 1 - first :, :K]
    job.start[:] += job.shares_t[:, begin]
    job.log_z[s] = sum_logs(scale, top) + job.tables.start_shift + (T - 1) * job.tables.step_shift


def _smooth_in_logs(job, s):
    """Sequence s in the log domain: exact, and slow."""
    rows, weight, K = slice(int(job.offsets[s]), int(job.offsets[s + 1])), job.weights[s], len(job.log_start)
    evidence_t, shares_t = np.ascontiguousarray(job.evidence_t[:, rows]), job.shares_t[:, rows]
    T = evidence_t.shape[1]
    forward, beta, future = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    log_forward(job.log_start, job.log_transition, evidence_t, forward)
    log_z = job.log_z[s] = float(log_sums(forward[-1:])[0])
    if not np.isfinite(log_z):
        shares_t[:] = 0.0 if log_z == -np.inf else np.nan
        return
    log_backward(np.zeros(K), job.log_transition, evidence_t, beta, future)
    shares_t[:] = weight * np.exp(forward + beta - log_z).T
    job.start[:] += shares_t[:, 0]
    add_log_steps(forward[:-1], job.log_transition, future[1:], log_z, weight, job.transition)


# ---- sequences side by side ----------------------------------------------------------------------------------------
def _smooth_block(job, mine):
    """Sequences `mine`, sorted by decreasing length, in the linear domain. Returns those whose scale fails: nothing is done for them."""
    K, T = len(job.log_start), int(job.lengths[mine[0]])
    lengths, begins = job.lengths[mine], job.offsets[mine]
    alive = np.zeros(T + 1, dtype=np.int64)
    alive[:T] = len(mine) - np.searchsorted(lengths[::-1], np.arange(T), side="right")
    position = np.zeros(T + 2, dtype=np.int64)
    np.cumsum(-(-alive // TILE) * TILE, out=position[1:])
    lanes = int(position[1])
    times = max(TILE, CHUNK_NUMBERS // (K * lanes) // TILE * TILE)
    bounds = [*range(0, T, times), T]
    chunks, size = len(bounds) - 1, times * lanes
    rows, filtered, inverse = np.empty((chunks, K, size)), np.empty((chunks, K, size)), np.empty((chunks, size))
    predicted, top, tops = np.empty((K, lanes)), np.empty(size), np.zeros(lanes)
    product, exponent, is_bad = np.ones(lanes), np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
    predicted[:] = job.tables.start[:K, None]
    table, transposed = np.ascontiguousarray(job.tables.transition[:, :K]), np.ascontiguousarray(job.tables.transposed[:, :K])
    ahead, back = (_forward_products, _backward_products) if K >= MANY_STATES else (forward_lanes, backward_lanes)
    for c, (first, last) in enumerate(pairwise(bounds)):
        load_lanes(job.evidence_t, begins, lengths, alive, position, first, last, rows[c], top, tops)
        ahead(predicted, transposed, rows[c], alive, position, first, last, filtered[c], inverse[c], product, exponent, is_bad)
    bad = is_bad[: len(mine)] > 0
    if bad.any():
        good = mine[~bad]
        return np.concatenate([mine[bad], _smooth_block(job, good) if len(good) else good])
    weights, carry, future = np.zeros(lanes), np.zeros((K, lanes)), np.empty((K, size))
    weights[: len(mine)] = job.weights[mine]
    for c in range(chunks - 1, -1, -1):
        first, last = bounds[c], bounds[c + 1]
        back(carry, table, rows[c], filtered[c], inverse[c], alive, position, first, last, weights, predicted, future)
        used = int(position[last] - position[first])
        job.steps[:] += filtered[c][:, :used] @ future[:, :used].T
        store_lanes(rows[c], begins, lengths, alive, position, first, last, job.shares_t)
    job.start[:] += rows[0][:, : len(mine)].sum(1)
    shifts = job.tables.start_shift + (lengths - 1) * job.tables.step_shift
    job.log_z[mine] = exponent[: len(mine)] * LOG_2 + np.log(product[: len(mine)]) + tops[: len(mine)] + shifts
    return mine[:0]


def _forward_products(predicted, transposed, rows, alive, position, first, last, out, out_inverse, product, exponent, is_bad):
    """`forward_lanes` with matrix products."""
    places, counts = (position - position[first]).tolist(), alive.tolist()
    for t in range(first, last):
        at, end = places[t], places[t + 1]
        after = places[t + 2] - end
        finish_forward(predicted, rows, at, end - at, counts[t], out, out_inverse, product, exponent, is_bad)
        np.matmul(transposed, out[:, at : at + after], out=predicted[:, :after])


def _backward_products(carry, transition, rows, filtered, inverse, alive, position, first, last, weights, beta, out_future):
    """`backward_lanes` with matrix products."""
    places, counts = (position - position[first]).tolist(), alive.tolist()
    end = places[last]
    out_future[:, places[last - 1] : end] = carry[:, : end - places[last - 1]]
    for t in range(last - 1, first - 1, -1):
        at, end = places[t], places[t + 1]
        after = places[t + 2] - end
        np.matmul(transition, out_future[:, at : at + after], out=beta[:, :after])
        target, before = (carry, 0) if t == first else (out_future, places[t - 1])
        room = end - at if t == 0 else at - places[t - 1]
        finish_backward(beta, rows, filtered, inverse, at, end - at, counts[t], counts[t + 1], weights, target, before, room)
