"""Finite mixtures on the library: laws of the bound, and golden numbers."""

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

from stickbreak.data import Table
from stickbreak.inference import BatchVB, MeanLog
from stickbreak.stats import Permute

# Known to 16-17 digits; some fifty terms of size <= 40 in a standardized frame, exp good to
# 1e-14: 1e-11 after a few steps.
GOLDEN = 1e-11
TABLE = Table(GOLDEN_X)
MODEL = golden_model("finite")
ORACLE = conjugate.FixedVarianceGaussian(np.array([0.5]), np.array([0.0]), 0.2)
STEPS = BatchVB(max_iter=3, tol=0.0, reorder=False)


def test_golden_terms() -> None:
    seed = count_shares(MODEL, TABLE.whole(), golden_shares())
    params = MODEL.start_params(4)
    assert float(MODEL.family.log_marginal(seed).sum()) == pytest.approx(
        -38.08306562528618, abs=GOLDEN
    )
    assert seed.local_bound == pytest.approx(10.606426385385157, abs=GOLDEN)
    assert MODEL.prior.bound(seed, params) == pytest.approx(-14.455590875927584, abs=GOLDEN)
    assert MODEL.bound(seed, params) == pytest.approx(-41.93223011582861, abs=GOLDEN)


def test_golden_iterations() -> None:
    found = fit(MODEL, STEPS, TABLE, start_from(MODEL, TABLE, golden_shares()))
    expected = [-38.93772584699368, -29.563527641487042, -28.647399741509417]
    np.testing.assert_allclose(found.trace.bound, expected, rtol=0, atol=GOLDEN)
    assert found.bound == found.trace[-1].bound


def test_shares_of_each_iteration_equal_the_oracle() -> None:
    r, counts, params = (
        golden_shares(),
        start_from(MODEL, TABLE, golden_shares()).seed,
        MODEL.start_params(4),
    )
    for _ in range(5):
        r = mixture.vb_step(mixture.ConjugateModel(ORACLE), GOLDEN_X, r, GOLDEN_GAMMA, "finite")
        potentials = MODEL.potentials(counts, params, MeanLog())
        # Differences of log weights of size <= 50: relative rounding of a few 1e-14 each.
        np.testing.assert_allclose(MODEL.shares(potentials, TABLE.whole()), r, rtol=0, atol=1e-12)
        counts = MODEL.local_step(potentials, TABLE.whole())[0]


def test_local_step_bound_equals_the_oracle_bound() -> None:
    r = golden_shares()
    for _ in range(5):
        expected = mixture.bound_at_optimum(
            mixture.ConjugateModel(ORACLE), GOLDEN_X, r, GOLDEN_GAMMA, "finite"
        )
        seed = count_shares(MODEL, TABLE.whole(), r)
        assert MODEL.bound(seed, MODEL.start_params(4)) == pytest.approx(expected.total, abs=GOLDEN)
        r = mixture.vb_step(mixture.ConjugateModel(ORACLE), GOLDEN_X, r, GOLDEN_GAMMA, "finite")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bound_never_decreases(seed: int) -> None:
    rows = blobs(60, seed)
    model = blob_model(rows, "finite")
    found = fit(
        model, BatchVB(max_iter=40, tol=0.0), rows, random_start(model, Table(rows), 4, seed)
    )
    assert_never_drops(found.trace.bound)


def test_one_component_gives_the_exact_evidence() -> None:
    found = fit(MODEL, STEPS, TABLE, start_from(MODEL, TABLE, np.ones((8, 1))))
    # Entropy and L_Dir vanish; what is left is one log marginal.
    assert found.bound == pytest.approx(ORACLE.log_marginal(GOLDEN_X, np.ones(8)), abs=GOLDEN)
    assert found.bound == pytest.approx(
        evidence(ORACLE, GOLDEN_X, "finite", 1, GOLDEN_GAMMA), abs=GOLDEN
    )


@pytest.mark.parametrize("n_components", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bound_below_the_evidence(n_components: int, seed: int) -> None:
    table = Table(GOLDEN_X[[0, 1, 3, 5, 6, 7]])
    exact = evidence(ORACLE, table.rows, "finite", n_components, GOLDEN_GAMMA)
    start = random_start(MODEL, table, n_components, seed)
    found = fit(MODEL, BatchVB(max_iter=50, tol=0.0), table, start)
    # A bound up to rounding. It is not vacuous either: within the log of the number of labelings.
    assert found.trace.bound.max() <= exact + GOLDEN
    assert found.bound >= exact - 6 * np.log(n_components)


def test_bound_is_permutation_invariant() -> None:
    seed, params = start_from(MODEL, TABLE, golden_shares()).seed, MODEL.start_params(4)
    base = MODEL.bound(seed, params)
    traced = fit(MODEL, STEPS, TABLE, start_from(MODEL, TABLE, golden_shares())).trace.bound
    for order in permutations(range(4)):
        # Re-ordered sums only.
        assert MODEL.bound(Permute("component", order)(seed), params) == pytest.approx(
            base, abs=GOLDEN
        )
        moved = fit(MODEL, STEPS, TABLE, start_from(MODEL, TABLE, golden_shares()[:, order]))
        np.testing.assert_allclose(moved.trace.bound, traced, rtol=0, atol=GOLDEN)


def test_prior_does_not_care_for_the_order() -> None:
    found = fit(
        MODEL,
        BatchVB(max_iter=5, tol=0.0, reorder=True),
        TABLE,
        start_from(MODEL, TABLE, golden_shares()),
    )
    assert found.ids == (0, 1, 2, 3)


def test_expected_shares_sum_to_one_and_equal_the_oracle() -> None:
    seed = start_from(MODEL, TABLE, golden_shares()).seed
    share = MODEL.prior.mean(seed, MODEL.start_params(4))
    expected = mixture.expected_weights_finite(
        mixture.global_finite(golden_shares().sum(0), GOLDEN_GAMMA)
    )
    # Four numbers below one: rounding of log and exp.
    np.testing.assert_allclose(share, expected, rtol=1e-14)
    assert share.sum() == pytest.approx(1.0, abs=1e-14)


def test_bound_at_other_globals_equals_the_oracle_with_slack() -> None:
    """q(globals) made from other counts: the bound with its slack terms, and with the best
    responsibilities for them.
    """
    other = np.roll(golden_shares(), 1, axis=1)
    oracle, N = mixture.ConjugateModel(ORACLE), other.sum(0)
    q, theta = mixture.global_step(oracle, GOLDEN_X, other), mixture.global_finite(N, GOLDEN_GAMMA)
    r = mixture.local_step(oracle, GOLDEN_X, q, mixture.expected_log_weights_finite(theta))
    expected = mixture.finite_bound(oracle, GOLDEN_X, r, q, theta, GOLDEN_GAMMA).total
    counts, params = start_from(MODEL, TABLE, other).seed, MODEL.start_params(4)
    potentials = MODEL.potentials(counts, params, MeanLog())
    found = MODEL.local_step(potentials, TABLE.whole())[0]
    assert MODEL.bound_at(counts, params, potentials, found) == pytest.approx(expected, abs=GOLDEN)
