"""Autoregressive Gaussian: formulas against integration and draws, limits, frames, gaps, draws of
sequences.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops, fit
from oracles.regression import Regression, joined_prior
from registers import FAMILIES, collect, random_shares
from scipy import stats
from scipy.special import logsumexp

import stickbreak as sb
from stickbreak import families
from stickbreak.checks import check_family
from stickbreak.data import Table, measure
from stickbreak.inference import EM, MemoizedVB
from stickbreak.stats import Summary

AR = families.AutoregressiveGaussian
RULES = {"mean_log": "expected_log_likelihood", "log_mean": "log_predictive"}
K = 3


def resolved(family: Any, rows: np.ndarray, allow_missing: bool = False) -> Any:
    return family.resolve(measure(Table(rows), allow_missing=allow_missing))


def walk(n: int, D: int, seed: int = 0) -> np.ndarray:
    return 4.0 + np.cumsum(np.random.default_rng(seed).normal(size=(n, D)), axis=0)


def make_case(
    order: int, intercept: bool, D: int, seed: int = 1
) -> tuple[Any, np.ndarray, Regression]:
    """A prior of its own on lagged rows of a walk, and the oracle with the same prior in the
    coordinates (p, 1).
    """
    rng = np.random.default_rng(seed)
    rows, _ = sb.lag_rows(walk(25 + order, D), order=order)
    E = D * order
    M, root, noise = rng.normal(size=(D, E)) / E, rng.normal(size=(E, E)), rng.normal(size=(D, D))
    C, B, dof = root @ root.T + np.eye(E), noise @ noise.T + np.eye(D), D + 2.5
    g, offset = (3.0 + rng.normal(size=E), rng.normal(size=D)) if intercept else (None, None)
    family = AR(order, intercept, M, 0.6, C, g, offset, 0.3, dof, B / (dof - D - 1))
    prior = joined_prior(M, offset, 0.6 * C, g, 0.3) if intercept else (M, 0.6 * C)
    return resolved(family, rows), rows, Regression(*prior, dof, B, intercept)


SHAPES = pytest.mark.parametrize(
    ("order", "intercept", "D"), [(1, True, 1), (2, True, 2), (1, False, 2), (3, False, 1)]
)


# ---- formulas ------------------------------------------------------------------------------------
@SHAPES
def test_marginal_and_evidence_equal_the_oracle(order: int, intercept: bool, D: int) -> None:
    """V = mean_strength * context is the precision of the columns of A: what contexts' squares are
    added to.
    """
    family, rows, oracle = make_case(order, intercept, D)
    shares = random_shares(len(rows), K, 2)
    counts = collect(family, rows, shares)
    expected = [oracle.log_marginal(rows, shares[:, k]) for k in range(K)]
    # sums of squares of size 1e3
    np.testing.assert_allclose(family.log_marginal(counts), expected, rtol=1e-9)
    for rule, method in RULES.items():
        found = getattr(family, rule)(counts).evidence(family.prepare(rows))
        exact = [[getattr(oracle, method)(x, rows, shares[:, k]) for k in range(K)] for x in rows]
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


@SHAPES
def test_default_priors_pass_the_battery(order: int, intercept: bool, D: int) -> None:
    rows, _ = sb.lag_rows(walk(30, D), order=order)
    check_family(AR(order, intercept), rows)


def test_marginal_equals_numerical_integration() -> None:
    """One column through the origin: a sum over the coefficient and the precision of prior times
    likelihood.
    """
    x = np.array([0.4, 1.1, 0.7, 1.9, 2.2, 1.4])[:, None]
    rows, _ = sb.lag_rows(x)
    family = resolved(
        AR(intercept=False, mean=0.8, mean_strength=0.5, context=1.5, dof=4.0, covariance=0.6), rows
    )
    t, w = np.polynomial.legendre.leggauss(200)
    # all coefficients: the posterior is a Student t about 0.9
    a = 0.9 + 0.5 * np.tan(0.5 * np.pi * t[:, None])
    log_step = np.log(w * 0.25 * np.pi / np.cos(0.5 * np.pi * t) ** 2)[:, None]
    log_l = 9.0 * t - 2.0  # precisions e^-11 to e^7
    precision = np.exp(log_l)
    log_mass = stats.norm.logpdf(a, 0.8, (0.75 * precision) ** -0.5)  # V = 0.75
    log_mass = log_mass + stats.gamma.logpdf(precision, 2.0, scale=1.0 / 0.6)  # B = 1.2
    for value, context in rows:
        log_mass = log_mass + stats.norm.logpdf(value, a * context, precision**-0.5)
    found = family.log_marginal(collect(family, rows, np.ones((5, 1))))[0]
    exact = float(logsumexp(log_mass + log_step + np.log(9.0 * w) + log_l))
    # smooth integrands; precisions left out have a mass of 1e-11
    assert found == pytest.approx(exact, abs=1e-9)


def test_expected_log_likelihood_equals_draws_of_the_parameters() -> None:
    family, rows, oracle = make_case(2, True, 2)
    M, V, n, B = oracle.posterior(rows, np.ones(len(rows)))
    rng, draws = np.random.default_rng(3), 4000
    L = stats.wishart.rvs(n, np.linalg.inv(B), size=draws, random_state=rng)
    noise = rng.normal(size=(draws, *M.shape))
    rows_root, columns_root = (
        np.linalg.cholesky(np.linalg.inv(L)),
        np.linalg.cholesky(np.linalg.inv(V)),
    )
    A = M + rows_root @ noise @ columns_root.T
    counts = collect(family, rows, np.ones((len(rows), 1)))
    (x,), (p,) = oracle.split(rows[:1])
    away = x - A @ p
    logs = 0.5 * (
        np.linalg.slogdet(L)[1] - 2 * np.log(2 * np.pi) - np.einsum("nd,nde,ne->n", away, L, away)
    )
    found = family.mean_log(counts).evidence(family.prepare(rows[:1]))[0, 0]
    assert abs(found - logs.mean()) < 5 * logs.std() / np.sqrt(draws)
    log_mean = family.log_mean(counts).evidence(family.prepare(rows[:1]))[0, 0]
    spread = np.exp(logs).std() / np.sqrt(draws) / np.exp(logs).mean()
    assert abs(log_mean - np.log(np.exp(logs).mean())) < 5 * spread


def test_one_step_predictives_of_a_series_multiply_to_its_marginal() -> None:
    rows, _ = sb.lag_rows(walk(20, 2), order=2)
    family = resolved(AR(order=2), rows)
    counts, total = family.zeros(1), 0.0
    for t in range(len(rows)):
        row = family.prepare(rows[t : t + 1])
        total += family.log_mean(counts).evidence(row)[0, 0]
        family.mean_log(counts).collect(row, np.ones((1, 1)), counts)
    assert family.log_marginal(counts)[0] == pytest.approx(total, rel=1e-11)


# ---- limits --------------------------------------------------------------------------------------
def without_context(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.zeros_like(x)], axis=1)


def test_contexts_of_zero_leave_a_gaussian() -> None:
    x, shares = walk(25, 2), random_shares(25, K, 4)
    prior: dict[str, Any] = {"dof": 5.5, "covariance": np.array([[2.0, 0.3], [0.3, 1.0]])}
    with pytest.warns(sb.DataWarning, match="columns 2, 3: constant"):
        family = resolved(
            AR(offset=[3.0, 5.0], offset_strength=0.4, context_mean=0.0, context=1.0, **prior),
            without_context(x),
        )
    gaussian = resolved(families.Gaussian(mean=[3.0, 5.0], mean_strength=0.4, **prior), x)
    a, b = collect(family, without_context(x), shares), collect(gaussian, x, shares)
    np.testing.assert_allclose(family.log_marginal(a), gaussian.log_marginal(b), rtol=1e-10)
    for rule in RULES:
        found = getattr(family, rule)(a).evidence(family.prepare(without_context(x)))
        np.testing.assert_allclose(
            found, getattr(gaussian, rule)(b).evidence(gaussian.prepare(x)), rtol=1e-10
        )
    ours, theirs = family.describe(a), gaussian.describe(b)
    np.testing.assert_allclose(ours["intercept"], theirs["mean"], rtol=1e-10)
    np.testing.assert_allclose(ours["covariance"], theirs["covariance"], rtol=1e-10)


def test_contexts_of_zero_without_intercept_leave_a_zero_mean_gaussian() -> None:
    x, shares = walk(25, 2), random_shares(25, K, 5)
    prior: dict[str, Any] = {"dof": 5.5, "covariance": np.array([[2.0, 0.3], [0.3, 1.0]])}
    family, other = (
        resolved(AR(intercept=False, **prior), without_context(x)),
        resolved(families.ZeroMeanGaussian(**prior), x),
    )
    a, b = collect(family, without_context(x), shares), collect(other, x, shares)
    for value in ("log_marginal", "log_mode"):
        np.testing.assert_allclose(getattr(family, value)(a), getattr(other, value)(b), rtol=1e-10)
    for rule in (*RULES, "mode"):
        found = getattr(family, rule)(a).evidence(family.prepare(without_context(x)))
        np.testing.assert_allclose(
            found, getattr(other, rule)(b).evidence(other.prepare(x)), rtol=1e-10
        )


# ---- default priors ------------------------------------------------------------------------------
def test_default_priors_come_from_the_departures_and_the_contexts() -> None:
    rows, _ = sb.lag_rows(walk(200, 2))
    family, d = resolved(AR(), rows), rows[:, :2] - rows[:, 2:]
    np.testing.assert_allclose(family.covariance, np.diag(0.25 * d.var(0)), rtol=1e-10)
    np.testing.assert_allclose(family.context, np.diag(rows[:, 2:].var(0)), rtol=1e-10)
    np.testing.assert_allclose(family.context_mean, rows[:, 2:].mean(0), rtol=1e-10)
    np.testing.assert_allclose(family.offset, d.mean(0), rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(family.mean, np.eye(2))
    assert family.dof == 4.0


@pytest.mark.parametrize("intercept", [True, False])
def test_units_change_nothing_but_the_units(intercept: bool) -> None:
    """Other units of each column; with an intercept also another zero."""
    series, shares = walk(30, 2), random_shares(28, K, 6)
    scale, shift = np.array([1e-3, 250.0]), np.array([7.0, -300.0]) if intercept else np.zeros(2)
    found = []
    for x in (series, series * scale + shift):
        rows, _ = sb.lag_rows(x, order=2)
        family = resolved(AR(order=2, intercept=intercept), rows)
        counts = collect(family, rows, shares)
        found.append(family.log_mean(counts).evidence(family.prepare(rows)))
    np.testing.assert_allclose(found[1] + np.log(scale).sum(), found[0], rtol=1e-9, atol=1e-9)


def test_a_resolved_family_stays_as_it_is() -> None:
    for case in (make_case(2, True, 2), make_case(1, False, 2)):
        family, rows, _ = case
        again = resolved(family, 3.0 * rows + 1.0)
        for name, value in family.get_params().items():
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)


BAD = {
    "columns": (
        AR(),
        3,
        r"rows have 3 columns; order=1 needs a value and 1 of the same width "
        r"before it, a multiple of 2",
    ),
    "order": (AR(order=2), 4, "a multiple of 3: see stickbreak.lag_rows"),
    "order zero": (AR(order=0), 4, "order must be a whole number of at least 1; got 0"),
    "mean": (AR(mean=np.eye(3)), 4, r"mean has shape \(3, 3\); expected a number or \(2, 2\)"),
    "mean nan": (AR(mean=np.nan), 4, "mean must be finite"),
    "mean strength": (AR(mean_strength=0), 4, "mean_strength must be a positive number; got 0"),
    "offset strength": (
        AR(offset_strength=-1),
        4,
        "offset_strength must be a positive number; got -1",
    ),
    "dof": (AR(dof=3), 4, r"dof must be above the number of values plus one \(3\); got 3"),
    "context": (AR(context=-1.0), 4, "context must be symmetric and positive definite"),
    "covariance": (AR(covariance=[1.0, 2.0, 3.0]), 4, "covariance has 3 entries"),
    "offset": (AR(intercept=False, offset=1.0), 4, "offset is for intercept=True"),
    "context mean": (
        AR(intercept=False, context_mean=[1.0, 0.0]),
        4,
        "context_mean is for intercept=True",
    ),
    "scale": (AR(scale=[1.0, 1.0]), 4, "scale has shape"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name: str) -> None:
    family, n_columns, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        sb.Mixture(1, family=family).fit(np.random.default_rng(7).normal(size=(10, n_columns)))


# ---- digits --------------------------------------------------------------------------------------
def after_a_lap(family: Any, rows: np.ndarray, labels: np.ndarray) -> Summary:
    """Counts of hard labels once the first lap's upkeep has moved the anchors and the next lap has
    collected about them.
    """
    total, shares = (
        Summary(family.fields("component"), family.zeros(2)),
        np.asfortranarray(np.eye(2)[labels]),
    )
    for _ in range(2):
        out = {n: a.copy() for n, a in total.empty().arrays.items()}
        family.mean_log(total).collect(family.prepare(rows), shares, out)
        counted = Summary(total.layout, out)
        edit = family.refine(counted)
        if edit is None:
            return counted
        total = edit(counted.empty())
    out = {n: a.copy() for n, a in total.empty().arrays.items()}
    family.mean_log(total).collect(family.prepare(rows), shares, out)
    return Summary(total.layout, out)


@pytest.mark.parametrize(
    ("offset", "apart", "step"), [(1e6, 1.0, 1e-3), (1e3, 1e6, 1.0), (0.0, 1e4, 1e-2)]
)
def test_far_and_finely_sampled_series_keep_their_digits(
    offset: float, apart: float, step: float
) -> None:
    """Series far from zero, two regimes far apart, noise a thousandth of the spread: 1e-6 nats
    against 50 digits.
    """
    rng, labels = np.random.default_rng(8), np.repeat([0, 1], 14)
    context = offset + apart * labels[:, None] + rng.normal(size=(28, 2))
    rows = np.column_stack(
        [context + step * (rng.normal(size=(28, 2)) + 0.5 * labels[:, None]), context]
    )
    prior = {
        "mean_strength": 0.5,
        "context": 1.0,
        "context_mean": np.full(2, offset),
        "offset": 0.0,
        "offset_strength": 1e-12,
    }
    family = resolved(AR(**prior, dof=4.0, covariance=step**2), rows)
    joined = joined_prior(np.eye(2), np.zeros(2), 0.5 * np.eye(2), np.full(2, offset), 1e-12)
    oracle = Regression(*joined, 4.0, step**2 * np.eye(2), intercept=True)
    total = after_a_lap(family, rows, labels)
    for k in range(2):
        own = rows[labels == k]
        exact = float(oracle.log_marginal_mp(own, np.ones(14)))
        assert family.log_marginal(total)[k] == pytest.approx(exact, abs=14e-6)
        for rule, method in RULES.items():
            found = getattr(family, rule)(total).evidence(family.prepare(own[:3]))[:, k]
            expected = [
                float(getattr(oracle, f"{method}_mp")(x, own, np.ones(14))) for x in own[:3]
            ]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_a_component_far_away_is_judged_from_an_anchor_of_its_own() -> None:
    labels = np.repeat([0, 1], 14)
    x = walk(29, 1)[:, 0]
    rows = np.column_stack([x[1:] + 1e7 * labels, x[:-1] + 1e7 * labels])
    # the default, the variance of all contexts, is wider than any component
    family = resolved(AR(context=1.0), rows)
    total = after_a_lap(family, rows, labels)
    assert (total["anchor"] != 0).any()
    assert family.refine(total) is None


# ---- gaps ----------------------------------------------------------------------------------------
def with_gaps() -> tuple[np.ndarray, np.ndarray]:
    """Lagged rows of a walk with gaps, and which of them are complete."""
    series = walk(60, 2)
    series[[10, 30], [0, 1]] = np.nan
    rows, _ = sb.lag_rows(series)
    return rows, ~np.isnan(rows).any(1)


def test_rows_that_lack_an_entry_are_left_out_with_one_warning() -> None:
    rows, complete = with_gaps()
    assert complete.sum() == len(rows) - 4
    with pytest.warns(
        sb.DataWarning,
        match="4 of 59 rows lack an entry of their value or context, and are left out",
    ) as caught:
        model = sb.Mixture(1, family="autoregressive").fit(rows)
    assert len(caught) == 1
    alone = sb.Mixture(1, family="autoregressive").fit(rows[complete])
    assert model.lower_bound_ == pytest.approx(alone.lower_bound_, rel=1e-10)
    np.testing.assert_allclose(
        model.posterior_["coefficients"], alone.posterior_["coefficients"], rtol=1e-10
    )
    np.testing.assert_array_equal(model.score_samples(rows)[~complete], 0.0)
    np.testing.assert_array_equal(model.family_.has_values(rows), complete)
    bounds = sb.Mixture(3, family=model.family_, random_state=0).set_params(
        inference=sb.MemoizedVB(n_batches=3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.DataWarning)
        assert_never_drops(bounds.fit(rows).trace_.bound)


def test_rows_without_one_that_is_complete_are_refused() -> None:
    rows = np.array([[1.0, np.nan], [np.nan, 2.0]])
    with pytest.raises(ValueError, match="no row has both its value and its whole context"):
        sb.Mixture(1, family="autoregressive").fit(rows)


def test_missing_values_are_imputed_from_their_context_and_their_other_columns() -> None:
    family, rows, _ = make_case(1, True, 2)
    counts = collect(family, rows, np.ones((len(rows), 1)))
    told = {name: value[0] for name, value in family.describe(counts).items()}
    expected = told["coefficients"] @ rows[0, 2:] + told["intercept"]
    gain = told["covariance"][1, 0] / told["covariance"][0, 0]
    holes = np.repeat(rows[:1], 4, axis=0)
    holes[0, :2], holes[1, 1], holes[2, 2], holes[3, [0, 3]] = np.nan, np.nan, np.nan, np.nan
    found = family.impute(counts, holes, np.ones((4, 1)))
    np.testing.assert_allclose(found[0, :2], expected, rtol=1e-9)
    np.testing.assert_allclose(
        found[1, 1], expected[1] + gain * (rows[0, 0] - expected[0]), rtol=1e-9
    )
    # nothing is missing of the value, nothing is known of the context
    np.testing.assert_array_equal(found[2], holes[2])
    np.testing.assert_array_equal(found[3], holes[3])
    assert family.impute(counts, rows, np.ones((len(rows), 1))) is rows


# ---- draws ---------------------------------------------------------------------------------------
def test_next_values_have_the_predictive_mean_and_covariance() -> None:
    case = FAMILIES["autoregressive"]
    counts = collect(case.family, case.rows, random_shares(25, 2, 9))
    told, p, n = case.family.describe(counts), np.array([4.0, -1.0]), 20_000
    drawn = case.family.sample_next(
        counts, np.ones(n, dtype=int), np.tile(p, (n, 1)), np.random.default_rng(10)
    )
    error = drawn.std(0) / np.sqrt(n)
    assert (
        np.abs(drawn.mean(0) - told["coefficients"][1] @ p - told["intercept"][1]) < 5 * error
    ).all()
    _, V, _, _ = case.oracle.posterior(case.rows, random_shares(25, 2, 9)[:, 1])
    widen = 1 + np.append(p, 1.0) @ np.linalg.solve(V, np.append(p, 1.0))
    # a Student t with shape B widen / dof and dof degrees of freedom has covariance B widen / (dof
    # - 2), dof = nu + 1 - D
    np.testing.assert_allclose(np.cov(drawn.T), told["covariance"][1] * widen, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("intercept", [True, False])
def test_drawn_contexts_are_like_those_that_were_seen(intercept: bool) -> None:
    rows = np.random.default_rng(11).normal([0.0, 0.0, 3.0, -2.0], 1.0, (4000, 4))
    family = resolved(AR(intercept=intercept), rows)
    counts = collect(family, rows, np.ones((4000, 1)))
    drawn = family.sample(counts, np.zeros(4000, dtype=int), np.random.default_rng(12))
    # 5 standard errors of both samples
    np.testing.assert_allclose(drawn[:, 2:].mean(0), [3.0, -2.0], atol=0.12)
    np.testing.assert_allclose(np.cov(drawn[:, 2:].T), np.eye(2), atol=0.16)


def test_a_drawn_path_feeds_its_values_back() -> None:
    rows, _ = sb.lag_rows(walk(40, 2), order=2)
    family = resolved(AR(order=2, covariance=1e-16, dof=1e6), rows)  # next to no noise
    counts = collect(family, rows[:4], np.ones((4, 1)))
    successors, told = family.successors(counts), family.describe(counts)
    context, labels = rows[0, 2:], np.zeros(6, dtype=int)
    path = successors.draw_path(labels, context, np.random.default_rng(13))
    for t in range(6):
        expected = told["coefficients"][0] @ context + told["intercept"][0]
        np.testing.assert_allclose(path[t], expected, rtol=1e-2)
        context = np.concatenate([path[t], context[:2]])


# ---- mixtures ------------------------------------------------------------------------------------
def switching(n: int = 600, seed: int = 14) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A series that turns one way or the other, in stretches of 50: lagged rows, regimes, and the
    two matrices.
    """
    rng = np.random.default_rng(seed)
    A = np.array([[[0.8, -0.55], [0.55, 0.8]], [[0.8, 0.55], [-0.55, 0.8]]])
    labels, x = np.arange(n) // 50 % 2, np.zeros((n + 1, 2))
    for t in range(n):
        x[t + 1] = A[labels[t]] @ x[t] + 0.2 * rng.normal(size=2)
    return sb.lag_rows(x)[0], labels, A


@pytest.mark.parametrize("inference", ["batch", "memoized", "em"])
def test_a_mixture_of_regressions_finds_the_regimes(inference: str) -> None:
    rows, labels, A = switching()
    model = sb.Mixture(2, family=AR(), inference=inference, random_state=0, n_init=3).fit(rows)
    found = model.labels_ ^ (np.mean(model.labels_ == labels) < 0.5)
    assert (found == labels).mean() > 0.85  # rows near the origin look alike under both
    order = np.argsort(-model.posterior_["coefficients"][:, 1, 0])
    np.testing.assert_allclose(model.posterior_["coefficients"][order], A, atol=0.1)
    np.testing.assert_allclose(model.covariances_, np.tile(0.04 * np.eye(2), (2, 1, 1)), atol=0.02)
    drawn, _ = model.sample(5)
    assert drawn.shape == (5, 4)


@pytest.mark.slow
def test_an_unbounded_mixture_finds_how_many_regressions_there_are(tmp_path: Any) -> None:
    rows, _, _ = switching()
    model = sb.DPMixture(family="autoregressive", random_state=0).fit(rows)
    assert model.n_components_ == 2
    model.save(tmp_path / "model.safetensors")
    again = sb.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.score_samples(rows), model.score_samples(rows))
    assert again.family_.order == 1
    assert again.family_.intercept is True


@pytest.mark.parametrize(
    "engine",
    [MemoizedVB(n_batches=3, max_iter=10, tol=0.0, trace_visits=True), EM(max_iter=15, tol=0.0)],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_bounds_never_drop_under_default_priors(intercept: bool, engine: Any) -> None:
    """Components with fewer rows than coefficients among them."""
    rows = switching(60)[0]
    model = MODELS["finite"](resolved(AR(intercept=intercept), rows), 1.0)
    assert_never_drops(fit(model, engine, rows, 5, seed=1).trace.bound)


def test_a_member_of_a_product_reads_its_own_columns() -> None:
    rows, _, _ = switching(200)
    color = (np.arange(200) % 2)[:, None]
    family = sb.Product([(AR(), [1, 2, 3, 4]), ("categorical", 0)])
    model = sb.Mixture(1, family=family).fit(np.column_stack([color, rows]))
    alone = sb.Mixture(1, family=AR()).fit(rows)
    found = model.posterior_["coefficients of columns 1, 2, 3, 4"]
    np.testing.assert_allclose(found, alone.posterior_["coefficients"], rtol=1e-9)
