"""Collapsed sweeps of chains, row by row, for every family with live counts.

As `tokens.py`, which is faster and for symbols only.
"""

from __future__ import annotations

import math

import numpy as np

from ..collapsed import entropy_of
from ..compile import kernel
from ..live import score_without, tally
from ..vectors import EIGHT, larger, load, store
from .collapsed import longest_span
from .live_sweeps import tally_rows
from .spans import add_line
from .tokens import (
    BEFORE,
    add_steps,
    change_token,
    enter,
    leave,
    limit_line,
    load_tokens,
    sum_line,
)

__all__ = ["count_live_tokens", "sweep_live_tokens"]


@kernel
def weigh_row(evidence, out):
    """Out (W,) *= likelihoods of the log evidence (K,), divided by the largest; its log."""
    top = -math.inf
    for k in range(evidence.shape[0]):
        if out[k] > 0.0 and not evidence[k] <= top:  # true for NaN, which must propagate
            top = evidence[k]
    for k in range(evidence.shape[0]):
        out[k] = out[k] * math.exp(evidence[k] - top) if out[k] > 0.0 else 0.0
    return top


@kernel
def sweep_live_tokens(
    live, rows, offsets, is_used, steps, sets, legal, own_rows, is_measured, out_live, out_start,
    out_transition, out_found,
):  # fmt: skip
    """Every row once, left to right, given all others; arguments as in `tokens.sweep_tokens`."""
    K, width, kept = own_rows.shape[1], steps.start.shape[0], own_rows.reshape(-1)
    longest = longest_span(offsets)
    posteriors, shares = np.zeros((longest + 2 * BEFORE, width)), np.empty((longest, K))
    q, out, new = posteriors.reshape(-1), np.zeros(width), np.zeros(width)
    evidence, step, start = np.empty(K), np.empty((1, K)), steps.start
    both, leaving = steps.transition + steps.transition_pseudo, np.zeros(width)
    for k in range(K):
        leaving[k] = sum_line(both.reshape(-1), k * width, width) + steps.transition_rest[k]
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if not is_used[s]:
            continue
        load_tokens(kept, lo, hi, K, posteriors)
        for t in range(lo, hi):
            line = t - lo + BEFORE
            old = line * width
            if t == lo:
                for k in range(0, width, EIGHT):
                    rest = larger(load(start, k) - load(q, old + k), 0.0)
                    store(out, k, rest + load(steps.start_pseudo, k))
            else:
                enter(q, line, both, K, out)
            if t < hi - 1:
                leave(q, line, both, leaving, K, out)
            if sets.shape[0] > 0:
                limit_line(out, legal, sets[t] * width)
            before = sum_line(out, 0, width)
            score_without(live, rows, t, q[old : old + K], evidence)
            top = weigh_row(evidence, out)
            total = sum_line(out, 0, width)
            if not total > 0.0:
                return s
            out_found[0] += top + math.log(total / before)
            ends = t == lo, t == hi - 1
            change_token(q, line, out, total, K, new, kept, t, ends, both, leaving, start)
            for k in range(K):
                step[0, k] = new[k]
            tally(live, rows, t, t + 1, step, 1.0)
        tally_rows(out_live, rows, lo, hi, K, kept, 1.0, shares)
        count_path(posteriors, hi - lo, K, is_measured, out_start, out_transition, out_found)
    return -1


@kernel
def count_path(posteriors, n, K, is_measured, out_start, out_transition, out_found):
    """Add the start, the steps and the entropy of one sequence of n rows."""
    for t in range(n):
        out_found[1] += entropy_of(posteriors[t + BEFORE]) if is_measured else 0.0
    add_line(posteriors.reshape(-1), BEFORE * out_start.shape[0], K, 1.0, out_start, 0)
    add_steps(posteriors, n, K, out_transition)


@kernel
def count_live_tokens(
    rows, offsets, is_used, own_rows, is_measured, out_live, out_start, out_transition, out_found
):
    """Counts of sequences whose rows are independent, and their entropy."""
    K, width, kept = own_rows.shape[1], out_start.shape[0], own_rows.reshape(-1)
    longest = longest_span(offsets)
    posteriors, shares = np.zeros((longest + 2 * BEFORE, width)), np.empty((longest, K))
    for s in range(offsets.shape[0] - 1):
        if is_used[s]:
            lo, hi = offsets[s], offsets[s + 1]
            load_tokens(kept, lo, hi, K, posteriors)
            tally_rows(out_live, rows, lo, hi, K, kept, 1.0, shares)
            count_path(posteriors, hi - lo, K, is_measured, out_start, out_transition, out_found)
