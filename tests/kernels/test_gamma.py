"""The gamma function and its kin, against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from stickbreak.kernels.compile import kernel
from stickbreak.kernels.gamma import digamma_fast, exp_digamma, log_fast, log_gamma_fast
from stickbreak.kernels.vectors import load, store


@kernel
def all_of_eight(x, out):
    for i in range(0, x.shape[0], 8):
        value = load(x, i)
        store(out, i, log_fast(value))
        store(out, x.shape[0] + i, digamma_fast(value))
        store(out, 2 * x.shape[0] + i, log_gamma_fast(value))
        store(out, 3 * x.shape[0] + i, exp_digamma(value))


@kernel
def all_of_one(x, out):
    for i in range(x.shape[0]):
        out[0, i] = log_fast(x[i])
        out[1, i] = digamma_fast(x[i])
        out[2, i] = log_gamma_fast(x[i])
        out[3, i] = exp_digamma(x[i])


def reference(x):
    return np.array([np.log(x), special.digamma(x), special.gammaln(x), np.exp(special.digamma(x))])


@pytest.mark.parametrize("compute", [all_of_eight, all_of_one])
def test_equal_to_scipy(compute):
    x = np.concatenate([np.geomspace(1e-15, 1e12, 4000), np.linspace(0.01, 20, 4000)])
    out = np.empty((4, len(x)))
    compute(x, out)
    np.testing.assert_allclose(out, reference(x), rtol=2e-12, atol=2e-13)


def test_exponential_of_digamma_is_relatively_exact_until_it_is_lost():
    x = np.geomspace(2e-3, 1e12, 8000)  # exp(-500) and above
    out = np.empty((4, len(x)))
    all_of_eight(x, out)
    np.testing.assert_allclose(out[3], np.exp(special.digamma(x)), rtol=3e-12)


def test_exponential_of_digamma_is_lost_below():
    out = np.empty((4, 8))
    all_of_eight(np.full(8, 1e-12), out)
    assert (out[3] == 0).all()


@given(st.floats(1e-300, 1e300))
def test_logarithm_of_any_normal_number(x):
    out = np.empty((4, 1))
    all_of_one(np.array([x]), out)
    np.testing.assert_allclose(out[0], np.log(x), rtol=1e-15, atol=1e-15)


@given(st.floats(1e-6, 1e6))
def test_recurrences(x):
    """Digamma(x + 1) = digamma(x) + 1 / x, and log Gamma(x + 1) = log Gamma(x) + log x."""
    out = np.empty((4, 2))
    all_of_one(np.array([x, x + 1.0]), out)
    np.testing.assert_allclose(out[1, 1], out[1, 0] + 1.0 / x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(out[2, 1], out[2, 0] + np.log(x), rtol=1e-9, atol=1e-12)
