"""Forward-backward against all paths: counts, laws, impossible events, gaps of hundreds of nats,
NaN, repeatability.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chain_cases import CLOSE, INF, Case, gap_case, make_case
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from stickbreak.kernels.chain import smooth as chain

LAW = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def run(case: Case, weights: Any = None) -> tuple[np.ndarray, ...]:
    """log_z, shares (K, n), start, transition."""
    K = len(case.log_start)
    start, transition = np.zeros(K), np.zeros((K, K))
    log_z, shares = chain.smooth(*case, weights, start=start, transition=transition)
    assert shares.flags.c_contiguous
    return log_z, shares, start, transition


def assert_right(case: Case, weights: Any = None) -> None:
    for found, expected in zip(run(case, weights), case.oracle(weights), strict=True):
        np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


@given(
    K=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    seed=seeds,
    spread=st.sampled_from([0.0, 1.0, 20.0, 400.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.5]),
    masks=st.sampled_from([0.0, 0.5]),
    weighted=st.booleans(),
)
@LAW
def test_all_paths(K, lengths, seed, spread, zeros, masks, weighted):
    case = make_case(K, lengths, seed, spread, zeros, masks)
    assert_right(
        case, np.random.default_rng(seed).gamma(1.0, 2.0, len(lengths)) if weighted else None
    )


def test_gaps_of_900_nats():
    assert_right(gap_case(900.0))
    assert_right(gap_case(1e5))


@pytest.mark.parametrize(
    "gap", [500.0, 590.0, 600.0, 650.0, 700.0, 707.0, 709.0, 720.0, 745.0, 750.0]
)
def test_gaps_near_the_limit_of_doubles(gap):
    assert_right(gap_case(gap))


def test_a_lost_state_that_becomes_the_only_one():
    """State 1 is 800 nats down in the first row, so zero in the linear domain, and the only one in
    the second.
    """
    evidence = np.array([[0.0, -INF, 0.0], [-800.0, 0.0, 0.0]])
    transition = np.array([[0.0, -INF], [-INF, 0.0]])
    case = Case(evidence, np.zeros(2), transition, np.array([0, 3]))
    assert run(case)[0][0] == pytest.approx(-800.0)
    assert_right(case)


def test_counts_are_added():
    case = make_case(3, [4, 2], 0)
    start, transition = np.full(3, 5.0), np.full((3, 3), 7.0)
    chain.smooth(*case, start=start, transition=transition)
    _, _, expected_start, expected_transition = case.oracle()
    np.testing.assert_allclose(start, 5 + expected_start, rtol=CLOSE)
    np.testing.assert_allclose(transition, 7 + expected_transition, rtol=CLOSE)


def test_an_impossible_sequence_and_nan_leave_the_others_alone():
    case = make_case(3, [3, 4, 2, 5], 1)
    good = make_case(3, [3, 4, 2, 5], 1)
    case.evidence_t[:, 4] = -INF
    case.evidence_t[1, 8] = np.nan
    log_z, shares, start, transition = run(case)
    assert log_z[1] == -INF
    assert np.isnan(log_z[2])
    assert (shares[:, 3:7] == 0).all()
    expected = good.oracle(np.array([1.0, 0.0, 0.0, 1.0]))
    np.testing.assert_allclose(log_z[[0, 3]], expected[0][[0, 3]], rtol=CLOSE)
    np.testing.assert_allclose(
        shares[:, [0, 1, 2, 9, 10, 11, 12, 13]],
        expected[1][:, [0, 1, 2, 9, 10, 11, 12, 13]],
        rtol=CLOSE,
    )
    np.testing.assert_allclose(start, expected[2], rtol=CLOSE)
    np.testing.assert_allclose(transition, expected[3], rtol=CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_the_derivative_of_log_z_is_the_count(seed):
    """Of every potential: start, transition, evidence. Central differences of 1e-4: truncation
    1e-9, rounding 1e-11.
    """
    case = make_case(4, [6, 1, 9, 3], seed, spread=1.0)
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    _, shares, start, transition = run(case, weights)
    for values, counts in (
        (case.evidence_t, shares),
        (case.log_start, start),
        (case.log_transition, transition),
    ):
        for at in list(np.ndindex(values.shape))[:: 1 + values.size // 20]:
            before = values[at]
            sides = []
            for step in (1e-4, -1e-4):
                values[at] = before + step
                sides.append(float(weights @ run(case)[0]))
            values[at] = before
            assert (sides[0] - sides[1]) / 2e-4 == pytest.approx(counts[at], abs=1e-7)


@given(
    K=st.integers(1, 20), lengths=st.lists(st.integers(1, 70), min_size=1, max_size=30), seed=seeds
)
@LAW
def test_sums(K, lengths, seed):
    """Rows sum to the weight, steps to the rows that have a next one, and steps into and out of
    states to their shares.
    """
    case, S = make_case(K, lengths, seed), len(lengths)
    weights = np.random.default_rng(seed).gamma(1.0, 2.0, S)
    _, shares, start, transition = run(case, weights)
    first, last = case.offsets[:-1], case.offsets[1:] - 1
    np.testing.assert_allclose(shares.sum(0), np.repeat(weights, lengths), rtol=CLOSE)
    np.testing.assert_allclose(start, shares[:, first].sum(1), rtol=CLOSE)
    np.testing.assert_allclose(
        transition.sum(1), shares.sum(1) - shares[:, last].sum(1), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        transition.sum(0), shares.sum(1) - shares[:, first].sum(1), rtol=1e-9, atol=1e-9
    )


def test_log_z_is_energy_plus_entropy():
    case = make_case(5, [12], 3)
    log_z, shares, start, transition = run(case)
    energy = (
        (shares * case.evidence_t).sum()
        + start @ case.log_start
        + (transition * case.log_transition).sum()
    )
    steps = [
        run(
            case._replace(
                evidence_t=np.ascontiguousarray(case.evidence_t[:, :t]), offsets=np.array([0, t])
            )
        )[0][0]
        for t in (12,)
    ]
    assert steps[0] == log_z[0]
    pairs = pair_posteriors(case)
    entropy = (
        -xlogy(shares[:, 0], shares[:, 0]).sum()
        - xlogy(pairs, pairs / pairs.sum(2, keepdims=True)).sum()
    )
    assert log_z[0] == pytest.approx(energy + entropy, rel=1e-12)


def pair_posteriors(case: Case) -> np.ndarray:
    """(T - 1, K, K) of one sequence, from the derivative law: counts of the chain that ends one row
    later, less those before.
    """
    K, T = case.evidence_t.shape
    _, shares, _, _ = run(case)
    out = np.empty((T - 1, K, K))
    for t in range(T - 1):
        for i in range(K):  # p(z_t = i, z_(t + 1)) = p(z_t = i) p(z_(t + 1) | z_t = i)
            held = case.evidence_t.copy()
            held[np.arange(K) != i, t] = -INF
            out[t, i] = shares[i, t] * run(case._replace(evidence_t=held))[1][:, t + 1]
    return out


def test_missing_rows_and_one_state():
    case = make_case(4, [5, 3], 7)
    case.evidence_t[:, [1, 5, 6, 7]] = 0.0
    assert_right(case)
    single = make_case(1, [5, 1, 3], 8)
    log_z, shares, start, transition = run(single)
    assert_right(single)
    assert (shares == 1.0).all()
    assert (start[0], transition[0, 0]) == (3.0, pytest.approx(6.0))
    assert np.isfinite(log_z).all()


def test_a_path_without_steps():
    """All steps are forbidden: sequences of one row are possible, others are not."""
    case = Case(np.zeros((2, 3)), np.zeros(2), np.full((2, 2), -INF), np.array([0, 1, 3]))
    log_z, shares, _, transition = run(case)
    np.testing.assert_allclose(log_z, [np.log(2.0), -INF])
    assert (transition == 0).all()
    assert (shares[:, 0] == 0.5).all()


@pytest.mark.parametrize("K", [1, 5, 12, 50])
def test_the_same_bits_every_time(K):
    lengths = np.random.default_rng(K).integers(1, 60, 40)
    case = make_case(K, lengths, K)
    first = run(case)
    for _ in range(20):
        for found, expected in zip(run(case), first, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_arguments_are_not_written_to():
    case = make_case(6, [30, 3, 8], 2)
    copies = [a.copy() for a in case]
    run(case)
    for found, expected in zip(case, copies, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("K", [3, 40])
def test_a_state_that_cannot_be_reached_explains_everything_better(K):
    """By 50 nats in each of 60 rows: what the rows after t say of it, scaled, is e^3000."""
    case = make_case(K, [60, 58, 3, 60, 20], 6)
    held = case._replace(evidence_t=case.evidence_t.copy())
    case.evidence_t[0] += 50.0
    case.log_start[0], case.log_transition[1:, 0] = -INF, -INF
    held.evidence_t[0] = -INF
    for found, expected in zip(run(case), run(held), strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=CLOSE)


def test_shares_may_replace_the_evidence():
    case = make_case(7, np.random.default_rng(3).integers(1, 30, 50), 1, spread=300.0)
    expected = run(case)
    start, transition = np.zeros(7), np.zeros((7, 7))
    tables = chain.linear_tables(case.log_start, case.log_transition)
    log_z, shares = chain.smooth(
        *case, start=start, transition=transition, out=case.evidence_t, tables=tables
    )
    assert shares is case.evidence_t
    for found, theirs in zip((log_z, shares, start, transition), expected, strict=True):
        np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize("K", [1, 2, 5, 12, 31, 50])
def test_a_sequence_has_the_same_bits_in_any_company(K):
    """Alone, in blocks of any size, in any order: nothing that is computed for one sequence depends
    on another.
    """
    lengths = np.random.default_rng(K).integers(1, 50, 90)
    case = make_case(K, lengths, K)
    log_z, shares, _, _ = run(case)
    for first, last in ((0, 1), (0, 2), (1, 8), (5, 90), (40, 60)):
        part = slice(case.offsets[first], case.offsets[last])
        some = case._replace(
            evidence_t=np.ascontiguousarray(case.evidence_t[:, part]),
            offsets=case.offsets[first : last + 1] - case.offsets[first],
        )
        found = run(some)
        np.testing.assert_array_equal(found[0], log_z[first:last])
        np.testing.assert_array_equal(found[1], shares[:, part])


@pytest.mark.parametrize("K", [1, 3, 5, 12, 31, 50])
def test_a_sequence_has_the_same_bits_alone_and_in_lanes(K, monkeypatch):
    case = make_case(K, np.random.default_rng(K).integers(1, 50, 30), K)
    side_by_side = run(case)
    monkeypatch.setattr(chain, "LEAST_SLOTS", 9.0)
    monkeypatch.setattr(chain, "LONG", 0)
    alone = run(case)
    monkeypatch.setattr(chain, "LEAST_SLOTS", 0.0)
    monkeypatch.setattr(chain, "CHUNK_NUMBERS", 64)
    in_chunks = run(case)
    for found in (alone, in_chunks):
        np.testing.assert_array_equal(found[0], side_by_side[0])
        np.testing.assert_array_equal(found[1], side_by_side[1])


SIZES = [
    (5, "LONG", 0), (5, "LEAST_SLOTS", 0.0), (12, "CHUNK_NUMBERS", 256), (40, "CHUNK_NUMBERS", 1),
    (12, "TABLE_NUMBERS", 4800),
]  # fmt: skip


@pytest.mark.parametrize(("K", "name", "value"), SIZES)
def test_blocks_and_chunks_do_not_matter(K, name, value, monkeypatch):
    """Sums in another order: 1e-16 of each term."""
    case = make_case(K, np.random.default_rng(K).integers(1, 90, 200), K)
    expected = run(case)
    monkeypatch.setattr(chain, name, value)
    for found, theirs in zip(run(case), expected, strict=True):
        np.testing.assert_allclose(found, theirs, rtol=1e-11, atol=1e-12)
