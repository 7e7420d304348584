"""Paths of Markov chains drawn within slices: the beam sampler of the HDP hidden Markov model.

Every step of the present path gets a level u, uniform between zero and its probability. Given these
the path has equal chances for all steps above their levels, and none for others: filtering and
drawing go over those alone, few if rows are sparse [VSTG08].
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of

__all__ = ["draw_sliced"]


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
def weigh_evidence(evidence_t, t, weights):
    """Weights (K,) times the evidence of row t, normalized; whether any is left."""
    K, top, total = weights.shape[0], -np.inf, 0.0
    for k in range(K):
        if weights[k] > 0.0:
            top = max(top, evidence_t[k, t])
    if not top > -np.inf:
        return False
    for k in range(K):
        if weights[k] > 0.0:
            weights[k] *= math.exp(evidence_t[k, t] - top)
            total += weights[k]
    if not total > 0.0:
        return False
    for k in range(K):
        weights[k] /= total
    return True


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
        lo, hi, is_good = offsets[s], offsets[s + 1], True
        for t in range(lo, hi if is_used[s] else lo):
            here = known[t - lo]
            if t == lo:
                for k in range(K):
                    here[k] = 1.0 if start[k] > levels[t] else 0.0
            else:
                reach(known[t - lo - 1], values, targets, levels[t], here)
            is_good = weigh_evidence(evidence_t, t, here)
            if not is_good:
                break
        out_good[s] = is_good
        if not (is_good and is_used[s]):
            continue
        for t in range(hi - 1, lo - 1, -1):
            weights[:] = known[t - lo]
            if t + 1 < hi:
                column, level = transposed[out_path[t + 1]], levels[t + 1]
                for i in range(K):
                    weights[i] = weights[i] if column[i] > level else 0.0
            out_path[t] = choose(weights, uniform_of(seeds[t] + GOLDEN + GOLDEN))


def draw_sliced(evidence_t, log_start, log_transition, offsets, states, is_used, uniforms):
    """A path (n,) of each sequence, given its present one, states (n,).

    evidence_t (K, n), uniforms (n,) in [0, 1). is_used (S,) : sequences that are not keep theirs
    """
    start, transition = np.exp(log_start), np.exp(log_transition)
    order = np.argsort(-transition, axis=1, kind="stable")
    values = np.take_along_axis(transition, order, 1)
    seeds = (uniforms * 2.0**53).astype(np.uint64)
    levels, path = np.empty(len(states)), np.array(states)
    draw_levels(start, transition, offsets, states, seeds, levels)
    good = np.empty(len(offsets) - 1, dtype=np.bool_)
    transposed = np.ascontiguousarray(transition.T)
    draw_slices(
        evidence_t, start, values, order, transposed, offsets, is_used, levels, seeds, path, good
    )
    for s in np.flatnonzero(~good):
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        rng = np.random.default_rng(int(seeds[rows][0]))
        path[rows] = _draw_in_logs(evidence_t[:, rows], start, transition, levels[rows], rng)
    return path


def _draw_in_logs(evidence_t, start, transition, levels, rng):
    """The path (T,) of one sequence, where weights underflow."""
    with np.errstate(divide="ignore"):
        forward = [np.log(start > levels[0]) + evidence_t[:, 0]]
        for t in range(1, len(levels)):
            reached = logsumexp(forward[-1][:, None] + np.log(transition > levels[t]), axis=0)
            forward.append(reached + evidence_t[:, t])
        path, steps = np.empty(len(levels), dtype=np.int64), 0.0
        for t in range(len(levels) - 1, -1, -1):
            logits = forward[t] + steps
            path[t] = np.argmax(logits + rng.gumbel(size=len(logits)))
            steps = np.log(transition[:, path[t]] > levels[t])
    return path
