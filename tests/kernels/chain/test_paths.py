"""Best paths, random paths and filters against all paths."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from chain_cases import CLOSE, INF, Case, gap_case, make_case
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import chain as brute

from stickbreak.kernels.chain import paths
from stickbreak.kernels.chain import smooth as chain

LAW = settings(max_examples=40, deadline=None, derandomize=True)
cases = st.builds(
    make_case,
    K=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 1.0, 20.0, 400.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.5]),
    masks=st.sampled_from([0.0, 0.5]),
)
GAPS = [gap_case(gap) for gap in (500.0, 700.0, 745.0, 900.0, 1e5)]


def assert_best(case: Case) -> None:
    """The value is that of the best path, and the path has that value (another one may be
    as good).
    """
    path, value = paths.viterbi(*case)
    for s, evidence in enumerate(case.sequences()):
        mine = path[case.offsets[s] : case.offsets[s + 1]]
        _, best = brute.best_path(evidence, case.log_start, case.log_transition)
        assert value[s] == pytest.approx(best, rel=CLOSE, abs=CLOSE)
        reached = (
            case.log_start[mine[0]]
            + evidence[np.arange(len(mine)), mine].sum()
            + case.log_transition[mine[:-1], mine[1:]].sum()
        )
        assert reached == pytest.approx(best, rel=CLOSE, abs=CLOSE)


def assert_filtered(case: Case) -> None:
    shares, log_step = paths.filtered(*case)
    expected = [brute.filtered(e, case.log_start, case.log_transition) for e in case.sequences()]
    np.testing.assert_allclose(
        shares, np.concatenate([e[0] for e in expected]), rtol=CLOSE, atol=CLOSE
    )
    np.testing.assert_allclose(
        log_step, np.concatenate([e[1] for e in expected]), rtol=CLOSE, atol=1e-10
    )


def assert_drawn(case: Case, seed: int = 0) -> None:
    uniforms = np.random.default_rng(seed).random(case.evidence_t.shape[1])
    path, log_z = paths.draw(*case, uniforms)
    np.testing.assert_allclose(log_z, case.oracle()[0], rtol=CLOSE, atol=CLOSE)
    expected = [
        brute.draw(
            e, case.log_start, case.log_transition, uniforms[case.offsets[s] : case.offsets[s + 1]]
        )
        for s, e in enumerate(case.sequences())
    ]
    np.testing.assert_array_equal(path, np.concatenate(expected))


@given(case=cases)
@LAW
def test_viterbi_is_the_best_of_all_paths(case):
    assert_best(case)


def in_pieces(case: Case, cuts: list[int]) -> tuple[np.ndarray, float]:
    """The best path of the first sequence, cut there, and its value."""
    n = int(case.offsets[1])
    bounds = [0, *sorted({c for c in cuts if 0 < c < n}), n]
    evidence = lambda begin, end: np.ascontiguousarray(case.evidence_t[:, begin:end])
    found = list(paths.viterbi_pieces(evidence, bounds, case.log_start, case.log_transition))
    assert [(begin, end) for begin, end, _, _ in reversed(found)] == list(pairwise(bounds))
    assert len({repr(value) for *_, value in found}) == 1
    return np.concatenate([path for _, _, path, _ in reversed(found)]), found[0][3]


@given(
    K=st.integers(1, 14),
    T=st.integers(1, 60),
    cuts=st.lists(st.integers(1, 59), max_size=8),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 1.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.5]),
)
@LAW
def test_viterbi_in_pieces_has_the_same_bits(K, T, cuts, seed, spread, zeros):
    case = make_case(K, [T], seed, spread, zeros=zeros, masks=zeros)
    path, value = paths.viterbi(*case)
    found = in_pieces(case, cuts)
    np.testing.assert_array_equal(found[0], path)
    assert found[1] == value[0]


def test_viterbi_in_pieces_of_what_is_impossible_and_of_nan():
    case = make_case(3, [12], 0)
    for value in (-INF, np.nan):
        case.evidence_t[:, 7] = value
        np.testing.assert_equal(in_pieces(case, [5, 9])[1], value)


def test_viterbi_in_pieces_asks_for_the_last_piece_once():
    case, asked = make_case(3, [20], 0), []

    def evidence(begin: int, end: int) -> np.ndarray:
        asked.append(begin)
        return np.ascontiguousarray(case.evidence_t[:, begin:end])

    list(paths.viterbi_pieces(evidence, [0, 8, 16, 20], case.log_start, case.log_transition))
    assert asked == [0, 8, 16, 8, 0]


@given(case=cases)
@LAW
def test_filtered_is_what_the_rows_so_far_say(case):
    assert_filtered(case)


@given(case=cases, seed=st.integers(0, 99))
@LAW
def test_draw_follows_the_conditionals_of_all_paths(case, seed):
    assert_drawn(case, seed)


@pytest.mark.parametrize("case", GAPS)
def test_gaps(case):
    assert_best(case)
    assert_filtered(case)
    assert_drawn(case)


def test_of_equal_paths_viterbi_takes_the_first_states():
    path, value = paths.viterbi(np.zeros((3, 4)), np.zeros(3), np.zeros((3, 3)), np.array([0, 4]))
    np.testing.assert_array_equal(path, 0)
    assert value[0] == 0.0


def test_frequencies_of_random_paths():
    """20,000 draws of one short chain: every path within five standard errors of its posterior."""
    case, n = make_case(2, [3], 5, spread=1.0), 20_000
    many = case._replace(evidence_t=np.tile(case.evidence_t, n), offsets=np.arange(0, 3 * n + 1, 3))
    drawn = paths.draw(*many, np.random.default_rng(0).random(3 * n))[0].reshape(n, 3)
    states, weights = brute.log_weights(case.sequences()[0], case.log_start, case.log_transition)
    chance = np.exp(weights - np.logaddexp.reduce(weights))
    seen = np.array([(drawn == s).all(1).mean() for s in states])
    assert (np.abs(seen - chance) < 5 * np.sqrt(chance * (1 - chance) / n) + 1e-12).all()


def test_extreme_uniforms_never_choose_an_impossible_state():
    case = make_case(4, [5, 5], 3, zeros=0.6, masks=0.5)
    for uniform in (0.0, np.nextafter(1.0, 0.0)):
        path, _ = paths.draw(*case, np.full(10, uniform))
        assert (case.evidence_t[path, np.arange(10)] > -INF).all()
        for a, b in ((0, 5), (5, 10)):
            assert (case.log_transition[path[a : b - 1], path[a + 1 : b]] > -INF).all()


def test_filter_step_is_filtered_one_row_at_a_time():
    case = make_case(5, [40], 9)
    shares, log_step = paths.filtered(*case)
    message = None
    for t in range(40):
        message, step = paths.filter_step(
            message, case.evidence_t[:, t], case.log_start, case.log_transition
        )
        np.testing.assert_allclose(np.exp(message), shares[t], rtol=CLOSE, atol=CLOSE)
        assert step == pytest.approx(log_step[t], rel=CLOSE, abs=CLOSE)


def test_filter_step_keeps_what_is_hundreds_of_nats_down():
    case = gap_case()
    message, total = None, 0.0
    for t in range(5):
        message, step = paths.filter_step(
            message, case.evidence_t[:, t], case.log_start, case.log_transition
        )
        total += step
    assert total == pytest.approx(case.oracle()[0][0], rel=CLOSE)


def test_filtered_steps_sum_to_log_z():
    case = make_case(12, np.random.default_rng(1).integers(1, 40, 30), 4)
    _, log_step = paths.filtered(*case)
    log_z, _ = chain.smooth(*case, start=np.zeros(12), transition=np.zeros((12, 12)))
    np.testing.assert_allclose(np.add.reduceat(log_step, case.offsets[:-1]), log_z, rtol=1e-12)


def test_impossible_rows_and_nan():
    case = make_case(3, [3, 4, 2], 1)
    good = paths.filtered(*case)
    case.evidence_t[:, 4] = -INF
    case.evidence_t[1, 8] = np.nan
    shares, log_step = paths.filtered(*case)
    np.testing.assert_allclose(shares[:4], good[0][:4], rtol=CLOSE)  # its sequence is done in logs
    assert (shares[4:7] == 0).all()
    assert (log_step[4:7] == -INF).all()
    assert log_step[7] == pytest.approx(good[1][7], rel=CLOSE)
    assert np.isnan(log_step[8])
    _, value = paths.viterbi(*case)
    assert value[1] == -INF
    assert np.isnan(value[2])
    path, _ = paths.draw(*case, np.full(9, 0.5))
    assert ((path >= 0) & (path < 3)).all()
