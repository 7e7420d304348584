"""Kernels of word alignment against a list of all alignments."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.alignment import list_alignments

from stickbreak.kernels.alignment import cells, posteriors

CLOSE = 1e-13  # sums of at most 5 ** 4 products
EXP = 1e-12  # of exp_fast, relative, for each of four rows

SIZES = [(1, 1), (1, 4), (4, 1), (2, 3), (3, 3), (4, 4)]


def links_of(starts, targets, source, source_offsets, rows, offsets):
    """Cells of all links, by looking at the index in the plainest way."""
    found = []
    for u in range(len(offsets) - 1):
        words = [0, *source[source_offsets[u] : source_offsets[u + 1]]]
        for t in rows[offsets[u] : offsets[u + 1]]:
            for s in words:
                at = [c for c in range(starts[s], starts[s + 1]) if targets[c] == t]
                found.append(at[0] if at else -1)
    return np.array(found)


def small_bitext(seed=0, n=12):
    rng = np.random.default_rng(seed)
    lengths, sizes = rng.integers(1, 5, n), rng.integers(1, 5, n)
    source, rows = (
        rng.integers(1, 6, sizes.sum()).astype(np.int32),
        rng.integers(0, 7, lengths.sum()).astype(np.int32),
    )
    return source, np.r_[0, np.cumsum(sizes)], rows, np.r_[0, np.cumsum(lengths)]


def test_cells_are_the_pairs_that_occur_and_links_point_to_them():
    source, source_offsets, rows, offsets = small_bitext()
    found = cells.by_word(source, source_offsets, 7)
    starts, targets = cells.count_cells(found, rows, offsets, 8)
    expected = set()
    for u in range(len(offsets) - 1):
        for s in (0, *source[source_offsets[u] : source_offsets[u + 1]]):
            expected |= {(int(s), int(t)) for t in rows[offsets[u] : offsets[u + 1]]}
    words = np.repeat(np.arange(7), np.diff(starts))
    assert list(zip(words.tolist(), targets.tolist(), strict=True)) == sorted(expected)
    lengths = np.diff(source_offsets)
    link_offsets = np.r_[0, np.cumsum((lengths + 1) * np.diff(offsets))]
    links = np.empty(link_offsets[-1], dtype=np.int32)
    cells.fill_links(*found, rows, offsets, lengths, starts, targets, link_offsets, links)
    given = starts, targets, source, source_offsets, rows, offsets
    np.testing.assert_array_equal(links, links_of(*given))
    looked_up = np.empty_like(links)
    cells.find_links(*given, looked_up)
    np.testing.assert_array_equal(looked_up, links)
    cells.search_links(*given, looked_up)
    np.testing.assert_array_equal(looked_up, links)
    some = np.empty(2, dtype=np.int64)
    cells.find_cells(starts, targets, np.array([6, 0]), np.array([0, 7]), some)
    np.testing.assert_array_equal(some, -1)


def test_links_of_words_that_were_never_seen_together_are_none_however_they_are_looked_up():
    source, source_offsets, rows, offsets = small_bitext(n=4)
    known = cells.count_cells(cells.by_word(source, source_offsets, 7), rows, offsets, 8)
    others = small_bitext(seed=1, n=40)
    rows = others[2] + 3  # words beyond the known ones
    given = *known, *others[:2], rows, others[3]
    expected = links_of(*given)
    assert (expected < 0).any()
    assert (expected >= 0).any()
    for look_up in (cells.find_links, cells.search_links):
        found = np.empty(len(expected), dtype=np.int32)
        look_up(*given, found)
        np.testing.assert_array_equal(found, expected)


def one_pair(N, J, seed, jump_width=None):
    """Log weights of cells of a pair in which words repeat, its links, and weights of positions."""
    rng = np.random.default_rng(seed)
    source = rng.integers(1, 3, N).astype(np.int32)
    rows = rng.integers(0, 2, J)
    log_cells = rng.normal(size=6) - 1.0  # of three source and two target words
    links = np.array([[2 * s + t for s in (0, *source)] for t in rows]).ravel()
    jump = np.zeros(0) if jump_width is None else rng.dirichlet(np.ones(2 * jump_width + 1))
    return log_cells, links, source, rng.dirichlet([1.0, 3.0]), jump


def infer(pair, J, is_open):
    log_cells, links, source, chance, jump = pair
    shares, null, jumps, log_z = np.empty(len(links)), np.zeros(2), np.zeros(len(jump)), np.empty(1)
    spans = source, np.array([0, len(source)]), np.array([0, J])
    posteriors.infer_pairs(
        log_cells, np.zeros(3), links, *spans, chance, jump, is_open, shares, null, jumps, log_z
    )
    return log_z[0], shares.reshape(J, -1), null, jumps


@pytest.mark.parametrize("jump_width", [None, 1, 5])
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(("N", "J"), SIZES)
def test_posteriors_equal_those_of_all_alignments(N, J, is_open, jump_width):
    pair = one_pair(N, J, 10 * N + J, jump_width)
    log_cells, links, _, chance, jump = pair
    w = np.exp(log_cells[links].reshape(J, -1))
    listed = list_alignments(w, chance, jump if len(jump) else None, is_open)
    log_z, shares, null, jumps = infer(pair, J, is_open)
    assert log_z == pytest.approx(listed.log_z, abs=4 * EXP)
    np.testing.assert_allclose(shares, listed.shares, atol=4 * EXP)
    np.testing.assert_allclose(null, listed.null, atol=4 * EXP)
    if len(jump):
        np.testing.assert_allclose(jumps, listed.jump, atol=4 * EXP)


@pytest.mark.parametrize("jump_width", [None, 2])
def test_the_derivatives_of_log_z_are_counts(jump_width):
    N, J, step = 3, 4, 1e-6
    pair = one_pair(N, J, 5, jump_width)
    _, links, _, _, jump = pair
    _, shares, null, jumps = infer(pair, J, True)
    expected = np.bincount(links, shares.ravel(), minlength=6)

    def slope(at, place):
        values = []
        for sign in (1, -1):
            changed = list(pair)
            changed[at] = np.array(pair[at])
            if at == 0:
                changed[at][place] += sign * step
            else:
                changed[at][place] *= np.exp(sign * step)
            values.append(infer(changed, J, True)[0])
        return (values[0] - values[1]) / (2 * step)

    found = [slope(0, c) for c in range(6)]
    np.testing.assert_allclose(found, expected, atol=1e-8)  # 1e-15 / step, and step ** 2
    np.testing.assert_allclose([slope(3, k) for k in range(2)], null, atol=1e-8)
    np.testing.assert_allclose([slope(4, k) for k in range(len(jump))], jumps, atol=1e-8)


@pytest.mark.parametrize("jump_width", [None, 2])
@pytest.mark.parametrize(("N", "J"), SIZES)
def test_the_best_alignment_is_the_best_of_all(N, J, jump_width):
    pair = one_pair(N, J, 3 * N + J, jump_width)
    log_cells, links, source, chance, jump = pair
    log_cells = log_cells + 0.01 * np.arange(6)
    w = np.exp(log_cells[links].reshape(J, -1))
    listed = list_alignments(w, chance, jump if len(jump) else None)
    places, log_z = np.empty(J, dtype=np.int64), np.empty(1)
    spans = source, np.array([0, N]), np.array([0, J])
    posteriors.best_pairs(log_cells, np.zeros(3), links, *spans, chance, jump, True, places, log_z)
    assert log_z[0] == pytest.approx(listed.log_best, abs=4 * EXP)
    # repeated words tie in a bag, so the weight decides and not the positions
    shares, null, jumps = np.zeros(len(links)), np.zeros(2), np.zeros(len(jump))
    posteriors.count_places(places, spans[1], spans[2], shares, null, jumps)
    position = np.log(chance)[1] - np.log(N)
    value = float(np.log(w.ravel()) @ shares) + null @ [np.log(chance)[0], position]
    if len(jump):
        value += jumps @ (np.log(jump) + np.log(N))
    assert value == pytest.approx(listed.log_best, abs=4 * EXP)


def test_null_as_one_more_position_and_words_that_were_never_seen_together():
    log_cells, links = np.log([0.2, 0.5]), np.array([0, 1, -1])
    source, spans = np.array([1, 2], dtype=np.int32), (np.array([0, 2]), np.array([0, 1]))
    absent = np.log([0.9, 0.9, 0.1])
    shares, log_z, none = np.empty(3), np.empty(1), np.zeros(0)
    posteriors.infer_pairs(
        log_cells, absent, links, source, *spans, none, none, True, shares, np.zeros(2), none, log_z
    )
    np.testing.assert_allclose(shares, np.array([0.2, 0.5, 0.1]) / 0.8, atol=CLOSE)
    assert log_z[0] == pytest.approx(np.log(0.8 / 3), abs=EXP)


@pytest.mark.parametrize("chance", [(), (0.2, 0.8)])
def test_even_shares_are_those_of_each_row_by_hand(chance):
    _, source_offsets, _, offsets = small_bitext()
    expected = []
    for u in range(len(offsets) - 1):
        N = source_offsets[u + 1] - source_offsets[u]
        null, words = chance or (1 / (N + 1), N / (N + 1))
        expected += [null, *[words / N] * N] * (offsets[u + 1] - offsets[u])
    found = np.full(len(expected), np.nan, dtype=np.float32)
    cells.even_shares(source_offsets, offsets, np.array(chance), found)
    np.testing.assert_allclose(found, expected, rtol=1e-7)  # float32
