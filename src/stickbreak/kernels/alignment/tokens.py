"""Collapsed sweeps of sentence pairs word by word: posteriors of single links, or draws of them.

The posterior of a link is taken given those of all other words. In a chain it depends on where the
last word before and the first word after it are that are not linked to NULL: with probabilities
before(p) and after(n), of which 0 stands for none, a link to i has the weight

    p1 w_i in_i out_i,   in_i = before(0) / N + sum_p before(p) jump(i - p)
                         out_i = after(0) + sum_n after(n) jump(n - i)

and NULL p0 w_0 sum_p before(p) out_p. Draws use the same with positions that are known.
"""

from __future__ import annotations

import math

import numpy as np

from ..compile import kernel
from ..draws import choose_powered, uniform_of
from .posteriors import chances, longest
from .sweeps import add_pair, predict

__all__ = ["count_places_live", "draw_tokens", "sweep_tokens"]


@kernel
def width_of(jump, d):
    """Place of a jump by d in a table of widths."""
    W = jump.shape[0] // 2
    return min(max(d, -W), W) + W


@kernel
def chance_of(null, tables, N):
    """p0 and p1 given counts null (2,) of the others."""
    if tables.learns:
        first = max(null[0], 0.0) + tables.null_pseudo[0]
        second = max(null[1], 0.0) + tables.null_pseudo[1]
        return first / (first + second), second / (first + second)
    return chances(tables.chance, N)


@kernel
def add_row(links, at, words, N, own, sign, cells, totals):
    """Add the links of a row to the counts, or take them out."""
    for i in range(N + 1):
        mine = sign * np.float64(own[at + i])
        totals[words[i - 1] if i > 0 else 0] += mine
        if links[at + i] >= 0:
            cells[links[at + i]] += mine


@kernel
def cell_chance(live, cell, word):
    """Predictive probability of a target word by a source word."""
    held = max(live.cells[cell], 0.0) if cell >= 0 else 0.0
    return (held + live.base) / (max(live.totals[word], 0.0) + live.base_total)


@kernel
def pass_row(q, at, N, out):
    """Out (N + 1,) = probabilities of the last word linked, with one more row q[at:]."""
    for p in range(1, N + 1):
        out[p] = q[at] * out[p] + q[at + p]
    out[0] *= q[at]


@kernel
def reach(before, after, jump, N, out_in, out_out):
    """in_i and out_i of the formula; out_out[0] is that of no word before."""
    some = 0.0
    for n in range(1, N + 1):
        some += after[n]
    out_in[0], out_out[0] = 1.0, after[0] + some / max(N, 1)
    for i in range(1, N + 1):
        into, outof = before[0] / N, after[0]
        for k in range(1, N + 1):
            into += before[k] * jump[width_of(jump, i - k)]
            outof += after[k] * jump[width_of(jump, k - i)]
        out_in[i], out_out[i] = into, outof


@kernel
def count_jumps(q, at, N, J, before, out):
    """Out (2 N,) = expected jumps of independent links from 1 - N on."""
    before[:] = 0.0
    before[0] = 1.0
    out[: 2 * N] = 0.0
    for j in range(J):
        row = at + j * (N + 1)
        for p in range(1, N + 1):
            for i in range(1, N + 1):
                out[i - p + N - 1] += before[p] * q[row + i]
        pass_row(q, row, N, before)
    return before[0]


@kernel
def sweep_tokens(
    live, tables, links, source, source_offsets, offsets, own, own_jumps,
    out_live, out_null, out_jump, out_found, in_place,
):  # fmt: skip
    """Every word once; arguments as in `sweep_pairs`, own counts are part of the live ones.

    Counts of NULL and of jumps are those of the last lap, without the pair's.
    """
    most, is_bag = longest(source_offsets), tables.jump.shape[0] == 0
    ins, outs, before = np.ones(most + 1), np.ones(most + 1), np.zeros(most + 1)
    null, jump, at = np.zeros(2), np.zeros(tables.jump.shape[0]), 0
    mine, weights = np.zeros(2 * most + 1), np.zeros(most + 1)
    after = np.zeros((longest(offsets) + 1, most + 1))
    flat, W = own_jumps.reshape(-1), tables.jump.shape[0] // 2
    for u in range(offsets.shape[0] - 1):
        lo = source_offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - offsets[u]
        words, kept = source[lo : lo + N], flat[2 * lo : 2 * (lo + N)]
        null[:] = tables.null
        jump[:] = tables.jump
        if not is_bag:
            for k in range(2 * N):
                jump[min(max(k - N + 1, -W), W) + W] -= kept[k]
            predict(jump, tables.jump_pseudo)
            before[:] = 0.0
            before[0] = 1.0
            after[J] = before
            for j in range(J - 1, -1, -1):
                after[j] = after[j + 1]
                pass_row(own, at + j * (N + 1), N, after[j])
        for j in range(J):
            row = at + j * (N + 1)
            null[0] -= own[row]
            null[1] -= 1.0 - own[row]
        p0, p1 = chance_of(null, tables, N)
        for j in range(J):
            row = at + j * (N + 1)
            add_row(links, row, words, N, own, -1.0, live.cells, live.totals)
            share = 1.0
            if is_bag:
                for i in range(1, N + 1):
                    ins[i] = 1.0 / N
            else:
                reach(before, after[j + 1], jump, N, ins, outs)
                share = 0.0
                for p in range(N + 1):
                    share += before[p] * outs[p]
            weights[0], total, prior = p0 * share, 0.0, 0.0
            for i in range(1, N + 1):
                weights[i] = p1 * ins[i] * outs[i]
            for i in range(N + 1):
                word = words[i - 1] if i > 0 else 0
                prior += weights[i]
                weights[i] *= cell_chance(live, links[row + i], word)
                total += weights[i]
            out_found[0] += math.log(total / prior)
            for i in range(N + 1):
                share = weights[i] / total
                own[row + i] = share
                out_found[1] -= share * math.log(share) if share > 0.0 else 0.0
            add_row(links, row, words, N, own, 1.0, live.cells, live.totals)
            out_found[1] -= (1.0 - own[row]) * math.log(max(N, 1)) if is_bag else 0.0
            if not is_bag:
                pass_row(own, row, N, before)
        if not is_bag:
            none = count_jumps(own, at, N, J, before, mine)
            out_found[1] -= (1.0 - none) * math.log(max(N, 1))
            for k in range(2 * N):
                kept[k] = mine[k]
                out_jump[min(max(k - N + 1, -W), W) + W] += kept[k]
        cells, totals = out_live.cells, out_live.totals
        if in_place:
            for j in range(J):
                row = at + j * (N + 1)
                out_null[0] += own[row]
                for i in range(1, N + 1):
                    out_null[1] += own[row + i]
        else:
            add_pair(links, at, words, N, J, own, 1.0, cells, totals, out_null)
        at += J * (N + 1)


@kernel
def neighbors(places, j, J):
    """The last position before row j and the first after it that are not NULL; 0 for none."""
    last, following = 0, 0
    for k in range(j - 1, -1, -1):
        if places[k] > 0:
            last = places[k]
            break
    for k in range(j + 1, J):
        if places[k] > 0:
            following = places[k]
            break
    return last, following


@kernel
def add_steps(last, i, following, by, jump):
    """Add the jumps from the last position over i (0: NULL) to the following one."""
    if i == 0:
        if last > 0 and following > 0:
            jump[width_of(jump, following - last)] += by
        return
    if last > 0:
        jump[width_of(jump, i - last)] += by
    if following > 0:
        jump[width_of(jump, following - i)] += by


@kernel
def step_weight(last, i, following, jump, pseudo, total, N):
    """Predictive weight of these jumps; total of the counts and prior counts of jumps."""
    if i == 0:
        if following == 0:
            return 1.0
        if last == 0:
            return 1.0 / N
        k = width_of(jump, following - last)
        return (jump[k] + pseudo[k]) / total
    weight, same = 1.0 / N, -1
    if last > 0:
        same = width_of(jump, i - last)
        weight = (jump[same] + pseudo[same]) / total
    if following > 0:
        k = width_of(jump, following - i)
        seen = 1.0 if same >= 0 else 0.0
        weight *= (jump[k] + pseudo[k] + (1.0 if k == same else 0.0)) / (total + seen)
    return weight


@kernel
def add_place(live, null, links, row, words, i, by):
    """Add a link to position i to the counts."""
    live.totals[words[i - 1] if i > 0 else 0] += by
    null[1 if i > 0 else 0] += by
    if links[row + i] >= 0:
        live.cells[links[row + i]] += by


@kernel
def draw_tokens(
    live, tables, links, source, source_offsets, offsets, places, is_part, seeds, power,
    out_live, out_null, out_jump, out_fertility, out_found,
):  # fmt: skip
    """Draw the link of every word once, given those of all others; places (n,) are replaced.

    is_part : whether the links are part of the live counts; if not, words see no others yet
    seeds (n,), power : see `Sweep`
    out_found (2,) : leave-one-out log predictives, and log chances of positions that are uniform
    """
    most, is_bag = longest(source_offsets), tables.jump.shape[0] == 0
    weights, at, null, jump = np.zeros(most + 1), 0, tables.null, tables.jump
    fertility, pseudo = tables.fertility, tables.fertility_pseudo
    M, counts = fertility.shape[1] - 1, np.zeros(most + 1, dtype=np.int64)
    for u in range(offsets.shape[0] - 1):
        lo, first = source_offsets[u], offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - first
        words, mine = source[lo : lo + N], places[first : first + J]
        counts[:] = 0
        for j in range(J):
            if mine[j] > 0:
                counts[mine[j]] += 1
        for j in range(J):
            row, old = at + j * (N + 1), mine[j]
            last, following = neighbors(mine, j, J)
            if is_part and old >= 0:
                add_place(live, null, links, row, words, old, -1.0)
                if not is_bag:
                    add_steps(last, old, following, -1.0, jump)
                if M > 0 and old > 0:
                    fertility[words[old - 1], min(counts[old], M)] -= 1.0
                    fertility[words[old - 1], min(counts[old] - 1, M)] += 1.0
            if old > 0:
                counts[old] -= 1
            total_jumps = 0.0
            for k in range(jump.shape[0]):
                total_jumps += jump[k] + tables.jump_pseudo[k]
            p0, p1 = chance_of(null, tables, N)
            total, prior = 0.0, 0.0
            for i in range(N + 1):
                step = 1.0 / max(N, 1) if i > 0 else 1.0
                if not is_bag:
                    step = step_weight(last, i, following, jump, tables.jump_pseudo, total_jumps, N)
                word, weight = words[i - 1] if i > 0 else 0, (p1 if i > 0 else p0) * step
                if M > 0 and i > 0:
                    m = min(counts[i], M)
                    n = min(m + 1, M)
                    own = 1.0 if is_part else 0.0  # the position itself is among the counts
                    same = max(fertility[word, m] - own, 0.0) + pseudo[m]
                    gone = own if n == m else 0.0
                    weight *= (max(fertility[word, n] - gone, 0.0) + pseudo[n]) / same
                prior += weight
                weights[i] = weight * cell_chance(live, links[row + i], word)
                total += weights[i]
            out_found[0] += math.log(total / prior)
            i = choose_powered(weights[: N + 1], total, power, uniform_of(seeds[first + j]))
            mine[j] = i
            if is_part:
                add_place(live, null, links, row, words, i, 1.0)
                if not is_bag:
                    add_steps(last, i, following, 1.0, jump)
                if M > 0 and i > 0:
                    fertility[words[i - 1], min(counts[i], M)] -= 1.0
                    fertility[words[i - 1], min(counts[i] + 1, M)] += 1.0
            if i > 0:
                counts[i] += 1
        count_draws(
            mine, links, at, words, N, out_live, out_null, out_jump, out_fertility, out_found
        )
        at += J * (N + 1)


@kernel
def count_draws(mine, links, at, words, N, out_live, out_null, out_jump, out_fertility, out_found):
    """Add the counts of the links of a pair, and of what is uniform to out_found[1]."""
    last, M = 0, out_fertility.shape[1] - 1
    counts = np.zeros(N + 1, dtype=np.int64)
    for j in range(mine.shape[0]):
        i, row = mine[j], at + j * (N + 1)
        counts[i] += 1
        add_place(out_live, out_null, links, row, words, i, 1.0)
        if i > 0:
            if out_jump.shape[0] > 0 and last > 0:
                out_jump[width_of(out_jump, i - last)] += 1.0
            else:
                out_found[1] -= math.log(N)
            last = i
    if M > 0:
        for i in range(1, N + 1):
            out_fertility[words[i - 1], min(counts[i], M)] += 1.0


@kernel
def count_places_live(
    links, source, source_offsets, offsets, places,
    out_live, out_null, out_jump, out_fertility, out_found,
):  # fmt: skip
    """Add the counts of links that are kept as positions."""
    at = 0
    for u in range(offsets.shape[0] - 1):
        lo, first = source_offsets[u], offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - first
        outs = out_live, out_null, out_jump, out_fertility, out_found
        count_draws(places[first : first + J], links, at, source[lo : lo + N], N, *outs)
        at += J * (N + 1)
