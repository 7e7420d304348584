"""Collapsed sweeps of sentence pairs: each is inferred from the counts of all others.

What a pair has added leaves the counts, its links are weighed by the posterior predictives of the
counts that are left, and what they are expected to be comes back. A pair keeps its links and jumps
as float32, so that what leaves is what was added. Counts of NULL and of jumps are few, and the same
for all pairs: they change once a lap, while those of words change from pair to pair.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..gamma import log_fast
from ..vectors import EIGHT, fill, first_four, fma, last_four, load
from .fertility import add_fertilities, weigh_fertilities
from .posteriors import (
    add_jumps,
    bag_pair,
    chain_pair,
    chances,
    local_jumps,
    longest,
    make_room,
)

__all__ = ["LiveLexicon", "Tables", "count_pairs", "sweep_pairs"]


class LiveLexicon(NamedTuple):
    """Counts of cells (C,) and of source words (K,), with prior counts of a cell and of a word.

    starts, targets : where the cells are, see `cells.py`
    """

    cells: np.ndarray
    totals: np.ndarray
    base: float
    base_total: float
    starts: np.ndarray
    targets: np.ndarray


class Tables(NamedTuple):
    """Counts and prior counts of NULL against words (2,), and of jumps (2 W + 1,), () in a bag.

    fertility (K, M + 1) : how many positions of each source word have 0, 1, ... links, with prior
        counts (M + 1,); (K, 0) without
    chance (2,) : probabilities of NULL and of words, if they are fixed; () where NULL is one more
        position. learns : whether they are learned instead
    """

    null: np.ndarray
    jump: np.ndarray
    fertility: np.ndarray
    null_pseudo: np.ndarray
    jump_pseudo: np.ndarray
    fertility_pseudo: np.ndarray
    chance: np.ndarray
    learns: bool
    is_open: bool


@kernel
def add_pair(links, at, words, N, J, own, sign, cells, totals, null):
    """Add the links of a pair to the counts, or take them out."""
    sums, rest = np.zeros(N + 1), 0.0
    for j in range(J):
        k = at + j * (N + 1)
        for i in range(N + 1):
            sums[i] += np.float64(own[k + i])
        for i in range(N + 1):
            if links[k + i] >= 0:
                cells[links[k + i]] += sign * np.float64(own[k + i])
    totals[0] += sign * sums[0]
    for i in range(1, N + 1):
        totals[words[i - 1]] += sign * sums[i]
        rest += sums[i]
    null[0] += sign * sums[0]
    null[1] += sign * rest


@kernel
def weigh_live(live, links, at, words, N, J, inverse, out):
    """Out (J (N + 1),) = predictive chances of rows by source words; inverse (N + 1,) : room."""
    inverse[0] = 1.0 / (max(live.totals[0], 0.0) + live.base_total)
    for i in range(1, N + 1):
        inverse[i] = 1.0 / (max(live.totals[words[i - 1]], 0.0) + live.base_total)
    for j in range(J):
        k = at + j * (N + 1)
        for i in range(N + 1):
            cell = links[k + i]
            held = max(live.cells[cell], 0.0) if cell >= 0 else 0.0
            out[j * (N + 1) + i] = (held + live.base) * inverse[i]


@kernel
def predict(counts, pseudo):
    """Counts (n,) become (counts + pseudo) over their sum."""
    total = 0.0
    for k in range(counts.shape[0]):
        counts[k] = max(counts[k], 0.0) + pseudo[k]
        total += counts[k]
    for k in range(counts.shape[0]):
        counts[k] /= total


@kernel
def chances_live(tables, null, length):
    """p0 and p1 of a source sentence; null (2,) counts of the others, overwritten."""
    if tables.learns:
        predict(null, tables.null_pseudo)
        return null[0], null[1]
    return chances(tables.chance, length)


@kernel
def surprise(w, found, N, J, null, each):
    """Sum of posteriors times logs of the weights of links.

    null, each : logs of the chances of NULL and words, if these are learned, else zero
    """
    size, sums, nulls = J * (N + 1), fill(0.0), 0.0
    whole = size // EIGHT * EIGHT
    for k in range(0, whole, EIGHT):  # the logs of eight cost as much as the log of one
        sums = fma(load(found, k), log_fast(load(w, k)), sums)
    total = first_four(sums) + last_four(sums)
    for k in range(whole, size):
        total += found[k] * log_fast(w[k])
    for j in range(J):
        nulls += found[j * (N + 1)]
    return total + nulls * null + (J - nulls) * each


@kernel
def sweep_pairs(
    live, tables, links, source, source_offsets, offsets, own, own_jumps, is_part, is_measured,
    out_live, out_null, out_jump, out_fertility, out_found, in_place,
):  # fmt: skip
    """Every pair once. own (L,), own_jumps (m, 2) : float32, replaced.

    is_part : whether own counts are part of the live ones; if not, these stay as they are
    out_live, out_null, out_jump += counts of the pairs; out_live is left alone if in_place
    out_found (2,) : leave-one-out log predictives, entropy of the alignments
    Returns the first pair without a possible alignment, or -1.
    """
    most, rows, is_bag = longest(source_offsets), longest(offsets), tables.jump.shape[0] == 0
    w, found = np.zeros(rows * (most + 1)), np.zeros(rows * (most + 1))
    room, inverse, mine = make_room(rows, most), np.zeros(most + 1), np.zeros(2 * most + 1)
    jump, null, at = np.zeros(tables.jump.shape[0]), np.zeros(2), 0
    flat, sums = own_jumps.reshape(-1), np.zeros(tables.fertility.shape[1])
    for u in range(offsets.shape[0] - 1):
        lo = source_offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - offsets[u]
        words, kept = source[lo : lo + N], flat[2 * lo : 2 * (lo + N)]
        null[:] = tables.null
        jump[:] = tables.jump
        if is_part:
            add_pair(links, at, words, N, J, own, -1.0, live.cells, live.totals, null)
            if not is_bag:
                add_jumps(kept, N, -1.0, jump)
            if sums.shape[0] > 0:
                add_fertilities(own, at, words, N, J, -1.0, sums, tables.fertility)
        weigh_live(live, links, at, words, N, J, inverse, w)
        if sums.shape[0] > 0:
            pseudo = tables.fertility_pseudo
            weigh_fertilities(tables.fertility, pseudo, own, at, words, N, J, sums, w)
        p0, p1 = chances_live(tables, null, N)
        if is_bag:
            log_z = bag_pair(w, J, N, p0, p1, found)
        else:
            predict(jump, tables.jump_pseudo)
            local_jumps(jump, N, tables.is_open, room)
            log_z = chain_pair(w, J, N, p0, p1, room, found, mine)
            for k in range(2 * N):
                kept[k] = mine[k]
            add_jumps(kept, N, 1.0, out_jump)
        if not log_z > -np.inf:
            return u
        out_found[0] += log_z
        if is_measured:
            learns = tables.learns
            logs = math.log(p0) if learns else 0.0, math.log(p1) if learns else 0.0
            out_found[1] += log_z - surprise(w, found, N, J, logs[0], logs[1])
            for k in range(0 if is_bag else 2 * N):
                out_found[1] -= mine[k] * math.log(room.jumps[k + EIGHT]) if mine[k] > 0.0 else 0.0
        for k in range(J * (N + 1)):
            own[at + k] = found[k]
        if sums.shape[0] > 0:
            add_fertilities(own, at, words, N, J, 1.0, sums, out_fertility)
        if is_part:
            add_pair(links, at, words, N, J, own, 1.0, live.cells, live.totals, out_null)
            if sums.shape[0] > 0:
                add_fertilities(own, at, words, N, J, 1.0, sums, tables.fertility)
        if not in_place:
            cells, totals = out_live.cells, out_live.totals
            into = null if is_part else out_null  # what counts once
            add_pair(links, at, words, N, J, own, 1.0, cells, totals, into)
        at += J * (N + 1)
    return -1


@kernel
def count_pairs(
    links, source, source_offsets, offsets, own, own_jumps,
    out_live, out_null, out_jump, out_fertility,
):  # fmt: skip
    """Add the counts of pairs, as they are kept."""
    at, flat, sums = 0, own_jumps.reshape(-1), np.zeros(out_fertility.shape[1])
    for u in range(offsets.shape[0] - 1):
        lo = source_offsets[u]
        N, J = source_offsets[u + 1] - lo, offsets[u + 1] - offsets[u]
        words, cells, totals = source[lo : lo + N], out_live.cells, out_live.totals
        add_pair(links, at, words, N, J, own, 1.0, cells, totals, out_null)
        if out_jump.shape[0] > 0:
            add_jumps(flat[2 * lo : 2 * (lo + N)], N, 1.0, out_jump)
        if sums.shape[0] > 0:
            add_fertilities(own, at, words, N, J, 1.0, sums, out_fertility)
        at += J * (N + 1)
