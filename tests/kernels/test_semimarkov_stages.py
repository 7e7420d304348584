"""Negative binomial lengths by stages against explicit lengths."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import nbinom

from stickbreak.kernels.chain.smooth import smooth
from stickbreak.kernels.semimarkov.embedded import (
    StagePieces,
    draw_stages,
    filter_stages,
    smooth_stages,
)
from stickbreak.kernels.semimarkov.paths import filter_segments
from stickbreak.kernels.semimarkov.smooth import smooth_segments
from stickbreak.kernels.semimarkov.stage_draws import count_runs
from stickbreak.kernels.semimarkov.stages import log_lengths

censored = pytest.mark.parametrize("right", [True, False])


def problem(seed: int, K: int, T: int, scale: float = 2.0):
    """Evidence (K, T), start, transition, and log p, r log q, r with p + q < 1."""
    rng = np.random.default_rng(seed)
    r, p = rng.integers(1, 7, K).astype(float), rng.uniform(0.05, 0.8, K)
    q = (1 - p) * rng.uniform(0.5, 1.0, K)
    lengths = np.log(p), r * np.log(q), r
    return (
        scale * rng.normal(size=(K, T)), rng.normal(size=K), rng.normal(size=(K, K)), lengths
    )  # fmt: skip


def run(given, right, weight=1.3, is_free=None):
    """log_z, shares (K, T), and counts by name."""
    evidence, start, transition, lengths = given
    K, offsets = len(start), np.array([0, evidence.shape[1]])
    counts = {"start": np.zeros(K), "transition": np.zeros((K, K))}
    counts |= {"segments": np.zeros(K), "stays": np.zeros(K)}
    log_z, shares = smooth_stages(
        evidence, start, transition, lengths, offsets, np.array([weight]), is_free,
        right_censored=right, **counts,
    )  # fmt: skip
    return log_z[0], shares, counts


def by_lengths(given, right, weight=1.3, is_free=None):
    """The same by explicit lengths."""
    evidence, start, transition, lengths = given
    K, T = evidence.shape
    table = log_lengths(lengths, T)
    counts = {"start": np.zeros(K), "transition": np.zeros((K, K))}
    found = np.zeros(table.shape)
    log_z, shares = smooth_segments(
        evidence, start, transition, table, np.array([0, T]), np.array([weight]), is_free,
        right_censored=right, **counts, duration=found,
    )  # fmt: skip
    counts |= {"segments": found.sum(1), "stays": found @ np.arange(table.shape[1])}
    return log_z[0], shares, counts


@censored
@pytest.mark.parametrize(("K", "T"), [(3, 12), (9, 30), (2, 1), (1, 5)])
def test_stages_equal_explicit_lengths_though_weights_do_not_sum_to_one(K, T, right):
    given = problem(K * T, K, T)
    is_free = np.random.default_rng(T).random(T) < 0.8
    for free in (None, is_free):
        found, expected = run(given, right, is_free=free), by_lengths(given, right, is_free=free)
        assert found[0] == pytest.approx(expected[0], rel=1e-13)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-12)
        for name, counts in expected[2].items():
            np.testing.assert_allclose(found[2][name], counts, rtol=1e-12, atol=1e-12)


@censored
def test_sequences_side_by_side_are_sums_of_single_ones(right):
    rng, K, lengths = np.random.default_rng(2), 6, [3, 20, 1, 17, 17, 9, 30, 2, 11]
    offsets, weights = np.r_[0, np.cumsum(lengths)], rng.random(9)
    weights[4] = 0.0
    evidence, *tables = problem(3, K, offsets[-1])
    evidence[:, offsets[3] : offsets[4]] *= 500.0  # one that leaves the linear domain
    evidence[2, 5] = -np.inf
    counts = {"start": np.zeros(K), "transition": np.zeros((K, K))}
    counts |= {"segments": np.zeros(K), "stays": np.zeros(K)}
    rows = np.zeros(K)
    log_z, shares = smooth_stages(
        evidence, *tables, offsets, weights, right_censored=right, rows=rows, **counts
    )
    np.testing.assert_allclose(rows, shares.sum(1), rtol=1e-13)
    for s, (a, b) in enumerate(pairwise(offsets)):
        part = np.ascontiguousarray(evidence[:, a:b])
        alone = run((part, *tables), right, weights[s], np.ones(b - a, dtype=bool))
        assert log_z[s] == pytest.approx(alone[0], rel=1e-13)
        np.testing.assert_allclose(shares[:, a:b], alone[1], atol=1e-11)
        for name, table in alone[2].items():
            counts[name] -= table
    for table in counts.values():
        np.testing.assert_allclose(table, 0.0, atol=1e-10)  # logs of 1e4 in the one sequence


@censored
def test_the_last_stages_are_summed_for_weights_that_do_not_sum_to_one(right):
    """Of 500 rows the sum over what is to come is not that of weights that sum to one."""
    given = problem(5, 2, 500, 0.5)
    assert run(given, right)[0] == pytest.approx(by_lengths(given, right)[0], rel=1e-12)
    loose = (*given[:3], (given[3][0], given[3][2] * np.log1p(-np.exp(given[3][0])), given[3][2]))
    assert run(loose, right)[0] > run(given, right)[0]


@pytest.mark.parametrize("r", range(1, 7))
def test_the_sojourn_of_stages_has_the_negative_binomial_law(r):
    """Spec 5.6 d: whole segments of 1 to 12 rows, weights that sum to one and that do not."""
    for p, q in ((0.1, 0.9), (0.5, 0.5), (0.9, 0.1), (0.5, 0.3)):
        lengths = np.log([p]), np.array([r * np.log(q)]), np.array([float(r)])
        for d in range(1, 13):
            alone = np.zeros((1, d)), np.zeros(1), np.zeros((1, 1)), lengths
            expected = nbinom.logpmf(d - 1, r, 1 - p) + r * (np.log(q) - np.log1p(-p))
            assert run(alone, False)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("T", [1, 2, 40])
def test_rows_of_weights_that_sum_to_one_lose_nothing(T):
    """Spec 5.6 d: without evidence the probability of all that can happen is one."""
    rng, p, r = np.random.default_rng(0), np.array([0.2, 0.7, 0.9]), np.array([1.0, 3.0, 6.0])
    rows = rng.random((3, 3)) * (1 - np.eye(3))
    with np.errstate(divide="ignore"):
        steps = np.log(rows / rows.sum(1, keepdims=True))
    given = np.zeros((3, T)), np.log([0.2, 0.3, 0.5]), steps, (np.log(p), r * np.log1p(-p), r)
    assert run(given, True)[0] == pytest.approx(0.0, abs=1e-12)


@censored
def test_what_leaves_the_linear_domain_is_done_by_lengths(right):
    given = problem(6, 3, 15, 900.0)
    found, expected = run(given, right), by_lengths(given, right)
    assert found[0] == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-10)  # logs of 1e4


def test_one_stage_is_a_chain_that_stays():
    evidence, start, _, _ = problem(7, 4, 50)
    rng = np.random.default_rng(8)
    rows, stay = rng.random((4, 4)) * (1 - np.eye(4)), np.array([0.3, 0.6, 0.8, 0.5])
    rows /= rows.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        lengths = np.log(stay), np.log1p(-stay), np.ones(4)
        found = run((evidence, start, np.log(rows), lengths), True, weight=1.0)
        steps = np.log(np.diag(stay) + (1 - stay)[:, None] * rows)
    first, moves = np.zeros(4), np.zeros((4, 4))
    log_z, shares = smooth(evidence, start, steps, np.array([0, 50]), start=first, transition=moves)
    assert found[0] == pytest.approx(log_z[0], rel=1e-13)
    np.testing.assert_allclose(found[1], shares, atol=1e-13)
    np.testing.assert_allclose(found[2]["transition"], moves - np.diag(np.diag(moves)), atol=1e-13)


@pytest.mark.slow
@censored
def test_filtering_equals_that_of_explicit_lengths(right):
    given = problem(9, 3, 20)
    evidence, start, transition, lengths = given
    found = filter_stages(*given, np.array([0, 20]), right_censored=right)
    expected = filter_segments(
        evidence, start, transition, log_lengths(lengths, 20), np.array([0, 20]),
        right_censored=right,
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
@censored
def test_pieces_join_to_the_whole(right):
    given, bounds = problem(10, 3, 40), [0, 7, 8, 30, 40]
    expected = run(given, right)
    pieces = StagePieces(lambda a, b: given[0][:, a:b], bounds, *given[1:], None, right)
    counts = {name: np.zeros_like(table) for name, table in expected[2].items()}
    assert pieces.log_z == pytest.approx(expected[0], rel=1e-13)
    shares = np.empty((3, 40))
    for begin, end, part in pieces.smooth(1.3, **counts):
        shares[:, begin:end] = part
    np.testing.assert_allclose(shares, expected[1], atol=1e-13)
    for name, table in expected[2].items():
        np.testing.assert_allclose(counts[name], table, atol=1e-12)


@pytest.mark.slow
@censored
def test_draws_have_the_expected_counts(right):
    given, n_draws, T = problem(11, 3, 5), 4000, 5
    _, shares, counts = run(given, right, weight=1.0)
    uniforms = np.random.default_rng(1).random(n_draws * T)
    path, log_z, extra = draw_stages(
        np.ascontiguousarray(np.tile(given[0], n_draws)), *given[1:], np.arange(n_draws + 1) * T,
        uniforms, right_censored=right,
    )  # fmt: skip
    np.testing.assert_allclose(log_z, run(given, right)[0], rtol=1e-12)
    paths = path.reshape(n_draws, T)
    # five standard errors
    np.testing.assert_allclose(
        (paths[:, :, None] == np.arange(3)).mean(0).T, shares, atol=2.5 / np.sqrt(n_draws)
    )
    rows = np.array([(paths == k).sum() + extra[paths[:, -1] == k].sum() for k in range(3)])
    new = paths[:, 1:] != paths[:, :-1]
    begun = [(new & (paths[:, 1:] == k)).sum() + (paths[:, 0] == k).sum() for k in range(3)]
    spread = np.sqrt((rows / n_draws + 5.0) ** 2 / n_draws)  # a deviation is below the mean plus T
    np.testing.assert_allclose(begun, counts["segments"] * n_draws, atol=5 * 2 * np.sqrt(n_draws))
    error = np.abs((rows - begun) / n_draws - counts["stays"])
    assert (error < 5 * spread).all()
    pieces = StagePieces(lambda a, b: given[0][:, a:b], [0, 2, T], *given[1:], None, right)
    whole = np.concatenate([part for *_, part in reversed(list(pieces.draw(uniforms[:T])))])
    assert whole.shape == (T,)
    assert set(whole) <= {0, 1, 2}


@censored
def test_draws_side_by_side_are_those_of_single_sequences(right):
    """The same random numbers, the same segments; one leaves the linear domain."""
    rng, K, lengths = np.random.default_rng(12), 6, [30, 20, 1, 17, 17, 9, 3, 2, 11]
    offsets = np.r_[0, np.cumsum(lengths)]
    evidence, *tables = problem(13, K, offsets[-1])
    evidence[:, offsets[3] : offsets[4]] *= 500.0
    uniforms, everywhere = rng.random(offsets[-1]), np.ones(offsets[-1], dtype=bool)
    given = evidence, *tables, offsets, uniforms
    found = draw_stages(*given, right_censored=right)
    expected = draw_stages(*given, everywhere, right_censored=right)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    np.testing.assert_array_equal(found[2], expected[2])


def test_runs_of_drawn_paths_are_counted_by_length_and_state():
    path, offsets = np.array([2, 2, 0, 1, 1, 1, 1, 0]), np.array([0, 3, 4, 8])
    extra, weights = np.array([3, 0, 0]), np.array([1.0, 0.0, 2.5])
    expected = np.zeros((4, 3))
    for (a, b), more, weight in zip(pairwise(offsets), extra, weights, strict=True):
        begins = [t for t in range(a, b) if t == a or path[t] != path[t - 1]]
        for begin, end in pairwise([*begins, b]):
            expected[end - begin + (more if end == b else 0) - 1, path[begin]] += weight
    np.testing.assert_array_equal(count_runs(path, offsets, extra, weights, 3), expected)


@pytest.mark.parametrize("right", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_segments_are_drawn_with_their_exact_probabilities(right):
    """Spec 5.6 e: counts of whole labelings in 10^5 draws, within five standard errors."""
    given, n_draws, T = problem(14, 3, 4, scale=1.0), 100_000, 4
    evidence, start, transition, lengths = given
    table = log_lengths(lengths, T)
    tail = np.logaddexp.accumulate(table[:, ::-1], axis=1)[:, ::-1]
    expected = {}
    for labels in product(range(3), repeat=T):
        begins = [t for t in range(T) if t == 0 or labels[t] != labels[t - 1]]
        value = start[labels[0]] + sum(evidence[k, t] for t, k in enumerate(labels))
        for a, b in pairwise([*begins, T]):
            value += (tail if right and b == T else table)[labels[a], b - a - 1]
            value += transition[labels[a - 1], labels[a]] if a else 0.0
        expected[labels] = np.exp(value - run(given, right)[0])
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-12)
    uniforms = np.random.default_rng(2).random(n_draws * T)
    path, *_ = draw_stages(
        np.ascontiguousarray(np.tile(evidence, n_draws)), *given[1:],
        np.arange(n_draws + 1) * T, uniforms, right_censored=right,
    )  # fmt: skip
    codes = path.reshape(n_draws, T) @ 3 ** np.arange(T)[::-1]
    seen = np.bincount(codes, minlength=3**T) / n_draws
    p = np.array(list(expected.values()))
    np.testing.assert_array_less(np.abs(seen - p), 5 * np.sqrt(p / n_draws) + 1e-12)


def test_segments_of_one_row_have_no_stays_less_than_none():
    """Rows less segments are rounded: a checkpoint refuses counts below zero."""
    rng, K, T = np.random.default_rng(0), 4, 60
    path = np.arange(T) % K
    evidence = np.where(np.arange(K)[:, None] == path, 0.0, -40.0) + rng.normal(size=(K, T))
    lengths = np.full(K, np.log(1e-12)), np.log1p(-rng.uniform(0.1, 0.5, K)), np.ones(K)
    given = evidence, np.zeros(K), rng.normal(size=(K, K)), lengths
    for weight in rng.uniform(0.5, 2.0, 10):
        assert run(given, True, weight)[2]["stays"].min() >= 0.0
        pieces = StagePieces(
            lambda begin, end: evidence[:, begin:end].copy(), [0, 20, 40, T],
            *given[1:3], lengths, None, True,
        )  # fmt: skip
        counts = {"start": np.zeros(K), "transition": np.zeros((K, K))}
        counts |= {"segments": np.zeros(K), "stays": np.zeros(K)}
        for _ in pieces.smooth(weight, **counts):
            pass
        assert counts["stays"].min() >= 0.0
