"""Dirichlet process mixtures on the library: laws of the bound and the sticks, golden numbers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from fitting import (
    GOLDEN_GAMMA,
    GOLDEN_X,
    assert_never_drops,
    blob_model,
    blobs,
    count_shares,
    evidence,
    fit,
    golden_model,
    golden_shares,
    random_start,
    start_from,
)  # fmt: skip
from oracles import conjugate, mixture
from scipy.special import gammaln

from stickbreak.data import Table
from stickbreak.inference import BatchVB, MeanLog
from stickbreak.priors import Sticks
from stickbreak.stats import Field, Fields, Insert, Permute, Summary

# Known to 16-17 digits; some fifty terms of size <= 40 in a standardized frame, exp good to
# 1e-14: 1e-11 after a few steps.
GOLDEN = 1e-11
TABLE = Table(GOLDEN_X)
MODEL = golden_model("dp")
PARAMS = MODEL.start_params(4)
ORACLE = conjugate.FixedVarianceGaussian(np.array([0.5]), np.array([0.0]), 0.2)
RICH = mixture.ConjugateModel(ORACLE)
PRIOR = Sticks(GOLDEN_GAMMA)
COUNTS = [
    np.array(N)
    for N in ([3.2, 0.5, 4.1, 0.0, 1.7], [1.0], [0.0, 2.0, 7.5], [6.0, 6.0, 1.0, 0.3], [1e6, 0.2])
]


def shares_of(counts: np.ndarray) -> Summary:
    return Summary({"share": Field(("component",))}, {"share": np.asarray(counts, dtype=float)})


def prior_bound(counts: np.ndarray) -> float:
    return PRIOR.bound(shares_of(counts), Fields({}, {}))


def rounding(counts: np.ndarray) -> float:
    """Of the prior's bound: a difference of log gammas as large as that of the total."""
    return 4 * np.finfo(float).eps * (100.0 + float(gammaln(1.0 + GOLDEN_GAMMA + counts.sum())))


def test_golden_terms() -> None:
    seed = count_shares(MODEL, TABLE.whole(), golden_shares())
    assert float(MODEL.family.log_marginal(seed).sum()) == pytest.approx(
        -38.08306562528618, abs=GOLDEN
    )
    assert seed.local_bound == pytest.approx(10.606426385385157, abs=GOLDEN)
    assert MODEL.prior.bound(seed, PARAMS) == pytest.approx(-14.690905569099296, abs=GOLDEN)
    assert MODEL.bound(seed, PARAMS) == pytest.approx(-42.16754480900032, abs=GOLDEN)


def test_golden_iterations() -> None:
    engine = BatchVB(max_iter=200, tol=0.0, reorder=False)
    bound = fit(MODEL, engine, TABLE, start_from(MODEL, TABLE, golden_shares())).trace.bound
    np.testing.assert_allclose(
        bound[:3],
        [-38.7308769028667, -28.926431566671035, -27.523026637071837],
        rtol=0,
        atol=GOLDEN,
    )
    # A fixed point: errors of the way there do not add up.
    assert bound[199] == pytest.approx(-24.632542211080143, abs=GOLDEN)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("reorder", [True, False])
def test_bound_never_decreases(seed: int, reorder: bool) -> None:
    rows = blobs(60, seed)
    model = blob_model(rows, "dp")
    engine = BatchVB(max_iter=40, tol=0.0, reorder=reorder)
    assert_never_drops(
        fit(model, engine, rows, random_start(model, Table(rows), 5, seed)).trace.bound
    )


def test_general_bound_at_the_optimum_is_the_simplified_one() -> None:
    """At a fixed point the globals are optimal for the shares that they give, so both forms name
    one number.
    """
    found = fit(
        MODEL,
        BatchVB(max_iter=400, tol=0.0, reorder=False),
        TABLE,
        start_from(MODEL, TABLE, golden_shares()),
    )
    potentials = MODEL.potentials(found.counts, PARAMS, MeanLog())
    new = MODEL.local_step(potentials, TABLE.whole())[0]
    general = MODEL.bound_at(found.counts, PARAMS, potentials, new)
    assert general == pytest.approx(MODEL.bound(found.counts, PARAMS), abs=GOLDEN)


def test_general_bound_away_from_the_optimum_equals_the_oracle_with_slack() -> None:
    other = np.roll(golden_shares(), 1, axis=1)
    q, sticks = (
        mixture.global_step(RICH, GOLDEN_X, other),
        mixture.global_dp(other.sum(0), GOLDEN_GAMMA),
    )
    r = mixture.local_step(RICH, GOLDEN_X, q, mixture.expected_log_weights_dp(*sticks))
    expected = mixture.dp_bound(RICH, GOLDEN_X, r, q, *sticks, GOLDEN_GAMMA).total
    counts = start_from(MODEL, TABLE, other).seed
    potentials = MODEL.potentials(counts, PARAMS, MeanLog())
    new = MODEL.local_step(potentials, TABLE.whole())[0]
    general = MODEL.bound_at(counts, PARAMS, potentials, new)
    assert general == pytest.approx(expected, abs=GOLDEN)
    # The simplified bound of the shares that those globals give has its globals optimal: it is
    # higher.
    assert general < MODEL.bound(new, PARAMS)


@pytest.mark.parametrize("count", [1, 3])
def test_appending_empty_components_changes_nothing(count: int) -> None:
    seed = start_from(MODEL, TABLE, golden_shares()).seed
    grown = Insert("component", count)(seed)
    params = MODEL.start_params(4 + count)
    assert grown.size("component") == 4 + count
    assert MODEL.family.log_marginal(grown)[4:].tolist() == [0.0] * count
    assert MODEL.prior.bound(grown, params) == MODEL.prior.bound(seed, PARAMS)
    assert MODEL.bound(grown, params) == MODEL.bound(seed, PARAMS)


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_empty_component_in_the_middle_costs_what_the_formula_says(counts: np.ndarray) -> None:
    for j in range(len(counts) + 1):
        cost = np.log((GOLDEN_GAMMA + counts[j:].sum()) / GOLDEN_GAMMA)
        change = prior_bound(np.insert(counts, j, 0.0)) - prior_bound(counts)
        assert change == pytest.approx(-cost, abs=rounding(counts))


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_closed_form_equals_the_sum_of_beta_terms(counts: np.ndarray) -> None:
    terms = mixture.l_dp(counts, *mixture.global_dp(counts, GOLDEN_GAMMA), GOLDEN_GAMMA)
    assert prior_bound(counts) == pytest.approx(terms, abs=rounding(counts))
    assert prior_bound(counts) == pytest.approx(
        mixture.l_dp_closed_form(counts, GOLDEN_GAMMA), abs=rounding(counts)
    )


@pytest.mark.parametrize("counts", [*COUNTS, np.array([0.1, 5.0, 2.0, 2.0, 9.0, 0.7])], ids=str)
def test_descending_order_is_the_best(counts: np.ndarray) -> None:
    order = PRIOR.order(shares_of(counts))
    best = prior_bound(counts if order is None else counts[order])
    every = [prior_bound(counts[list(p)]) for p in permutations(range(len(counts)))]
    assert best >= max(every) - rounding(counts)  # orders of equal counts tie up to rounding
    assert (np.diff(counts if order is None else counts[order]) <= 0).all()


def test_order_is_an_edit_of_everything() -> None:
    seed = start_from(
        MODEL, TABLE, golden_shares()[:, [2, 0, 3, 1]] * np.array([0.2, 3.0, 1.0, 0.7])
    ).seed
    edit = MODEL.order(seed)
    assert isinstance(edit, Permute)
    sorted_seed = edit(seed)
    assert MODEL.bound(sorted_seed, PARAMS) > MODEL.bound(seed, PARAMS)
    assert MODEL.order(sorted_seed) is None


def test_one_component_is_the_joint_with_all_rows_in_it() -> None:
    found = fit(
        MODEL, BatchVB(max_iter=3, tol=0.0), TABLE, start_from(MODEL, TABLE, np.ones((8, 1)))
    )
    # E[u^N] under Beta(1, gamma): the probability that all eight rows stop at the first stick.
    log_prior = mixture.log_beta(9.0, GOLDEN_GAMMA) - mixture.log_beta(1.0, GOLDEN_GAMMA)
    assert found.bound == pytest.approx(
        ORACLE.log_marginal(GOLDEN_X, np.ones(8)) + log_prior, abs=GOLDEN
    )


@pytest.mark.parametrize("n", [4, 8])
def test_bound_below_the_evidence(n: int) -> None:
    """Bell(4) = 15 and Bell(8) = 4140 partitions."""
    table = Table(GOLDEN_X[:n])
    exact = evidence(ORACLE, table.rows, "dp", 0, GOLDEN_GAMMA)
    if n == 8:
        assert exact == pytest.approx(-19.143581135034943, abs=GOLDEN)
    for seed in range(4):
        found = fit(
            MODEL, BatchVB(max_iter=100, tol=0.0), table, random_start(MODEL, table, 1 + seed, seed)
        )
        assert found.trace.bound.max() <= exact + GOLDEN


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_expected_shares_and_the_rest_sum_to_one(counts: np.ndarray) -> None:
    share = PRIOR.mean(shares_of(counts), Fields({}, {}))
    expected, rest = mixture.expected_weights(*mixture.global_dp(counts, GOLDEN_GAMMA))
    np.testing.assert_allclose(share, expected, rtol=1e-12)  # exp of a sum of logs
    assert share.sum() + rest == pytest.approx(1.0, abs=1e-13)
    assert rest > 0


def test_mean_log_matches_draws_of_sticks() -> None:
    counts = COUNTS[0]
    eta1, eta0 = mixture.global_dp(counts, GOLDEN_GAMMA)
    u = np.random.default_rng(12).beta(eta1, eta0, size=(200_000, len(counts)))
    log_share = np.log(u) + np.c_[np.zeros(len(u)), np.log1p(-u).cumsum(1)[:, :-1]]
    error = log_share.std(0) / np.sqrt(len(u))
    found = PRIOR.mean_log(shares_of(counts))
    # five standard errors, one fixed draw
    assert (np.abs(found - log_share.mean(0)) < 5 * error).all()
    # And the closed form, up to rounding of digammas of size <= 10.
    np.testing.assert_allclose(
        found, mixture.expected_log_weights_dp(eta1, eta0), rtol=0, atol=1e-13
    )
