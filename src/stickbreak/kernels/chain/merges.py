"""How merging two states changes the entropy of a Markov chain's posterior.

Merging a and b adds up lines a and b, and columns a and b, of the posterior s_t[i, j] of each step,
and their entries in the first row of data. The entropy is sum phi(first) + sum_t [sum phi(s_t) -
sum phi(r_t)], where phi(x) = -x log x and r_t are the line sums of s_t. Its change is `gain`. For
several disjoint pairs it is the sum of their gains and of `cross` over all pairs of pairs, because
a cell belongs to at most two of them. Arguments as in `smooth.py`.
"""

from __future__ import annotations

import math

import numpy as np

from ..compile import inline, kernel
from .single import linear_tables, log_backward, log_forward, log_sums, smooth_rows
from .sparse import messages_sparse

__all__ = ["merge_gains", "merge_gains_sparse"]

# If one of two states has less posterior than this, the logarithms are not worth their cost. What
# is left out changes the entropy by less than 1e-9 nats a row.
NEGLIGIBLE = 1e-11
WINDOW = 8192  # rows whose messages are kept at once, unless one sequence has more
LOG_2 = math.log(2.0)
HALF_ROOT, ONE = 0x3FE6A09E667F3BCD, 0x3FF0000000000000  # bits of sqrt(1 / 2) and 1


@inline
def is_shared(shares, a, b):
    """Whether two states have shares of a row that are worth their logarithms."""
    return min(shares[a], shares[b]) > NEGLIGIBLE


@inline
def log_fast(x):
    """log(x) for x > 0, relative error 1e-15; compiles to vector instructions.

    Finite for 0, which is all that 0 log 0 needs.
    """
    bits = np.float64(x).view(np.uint64)
    exponent = (bits + np.uint64(ONE - HALF_ROOT)) >> np.uint64(52)
    # in sqrt(1 / 2) .. sqrt(2)
    m = np.uint64(bits - ((exponent - np.uint64(1023)) << np.uint64(52))).view(np.float64)
    # 2 ** 52 + 1023
    e = np.uint64(exponent | np.uint64(0x4330000000000000)).view(np.float64) - 4503599627371519.0
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    high = 1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q * (1 / 21))))
    low = 1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * high)))))
    return e * LOG_2 + 2.0 * s * low


@kernel
def x_log_x(x):
    """X log x, 0 for 0."""
    return x * math.log(x) if x > 0.0 else 0.0


@kernel
def fold(x, y):
    """phi(x + y) - phi(x) - phi(y)."""
    return x_log_x(x) + x_log_x(y) - x_log_x(x + y)


@kernel
def fold_lines(x, y, first, second, first_log, second_log, scale, a, b, terms):
    """Sum over k other than a, b of scale[k] * fold(x * first[k], y * second[k]).

    first_log = first log first, second_log likewise. terms : scratch. phi is expanded so that one
    logarithm is left for each k.
    """
    p, q, width = x_log_x(x), x_log_x(y), terms.shape[0]
    for k in range(width):
        z = x * first[k] + y * second[k]
        apart = (x * first_log[k] + p * first[k]) + (y * second_log[k] + q * second[k])
        terms[k] = scale[k] * (apart - z * log_fast(z))
    terms[a], terms[b] = 0.0, 0.0
    total = 0.0
    for k in range(0, width, 4):
        total += (terms[k] + terms[k + 1]) + (terms[k + 2] + terms[k + 3])
    return total


@kernel
def step_gain(weights, future, before, now, a, b, lines, terms):
    """Change of entropy of one step, from a row with `weights` to one with `future`.

    before and now : their shares; all (W,). lines : four (W, W), the transition table and its
    transpose, each followed by its entries times their logarithms.
    """
    table, table_log, back, back_log = lines
    from_both, to_both = is_shared(before, a, b), is_shared(now, a, b)
    gain, x, y, g, h = 0.0, weights[a], weights[b], future[a], future[b]
    if from_both:
        gain += fold_lines(
            x, y, table[a], table[b], table_log[a], table_log[b], future, a, b, terms
        ) - fold(before[a], before[b])
    if to_both:
        gain += fold_lines(g, h, back[a], back[b], back_log[a], back_log[b], weights, a, b, terms)
    w, u, v, z = x * table[a, a] * g, x * table[a, b] * h, y * table[b, a] * g, y * table[b, b] * h
    return gain + x_log_x(w) + x_log_x(u) + x_log_x(v) + x_log_x(z) - x_log_x(w + u + v + z)


@kernel
def block_cross(w, u, v, z):
    """Second difference of phi over the cells (a, c), (a, d), (b, c), (b, d).

    It is the effect of merging lines on the effect of merging columns.
    """
    return fold(w + v, u + z) - fold(w, u) - fold(v, z)


@kernel
def add_gains(weights, message, future, offsets, is_bad, repeats, lines, pairs, gain, cross):
    """Add gain (M,) and cross (M, M) of every sequence that is not bad, times repeats (S,)."""
    width, table = weights.shape[1], lines[0]
    terms, before, now = np.empty(width), np.empty(width), np.empty(width)
    for s in range(offsets.shape[0] - 1):
        if is_bad[s]:
            continue
        for t in range(offsets[s], offsets[s + 1]):
            is_first = t == offsets[s]
            for k in range(width):
                before[k] = now[k]
                now[k] = weights[t, k] * message[t, k]
            for p in range(pairs.shape[0]):
                a, b = pairs[p, 0], pairs[p, 1]
                if is_first:
                    gain[p] += repeats[s] * fold(now[a], now[b])
                elif is_shared(before, a, b) or is_shared(now, a, b):
                    change = step_gain(weights[t - 1], future[t], before, now, a, b, lines, terms)
                    gain[p] += repeats[s] * change
            if not is_first:
                add_cross(weights[t - 1], future[t], before, now, table, pairs, repeats[s], cross)


@kernel
def add_cross(weights, future, before, now, table, pairs, repeat, cross):
    """Add cross (M, M) of one step, for pairs that share no state."""
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        if is_shared(before, a, b):
            for q in range(pairs.shape[0]):
                c, d = pairs[q, 0], pairs[q, 1]
                if is_shared(now, c, d) and a != c and a != d and b != c and b != d:
                    w = weights[a] * table[a, c] * future[c]
                    u = weights[a] * table[a, d] * future[d]
                    v = weights[b] * table[b, c] * future[c]
                    z = weights[b] * table[b, d] * future[d]
                    term = repeat * block_cross(w, u, v, z)
                    cross[p, q] += term
                    cross[q, p] += term


# ---- sequences that need the log domain ----------------------------------------------------------
@kernel
def add_gains_of_table(steps, pairs, repeat, gain, cross):
    """Add gain and cross of one step with posteriors steps (K, K)."""
    K = steps.shape[0]
    leave, enter = np.zeros(K), np.zeros(K)
    for i in range(K):
        for j in range(K):
            leave[i] += steps[i, j]
            enter[j] += steps[i, j]
    ones = np.ones(K)
    add_cross(ones, ones, leave, enter, steps, pairs, repeat, cross)
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        total = -fold(leave[a], leave[b])
        for k in range(K):
            if k != a and k != b:
                total += fold(steps[a, k], steps[b, k]) + fold(steps[k, a], steps[k, b])
        w, u, v, z = steps[a, a], steps[a, b], steps[b, a], steps[b, b]
        total += x_log_x(w) + x_log_x(u) + x_log_x(v) + x_log_x(z) - x_log_x(w + u + v + z)
        gain[p] += repeat * total


def _begin(offsets, weights, pairs):
    """Repeats (S,) of the sequences, pairs (M, 2), and gain (M,) and cross (M, M) of nothing."""
    repeats = np.ones(len(offsets) - 1) if weights is None else np.asarray(weights, dtype=float)
    pairs = np.ascontiguousarray(pairs, dtype=np.int64)
    return repeats, pairs, np.zeros(len(pairs)), np.zeros((len(pairs),) * 2)


def _add_in_logs(evidence_t, log_start, log_transition, repeat, pairs, gain, cross):
    """Add one sequence, step by step in logs; nothing if it is impossible."""
    evidence_t, K = np.ascontiguousarray(evidence_t), len(log_start)
    forward, beta, future = np.empty((3, evidence_t.shape[1], K))
    log_forward(log_start, log_transition, evidence_t, forward)
    log_z = float(log_sums(forward[-1:])[0])
    if not np.isfinite(log_z):
        return
    log_backward(np.zeros(K), log_transition, evidence_t, beta, future)
    first = np.exp(forward[0] + beta[0] - log_z)
    gain += repeat * np.array([fold(first[a], first[b]) for a, b in pairs])
    for t in range(1, len(forward)):
        steps = np.exp(forward[t - 1][:, None] + log_transition + future[t] - log_z)
        add_gains_of_table(steps, pairs, repeat, gain, cross)


def merge_gains(evidence_t, log_start, log_transition, offsets, weights, pairs):
    """Change of entropy when merging each of pairs (M, 2): gain (M,) and cross (M, M).

    cross is zero for pairs that share a state. weights (S,) or None: repeats of each sequence.
    Sequences without a posterior add nothing.
    """
    repeats, pairs, gain, cross = _begin(offsets, weights, pairs)
    start, table, back = linear_tables(log_start, log_transition)[:3]
    logs = [np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0) for x in (table, back)]
    lines, first = (table, logs[0], back, logs[1]), 0
    while first < len(repeats):
        last = max(
            int(np.searchsorted(offsets, offsets[first] + WINDOW, side="right")) - 1, first + 1
        )
        span = slice(int(offsets[first]), int(offsets[last]))
        mine, repeat = offsets[first : last + 1] - offsets[first], repeats[first:last]
        part = np.ascontiguousarray(evidence_t[:, span])
        known, message, future = np.empty((3, part.shape[1], len(start)))
        is_bad = np.empty(last - first, dtype=np.bool_)
        smooth_rows(part, start, table, back, mine, known, message, future, is_bad)
        add_gains(known, message, future, mine, is_bad, repeat, lines, pairs, gain, cross)
        for s in np.flatnonzero(is_bad):
            own = part[:, mine[s] : mine[s + 1]]
            _add_in_logs(own, log_start, log_transition, repeat[s], pairs, gain, cross)
        first = last
    return gain, cross


# ---- sparse rows ---------------------------------------------------------------------------------
@kernel
def find_places(states, pairs, where, out):
    """Out (M, 2): positions of pairs (M, 2) among states (L,), -1 for none.

    where (K,) : -1 throughout, before and after the call. Returns how many pairs have both states.
    """
    n_both = 0
    for a in range(states.shape[0]):
        if states[a] >= 0:
            where[states[a]] = a
    for p in range(pairs.shape[0]):
        out[p, 0], out[p, 1] = where[pairs[p, 0]], where[pairs[p, 1]]
        n_both += min(out[p, 0], out[p, 1]) >= 0
    for a in range(states.shape[0]):
        if states[a] >= 0:
            where[states[a]] = -1
    return n_both


@kernel
def fill_steps(weights, future, before, now, table, out):
    """Out (L, L): posteriors of a step from the states `before` (L,) to the states `now` (L,).

    0 for no state, because its weight is 0.
    """
    for a in range(before.shape[0]):
        line = table[max(before[a], 0)]
        for b in range(now.shape[0]):
            out[a, b] = weights[a] * line[max(now[b], 0)] * future[b]


@kernel
def cell(steps, a, b):
    """The entry at positions a and b, 0 if either is -1."""
    return steps[a, b] if a >= 0 and b >= 0 else 0.0


@kernel
def step_gain_sparse(steps, shares, a, b, c, d):
    """`step_gain` of a pair at positions a, b of the row before and c, d of this row; -1 for none.

    shares (L,) : of the row before.
    """
    from_both, to_both, gain = min(a, b) >= 0, min(c, d) >= 0, 0.0
    if not (from_both or to_both):
        return gain
    for k in range(steps.shape[0]):
        if from_both and k != c and k != d:
            gain += fold(steps[a, k], steps[b, k])
        if to_both and k != a and k != b:
            gain += fold(steps[k, c], steps[k, d])
    if from_both:
        gain -= fold(shares[a], shares[b])
    w, u, v, z = cell(steps, a, c), cell(steps, a, d), cell(steps, b, c), cell(steps, b, d)
    return gain + x_log_x(w) + x_log_x(u) + x_log_x(v) + x_log_x(z) - x_log_x(w + u + v + z)


@kernel
def add_cross_sparse(steps, before, now, pairs, repeat, cross):
    """`add_cross` of pairs (M, 2) at positions `before` and `now` (M, 2) of two successive rows."""
    for p in range(pairs.shape[0]):
        a, b, i, j = before[p, 0], before[p, 1], pairs[p, 0], pairs[p, 1]
        if min(a, b) >= 0:
            for q in range(pairs.shape[0]):
                c, d, k, m = now[q, 0], now[q, 1], pairs[q, 0], pairs[q, 1]
                if min(c, d) >= 0 and i != k and i != m and j != k and j != m:
                    term = repeat * block_cross(steps[a, c], steps[a, d], steps[b, c], steps[b, d])
                    cross[p, q] += term
                    cross[q, p] += term


@kernel
def add_gains_sparse(
    weights, future, shares, support, offsets, log_z, repeats, table, pairs, gain, cross
):
    """`add_gains` of rows that use the states support (n, L); without sequences of log_z = -inf."""
    L, n_before = support.shape[1], 0
    where, steps = np.full(table.shape[0], -1), np.empty((L, L))
    before, now = np.empty((pairs.shape[0], 2), np.int64), np.empty((pairs.shape[0], 2), np.int64)
    for s in range(offsets.shape[0] - 1):
        for t in range(offsets[s], offsets[s + 1] if log_z[s] > -np.inf else offsets[s]):
            n_now = find_places(support[t], pairs, where, now)
            if t == offsets[s]:
                for p in range(pairs.shape[0] if n_now > 0 else 0):
                    if min(now[p, 0], now[p, 1]) >= 0:
                        gain[p] += repeats[s] * fold(shares[t, now[p, 0]], shares[t, now[p, 1]])
            elif n_before + n_now > 0:
                fill_steps(weights[t - 1], future[t], support[t - 1], support[t], table, steps)
                for p in range(pairs.shape[0]):
                    change = step_gain_sparse(
                        steps, shares[t - 1], before[p, 0], before[p, 1], now[p, 0], now[p, 1]
                    )
                    gain[p] += repeats[s] * change
                if n_before > 0 and n_now > 0:
                    add_cross_sparse(steps, before, now, pairs, repeats[s], cross)
            before, now, n_before = now, before, n_now


def merge_gains_sparse(evidence, support, log_start, log_transition, offsets, weights, pairs):
    """`merge_gains` of chains whose rows use only the states support (n, L); evidence (n, L)."""
    repeats, pairs, gain, cross = _begin(offsets, weights, pairs)
    tables = linear_tables(log_start, log_transition)
    known, futures, shares, log_z = messages_sparse(evidence, support, tables, offsets)
    add_gains_sparse(
        known, futures, shares, support, offsets, log_z, repeats, tables.transition, pairs, gain,
        cross,
    )  # fmt: skip
    for s in np.flatnonzero(log_z == -np.inf):
        mine, own = evidence[offsets[s] : offsets[s + 1]], support[offsets[s] : offsets[s + 1]]
        evidence_t = np.full((len(log_start), len(own)), -np.inf)
        at, place = np.nonzero(own >= 0)
        evidence_t[own[at, place], at] = mine[at, place]
        _add_in_logs(evidence_t, log_start, log_transition, repeats[s], pairs, gain, cross)
    return gain, cross
