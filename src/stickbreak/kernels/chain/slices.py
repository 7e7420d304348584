"""Paths of Markov chains drawn within slices: the beam sampler of the HDP hidden Markov model.

Every step of the present path gets a level u, uniform between zero and its probability. Given these
the path has equal chances for all steps above their levels, and none for others: filtering and
drawing go over those alone, few if rows are sparse [VSTG08].
"""

from __future__ import annotations

import math

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of

__all__ = ["draw_sliced"]

TINY = 1e-250  # weights below it are dropped
LOG_NEGLIGIBLE = -46.0  # 1e-20 of all paths: less than is lost by rounding
LOG_TWO = math.log(2.0)


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
def reach(before, values, targets, level, out):
    """Out (K,) = weights (K,) of the states before that have a step above the level to each state.

    values, targets (K, K) : the steps of each row, largest first
    """
    K = out.shape[0]
    out[:] = 0.0
    for i in range(K):
        weight = before[i]
        if weight > 0.0:
            for m in range(K):
                if not values[i, m] > level:
                    break
                out[targets[i, m]] += weight


@kernel
def weigh_evidence(evidence_t, t, weights, lost):
    """Weights (K,) times the evidence of row t, normalized; weights that all but vanish become 0.

    Returns the largest part, in logs, of all paths that may have gone through those, if each goes
    on as well as any path can: `lost` of the rows before; inf if nothing is left.
    """
    K, top, best, total, dropped = weights.shape[0], -np.inf, -np.inf, 0.0, 0.0
    for k in range(K):
        best = max(best, evidence_t[k, t])
        if weights[k] > 0.0:
            top = max(top, evidence_t[k, t])
    if not top > -np.inf:
        return np.inf
    for k in range(K):
        if weights[k] > 0.0 and evidence_t[k, t] > -np.inf:
            weights[k] *= math.exp(evidence_t[k, t] - top)
            if weights[k] < TINY:
                weights[k], dropped = 0.0, TINY * K
            total += weights[k]
        else:
            weights[k] = 0.0
    if not total > 0.0:
        return np.inf
    for k in range(K):
        weights[k] /= total
    lost += best - top + math.log(K / total)
    return max(lost, math.log(dropped / total)) + LOG_TWO if dropped > 0.0 else lost


@kernel
def draw_slices(
    evidence_t, start, values, targets, transposed, offsets, is_used, levels, seeds, out_path,
    out_good,
):  # fmt: skip
    """A path (n,) of every sequence that is used; out_good (S,) : whether nothing underflowed."""
    K, longest = start.shape[0], 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    known, weights = np.empty((longest, K)), np.empty(K)
    for s in range(offsets.shape[0] - 1):
        lo, hi, lost = offsets[s], offsets[s + 1], -np.inf
        for t in range(lo, hi if is_used[s] else lo):
            here = known[t - lo]
            if t == lo:
                for k in range(K):
                    here[k] = 1.0 if start[k] > levels[t] else 0.0
            else:
                reach(known[t - lo - 1], values, targets, levels[t], here)
            lost = weigh_evidence(evidence_t, t, here, lost)
            if lost == np.inf:
                break
        out_good[s] = lost < LOG_NEGLIGIBLE
        if not (out_good[s] and is_used[s]):
            continue
        for t in range(hi - 1, lo - 1, -1):
            weights[:] = known[t - lo]
            if t + 1 < hi:
                column, level = transposed[out_path[t + 1]], levels[t + 1]
                for i in range(K):
                    weights[i] = weights[i] if column[i] > level else 0.0
            out_path[t] = choose(weights, uniform_of(seeds[t] + GOLDEN + GOLDEN))


@kernel
def reach_in_logs(before, values, targets, level, tops, out):
    """`reach` for log weights; tops (K,) is scratch."""
    K = out.shape[0]
    tops[:] = -np.inf
    out[:] = 0.0
    for i in range(K):
        for m in range(K if before[i] > -np.inf else 0):
            if not values[i, m] > level:
                break
            tops[targets[i, m]] = max(tops[targets[i, m]], before[i])
    for i in range(K):
        for m in range(K if before[i] > -np.inf else 0):
            if not values[i, m] > level:
                break
            out[targets[i, m]] += math.exp(before[i] - tops[targets[i, m]])
    for k in range(K):
        out[k] = tops[k] + math.log(out[k]) if out[k] > 0.0 else -np.inf


@kernel
def draw_slice_in_logs(evidence_t, start, values, targets, transposed, levels, seeds, out_path):
    """The path (T,) of one sequence."""
    K, T = start.shape[0], out_path.shape[0]
    known, weights = np.empty((T, K)), np.empty(K)
    for t in range(T):
        if t == 0:
            for k in range(K):
                known[t, k] = 0.0 if start[k] > levels[t] else -np.inf
        else:
            reach_in_logs(known[t - 1], values, targets, levels[t], weights, known[t])
        for k in range(K):
            known[t, k] += evidence_t[k, t]
    for t in range(T - 1, -1, -1):
        top = -np.inf
        for i in range(K):
            is_open = t + 1 == T or transposed[out_path[t + 1], i] > levels[t + 1]
            weights[i] = known[t, i] if is_open else -np.inf
            top = max(top, weights[i])
        for i in range(K):
            weights[i] = math.exp(weights[i] - top) if top > -np.inf else 0.0
        out_path[t] = choose(weights, uniform_of(seeds[t] + GOLDEN + GOLDEN))


def draw_sliced(evidence_t, log_start, log_transition, offsets, states, is_used, uniforms):
    """A path (n,) of each sequence, given its present one, states (n,).

    evidence_t (K, n), uniforms (n,) in [0, 1). is_used (S,) : sequences that are not keep theirs
    """
    start, transition = np.exp(log_start), np.exp(log_transition)
    order = np.argsort(-transition, axis=1, kind="stable")
    steps = np.take_along_axis(transition, order, 1), order, np.ascontiguousarray(transition.T)
    seeds = (uniforms * 2.0**53).astype(np.uint64)
    levels, path = np.empty(len(states)), np.array(states)
    draw_levels(start, transition, offsets, states, seeds, levels)
    good = np.empty(len(offsets) - 1, dtype=np.bool_)
    draw_slices(evidence_t, start, *steps, offsets, is_used, levels, seeds, path, good)
    for s in np.flatnonzero(~good):
        at = slice(int(offsets[s]), int(offsets[s + 1]))
        draw_slice_in_logs(
            np.ascontiguousarray(evidence_t[:, at]), start, *steps, levels[at], seeds[at], path[at]
        )
    return path
