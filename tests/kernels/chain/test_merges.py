"""Entropies of merged states against the entropy of the merged chain, by all paths."""

from __future__ import annotations

from itertools import combinations

import numba
import numpy as np
import pytest
from chain_cases import Case, gap_case, make_case
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import chain as brute

from stickbreak.kernels.chain import merges

LAW = settings(max_examples=30, deadline=None, derandomize=True)
# Entropies of some nats, added up over some rows; logarithms are cut at NEGLIGIBLE.
CLOSE = 1e-9


def all_pairs(K: int) -> np.ndarray:
    return np.array(list(combinations(range(K), 2)), dtype=np.int64).reshape(-1, 2)


def entropy(case: Case, weights: np.ndarray, merged: np.ndarray) -> float:
    posteriors = [
        brute.smooth(e, case.log_start, case.log_transition)[1:] for e in case.sequences()
    ]
    return float(
        sum(w * brute.markov_entropy(*p, merged) for w, p in zip(weights, posteriors, strict=True))
    )


def assert_right(case: Case, weights: np.ndarray | None = None) -> None:
    """Single merges, and every two disjoint ones."""
    pairs = all_pairs(len(case.log_start))
    gain, cross = merges.merge_gains(*case, weights, pairs)
    repeats = np.ones(len(case.offsets) - 1) if weights is None else weights
    none = entropy(case, repeats, pairs[:0])
    for p, pair in enumerate(pairs):
        assert gain[p] == pytest.approx(entropy(case, repeats, pair[None]) - none, abs=CLOSE)
        for q in range(p):
            if set(pair) & set(pairs[q]):
                assert cross[p, q] == 0.0
            else:
                both = entropy(case, repeats, pairs[[p, q]]) - none
                assert gain[p] + gain[q] + cross[p, q] == pytest.approx(both, abs=CLOSE)
    np.testing.assert_array_equal(cross, cross.T)


@given(
    K=st.integers(2, 5),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 1.0, 20.0, 400.0]),
    zeros=st.sampled_from([0.0, 0.5]),
    weighted=st.booleans(),
)
@LAW
def test_merged_entropies(K, lengths, seed, spread, zeros, weighted):
    case = make_case(K, lengths, seed, spread, zeros=zeros, masks=zeros)
    assert_right(
        case, np.random.default_rng(seed).gamma(1.0, 2.0, len(lengths)) if weighted else None
    )


@pytest.mark.parametrize("gap", [300.0, 900.0])
def test_gaps(gap):
    assert_right(gap_case(gap))


def test_three_merges_at_once():
    """Gains and crosses are all there is: no term of three pairs."""
    case = make_case(6, [4], 3)
    pairs = np.array([[0, 3], [1, 5], [4, 2]])
    gain, cross = merges.merge_gains(*case, None, pairs)
    none = entropy(case, np.ones(1), pairs[:0])
    assert gain.sum() + cross.sum() / 2 == pytest.approx(
        entropy(case, np.ones(1), pairs) - none, abs=CLOSE
    )


def test_many_sequences_are_the_sum_of_each(monkeypatch):
    case = make_case(9, np.random.default_rng(0).integers(1, 30, 40), 5)
    pairs = all_pairs(9)[::3]
    whole = merges.merge_gains(*case, None, pairs)
    monkeypatch.setattr(merges, "WINDOW", 50)
    for found, expected in zip(merges.merge_gains(*case, None, pairs), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=CLOSE)


def test_impossible_sequences_add_nothing():
    case = make_case(3, [4, 3], 1)
    alone = case._replace(
        evidence_t=np.ascontiguousarray(case.evidence_t[:, :4]), offsets=np.array([0, 4])
    )
    expected = merges.merge_gains(*alone, None, all_pairs(3))
    case.evidence_t[:, 5] = -np.inf
    for found, theirs in zip(merges.merge_gains(*case, None, all_pairs(3)), expected, strict=True):
        np.testing.assert_allclose(found, theirs, rtol=1e-12, atol=1e-13)


def test_no_pairs():
    gain, cross = merges.merge_gains(
        *make_case(3, [4, 3], 1), None, np.empty((0, 2), dtype=np.int64)
    )
    assert (gain.shape, cross.shape) == ((0,), (0, 0))


@numba.njit
def log_all(x, out):
    """The inlined function, over an array."""
    for i in range(x.shape[0]):
        out[i] = merges.log_fast(x[i])


def test_log_is_accurate():
    x = np.concatenate(
        [
            np.geomspace(1e-300, 1e300, 5001),
            np.linspace(0.5, 2.0, 5001),
            1.0 + np.geomspace(1e-15, 0.1, 100),
        ]
    )
    out = np.empty_like(x)
    log_all(x, out)
    np.testing.assert_allclose(out, np.log(x), rtol=1e-14, atol=1e-17)
    log_all(np.zeros(1), out[:1])
    assert np.isfinite(out[0])


@given(
    K=st.integers(2, 5),
    L=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 1.0, 20.0, 400.0]),
    weighted=st.booleans(),
)
@LAW
@pytest.mark.slow  # `structures/chain/test_sparse.py` has the other kernels of few states
def test_merged_entropies_of_few_states(K, L, lengths, seed, spread, weighted):
    """Those of the chain in which all other states are masked, also where weights underflow."""
    case, rng = make_case(K, lengths, seed, spread), np.random.default_rng(seed)
    support = np.array([rng.permutation(K) for _ in range(case.offsets[-1])])[:, :L]
    support = np.where(
        (rng.random(support.shape) < 0.2) & (np.arange(support.shape[1]) > 0), -1, support
    )
    masked = np.full_like(case.evidence_t, -np.inf)
    at, place = np.nonzero(support >= 0)
    masked[support[at, place], at] = case.evidence_t[support[at, place], at]
    weights = rng.gamma(1.0, 2.0, len(lengths)) if weighted else None
    pairs, evidence = (
        all_pairs(K),
        np.take_along_axis(case.evidence_t.T, np.maximum(support, 0), axis=1),
    )
    found = merges.merge_gains_sparse(
        evidence, support, case.log_start, case.log_transition, case.offsets, weights, pairs
    )
    assert_right(case._replace(evidence_t=masked), weights)
    expected = merges.merge_gains(masked, *case[1:], weights, pairs)
    for mine, dense in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, dense, atol=CLOSE)
