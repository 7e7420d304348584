"""Collapsed sweeps of chains of symbols: a sequence's path given the paths of all others.

Transitions and symbols' tables are integrated out. A sequence's own expected counts leave the
counts of all data, its predictive tables are made (of its own words only), its posterior is found
by forward-backward, and its counts come back. Several successive sequences may share an exclusion:
their counts leave together, and the tables are made once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..vectors import EIGHT, larger, load, store
from .absent import keep_absent
from .spans import add_line, infer_span, keep_line, make_span, predict_line, predict_lines

__all__ = [
    "Steps", "count_sequences", "longest_span", "random_chains", "score_words", "sweep_sequences",
    "tally",
]  # fmt: skip


class Steps(NamedTuple):
    """Counts of a chain's rows and their prior, padded: start (W,), transition (W, W).

    start_rest, transition_rest (W,) : unused mass
    """

    start: np.ndarray
    transition: np.ndarray
    start_pseudo: np.ndarray
    transition_pseudo: np.ndarray
    start_rest: float
    transition_rest: np.ndarray


@kernel
def longest_span(offsets):
    """Rows of the longest sequence."""
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@kernel
def tally(words, rows, K, lo, hi, sign, table, totals):
    """Table (V W,) and totals (W,) += sign * rows (n K,) of the words lo to hi; -1 is missing."""
    width = totals.shape[0]
    for t in range(lo, hi):
        if words[t] >= 0:
            add_line(rows, t * K, K, sign, table, words[t] * width)
            add_line(rows, t * K, K, sign, totals, 0)


@kernel
def score_words(table, inverse, base, words, lo, hi, sets, legal, out):
    """Out (hi - lo, W) = predictive probabilities of words; 0 where illegal, 1 where missing.

    inverse (W,) : one over the totals with their prior.
    """
    width = inverse.shape[0]
    for t in range(lo, hi):
        at, line = (t - lo) * width, words[t] * width
        for k in range(0, width, EIGHT):
            if line < 0:
                store(out, at + k, load(inverse, k) * 0.0 + 1.0)
            else:
                value = (larger(load(table, line + k), 0.0) + base) * load(inverse, k)
                store(out, at + k, value)
            if sets.shape[0] > 0:
                store(out, at + k, load(out, at + k) * load(legal, sets[t] * width + k))


@kernel
def invert_totals(totals, base_total, out):
    """Out (W,) = 1 / (totals + base_total), totals below zero taken as zero."""
    for k in range(0, totals.shape[0], EIGHT):
        store(out, k, 1.0 / (larger(load(totals, k), 0.0) + base_total))


@kernel
def move_sequence(words, lo, hi, s, K, own, sign, counts):
    """Counts += sign * those of sequence s, which has the rows lo to hi. See `sweep_sequences`."""
    rows, pairs = own
    table, totals, start, transition = counts
    width = totals.shape[0]
    tally(words, rows, K, lo, hi, sign, table, totals)
    add_line(rows, lo * K, K, sign, start, 0)
    if hi - lo > 1:
        for i in range(K):
            add_line(pairs, (s * K + i) * K, K, sign, transition, i * width)


@kernel
def keep_sequence(span, lo, hi, s, K, own):
    """Rows (n K,) and pairs (S K K,) of sequence s = what was found."""
    width, (rows, pairs) = span.start.shape[0], own
    shares, steps = span.shares.reshape(-1), span.steps.reshape(-1)
    for t in range(lo, hi):
        keep_line(shares, (t - lo) * width, K, rows, t * K)
    for i in range(K):
        keep_line(steps, i * width, K, pairs, (s * K + i) * K)


@kernel
def sweep_sequences(
    table, totals, base, base_total, words, offsets, is_used, steps, sets, legal, own_rows,
    own_pairs, block, is_part, is_measured, out_table, out_totals, out_start, out_transition,
    out_found, absent=None,
):  # fmt: skip
    """Every sequence once, in order. Returns the first without a possible path, or -1.

    table (V, W), totals (W,), steps : counts of all data, of which own are part if `is_part`; they
        then change with every sequence, else they stay as they are
    words (n,), offsets (S + 1,), is_used (S,) : unused sequences are passed over
    sets (n,), legal (M, W) : which states a word may have; sets (0,) for all
    own_rows (n, K), own_pairs (S, K, K) : counts of each sequence, replaced
    block : sequences that share an exclusion
    out_table, out_totals, out_start (W,), out_transition (W, W) : += the lane's new counts
    out_found (2,) : sum of log predictives, and of the entropies of paths if `is_measured`
    absent : `AbsentOwn`, where steps that sequences do not take are kept too
    """
    K, width, n_units = own_rows.shape[1], totals.shape[0], offsets.shape[0] - 1
    span, inverse = make_span(longest_span(offsets), width), np.empty(width)
    own = own_rows.reshape(-1), own_pairs.reshape(-1)
    counts = table.reshape(-1), totals, steps.start, steps.transition.reshape(-1)
    outs = out_table.reshape(-1), out_totals, out_start, out_transition.reshape(-1)
    for first in range(0, n_units, block):
        last = min(first + block, n_units)
        for s in range(first, last):
            if is_part and is_used[s]:
                move_sequence(words, offsets[s], offsets[s + 1], s, K, own, -1.0, counts)
        if is_part or first == 0:
            invert_totals(totals, base_total, inverse)
            predict_line(steps.start, steps.start_pseudo, steps.start_rest, 0, width, span.start)
            predict_lines(
                steps.transition, steps.transition_pseudo, steps.transition_rest, K,
                span.transition, span.transposed,
            )  # fmt: skip
        for s in range(first, last):
            if is_used[s]:
                lo, hi = offsets[s], offsets[s + 1]
                score_words(table, inverse, base, words, lo, hi, sets, legal, span.rows)
                log_z, entropy = infer_span(span, K, hi - lo, is_measured)
                if log_z == -np.inf:
                    return s
                out_found[0] += log_z
                out_found[1] += entropy
                keep_sequence(span, lo, hi, s, K, own)
                if absent is not None:
                    keep_absent(span, s, lo, hi - lo, absent)
                move_sequence(words, lo, hi, s, K, own, 1.0, outs)
        for s in range(first, last):
            if is_part and is_used[s]:
                move_sequence(words, offsets[s], offsets[s + 1], s, K, own, 1.0, counts)
    return -1


@kernel
def count_sequences(
    words, offsets, is_used, own_rows, own_pairs, out_table, out_totals, out_start, out_transition
):
    """Counts of sequences as they are; see `sweep_sequences`."""
    own, K = (own_rows.reshape(-1), own_pairs.reshape(-1)), own_rows.shape[1]
    outs = out_table.reshape(-1), out_totals, out_start, out_transition.reshape(-1)
    for s in range(offsets.shape[0] - 1):
        if is_used[s]:
            move_sequence(words, offsets[s], offsets[s + 1], s, K, own, 1.0, outs)


@kernel
def random_chains(uniforms, begin, units, is_first, sets, legal, rows, pairs):
    """Rows begin to begin + m of random chains: q(z_1) and q(z_t | z_(t - 1)) are random weights.

    uniforms (m, K, K) : weights; of a first row, only the first line
    units (n,), is_first (n,) : the sequence of each row, and whether it begins there
    sets, legal : see `sweep_sequences`
    rows (n, K), pairs (S, K, K) : = posteriors, += steps
    """
    m, K = uniforms.shape[0], uniforms.shape[1]
    weights = np.empty(K)
    for t in range(begin, begin + m):
        s = units[t]
        for k in range(K):
            rows[t, k] = 0.0
        for i in range(K):
            before, total = 1.0 if is_first[t] else rows[t - 1, i], 0.0
            for k in range(K):
                weights[k] = uniforms[t - begin, i, k]
                if sets.shape[0] > 0:
                    weights[k] *= legal[sets[t], k]
                total += weights[k]
            for k in range(K):
                weights[k] *= before / total
                rows[t, k] += weights[k]
                if not is_first[t]:
                    pairs[s, i, k] += weights[k]
            if is_first[t]:
                break
