"""Chains whose rows use a few states: the dense chain with all other states masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chain_cases import CLOSE, INF, Case, gap_case, make_case
from hypothesis import given, settings
from hypothesis import strategies as st

from stickbreak.kernels.chain import smooth as chain
from stickbreak.kernels.chain.sparse import smooth_sparse

LAW = settings(max_examples=40, deadline=None, derandomize=True)


def choose_support(case: Case, L: int, seed: int) -> np.ndarray:
    """(n, L) random states in random order, some places empty."""
    K, n = case.evidence_t.shape
    rng = np.random.default_rng(seed)
    support = np.array(
        [np.r_[rng.permutation(K), np.full(max(L - K, 0), -1)][:L] for _ in range(n)]
    )
    support[(rng.random((n, L)) < 0.15) & (np.arange(L) > 0)] = -1
    return support


def masked(case: Case, support: np.ndarray) -> Case:
    evidence_t = np.full_like(case.evidence_t, -INF)
    at, place = np.nonzero(support >= 0)
    evidence_t[support[at, place], at] = case.evidence_t[support[at, place], at]
    return case._replace(evidence_t=evidence_t)


def run(case: Case, support: np.ndarray, weights: Any = None) -> tuple[np.ndarray, ...]:
    """log_z, dense shares (K, n), start, transition."""
    K, n = case.evidence_t.shape
    start, transition, dense = np.zeros(K), np.zeros((K, K)), np.zeros((K, n))
    compact = np.take_along_axis(case.evidence_t.T, np.maximum(support, 0), axis=1)
    log_z, shares = smooth_sparse(
        compact,
        support,
        case.log_start,
        case.log_transition,
        case.offsets,
        weights,
        start=start,
        transition=transition,
    )
    assert (shares[support < 0] == 0).all() or np.isnan(shares).any()
    np.add.at(dense, (np.maximum(support, 0).T, np.arange(n)), shares.T)
    return log_z, dense, start, transition


def assert_right(case: Case, support: np.ndarray, weights: Any = None) -> None:
    for found, expected in zip(
        run(case, support, weights), masked(case, support).oracle(weights), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


@given(
    K=st.integers(1, 5),
    L=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 1.0, 20.0, 400.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
)
@LAW
def test_all_paths_within_the_support(K, L, lengths, seed, spread, zeros, weighted):
    case = make_case(K, lengths, seed, spread, zeros=zeros)
    weights = np.random.default_rng(seed).gamma(1.0, 2.0, len(lengths)) if weighted else None
    assert_right(case, choose_support(case, L, seed), weights)


@pytest.mark.parametrize("gap", [300.0, 700.0, 900.0])
def test_gaps(gap):
    case = gap_case(gap)
    assert_right(case, np.tile([2, 0, 1, -1], (9, 1)))
    assert_right(case, np.tile([1, 2], (9, 1)))


def test_full_support_is_the_dense_chain():
    case = make_case(20, np.random.default_rng(0).integers(1, 60, 30), 4)
    support = np.array([np.random.default_rng(t).permutation(20) for t in range(case.offsets[-1])])
    start, transition = np.zeros(20), np.zeros((20, 20))
    log_z, shares = chain.smooth(*case, start=start, transition=transition)
    for found, expected in zip(run(case, support), (log_z, shares, start, transition), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_the_bound_rises_with_the_support():
    """log_z over a support is at most log_z over a larger one."""
    case = make_case(10, [50, 20], 5)
    order = np.argsort(-case.evidence_t, axis=0).T
    values = [run(case, np.ascontiguousarray(order[:, :L]))[0] for L in range(1, 11)]
    assert (np.diff(values, axis=0) > 0).all()
    start, transition = np.zeros(10), np.zeros((10, 10))
    np.testing.assert_allclose(
        values[-1], chain.smooth(*case, start=start, transition=transition)[0], rtol=1e-12
    )


def test_impossible_and_nan_leave_the_others_alone():
    case = make_case(4, [3, 3, 3], 2)
    support = np.tile([0, 2], (9, 1))
    good = run(case, support, np.array([1.0, 0.0, 0.0]))
    support[4] = -1
    case.evidence_t[2, 7] = np.nan
    log_z, shares, start, transition = run(case, support)
    assert log_z[0] == good[0][0]
    assert log_z[1] == -INF
    assert np.isnan(log_z[2])
    np.testing.assert_allclose(shares[:, :3], good[1][:, :3], rtol=CLOSE)
    assert (shares[:, 3:6] == 0).all()
    np.testing.assert_allclose(start, good[2], rtol=CLOSE)
    np.testing.assert_allclose(transition, good[3], rtol=CLOSE)
