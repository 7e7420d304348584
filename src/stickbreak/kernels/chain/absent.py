"""Steps that a path does not take: q(no step j -> k) of one span, for expected table counts.

Pairs of successive states have q(z_(t-1) = j, z_t = k) = weights[t-1, j] table[j, k] futures[t, k].
Four ways lead from them to the probability that no step of the span goes from j to k:

    independent   product of 1 - pair, as if steps were independent of each other: O(T K^2)
    mean field    exact for states that are independent given their own shares: O(T K^2)
    exact         messages of the chain without the step: O(T K^4)
    sampled       part of some paths drawn from the posterior that lack it: O(T K) for each

Results are logs, at least LEAST: sums of them stay finite, and can be taken apart again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..gamma import log_fast
from ..rows import copy_line
from ..vectors import EIGHT, fill, fma, larger, load, spread, store
from .spans import infer_evidence, make_span

__all__ = [
    "EXACT", "INDEPENDENT", "LEAST", "MEAN_FIELD", "SAMPLED", "AbsentOwn", "AbsentWork",
    "absent_edges", "absent_first", "absent_sequences", "absent_span", "independent_states",
    "keep_absent", "make_absent",
]  # fmt: skip

INDEPENDENT, MEAN_FIELD, EXACT, SAMPLED = range(4)
LEAST = -40.0  # of a log, for one span
FLOOR = math.exp(LEAST)
BLOCK = 64  # steps between checks that products have not become too small for fast arithmetic


class AbsentWork(NamedTuple):
    """Scratch for one span, and its results.

    pairs (K, K) : q(z_(t-1), z_t); kept, other (K, K) : products, or messages without a state
    mass, moved (K, K, K) : messages without each step; states (S,), seen (S, K, K) : drawn paths
    steps (W, W), rows (W,) : logs of q(no step j -> k), and of q(no step from j)
    """

    pairs: np.ndarray
    kept: np.ndarray
    other: np.ndarray
    mass: np.ndarray
    moved: np.ndarray
    states: np.ndarray
    seen: np.ndarray
    steps: np.ndarray
    rows: np.ndarray


class AbsentOwn(NamedTuple):
    """What sequences keep: logs of q(no step j -> k) (S, K, K), and of q(no step from j) (S, K).

    way, uniforms, at, work : see `absent_span`; `at` is for the first row of all
    """

    way: int
    uniforms: np.ndarray
    at: int
    work: AbsentWork
    steps: np.ndarray
    rows: np.ndarray


@kernel
def make_absent(K, width, way, n_draws):
    """Scratch for one way; what the others need is empty."""
    cube = K if way == EXACT else 0
    draws = n_draws if way == SAMPLED else 0
    return AbsentWork(
        np.zeros((K, K)),
        np.zeros((K, K)),
        np.zeros((K, K)),
        np.zeros((cube, cube, cube)),
        np.zeros((cube, cube, cube)),
        np.zeros(draws, np.int64),
        np.zeros((draws, K, K), np.bool_),
        np.zeros((width, width)),
        np.zeros(width),
    )


@kernel
def log_clamped(probability):
    """Log of a probability, from LEAST to 0."""
    return min(math.log(max(probability, FLOOR)), 0.0)


@kernel
def absent_first(shares, out):
    """Out (K,) += log(1 - shares (K,)): no span begins in k."""
    for k in range(out.shape[0]):
        out[k] += log_clamped(1.0 - shares[k])


# ---- independent pairs ---------------------------------------------------------------------------
@kernel
def two_lines(weights, futures, T, table, i, j):
    """Products over t of 1 - pair, for lines i and i + 1 and eight columns from j on."""
    width = table.shape[1]
    upper, lower = load(table, i * width + j) * -1.0, load(table, (i + 1) * width + j) * -1.0
    a, b = fill(1.0), fill(1.0)
    for first in range(1, T, BLOCK):
        for t in range(first, min(first + BLOCK, T)):
            at, future = (t - 1) * width + i, load(futures, t * width + j)
            x, y = spread(weights, at) * future, spread(weights, at + 1) * future
            a, b = fma(a, x * upper, a), fma(b, y * lower, b)
        a, b = larger(a, FLOOR), larger(b, FLOOR)
    return a, b


@kernel
def independent_steps(weights, futures, T, K, table, out):
    """Out (W, W) = sum over t of log(1 - pair); W is even, and lines from K on have no pairs."""
    width = table.shape[1]
    for i in range(0, K, 2):
        for j in range(0, width, EIGHT):
            a, b = two_lines(weights, futures, T, table, i, j)
            store(out, i * width + j, log_fast(a))
            store(out, (i + 1) * width + j, log_fast(b))


@kernel
def independent_rows(shares, T, K, out):
    """Out (K,) = sum over all states but the last of log(1 - share)."""
    for k in range(K):
        product = 1.0
        for t in range(T - 1):
            product = max(product * (1.0 - shares[t, k]), FLOOR)
        out[k] = log_clamped(product)


# ---- any way, pair by pair -----------------------------------------------------------------------
@kernel
def pair_shares(weights, futures, table, log_z, t, out):
    """Out (K, K) = q(z_(t-1), z_t). log_z is NaN; if not, weights and futures are logs."""
    K = out.shape[0]
    for j in range(K):
        for k in range(K):
            if math.isnan(log_z):
                out[j, k] = weights[t - 1, j] * table[j, k] * futures[t, k]
            elif table[j, k] > 0.0:
                log_pair = weights[t - 1, j] + math.log(table[j, k]) + futures[t, k]
                out[j, k] = math.exp(log_pair - log_z)
            else:
                out[j, k] = 0.0


@kernel
def normalize_lines(pairs):
    """Pairs (K, K) become q(z_t given z_(t-1)); lines without weight stay zero."""
    for j in range(pairs.shape[0]):
        total = pairs[j].sum()
        if total > 0.0:
            pairs[j] /= total


@kernel
def multiply_pairs(weights, futures, table, log_z, T, work):
    """Steps = sum over t of log(1 - pair), for messages that are logs."""
    K = work.pairs.shape[0]
    work.kept[:] = 1.0
    for t in range(1, T):
        pair_shares(weights, futures, table, log_z, t, work.pairs)
        for j in range(K):
            for k in range(K):
                work.kept[j, k] = max(work.kept[j, k] * (1.0 - work.pairs[j, k]), FLOOR)
    for j in range(K):
        for k in range(K):
            work.steps[j, k] = log_clamped(work.kept[j, k])


@kernel
def mean_field_steps(shares, T, work):
    """Steps of a path whose states are independent, each with its shares.

    kept = q(no such step so far), here = q(none so far, and the state is j).
    """
    K = work.pairs.shape[0]
    for j in range(K):
        for k in range(K):
            kept, here = 1.0, shares[0, j]
            for t in range(1, T):
                before = kept - here if j == k else kept
                kept -= shares[t, k] * here
                here = shares[t, j] * before
            work.steps[j, k] = log_clamped(kept)


@kernel
def move_mass(mass, pairs, out):
    """Out (K,) = mass (K,) @ pairs (K, K)."""
    out[:] = 0.0
    for a in range(pairs.shape[0]):
        if mass[a] > 0.0:
            for b in range(pairs.shape[1]):
                out[b] += mass[a] * pairs[a, b]


@kernel
def exact_steps(weights, futures, table, log_z, shares, T, work):
    """Steps and rows by messages of the chain without one step, or without one state."""
    K, pairs = work.pairs.shape[0], work.pairs
    for j in range(K):
        for a in range(K):
            work.kept[j, a] = 0.0 if a == j and T > 1 else shares[0, a]
            for k in range(K):
                work.mass[j, k, a] = shares[0, a]
    for t in range(1, T):
        pair_shares(weights, futures, table, log_z, t, pairs)
        normalize_lines(pairs)
        for j in range(K):
            for k in range(K):
                removed = pairs[j, k]
                pairs[j, k] = 0.0
                move_mass(work.mass[j, k], pairs, work.moved[j, k])
                pairs[j, k] = removed
            move_mass(work.kept[j], pairs, work.other[j])
            if t < T - 1:
                work.other[j, j] = 0.0
        for j in range(K):
            for k in range(K):
                copy_line(work.moved[j, k], work.mass[j, k])
            copy_line(work.other[j], work.kept[j])
    for j in range(K):
        work.rows[j] = log_clamped(work.kept[j].sum())
        for k in range(K):
            work.steps[j, k] = log_clamped(work.mass[j, k].sum())


@kernel
def pick(weights, uniform):
    """State drawn with probability proportional to weights (K,)."""
    left, last = uniform * weights.sum(), 0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            last = k
            left -= weights[k]
            if left < 0.0:
                break
    return last


@kernel
def sampled_steps(weights, futures, table, log_z, shares, T, uniforms, at, work):
    """Steps and rows by paths drawn with uniforms (S, m), of which the columns from `at` on."""
    K, n_draws, m = work.pairs.shape[0], uniforms.shape[0], uniforms.shape[1]
    work.seen[:] = False
    for d in range(n_draws):
        work.states[d] = pick(shares[0, :K], uniforms[d, at % m])
    for t in range(1, T):
        pair_shares(weights, futures, table, log_z, t, work.pairs)
        for d in range(n_draws):
            before = work.states[d]
            work.states[d] = pick(work.pairs[before], uniforms[d, (at + t) % m])
            work.seen[d, before, work.states[d]] = True
    for j in range(K):
        n_rows = 0
        for d in range(n_draws):
            n_rows += 0 if work.seen[d, j].any() else 1
        work.rows[j] = log_clamped(n_rows / n_draws)
        for k in range(K):
            n_steps = 0
            for d in range(n_draws):
                n_steps += 0 if work.seen[d, j, k] else 1
            work.steps[j, k] = log_clamped(n_steps / n_draws)


@kernel
def absent_span(weights, futures, table, shares, T, log_z, way, uniforms, at, work):
    """Set work.steps and work.rows for one span of T states.

    weights, futures, shares (T, W), table (W, W) : see above. log_z is NaN; if not, weights and
        futures are logs, and log_z is their normalizer.
    uniforms (S, m), at : see `sampled_steps`
    """
    K = work.pairs.shape[0]
    if way == EXACT:
        exact_steps(weights, futures, table, log_z, shares, T, work)
    elif way == SAMPLED:
        sampled_steps(weights, futures, table, log_z, shares, T, uniforms, at, work)
    else:
        if way == MEAN_FIELD:
            mean_field_steps(shares, T, work)
        elif math.isnan(log_z):
            independent_steps(weights, futures, T, K, table, work.steps)
        else:
            multiply_pairs(weights, futures, table, log_z, T, work)
        independent_rows(shares, T, K, work.rows)


# ---- sequences -----------------------------------------------------------------------------------
@kernel
def keep_absent(span, s, lo, T, absent):
    """Keep the steps that sequence s, of T rows from `lo` on, does not take."""
    way, work = absent.way, absent.work
    absent_span(
        span.weights, span.futures, span.transition, span.shares, T, span.log_z[0], way,
        absent.uniforms, absent.at + lo, work,
    )  # fmt: skip
    K = work.pairs.shape[0]
    for j in range(K):
        absent.rows[s, j] = work.rows[j]
        for k in range(K):
            absent.steps[s, j, k] = work.steps[j, k]


@kernel
def independent_states(rows, offsets, work, out_steps, out_rows):
    """Out (S, K, K) and (S, K) = logs for sequences of independent states, with shares (n, K)."""
    K = rows.shape[1]
    for s in range(offsets.shape[0] - 1):
        shares = rows[offsets[s] : offsets[s + 1]]
        mean_field_steps(shares, shares.shape[0], work)
        independent_rows(shares, shares.shape[0], K, work.rows)
        for j in range(K):
            copy_line(work.steps[j], out_steps[s, j])
        copy_line(work.rows, out_rows[s])


@kernel
def absent_edges(rows, offsets, joins, is_used, out_steps, out_rows):
    """Out (K, K) and (K,) += logs for the steps between blocks, whose states are independent.

    rows (n, K) : posteriors; offsets (S + 1,), joins (S,), is_used (S,) : see `sweep_blocks`
    """
    K = rows.shape[1]
    for s in range(1, offsets.shape[0] - 1):
        if joins[s] and is_used[s]:
            t = offsets[s]
            for j in range(K):
                out_rows[j] += log_clamped(1.0 - rows[t - 1, j])
                for k in range(K):
                    out_steps[j, k] += log_clamped(1.0 - rows[t - 1, j] * rows[t, k])


@kernel
def absent_sequences(
    evidence, start, transition, transposed, offsets, has_start, weights, way, uniforms, out_steps,
    out_rows, out_start,
):  # fmt: skip
    """Add weight times logs for every sequence. Returns the first without a possible path, or -1.

    evidence (n, K) : in logs; start (W,), transition, transposed (W, W) : linear, padded
    offsets (S + 1,), weights (S,) : sequences, or pieces of them
    has_start (S,) : whether a sequence begins there
    out_steps (K, K), out_rows, out_start (K,) : += no step j -> k, none from j, no start in k
    """
    K, width = evidence.shape[1], start.shape[0]
    longest = (offsets[1:] - offsets[:-1]).max()
    span, none = make_span(longest, width), np.empty(K)
    work = make_absent(K, width, way, uniforms.shape[0])
    copy_line(start, span.start)
    for i in range(width):
        copy_line(transition[i], span.transition[i])
        copy_line(transposed[i], span.transposed[i])
    for s in range(offsets.shape[0] - 1):
        lo, T = offsets[s], offsets[s + 1] - offsets[s]
        if weights[s] == 0.0:
            continue
        if infer_evidence(span, evidence[lo : lo + T], K, T, False)[0] == -np.inf:
            return s
        absent_span(
            span.weights, span.futures, span.transition, span.shares, T, span.log_z[0], way,
            uniforms, lo, work,
        )  # fmt: skip
        none[:] = 0.0
        absent_first(span.shares[0], none)
        for j in range(K):
            out_rows[j] += weights[s] * work.rows[j]
            if has_start[s]:
                out_start[j] += weights[s] * none[j]
            for k in range(K):
                out_steps[j, k] += weights[s] * work.steps[j, k]
    return -1
