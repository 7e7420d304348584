"""The states that rows may use: against enumeration of the paths within all supports."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import INF, Case, gap_case, make_case
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import chain as brute

from stickbreak.kernels.chain.single import linear_tables
from stickbreak.kernels.chain.sparse import smooth_sparse
from stickbreak.kernels.chain.support import choose_states

LAW = settings(max_examples=40, deadline=None, derandomize=True)


def choose(case: Case, L: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tables = linear_tables(case.log_start, case.log_transition)
    joint = np.empty((int(np.diff(case.offsets).max()), len(tables.start)))
    return choose_states(case.evidence_t, case.offsets, tables, L, joint)


def log_z(case: Case, support: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    K = len(case.log_start)
    tables = case.log_start, case.log_transition, case.offsets
    return smooth_sparse(
        evidence, support, *tables, start=np.zeros(K), transition=np.zeros((K, K))
    )[0]


@given(
    K=st.integers(1, 5),
    L=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.5, 2.0, 20.0]),
    zeros=st.sampled_from([0.0, 0.3]),
)
@LAW
def test_supports_are_the_best_given_all_others(K, L, lengths, seed, spread, zeros):
    """The same states as by enumeration; log_z is that of paths within them, not less than after
    the first pass alone.
    """
    case = make_case(K, lengths, seed, spread, zeros=zeros)
    support, evidence, is_bad = choose(case, L)
    found = log_z(case, support, evidence)
    for s, rows in enumerate(case.sequences()):
        first, expected = brute.choose_states(rows, case.log_start, case.log_transition, L)
        before, after = (
            brute.smooth(brute.restrict(rows, chosen), case.log_start, case.log_transition)[0]
            for chosen in (first, expected)
        )
        assert is_bad[s] == (before == -INF)
        if not is_bad[s]:
            own = support[case.offsets[s] : case.offsets[s + 1]]
            for row, states in zip(own, expected, strict=True):
                np.testing.assert_array_equal(np.sort(row[row >= 0]), states)
            assert after >= before - 1e-12
            assert found[s] == pytest.approx(after, rel=1e-12)


def test_evidence_is_that_of_the_chosen():
    case = make_case(9, [70, 130, 1], 3)
    support, evidence, is_bad = choose(case, 4)
    assert not is_bad.any()
    assert support.dtype == np.int32
    assert (support >= 0).all()
    assert all(len(set(row)) == 4 for row in support)
    np.testing.assert_array_equal(
        evidence, np.take_along_axis(case.evidence_t.T, support.astype(int), axis=1)
    )


@pytest.mark.parametrize("K", [1, 7, 8, 9, 21])
def test_all_states_are_the_dense_chain(K):
    case = make_case(K, [5, 90, 1], 4)
    support, evidence, _ = choose(case, K)
    np.testing.assert_array_equal(
        np.sort(support, axis=1), np.tile(np.arange(K), (len(support), 1))
    )
    expected = [brute.smooth(case.sequences()[2], case.log_start, case.log_transition)[0]]
    assert log_z(case, support, evidence)[2] == pytest.approx(expected[0], rel=1e-12)


def test_later_rows_bring_back_what_earlier_ones_dropped():
    """The first row prefers states 0 and 1; only state 2 leads to where the last row must be."""
    evidence = np.array([[0.0, 0.0, -5.0, -9.0], [-50.0, -50.0, -50.0, 0.0]])
    transition = np.array(
        [
            [0.0, 0.0, 0.0, -30.0],
            [0.0, 0.0, 0.0, -30.0],
            [-1.0, -1.0, -1.0, 0.0],
            [0.0, 0.0, 0.0, -30.0],
        ]
    )
    case = Case(np.ascontiguousarray(evidence.T), np.zeros(4), transition, np.array([0, 2]))
    first, _ = brute.choose_states(evidence, case.log_start, transition, 2)
    assert first[0].tolist() == [0, 1]
    assert 2 in choose(case, 2)[0][0]


def test_dead_ends_gaps_and_nan_are_told():
    """A chain whose best states lead nowhere, evidence gaps of 900 nats, NaN: other sequences are
    not touched.
    """
    transition = np.array([[-INF, 0.0, -INF], [-INF, -INF, -INF], [-INF, -INF, 0.0]])
    evidence_t = np.array([[0.0, -9.0, -9.0], [-9.0, 0.0, 0.0], [-1.0, -1.0, -1.0]])
    dead = Case(evidence_t, np.zeros(3), transition, np.array([0, 3]))
    assert choose(dead, 1)[2].tolist() == [True]
    assert choose(dead, 2)[2].tolist() == [False]
    gap = gap_case(900.0)
    assert choose(gap, 2)[2].tolist() == [True, False]
    case = make_case(5, [4, 4, 4], 0)
    support = choose(case, 2)[0]
    case.evidence_t[3, 5] = np.nan
    found, _, is_bad = choose(case, 2)
    assert is_bad.tolist() == [False, True, False]
    np.testing.assert_array_equal(
        found[[0, 1, 2, 3, 8, 9, 10, 11]], support[[0, 1, 2, 3, 8, 9, 10, 11]]
    )
