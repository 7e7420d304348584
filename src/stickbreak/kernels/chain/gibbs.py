"""Collapsed Gibbs sampling of chains of symbols: the state of a row given all other states.

With the row's own symbol and the steps into and out of it taken out of the counts, its states have

    (n_ik + a_ik)  (n_kj + a_kj + [i = k = j]) / (n_k + a_k + [i = k])  (m_kv + base) / (m_k + ...),

i and j the states before and after, v the symbol [W16, 3.25]: if k is i, the step out of the row
comes after one that is not counted yet. The first row has the start row in the place of row i, and
the last one no step out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, choose_powered, uniform_of

__all__ = ["StateCounts", "sweep_states"]


class StateCounts(NamedTuple):
    """Counts of all data, prior counts included, changed by a sweep.

    start (K,), steps (K, K) from row to column, their transpose, and sums (K,) of the rows
    emission (V, K), totals (K,)
    """

    start: np.ndarray
    steps: np.ndarray
    transposed: np.ndarray
    sums: np.ndarray
    emission: np.ndarray
    totals: np.ndarray


@kernel
def move_step(counts, before, after, sign):
    """Counts += sign * the step from state `before` (-1: a start) to state `after`."""
    if before < 0:
        counts.start[after] += sign
    else:
        counts.steps[before, after] += sign
        counts.transposed[after, before] += sign
        counts.sums[before] += sign


@kernel
def move_symbol(counts, word, state, sign):
    """Counts += sign * a symbol of a state; -1 is missing."""
    if word >= 0:
        counts.emission[word, state] += sign
        counts.totals[state] += sign


@kernel
def weigh_states(counts, before, after, word, sets, legal, t, weights):
    """Weights (K,) of the states of a row; returns their sum, and that without the symbol.

    before : state of the row before, -1 at a start. after : state of the next row, -1 if there is
    none, or none that counts
    """
    K = weights.shape[0]
    into = counts.start if before < 0 else counts.steps[before]
    for k in range(K):
        weights[k] = into[k]
    if after >= 0:
        out = counts.transposed[after]
        for k in range(K):
            weights[k] *= out[k] / counts.sums[k]
        if before >= 0:
            again = 1.0 if before == after else 0.0
            weights[before] = into[before] * (out[before] + again) / (counts.sums[before] + 1.0)
    if sets.shape[0] > 0:
        for k in range(K):
            weights[k] *= legal[sets[t], k]
    prior, total = 0.0, 0.0
    for k in range(K):
        prior += weights[k]
    if word < 0:
        return prior, prior
    line = counts.emission[word]
    for k in range(K):
        weights[k] *= line[k] / counts.totals[k]
        total += weights[k]
    return total, prior


@kernel
def sweep_states(counts, words, offsets, is_used, sets, legal, states, is_part, seeds, power):
    """Every row of every sequence once, in order. Returns the sum of leave-one-out log predictives.

    counts : a StateCounts, of which the states are part if `is_part`; it then changes with every
        row, else it stays as it is, and rows are drawn given those before them
    words (n,), offsets (S + 1,), is_used (S,) : unused sequences are passed over
    sets (n,), legal (M, K) : which states a row may have; sets (0,) for all
    states (n,) : replaced. seeds (n,) : of each row. power : of the probabilities
    """
    weights, log_z = np.empty(counts.totals.shape[0]), 0.0
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if not is_used[s]:
            continue
        for t in range(lo, hi):
            word, before, after = words[t], -1 if t == lo else states[t - 1], -1
            if is_part:
                if t + 1 < hi:
                    after = states[t + 1]
                    move_step(counts, states[t], after, -1.0)
                move_step(counts, before, states[t], -1.0)
                move_symbol(counts, word, states[t], -1.0)
            total, prior = weigh_states(counts, before, after, word, sets, legal, t, weights)
            log_z += math.log(total / prior)
            states[t] = choose_powered(weights, total, power, uniform_of(seeds[t] + GOLDEN))
            if is_part:
                move_symbol(counts, word, states[t], 1.0)
                move_step(counts, before, states[t], 1.0)
                if after >= 0:
                    move_step(counts, states[t], after, 1.0)
    return log_z
