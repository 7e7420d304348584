"""Forward-backward of Markov chains: log evidence in, posteriors and expected counts out.

Conventions of all chain kernels. Sequences are stacked: sequence s has rows offsets[s] to
offsets[s + 1] - 1, at least one. evidence_t (K, n), log_start (K,) and log_transition (K, K), from
line to column, are logarithms of any scale; -inf is impossible.

Recursions run in the linear domain, with every row scaled. If a scale comes out as (nearly) zero,
because the possible states lie hundreds of nats below the best state of a row, the sequence is done
again in the log domain. A sequence without a possible path has log_z = -inf and no counts; one with
NaN in its evidence has log_z = NaN and no counts. Other sequences are not affected.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..vectors import EIGHT
from .eight import SMALL_K, smooth_eight
from .single import (
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

# Measured; they affect only speed.
# slots (of eight) that must be in use on average for sequences to be done side by side
LEAST_SLOTS = 2.5
LONG = 128  # shorter sequences are always done side by side, because single calls cost more
TABLE_NUMBERS = 1 << 23  # limit of the tables of eight sequences; longer ones are done alone
# size of a table between two matrix products for its counts, so that it stays in the cache
CHUNK_NUMBERS = 1 << 15


class Buffers(dict[str, np.ndarray]):
    """Memory that one thread uses again and again: fresh memory costs as much as the work on it."""

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, np.ndarray] = {}  # as last taken: most calls take the same shapes

    def take(self, name, *shape):
        """An array of this shape; its values are left over from the last use of the name."""
        last = self.views.get(name)
        if last is None or last.shape != shape:
            size = math.prod(shape)
            if name not in self or len(self[name]) < size:
                self[name] = np.empty(size)
            last = self.views[name] = self[name][:size].reshape(shape)
        return last


def smooth(
    evidence_t,
    log_start,
    log_transition,
    offsets,
    weights=None,
    *,
    start,
    transition,
    out=None,
    tables=None,
    buffers=None,
):
    """Forward-backward: posteriors of all rows and expected counts of all sequences.

    Returns log_z (S,) and shares_t (K, n): posteriors times the weight of their sequence; its
    transpose is what families collect. Adds, weighted, p(z_1) to start (K,) and the sum over steps
    of p(z_t, z_(t + 1)) to transition (K, K).

    out : C-contiguous (K, n) for the shares; may be evidence_t itself, which is then overwritten.
    tables : `linear_tables` of the potentials, if available.
    buffers : a `Buffers` that one thread uses for all its calls.
    """
    K, lengths = len(log_start), offsets[1:] - offsets[:-1]
    weights = np.ones(len(lengths)) if weights is None else np.asarray(weights, dtype=float)
    shares_t = np.empty(evidence_t.shape) if out is None else out
    tables = linear_tables(log_start, log_transition) if tables is None else tables
    buffers = Buffers() if buffers is None else buffers
    log_z, steps = np.empty(len(lengths)), np.zeros((K, K))
    job = _Job(
        evidence_t,
        log_start,
        log_transition,
        tables,
        offsets,
        weights,
        log_z,
        shares_t,
        start,
        steps,
        transition,
    )
    for s in _smooth_side_by_side(job, lengths, buffers):
        _smooth_alone(job, s, buffers)
    transition += steps * tables.transition[:K, :K]
    return log_z, shares_t


class _Job(NamedTuple):
    """A call of `smooth`: its arguments and outputs.

    steps (K, K) : transition counts, still to be multiplied by the table.
    """

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


# ---- sequences side by side ----------------------------------------------------------------------
@kernel
def plan_groups(lengths, least_slots, long, longest, out_group, out_alone):
    """Divide sequences with decreasing lengths (S,) into groups and single ones; returns how many.

    out_group (S,) : where each group starts. out_alone : sequences that are done alone. These have
    more than `longest` rows; or more than `long` rows if their group would use fewer than
    least_slots slots on average.
    """
    n_groups, n_alone, at = 0, 0, 0
    while at < lengths.shape[0]:
        total = 0
        for s in range(at, min(at + EIGHT, lengths.shape[0])):
            total += lengths[s]
        is_alone = lengths[at] > long and total < least_slots * lengths[at]
        if is_alone or lengths[at] > longest:
            out_alone[n_alone] = at
            n_alone += 1
            at += 1
        else:
            out_group[n_groups] = at
            n_groups += 1
            at += EIGHT
    return n_groups, n_alone


def _smooth_side_by_side(job, lengths, buffers):
    """Smooth sequences in groups of eight; returns those still to be done alone.

    They are too few for a group, or their scale fails.
    """
    order, groups, alone = (
        np.argsort(-lengths, kind="stable"),
        np.empty_like(lengths),
        np.empty_like(lengths),
    )
    longest = TABLE_NUMBERS // (EIGHT * len(job.log_start))
    n_groups, n_alone = plan_groups(lengths[order], LEAST_SLOTS, LONG, longest, groups, alone)
    job.log_z[order[alone[:n_alone]]] = -np.inf
    if n_groups > 0:
        _smooth_groups(job, order, groups[:n_groups], lengths, buffers)
    return np.flatnonzero(job.log_z == -np.inf)


def _smooth_groups(job, order, groups, lengths, buffers):
    """Smooth the groups order[groups[g]:groups[g] + 8]: shares, counts, log_z."""
    K, T, is_small = (
        len(job.log_start),
        -(-int(lengths[order[groups[0]]]) // EIGHT) * EIGHT,
        len(job.log_start) <= SMALL_K,
    )
    columns = (
        EIGHT
        if is_small
        else min(max(CHUNK_NUMBERS // (EIGHT * K), 1), job.evidence_t.shape[1]) * EIGHT
    )
    tables = (
        buffers.take("rows", T, K, EIGHT),
        buffers.take("weights", T, K, EIGHT),
        buffers.take("inverse", T, EIGHT),
    )
    past, future, cursor = (
        buffers.take("past", K, columns),
        buffers.take("future", K, columns),
        np.zeros(10, dtype=np.int64),
    )
    known = job.tables
    potentials = (
        known.start,
        known.transition,
        known.transposed,
        known.start_shift,
        known.step_shift,
    )
    steps = np.zeros((K, K, EIGHT) if is_small else (0, 0, EIGHT))
    outs = job.log_z, job.start, steps, job.shares_t
    scratch = *tables, buffers.take("futures", EIGHT, K, EIGHT), past, future
    while cursor[0] < len(groups):
        used = smooth_eight(
            job.evidence_t,
            order,
            groups,
            job.offsets,
            job.weights,
            *potentials,
            cursor,
            *scratch,
            *outs,
        )
        if used > 0:
            np.add(job.steps, past[:, :used] @ future[:, :used].T, out=job.steps)
    if is_small:
        np.add(job.steps, steps.sum(axis=2), out=job.steps)


# ---- one sequence --------------------------------------------------------------------------------
def _smooth_alone(job, s, buffers):
    """Smooth sequence s in the linear domain, or in the log domain if that fails."""
    begin, end, K, width = (
        int(job.offsets[s]),
        int(job.offsets[s + 1]),
        len(job.log_start),
        len(job.tables.start),
    )
    T, chunk = end - begin, max(EIGHT, CHUNK_NUMBERS // (8 * width))
    rows, weights, top, scale = (
        buffers.take("rows", T, width),
        buffers.take("weights", T, width),
        np.empty(T),
        np.empty(T),
    )
    load_rows(job.evidence_t, begin, rows, top)
    if forward_rows(job.tables.start.copy(), K, job.tables.transition, rows, weights, scale) < T:
        _smooth_in_logs(job, s)
        return
    message, messages, futures = (
        np.full(width, job.weights[s] / scale[-1]),
        np.empty((chunk, width)),
        np.empty((chunk, width)),
    )
    for last in range(T, 0, -chunk):
        first = max(last - chunk, 0)
        backward_rows(
            message, K, job.tables.transposed, rows, weights, scale, first, last, messages, futures
        )
        write_shares(weights[first:last], messages, begin + first, job.shares_t)
        before = max(first, 1)
        np.add(
            job.steps,
            weights[before - 1 : last - 1, :K].T @ futures[before - first : last - first, :K],
            out=job.steps,
        )
    np.add(job.start, job.shares_t[:, begin], out=job.start)
    job.log_z[s] = sum_logs(scale, top) + job.tables.start_shift + (T - 1) * job.tables.step_shift


def _smooth_in_logs(job, s):
    """Smooth sequence s in the log domain: exact but slow."""
    span, weight, K = (
        slice(int(job.offsets[s]), int(job.offsets[s + 1])),
        job.weights[s],
        len(job.log_start),
    )
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
