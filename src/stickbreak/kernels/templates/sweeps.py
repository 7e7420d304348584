"""Collapsed sweeps of strings: a segmentation given those of all other strings.

Expectations, or whole segmentations that are drawn, and accepted as in `kernels/tree/hastings.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, uniform_of
from .absent import LEAST, log_present, log_without
from .charts import (
    SlotWeights,
    fill_after,
    fill_before,
    make_charts,
    pick_segments,
    share_segments,
)
from .strings import longest_of

__all__ = [
    "SegmentOwn", "SlotCounts", "SlotPrior", "Strings", "count_strings", "draw_strings",
    "random_strings", "sweep_strings",
]  # fmt: skip


class Strings(NamedTuple):
    """ids (n, L), offsets (S + 1,), is_used (S,)."""

    ids: np.ndarray
    offsets: np.ndarray
    is_used: np.ndarray


class SlotCounts(NamedTuple):
    """template (T,), repeat (Q, 2), segment (C, V), and totals (C,) of segments.

    absent (C, V) : sum over places of log q(segment not there)
    """

    template: np.ndarray
    repeat: np.ndarray
    segment: np.ndarray
    totals: np.ndarray
    absent: np.ndarray


class SlotPrior(NamedTuple):
    """Prior counts: template (T,), repeat (Q, 2), segment (V,), and total of all segments.

    repeats (Q,) : whether a slot repeats; if not, it is left for certain
    """

    template: np.ndarray
    repeat: np.ndarray
    segment: np.ndarray
    total: float
    repeats: np.ndarray


class SegmentOwn(NamedTuple):
    """What strings keep: segments (n, L, C), templates (S, T), repeats (S, Q, 2)."""

    segments: np.ndarray
    templates: np.ndarray
    repeats: np.ndarray


@kernel
def move_string(units, s, sign, own, counts):
    """Counts += sign * what string s keeps."""
    for t in range(counts.template.shape[0]):
        counts.template[t] += sign * own.templates[s, t]
    for q in range(counts.repeat.shape[0]):
        for g in range(2):
            counts.repeat[q, g] += sign * own.repeats[s, q, g]
    for i in range(units.offsets[s], units.offsets[s + 1]):
        for j in range(units.ids.shape[1]):
            at = units.ids[i, j]
            if at >= 0:
                for c in range(counts.totals.shape[0]):
                    share = own.segments[i, j, c]
                    if share > 0.0:
                        counts.segment[c, at] += sign * share
                        counts.totals[c] += sign * share
                        counts.absent[c, at] += sign * log_without(share)


@kernel
def predict_string(counts, prior, units, lo, n, power, w, evidence):
    """Logs of weights given all other strings, times power; counts below zero are taken as zero.

    Templates and repetitions have posterior predictives; for segments see `absent.py`.
    """
    total = 0.0
    for t in range(w.template.shape[0]):
        w.template[t] = max(counts.template[t], 0.0) + prior.template[t]
        total += w.template[t]
    for t in range(w.template.shape[0]):
        w.template[t] = power * np.log(w.template[t] / total)
    for q in range(w.again.shape[0]):
        w.again[q], w.leave[q] = -np.inf, 0.0
        if prior.repeats[q]:
            again = max(counts.repeat[q, 0], 0.0) + prior.repeat[q, 0]
            leave = max(counts.repeat[q, 1], 0.0) + prior.repeat[q, 1]
            w.again[q] = power * np.log(again / (again + leave))
            w.leave[q] = power * np.log(leave / (again + leave))
    totals = np.empty(counts.totals.shape[0])
    for c in range(counts.totals.shape[0]):
        totals[c] = np.log(max(counts.totals[c], 0.0) + prior.total)
    for i in range(n):
        for j in range(units.ids.shape[1]):
            at = units.ids[lo + i, j]
            for c in range(counts.totals.shape[0]):
                evidence[i, j, c] = -np.inf
                if at >= 0:
                    value = log_present(
                        prior.segment[at], counts.segment[c, at], counts.absent[c, at]
                    )  # fmt: skip
                    evidence[i, j, c] = power * (value - totals[c])


@kernel
def make_weights(counts):
    """Room for weights."""
    n_slots = counts.repeat.shape[0]
    return SlotWeights(np.empty_like(counts.template), np.empty(n_slots), np.empty(n_slots))


@kernel
def pair_string(w, n, evidence, template, repeat, shares):
    """Sum of expected counts times log weights."""
    total = 0.0
    for t in range(template.shape[0]):
        if template[t] > 0.0:
            total += template[t] * w.template[t]
    for q in range(repeat.shape[0]):
        if repeat[q, 0] > 0.0:
            total += repeat[q, 0] * w.again[q]
        total += repeat[q, 1] * w.leave[q]
    for i in range(n):
        for j in range(min(shares.shape[1], n - i)):
            for c in range(shares.shape[2]):
                if shares[i, j, c] > 0.0:
                    total += shares[i, j, c] * evidence[i, j, c]
    return total


@kernel
def keep_string(units, s, n, template, repeat, shares, own):
    """Own = what was found. Slots that do not repeat have no decisions to count."""
    lo = units.offsets[s]
    for t in range(template.shape[0]):
        own.templates[s, t] = template[t]
    for q in range(repeat.shape[0]):
        own.repeats[s, q, 0], own.repeats[s, q, 1] = repeat[q, 0], repeat[q, 1]
    for i in range(n):
        for j in range(shares.shape[1]):
            for c in range(shares.shape[2]):
                own.segments[lo + i, j, c] = shares[i, j, c]


@kernel
def sweep_strings(slots, counts, prior, units, own, block, is_part, is_measured, out, out_found):
    """Every string once, in order. Returns the first without a segmentation, or -1.

    counts : of all data, of which own are part if `is_part`; they then change with every string,
        else they stay as they are
    block : strings that share an exclusion
    own : counts of each string, replaced. out : += the lane's new counts
    out_found (2,) : sum of log predictives, and of the entropies if `is_measured`
    """
    n_units, longest = units.offsets.shape[0] - 1, longest_of(units.offsets)
    charts = make_charts(
        longest, slots.name.shape[0], units.ids.shape[1], counts.totals.shape[0]
    )  # fmt: skip
    w, template = make_weights(counts), np.empty_like(counts.template)
    repeat, shares = np.empty_like(counts.repeat), np.empty_like(charts.evidence)
    for first in range(0, n_units, block):
        last = min(first + block, n_units)
        for s in range(first, last):
            if is_part and units.is_used[s]:
                move_string(units, s, -1.0, own, counts)
        for s in range(first, last):
            if units.is_used[s]:
                lo, n = units.offsets[s], units.offsets[s + 1] - units.offsets[s]
                predict_string(counts, prior, units, lo, n, 1.0, w, charts.evidence)
                log_z = fill_after(slots, w, n, False, charts)
                if log_z == -np.inf:
                    return s
                fill_before(slots, w, n, charts)
                share_segments(slots, w, n, log_z, charts, template, repeat, shares)
                out_found[0] += log_z
                if is_measured:
                    paired = pair_string(w, n, charts.evidence, template, repeat, shares)
                    out_found[1] += log_z - paired
                keep_string(units, s, n, template, repeat, shares, own)
                move_string(units, s, 1.0, own, out)
        for s in range(first, last):
            if is_part and units.is_used[s]:
                move_string(units, s, 1.0, own, counts)
    return -1


@kernel
def count_strings(units, own, out):
    """Counts of strings as they are."""
    for s in range(units.offsets.shape[0] - 1):
        if units.is_used[s]:
            move_string(units, s, 1.0, own, out)


@kernel
def random_strings(slots, repeats, units, seeds, own):
    """Own = posteriors under random weights; repeats (Q,), seeds (S,) uint64."""
    n_lengths, n_names, n_slots = own.segments.shape[1], own.segments.shape[2], slots.name.shape[0]
    charts = make_charts(longest_of(units.offsets), n_slots, n_lengths, n_names)
    template, repeat = np.empty(own.templates.shape[1]), np.empty((n_slots, 2))
    again, shares = np.zeros(n_slots), np.empty_like(charts.evidence)
    for q in range(n_slots):
        again[q] = 0.0 if repeats[q] else -np.inf
    w = SlotWeights(np.zeros_like(template), again, np.zeros(n_slots))
    for s in range(units.offsets.shape[0] - 1):
        lo, n, state = units.offsets[s], units.offsets[s + 1] - units.offsets[s], seeds[s]
        for i in range(n):
            for j in range(n_lengths):
                for c in range(n_names):
                    state += GOLDEN
                    weight = np.log(1.0 - uniform_of(state))
                    charts.evidence[i, j, c] = weight if units.ids[lo + i, j] >= 0 else -np.inf
        log_z = fill_after(slots, w, n, False, charts)
        if units.is_used[s] and log_z > -np.inf:
            fill_before(slots, w, n, charts)
            share_segments(slots, w, n, log_z, charts, template, repeat, shares)
            keep_string(units, s, n, template, repeat, shares, own)


@kernel
def move_marks(slots, units, s, sign, marks, at, counts, prior):
    """Counts += sign * those of a segmentation, whose string begins at `at` in marks.

    Returns the log of its probability given the counts before, if sign is 1, up to the number of
    strings.
    """
    lo, n = units.offsets[s], units.offsets[s + 1] - units.offsets[s]
    t = slots.template[marks[at] - 1]
    value, begin = np.log(counts.template[t] + prior.template[t]), 0
    counts.template[t] += sign
    for i in range(1, n + 1):
        if i < n and marks[at + i] == 0:
            continue
        q = marks[at + begin] - 1
        c, v = slots.name[q], units.ids[lo + begin, i - begin - 1]
        value += np.log(counts.segment[c, v] + prior.segment[v])
        value -= np.log(counts.totals[c] + prior.total)
        counts.segment[c, v] += sign
        counts.absent[c, v] += sign * LEAST
        counts.totals[c] += sign
        g = 0 if i < n and marks[at + i] == q + 1 else 1
        if prior.repeats[q]:
            row, theirs = counts.repeat[q], prior.repeat[q]
            value += np.log((row[g] + theirs[g]) / (row[0] + row[1] + theirs[0] + theirs[1]))
        counts.repeat[q, g] += sign
        begin = i
    return value


@kernel
def weigh_marks(slots, w, n, evidence, marks, at):
    """Sum of the log weights of a segmentation."""
    value, begin = w.template[slots.template[marks[at] - 1]], 0
    for i in range(1, n + 1):
        if i < n and marks[at + i] == 0:
            continue
        q = marks[at + begin] - 1
        value += evidence[begin, i - begin - 1, slots.name[q]]
        value += w.again[q] if i < n and marks[at + i] == q + 1 else w.leave[q]
        begin = i
    return value


@kernel
def draw_strings(
    slots, counts, prior, units, marks, is_part, seeds, power, accepted, out, out_log_z
):
    """A segmentation for every string, in order. Returns the first without one, or -1.

    counts : of all data, of which marks are part if `is_part`; they then change with every string,
        else they stay as they are, and every segmentation is taken
    seeds (n,) : uint64, of which a string uses its first. power : of all probabilities
    marks (n,), accepted (S,) : replaced; 1 for a new one, 0 for the last one, -1 if there was none
    out : += the lane's new counts. out_log_z (1,) : += the sum of log predictives
    """
    longest = longest_of(units.offsets)
    charts = make_charts(
        longest, slots.name.shape[0], units.ids.shape[1], counts.totals.shape[0]
    )  # fmt: skip
    w, new, uniforms = make_weights(counts), np.empty(longest, np.int64), np.empty(2 * longest + 1)
    for s in range(units.offsets.shape[0] - 1):
        if not units.is_used[s]:
            continue
        lo, n = units.offsets[s], units.offsets[s + 1] - units.offsets[s]
        if is_part:
            move_marks(slots, units, s, -1.0, marks, lo, counts, prior)
        predict_string(counts, prior, units, lo, n, power, w, charts.evidence)
        log_z, state = fill_after(slots, w, n, False, charts), seeds[lo]
        if log_z == -np.inf:
            return s
        out_log_z[0] += log_z
        for i in range(2 * n + 1):
            state += GOLDEN
            uniforms[i] = uniform_of(state)
        pick_segments(slots, w, n, charts, uniforms, new)
        is_taken = True
        if is_part:
            theirs = move_marks(slots, units, s, 1.0, marks, lo, counts, prior)
            move_marks(slots, units, s, -1.0, marks, lo, counts, prior)
            ours = move_marks(slots, units, s, 1.0, new, 0, counts, prior)
            gain = power * (ours - theirs)
            gain += weigh_marks(slots, w, n, charts.evidence, marks, lo)
            gain -= weigh_marks(slots, w, n, charts.evidence, new, 0)
            is_taken = np.log(1.0 - uniform_of(seeds[lo])) < gain
            if not is_taken:
                move_marks(slots, units, s, -1.0, new, 0, counts, prior)
                move_marks(slots, units, s, 1.0, marks, lo, counts, prior)
        accepted[s] = int(is_taken) if is_part else -1
        if is_taken:
            for i in range(n):
                marks[lo + i] = new[i]
        move_marks(slots, units, s, 1.0, marks, lo, out, prior)
    return -1
