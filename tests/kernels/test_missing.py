"""Rows with a missing part, under a full covariance, against a slow twin: by precision and by
factor.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.missing import condition

from stickbreak.families.partial import PartialRows, divide_rows
from stickbreak.kernels import missing as fast

LAW = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
# Sums of at most 7 terms, condition numbers up to 1e3.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def make_case(n: int, D: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows about the mean (n, D) with NaN, each with at least one entry, and a covariance with its
    lower factor.
    """
    rng = np.random.default_rng(seed)
    factor = np.linalg.cholesky(np.cov(rng.normal(size=(D, 3 * D))) + 0.1 * np.eye(D))
    rows = rng.normal(size=(n, D))
    holes = rng.random((n, D)) < 0.4
    holes[np.arange(n), rng.integers(0, D, n)] = False
    return np.where(holes, np.nan, rows), factor @ factor.T, factor


def divide(rows: np.ndarray) -> PartialRows:
    return divide_rows(
        np.isnan(rows), np.vstack([np.ones(len(rows)), rows.T]), np.zeros(rows.shape[1])
    )


def judge(
    parts: PartialRows, covariance: np.ndarray, factor: np.ndarray, way: str
) -> tuple[np.ndarray, np.ndarray]:
    """Form (n,) and log det P_mm (n,) of each partial row."""
    form, log_det = np.full(len(parts.z), np.nan), np.full(len(parts.n_seen), np.nan)
    pattern = (parts.columns, parts.n_seen, parts.starts)
    if way == "factor":
        fast.judge_by_factor(parts.z, *pattern, factor, form, log_det)
    else:
        precision = np.linalg.inv(covariance)
        fast.judge_by_precision(parts.z, parts.z @ precision, *pattern, precision, form, log_det)
    return form, np.repeat(log_det, np.diff(parts.starts))


def complete(
    parts: PartialRows, covariance: Any, factor: Any, shares: np.ndarray, way: str
) -> tuple[np.ndarray, np.ndarray]:
    """Completed rows (n, D) and the sum (D, D) of shares times covariances."""
    D = len(factor)
    away, spread = parts.z.copy(), np.zeros((D, D))
    pattern = (parts.columns, parts.n_seen, parts.starts)
    if way == "factor":
        fast.complete_by_factor(*pattern, factor, shares, away, spread)
    else:
        precision = np.linalg.inv(covariance)
        fast.complete_by_precision(parts.z @ precision, *pattern, precision, shares, away, spread)
    return away, spread


WAYS = st.sampled_from(["factor", "precision"])


@given(n=st.integers(1, 30), D=st.integers(2, 7), seed=seeds, way=WAYS)
@LAW
def test_partial_rows_equal_their_twin(n: int, D: int, seed: int, way: str) -> None:
    rows, covariance, factor = make_case(n, D, seed)
    parts, precision = divide(rows), np.linalg.inv(covariance)
    form, log_det = judge(parts, covariance, factor, way)
    shares = np.random.default_rng(seed).random(len(parts.z))
    filled, spread = complete(parts, covariance, factor, shares, way)
    expected_spread = np.zeros((D, D))
    for i, place in enumerate(parts.places):
        expected = condition(precision, rows[place])
        np.testing.assert_allclose([form[i], log_det[i]], expected[:2], **CLOSE)
        np.testing.assert_allclose(filled[i], expected[2], **CLOSE)
        expected_spread += shares[i] * expected[3]
    np.testing.assert_allclose(spread, expected_spread, **CLOSE)


@given(n=st.integers(1, 30), D=st.integers(1, 20), seed=seeds)
@LAW
def test_divided_rows_are_all_there_once(n: int, D: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    missing = rng.random((n, D)) < rng.choice([0.05, 0.5, 0.95])
    features = np.where(
        np.vstack([np.zeros((1, n), dtype=bool), missing.T]), np.nan, rng.normal(size=(1 + D, n))
    )
    parts = divide_rows(missing, features, np.arange(1.0, D + 1))
    lost = missing.sum(1)
    np.testing.assert_array_equal(parts.complete, np.flatnonzero(lost == 0))
    np.testing.assert_array_equal(np.sort(parts.places), np.flatnonzero((lost > 0) & (lost < D)))
    np.testing.assert_array_equal(parts.features, features[:, parts.complete])
    np.testing.assert_array_equal(parts.z, np.where(missing, 0.0, features[1:].T)[parts.places])
    np.testing.assert_array_equal(parts.seen, ~missing[parts.places])
    np.testing.assert_array_equal(parts.n_missing, lost[parts.places])
    np.testing.assert_allclose(
        parts.log_scale, missing[parts.places] @ np.arange(1.0, D + 1), rtol=1e-12
    )
    known = [tuple(row) for row in missing[parts.places]]
    assert len(set(known)) == len(parts.n_seen)  # a pattern each
    for p, seen in enumerate(parts.n_seen):
        for i in range(parts.starts[p], parts.starts[p + 1]):
            np.testing.assert_array_equal(
                parts.columns[p, :seen], np.flatnonzero(~missing[parts.places[i]])
            )
            np.testing.assert_array_equal(
                parts.columns[p, seen:], np.flatnonzero(missing[parts.places[i]])
            )
    whole = parts.join(np.full((2, len(parts.complete)), 1.0), np.full((2, len(parts.places)), 2.0))
    np.testing.assert_array_equal(
        whole, np.tile(np.where(lost == 0, 1.0, np.where(lost < D, 2.0, 0.0)), (2, 1))
    )


@pytest.mark.parametrize("way", ["factor", "precision"])
def test_rows_without_a_share_are_left_alone(way: str) -> None:
    rows, covariance, factor = make_case(20, 4, 3)
    parts = divide(rows)
    shares = np.where(np.arange(len(parts.z)) % 2, 0.5, 0.0)
    filled, spread = complete(parts, covariance, factor, shares, way)
    np.testing.assert_array_equal(filled[::2], parts.z[::2])
    again, half = complete(
        divide(rows[np.sort(parts.places[1::2])]), covariance, factor, shares[shares > 0], way
    )
    np.testing.assert_allclose(np.sort(filled[1::2], axis=0), np.sort(again, axis=0), **CLOSE)
    np.testing.assert_allclose(spread, half, **CLOSE)


@pytest.mark.parametrize("way", ["factor", "precision"])
def test_nan_shows(way: str) -> None:
    parts = divide(np.array([[1.0, np.nan, 2.0]]))
    broken = np.diag([1.0, np.nan, 1.0])
    form, log_det = judge(parts, broken, broken, way)
    assert np.isnan(log_det).all() or np.isnan(form).all()


def test_the_factor_keeps_what_a_badly_conditioned_precision_loses() -> None:
    """Two columns nearly equal (1e-8 apart), a third about a millionth of their width away:
    condition 1e16.
    """
    factor = np.array([[1.0, 0.0, 0.0], [1.0, 1e-8, 0.0], [1.0, 0.3e-6, 1e-6]])
    rows = np.array(
        [[0.7, 0.7 + 2e-8, np.nan], [np.nan, -1.2, -1.2 + 3e-6], [0.4, np.nan, 0.4 - 1e-6]]
    )
    parts = divide(rows)
    form, log_det = judge(parts, factor @ factor.T, factor, "factor")
    for i, place in enumerate(parts.places):
        with mp.workdps(50):
            o = [int(d) for d in np.flatnonzero(~np.isnan(rows[place]))]
            exact = mp.matrix(factor.tolist()) * mp.matrix(factor.tolist()).T
            block = mp.matrix([[exact[a, b] for b in o] for a in o])
            a = mp.matrix([mp.mpf(float(rows[place, d])) for d in o])
            size, volume = (
                (a.T * mp.inverse(block) * a)[0],
                mp.log(mp.det(block)) - mp.log(mp.det(exact)),
            )
        # the data themselves hold 1e-16 / 1e-8 of the difference of the two columns
        np.testing.assert_allclose([form[i], log_det[i]], [float(size), float(volume)], rtol=1e-7)


def test_results_repeat_bit_for_bit() -> None:
    rows, covariance, factor = make_case(50, 5, 9)
    parts = divide(rows)
    for way in ("factor", "precision"):
        first = judge(parts, covariance, factor, way)[0].tobytes()
        assert all(judge(parts, covariance, factor, way)[0].tobytes() == first for _ in range(20))
