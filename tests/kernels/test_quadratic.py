"""Quadratic features against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import kernels as slow

from stickbreak.families import columns, moments
from stickbreak.kernels import quadratic as fast

LAW = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
# One subtraction, one product with a reciprocal, one square: a few units in the last place, and
# cancellation near zero.
CLOSE = {"rtol": 1e-13, "atol": 1e-13}


def made(rows: np.ndarray, center: np.ndarray, scale: np.ndarray, fill: str) -> np.ndarray:
    """Features (P, n) into an array full of NaN, so that every entry must be written."""
    n, D = rows.shape
    width = moments.n_full(D) if fill == "full" else columns.n_diagonal(D)
    out = np.full((width, n), np.nan)
    fast.standardize(rows, center, 1.0 / scale, out)
    (fast.full_features if fill == "full" else fast.diagonal_features)(out, D)
    return out


@given(
    n=st.integers(1, 20),
    D=st.integers(1, 6),
    seed=seeds,
    dtype=st.sampled_from([np.float64, np.float32]),
)
@LAW
def test_features_equal_their_twins(n: int, D: int, seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    rows, center, scale = (
        rng.normal(3, 2, (n, D)).astype(dtype),
        rng.normal(size=D),
        rng.gamma(2.0, 1.0, D) + 0.1,
    )
    wide = rows.astype(float)  # rows of single precision are widened before anything is subtracted
    np.testing.assert_allclose(
        made(rows, center, scale, "full"), slow.full_features(wide, center, scale), **CLOSE
    )
    np.testing.assert_allclose(
        made(rows, center, scale, "diagonal"), slow.diagonal_features(wide, center, scale), **CLOSE
    )


@given(n=st.integers(1, 20), D=st.integers(1, 5), seed=seeds)
@LAW
def test_prepared_rows_are_the_features(n: int, D: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, center, scale = (
        rng.integers(-9, 9, (n, D)),
        rng.normal(size=D),
        rng.gamma(2.0, 1.0, D) + 0.1,
    )
    for given_rows in (rows, np.asfortranarray(rows.astype(float)), rows.astype(float)[::1]):
        np.testing.assert_allclose(
            moments.prepare_full(given_rows, center, scale),
            slow.full_features(rows, center, scale),
            **CLOSE,
        )
        np.testing.assert_allclose(
            columns.prepare_diagonal(given_rows, center, scale),
            slow.diagonal_features(rows, center, scale),
            **CLOSE,
        )


@given(
    n=st.integers(1, 20),
    D=st.integers(1, 5),
    seed=seeds,
    fill=st.sampled_from(["full", "diagonal"]),
)
@LAW
def test_shifted_features_are_those_of_another_centre(n: int, D: int, seed: int, fill: str) -> None:
    rng = np.random.default_rng(seed)
    rows, shift = rng.normal(size=(n, D)), rng.normal(size=D)
    features = made(rows, np.zeros(D), np.ones(D), fill)
    out = np.full_like(features, np.nan)
    fast.shifted_features(features, shift, D, out)
    (fast.full_features if fill == "full" else fast.diagonal_features)(out, D)
    np.testing.assert_allclose(out, made(rows, shift, np.ones(D), fill), **CLOSE)


@given(D=st.integers(1, 6), K=st.integers(1, 4), seed=seeds)
@LAW
def test_unpacking_upper_triangles_gives_symmetric_matrices(D: int, K: int, seed: int) -> None:
    half = np.random.default_rng(seed).normal(size=(K, D, D))
    matrices = half + half.transpose(0, 2, 1)
    packed = matrices[:, *np.triu_indices(D)]
    assert packed.shape == (K, moments.n_full(D) - 1 - D)
    np.testing.assert_array_equal(moments.unpack_symmetric(packed, D), matrices)


@given(D=st.integers(1, 5), seed=seeds)
@LAW
def test_products_are_packed_like_matrices(D: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(1, D))
    features = made(rows, np.zeros(D), np.ones(D), "full")
    np.testing.assert_allclose(
        moments.unpack_symmetric(features[1 + D :].T, D)[0], np.outer(rows[0], rows[0]), **CLOSE
    )


@pytest.mark.parametrize("fill", ["full", "diagonal"])
def test_nan_and_infinity_come_out(fill: str) -> None:
    rows = np.array([[1.0, np.nan], [np.inf, 2.0], [0.5, 0.5]])
    with np.errstate(invalid="ignore"):
        features = made(rows, np.zeros(2), np.ones(2), fill)
    assert np.isnan(features[2, 0])
    assert np.isnan(features[-1, 0])  # its square
    assert features[1, 1] == features[3, 1] == np.inf
    assert np.isfinite(features[:, 2]).all()


@pytest.mark.parametrize("fill", ["full", "diagonal"])
def test_features_repeat_bit_for_bit(fill: str) -> None:
    rng = np.random.default_rng(2)
    rows, center, scale = rng.normal(size=(101, 4)), rng.normal(size=4), rng.gamma(2.0, 1.0, 4)
    first = made(rows, center, scale, fill).tobytes()
    assert all(made(rows, center, scale, fill).tobytes() == first for _ in range(199))


def test_no_rows_are_no_features() -> None:
    assert made(np.empty((0, 3)), np.zeros(3), np.ones(3), "full").shape == (10, 0)
