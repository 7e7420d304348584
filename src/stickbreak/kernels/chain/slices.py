"""Paths of Markov chains drawn within slices: the beam sampler of the HDP hidden Markov model.

Every step of the present path gets a level u, uniform between zero and its probability. Given these
the path has equal chances for all steps above their levels, and none for others: filtering and
drawing go over those alone, few if rows are sparse [VSTG08].

States that slices keep apart stay apart, so a weight that is small now may be all that is left
later. Weights therefore never underflow: each is a number within 2**-256 .. 2**256 times UNIT to a
whole power of its own.
"""

from __future__ import annotations

import math

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of

__all__ = ["draw_sliced"]

UNIT, SMALL, LARGE = 2.0**512, 2.0**-256, 2.0**256
LOG_UNIT = 512.0 * math.log(2.0)


@kernel
def draw_levels(start, transition, offsets, states, seeds, out):
    """Out (n,): a level for the step into each row; states (n,) of the present paths."""
    for s in range(offsets.shape[0] - 1):
        for t in range(offsets[s], offsets[s + 1]):
            chance = start[states[t]]
            if t > offsets[s]:
                chance = transition[states[t - 1], states[t]]
            out[t] = uniform_of(seeds[t] + GOLDEN) * chance


@kernel
def reach(before, before_power, values, targets, level, out, out_power):
    """Out (K,) = the weights (K,) of all states before that have a step to each above the level.

    values, targets (K, K) : the steps of each row, largest first
    """
    K = out.shape[0]
    out[:] = 0.0
    for i in range(K):
        weight, power = before[i], before_power[i]
        if weight == 0.0:
            continue
        for m in range(K):
            if not values[i, m] > level:
                break
            k = targets[i, m]
            if out[k] == 0.0 or power > out_power[k] + 1.0:
                out[k], out_power[k] = weight, power
            elif power == out_power[k]:
                out[k] += weight
            elif power == out_power[k] - 1.0:
                out[k] += weight / UNIT
            elif power == out_power[k] + 1.0:
                out[k], out_power[k] = weight + out[k] / UNIT, power


@kernel
def weigh_evidence(evidence, weights, powers):
    """Weights (K,) times exp(evidence), those of the largest power normalized; False if all are 0.

    evidence (K,)
    """
    K, top, highest, total = weights.shape[0], -np.inf, -np.inf, 0.0
    for k in range(K):
        if weights[k] > 0.0:
            top = max(top, evidence[k])
    if not top > -np.inf:
        return False
    for k in range(K):
        if weights[k] == 0.0:
            continue
        below = evidence[k] - top
        if below == -np.inf:
            weights[k] = 0.0
            continue
        units = math.ceil(below / LOG_UNIT)
        weights[k] *= math.exp(below - units * LOG_UNIT)
        powers[k] += units
        if weights[k] < SMALL:
            weights[k] *= UNIT
            powers[k] -= 1.0
        highest = max(highest, powers[k])
    for k in range(K):
        if weights[k] > 0.0 and powers[k] == highest:
            total += weights[k]
    for k in range(K):
        if weights[k] > 0.0:
            weights[k] /= total
            powers[k] -= highest
            if weights[k] >= LARGE:
                weights[k] /= UNIT
                powers[k] += 1.0
            elif weights[k] < SMALL:
                weights[k] *= UNIT
                powers[k] -= 1.0
    return True


@kernel
def draw_back(known, powers, transposed, levels, seeds, out_path):
    """The path (T,) of one sequence, from its last row to its first."""
    T, K = known.shape
    weights = np.empty(K)
    for t in range(T - 1, -1, -1):
        highest = -np.inf
        for i in range(K):
            is_open = t + 1 == T or transposed[out_path[t + 1], i] > levels[t + 1]
            weights[i] = known[t, i] if is_open else 0.0
            if weights[i] > 0.0:
                highest = max(highest, powers[t, i])
        for i in range(K):
            if weights[i] > 0.0 and powers[t, i] < highest:
                weights[i] = weights[i] / UNIT if powers[t, i] == highest - 1.0 else 0.0
        out_path[t] = choose(weights, uniform_of(seeds[t] + GOLDEN + GOLDEN))


@kernel
def draw_slices(
    evidence, start, values, targets, transposed, offsets, is_used, levels, seeds, out_path
):
    """A path (n,) of every sequence that is used, and that has a possible one."""
    K, longest = start.shape[0], 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    known, powers = np.empty((longest, K)), np.empty((longest, K))
    for s in range(offsets.shape[0] - 1):
        lo, hi, is_possible = offsets[s], offsets[s + 1], is_used[s]
        for t in range(lo, hi):
            if not is_possible:
                break
            here = known[t - lo]
            if t == lo:
                for k in range(K):
                    here[k], powers[0, k] = 1.0 if start[k] > levels[t] else 0.0, 0.0
            else:
                at = t - lo - 1
                reach(known[at], powers[at], values, targets, levels[t], here, powers[at + 1])
            is_possible = weigh_evidence(evidence[t], here, powers[t - lo])
        if is_possible:
            T = hi - lo
            draw_back(
                known[:T], powers[:T], transposed, levels[lo:hi], seeds[lo:hi], out_path[lo:hi]
            )


def draw_sliced(evidence, log_start, log_transition, offsets, states, is_used, uniforms):
    """A path (n,) of each sequence, given its present one, states (n,).

    evidence (n, K), uniforms (n,) in [0, 1). is_used (S,) : sequences that are not keep theirs, and
    so do those without a possible one
    """
    start, transition = np.exp(log_start), np.exp(log_transition)
    order = np.argsort(-transition, axis=1, kind="stable")
    steps = np.take_along_axis(transition, order, 1), order, np.ascontiguousarray(transition.T)
    seeds = (uniforms * 2.0**53).astype(np.uint64)
    levels, path = np.empty(len(states)), np.array(states)
    draw_levels(start, transition, offsets, states, seeds, levels)
    evidence = np.ascontiguousarray(evidence)
    draw_slices(evidence, start, *steps, offsets, is_used, levels, seeds, path)
    return path
