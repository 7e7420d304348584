"""How far the rows of a component are from what a Gaussian expects."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.families import Gaussian, Poisson
from stickbreak.families.normality import departure

RNG = np.random.default_rng(0)
N = 2_000


def of(rows, followed=None, **more):
    return float(departure(np.asarray(rows), np.ones((len(rows), 1)), followed, **more)[0])


def test_gaussian_rows_fit_whatever_their_scale_and_direction():
    rows = RNG.standard_normal((N, 3)) @ np.array([[3.0, 1.0, 0.0], [0.0, 1e-3, 0.0], [1, 1, 1e4]])
    assert of(rows + 1e6) < 4.0  # the largest of seven |z|


@pytest.mark.parametrize(
    "rows",
    [
        RNG.standard_normal((N, 2)) + 3.0 * RNG.integers(0, 2, (N, 1)),
        RNG.standard_normal((N, 2)) * np.where(RNG.random((N, 1)) < 0.5, 1.0, 3.0),
        np.r_[RNG.standard_normal((N, 2)), [[12.0, 12.0]] * 3],
        # skewness and kurtosis nearly those of a Gaussian
        np.repeat([[-15.0], [0.0], [15.0]], (10, 150, 40), axis=0) + RNG.standard_normal((200, 2)),
        RNG.exponential(size=(N, 2)),
    ],
    ids=["two means", "two widths", "three rows far away", "three means", "skewed"],
)
def test_two_clusters_in_one_component_do_not(rows):
    assert of(rows) > 6.0


def test_overlapping_states_show_in_the_order_of_rows_only():
    state = np.repeat(RNG.integers(0, 2, 100), 20)
    rows = RNG.standard_normal((N, 1)) + state[:, None]
    followed = np.arange(N - 1)
    assert of(rows) < 4.0
    assert of(rows, followed) > 6.0
    assert of(RNG.permutation(rows), followed) < 4.0


def test_columns_of_a_diagonal_component_must_not_go_together():
    x = RNG.standard_normal((N, 1))
    rows = np.hstack([x, 0.5 * x + RNG.standard_normal((N, 1))])
    assert of(rows) < 4.0
    assert of(rows, is_diagonal=True) > 6.0


def test_many_columns_do_not_make_a_misfit():
    found = [of(RNG.standard_normal((500, 20))) for _ in range(100)]
    assert np.mean(np.array(found) > 3.0) < 0.1  # one in two, if each of 61 |z| counted alone
    assert np.mean(np.array(found) > 2.0) < 0.2


def test_shares_weigh_rows_of_overlapping_components():
    means = np.array([0.0, 2.0])
    rows = RNG.standard_normal((2 * N, 1)) + means[RNG.integers(0, 2, 2 * N)][:, None]
    logits = -0.5 * (rows - means) ** 2
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert (departure(rows, shares, None) < 4.0).all()
    # halves of each cluster by a border are not Gaussian
    hard = (shares > 0.5).astype(float)
    assert (departure(rows, hard, None) > 6.0).all()


def test_constant_columns_few_rows_and_missing_entries():
    rows = np.c_[RNG.standard_normal((50, 1)), np.full((50, 1), 7.0)]
    assert of(rows) < 4.0
    assert of(np.zeros((50, 2))) == 0.0
    assert of(RNG.exponential(size=(7, 2))) == 0.0
    assert departure(np.array([[np.nan, 1.0]] * 9), np.ones((9, 1)), None) is None
    assert Poisson().misfit(rows, np.ones((50, 1))) is None
    assert Gaussian().misfit(rows, np.ones((50, 1))) is not None
