"""Identities of minimal exponential families, and golden values, checked on the oracle formulas."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from oracles import conjugate, minimal
from oracles.cases import Case, as_rows, cases
from oracles.minimal import smat, svec
from scipy import integrate, optimize

CASES = cases()
every_family = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def numeric_gradient(f: Any, at: np.ndarray) -> np.ndarray:
    """Central differences, step 1e-5: truncation about 1e-10 f''', rounding about 1e-16 f
    / 1e-5.
    """
    step = 1e-5
    return np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(len(at))])


@every_family
def test_density_is_the_textbook_density(case: Case) -> None:
    for phi in case.phis:
        for x in case.X:
            # A handful of terms of size <= 100: rounding of a few 1e-14.
            expected = case.family.textbook_log_density(x, phi)
            assert case.family.log_density(x, phi) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@every_family
def test_gradient_of_c_is_the_mean_statistic(case: Case) -> None:
    for phi in case.phis:
        expected = case.family.expectation(case.family.s, phi)
        # The nodes are exact up to rounding, summed over at most some hundred terms.
        np.testing.assert_allclose(case.family.mean(phi), expected, rtol=1e-11, atol=1e-11)
        # Finite differences (see numeric_gradient).
        np.testing.assert_allclose(
            numeric_gradient(case.family.c, phi), expected, rtol=1e-6, atol=1e-6
        )


@every_family
def test_gradients_of_cP_are_E_phi_and_minus_E_c(case: Case) -> None:
    f = case.family
    for tau, nu in [(case.tau, case.nu), f.posterior(case.X, case.tau, case.nu)]:
        by_tau = numeric_gradient(lambda t, nu=nu: f.cP(t, nu), tau)
        by_nu = numeric_gradient(lambda n, tau=tau: f.cP(tau, float(n[0])), np.array([nu]))
        # Finite differences (see numeric_gradient).
        np.testing.assert_allclose(by_tau, f.E_phi(tau, nu), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(-by_nu[0], f.E_c(tau, nu), rtol=1e-6, atol=1e-6)


@every_family
def test_prior_mode_has_mean_parameter_tau_over_nu(case: Case) -> None:
    """The gradient of tau.phi - nu c(phi) is tau - nu mu(phi)."""
    f = case.family
    mode = f.natural(case.tau / case.nu)
    # The slope vanishes at the mode; central differences are good to about 1e-8 here.
    slope = numeric_gradient(lambda p: case.tau @ p - case.nu * f.c(p), mode)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


SCALAR = {
    "bernoulli": (-np.inf, np.inf),
    "fixed-variance": (-np.inf, np.inf),
    "zero-mean-1d": (-np.inf, 0.0),
    "poisson": (-60.0, 8.0),
}


def scalar_integral(case: Case, limits: tuple[float, float], weight: Any) -> float:
    """integral weight(phi) exp(tau phi - nu c(phi) - cP(tau, nu)) dphi."""
    f = case.family
    shift = f.cP(case.tau, case.nu)

    def integrand(p: float) -> float:
        phi = np.array([p])
        c = f.c(phi)
        return (
            weight(phi) * float(np.exp(case.tau[0] * p - case.nu * c - shift))
            if np.isfinite(c)
            else 0.0
        )

    return float(integrate.quad(integrand, *limits, epsabs=1e-12, epsrel=1e-11, limit=400)[0])


@pytest.mark.parametrize("name", SCALAR)
def test_cP_and_expectations_are_the_integrals(name: str) -> None:
    case = CASES[name]
    f = case.family
    # Adaptive quadrature asked for 1e-11; the cut tails (Poisson, below phi = -60) hold exp(-84) of
    # the mass.
    assert scalar_integral(case, SCALAR[name], lambda p: 1.0) == pytest.approx(1.0, abs=1e-9)
    e_phi = scalar_integral(case, SCALAR[name], lambda p: p[0])
    e_c = scalar_integral(case, SCALAR[name], f.c)
    e_mu = scalar_integral(case, SCALAR[name], lambda p: f.mean(p)[0])
    assert e_phi == pytest.approx(f.E_phi(case.tau, case.nu)[0], abs=1e-8)
    assert e_c == pytest.approx(f.E_c(case.tau, case.nu), abs=1e-8)
    assert e_mu == pytest.approx(case.tau[0] / case.nu, abs=1e-8)


def test_one_dimensional_cases_of_cP_agree() -> None:
    zero, full, diag = minimal.ZeroMeanGaussian(1), minimal.Gaussian(1), minimal.DiagonalGaussian(1)
    # The same closed form up to the order of a few additions.
    scalar = minimal.ZeroMeanGaussian1D().cP(np.array([2.0]), 3.0)
    assert zero.cP(np.array([2.0]), 3.0) == pytest.approx(scalar, abs=1e-13)
    tau = np.array([0.8, 2.5])
    assert full.cP(tau, 0.7) == pytest.approx(diag.cP(tau, 0.7), abs=1e-13)


@every_family
def test_chain_rule_of_predictives(case: Case) -> None:
    f, total, tau, nu = case.family, 0.0, case.tau, case.nu
    for x in case.X:
        total += f.log_predictive(x, tau, nu)
        tau, nu = f.posterior([x], tau, nu)
    # Some ten log-gammas of size <= 50 each: 1e-13; 1e-10 leaves room for the Student-t code of
    # scipy.
    assert total == pytest.approx(f.log_marginal(case.X, case.tau, case.nu), abs=1e-10)


@pytest.mark.parametrize("name", SCALAR)
def test_marginal_likelihood_is_the_integral(name: str) -> None:
    case = CASES[name]

    def likelihood(phi: np.ndarray) -> float:
        return float(np.exp(sum(case.family.textbook_log_density(x, phi) for x in case.X[:2])))

    limits = (
        (-40.0, 8.0)
        if name == "poisson"
        else (-40.0, 40.0)
        if name != "zero-mean-1d"
        else (-40.0, -1e-12)
    )
    value = scalar_integral(case, limits, likelihood)
    # Quadrature error below 1e-10 of an integral of size 1e-2 or less; tails beyond the limits are
    # below exp(-30).
    assert np.log(value) == pytest.approx(
        case.family.log_marginal(case.X[:2], case.tau, case.nu), abs=1e-7
    )


@every_family
def test_rich_and_minimal_models_agree(case: Case) -> None:
    X, w = as_rows(case), np.ones(len(case.X))
    tau, nu = case.family.posterior(case.X, case.tau, case.nu)
    # Two routes through the same few terms of size <= 100.
    assert case.rich.log_marginal(X, w) == pytest.approx(
        case.family.log_marginal(case.X, case.tau, case.nu), rel=1e-12, abs=1e-11
    )
    for x, row in zip(case.X, X, strict=True):
        expected = case.family.expected_log_likelihood(x, tau, nu)
        assert case.rich.expected_log_likelihood(row, X, w) == pytest.approx(
            expected, rel=1e-11, abs=1e-11
        )
        expected = case.family.log_predictive(x, tau, nu)
        assert case.rich.log_predictive(row, X, w) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@every_family
def test_weighted_rich_model(case: Case) -> None:
    """predictive = marginal with the row added at weight 1, and d log_marginal / d w_n = E[log
    p(x_n)].
    """
    X, w = as_rows(case), np.linspace(0.2, 1.3, len(case.X))
    for x in X:
        joint = case.rich.log_marginal(np.vstack([X, x]), np.append(w, 1.0))
        # A difference of two numbers of size <= 100.
        expected = joint - case.rich.log_marginal(X, w)
        assert case.rich.log_predictive(x, X, w) == pytest.approx(expected, abs=1e-10)
    slope = numeric_gradient(lambda u: case.rich.log_marginal(X, u), w)
    exact = [case.rich.expected_log_likelihood(x, X, w) for x in X]
    # The bound is stationary in q, so only the explicit weight counts.  Finite differences (see
    # numeric_gradient).
    np.testing.assert_allclose(slope, exact, rtol=1e-6, atol=1e-6)


@every_family
def test_single_cluster_bound_is_the_log_marginal(case: Case) -> None:
    f = case.family
    best = f.posterior(case.X, case.tau, case.nu)
    exact = f.log_marginal(case.X, case.tau, case.nu)
    # Slack terms cancel to rounding of terms of size <= 100.
    assert f.l_data(case.X, case.tau, case.nu, *best) == pytest.approx(exact, abs=1e-11)
    other = f.posterior(case.X[1:], 1.3 * case.tau, 1.3 * case.nu)
    assert f.l_data(case.X, case.tau, case.nu, *other) < exact


@every_family
def test_bregman_is_the_kl_divergence(case: Case) -> None:
    f = case.family
    for i, a in enumerate(case.phis):
        for j, b in enumerate(case.phis):
            divergence = f.bregman(f.mean(a), f.mean(b))
            # The nodes integrate log-density ratios exactly; rounding of terms of size <= 100.
            assert divergence == pytest.approx(f.kl(a, b), rel=1e-10, abs=1e-11)
            assert (divergence > 1e-3) == (i != j)


def test_closed_forms_of_the_divergence() -> None:
    # Each closed form has under ten terms of order one.
    a, b = CASES["zero-mean"].family, CASES["zero-mean"].phis
    A, B = smat(a.mean(b[0]), 2), smat(a.mean(b[1]), 2)
    ratio = A @ np.linalg.inv(B)
    logdet_form = (np.trace(ratio) - np.log(np.linalg.det(ratio)) - 2) / 2
    assert a.bregman(svec(A), svec(B)) == pytest.approx(logdet_form, abs=1e-12)
    p, q = np.array([0.3]), np.array([0.6])
    assert minimal.Bernoulli().bregman(p, q) == pytest.approx(
        0.3 * np.log(0.5) + 0.7 * np.log(0.7 / 0.4), abs=1e-14
    )
    assert minimal.Poisson().bregman(p, q) == pytest.approx(0.3 * np.log(0.5) + 0.3, abs=1e-14)
    assert minimal.FixedVarianceGaussian(0.5).bregman(p, q) == pytest.approx(0.09, abs=1e-14)


@every_family
def test_nearest_mean_is_the_most_likely_cluster(case: Case) -> None:
    """s(x) is moved a fraction 1e-7 inwards where the dual is infinite; the shift is the same for
    every cluster.
    """
    f, eps = case.family, 1e-7
    inner = f.mean(sum(case.phis) / len(case.phis))
    for x in case.X:
        s = (1 - eps) * f.s(x) + eps * inner
        score = np.array([-f.bregman(s, f.mean(phi)) for phi in case.phis])
        density = np.array([f.log_density(x, phi) for phi in case.phis])
        assert np.argmax(score) == np.argmax(density)
        # Moving s(x) by eps changes differences by eps |s - inner| |phi_a - phi_b| <= 1e-7 * 100.
        np.testing.assert_allclose(score - score[0], density - density[0], atol=1e-5)


@every_family
def test_density_from_the_divergence_where_finite(case: Case) -> None:
    f = case.family
    for x in case.X:
        if np.isfinite(f.gam(f.s(x))):
            for phi in case.phis:
                # Terms of size <= 100.
                expected = -f.bregman(f.s(x), f.mean(phi)) + f.gam(f.s(x)) + f.h(x)
                assert f.log_density(x, phi) == pytest.approx(expected, abs=1e-11)


@every_family
def test_round_trip(case: Case) -> None:
    f = case.family
    for phi in case.phis:
        mu = f.mean(phi)
        # Two well-conditioned (2, 2) inversions at most.
        np.testing.assert_allclose(f.natural(mu), phi, rtol=1e-11, atol=1e-12)
        assert f.gam(mu) == pytest.approx(mu @ phi - f.c(phi), abs=1e-11)
        # phi = grad gam(mu), finite differences.
        np.testing.assert_allclose(numeric_gradient(f.gam, mu), phi, rtol=1e-6, atol=1e-6)


@every_family
def test_map_mean(case: Case) -> None:
    f, n = case.family, len(case.X)
    S, prior_mean = f.sum_s(case.X), case.tau / case.nu

    def loss(mu: np.ndarray) -> float:
        if not f.in_mean_space(mu):
            return np.inf
        phi = f.natural(mu)
        return float(-(S @ phi - n * f.c(phi)) + case.nu * f.bregman(prior_mean, mu))

    expected = (S + case.tau) / (n + case.nu)
    start = 0.7 * expected + 0.3 * prior_mean
    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 6000, "maxfev": 6000, "adaptive": True}
    found = optimize.minimize(loss, start, method="Nelder-Mead", options=options)
    # A smooth optimum is located to about sqrt(1e-16 |loss| / curvature), some 1e-7.
    np.testing.assert_allclose(found.x, expected, rtol=2e-6, atol=2e-6)


@every_family
def test_posterior_is_additive(case: Case) -> None:
    f = case.family
    tau, nu = f.posterior(case.X, case.tau, case.nu)
    for order in permutations([case.X[:2], case.X[2:3], case.X[3:]]):
        t, m = case.tau, case.nu
        for part in order:
            t, m = f.posterior(part, t, m)
        # Re-ordered sums of about six terms.
        np.testing.assert_allclose(t, tau, rtol=1e-14, atol=1e-14)
        assert m == pytest.approx(nu, rel=1e-14)


# ---- golden values -------------------------------------------------------------------------------
# Known to 16-17 digits, so that only rounding of about ten terms of size <= 30 is allowed.
GOLDEN = 5e-14
WISHART_X = np.array([(1.0, 0.0), (0.0, 2.0), (1.0, -1.0)])


def test_golden_multinomial_and_categorical() -> None:
    x = np.array([2, 0, 3, 1])
    family = minimal.Multinomial(4, 6)
    exact = -4.783037392432665
    assert family.log_marginal([x], np.full(3, 0.5), 2 / 6) == pytest.approx(exact, abs=GOLDEN)
    assert conjugate.Multinomial(4, 0.5).log_marginal(x[None, :], np.ones(1)) == pytest.approx(
        exact, abs=GOLDEN
    )
    tokens = [0, 0, 2, 2, 2, 3]
    exact = -8.877381954654766
    assert minimal.Categorical(4).log_marginal(tokens, np.full(3, 0.5), 2.0) == pytest.approx(
        exact, abs=GOLDEN
    )
    rows = np.array(tokens)[:, None]
    assert conjugate.Categorical((4,), 0.5).log_marginal(rows, np.ones(6)) == pytest.approx(
        exact, abs=GOLDEN
    )


def test_golden_bernoulli() -> None:
    value = minimal.Bernoulli().log_marginal([1, 0, 1, 1], np.array([0.5]), 1.0)
    assert value == pytest.approx(-3.2425923514855164, abs=GOLDEN)


def test_golden_fixed_variance() -> None:
    value = minimal.FixedVarianceGaussian(0.5).log_marginal([-2.0, 4.0, 1.0], np.array([0.0]), 0.2)
    assert value == pytest.approx(-21.290889189893992, abs=GOLDEN)


def test_golden_zero_mean_one_dimension() -> None:
    value = minimal.ZeroMeanGaussian1D().log_marginal([1.0, -0.5, 2.0], np.array([2.0]), 3.0)
    assert value == pytest.approx(-6.4011561540854345, abs=GOLDEN)


def test_golden_zero_mean_wishart() -> None:
    family, tau, nu = minimal.ZeroMeanGaussian(2), svec(np.eye(2)), 1.0
    assert family.log_marginal(list(WISHART_X), tau, nu) == pytest.approx(
        -11.33553334120269, abs=GOLDEN
    )
    after = family.posterior(list(WISHART_X), tau, nu)
    assert family.expected_log_likelihood(WISHART_X[0], *after) == pytest.approx(
        -2.783660187652712, abs=GOLDEN
    )
    rich = conjugate.ZeroMeanGaussian(4.0, np.eye(2))
    assert float(rich.log_marginal_mp(WISHART_X, np.ones(3))) == pytest.approx(
        -11.33553334120269, abs=GOLDEN
    )


def test_golden_normal_wishart() -> None:
    rich, w = conjugate.Gaussian(np.zeros(2), 0.5, 4.0, np.eye(2)), np.ones(3)
    expected, at_first = -10.705190701788577, -1.8169214360639052
    assert rich.log_marginal(WISHART_X, w) == pytest.approx(expected, abs=GOLDEN)
    assert rich.expected_log_likelihood(WISHART_X[0], WISHART_X, w) == pytest.approx(
        at_first, abs=GOLDEN
    )
    assert float(rich.log_marginal_mp(WISHART_X, w)) == pytest.approx(expected, abs=GOLDEN)
    assert float(rich.expected_log_likelihood_mp(WISHART_X[0], WISHART_X, w)) == pytest.approx(
        at_first, abs=GOLDEN
    )


def test_golden_divergences() -> None:
    family = minimal.Multinomial(4, 6)
    value = family.bregman(family.s((2, 0, 3, 1)), np.full(3, 1.5))
    assert value == pytest.approx(2.2493405784752327, abs=GOLDEN)
    value = minimal.ZeroMeanGaussian1D().bregman(np.array([0.25]), np.array([2.0]))
    assert value == pytest.approx(0.6022207708399179, abs=GOLDEN)


# ---- extended precision --------------------------------------------------------------------------
EXTENDED = ["fixed-variance", "zero-mean-1d", "zero-mean", "gaussian", "diagonal"]


@pytest.mark.parametrize("name", EXTENDED)
def test_extended_precision_agrees_with_floats(name: str) -> None:
    case = CASES[name]
    X, w, rich = as_rows(case), np.linspace(0.2, 1.3, len(case.X)), case.rich
    # The float route is good to rounding of terms of size <= 100.
    assert float(rich.log_marginal_mp(X, w)) == pytest.approx(rich.log_marginal(X, w), abs=1e-11)
    for x in X:
        expected = rich.expected_log_likelihood(x, X, w)
        assert float(rich.expected_log_likelihood_mp(x, X, w)) == pytest.approx(expected, abs=1e-11)
        assert float(rich.log_predictive_mp(x, X, w)) == pytest.approx(
            rich.log_predictive(x, X, w), abs=1e-11
        )
        joint = rich.log_marginal_mp(np.vstack([X, x]), np.append(w, 1.0)) - rich.log_marginal_mp(
            X, w
        )
        # Both sides to 50 digits; their difference is taken at the default 15 digits.
        assert float(rich.log_predictive_mp(x, X, w)) == pytest.approx(float(joint), abs=1e-12)


@pytest.mark.parametrize("name", ["fixed-variance", "gaussian", "diagonal"])
def test_extended_precision_at_a_large_offset(name: str) -> None:
    """Data and prior mean moved together by an exactly representable 2^24 standard deviations:
    nothing changes.
    """
    case, far = CASES[name], 2.0**24
    X, w = np.round(as_rows(case) * 1024) / 1024, np.linspace(0.2, 1.3, len(case.X))
    m0 = np.round(case.rich.m0 * 1024) / 1024
    near = type(case.rich)(**{**case.rich.__dict__, "m0": m0})
    away = type(case.rich)(**{**case.rich.__dict__, "m0": m0 + far})
    # Multiples of 1/1024 plus 2^24 are exact in float64, so the two 50-digit results are equal to
    # float rounding.
    assert float(away.log_marginal_mp(X + far, w)) == pytest.approx(
        float(near.log_marginal_mp(X, w)), abs=1e-13
    )
    for x in X:
        expected = float(near.expected_log_likelihood_mp(x, X, w))
        assert float(away.expected_log_likelihood_mp(x + far, X + far, w)) == pytest.approx(
            expected, abs=1e-13
        )
        # Two-pass float formulas lose only the rounding of the mean, 2^24 * 1e-16 = 4e-9 per unit
        # of slope <= 30.
        assert away.expected_log_likelihood(x + far, X + far, w) == pytest.approx(
            expected, abs=2e-7
        )
