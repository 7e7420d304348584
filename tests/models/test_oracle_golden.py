"""Golden numbers and identities of finite and Dirichlet-process mixtures, checked on the oracle
formulas.
"""

from __future__ import annotations

from itertools import permutations
from math import log

import numpy as np
import pytest
from oracles import conjugate, minimal, mixture

X = [-2.0, -1.9, -1.0, 0.0, 0.3, 1.5, 1.6, 4.0]
V, TAU, NU, GAMMA, K = 0.5, np.array([0.0]), 0.2, 1.5, 4
FAMILY = minimal.FixedVarianceGaussian(V)
MODEL = mixture.MinimalModel(FAMILY, TAU, NU)
ROWS = np.array(X)[:, None]
RICH = mixture.ConjugateModel(conjugate.FixedVarianceGaussian(np.array([V]), np.array([0.0]), NU))

# Known to 16-17 digits; sums of about fifty terms of size <= 40 keep 1e-12 after a few
# iterations.
GOLDEN = 1e-11
BOTH = pytest.mark.parametrize("allocation", ["dp", "finite"])
COUNTS = [
    np.array(N) for N in ([3.2, 0.5, 4.1, 0.0, 1.7], [1.0], [0.0, 2.0, 7.5], [6.0, 6.0, 1.0, 0.3])
]


def initial() -> np.ndarray:
    """r[n, k] proportional to ((n+1)(k+2) mod 7) + 1."""
    r = np.array(
        [[((n + 1) * (k + 2)) % 7 + 1 for k in range(K)] for n in range(len(X))], dtype=float
    )
    return r / r.sum(axis=1, keepdims=True)


def trace(model: object, rows: object, allocation: str, steps: int) -> list[float]:
    """Bound at the optimal globals before and after each of `steps` iterations."""
    r, totals = initial(), []
    for _ in range(steps):
        totals.append(mixture.bound_at_optimum(model, rows, r, GAMMA, allocation).total)
        r = mixture.vb_step(model, rows, r, GAMMA, allocation)
    return [*totals, mixture.bound_at_optimum(model, rows, r, GAMMA, allocation).total]


def subset(rows: list[int]) -> float:
    """Log marginal likelihood of some rows in one cluster."""
    return FAMILY.log_marginal([X[i] for i in rows], TAU, NU)


def test_golden_dp_terms() -> None:
    bound = mixture.bound_at_optimum(MODEL, X, initial(), GAMMA, "dp")
    assert bound.data == pytest.approx(-38.08306562528618, abs=GOLDEN)
    assert bound.entropy == pytest.approx(10.606426385385157, abs=GOLDEN)
    assert bound.allocation == pytest.approx(-14.690905569099296, abs=GOLDEN)
    assert bound.total == pytest.approx(-42.16754480900032, abs=GOLDEN)


def test_golden_dp_iterations() -> None:
    totals = trace(MODEL, X, "dp", 200)
    assert totals[1] == pytest.approx(-38.7308769028667, abs=GOLDEN)
    assert totals[2] == pytest.approx(-28.926431566671035, abs=GOLDEN)
    assert totals[3] == pytest.approx(-27.523026637071837, abs=GOLDEN)
    assert totals[200] == pytest.approx(-24.632542211080143, abs=GOLDEN)


def test_golden_finite() -> None:
    bound = mixture.bound_at_optimum(MODEL, X, initial(), GAMMA, "finite")
    assert bound.allocation == pytest.approx(-14.455590875927584, abs=GOLDEN)
    totals = trace(MODEL, X, "finite", 3)
    expected = [-41.93223011582861, -38.93772584699368, -29.563527641487042, -28.647399741509417]
    np.testing.assert_allclose(totals, expected, rtol=0, atol=GOLDEN)


def test_golden_dp_evidence() -> None:
    assert mixture.dp_log_evidence(subset, len(X), GAMMA) == pytest.approx(
        -19.143581135034943, abs=GOLDEN
    )


GAINS = {
    (0, 1): (0.8701752, -2.55304823, 3.34727056),
    (0, 2): (0.84065409, -2.62717288, 3.38859487),
    (0, 3): (0.8485636, -2.51801262, 3.44513013),
    (1, 2): (0.84510766, -2.54323632, 3.11073838),
    (1, 3): (0.85316207, -2.70704015, 3.15790642),
    (2, 3): (0.91808641, -2.70853405, 2.72724932),
}


@pytest.mark.parametrize("pair", GAINS)
def test_golden_merge_gains(pair: tuple[int, int]) -> None:
    gain = mixture.merge_gain(MODEL, X, initial(), *pair, GAMMA, "dp")
    # Known to eight decimals: half a unit of the last one, and rounding.
    np.testing.assert_allclose(gain, GAINS[pair], rtol=0, atol=5.1e-9)


@BOTH
def test_rich_model_gives_the_same_trace(allocation: str) -> None:
    # Same formulas by another route, rounding only.
    np.testing.assert_allclose(
        trace(RICH, ROWS, allocation, 3), trace(MODEL, X, allocation, 3), rtol=0, atol=GOLDEN
    )


@BOTH
def test_bound_never_decreases(allocation: str) -> None:
    # Each block update is an exact maximiser; 1e-9 covers rounding near convergence.
    assert np.diff(trace(MODEL, X, allocation, 30)).min() >= -1e-9


def test_finite_with_one_cluster_is_exact() -> None:
    bound = mixture.bound_at_optimum(MODEL, X, np.ones((len(X), 1)), GAMMA, "finite")
    # L_Dir and the entropy vanish; the data term is one log marginal.
    assert bound.total == pytest.approx(subset(list(range(len(X)))), abs=GOLDEN)


@pytest.mark.parametrize("components", [1, 2, 3])
def test_finite_bound_below_the_evidence(components: int) -> None:
    n = 6
    exact = mixture.finite_log_evidence(subset, n, components, GAMMA)
    r = initial()[:n, :components]
    r = r / r.sum(axis=1, keepdims=True)
    for _ in range(20):
        # A bound up to rounding; equality at one component.
        assert mixture.bound_at_optimum(MODEL, X[:n], r, GAMMA, "finite").total <= exact + GOLDEN
        r = mixture.vb_step(MODEL, X[:n], r, GAMMA, "finite")


@pytest.mark.slow
def test_finite_evidence_tends_to_the_dp_evidence() -> None:
    """Dirichlet(gamma/K) labelings, blocks forgotten, tend to the CRP with an error of
    order 1/K.
    """
    n = 4
    exact = mixture.dp_log_evidence(subset, n, GAMMA)
    gaps = [abs(mixture.finite_log_evidence(subset, n, size, GAMMA) - exact) for size in (4, 8, 16)]
    # Halving 1/K halves the gap up to terms of second order.
    assert gaps[0] > 1.7 * gaps[1] > 1.7**2 * gaps[2] > 0


def test_finite_bound_is_permutation_invariant() -> None:
    base = mixture.bound_at_optimum(MODEL, X, initial(), GAMMA, "finite").total
    for order in permutations(range(K)):
        # Re-ordered sums only.
        moved = mixture.bound_at_optimum(MODEL, X, initial()[:, order], GAMMA, "finite").total
        assert moved == pytest.approx(base, abs=GOLDEN)


@BOTH
@pytest.mark.parametrize(("model", "rows"), [(MODEL, X), (RICH, ROWS)], ids=["minimal", "rich"])
def test_general_bound_is_the_expected_log_joint(
    allocation: str, model: object, rows: object
) -> None:
    """Away from the optimum: E[log p(x,z,pi,phi)] - E[log q], summed term by term, equals the bound
    with slack.
    """
    r, other = initial(), np.roll(initial(), 1, axis=1)
    N = other.sum(axis=0)
    q = mixture.global_step(model, rows, other)
    C = np.stack([model.expected_log_likelihood(rows, qk) for qk in q], axis=1)
    kl_phi = sum(
        other[:, k] @ C[:, k] - model.data_bound(rows, other[:, k], q[k]) for k in range(K)
    )
    if allocation == "dp":
        eta1, eta0 = mixture.global_dp(N, GAMMA)
        bound = mixture.dp_bound(model, rows, r, q, eta1, eta0, GAMMA)
        log_weights = mixture.expected_log_weights_dp(eta1, eta0)
        log_u, log_rest = mixture.expected_log_sticks(eta1, eta0)
        kl_pi = sum((eta1 - 1) * log_u + (eta0 - 1) * log_rest - (GAMMA - 1) * log_rest)
        kl_pi -= sum(
            mixture.log_beta(a, b) - mixture.log_beta(1, GAMMA)
            for a, b in zip(eta1, eta0, strict=True)
        )
    else:
        theta = mixture.global_finite(N, GAMMA)
        bound = mixture.finite_bound(model, rows, r, q, theta, GAMMA)
        log_weights = mixture.expected_log_weights_finite(theta)
        kl_pi = (theta - GAMMA / K) @ log_weights
        kl_pi -= mixture.log_dirichlet(theta) - mixture.log_dirichlet(np.full(K, GAMMA / K))
    joint = float((r * (C + log_weights - np.log(r))).sum() - kl_phi - kl_pi)
    # Sums of about a hundred terms of size <= 40.
    assert bound.total == pytest.approx(joint, abs=GOLDEN)
    assert bound.total < mixture.bound_at_optimum(model, rows, r, GAMMA, allocation).total


def test_empty_cluster_at_the_end_is_free() -> None:
    r = initial()
    longer = np.hstack([r, np.zeros((len(X), 1))])
    before = mixture.bound_at_optimum(MODEL, X, r, GAMMA, "dp").total
    # cP(prior) - cP(prior), B(1, gamma) - B(1, gamma) and the entropy of zeros are exact zeros.
    assert mixture.bound_at_optimum(MODEL, X, longer, GAMMA, "dp").total == before


@pytest.mark.parametrize("position", range(K + 1))
def test_empty_cluster_inside_costs_a_logarithm(position: int) -> None:
    r = initial()
    tail = float(r.sum(axis=0)[position:].sum())
    before = mixture.bound_at_optimum(MODEL, X, r, GAMMA, "dp").total
    after = mixture.bound_at_optimum(
        MODEL, X, np.insert(r, position, 0.0, axis=1), GAMMA, "dp"
    ).total
    # Difference of two bounds of size 40.
    assert after - before == pytest.approx(-log((GAMMA + tail) / GAMMA), abs=GOLDEN)


@pytest.mark.parametrize("N", COUNTS, ids=str)
@pytest.mark.parametrize("gamma", [0.1, 1.0, 1.5, 30.0])
def test_closed_form_of_the_allocation_term(N: np.ndarray, gamma: float) -> None:
    eta1, eta0 = mixture.global_dp(N, gamma)
    # About twenty log-gammas of size <= 100.
    general = mixture.l_dp(N, eta1, eta0, gamma)
    assert general == pytest.approx(mixture.l_dp_closed_form(N, gamma), abs=1e-12)
    sticks = sum(mixture.log_beta(a, b) + log(gamma) for a, b in zip(eta1, eta0, strict=True))
    assert general == pytest.approx(sticks, abs=1e-12)


@pytest.mark.parametrize("N", [*COUNTS, np.array([2.0, 9.0, 0.4, 5.0, 5.0, 1.0])], ids=str)
@pytest.mark.parametrize("gamma", [0.1, 1.5, 30.0])
def test_descending_order_is_best(N: np.ndarray, gamma: float) -> None:
    def value(counts: np.ndarray) -> float:
        return mixture.l_dp(counts, *mixture.global_dp(counts, gamma), gamma)

    best = max(value(np.array(order)) for order in permutations(N))
    # Equal multisets differ by rounding only.
    assert value(np.sort(N)[::-1]) == pytest.approx(best, abs=1e-12)


def test_one_dp_cluster_is_the_joint_of_all_ones() -> None:
    """p(z all 1) = E[u_1^N] = B(1 + N, gamma)/B(1, gamma)."""
    n = len(X)
    bound = mixture.bound_at_optimum(MODEL, X, np.ones((n, 1)), GAMMA, "dp").total
    moment = np.prod([(1 + i) / (1 + GAMMA + i) for i in range(n)])
    assert bound == pytest.approx(subset(list(range(n))) + log(moment), abs=GOLDEN)


@pytest.mark.parametrize(("n", "bell"), [(1, 1), (2, 2), (3, 5), (4, 15), (8, 4140)])
def test_dp_bound_below_the_evidence(n: int, bell: int) -> None:
    partitions = [tuple(sorted(map(tuple, p))) for p in mixture.set_partitions(n)]
    assert len(partitions) == len(set(partitions)) == bell
    exact = mixture.dp_log_evidence(subset, n, GAMMA)
    r = initial()[:n]
    for _ in range(20):
        assert mixture.bound_at_optimum(MODEL, X[:n], r, GAMMA, "dp").total < exact
        r = mixture.vb_step(MODEL, X[:n], r, GAMMA, "dp")


def test_priors_of_partitions_and_labelings_sum_to_one() -> None:
    # With every marginal equal to one the evidence is the total prior mass.
    assert mixture.dp_log_evidence(lambda rows: 0.0, 6, GAMMA) == pytest.approx(0.0, abs=1e-13)
    assert mixture.finite_log_evidence(lambda rows: 0.0, 6, 3, GAMMA) == pytest.approx(
        0.0, abs=1e-13
    )


@pytest.mark.parametrize("N", COUNTS, ids=str)
def test_expected_weights_and_leftover_sum_to_one(N: np.ndarray) -> None:
    weights, leftover = mixture.expected_weights(*mixture.global_dp(N, GAMMA))
    # A telescoping product.
    assert weights.sum() + leftover == pytest.approx(1.0, abs=1e-14)
    assert mixture.expected_weights_finite(mixture.global_finite(N, GAMMA)).sum() == pytest.approx(
        1.0, abs=1e-14
    )


def test_prior_weights() -> None:
    """E[pi_k] = gamma^(k-1) / (1 + gamma)^k under the prior."""
    weights, _ = mixture.expected_weights(np.ones(5), np.full(5, GAMMA))
    np.testing.assert_allclose(
        weights, [GAMMA**k / (1 + GAMMA) ** (k + 1) for k in range(5)], rtol=1e-14
    )


def test_expected_log_weights_match_sampling() -> None:
    rng, draws = np.random.default_rng(20), 200_000
    N = np.array([3.2, 0.5, 4.1, 1.7])
    eta1, eta0 = mixture.global_dp(N, GAMMA)
    u = rng.beta(eta1, eta0, size=(draws, len(N)))
    log_pi = np.log(u) + np.hstack([np.zeros((draws, 1)), np.cumsum(np.log1p(-u), axis=1)[:, :-1]])
    theta = mixture.global_finite(N, GAMMA)
    log_dirichlet = np.log(rng.dirichlet(theta, size=draws))
    exact = [
        mixture.expected_log_weights_dp(eta1, eta0),
        mixture.expected_log_weights_finite(theta),
    ]
    for sample, expected in zip([log_pi, log_dirichlet], exact, strict=True):
        error = sample.std(axis=0) / np.sqrt(draws)
        # Five standard errors, with a fixed seed.
        assert np.all(np.abs(sample.mean(axis=0) - expected) < 5 * error)
    mean_pi = np.exp(log_pi).mean(axis=0)
    spread = np.exp(log_pi).std(axis=0) / np.sqrt(draws)
    assert np.all(np.abs(mean_pi - mixture.expected_weights(eta1, eta0)[0]) < 5 * spread)
