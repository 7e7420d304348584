"""Weights of segments: complete ones, and those that a recording cuts at its ends.

Conventions of all semi-Markov kernels. Sequences are stacked as in `chain/smooth.py`; evidence_t
(K, n), log_start (K,), log_transition (K, K) and log_duration (K, D), of lengths 1 to D, are
logarithms of any scale; -inf is impossible. The diagonal of log_transition is not used: neighboring
segments have different states.

A segment that is cut has a complete length that is not seen. On the right, `seen` rows stand for
all lengths d >= seen, so that their weight is sum_(d >= seen) w[d]. On the left a segment is seen
from a random row of it on, each as likely as any other: sum_(d >= seen) w[d] / d. One that is cut
on both sides has sum_(d >= seen) w[d] (d - seen + 1) / d. If the w[d] sum to one, so do the
weights of what is seen of the first segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..vectors import EIGHT

__all__ = ["Direction", "SegmentTables", "backward", "complete", "forward", "segment_tables"]

LOST = 1e-300  # smaller weights are zero in the linear domain, as arithmetic with them is slow


class SegmentTables(NamedTuple):
    """Weights of lengths, (D, W), line d - 1 for length d, states padded to whole vectors.

    log_inner : of segments between two others; log_first, log_last : of the first and the last one
    log_whole : of a segment that is the whole sequence
    log_residual : of complete lengths d of the first segment, w[d] / d if it is cut
    inner, first, last : the same in the linear domain, with `shift` (W,) subtracted
    start (W,), log_transition (W, W), transition, transposed : steps; transition is linear with
        step_shift subtracted
    """

    log_inner: np.ndarray
    log_first: np.ndarray
    log_last: np.ndarray
    log_whole: np.ndarray
    log_residual: np.ndarray
    inner: np.ndarray
    first: np.ndarray
    last: np.ndarray
    shift: np.ndarray
    start: np.ndarray
    log_transition: np.ndarray
    log_transposed: np.ndarray
    transition: np.ndarray
    transposed: np.ndarray
    step_shift: float
    is_cut_right: bool
    is_cut_left: bool


def segment_tables(
    log_start, log_transition, log_duration, longest, *, right_censored=True, left_censored=False,
    is_best=False,
):  # fmt: skip
    """Tables for sequences of at most `longest` rows; longer segments count in the tails only.

    is_best : whether a segment that is cut has the weight of its best completion, not of all
    """
    K, D = log_duration.shape
    width = -(-K // EIGHT) * EIGHT
    inner = np.full((D, width), -np.inf)
    inner[:, :K] = log_duration.T
    with np.errstate(invalid="ignore"):
        residual = inner - np.log(np.arange(1, D + 1))[:, None] if left_censored else inner
        first = _log_tails(residual, is_best) if left_censored else inner
        last = _log_tails(inner, is_best) if right_censored else inner
        whole = last if right_censored else first
        if left_censored and right_censored:
            whole = _log_tails(first, is_best)
    seen = min(D, longest)
    inner_logs, first, last, whole = (
        np.ascontiguousarray(table[:seen]) for table in (inner, first, last, whole)
    )
    top = np.where(np.isfinite(inner.max(0)), inner.max(0), 0.0)
    start, steps = np.full(width, -np.inf), np.full((width, width), -np.inf)
    start[:K], steps[:K, :K] = log_start, log_transition
    np.fill_diagonal(steps, -np.inf)
    step_shift = float(steps.max()) if np.isfinite(steps.max()) else 0.0
    transition = np.exp(steps - step_shift)
    transition[transition < LOST] = 0.0
    return SegmentTables(
        inner_logs, first, last, whole, residual, _linear(inner_logs, top), _linear(first, top),
        _linear(last, top), top, start, steps, np.ascontiguousarray(steps.T), transition,
        np.ascontiguousarray(transition.T), step_shift, right_censored, left_censored,
    )  # fmt: skip


def _linear(table, shift):
    """exp(table - shift), without what is lost."""
    found = np.exp(table - shift)
    found[found < LOST] = 0.0
    return found


class Direction(NamedTuple):
    """What a scan needs to know: forward or backward.

    is_back : whether rows are read from the last to the first
    log_open (W,) : weights of segments that begin with the scan's first row
    inner (D + 8, W) : weights of lengths, with zeros after the last
    edge, log_inner, log_edge (D, W) : `edge` of segments from the scan's first row. shift (W,) :
        subtracted from the linear ones
    transition, log_transition (W, W), step_shift : steps, in the direction of the scan
    """

    is_back: bool
    log_open: np.ndarray
    inner: np.ndarray
    edge: np.ndarray
    log_inner: np.ndarray
    log_edge: np.ndarray
    shift: np.ndarray
    transition: np.ndarray
    log_transition: np.ndarray
    step_shift: float


def _longer(table):
    """The table with zeros for eight more lengths, so that sums need not end at the last one."""
    return np.pad(table, ((0, EIGHT), (0, 0)))


def forward(tables):
    """The forward direction."""
    return Direction(
        False, tables.start, _longer(tables.inner), tables.first, tables.log_inner,
        tables.log_first, tables.shift, tables.transition, tables.log_transition, tables.step_shift,
    )  # fmt: skip


def backward(tables):
    """The backward direction: sequences end in any state."""
    return Direction(
        True, np.zeros_like(tables.start), _longer(tables.inner), tables.last, tables.log_inner,
        tables.log_last, tables.shift, tables.transposed, tables.log_transposed, tables.step_shift,
    )  # fmt: skip


def _log_tails(table, is_best=False):
    """Logs (D, W) of the sums, or of the largest, over all lines from each one on."""
    add = np.maximum if is_best else np.logaddexp
    return np.ascontiguousarray(add.accumulate(table[::-1], axis=0)[::-1])


def complete(tables, log_duration, inner, first, last, whole):
    """Counts (K, D) of complete lengths, from those of seen ones, (., W) each.

    What is cut is shared out among the lengths that it may have, by their weights.
    """
    K, D = log_duration.shape
    width = inner.shape[1]

    def taller(table):
        out = np.zeros((D, width))
        out[: len(table)] = table
        return out

    found, log_inner = taller(inner), np.full((D, width), -np.inf)
    log_inner[:, :K] = log_duration.T
    first, last, whole = taller(first), taller(last), taller(whole)
    if tables.is_cut_left:
        tails = _log_tails(tables.log_residual)
        if tables.is_cut_right:
            spread_tails(whole, tails, _log_tails(tails), first)
        else:
            first += whole
        spread_tails(first, tables.log_residual, tails, found)
    else:
        found += first
        last += whole
    if tables.is_cut_right:
        spread_tails(last, log_inner, _log_tails(log_inner), found)
    else:
        found += last
    return np.ascontiguousarray(found[:, :K].T)


@kernel
def spread_tails(counts, log_parts, log_tails, out):
    """Out (D, W) += counts (D, W) at seen lengths, given to all longer ones by exp(log_parts).

    log_tails : logs of the sums of exp(log_parts) over all lengths from each one on. What is alive
    at a length is kept, so that no ratio exceeds one.
    """
    D, width = counts.shape
    for k in range(width):
        alive, before = 0.0, -np.inf
        for d in range(D):
            tail = log_tails[d, k]
            if tail == -np.inf:
                break
            if alive > 0.0:
                alive *= np.exp(tail - before)
            alive += counts[d, k]
            out[d, k] += alive * np.exp(log_parts[d, k] - tail)
            before = tail
