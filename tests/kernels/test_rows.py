"""Row kernels against their slow twins: random shapes, one of everything, impossible events,
underflow, NaN.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import kernels as slow
from scipy import sparse

from stickbreak.kernels import rows as fast
from stickbreak.kernels.compile import kernel
from stickbreak.kernels.rows import exp_fast

LAW = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 9)
INF, NAN = np.inf, np.nan
# Sums of at most some hundred terms: a few 1e-14; exp_fast adds 1e-14 of its own.
CLOSE = 1e-12


def softmax(logits: Any, log_share: Any = None, repeats: Any = None) -> tuple[float, np.ndarray]:
    """log_z and shares; the kernel works in place, so on a copy."""
    table = np.array(logits, dtype=float, order="C")
    K, n = table.shape
    share = np.zeros(K) if log_share is None else np.asarray(log_share, dtype=float)
    log_z = fast.softmax_rows(
        table, share, np.ones(n) if repeats is None else np.asarray(repeats, dtype=float)
    )
    return log_z, table


def best(logits: Any, log_share: Any = None) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(logits, dtype=float, order="C")
    found, value = np.empty(table.shape[1], dtype=np.int64), np.empty(table.shape[1])
    fast.best_rows(
        table, np.zeros(len(table)) if log_share is None else np.asarray(log_share), found, value
    )
    return found, value


# ---- exp -----------------------------------------------------------------------------------------
@kernel
def exp_all(x, out):
    """The inlined function, over an array."""
    for i in range(x.shape[0]):
        out[i] = exp_fast(x[i])


def exp_of(values: Any) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    out = np.empty_like(x)
    exp_all(x, out)
    return out


def test_exp_is_accurate_to_1e_14() -> None:
    halves = np.arange(0, 1400) * np.log(2.0) / 2  # where the reduced argument is largest
    rng = np.random.default_rng(0)
    x = -np.concatenate(
        [halves[halves < 708], rng.uniform(0, 708, 3000), np.logspace(-20, 2, 500), [0.0, 707.999]]
    )
    with mp.workdps(40):
        exact = np.array([float(mp.exp(mp.mpf(float(v)))) for v in x])
    np.testing.assert_allclose(exp_of(x), exact, rtol=1e-14)  # what its docstring promises
    assert exp_of([0.0])[0] == 1.0


def test_exp_underflows_to_zero() -> None:
    assert (exp_of([-708.0, -708.0001, -745.0, -2000.0, -1e300, -INF]) == 0.0).all()


def test_exp_of_nan_is_nan() -> None:
    assert np.isnan(exp_of([NAN])[0])


# ---- softmax -------------------------------------------------------------------------------------
@given(K=sizes, n=sizes, seed=seeds, spread=st.sampled_from([0.1, 5.0, 300.0, 2000.0]))
@LAW
def test_softmax_equals_its_twin(K: int, n: int, seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    logits, share, repeats = (
        rng.normal(0, spread, (K, n)),
        rng.normal(size=K),
        rng.gamma(1.0, 2.0, n),
    )
    log_z, shares = softmax(logits, share, repeats)
    exact_z, exact = slow.softmax_rows(logits, share, repeats)
    assert log_z == pytest.approx(exact_z, rel=CLOSE, abs=CLOSE)
    # Rounding of logits up to 1e4 is 2e-12 in a share; shares below exp(-708) are zero.
    np.testing.assert_allclose(shares, exact, rtol=1e-11, atol=1e-290)
    np.testing.assert_allclose(shares.sum(0), repeats, rtol=CLOSE)


@pytest.mark.parametrize("shift", [0.0, 1e8, -1e8, 700.0, -700.0, -1e300])
def test_softmax_does_not_overflow(shift: float) -> None:
    log_z, shares = softmax(np.full((3, 2), shift))
    np.testing.assert_allclose(shares, 1 / 3, rtol=CLOSE)
    assert log_z == pytest.approx(2 * (shift + np.log(3.0)), rel=CLOSE)


def test_softmax_of_impossible_components_is_exactly_zero() -> None:
    logits = np.array([[-INF, 0.0, -1.0], [2.0, -INF, -INF], [1.0, 0.0, -INF]])
    log_z, shares = softmax(logits)
    exact_z, exact = slow.softmax_rows(logits, np.zeros(3), np.ones(3))
    assert log_z == pytest.approx(exact_z, rel=CLOSE)
    np.testing.assert_allclose(shares, exact, rtol=CLOSE)
    assert shares[0, 0] == shares[1, 1] == shares[1, 2] == 0.0
    assert shares[0, 2] == 1.0
    assert (softmax(np.zeros((2, 3)), [-INF, 0.0])[1] == [[0.0] * 3, [1.0] * 3]).all()


def test_softmax_over_gaps_of_2000_nats_is_one_hot() -> None:
    log_z, shares = softmax([[0.0, -2000.0], [-2000.0, 0.0], [-4000.0, -2000.5]])
    np.testing.assert_array_equal(shares, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert log_z == 0.0


def test_softmax_of_one_component_gives_all_to_it() -> None:
    log_z, shares = softmax([[3.0, -1e5, 7.0]], [0.5], [1.0, 2.0, 0.0])
    np.testing.assert_array_equal(shares, [[1.0, 2.0, 0.0]])
    assert log_z == pytest.approx(3.5 + 2 * (-1e5 + 0.5), rel=CLOSE)


def test_softmax_of_no_rows_is_nothing() -> None:
    log_z, shares = softmax(np.empty((4, 0)))
    assert log_z == 0.0
    assert shares.shape == (4, 0)


def test_softmax_of_a_row_without_any_possible_component_shows_it() -> None:
    log_z, _ = softmax([[-INF, 0.0], [-INF, 0.0]])
    assert log_z == -INF or np.isnan(log_z)  # the model turns either into an error


ONE_NAN = [[[NAN], [0.0]], [[0.0], [NAN]], [[0.0, 0.0], [NAN, 1.0], [2.0, 2.0]]]


@pytest.mark.parametrize("logits", ONE_NAN)
def test_softmax_of_one_nan_shows_it(logits: Any) -> None:
    log_z, shares = softmax(logits)
    assert np.isnan(log_z) or np.isnan(shares).any()


def test_softmax_with_a_nan_share_shows_it() -> None:
    log_z, shares = softmax(np.zeros((3, 4)), [0.0, NAN, 0.0])
    assert np.isnan(log_z) or np.isnan(shares).any()


@pytest.mark.parametrize("logits", [[[NAN]], [[NAN, 1.0], [NAN, 1.0]], [[INF], [0.0]]])
def test_softmax_of_nothing_but_nan_or_of_infinity_shows_it(logits: Any) -> None:
    log_z, shares = softmax(logits)
    assert not np.isfinite(log_z) or np.isnan(shares).any()


def test_softmax_repeats_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    logits, share, repeats = (
        rng.normal(0, 30, (17, 301)),
        rng.normal(size=17),
        rng.gamma(1.0, 1.0, 301),
    )
    first_z, first = softmax(logits, share, repeats)
    for _ in range(199):
        log_z, shares = softmax(logits, share, repeats)
        assert log_z == first_z
        assert shares.tobytes() == first.tobytes()


@given(K=sizes, n=sizes, seed=seeds)
@LAW
def test_a_row_does_not_depend_on_its_neighbours(K: int, n: int, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(0, 30, (K, n))
    _, together = softmax(logits)
    for i in range(n):
        np.testing.assert_array_equal(softmax(logits[:, i : i + 1])[1][:, 0], together[:, i])


# ---- best component ------------------------------------------------------------------------------
@given(K=sizes, n=sizes, seed=seeds)
@LAW
def test_best_equals_its_twin_and_ties_go_to_the_first(K: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, share = rng.integers(-2, 3, (K, n)).astype(float), rng.integers(-1, 2, K).astype(float)
    logits[rng.random((K, n)) < 0.2] = -INF
    found, value = best(logits, share)
    exact, exact_value = slow.best_rows(logits, share)
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(value, exact_value)


@pytest.mark.parametrize("logits", [[[NAN], [0.0]], [[0.0], [NAN]], [[NAN], [NAN]]])
def test_best_of_a_row_with_nan_shows_it(logits: Any) -> None:
    assert np.isnan(best(logits)[1]).all()


# ---- tables --------------------------------------------------------------------------------------
@given(n=sizes, K=sizes, seed=seeds)
@LAW
def test_pairing_equals_its_twin_and_zero_silences_minus_infinity(
    n: int, K: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights, counts = rng.normal(size=(n, K)), rng.gamma(1.0, 1.0, (n, K))
    impossible = rng.random((n, K)) < 0.3
    weights[impossible], counts[impossible] = -INF, 0.0
    assert fast.pairing(weights, counts) == pytest.approx(
        slow.pairing(weights, counts), rel=CLOSE, abs=CLOSE
    )


def test_pairing_shows_what_is_wrong() -> None:
    assert fast.pairing(np.array([[-INF]]), np.array([[1.0]])) == -INF
    assert np.isnan(fast.pairing(np.array([[NAN, 0.0]]), np.array([[1.0, 1.0]])))
    assert np.isnan(fast.pairing(np.array([[1.0]]), np.array([[NAN]])))


@given(n=sizes, D=st.integers(1, 3), K=sizes, seed=seeds)
@LAW
def test_symbol_tables_equal_their_twins(n: int, D: int, K: int, seed: int) -> None:
    rng, V = np.random.default_rng(seed), 6
    table, symbols, shares = (
        rng.normal(size=(V, K)),
        rng.integers(-1, V, (n, D)),
        rng.random((n, K)),
    )
    out = np.full((n, K), 99.0)  # must be overwritten
    fast.gather_symbols(table, symbols, out)
    np.testing.assert_allclose(out, slow.gather_symbols(table, symbols), rtol=CLOSE, atol=CLOSE)
    counts, totals = np.ones((V, K)), np.ones((D, K))  # must be added to
    fast.scatter_symbols(symbols, shares, counts, totals)
    exact, exact_totals = slow.scatter_symbols(symbols, shares, V)
    np.testing.assert_allclose(counts - 1, exact, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(totals - 1, exact_totals, rtol=CLOSE, atol=CLOSE)
    # gather and scatter are adjoint
    assert (shares * out).sum() == pytest.approx((table * (counts - 1)).sum(), abs=1e-11)


def test_gathered_symbols_keep_minus_infinity_and_nan() -> None:
    out = np.empty((3, 2))
    table = np.array([[0.0, -INF], [NAN, 1.0]])
    fast.gather_symbols(table, np.array([[0, 0], [0, 1], [-1, -1]]), out)
    np.testing.assert_array_equal(out, [[0.0, -INF], [NAN, -INF], [0.0, 0.0]])


@given(n=sizes, V=sizes, K=sizes, seed=seeds)
@LAW
def test_factorials_equal_their_twins(n: int, V: int, K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.poisson(rng.gamma(0.5, 4.0, (n, V))).astype(float)
    alpha, csr = rng.gamma(0.5, 1.0, (V, K)) + 1e-3, sparse.csr_array(matrix)
    bounds, columns = csr.indptr.astype(np.int64), csr.indices.astype(np.int64)
    found = np.zeros(n)
    fast.log_factorials(csr.data, bounds, found)
    np.testing.assert_allclose(found, slow.log_factorials(matrix), rtol=CLOSE, atol=CLOSE)
    judged = np.zeros((n, K))
    fast.dirichlet_multinomial(bounds, columns, csr.data, alpha, alpha.sum(0), judged)
    # lgammas cancel
    np.testing.assert_allclose(
        judged, slow.dirichlet_multinomial(matrix, alpha), rtol=1e-11, atol=1e-10
    )


@given(n=sizes, D=st.integers(1, 4), K=sizes, seed=seeds)
@LAW
def test_poisson_predictive_equals_its_twin(n: int, D: int, K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.poisson(rng.gamma(0.5, 20.0, (n, D))).astype(float)
    shape, rate = rng.gamma(1.0, 5.0, (2, K, D)) + 1e-3
    out = np.empty((n, K))
    fast.poisson_predictive(rows, shape, rate, out)
    # lgammas of size up to 1e3 cancel.
    np.testing.assert_allclose(
        out, slow.poisson_predictive(rows, shape, rate), rtol=1e-11, atol=1e-10
    )


def test_nan_in_counts_shows() -> None:
    out = np.zeros((1, 1))
    fast.poisson_predictive(np.array([[NAN]]), np.ones((1, 1)), np.ones((1, 1)), out)
    assert np.isnan(out[0, 0])
    judged = np.zeros((1, 1))
    fast.dirichlet_multinomial(
        np.array([0, 1]), np.array([0]), np.array([NAN]), np.ones((1, 1)), np.ones(1), judged
    )
    assert np.isnan(judged[0, 0])


def test_log_factorial_of_nan_is_nan() -> None:
    out = np.zeros(1)
    fast.log_factorials(np.array([NAN]), np.array([0, 1]), out)
    assert np.isnan(out[0])
