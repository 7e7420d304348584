"""A long chain in pieces gives what the whole gives, however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import INF, Case, gap_case, make_case
from hypothesis import given, settings
from hypothesis import strategies as st

from stickbreak.kernels.chain import paths, pieces
from stickbreak.kernels.chain import smooth as chain

LAW = settings(max_examples=40, deadline=None, derandomize=True)
# Messages are normalized anew at each cut, and logarithms of them taken: some 1e-15 of each.
CLOSE = 1e-10
CUT_CHAINS = {
    "K": st.integers(1, 14),
    "T": st.integers(1, 60),
    "cuts": st.lists(st.integers(1, 59), max_size=8),
    "seed": st.integers(0, 2**32 - 1),
    "spread": st.sampled_from([1.0, 20.0, 300.0, 2000.0]),
    "zeros": st.sampled_from([0.0, 0.5]),
}


def whole(case: Case, weight: float = 1.0) -> tuple:
    K = len(case.log_start)
    start, transition = np.zeros(K), np.zeros((K, K))
    log_z, shares = chain.smooth(*case, np.array([weight]), start=start, transition=transition)
    return log_z[0], shares, start, transition


def joined(case: Case, cuts: list[int], weight: float = 1.0) -> tuple:
    K, n = case.evidence_t.shape
    bounds = [0, *sorted({c for c in cuts if 0 < c < n}), n]
    start, transition, shares = np.zeros(K), np.zeros((K, K)), np.full((K, n), np.nan)
    evidence = lambda begin, end: np.ascontiguousarray(case.evidence_t[:, begin:end])
    tables = case.log_start, case.log_transition
    checkpoints = pieces.forward_pieces(evidence, bounds, *tables)
    for begin, end, part in pieces.smooth_pieces(
        evidence, bounds, checkpoints, *tables, weight, start=start, transition=transition
    ):
        shares[:, begin:end] = part
    return checkpoints.log_z, shares, start, transition


def assert_equal(found: tuple, expected: tuple) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=CLOSE, atol=CLOSE)


@given(**CUT_CHAINS, weight=st.sampled_from([1.0, 3.5, 0.0]))
@LAW
def test_any_pieces(K, T, cuts, seed, spread, zeros, weight):
    case = make_case(K, [T], seed, spread, zeros=zeros, masks=zeros)
    assert_equal(joined(case, cuts, weight), whole(case, weight))


def drawn(case: Case, cuts: list[int], uniforms: np.ndarray) -> tuple[np.ndarray, bool]:
    n = case.evidence_t.shape[1]
    bounds = [0, *sorted({c for c in cuts if 0 < c < n}), n]
    evidence = lambda begin, end: np.ascontiguousarray(case.evidence_t[:, begin:end])
    tables, path = (case.log_start, case.log_transition), np.full(n, -1)
    checkpoints = pieces.forward_pieces(evidence, bounds, *tables)
    for begin, end, part in pieces.draw_pieces(evidence, bounds, checkpoints, *tables, uniforms):
        path[begin:end] = part
    return path, checkpoints.exact


@given(**CUT_CHAINS)
@LAW
def test_paths_drawn_in_pieces_are_those_of_the_whole(K, T, cuts, seed, spread, zeros):
    """A path differs only where a uniform number is within rounding of an edge: none of
    these is.
    """
    case, uniforms = (
        make_case(K, [T], seed, spread, zeros=zeros, masks=zeros),
        np.random.default_rng(seed).random(T),
    )
    np.testing.assert_array_equal(drawn(case, cuts, uniforms)[0], paths.draw(*case, uniforms)[0])


def test_paths_are_drawn_in_logs_where_the_linear_domain_fails():
    case, uniforms = gap_case(), np.random.default_rng(0).random(5)
    case = case._replace(
        evidence_t=np.ascontiguousarray(case.evidence_t[:, :5]), offsets=np.array([0, 5])
    )
    expected = paths.draw(*case, uniforms)[0]
    found = [drawn(case, cuts, uniforms) for cuts in ([1], [2], [3], [4], [1, 2, 3, 4])]
    for path, _ in found:
        np.testing.assert_array_equal(path, expected)
    assert any(exact for _, exact in found)


@pytest.mark.parametrize("cuts", [[], [1], [2], [3], [4], [1, 2, 3, 4]])
def test_gaps_at_the_cuts(cuts):
    case = gap_case()
    case = case._replace(
        evidence_t=np.ascontiguousarray(case.evidence_t[:, :5]), offsets=np.array([0, 5])
    )
    assert_equal(joined(case, cuts), case.oracle()[:1] + case.oracle()[1:])


def test_a_state_lost_in_one_piece_is_found_in_the_next():
    case = Case(
        np.array([[0.0, -INF, 0.0], [-800.0, 0.0, 0.0]]),
        np.zeros(2),
        np.array([[0.0, -INF], [-INF, 0.0]]),
        np.array([0, 3]),
    )
    for cuts in ([1], [2], [1, 2]):
        assert_equal(joined(case, cuts), (-800.0, *case.oracle()[1:]))


def test_a_piece_leaves_what_the_filter_knows():
    case = make_case(4, [30], 3)
    message, log_scale = pieces.forward_piece(
        case.evidence_t, None, case.log_start, case.log_transition
    )
    exact, exact_scale = pieces.forward_piece(
        case.evidence_t, None, case.log_start, case.log_transition, exact=True
    )
    np.testing.assert_allclose(message, exact, rtol=CLOSE, atol=CLOSE)
    assert np.exp(message).sum() == pytest.approx(1.0)
    assert log_scale == pytest.approx(whole(case)[0])
    assert exact_scale == pytest.approx(log_scale)


def test_impossible_and_nan():
    case = make_case(3, [12], 0)
    tables = case.log_start, case.log_transition
    for value, expected in ((-INF, -INF), (np.nan, np.nan)):
        case.evidence_t[:, 7] = value
        evidence = lambda begin, end: np.ascontiguousarray(case.evidence_t[:, begin:end])
        checkpoints = pieces.forward_pieces(evidence, [0, 5, 10, 12], *tables)
        np.testing.assert_equal(checkpoints.log_z, expected)
        with pytest.raises(ValueError, match="has no posterior"):
            list(
                pieces.smooth_pieces(
                    evidence,
                    [0, 5, 10, 12],
                    checkpoints,
                    *tables,
                    start=np.zeros(3),
                    transition=np.zeros((3, 3)),
                )
            )
        with pytest.raises(ValueError, match="has no posterior"):
            list(pieces.draw_pieces(evidence, [0, 5, 10, 12], checkpoints, *tables, np.zeros(12)))
