"""HDP roots: surrogates lie below what they stand for, derivatives are derivatives, and no solve
lowers the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import root as oracle
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import digamma, expit, gammaln, logit, polygamma
from scipy.stats import gamma as gamma_distribution

from stickbreak.priors import (
    BetaRoot,
    ChainGroups,
    GammaPrior,
    PointRoot,
    SegmentGroups,
    Term,
    TopicGroups,
    linear_term,
    truncated_slope,
)  # fmt: skip
from stickbreak.priors.root import fill_shares, share_sticks, top_term, trigamma

ROOTS: dict[str, Any] = {
    "beta": BetaRoot(3.0),
    "best": BetaRoot(3.0, precision="best"),
    "learned": BetaRoot(GammaPrior(2.0, 0.5)),
    "best and learned": BetaRoot(GammaPrior(2.0, 0.5), precision="best"),
    "given order": BetaRoot(3.0, by_size=False),
    "point": PointRoot(8.0),
    "point, learned": PointRoot(GammaPrior(30.0, 3.0)),
}
GROUPS: dict[str, Any] = {
    "chain": ChainGroups(4.0, 0.7),
    "sticky": ChainGroups(4.0, 0.7, 20.0),
    "segments": SegmentGroups(4.0, 0.7),
}
every_root = pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS.keys())
every_groups = pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())


def random_sticks(rng: np.random.Generator, K: int) -> np.ndarray:
    return np.clip(rng.beta(*rng.uniform(0.3, 5.0, 2), size=K), 1e-6, 1 - 1e-6)


def surrogate_value(groups: Any, u: np.ndarray) -> float:
    s = groups.surrogate(len(u))
    return float(
        s.constant + s.ones @ np.log(u) + s.zeros @ np.log1p(-u) + s.linear @ oracle.stick_shares(u)
    )


def row_pull(counts: np.ndarray, weight: float) -> Any:
    """Log-partitions of rows Dirichlet(counts (D, K) + weight b) as a function of b, and their
    derivatives.
    """

    def term(b: np.ndarray) -> Term:
        theta = np.pad(counts, ((0, 0), (0, 1))) + weight * b
        total = theta.sum(1)
        slope = weight * (digamma(theta) - digamma(total)[:, None]).sum(0)
        return Term(
            float(gammaln(theta).sum() - gammaln(total).sum()),
            slope,
            weight**2 * polygamma(1, theta).sum(0),
        )

    return term


def total_at(root: Any, mean: np.ndarray, groups: Any, pull: Any) -> float:
    return root.bound(mean, groups) + pull(root.shares(mean)).value


# ---- small functions -----------------------------------------------------------------------------
def test_trigamma_is_scipys() -> None:
    x = np.r_[np.geomspace(1e-9, 1e9, 3000)]
    assert x.size > 400  # the series, not scipy itself
    np.testing.assert_allclose(trigamma(x), polygamma(1, x), rtol=1e-12)
    np.testing.assert_allclose(trigamma(x[:50]), polygamma(1, x[:50]), rtol=1e-14)


def test_sticks_and_shares_are_those_of_a_loop() -> None:
    u = random_sticks(np.random.default_rng(0), 6)
    np.testing.assert_allclose(share_sticks(u), oracle.stick_shares(u), rtol=1e-14)
    b = BetaRoot(1.0).shares(oracle.stick_shares(u)[:-1])
    np.testing.assert_allclose(b, oracle.stick_shares(u), rtol=1e-9)


def test_empty_slots_are_cut_from_the_rest() -> None:
    np.testing.assert_allclose(
        fill_shares(np.array([0.5, 0.0, 0.2, 0.0])), [0.5, 0.1, 0.2, 0.1, 0.1]
    )
    for mean in ([1.0, 0.0], [0.7, 0.31], [0.0], [1e-30, 0.999999999999]):
        filled = fill_shares(np.array(mean))
        assert (filled > 0).all()
        assert filled.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("shape", "rate"), [(1.0, 1.0), (0.4, 2.0), (20.0, 2.0)])
def test_learned_top_concentration_is_integrated_out(shape: float, rate: float) -> None:
    K, S, prior = 5, -2.3, gamma_distribution(shape, scale=1 / rate)
    found, mean = top_term(GammaPrior(shape, rate), K, S)
    density = lambda c: prior.pdf(c) * c**K * np.exp(c * S)
    exact = quad(density, 0, np.inf, epsabs=0, epsrel=1e-11)[0]
    assert found == pytest.approx(np.log(exact), abs=1e-9)
    assert mean == pytest.approx(
        quad(lambda c: c * density(c), 0, np.inf, epsabs=0, epsrel=1e-11)[0] / exact, rel=1e-8
    )
    h = 1e-5
    assert mean == pytest.approx(
        (
            top_term(GammaPrior(shape, rate), K, S + h)[0]
            - top_term(GammaPrior(shape, rate), K, S - h)[0]
        )
        / (2 * h)
    )


# ---- surrogates ----------------------------------------------------------------------------------
def many_rows(seed: int, n: int = 1500) -> Any:
    """10,500 cases: shares (n, K + 1) for K = 1 .. 7, and concentrations and stickiness (n,) from
    1e-3 to 1e3.
    """
    rng = np.random.default_rng(seed)
    for K in range(1, 8):
        u = np.clip(rng.beta(*rng.uniform(0.3, 5.0, (2, n, 1)), size=(n, K)), 1e-6, 1 - 1e-6)
        left = np.cumprod(np.c_[np.ones(n), 1 - u], axis=1)
        yield (np.c_[u, np.ones(n)] * left, *10 ** rng.uniform(-3, 3, (2, n)))


def test_surrogate_of_a_row_is_below_its_normalizer() -> None:
    for b, alpha, _ in many_rows(1):
        exact = gammaln(alpha) - gammaln(alpha[:, None] * b).sum(1)
        surrogate = (b.shape[1] - 1) * np.log(alpha) + np.log(b).sum(1)
        assert (exact - surrogate).min() >= -1e-9
        assert surrogate[0] == pytest.approx(oracle.row_surrogate(alpha[0], b[0]))
        assert exact[0] == pytest.approx(oracle.c_dir(alpha[0] * b[0]))


def test_sticky_surrogates_of_a_row_are_below_its_normalizer() -> None:
    for b, alpha, kappa in many_rows(2):
        K, total = b.shape[1] - 1, alpha + kappa
        own, log_own = alpha * b[:, 0] + kappa, np.log(total) - np.log(kappa)
        exact = gammaln(total) - gammaln(own) - gammaln(alpha[:, None] * b[:, 1:]).sum(1)
        rest = K * np.log(alpha) - np.log(total) + np.log(b[:, 1:]).sum(1)
        sharp, concave = rest + np.log(own), rest + np.log(kappa) + b[:, 0] * log_own
        slack = 1e-9 * np.maximum(1.0, np.abs(exact))  # normalizers of up to 1e4 nats
        assert (exact >= sharp - slack).all()
        assert (sharp >= concave - slack).all()
        assert sharp[0] == pytest.approx(
            oracle.sticky_row_surrogate(alpha[0], kappa[0], b[0], 0, concave=False)
        )
        assert concave[0] == pytest.approx(
            oracle.sticky_row_surrogate(alpha[0], kappa[0], b[0], 0, concave=True)
        )


@pytest.mark.parametrize("kappa", [0.0, 1e-3, 5.0, 300.0])
def test_closed_form_of_a_chain_is_the_sum_over_rows(kappa: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        u, (alpha0, alpha) = random_sticks(rng, rng.integers(1, 9)), 10 ** rng.uniform(-1, 1, 2)
        b, groups = oracle.stick_shares(u), ChainGroups(alpha0, alpha, kappa)
        direct = oracle.chain_surrogate(alpha0, alpha, kappa, b)
        assert surrogate_value(groups, u) == pytest.approx(direct, abs=1e-8 * max(1.0, abs(direct)))
        exact = oracle.chain_normalizers(alpha0, alpha, kappa, b)
        assert exact >= direct - 1e-9 * abs(direct)
        assert groups.normalizers(b).value == pytest.approx(exact, rel=1e-10)


def test_printed_sticky_coefficient_without_the_one_is_no_bound() -> None:
    """The coefficient of log(1 - u) as in [H16, eq. 6.33], without the + 1.

    The surrogate then exceeds the exact value in most small cases.
    """
    rng, above = np.random.default_rng(4), 0
    for _ in range(500):
        u, alpha, kappa = (
            random_sticks(rng, rng.integers(1, 5)),
            10 ** rng.uniform(-2, 0),
            10 ** rng.uniform(0, 2),
        )
        groups, b = ChainGroups(alpha, alpha, kappa), oracle.stick_shares(u)
        printed = surrogate_value(groups, u) - np.log1p(-u).sum()
        above += printed > oracle.chain_normalizers(alpha, alpha, kappa, b) + 1e-9
    assert above > 250


def test_surrogate_of_segments_is_below_the_normalizers() -> None:
    rng = np.random.default_rng(5)
    for _ in range(500):
        u, (alpha0, alpha) = random_sticks(rng, rng.integers(1, 7)), 10 ** rng.uniform(-2, 1, 2)
        groups, b = SegmentGroups(alpha0, alpha), oracle.stick_shares(u)
        exact = oracle.segment_normalizers(alpha0, alpha, b)
        assert groups.normalizers(b).value == pytest.approx(exact, abs=1e-8 * max(1.0, abs(exact)))
        assert exact >= surrogate_value(groups, u) - 1e-9 * max(1.0, abs(exact))


def test_expected_normalizer_is_above_the_surrogate() -> None:
    rng, K, alpha, n = np.random.default_rng(6), 5, 0.6, 20_000
    a, b = rng.uniform(1, 6, K), rng.uniform(1, 6, K)
    u = rng.beta(a, b, size=(n, K))
    shares = np.concatenate([u, np.ones((n, 1))], 1) * np.concatenate(
        [np.ones((n, 1)), np.cumprod(1 - u, 1)], 1
    )
    values = gammaln(alpha) - gammaln(alpha * shares).sum(1)
    s = TopicGroups(alpha, np.eye(K + 1)[K]).surrogate(K)
    bound = (
        s.constant
        + s.ones @ (digamma(a) - digamma(a + b))
        + s.zeros @ (digamma(b) - digamma(a + b))
    )
    # The gap is about 0.05 nats; three standard errors of the average below it.
    assert values.mean() - 3 * values.std() / np.sqrt(n) > bound
    assert values.mean() - bound < 1.0


def test_truncated_documents_add_up() -> None:
    rng, K, alpha = np.random.default_rng(7), 6, 0.8
    sizes, u = rng.integers(0, K + 1, 12), random_sticks(rng, K)
    groups = TopicGroups(alpha, np.bincount(sizes, minlength=K + 1).astype(float))
    direct = sum(oracle.row_surrogate(alpha, oracle.stick_shares(u[:m])) for m in sizes)
    assert surrogate_value(groups, u) == pytest.approx(direct, abs=1e-10 * abs(direct))
    same = TopicGroups(alpha, 9.0 * np.eye(K + 1)[K])
    assert surrogate_value(same, u) == pytest.approx(
        9 * oracle.row_surrogate(alpha, oracle.stick_shares(u)), rel=1e-12
    )
    k = np.arange(1, K + 1)
    np.testing.assert_allclose(same.surrogate(K).zeros, 9.0 * (K + 1 - k))
    assert same.normalizers(share_sticks(u)).value == pytest.approx(
        9 * oracle.c_dir(alpha * share_sticks(u)), rel=1e-12
    )
    with pytest.raises(ValueError, match="use the Beta root"):
        groups.normalizers(share_sticks(u))


def test_slope_of_truncated_documents() -> None:
    rng, K = np.random.default_rng(8), 5
    active, buckets, u = rng.normal(size=K), rng.normal(size=K + 1), random_sticks(rng, K)
    b = share_sticks(u)
    direct = active @ b[:-1] + sum(buckets[m] * np.prod(1 - u[:m]) for m in range(K + 1))
    assert linear_term(truncated_slope(active, buckets), b).value == pytest.approx(
        direct, abs=1e-12
    )


# ---- derivatives ---------------------------------------------------------------------------------
@every_groups
def test_derivatives_of_normalizers(groups: Any) -> None:
    """Along the simplex, where alone they are used: slopes less that of the rest."""
    b = oracle.stick_shares(np.array([0.3, 0.2, 0.5, 0.1]))
    whole = lambda first: np.append(first, 1.0 - first.sum())
    found = groups.normalizers(b)
    slopes = oracle.differences(lambda first: groups.normalizers(whole(first)).value, b[:-1])
    np.testing.assert_allclose(found.slope[:-1] - found.slope[-1], slopes, rtol=1e-6)
    for k in range(4):
        bend = oracle.differences(
            lambda first, k=k: groups.normalizers(whole(first)).slope[k], b[:-1]
        )
        np.testing.assert_allclose(bend, found.curvature[k] * np.eye(4)[k], rtol=1e-6, atol=1e-4)


@every_root
@every_groups
def test_gradient_and_hessian_in_logits(root: Any, groups: Any) -> None:
    rng = np.random.default_rng(9)
    pull, u = (
        row_pull(rng.gamma(0.5, 20.0, size=(6, 5)), 0.7),
        np.array([0.45, 0.3, 0.4, 0.25, 0.6]),
    )
    order, surrogate = np.array([3, 0, 4, 1, 2]), groups.surrogate(5)

    def place(x: np.ndarray) -> Any:
        outside = lambda b: root._outside(groups, surrogate, b)
        both = lambda b: Term(*(p + q for p, q in zip(pull(b), outside(b), strict=True)))
        return root._place(expit(x), order, surrogate, both)

    here = place(logit(u))
    np.testing.assert_allclose(
        here.gradient, oracle.differences(lambda x: place(x).value, logit(u)), rtol=1e-5, atol=1e-6
    )
    # others leave a small part out
    if isinstance(root.concentration, float) and getattr(root, "precision", "rule") == "rule":
        rows = [oracle.differences(lambda x, k=k: place(x).gradient[k], logit(u)) for k in range(5)]
        np.testing.assert_allclose(-here.bend, rows, rtol=1e-5, atol=1e-5)
    assert (here.scale > 0).all()


def test_without_groups_counts_the_posterior_is_closed_form() -> None:
    for groups in GROUPS.values():
        groups = (
            ChainGroups(groups.start, groups.rows) if groups.surrogate(4).linear.any() else groups
        )
        s = groups.surrogate(4)
        c1, c0 = s.ones + 1, s.zeros + 3.0
        for precision in ("rule", "best"):
            root = BetaRoot(3.0, precision=precision, by_size=False)
            found = root.solve(
                np.array([0.1, 0.4, 0.1, 0.2]), groups, lambda b: linear_term(np.zeros(5), b)
            )
            best = root.bound(oracle.stick_shares(c1 / (c1 + c0))[:-1], groups)
            # where a solve is satisfied
            assert root.bound(found, groups) == pytest.approx(best, abs=2e-6)
            np.testing.assert_allclose(
                oracle.stick_fractions(root.shares(found)), c1 / (c1 + c0), rtol=2e-3
            )
            np.testing.assert_allclose(root.precisions(c1 / (c1 + c0), s), c1 + c0, rtol=1e-8)


def test_best_precision_is_a_maximum() -> None:
    rng, groups = np.random.default_rng(10), ChainGroups(4.0, 0.7)
    surrogate, gamma = groups.surrogate(6), 3.0
    u, (c1, c0) = random_sticks(rng, 6).clip(0.05, 0.95), oracle.chain_coefficients(6, 0.0, gamma)
    w = BetaRoot(gamma, precision="best").precisions(u, surrogate)
    at = lambda log_w: oracle.stick_terms(u, np.exp(log_w), c1, c0, gamma)
    np.testing.assert_allclose(oracle.differences(at, np.log(w), 1e-4), np.zeros(6), atol=1e-6)
    assert at(np.log(w)) >= at(np.log(c1 + c0))
    for factor in (0.8, 1.25):
        assert at(np.log(w)) > at(np.log(factor * w))


def test_shares_are_kept_for_a_root_that_does_not_change() -> None:
    mean, root = np.array([0.5, 0.2, 0.1]), BetaRoot(10.0)
    kept = root.shares(mean)
    assert root.shares(mean.copy()) is kept
    mean[0] = 0.4
    assert not np.array_equal(root.shares(mean), kept)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1.0


def test_density_of_a_point_is_in_share_coordinates() -> None:
    b, gamma = np.array([0.4, 0.25, 0.2]), 2.5
    u = oracle.stick_fractions(np.append(b, 1 - b.sum()))
    own = PointRoot(gamma)._own(u, ChainGroups(1.0, 1.0).surrogate(3))
    assert own.value == pytest.approx(oracle.log_root_density(b, gamma), abs=1e-12)
    R = 1 - b.cumsum()
    printed = [-(gamma - 1) / R[-1] + (1 / R[k:-1]).sum() for k in range(3)]
    np.testing.assert_allclose(
        oracle.differences(lambda x: oracle.log_root_density(x, gamma), b), printed, rtol=1e-7
    )


@pytest.mark.parametrize("kappa", [0.0, 6.0])
def test_gradient_of_rows_under_a_point(kappa: float) -> None:
    """E[log p(row | b)] for fixed posteriors, in free coordinates b_1 .. b_K."""
    rng, K, alpha = np.random.default_rng(11), 4, 0.9
    at, b = rng.gamma(2.0, 3.0, size=(K, K + 1)), rng.dirichlet(np.ones(K + 1))
    mean_log = digamma(at) - digamma(at.sum(1))[:, None]

    def rows(first: np.ndarray) -> float:
        whole = np.append(first, 1 - first.sum())
        prior = [alpha * whole + kappa * np.eye(K + 1)[i] for i in range(K)]
        return sum(oracle.c_dir(p) + ((p - 1) * mean_log[i]).sum() for i, p in enumerate(prior))

    groups = ChainGroups(1.0, alpha, kappa)
    # without the start row, Dirichlet(b)
    slope = groups.normalizers(b).slope + digamma(b) + alpha * mean_log.sum(0)
    np.testing.assert_allclose(slope[:-1] - slope[-1], oracle.differences(rows, b[:-1]), rtol=1e-6)


def test_gradient_of_segment_rows_under_a_point() -> None:
    """Rows without their own entry: b_i moves row i too, through its total and the rest."""
    rng, K, alpha = np.random.default_rng(12), 4, 0.9
    at, b = rng.gamma(2.0, 3.0, size=(K, K + 1)), rng.dirichlet(np.ones(K + 1))
    others = [np.arange(K + 1) != i for i in range(K)]
    total = np.array([at[i, others[i]].sum() for i in range(K)])

    def rows(first: np.ndarray) -> float:
        whole, value = (
            np.append(first, 1 - first.sum()),
            oracle.c_dir(np.append(first, 1 - first.sum())),
        )
        for i, other in enumerate(others):
            prior, mean_log = alpha * whole[other], digamma(at[i, other]) - digamma(total[i])
            value += oracle.c_dir(prior) + ((prior - 1) * mean_log).sum()
        return value

    mean_log = digamma(at) - digamma(total)[:, None]
    np.fill_diagonal(mean_log, 0.0)
    slope = SegmentGroups(1.0, alpha).normalizers(b).slope + alpha * mean_log.sum(0)
    found = slope[:-1] - slope[-1]
    np.testing.assert_allclose(found, oracle.differences(rows, b[:-1]), rtol=1e-6)
    # The formula for the transition rows, term by term, for k != i and k = i.
    rest, psi = b[-1], digamma
    for k in range(K):
        value = -psi(b[k]) + psi(rest)  # the start row, concentration one and no posterior
        for i in range(K):
            if i == k:
                value += alpha * (
                    psi(alpha * rest) - psi(alpha * (1 - b[i])) - psi(at[i, -1]) + psi(total[i])
                )
            else:
                value += alpha * (
                    psi(at[i, k]) - psi(at[i, -1]) - psi(alpha * b[k]) + psi(alpha * rest)
                )
        assert found[k] == pytest.approx(value, rel=1e-9)


# ---- solves --------------------------------------------------------------------------------------
@pytest.mark.few(3)
@every_root
@every_groups
def test_a_solve_never_lowers_the_bound_and_keeps_shares_inside(root: Any, groups: Any) -> None:
    rng = np.random.default_rng(13)
    for K in (1, 6):
        for size in (0.0, 1e4):
            pull = row_pull(size * rng.gamma(0.1, 1.0, size=(K + 1, K)), 0.7)
            for mean in (
                rng.dirichlet(np.ones(K + 1))[:-1],
                np.full(K, 1 / (K + 1)),
                10.0 ** -rng.uniform(1, 12, K),
                np.zeros(K),
            ):
                values = [total_at(root, mean, groups, pull)]
                for _ in range(2):
                    mean = root.solve(mean, groups, pull)
                    values.append(total_at(root, mean, groups, pull))
                assert np.isfinite(values).all()
                assert np.diff(values).min() >= -1e-10 * max(1.0, np.abs(values).max())
                b = root.shares(mean)
                assert (b > 0).all()
                assert b.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["beta", "best", "learned"])
@every_groups
def test_a_solve_finds_the_maximum(name: str, groups: Any) -> None:
    """Against a general optimizer on the same function, written by a loop, sticks in a
    fixed order.
    """
    root, rng, K = (
        BetaRoot(ROOTS[name].concentration, by_size=False, precision=ROOTS[name].precision),
        np.random.default_rng(14),
        6,
    )
    pull = row_pull(rng.gamma(0.3, 50.0, size=(7, K)), 0.7)
    mean = np.full(K, 1 / (K + 1))
    for _ in range(4):
        mean = root.solve(mean, groups, pull)
    f = lambda x: -total_at(root, oracle.stick_shares(expit(x))[:-1], groups, pull)
    found = minimize(f, np.zeros(K), method="BFGS", options={"gtol": 1e-6})
    # where a solve is satisfied, a few times over
    assert total_at(root, mean, groups, pull) >= -found.fun - 1e-5


def test_order_of_slots_does_not_matter_and_size_is_a_good_order() -> None:
    rng, groups, K = np.random.default_rng(15), ChainGroups(10.0, 0.5), 8
    counts = rng.gamma(0.2, 100.0, size=(K + 1, K)) * np.geomspace(1, 0.001, K)[rng.permutation(K)]
    root, gains = BetaRoot(10.0), []
    for _ in range(6):
        order = rng.permutation(K)
        pull, mean, given = (
            row_pull(counts[:, order], 0.5),
            np.full(K, 1 / (K + 1)),
            np.full(K, 1 / (K + 1)),
        )
        for _ in range(6):
            mean = root.solve(mean, groups, pull)
            given = BetaRoot(10.0, by_size=False).solve(given, groups, pull)
        gains.append(
            (
                total_at(root, mean, groups, pull),
                total_at(BetaRoot(10.0, by_size=False), given, groups, pull),
            )
        )
    by_size, by_slot = np.array(gains).T
    assert np.ptp(by_size) < 0.02  # states of nearly the same size may end in either order
    assert (by_size >= by_slot - 1e-5).all()
    assert np.mean(by_size - by_slot) > 0.1


def test_precision_must_be_known() -> None:
    with pytest.raises(ValueError, match="precision must be 'rule' or 'best'; got 'heuristic'"):
        BetaRoot(1.0, precision="heuristic")


@pytest.mark.slow
# ---- model selection -----------------------------------------------------------------------------
def test_empty_topics_lower_the_surrogate_bound_and_raise_that_of_a_point() -> None:
    """100 documents of 100 tokens, 10 topics with fixed labels, then 1, 2, 3 empty topics."""
    rng, K, alpha, gamma = np.random.default_rng(16), 10, 0.5, 10.0
    shares = np.sort(rng.dirichlet(np.full(K, 2.0)))[::-1]
    labels = np.array(
        [rng.multinomial(100, rng.dirichlet(alpha * shares + 1e-6)) for _ in range(100)],
        dtype=float,
    )

    def best(root: Any, extra: int) -> float:
        size = K + extra
        pull = row_pull(np.pad(labels, ((0, 0), (0, extra))), alpha)
        groups, mean = (
            TopicGroups(alpha, 100.0 * np.eye(size + 1)[size]),
            np.full(size, 1 / (size + 1)),
        )
        for _ in range(8):
            mean = root.solve(mean, groups, pull)
        return total_at(root, mean, groups, pull)

    changes = np.array(
        [best(BetaRoot(gamma), extra) - best(BetaRoot(gamma), 0) for extra in (1, 2, 3)]
    )
    # Values that were measured on other random documents of this kind.
    np.testing.assert_allclose(changes, [-3.45, -6.76, -10.03], atol=0.7)
    points = np.array(
        [best(PointRoot(gamma), extra) - best(PointRoot(gamma), 0) for extra in (1, 2, 3)]
    )
    # 2.30 each in stick coordinates, more in those of shares
    assert (np.diff(np.r_[0.0, points]) > np.log(gamma) - 1e-3).all()


@pytest.mark.covering
@every_root
@pytest.mark.parametrize("smallest", [0.0, 1e-300, 1e-12, 9e-11, 1e-10])
def test_a_solve_begins_with_shares_that_leave_nothing_for_others(root, smallest) -> None:
    """Drawn shares sum to one, some of them next to nothing: the start is inside the domain."""
    rng = np.random.default_rng(0)
    mean = np.append(rng.dirichlet(np.ones(8)), np.full(17, smallest))
    mean /= mean.sum()
    groups, counts = GROUPS["chain"], rng.poisson(2.0, (26, 25)) * (mean > 1e-3)
    pull = row_pull(counts.astype(float), 0.7)
    found = root.solve(mean, groups, pull)
    assert np.isfinite(found).all()
    assert total_at(root, found, groups, pull) >= total_at(root, mean, groups, pull)
