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
from .stage_draws import draw_alone, draw_group
from .stage_paths import draw_end, draw_extra, draw_rows, filter_sequences
from .stages import (
    AGREES,
    backward_stages,
    close_stages,
    forward_stages,
    log_lengths,
    smooth_sequences,
    stage_tables,
    write_rows,
)
from .stages_eight import smooth_group, stacked

MAX_WORK = 1 << 38  # rows times lengths times states of a sequence that is done by its lengths

__all__ = ["StagePieces", "draw_stages", "filter_stages", "smooth_stages"]


def smooth_stages(
    evidence_t, log_start, log_transition, lengths, offsets, weights=None, is_free=None, *,
    right_censored=True, start, transition, segments, stays, out=None, buffers=None,
):  # fmt: skip
    """Posteriors of all rows and expected counts of all sequences, as `smooth_segments`.

    lengths : log_stay, log_segment and shape. Adds the number of segments to segments (K,), and the
    rows of complete segments but their first ones to stays (K,).
    """
    (K, n), n_units = evidence_t.shape, len(offsets) - 1
    tables = stage_tables(log_start, log_transition, lengths, right_censored)
    weights = np.ones(n_units) if weights is None else np.asarray(weights, dtype=float)
    log_z, states = np.full(n_units, -np.inf), np.empty(evidence_t.shape) if out is None else out
    counts = _Counts(np.zeros((K, K)), np.zeros(K), np.zeros(K), np.zeros(K))
    if is_free is None:  # of rows at which none may begin, slots know nothing
        buffers = Buffers() if buffers is None else buffers
        of_units = offsets, weights, log_z, states, counts
        _side_by_side(evidence_t, tables, lengths[2], *of_units, buffers)
    is_free = _everywhere(n, is_free)
    failed = {}
    for s in np.flatnonzero(log_z == -np.inf):
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        log_z[s] = _alone(evidence_t, tables, rows, weights[s], is_free, states, counts)
        if log_z[s] == -np.inf:  # a copy, as `out` may be the evidence itself
            failed[s], states[:, rows] = evidence_t[:, rows].copy(), 0.0
    start += counts.start
    transition += counts.steps * tables.transition[:K, :K]
    segments += counts.segments
    stays += states.sum(1) - counts.segments + counts.extra
    for s, own in failed.items():
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        log_z[s] = _by_lengths(
            own, log_start, log_transition, lengths, weights[s], is_free[rows], right_censored,
            (start, transition, segments, stays), states[:, rows],
        )  # fmt: skip
    return log_z, states


class _Counts(NamedTuple):
    """Sums over sequences: steps (K, K) still without transitions; start, segments, extra (K,)."""

    steps: np.ndarray
    start: np.ndarray
    segments: np.ndarray
    extra: np.ndarray


def _side_by_side(evidence_t, tables, shape, offsets, weights, log_z, states, counts, buffers):
    """Groups of eight sequences; log_z (S,) stays -inf for those that are to be done alone."""
    K = evidence_t.shape[0]
    order, groups = _groups_of(np.diff(offsets), K)
    if len(groups) == 0:
        return
    stages = stacked(tables, shape)
    rows, ended, begun = _stage_buffers(offsets, order[groups[0]], K, buffers)
    T = len(rows)
    inverses, messages = np.empty((T, EIGHT)), np.empty((3, stages.first[-1], EIGHT))
    steps = np.zeros((K, K, EIGHT))
    for g in groups:
        smooth_group(
            evidence_t, order[g : g + EIGHT], offsets, weights, stages, rows, ended, begun,
            inverses, tuple(messages), log_z, states, counts.start, counts.segments, counts.extra,
            steps,
        )  # fmt: skip
    np.add(counts.steps, steps.sum(2), out=counts.steps)


def _groups_of(lengths, K):
    """Sequences by length, and where groups of eight of them begin; others are done alone."""
    order = np.argsort(-lengths, kind="stable")
    groups, alone = np.empty_like(lengths), np.empty_like(lengths)
    longest = TABLE_NUMBERS // (EIGHT * K)
    n_groups, _ = plan_groups(lengths[order], LEAST_SLOTS, LONG, longest, groups, alone)
    return order, groups[:n_groups]


def _stage_buffers(offsets, longest, K, buffers):
    """Tables (T, K, 8) of a group, for the rows of the longest sequence."""
    T = -(-int(offsets[longest + 1] - offsets[longest]) // EIGHT) * EIGHT
    return [buffers.take(f"stage {name}", T, K, EIGHT) for name in ("rows", "ended", "begun")]


def _alone(evidence_t, tables, rows, weight, is_free, states, counts):
    """One sequence. Returns log_z, -inf if the linear domain fails."""
    K, n, width = len(evidence_t), rows.stop - rows.start, len(tables.start)
    log_z, past, future = np.empty(1), np.empty((n, width)), np.empty((n, width))
    segments, extra = np.zeros(width), np.zeros(width)
    smooth_sequences(
        evidence_t, np.array([rows.start, rows.stop]), np.array([weight]), is_free, tables, log_z,
        states, counts.start, segments, extra, past, future,
    )  # fmt: skip
    np.add(counts.steps, past[:, :K].T @ future[:, :K], out=counts.steps)
    np.add(counts.segments, segments[:K], out=counts.segments)
    np.add(counts.extra, extra[:K], out=counts.extra)
    return log_z[0]


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
    tables = stage_tables(log_start, log_transition, lengths, right_censored)
    stages = stacked(tables, lengths[2])
    n, n_units = evidence_t.shape[1], len(offsets) - 1
    path, extra = np.zeros(n, np.int64), np.zeros(n_units, np.int64)
    log_z = np.full(n_units, -np.inf)
    if is_free is None:  # of rows at which none may begin, slots know nothing
        buffers = Buffers() if buffers is None else buffers
        outs = path, extra, log_z
        _draw_side_by_side(evidence_t, stages, offsets, right_censored, uniforms, buffers, outs)
    is_free = _everywhere(n, is_free)
    for s in np.flatnonzero(~(log_z > -np.inf)):
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        log_z[s], extra[s] = draw_alone(
            evidence_t, rows.start, rows.stop, is_free, tables, stages, right_censored, uniforms,
            path,
        )  # fmt: skip
        if log_z[s] > -np.inf:
            continue
        T = rows.stop - rows.start
        path[rows], value, _, last = draw_segments(
            np.ascontiguousarray(evidence_t[:, rows]), log_start, log_transition,
            log_lengths(lengths, T, right_censored), np.array([0, T]), uniforms[rows],
            is_free[rows], right_censored=right_censored,
        )  # fmt: skip
        seen = T - 1 - np.flatnonzero(np.r_[True, path[rows][1:] != path[rows][:-1]])[-1] + 1
        log_z[s], extra[s] = value[0], last[0] - seen
    return path, log_z, extra


def _draw_side_by_side(evidence_t, stages, offsets, goes_on, uniforms, buffers, outs):
    """Groups of eight sequences; log_z stays -inf for those that are to be done alone."""
    K = evidence_t.shape[0]
    order, groups = _groups_of(np.diff(offsets), K)
    if len(groups) == 0:
        return
    tables = _stage_buffers(offsets, order[groups[0]], K, buffers)
    last, x = np.empty((2, stages.first[-1], EIGHT))
    scratch = np.empty((2, max(stages.first[-1], K)))
    inverses = np.empty((len(tables[0]), EIGHT))
    for g in groups:
        draw_group(
            evidence_t, order[g : g + EIGHT], offsets, stages, goes_on, uniforms,
            (*tables, inverses), last, x, scratch, *outs,
        )  # fmt: skip


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
        stays += (self.last * y * tables.extra).sum(0)[:K]
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
            stays += out.sum(1)
            yield self.bounds[p], self.bounds[p + 1], out
        segments += found[:K]
        stays -= found[:K]

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
