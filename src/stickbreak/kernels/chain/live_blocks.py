"""Collapsed sweeps of long chains, block by block, for every family with live counts.

As `blocks.py`, which is faster and for symbols only.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..live import score
from .absent import keep_absent
from .blocks import enter_block, joined, leave_block, move_edge, move_steps, without_block
from .collapsed import keep_sequence, longest_span
from .live_sweeps import limit_rows, tally_rows
from .spans import add_line, infer_evidence, log_of, make_span, predict_line, predict_lines

__all__ = ["count_live_blocks", "sweep_live_blocks"]


@kernel
def move_live_block(live, rows, offsets, joins, s, K, own, sign, tables, shares):
    """Counts += sign * all that block s has a part in; tables : start (W,), transition (W W,)."""
    start, transition = tables
    tally_rows(live, rows, offsets[s], offsets[s + 1], K, own[0], sign, shares)
    if not joined(joins, s):
        add_line(own[0], offsets[s] * K, K, sign, start, 0)
    move_steps(offsets, joins, s, -1, K, own, sign, transition, start.shape[0])


@kernel
def sweep_live_blocks(
    live, rows, offsets, is_used, steps, sets, legal, own_rows, own_pairs, joins, is_divided,
    is_measured, out_live, out_start, out_transition, out_found, absent=None,
):  # fmt: skip
    """Every block once, in order; arguments as in `blocks.sweep_blocks`."""
    K, width = own_rows.shape[1], steps.start.shape[0]
    longest = longest_span(offsets)
    span, guard = make_span(longest, width), np.zeros(width)
    evidence, shares = np.empty((longest, K)), np.empty((longest, K))
    own = own_rows.reshape(-1), own_pairs.reshape(-1)
    tables = steps.start, steps.transition.reshape(-1)
    others, theta = np.empty(width * width), np.zeros((width, width))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if not is_used[s]:
            continue
        move_live_block(live, rows, offsets, joins, s, K, own, -1.0, tables, shares)
        score(live, rows, lo, hi, evidence[: hi - lo])
        limit_rows(evidence[: hi - lo], lo, hi, sets, legal)
        if joined(joins, s):
            without_block(tables[1], width, offsets, joins, s - 1, s, K, own, others)
            enter_block(others, steps, own[0], lo, K, is_divided, theta, guard, span.start)
        else:
            predict_line(steps.start, steps.start_pseudo, steps.start_rest, 0, width, span.start)
        if joined(joins, s + 1):
            without_block(tables[1], width, offsets, joins, s + 1, s, K, own, others)
            leave_block(others, steps, own[0], hi, K, theta, guard)
            for k in range(K):
                evidence[hi - lo - 1, k] += log_of(guard[k])
        predict_lines(
            steps.transition, steps.transition_pseudo, steps.transition_rest, K,
            span.transition, span.transposed,
        )  # fmt: skip
        log_z, entropy = infer_evidence(span, evidence, K, hi - lo, is_measured)
        if log_z == -np.inf:
            return s
        out_found[0] += log_z
        out_found[1] += entropy
        keep_sequence(span, lo, hi, s, K, own)
        if absent is not None:
            keep_absent(span, s, lo, hi - lo, absent)
        move_live_block(live, rows, offsets, joins, s, K, own, 1.0, tables, shares)
    count_live_blocks(
        rows, offsets, is_used, own_rows, own_pairs, joins, out_live, out_start, out_transition
    )
    return -1


@kernel
def count_live_blocks(
    rows, offsets, is_used, own_rows, own_pairs, joins, out_live, out_start, out_transition
):
    """Counts of blocks as they are, and of the steps between them; see `sweep_live_blocks`."""
    K, width = own_rows.shape[1], out_start.shape[0]
    kept, pairs = own_rows.reshape(-1), own_pairs.reshape(-1)
    transition, shares = out_transition.reshape(-1), np.empty((longest_span(offsets), K))
    for s in range(offsets.shape[0] - 1):
        if is_used[s]:
            tally_rows(out_live, rows, offsets[s], offsets[s + 1], K, kept, 1.0, shares)
            for i in range(K):
                add_line(pairs, (s * K + i) * K, K, 1.0, transition, i * width)
            if joined(joins, s):
                move_edge(kept, offsets[s], K, 1.0, transition, width)
            else:
                add_line(kept, offsets[s] * K, K, 1.0, out_start, 0)
