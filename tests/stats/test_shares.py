"""Shares of a few components are a table like any other, only smaller."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.stats import SparseShares, rows_first, weigh


@pytest.fixture
def shares() -> SparseShares:
    """Seven rows over six components, three each; a place without a component has value 0 and index
    0.
    """
    rng = np.random.default_rng(0)
    index = np.array([rng.choice(6, 3, replace=False) for _ in range(7)], dtype=np.int32)
    values = rng.dirichlet(np.ones(3), 7)
    values[2, 1], index[2, 1] = 0.0, 0
    values[5], index[5] = [2.0, 0.0, 0.0], [4, 0, 0]
    return SparseShares(values, index, 6)


def test_the_dense_table(shares):
    dense = np.asarray(shares)
    assert dense.shape == shares.shape == (7, 6)
    assert dense.T.flags.c_contiguous
    assert (len(shares), shares.ndim) == (7, 2)
    for i in range(7):
        for k in range(6):
            assert dense[i, k] == sum(
                v for v, j in zip(shares.values[i], shares.index[i], strict=True) if j == k
            )
    np.testing.assert_array_equal(shares.T, dense.T)


def test_sums(shares):
    dense = np.asarray(shares)
    for axis in (0, 1, None):
        np.testing.assert_allclose(shares.sum(axis), dense.sum(axis), rtol=1e-14)
    np.testing.assert_array_equal(shares.n_used(), (dense > 0).sum(1))
    np.testing.assert_array_equal(shares.best(), dense.argmax(1))


def test_columns_and_rows(shares):
    dense = np.asarray(shares)
    np.testing.assert_array_equal(shares[:, 4], dense[:, 4])
    np.testing.assert_array_equal(shares[:, [5, 0]], dense[:, [5, 0]])
    np.testing.assert_array_equal(shares[:, 1:3], dense[:, 1:3])
    assert shares[:, []].shape == (7, 0)
    np.testing.assert_array_equal(shares[np.arange(3), [0, 1, 2]], dense[np.arange(3), [0, 1, 2]])
    for rows in (np.array([4, 2]), slice(1, 5), np.arange(7) % 2 == 0):
        some = shares[rows]
        assert isinstance(some, SparseShares)
        np.testing.assert_array_equal(np.asarray(some), dense[rows])


def test_products_and_other_arithmetic(shares):
    dense, rng = np.asarray(shares), np.random.default_rng(1)
    weights, table, means = rng.normal(size=7), rng.normal(size=(3, 7)), rng.normal(size=(6, 2))
    np.testing.assert_allclose(weights @ shares, weights @ dense, rtol=1e-13)
    np.testing.assert_allclose(table @ shares, table @ dense, rtol=1e-13)
    np.testing.assert_allclose(shares @ means, dense @ means, rtol=1e-13)
    np.testing.assert_array_equal(shares / weights[:, None], dense / weights[:, None])
    np.testing.assert_array_equal(weights[:, None] * shares, weights[:, None] * dense)
    np.testing.assert_array_equal(np.log1p(shares), np.log1p(dense))


def test_without(shares):
    expected = np.array(shares)
    expected[:, [1, 4]] = 0.0
    np.testing.assert_array_equal(np.asarray(shares.without([1, 4])), expected)
    assert shares.without([]) is shares


@pytest.mark.parametrize("skip", [None, [0, 3]])
def test_weigh_is_the_same_for_both_kinds(shares, skip):
    table = np.random.default_rng(2).normal(size=(7, 5))
    expected = np.asarray(shares).T @ table + 1.0
    expected[skip or []] = 1.0
    for form in (table, np.asfortranarray(table), table[:, ::1]):
        for given in (shares, np.asarray(shares)):
            out = np.ones((6, 5))
            weigh(given, form, out, skip)
            np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("shape", [(5, 3), (70, 1), (9, 130)])
def test_rows_first(shape):
    table = np.random.default_rng(0).normal(size=shape)
    for form in (table, np.asfortranarray(table)):
        found = rows_first(form)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, table)
    assert rows_first(table) is table
