"""Cells of a lexicon: pairs of a source and a target word that occur together in some unit.

They are kept source word by source word, target words ascending: those of word s are
starts[s]:starts[s + 1] of `targets`. Links are the cells of each row with every word of its unit's
source sentence, unit after unit and row after row; the first of each row is that of NULL, which is
source word 0.
"""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..gamma import log_gamma_fast
from ..vectors import EIGHT, fill, first_four, last_four, load

__all__ = [
    "add_links",
    "by_word",
    "count_cells",
    "even_shares",
    "fill_links",
    "find_cells",
    "find_links",
    "gather_words",
    "log_gamma_words",
    "search_links",
    "spread_words",
]

CELLS = 16  # of a word, that are set and cleared in the time of one bisection


@kernel
def list_cells(words, begins, units, rows, offsets, is_counted, n_cells, out_targets):
    """Target words that occur with each of `words`, in the order in which they are met.

    begins (K + 1,) : the places of each source word in units, which lists the unit of each
    is_counted : whether out_targets (C,) is left alone; n_cells (K,) is set
    """
    last, at = np.full(is_counted[1], -1, dtype=np.int64), 0
    for s in range(words):
        first = at
        for k in range(begins[s], begins[s + 1]):
            u = units[k]
            for j in range(offsets[u], offsets[u + 1]):
                t = rows[j]
                if last[t] != s:
                    last[t] = s
                    if not is_counted[0]:
                        out_targets[at] = t
                    at += 1
        n_cells[s] = at - first


@kernel
def turn(starts, columns, out_starts, out_columns):
    """The transpose of a table of zeros and ones by rows; columns of its rows ascend."""
    n = out_starts.shape[0] - 1
    for k in range(columns.shape[0]):
        out_starts[columns[k] + 1] += 1
    for c in range(n):
        out_starts[c + 1] += out_starts[c]
    at = out_starts[:-1].copy()
    for r in range(starts.shape[0] - 1):
        for k in range(starts[r], starts[r + 1]):
            c = columns[k]
            out_columns[at[c]] = r
            at[c] += 1


def by_word(source, source_offsets, n_words):
    """Begins (K + 1,), units and places of every occurrence of each source word; NULL in all."""
    n_units = len(source_offsets) - 1
    lengths = np.diff(source_offsets)
    unit = np.repeat(np.arange(n_units), lengths)
    place = np.arange(len(source)) - np.repeat(source_offsets[:-1], lengths) + 1
    order = np.argsort(source, kind="stable")
    begins = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=n_words), out=begins[1:])
    begins[1:] += n_units  # NULL is nowhere in the source
    units = np.concatenate([np.arange(n_units), unit[order]]).astype(np.int32)
    places = np.concatenate([np.zeros(n_units), place[order]]).astype(np.int32)
    return begins, units, places


def count_cells(occurrences, rows, offsets, n_symbols):
    """Starts (K + 1,) and targets (C,) of the cells that occur. occurrences : see `by_word`."""
    begins, units, _ = occurrences
    n_words = len(begins) - 1
    n_cells, none = np.zeros(n_words, dtype=np.int64), np.zeros(0, dtype=np.int32)
    list_cells(n_words, begins, units, rows, offsets, (True, n_symbols), n_cells, none)
    starts = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(n_cells, out=starts[1:])
    targets = np.empty(starts[-1], dtype=np.int32)
    list_cells(n_words, begins, units, rows, offsets, (False, n_symbols), n_cells, targets)
    turned_starts, turned = np.zeros(n_symbols + 1, dtype=np.int64), np.empty_like(targets)
    turn(starts, targets, turned_starts, turned)
    starts[...] = 0
    turn(turned_starts, turned, starts, targets)
    return starts, targets


@kernel
def fill_links(begins, units, places, rows, offsets, lengths, starts, targets, link_offsets, out):
    """Out (L,): the cells of all links, -1 for those that are not there. lengths (S,) of sources.

    It goes from source word to source word, with all cells of the word at hand.
    """
    size = max(np.int64(targets.max()) if targets.shape[0] else 0, np.int64(rows.max())) + 1
    cell = np.full(size, -1, dtype=np.int64)
    for s in range(begins.shape[0] - 1):
        if begins[s] == begins[s + 1]:
            continue
        for c in range(starts[s], starts[s + 1]):
            cell[targets[c]] = c
        for k in range(begins[s], begins[s + 1]):
            u = units[k]
            width, at = lengths[u] + 1, link_offsets[u] + places[k]
            for j in range(offsets[u], offsets[u + 1]):
                out[at] = cell[rows[j]]
                at += width
        for c in range(starts[s], starts[s + 1]):
            cell[targets[c]] = -1


def find_links(starts, targets, source, source_offsets, rows, offsets, out):
    """Out (L,) = cells of the links of all units, -1 for those that are not there.

    Words of many links are looked up one after another, else links one after another.
    """
    met = np.unique(source)
    n_cells = starts[1] + (starts[met + 1] - starts[met]).sum()
    is_whole = source_offsets[0] == 0 == offsets[0] and source_offsets[-1] == len(source)
    if not is_whole or not len(rows) or n_cells > CELLS * len(out):
        search_links(starts, targets, source, source_offsets, rows, offsets, out)
        return
    lengths, found = np.diff(source_offsets), by_word(source, source_offsets, len(starts) - 1)
    ends = np.zeros(len(offsets), dtype=np.int64)
    np.cumsum((lengths + 1) * np.diff(offsets), out=ends[1:])
    given = [*found, rows, offsets, lengths, starts, targets, ends, out]
    fill_links(*given)


@kernel
def find_cell(starts, targets, s, t):
    """The cell of source word s and target word t, or -1."""
    lo, hi = starts[s], starts[s + 1]
    while lo < hi:
        middle = (lo + hi) // 2
        if targets[middle] < t:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < starts[s + 1] and targets[lo] == t else -1


@kernel
def find_cells(starts, targets, sources, rows, out):
    """Out (n,) = cells of the pairs (sources, rows), -1 for those that are not there."""
    for k in range(out.shape[0]):
        out[k] = find_cell(starts, targets, sources[k], rows[k])


@kernel
def search_links(starts, targets, source, source_offsets, rows, offsets, out):
    """Out (L,) = cells of the links of all units, by bisection; see `find_links`."""
    at = 0
    for u in range(offsets.shape[0] - 1):
        for j in range(offsets[u], offsets[u + 1]):
            out[at] = find_cell(starts, targets, 0, rows[j])
            at += 1
            for i in range(source_offsets[u], source_offsets[u + 1]):
                out[at] = find_cell(starts, targets, source[i], rows[j])
                at += 1


@kernel
def add_links(links, shares, source, source_offsets, offsets, out_cells, out_totals):
    """out_cells (C,) += shares (L,) of links, out_totals (K,) the same by source word."""
    at = 0
    for u in range(offsets.shape[0] - 1):
        lo = source_offsets[u]
        N = source_offsets[u + 1] - lo
        sums = np.zeros(N + 1)
        for _ in range(offsets[u], offsets[u + 1]):
            for i in range(N + 1):
                sums[i] += shares[at + i]
            for i in range(N + 1):
                if links[at + i] >= 0:
                    out_cells[links[at + i]] += shares[at + i]
            at += N + 1
        out_totals[0] += sums[0]
        for i in range(N):
            out_totals[source[lo + i]] += sums[i + 1]


@kernel
def spread_words(starts, cells, words, out):
    """Out (C,) = cells (C,) - words (K,) of the source word of each."""
    for s in range(words.shape[0]):
        for c in range(starts[s], starts[s + 1]):
            out[c] = cells[c] - words[s]


@kernel
def gather_words(starts, cells, out):
    """Out (K,) = sums of cells (C,) by source word."""
    for s in range(out.shape[0]):
        total = 0.0
        for c in range(starts[s], starts[s + 1]):
            total += cells[c]
        out[s] = total


@kernel
def log_gamma_words(starts, cells, base, out):
    """Out (K,) = sums by source word of log Gamma(cells + base) - log Gamma(base)."""
    least = log_gamma_fast(base)  # so that empty cells add nothing
    for s in range(out.shape[0]):
        sums, c, hi = fill(0.0), starts[s], starts[s + 1]
        while c + EIGHT <= hi:
            sums = sums + (log_gamma_fast(load(cells, c) + base) - least)
            c += EIGHT
        total = first_four(sums) + last_four(sums)
        while c < hi:
            total += log_gamma_fast(cells[c] + base) - least
            c += 1
        out[s] = total


@kernel
def even_shares(source_offsets, offsets, chance, out):
    """Out (L,) = shares of the links of each row, the same for all words of its source sentence.

    chance (2,) : shares of NULL and of all words; () where NULL is one more position
    """
    at = 0
    for u in range(offsets.shape[0] - 1):
        N = source_offsets[u + 1] - source_offsets[u]
        null, each = 1.0 / (N + 1), 1.0 / (N + 1)
        if chance.shape[0] > 0:
            null, each = chance[0], chance[1] / max(N, 1)
        for _ in range(offsets[u + 1] - offsets[u]):
            out[at] = null
            for i in range(1, N + 1):
                out[at + i] = each
            at += N + 1
