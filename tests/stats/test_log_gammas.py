"""Differences of log gammas against 50-digit arithmetic: no digits are lost to large arguments."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stickbreak.kernels.tables import log_gamma_columns
from stickbreak.stats import log_beta, log_gamma_rise, log_mode_beta

EPS = np.finfo(float).eps


def exact_rise(a: float, x: float) -> float:
    with mp.workdps(60 + max(0, int(np.log10(a)), int(np.log10(x) if x else 0))):
        return float(mp.loggamma(mp.mpf(a) + mp.mpf(x)) - mp.loggamma(mp.mpf(a)))


def exact_log_beta(alpha: list[float]) -> float:
    with mp.workdps(60 + max(0, int(np.log10(max(alpha))))):
        parts = [mp.mpf(a) for a in alpha]
        return float(sum(mp.loggamma(a) for a in parts) - mp.loggamma(sum(parts)))


def rounding(a: float, x: float) -> float:
    """What a few roundings of the terms cost: x log a, and a log gamma of at most 1e3.

    The log gamma itself is between them where the argument is small.
    """
    return 8 * EPS * (x * (1.0 + abs(np.log(a + x))) + min(a * abs(np.log(a)), 7e3) + 1.0 + (
        abs(np.log(a)) if a < 1 else 0.0
    ))  # fmt: skip


positive = st.floats(-100.0, 30.0).map(lambda e: 10.0**e)
counts = st.one_of(st.just(0.0), st.floats(-20.0, 17.0).map(lambda e: 10.0**e))


@settings(deadline=None)  # the first call compiles
@given(a=positive, x=counts)
def test_rise_of_one(a, x):
    assert abs(float(log_gamma_rise(a, x)) - exact_rise(a, x)) <= rounding(a, x)


@settings(deadline=None)  # the first call compiles
@given(large=st.floats(3.0, 30.0).map(lambda e: 10.0**e), x=counts)
def test_rise_of_large_numbers_is_the_same_in_a_table(large, x):
    """An entry does not depend on its neighbours, small ones included."""
    both = log_gamma_rise(np.array([large, 2.5]), x)
    assert both[0] == float(log_gamma_rise(large, x))
    assert abs(both[1] - exact_rise(2.5, x)) <= rounding(2.5, x)


@settings(deadline=None)  # the first call compiles
@given(
    alpha=st.lists(st.floats(-30.0, 30.0).map(lambda e: 10.0**e), min_size=1, max_size=6),
)
def test_log_beta(alpha):
    """Rounding of the terms that remain, none of which exceeds the others' sum times its log.

    Up to 1e6 the log gammas are added as they are, each below 2e7.
    """
    others = sum(sorted(alpha)[:-1])
    logs = 1.0 + abs(np.log(alpha)).sum()
    allowed = 8 * EPS * ((1.0 + others) * logs + 2e7)
    assert abs(float(log_beta(np.array(alpha))) - exact_log_beta(alpha)) <= allowed


@settings(deadline=None)
@given(
    alpha=st.lists(st.floats(-30.0, 30.0).map(lambda e: 10.0**e), min_size=1, max_size=6),
)
def test_log_mode_beta(alpha):
    with mp.workdps(100):
        parts = [mp.mpf(a) for a in alpha]
        exact = float(sum(a * mp.log(a / sum(parts)) for a in parts))
    others = sum(sorted(alpha)[:-1])
    logs = 1.0 + abs(np.log(alpha)).sum()
    allowed = 8 * EPS * ((1.0 + others) * logs + 2e7)
    assert abs(float(log_mode_beta(np.array(alpha))) - exact) <= allowed


@pytest.mark.parametrize("concentration", [1e-12, 0.5, 1e3, 1e12, 1e17, 1e30])
def test_columns_of_a_table(concentration):
    table = np.array([[0.0, 3.0], [40.0, 2.5], [1e6, 1e-9]])
    found = np.empty(2)
    log_gamma_columns(table, concentration, found)
    for k in range(2):
        exact = sum(exact_rise(concentration, x) for x in table[:, k])
        allowed = sum(rounding(concentration, x) for x in table[:, k])
        # the fast log gamma of small arguments is exact to 1e-13
        assert abs(found[k] - exact) <= allowed + 1e-12


def test_shapes():
    assert log_gamma_rise(2.0, np.ones((3, 4))).shape == (3, 4)
    assert log_gamma_rise(np.full((5, 1), 1e9), np.ones(3)).shape == (5, 3)
    assert log_beta(np.ones((4, 3))).shape == (4,)
    np.testing.assert_allclose(log_beta(np.ones((4, 3))), -np.log(2.0), rtol=1e-15)
