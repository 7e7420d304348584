"""Sparse rows, with few components each: kernels against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import kernels as slow
from oracles import sparse as brute
from scipy import sparse
from scipy.special import logsumexp, xlogy

from stickbreak.kernels import sparse as fast
from stickbreak.kernels.rows import merge_entropy, softmax_rows

LAW = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
small = st.integers(1, 9)
spreads = st.sampled_from([0.1, 5.0, 300.0, 2000.0])
# Sums of at most some hundred terms.
CLOSE = 1e-12


def choose(
    logits: Any, log_share: Any, limits: Any, most: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Values, components and number of NaN."""
    table = np.ascontiguousarray(logits)
    n = table.shape[1]
    values, index = np.empty((n, most)), np.empty((n, most), dtype=np.int32)
    n_nan = fast.choose_sparse(
        table,
        np.asarray(log_share, float),
        np.broadcast_to(np.asarray(limits, np.int64), n),
        values,
        index,
    )
    return values, index, n_nan


def soften(
    logits: Any, log_share: Any, repeats: Any, most: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """log_z, shares (n, L), index (n, L)."""
    values, index, _ = choose(logits, log_share, most, most)
    return fast.softmax_sparse(values, index, np.asarray(repeats, float)), values, index


def densify(values: np.ndarray, index: np.ndarray, K: int) -> np.ndarray:
    out = np.zeros((len(values), K))
    np.add.at(out, (np.arange(len(values))[:, None], index), values)
    return out


def make(
    K: int, n: int, seed: int, spread: float = 5.0, tied: bool = False, impossible: float = 0.0
) -> tuple[np.ndarray, ...]:
    """Logits (K, n), log shares and repeats; `tied`: whole numbers, many of them equal; some
    impossible, never a whole row.
    """
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, spread, (K, n))
    share = rng.normal(size=K)
    if tied:
        logits, share = rng.integers(-1, 2, (K, n)).astype(float), np.zeros(K)
    logits[(rng.random((K, n)) < impossible) & (np.arange(K) != rng.integers(K))[:, None]] = -np.inf
    return logits, share, rng.gamma(1.0, 2.0, n)


# ---- the choice ----------------------------------------------------------------------------------
@given(
    K=small,
    n=small,
    L=small,
    seed=seeds,
    spread=spreads,
    tied=st.booleans(),
    impossible=st.sampled_from([0.0, 0.5, 0.95]),
)
@LAW
def test_the_best_are_chosen_and_of_equal_ones_the_first(K, n, L, seed, spread, tied, impossible):
    logits, share, _ = make(K, n, seed, spread, tied, impossible)
    values, index, n_nan = choose(logits, share, L, L)
    assert n_nan == 0
    for i in range(n):
        weights = logits[:, i] + share
        found = index[i] >= 0
        assert sorted(index[i][found]) == brute.first_best(weights, L)
        np.testing.assert_array_equal(values[i][found], weights[index[i][found]])
        np.testing.assert_array_equal(values[i][~found], -np.inf)


@given(K=st.integers(2, 60), n=small, seed=seeds, tied=st.booleans())
@LAW
def test_rows_may_have_limits_of_their_own(K, n, seed, tied):
    logits, share, _ = make(K, n, seed, 5.0, tied)
    limits = np.random.default_rng(seed).integers(1, K + 1, n)
    _, index, _ = choose(logits, share, limits, K)
    for i in range(n):
        assert sorted(index[i][index[i] >= 0]) == brute.first_best(logits[:, i] + share, limits[i])


@pytest.mark.parametrize("order", ["rising", "falling", "random"])
def test_many_of_many_in_any_order(order):
    """A rising row replaces the worst at every step: the worst case of the heap."""
    K, L = 800, 100
    row = {
        "rising": np.arange(K),
        "falling": -np.arange(K),
        "random": np.random.default_rng(0).permutation(K),
    }[order]
    _, index, _ = choose(row[:, None].astype(float), np.zeros(K), L, L)
    assert sorted(index[0]) == brute.first_best(row.astype(float), L)


def test_single_precision_is_chosen_from_as_it_is():
    logits = np.random.default_rng(3).normal(size=(30, 7)).astype(np.float32)
    _, index, _ = choose(logits, np.zeros(30), 5, 5)
    for i in range(7):
        assert sorted(index[i]) == brute.first_best(logits[:, i].astype(float), 5)


def test_numbers_that_are_none_are_counted_and_never_chosen():
    logits = np.array([[0.0, np.nan], [np.nan, 1.0], [-1.0, np.nan]])
    values, index, n_nan = choose(logits, np.zeros(3), 2, 2)
    assert n_nan == 3
    assert sorted(index[0]) == [0, 2]
    assert sorted(index[1]) == [-1, 1]
    assert not np.isnan(values).any()


# ---- laws of the selection -----------------------------------------------------------------------
@given(K=small, n=small, seed=seeds, spread=spreads, impossible=st.sampled_from([0.0, 0.6]))
@LAW
def test_all_components_give_the_dense_result(K, n, seed, spread, impossible):
    logits, share, repeats = make(K, n, seed, spread, impossible=impossible)
    log_z, values, index = soften(logits, share, repeats, K)
    dense = logits.copy()
    expected = softmax_rows(dense, share, repeats)
    assert log_z == pytest.approx(expected, rel=CLOSE, abs=CLOSE)
    np.testing.assert_allclose(densify(values, index, K), dense.T, rtol=CLOSE, atol=CLOSE)


@given(
    K=small,
    L=small,
    seed=seeds,
    spread=spreads,
    tied=st.booleans(),
    impossible=st.sampled_from([0.0, 0.6]),
)
@LAW
def test_no_other_set_of_components_does_better(K, L, seed, spread, tied, impossible):
    """The value is the logsumexp of the best, and that of the shares themselves."""
    logits, share, _ = make(K, 1, seed, spread, tied, impossible)
    weights = logits[:, 0] + share
    log_z, values, index = soften(logits, share, [1.0], L)
    shares = densify(values, index, K)[0]
    expected = brute.best_subset(weights, L)
    assert log_z == pytest.approx(expected, rel=CLOSE, abs=CLOSE)
    assert brute.objective(weights, shares) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(shares, brute.limited_shares(weights, L), rtol=1e-10, atol=CLOSE)


@given(K=small, n=small, seed=seeds, spread=spreads, tied=st.booleans())
@LAW
def test_more_components_never_lower_the_objective(K, n, seed, spread, tied):
    logits, share, repeats = make(K, n, seed, spread, tied)
    found = [soften(logits, share, repeats, L)[0] for L in range(1, K + 1)]
    assert np.diff(found).min(initial=0.0) >= -CLOSE * max(1.0, np.abs(found).max())


@given(K=small, n=small, seed=seeds, spread=spreads, tied=st.booleans())
@LAW
def test_one_component_is_the_best_label_without_entropy(K, n, seed, spread, tied):
    logits, share, repeats = make(K, n, seed, spread, tied)
    log_z, values, index = soften(logits, share, repeats, 1)
    best, value = slow.best_rows(logits, share)
    np.testing.assert_array_equal(index[:, 0], best)
    np.testing.assert_array_equal(values[:, 0], repeats)
    assert log_z == pytest.approx(repeats @ value, rel=CLOSE, abs=CLOSE)


@given(K=st.integers(2, 9), L=small, seed=seeds)
@LAW
def test_ties_do_not_change_the_objective(K, L, seed):
    """Whatever order the components come in, the value is the same, and equal components are as
    good as each other.
    """
    logits, share, _ = make(K, 1, seed, tied=True)
    order = np.random.default_rng(seed).permutation(K)
    assert soften(logits, share, [1.0], L)[0] == pytest.approx(
        soften(logits[order], share, [1.0], L)[0], rel=CLOSE, abs=CLOSE
    )


def test_places_without_a_component_have_no_share():
    logits = np.array([[0.0], [-np.inf], [np.log(3.0)]])
    log_z, values, index = soften(logits, np.zeros(3), [2.0], 3)
    np.testing.assert_allclose(densify(values, index, 3), [[0.5, 0.0, 1.5]], rtol=CLOSE)
    assert log_z == pytest.approx(2 * np.log(4.0))
    assert index.min() >= 0


def test_a_row_without_components_is_not_finite():
    assert not np.isfinite(soften(np.full((3, 1), -np.inf), np.zeros(3), [1.0], 2)[0])


def test_shares_that_underflow_are_zero():
    _, values, _ = soften(np.array([[0.0], [-800.0]]), np.zeros(2), [1.0], 2)
    assert sorted(values[0]) == [0.0, 1.0]


# ---- statistics ----------------------------------------------------------------------------------
def some_shares(n: int, K: int, L: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and index of random shares, some zero."""
    rng = np.random.default_rng(seed)
    index = np.array([rng.choice(K, L, replace=False) for _ in range(n)], dtype=np.int32)
    values = rng.dirichlet(np.ones(L), n)
    values[rng.random((n, L)) < 0.2] = 0.0
    return values, index


@pytest.mark.parametrize(
    ("n", "K", "L", "P"), [(1, 1, 1, 1), (7, 5, 2, 3), (19, 6, 6, 70), (40, 9, 3, 150)]
)
def test_statistics_are_those_of_the_dense_table(n, K, L, P):
    rng = np.random.default_rng(n)
    values, index = some_shares(n, K, L, n)
    table, start = rng.normal(size=(n, P)), rng.normal(size=(K, P))
    out = start.copy()
    fast.add_sparse(table, values, index, out)
    np.testing.assert_allclose(
        out, start + densify(values, index, K).T @ table, rtol=CLOSE, atol=CLOSE
    )


def full_features(rows: np.ndarray) -> np.ndarray:
    """(P, n) from rows (n, D)."""
    D = rows.shape[1]
    a, b = np.triu_indices(D)
    return np.ascontiguousarray(
        np.concatenate([np.ones((len(rows), 1)), rows, rows[:, a] * rows[:, b]], axis=1).T
    )


@pytest.mark.parametrize("D", [1, 2, 7, 13])
def test_full_features_are_made_on_the_way(D):
    rng = np.random.default_rng(D)
    features = full_features(rng.normal(size=(17, D)))
    P, K = len(features), 5
    values, index = some_shares(17, K, 2, D)
    expected, found = np.zeros((K, P)), np.zeros((K, P))
    fast.add_sparse(np.ascontiguousarray(features.T), values, index, expected)
    fast.add_sparse_full(features, D, values, index, found)
    np.testing.assert_array_equal(found, expected)
    coefficients = rng.normal(size=(K, P))
    index[3, 1] = -1
    out, full = np.empty((17, 2)), np.empty((17, 2))
    fast.dot_sparse(np.ascontiguousarray(features.T), coefficients, index, out)
    fast.dot_sparse_full(features, D, coefficients, index, full)
    np.testing.assert_array_equal(full, out)
    expected = np.take_along_axis((coefficients @ features).T, np.maximum(index, 0), axis=1)
    expected[3, 1] = -np.inf
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-11)  # P terms in another order


@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (8, 8), (17, 9), (64, 33)])
def test_transpose(shape):
    source = np.random.default_rng(0).normal(size=shape)
    out = np.empty(shape[::-1])
    fast.transpose(source, out)
    np.testing.assert_array_equal(out, source.T)


def test_symbols_of_chosen_components():
    rng = np.random.default_rng(1)
    n, D, V, K = 12, 3, 7, 5
    symbols, table = rng.integers(-1, V, (n, D)), rng.normal(size=(V, K))
    values, index = some_shares(n, K, 2, 1)
    shares = densify(values, index, K)
    found = np.zeros((V, K)), np.zeros((D, K))
    fast.scatter_sparse_symbols(symbols, values, index, *found)
    for ours, theirs in zip(found, slow.scatter_symbols(symbols, shares, V), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=CLOSE, atol=CLOSE)
    index[0, 0] = -1
    out = np.empty((n, 2))
    fast.gather_sparse(table, symbols, index, out)
    expected = np.take_along_axis(slow.gather_symbols(table, symbols), np.maximum(index, 0), axis=1)
    expected[0, 0] = -np.inf
    np.testing.assert_allclose(out, expected, rtol=CLOSE, atol=CLOSE)


def test_counts_of_chosen_components():
    rng = np.random.default_rng(2)
    n, V, K = 12, 9, 5
    counts = sparse.csr_array(rng.poisson(0.6, (n, V)).astype(float))
    parts = counts.indptr.astype(np.int64), counts.indices.astype(np.int64), counts.data
    values, index = some_shares(n, K, 3, 2)
    out = np.zeros((V, K))
    fast.scatter_sparse_counts(*parts, values, index, out)
    np.testing.assert_allclose(out, counts.T @ densify(values, index, K), rtol=CLOSE, atol=CLOSE)
    table = rng.normal(size=(V, K))
    index[4, 2] = -1
    found = np.empty((n, 3))
    fast.multiply_sparse(*parts, table, index, found)
    expected = np.take_along_axis(counts @ table, np.maximum(index, 0), axis=1)
    expected[4, 2] = -np.inf
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


@given(K=st.integers(2, 7), n=small, seed=seeds)
@LAW
def test_pair_entropies_are_those_of_the_dense_table(K, n, seed):
    rng = np.random.default_rng(seed)
    values, index = some_shares(n, K, int(rng.integers(1, K + 1)), seed)
    # in any order, some twice
    pairs = np.array([rng.choice(K, 2, replace=False) for _ in range(6)])
    low, high = pairs.min(1), pairs.max(1)
    order = np.argsort(low, kind="stable")
    found, expected = np.zeros(6), np.zeros(6)
    fast.merge_entropy_sparse(
        values, index, np.searchsorted(low[order], np.arange(K + 1)), high[order], order, found
    )
    shares = densify(values, index, K)
    merge_entropy(np.ascontiguousarray(shares.T), pairs, expected)
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)
    both = shares[:, pairs[:, 0]] + shares[:, pairs[:, 1]]
    change = xlogy(shares[:, pairs], shares[:, pairs]).sum((0, 2)) - xlogy(both, both).sum(0)
    np.testing.assert_allclose(found, change, rtol=1e-10, atol=CLOSE)


def test_log_z_of_the_best_is_what_scipy_says():
    logits, share, repeats = make(9, 5, 11)
    top = -np.sort(-(logits + share[:, None]), axis=0)[:3]
    assert soften(logits, share, repeats, 3)[0] == pytest.approx(
        repeats @ logsumexp(top, axis=0), rel=CLOSE
    )
