"""Forward-backward and draws of semi-Markov chains with negative binomial lengths, by stages.

log_stay (K,) is log p, log_segment (K,) is r log q and shape (K,) is r: see `stages.py`. A sequence
whose numbers leave the linear domain is done by its lengths instead, exact but slow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..chain.single import load_rows, sum_logs
from ..chain.smooth import LEAST_SLOTS, LONG, TABLE_NUMBERS, Buffers, plan_groups
from ..vectors import EIGHT
from .paths import draw_segments, filter_segments
from .smooth import smooth_segments
from .stage_draws import Draws, draw_extra
from .stage_paths import draw_end, draw_rows, filter_sequences
from .stages import (
    AGREES,
    StageTables,
    backward_stages,
    close_stages,
    forward_stages,
    log_lengths,
    smooth_sequence,
    stage_tables,
    write_rows,
)
from .stages_eight import StackedStages, smooth_group, stacked

MAX_WORK = 1 << 38  # rows times lengths times states of a sequence that is done by its lengths

__all__ = ["Draws", "StagePieces", "draw_stages", "filter_stages", "smooth_stages"]


def smooth_stages(
    evidence_t, log_start, log_transition, lengths, offsets, weights=None, is_free=None, *,
    right_censored=True, draws=None, start, transition, segments, stays, rows=None, out=None,
    buffers=None,
):  # fmt: skip
    """Posteriors of all rows and expected counts of all sequences, as `smooth_segments`.

    lengths : log_stay, log_segment and shape. Adds the number of segments to segments (K,), the
    rows of complete segments but their first ones to stays (K,), and the rows that are seen to rows
    (K,). draws : see `stage_draws.Draws`; paths that are drawn as well cost little.
    """
    (K, n), n_units = evidence_t.shape, len(offsets) - 1
    tables = stage_tables(log_start, log_transition, lengths, right_censored)
    states = np.empty(evidence_t.shape) if out is None else out
    counts = _Counts(states, np.zeros((K, K)), np.zeros(K), np.zeros(K), np.zeros(K))
    job = _Job(
        evidence_t, offsets, np.ones(n_units) if weights is None else np.asarray(weights, float),
        is_free, tables, stacked(tables, lengths[2]), right_censored,
        Draws.of(np.empty(0), n_units, lengths[2]) if draws is None else draws, np.empty(n_units),
    )  # fmt: skip
    failed = _run(job, counts, buffers)
    start += counts.start
    transition += counts.steps * tables.transition[:K, :K]
    segments += counts.segments
    seen = states.sum(1)
    # never below zero, as the difference of two sums may be where all segments have one row
    stays += np.maximum(seen - counts.segments + counts.extra, 0.0)
    for s, own in failed.items():
        here, free = slice(int(offsets[s]), int(offsets[s + 1])), _everywhere(n, is_free)
        job.log_z[s] = _by_lengths(
            own, log_start, log_transition, lengths, job.weights[s], free[here], right_censored,
            (start, transition, segments, stays), states[:, here],
        )  # fmt: skip
        seen += states[:, here].sum(1)
        if draws is not None and job.log_z[s] > -np.inf:
            _draw_by_lengths(own, log_start, log_transition, lengths, job, s)
    if rows is not None:
        rows += seen
    return job.log_z, states


class _Job(NamedTuple):
    """What is inferred: evidence (K, n), the two forms of the tables, and log_z (S,) as a result.

    goes_on : whether sequences may end within a segment
    """

    evidence_t: np.ndarray
    offsets: np.ndarray
    weights: np.ndarray
    is_free: np.ndarray | None
    tables: StageTables
    stages: StackedStages
    goes_on: bool
    draws: Draws
    log_z: np.ndarray


class _Counts(NamedTuple):
    """States (K, n); sums over sequences: steps (K, K) still without transitions; others (K,)."""

    states: np.ndarray
    steps: np.ndarray
    start: np.ndarray
    segments: np.ndarray
    extra: np.ndarray


def _run(job, counts, buffers):
    """Infer all sequences; returns the evidence of those that leave the linear domain.

    counts : None for draws alone
    """
    job.log_z[:] = -np.inf
    if job.is_free is None:  # of rows at which none may begin, slots know nothing
        _side_by_side(job, counts, Buffers() if buffers is None else buffers)
    failed = {}
    for s in np.flatnonzero(job.log_z == -np.inf):
        _alone(job, s, counts)
        rows = slice(int(job.offsets[s]), int(job.offsets[s + 1]))
        if job.log_z[s] == -np.inf:  # a copy, as states may be the evidence itself
            failed[int(s)] = job.evidence_t[:, rows].copy()
            if counts is not None:
                counts.states[:, rows] = 0.0
    return failed


def _side_by_side(job, counts, buffers):
    """Groups of eight sequences; log_z (S,) stays -inf for those that are to be done alone."""
    lengths, K = np.diff(job.offsets), job.evidence_t.shape[0]
    order = np.argsort(-lengths, kind="stable")
    groups, alone = np.empty_like(lengths), np.empty_like(lengths)
    longest = TABLE_NUMBERS // (EIGHT * K)
    n_groups, _ = plan_groups(lengths[order], LEAST_SLOTS, LONG, longest, groups, alone)
    if n_groups == 0:
        return
    T = -(-int(lengths[order[groups[0]]]) // EIGHT) * EIGHT
    rows, ended, begun = (
        buffers.take(f"stage {name}", T, K, EIGHT) for name in ("rows", "ended", "begun")
    )
    inverses, messages = np.empty((T, EIGHT)), np.empty((3, job.stages.first[-1], EIGHT))
    steps, is_counted = np.zeros((K, K, EIGHT)), counts is not None
    outs = counts or _Counts(np.empty((0, 0)), *np.empty((4, 0)))
    for g in groups[:n_groups]:
        smooth_group(
            job.evidence_t, order[g : g + EIGHT], job.offsets, job.weights, job.stages, rows,
            ended, begun, inverses, tuple(messages), job.goes_on, job.draws, is_counted, job.log_z,
            outs.states, outs.start, outs.segments, outs.extra, steps,
        )  # fmt: skip
    if is_counted:
        np.add(counts.steps, steps.sum(2), out=counts.steps)


def _alone(job, s, counts):
    """One sequence; log_z stays -inf if the linear domain fails."""
    K, width, is_counted = len(job.evidence_t), len(job.tables.start), counts is not None
    lo, hi = int(job.offsets[s]), int(job.offsets[s + 1])
    ended, coming = np.empty((hi - lo, width)), np.empty((hi - lo if is_counted else 0, width))
    segments, extra = np.zeros(width), np.zeros(width)
    outs = counts or _Counts(np.empty((0, 0)), *np.empty((4, 0)))
    is_free = _everywhere(job.evidence_t.shape[1], job.is_free)
    job.log_z[s], job.draws.extra[s] = smooth_sequence(
        job.evidence_t, lo, hi, job.weights[s], is_free, job.tables, job.stages, job.goes_on,
        job.draws, is_counted, outs.states, outs.start, segments, extra, ended, coming,
    )  # fmt: skip
    if is_counted and job.log_z[s] > -np.inf:
        np.add(counts.steps, ended[:, :K].T @ coming[:, :K], out=counts.steps)
        np.add(counts.segments, segments[:K], out=counts.segments)
        np.add(counts.extra, extra[:K], out=counts.extra)


def _by_lengths(
    evidence_t, log_start, log_transition, lengths, weight, is_free, right_censored, outs, states
):
    """One sequence by explicit lengths. Returns log_z, NaN if that would take far too long."""
    start, transition, segments, stays = outs
    K, n = evidence_t.shape
    if K * n * n > MAX_WORK:
        return np.nan
    duration = log_lengths(lengths, n, right_censored)
    counts = np.zeros(duration.shape)
    log_z, states[...] = smooth_segments(
        evidence_t, log_start, log_transition, duration, np.array([0, n]), np.array([weight]),
        is_free, right_censored=right_censored, start=start, transition=transition, duration=counts,
    )  # fmt: skip
    segments += counts.sum(1)
    stays += counts @ np.arange(counts.shape[1])
    return log_z[0]


def _everywhere(n, is_free):
    """Where segments may begin: everywhere, unless it is given."""
    return np.ones(n, dtype=np.bool_) if is_free is None else is_free


def draw_stages(
    evidence_t, log_start, log_transition, lengths, offsets, uniforms, is_free=None, *,
    right_censored=True, buffers=None,
):  # fmt: skip
    """A random path (n,) of each sequence and log_z (S,), and the rows (S,) that its last segment
    would have had after the end.
    """
    n_units = len(offsets) - 1
    tables = stage_tables(log_start, log_transition, lengths, right_censored)
    job = _Job(
        evidence_t, offsets, np.ones(n_units), is_free, tables, stacked(tables, lengths[2]),
        right_censored, Draws.of(uniforms, n_units, lengths[2]), np.empty(n_units),
    )  # fmt: skip
    for s, own in _run(job, None, buffers).items():
        job.log_z[s] = _draw_by_lengths(own, log_start, log_transition, lengths, job, s)
    return job.draws.path, job.log_z, job.draws.extra


def _draw_by_lengths(evidence_t, log_start, log_transition, lengths, job, s):
    """Draw one sequence by explicit lengths. Returns log_z."""
    rows, path = slice(int(job.offsets[s]), int(job.offsets[s + 1])), job.draws.path
    T = rows.stop - rows.start
    path[rows], value, _, last = draw_segments(
        evidence_t, log_start, log_transition, log_lengths(lengths, T, job.goes_on),
        np.array([0, T]), job.draws.uniforms[rows],
        _everywhere(job.evidence_t.shape[1], job.is_free)[rows], right_censored=job.goes_on,
    )  # fmt: skip
    changes = np.flatnonzero(path[rows][1:] != path[rows][:-1])
    begin = changes[-1] + 1 if len(changes) else 0
    job.draws.extra[s] = last[0] - (T - begin)
    return value[0]


def filter_stages(
    evidence_t, log_start, log_transition, lengths, offsets, is_free=None, *, right_censored=True
):
    """p(z_t | x_1 .. x_t) (n, K), and log p(x_t | x_1 .. x_(t - 1)) (n,), whose sum is log_z."""
    tables = stage_tables(log_start, log_transition, lengths, right_censored)
    goes_on = stage_tables(log_start, log_transition, lengths).close
    (K, n), n_units = evidence_t.shape, len(offsets) - 1
    shares, steps, bad = np.empty((n, K)), np.empty(n), np.empty(n_units, dtype=np.bool_)
    is_free = _everywhere(n, is_free)
    filter_sequences(evidence_t, offsets, is_free, tables, goes_on, shares, steps, bad)
    for s in np.flatnonzero(bad):
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        T = rows.stop - rows.start
        shares[rows], steps[rows] = filter_segments(
            np.ascontiguousarray(evidence_t[:, rows]), log_start, log_transition,
            log_lengths(lengths, T), np.array([0, T]), is_free[rows],
            right_censored=right_censored,
        )  # fmt: skip
    return shares, steps


class StagePieces:
    """One very long sequence in pieces: one message is kept for each, and its evidence made twice.

    evidence(begin, end) returns evidence_t (K, end - begin). log_z is -inf if the linear domain
    fails.
    """

    def __init__(
        self, evidence, bounds, log_start, log_transition, lengths, is_free=None,
        right_censored=True,
    ):  # fmt: skip
        self.tables = stage_tables(log_start, log_transition, lengths, right_censored)
        self.K, self.evidence, self.bounds = len(log_start), evidence, bounds
        self.right_censored, self.extra = right_censored, 0
        self.is_free = _everywhere(bounds[-1], is_free)
        x, self.log_z, self.marks = np.zeros(self.tables.entry.shape), 0.0, []
        for p in range(len(bounds) - 1):
            self.marks.append(x.copy())
            *_, scale, top, done = self._forward(p, x)
            if done < len(top):
                self.log_z = -np.inf
                return
            self.log_z += sum_logs(scale, top)
        here = np.empty(x.shape[1])
        self.last, self.total = x, close_stages(x, self.tables.close, here)
        self.here = here / self.total
        with np.errstate(divide="ignore"):
            self.log_z += np.log(self.total)

    def _rows(self, p):
        """Likelihoods (T, W) of piece p, what was subtracted (T,), and where segments begin."""
        begin, end = self.bounds[p], self.bounds[p + 1]
        rows, top = np.empty((end - begin, len(self.tables.start))), np.empty(end - begin)
        load_rows(np.ascontiguousarray(self.evidence(begin, end)), 0, rows, top)
        return rows, top, self.is_free[begin:end]

    def _forward(self, p, x):
        """Rows, free rows, ended, begun and scales of piece p from the message x."""
        rows, top, is_free = self._rows(p)
        ended, begun, scale = np.empty(rows.shape), np.empty(rows.shape), np.empty(len(rows))
        done = forward_stages(rows, is_free, p == 0, self.tables, self.K, x, ended, begun, scale)
        return rows, is_free, ended, begun, scale, top, done

    def smooth(self, weight, *, start, transition, segments, stays):
        """Yields (begin, end, shares_t (K, T)) of each piece, last to first; adds counts."""
        tables, K = self.tables, self.K
        y = tables.close * (weight / self.total)
        here, found = self.here * weight, np.zeros(len(tables.start))
        own = (self.last * y * tables.extra).sum(0)[:K]
        for p in range(len(self.bounds) - 2, -1, -1):
            rows, is_free, ended, begun, scale, *_ = self._forward(p, self.marks[p].copy())
            future, shares = np.empty(rows.shape), np.empty(rows.shape)
            backward_stages(
                rows, is_free, tables, K, y, here, ended, begun, scale, found, future, shares
            )
            if p == 0:
                first = (future[0] * tables.start)[:K]
                if not abs(first.sum() - weight) <= AGREES * weight:
                    raise FloatingPointError("messages of a long sequence are out of range")
                start += first
                future[0] = 0.0
            transition += (ended[:, :K].T @ future[:, :K]) * tables.transition[:K, :K]
            out = np.empty((K, len(rows)))
            write_rows(shares, rows, weight, K, 0, out)
            own += out.sum(1)
            yield self.bounds[p], self.bounds[p + 1], out
        segments += found[:K]
        stays += np.maximum(own - found[:K], 0.0)

    def draw(self, uniforms):
        """Yields (begin, end, path) of a random path, last piece to first.

        extra : the rows that its last segment would have had after the end, known from then on
        """
        scratch, width = np.empty(max(self.last.size, 3)), len(self.tables.start)
        at = draw_end(self.last, self.tables, float(uniforms[-1]), scratch)
        if self.right_censored:
            stay = float(self.tables.stay[at % width])
            self.extra = int(draw_extra(at // width, stay, float(uniforms[-1])))
        for p in range(len(self.bounds) - 2, -1, -1):
            begin, end = self.bounds[p], self.bounds[p + 1]
            rows, _, is_free = self._rows(p)
            path = np.empty(end - begin, dtype=np.int64)
            at = draw_rows(
                rows, is_free, p == 0, self.tables, self.K, self.marks[p].copy(), at,
                uniforms[begin:end], path,
            )  # fmt: skip
            yield begin, end, path
