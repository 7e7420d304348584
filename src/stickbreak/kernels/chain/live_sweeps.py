"""Collapsed sweeps of chains, sequence by sequence, for every family with live counts.

As `collapsed.py`, which is faster and for symbols only.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..live import score, tally
from .absent import keep_absent
from .collapsed import keep_sequence, longest_span
from .spans import add_line, infer_evidence, make_span, predict_line, predict_lines

__all__ = ["count_live", "sweep_live"]


@kernel
def tally_rows(live, rows, lo, hi, K, kept, sign, shares):
    """Counts += sign * those of the rows lo to hi; kept (n K,), shares (T, K) : scratch."""
    for t in range(lo, hi):
        for k in range(K):
            shares[t - lo, k] = kept[t * K + k]
    tally(live, rows, lo, hi, shares[: hi - lo], sign)


@kernel
def move_live(live, rows, lo, hi, s, K, own, sign, tables, shares):
    """Counts += sign * those of sequence s, which has the rows lo to hi; shares (T, K) : scratch.

    tables : start (W,), transition (W W,)
    """
    start, transition = tables
    width, (kept, pairs) = start.shape[0], own
    tally_rows(live, rows, lo, hi, K, kept, sign, shares)
    add_line(kept, lo * K, K, sign, start, 0)
    for i in range(K):
        add_line(pairs, (s * K + i) * K, K, sign, transition, i * width)


@kernel
def limit_rows(evidence, lo, hi, sets, legal):
    """Evidence (hi - lo, K) = -inf where a row may not have a state."""
    if sets.shape[0] > 0:
        for t in range(lo, hi):
            for k in range(evidence.shape[1]):
                if legal[sets[t], k] == 0.0:
                    evidence[t - lo, k] = -np.inf


@kernel
def sweep_live(
    live, rows, offsets, is_used, steps, sets, legal, own_rows, own_pairs, block, is_part,
    is_measured, out_live, out_start, out_transition, out_found, absent=None,
):  # fmt: skip
    """Every sequence once, in order; arguments as in `collapsed.sweep_sequences`."""
    K, width, n_units = own_rows.shape[1], steps.start.shape[0], offsets.shape[0] - 1
    longest = longest_span(offsets)
    span, evidence, shares = (
        make_span(longest, width),
        np.empty((longest, K)),
        np.empty((longest, K)),
    )
    own = own_rows.reshape(-1), own_pairs.reshape(-1)
    tables = steps.start, steps.transition.reshape(-1)
    outs = out_start, out_transition.reshape(-1)
    for first in range(0, n_units, block):
        last = min(first + block, n_units)
        for s in range(first, last):
            lo, hi = offsets[s], offsets[s + 1]
            if is_part and is_used[s]:
                move_live(live, rows, lo, hi, s, K, own, -1.0, tables, shares)
        if is_part or first == 0:
            predict_line(steps.start, steps.start_pseudo, steps.start_rest, 0, width, span.start)
            predict_lines(
                steps.transition, steps.transition_pseudo, steps.transition_rest, K,
                span.transition, span.transposed,
            )  # fmt: skip
        for s in range(first, last):
            lo, hi = offsets[s], offsets[s + 1]
            if is_used[s]:
                score(live, rows, lo, hi, evidence[: hi - lo])
                limit_rows(evidence[: hi - lo], lo, hi, sets, legal)
                log_z, entropy = infer_evidence(span, evidence, K, hi - lo, is_measured)
                if log_z == -np.inf:
                    return s
                out_found[0] += log_z
                out_found[1] += entropy
                keep_sequence(span, lo, hi, s, K, own)
                if absent is not None:
                    keep_absent(span, s, lo, hi - lo, absent)
                move_live(out_live, rows, lo, hi, s, K, own, 1.0, outs, shares)
        for s in range(first, last):
            lo, hi = offsets[s], offsets[s + 1]
            if is_part and is_used[s]:
                move_live(live, rows, lo, hi, s, K, own, 1.0, tables, shares)
    return -1


@kernel
def count_live(rows, offsets, is_used, own_rows, own_pairs, out_live, out_start, out_transition):
    """Counts of sequences as they are; see `sweep_live`."""
    own, K = (own_rows.reshape(-1), own_pairs.reshape(-1)), own_rows.shape[1]
    outs, shares = (out_start, out_transition.reshape(-1)), np.empty((longest_span(offsets), K))
    for s in range(offsets.shape[0] - 1):
        if is_used[s]:
            lo, hi = offsets[s], offsets[s + 1]
            move_live(out_live, rows, lo, hi, s, K, own, 1.0, outs, shares)
