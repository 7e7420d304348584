"""Segmentations of one string by templates: sums over all, the best one, a drawn one.

Slots of all templates stand one after another, each with a name; slots of a name have the same
evidence, the log weight of a segment by where it begins and how long it is, (n, L, C) for lengths
1 to L and C names. A slot is left, or used again if it repeats. All weights are logarithms: a sum
has one log for each slot and place, and one exp for each length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel

__all__ = [
    "Charts", "SlotWeights", "Slots", "add_logs", "fill_after", "fill_before", "make_charts",
    "pick_segments", "read_evidence", "share_segments",
]  # fmt: skip


class Slots(NamedTuple):
    """Slots (Q,) of all templates: name, template, and whether a template begins and ends there."""

    name: np.ndarray
    template: np.ndarray
    is_first: np.ndarray
    is_last: np.ndarray


class SlotWeights(NamedTuple):
    """Logs: template (T,), again and leave (Q,); again is -inf for slots that do not repeat."""

    template: np.ndarray
    again: np.ndarray
    leave: np.ndarray


class Charts(NamedTuple):
    """Logs (n + 1, Q) of sums, at a place between letters.

    into, done : all before, up to where a segment of the slot begins; up to where it ends
    begun, after : all after, from where a segment of the slot begins; from where it ends
    evidence (n, L, C), room (L,)
    """

    into: np.ndarray
    done: np.ndarray
    begun: np.ndarray
    after: np.ndarray
    evidence: np.ndarray
    room: np.ndarray


@kernel
def make_charts(n, n_slots, n_lengths, n_names):
    """Room for strings of n letters."""
    size = (n + 1, n_slots)
    return Charts(
        np.empty(size), np.empty(size), np.empty(size), np.empty(size),
        np.empty((n, n_lengths, n_names)), np.empty(max(n_lengths, n_slots, 2)),
    )  # fmt: skip


@kernel
def add_logs(a, b, is_best):
    """The larger of two logs, or the log of the sum."""
    top, low = (a, b) if a > b else (b, a)
    return top if is_best or low == -np.inf else top + np.log1p(np.exp(low - top))


@kernel
def join(logs, n, is_best):
    """The largest of n logs, or the log of their sum."""
    top = -np.inf
    for i in range(n):
        top = max(top, logs[i])
    if is_best or top == -np.inf:
        return top
    total = 0.0
    for i in range(n):
        total += np.exp(logs[i] - top)
    return top + np.log(total)


@kernel
def read_evidence(table, ids, lo, n, out):
    """Out (n, L, C) = log weights (C, V) of the substrings ids (rows, L) of one string."""
    for i in range(n):
        for j in range(ids.shape[1]):
            at = ids[lo + i, j]
            for c in range(table.shape[0]):
                out[i, j, c] = table[c, at] if at >= 0 else -np.inf


@kernel
def fill_after(slots, w, n, is_best, charts):
    """Fill begun and after; returns the log of the sum over all segmentations, or of the best."""
    begun, after, evidence, room = charts.begun, charts.after, charts.evidence, charts.room
    n_slots, n_lengths = slots.name.shape[0], evidence.shape[1]
    for q in range(n_slots):
        begun[n, q] = -np.inf
        after[n, q] = w.leave[q] if slots.is_last[q] else -np.inf
    for i in range(n - 1, -1, -1):
        m = min(n_lengths, n - i)
        for q in range(n_slots):
            c = slots.name[q]
            for j in range(m):
                room[j] = evidence[i, j, c] + after[i + j + 1, q]
            begun[i, q] = join(room, m, is_best)
        for q in range(n_slots):
            after[i, q] = w.again[q] + begun[i, q]
            if not slots.is_last[q]:
                after[i, q] = add_logs(after[i, q], w.leave[q] + begun[i, q + 1], is_best)
    total = -np.inf
    for q in range(n_slots):
        if slots.is_first[q]:
            total = add_logs(total, w.template[slots.template[q]] + begun[0, q], is_best)
    return total


@kernel
def fill_before(slots, w, n, charts):
    """Fill into and done."""
    into, done, evidence, room = charts.into, charts.done, charts.evidence, charts.room
    n_slots, n_lengths = slots.name.shape[0], evidence.shape[1]
    for i in range(n + 1):
        for q in range(n_slots):
            c, m = slots.name[q], min(n_lengths, i)
            for j in range(m):
                room[j] = into[i - j - 1, q] + evidence[i - j - 1, j, c]
            done[i, q] = join(room, m, False)
        for q in range(n_slots):
            if i == 0:
                into[i, q] = w.template[slots.template[q]] if slots.is_first[q] else -np.inf
                continue
            into[i, q] = done[i, q] + w.again[q]
            if not slots.is_first[q]:
                into[i, q] = add_logs(into[i, q], done[i, q - 1] + w.leave[q - 1], False)


@kernel
def share_segments(slots, w, n, log_z, charts, out_template, out_repeat, out_segments):
    """Expected counts of one string from full charts.

    out_template (T,), out_repeat (Q, 2) : = uses, and uses again and leavings of each slot
    out_segments (n, L, C) : = of each segment
    """
    into, done, begun, after = charts.into, charts.done, charts.begun, charts.after
    n_slots, n_lengths = slots.name.shape[0], charts.evidence.shape[1]
    for q in range(n_slots):
        if slots.is_first[q]:
            t = slots.template[q]
            out_template[t] = np.exp(w.template[t] + begun[0, q] - log_z)
        again = 0.0
        for i in range(1, n):
            again += np.exp(done[i, q] + w.again[q] + begun[i, q] - log_z)
        total = 0.0
        for i in range(n):
            if into[i, q] + begun[i, q] > -np.inf:
                total += np.exp(into[i, q] + begun[i, q] - log_z)
        out_repeat[q, 0], out_repeat[q, 1] = again, max(total - again, 0.0)
    for i in range(n):
        for j in range(n_lengths):
            for c in range(out_segments.shape[2]):
                out_segments[i, j, c] = 0.0
        for q in range(n_slots):
            c = slots.name[q]
            if into[i, q] == -np.inf:
                continue
            for j in range(min(n_lengths, n - i)):
                log_share = into[i, q] + charts.evidence[i, j, c] + after[i + j + 1, q] - log_z
                out_segments[i, j, c] += np.exp(log_share)


@kernel
def pick(logs, n, uniform):
    """The largest of n logs if uniform is negative (the first of equals), else one by its share."""
    best = 0
    for k in range(1, n):
        if logs[k] > logs[best]:
            best = k
    if uniform < 0.0:
        return best
    total, reached, last = 0.0, 0.0, best
    for k in range(n):
        total += np.exp(logs[k] - logs[best])
    for k in range(n):
        share = np.exp(logs[k] - logs[best])
        if share > 0.0:
            last = k
            reached += share
            if reached > uniform * total:
                break
    return last


@kernel
def pick_segments(slots, w, n, charts, uniforms, marks):
    """Marks (n,) = one more than the slot of a segment where one begins, else 0.

    From charts of `fill_after`. uniforms (2 n + 1,) : in [0, 1) for a segmentation by its share,
    negative for the best one
    """
    begun, after, room = charts.begun, charts.after, charts.room
    n_slots, n_lengths = slots.name.shape[0], charts.evidence.shape[1]
    for q in range(n_slots):
        room[q] = w.template[slots.template[q]] + begun[0, q] if slots.is_first[q] else -np.inf
    q, i, n_used = pick(room, n_slots, uniforms[0]), 0, 1
    for k in range(n):
        marks[k] = 0
    while i < n:
        marks[i] = q + 1
        m = min(n_lengths, n - i)
        for j in range(m):
            room[j] = charts.evidence[i, j, slots.name[q]] + after[i + j + 1, q]
        i += pick(room, m, uniforms[n_used]) + 1
        if i < n:
            room[0] = w.again[q] + begun[i, q]
            room[1] = -np.inf if slots.is_last[q] else w.leave[q] + begun[i, q + 1]
            q += pick(room, 2, uniforms[n_used + 1])
        n_used += 2
