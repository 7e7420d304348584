"""Paths of Markov chains: the best one, random ones, and filtering by the rows before.

Arguments as in `smooth.py`.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ..compile import kernel
from ..draws import choose
from .single import TINY, filter_rows, linear_tables, log_forward, log_sums

__all__ = [
    "draw",
    "draw_backward",
    "draw_in_logs",
    "filter_step",
    "filtered",
    "predict_step",
    "viterbi",
    "viterbi_pieces",
]


# ---- the best path -------------------------------------------------------------------------------
@kernel
def step_best(before, log_transition, out):
    """Out (K,): log weight of the best path extended to each state, from `before` (K,)."""
    K = out.shape[0]
    for j in range(K):
        out[j] = -np.inf
    for i in range(K):
        weight, row = before[i], log_transition[i]
        for j in range(K):
            value = weight + row[j]
            out[j] = value if value > out[j] or value != value else out[j]  # NaN wins and stays


@kernel
def best_scores(log_first, log_transition, evidence_t, begin, out):
    """Out (T, K): log weight of the best path to each state of each row, starting at row `begin`.

    log_first (K,) : weights of the states of the first row, without its evidence.
    """
    T, K = out.shape
    for t in range(T):
        current = out[t]
        if t == 0:
            for j in range(K):
                current[j] = log_first[j]
        else:
            step_best(out[t - 1], log_transition, current)
        for j in range(K):
            current[j] += evidence_t[j, begin + t]


@kernel
def first_best(values):
    """Index of the largest value; of the first among equals; of a NaN if there is one."""
    best = 0
    for k in range(1, values.shape[0]):
        best = k if values[k] > values[best] or values[k] != values[k] else best
    return best


@kernel
def trace_back(scores, transposed, after, out_path):
    """The path (T,) with the best scores (T, K); predecessors are computed again, not stored.

    after : the state of the next row, -1 if the chain ends here.
    """
    T, K = scores.shape
    values = np.empty(K)
    for t in range(T - 1, -1, -1):
        row = scores[t]
        if after >= 0:
            column = transposed[after]
            for i in range(K):
                values[i] = row[i] + column[i]
            row = values
        after = first_best(row)
        out_path[t] = after


@kernel
def best_paths(evidence_t, log_start, log_transition, transposed, offsets, out_path, out_value):
    """`best_scores` and `trace_back` of every sequence."""
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    scores = np.empty((longest, log_start.shape[0]))
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        best_scores(log_start, log_transition, evidence_t, begin, scores[: end - begin])
        trace_back(scores[: end - begin], transposed, -1, out_path[begin:end])
        out_value[s] = scores[end - begin - 1, out_path[end - 1]]


def viterbi(evidence_t, log_start, log_transition, offsets):
    """Most probable path (n,) of each sequence, and its log weight (S,), log p(path, rows).

    Of equal states the first is taken. The weight is -inf if no path is possible, and NaN if the
    evidence has NaN; the path is meaningless then.
    """
    path, value = np.empty(evidence_t.shape[1], dtype=np.int64), np.empty(len(offsets) - 1)
    transposed = np.ascontiguousarray(log_transition.T)
    best_paths(evidence_t, log_start, log_transition, transposed, offsets, path, value)
    return path, value


def viterbi_pieces(evidence, bounds, log_start, log_transition):
    """`viterbi` of one long chain in pieces, with the same bits; the last piece comes first.

    Yields (begin, end, path, value). evidence(begin, end) returns evidence_t (K, end - begin); it
    is called twice for each piece, but once for the last. Of a piece only the score (K,) of its
    last row is kept: with sqrt(T) pieces, O(sqrt(T) K) in all. Storing predecessors would save the
    second pass, but takes T K bytes, one for each number of the evidence.
    """
    transposed, pieces = np.ascontiguousarray(log_transition.T), list(pairwise(bounds))
    scores, entering = (
        np.empty((max(end - begin for begin, end in pieces), len(log_start))),
        [log_start],
    )
    for begin, end in pieces:
        best_scores(entering[-1], log_transition, evidence(begin, end), 0, scores[: end - begin])
        entering.append(np.empty(len(log_start)))
        step_best(scores[end - begin - 1], log_transition, entering[-1])
    after, value = -1, None
    for (begin, end), first in zip(reversed(pieces), reversed(entering[:-1]), strict=True):
        known, path = scores[: end - begin], np.empty(end - begin, dtype=np.int64)
        if after >= 0:
            best_scores(first, log_transition, evidence(begin, end), 0, known)
        trace_back(known, transposed, after, path)
        value = known[-1, path[-1]] if value is None else value
        after = path[0]
        yield begin, end, path, float(value)


# ---- filtering -----------------------------------------------------------------------------------
def filtered(evidence_t, log_start, log_transition, offsets):
    """p(z_t | x_1 .. x_t) (n, K), and log p(x_t | x_1 .. x_(t - 1)) (n,).

    The sum of the second over a sequence is its log_z. From the first row that is impossible given
    those before, the first is 0 and the second -inf; from a NaN on, both are NaN.
    """
    K, n = evidence_t.shape
    tables = linear_tables(log_start, log_transition)
    out, scale, top = np.empty((n, len(tables.start))), np.ones(n), np.zeros(n)
    filter_rows(evidence_t, tables.start, tables.transition, offsets, out, scale, top)
    bad = np.flatnonzero(np.logical_or.reduceat(~(scale > TINY), offsets[:-1]))
    scale[~(scale > TINY)] = 1.0  # replaced below
    out /= scale[:, None]
    log_step = np.log(scale) + top + tables.step_shift
    log_step[offsets[:-1]] += tables.start_shift - tables.step_shift
    for s in bad:
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        out[rows, :K], log_step[rows] = _filter_in_logs(
            evidence_t[:, rows], log_start, log_transition
        )
    return out[:, :K], log_step


def _filter_in_logs(evidence_t, log_start, log_transition):
    """`filtered` of one sequence."""
    forward = np.empty(evidence_t.shape[::-1])
    log_forward(log_start, log_transition, np.ascontiguousarray(evidence_t), forward)
    log_z = log_sums(forward)
    good = log_z > -np.inf  # NaN stays
    shares = np.exp(forward - np.where(good | np.isnan(log_z), log_z, 0.0)[:, None])
    before = np.r_[0.0, log_z[:-1]]
    return shares, np.where(
        log_z == -np.inf, -np.inf, log_z - np.where(before == -np.inf, 0.0, before)
    )


def predict_step(log_message, log_transition):
    """Log p(z_(t + 1) | x_1 .. x_t) (K,) from log_message (K,), log p(z_t | x_1 .. x_t)."""
    return log_sums(np.ascontiguousarray((log_message[:, None] + log_transition).T))


def filter_step(log_message, evidence, log_start, log_transition):
    """One more row of a growing chain, O(K^2), in logs so that nothing underflows.

    Returns log p(z_t | x_1 .. x_t) (K,) and log p(x_t | x_1 .. x_(t - 1)). log_message (K,) : the
    result for the row before, None for the first row. evidence (K,).
    """
    predicted = log_start if log_message is None else predict_step(log_message, log_transition)
    joint = predicted + evidence
    log_step = float(log_sums(joint[None])[0])
    return (joint - log_step if log_step > -np.inf else joint), log_step


# ---- random paths --------------------------------------------------------------------------------
@kernel
def draw_backward(filtered, transposed, uniforms, after, out_path):
    """A path (T,), drawn from the last row of filtered (T, W) to its first.

    after : the state of the next row, -1 if there is none.
    """
    T, width = filtered.shape
    weights = np.empty(width)
    for t in range(T - 1, -1, -1):
        for i in range(width):
            weights[i] = filtered[t, i]
        if after >= 0:
            column = transposed[after]
            for i in range(width):
                weights[i] *= column[i]
        after = choose(weights, uniforms[t])
        out_path[t] = after


@kernel
def draw_paths(filtered, transposed, offsets, uniforms, out_path):
    """`draw_backward` of every sequence."""
    for s in range(offsets.shape[0] - 1):
        begin, end = offsets[s], offsets[s + 1]
        draw_backward(filtered[begin:end], transposed, uniforms[begin:end], -1, out_path[begin:end])


@kernel
def draw_in_logs(log_forward, log_transition, uniforms, after, out_path):
    """`draw_backward` from log p(z_t, x_1 .. x_t) (T, K)."""
    T, K = log_forward.shape
    weights = np.empty(K)
    for t in range(T - 1, -1, -1):
        top = -np.inf
        for i in range(K):
            weights[i] = log_forward[t, i]
            if after >= 0:
                weights[i] += log_transition[i, after]
            top = max(top, weights[i])
        for i in range(K):
            weights[i] = math.exp(weights[i] - top) if top > -np.inf else 0.0
        after = choose(weights, uniforms[t])
        out_path[t] = after


def draw(evidence_t, log_start, log_transition, offsets, uniforms):
    """A random path (n,) of each sequence from its posterior, and log_z (S,).

    Filters forward and samples backward. uniforms (n,) in [0, 1), one per row. A sequence without a
    possible path, or with NaN, gets a meaningless path: see its log_z.
    """
    n = evidence_t.shape[1]
    tables = linear_tables(log_start, log_transition)
    known, scale, top = np.zeros((n, len(tables.start))), np.ones(n), np.zeros(n)
    filter_rows(evidence_t, tables.start, tables.transition, offsets, known, scale, top)
    path = np.empty(n, dtype=np.int64)
    draw_paths(known, tables.transposed, offsets, uniforms, path)
    bad = np.flatnonzero(np.logical_or.reduceat(~(scale > TINY), offsets[:-1]))
    scale[~(scale > TINY)] = 1.0  # replaced below
    log_z = np.add.reduceat(np.log(scale) + top, offsets[:-1])
    log_z += tables.start_shift + (np.diff(offsets) - 1) * tables.step_shift
    for s in bad:
        rows = slice(int(offsets[s]), int(offsets[s + 1]))
        forward = np.empty(evidence_t[:, rows].shape[::-1])
        log_forward(log_start, log_transition, np.ascontiguousarray(evidence_t[:, rows]), forward)
        draw_in_logs(forward, log_transition, uniforms[rows], -1, path[rows])
        log_z[s] = log_sums(forward[-1:])[0]
    return path, log_z
