"""Segmentations of many strings: log weights in, counts out.

ids (n, L) : which substring begins at a letter, by length, -1 for none; offsets (S + 1,) of the
strings. table (C, V) : log weights of substrings for each name of slots.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from .absent import LEAST, log_without
from .charts import (
    fill_after,
    fill_before,
    make_charts,
    pick_segments,
    read_evidence,
    share_segments,
)

__all__ = [
    "add_segments", "count_marks", "infer_strings", "longest_of", "pick_strings", "sum_strings",
]  # fmt: skip


@kernel
def longest_of(offsets):
    """Letters of the longest string."""
    longest = 1
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@kernel
def add_segments(shares, ids, lo, n, times, out_segment, out_absent, out_rows):
    """Counts of substrings (C, V), and of the name above each letter (rows, C), += times shares.

    out_absent (C, V) : += times log(1 - share)
    """
    for i in range(n):
        for j in range(min(ids.shape[1], n - i)):
            at = ids[lo + i, j]
            for c in range(shares.shape[2]):
                share = times * shares[i, j, c]
                if at >= 0 and share != 0.0:
                    out_segment[c, at] += share
                    out_absent[c, at] += times * log_without(shares[i, j, c])
                    if out_rows.shape[0] > 0:
                        for k in range(i, i + j + 1):
                            out_rows[lo + k, c] += share


@kernel
def infer_strings(
    slots, w, table, ids, offsets, times, out_template, out_repeat, out_segment, out_absent,
    out_rows, out_begins, out_log_z,
):  # fmt: skip
    """Expected counts of every string, times (S,).

    out_template (T,), out_repeat (Q, 2), out_segment (C, V), out_rows (n, C) : += them
    out_absent (C, V) : += logs of q(segment not at a place)
    out_begins (n,) : = whether a segment begins at a letter, if it has rows
    out_log_z (S,) : = logs of the sums, -inf if no segmentation is possible
    """
    longest, n_slots = longest_of(offsets), slots.name.shape[0]
    charts = make_charts(longest, n_slots, ids.shape[1], table.shape[0])
    shares, template = np.empty_like(charts.evidence), np.empty_like(out_template)
    repeat = np.empty((n_slots, 2))
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        read_evidence(table, ids, lo, n, charts.evidence)
        log_z = fill_after(slots, w, n, False, charts)
        out_log_z[s] = log_z
        if log_z == -np.inf:
            continue
        fill_before(slots, w, n, charts)
        share_segments(slots, w, n, log_z, charts, template, repeat, shares)
        for t in range(template.shape[0]):
            out_template[t] += times[s] * template[t]
        for q in range(n_slots):
            out_repeat[q, 0] += times[s] * repeat[q, 0]
            out_repeat[q, 1] += times[s] * repeat[q, 1]
        add_segments(shares, ids, lo, n, times[s], out_segment, out_absent, out_rows)
        if out_begins.shape[0] > 0:
            for i in range(n):
                out_begins[lo + i] = shares[i].sum()


@kernel
def sum_strings(slots, w, table, ids, offsets, out_log_z):
    """out_log_z (S,) = logs of the sums over all segmentations."""
    charts = make_charts(longest_of(offsets), slots.name.shape[0], ids.shape[1], table.shape[0])
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        read_evidence(table, ids, lo, n, charts.evidence)
        out_log_z[s] = fill_after(slots, w, n, False, charts)


@kernel
def pick_strings(slots, w, table, ids, offsets, uniforms, out_marks, out_log_z):
    """out_marks (n,) = a segmentation of every string: by its share, or the best without uniforms.

    uniforms (n, 3), or (0, 3). out_log_z (S,) : = log of the sum over all, or of the best
    """
    longest, is_best = longest_of(offsets), uniforms.shape[0] == 0
    charts = make_charts(longest, slots.name.shape[0], ids.shape[1], table.shape[0])
    drawn = np.full(3 * longest, -1.0)
    for s in range(offsets.shape[0] - 1):
        lo, n = offsets[s], offsets[s + 1] - offsets[s]
        read_evidence(table, ids, lo, n, charts.evidence)
        out_log_z[s] = fill_after(slots, w, n, is_best, charts)
        if not is_best:
            for i in range(3 * n):
                drawn[i] = uniforms[lo + i // 3, i % 3]
        if out_log_z[s] > -np.inf:
            pick_segments(slots, w, n, charts, drawn, out_marks[lo : lo + n])


@kernel
def count_marks(
    slots, marks, ids, offsets, times, out_template, out_repeat, out_segment, out_absent
):
    """Counts of given segmentations, see `pick_segments`, += times (S,)."""
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        out_template[slots.template[marks[lo] - 1]] += times[s]
        begin = lo
        for i in range(lo + 1, hi + 1):
            if i < hi and marks[i] == 0:
                continue
            q = marks[begin] - 1
            c, at = slots.name[q], ids[begin, i - begin - 1]
            out_segment[c, at] += times[s]
            out_absent[c, at] += times[s] * LEAST
            out_repeat[q, 0 if i < hi and marks[i] == marks[begin] else 1] += times[s]
            begin = i
