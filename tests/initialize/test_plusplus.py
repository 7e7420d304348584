"""Seeding, Bregman k-means, and every kind of start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fitting import (
    MODELS,
    assert_never_drops,
    blob_model,
    blobs,
    dense,
    fit,
    random_start,
    start_from,
)
from registers import FAMILIES, FamilyCase
from scipy import sparse
from scipy.special import xlogy

import stickbreak as sb
from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.inference import BatchVB, Hard, HardEM, Mode
from stickbreak.initialize import (
    choose_plusplus,
    choose_random,
    count_labels,
    from_labels,
    from_plusplus,
    from_previous,
    from_random,
    refine_hard,
)  # fmt: skip

every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())


# ---- Bregman k-means -----------------------------------------------------------------------------
def kl_terms(name: str, a: np.ndarray, b: np.ndarray, family: Any) -> np.ndarray:
    """Divergence D(a, b) of mean parameters, column by column."""
    if name == "fixed_variance":
        return (a - b) ** 2 / (2 * family.variance)
    if name == "bernoulli":
        return xlogy(a, a / b) + xlogy(1 - a, (1 - a) / (1 - b))
    return xlogy(a, a / b) - a + b


def prior_of(name: str, family: Any) -> tuple[np.ndarray, float]:
    """(tau, nu) of the minimal form."""
    if name == "fixed_variance":
        return family.mean_strength * family.mean, family.mean_strength
    if name == "bernoulli":
        return np.asarray(family.on, dtype=float), float(family.on + family.off)
    return np.asarray(family.shape, dtype=float), float(np.asarray(family.rate).ravel()[0])


def objective(
    name: str, case: FamilyCase, labels: np.ndarray, n_components: int, gamma: float
) -> float:
    """Objective of Bregman k-means at the best mean parameters and shares for these labels."""
    X, (tau, nu) = dense(case.rows).astype(float), prior_of(name, case.family)
    N = np.bincount(labels, minlength=n_components)
    share = (N + gamma / n_components) / (N.sum() + gamma)
    total = float(((N + gamma / n_components) * np.log(share)).sum())
    for k in range(n_components):
        mu = (X[labels == k].sum(0) + tau) / (N[k] + nu)
        total -= kl_terms(name, X[labels == k], mu, case.family).sum()
        total -= nu * kl_terms(name, np.broadcast_to(tau / nu, mu.shape), mu, case.family).sum()
    return total


@pytest.mark.parametrize("name", ["fixed_variance", "bernoulli", "poisson"])
def test_objective_is_the_formula_and_never_drops(name: str) -> None:
    """HardEM reports J plus what depends on the rows and the prior alone: the same constant at
    every lap.
    """
    case, K, gamma = FAMILIES[name], 3, 1.5
    model, table = MODELS["finite"](case.family, gamma), Table(case.rows)
    counts, params, rule = (
        random_start(model, table, K, 4).seed,
        model.start_params(K),
        Hard(Mode()),
    )
    gaps, values = [], []
    for _ in range(8):
        potentials = model.potentials(counts, params, rule)
        labels = model.decode(potentials, table.whole())
        counts = model.best_only().local_step(potentials, table.whole())[0]
        values.append(rule.bound(model, counts, params))
        gaps.append(values[-1] - objective(name, case, labels, K, gamma))
        share = model.prior.mean(counts, params)
        np.testing.assert_allclose(
            share,
            (np.bincount(labels, minlength=K) + gamma / K) / (len(labels) + gamma),
            rtol=1e-13,
        )
        assert share.sum() == pytest.approx(1.0, abs=1e-14)
    # sums of 25 rows, bounds of a few hundred nats
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-11)
    assert_never_drops(values)
    engine = HardEM(max_iter=8, tol=0.0)
    np.testing.assert_allclose(
        fit(model, engine, table, random_start(model, table, K, 4)).trace.bound, values, rtol=1e-12
    )


def test_constant_is_the_density_at_the_mean_for_fixed_variance() -> None:
    case, K, gamma = FAMILIES["fixed_variance"], 3, 1.5
    model, table = MODELS["finite"](case.family, gamma), Table(case.rows)
    labels = np.arange(25) % K
    counts = count_labels(model, table.whole(), labels, K)
    constant = -0.5 * 25 * np.log(2 * np.pi * case.family.variance).sum()
    expected = objective("fixed_variance", case, labels, K, gamma) + constant
    assert model.log_mode(counts, model.start_params(K)) == pytest.approx(expected, rel=1e-12)


@every_family
def test_refine_hard_is_hard_em(case: FamilyCase) -> None:
    model, table = MODELS["finite"](case.family, 1.0), Table(case.rows)
    start = random_start(model, table, 3, 4)
    refined = refine_hard(model, table.whole(), start.seed, start.params, 3)
    fitted = fit(model, HardEM(max_iter=3, tol=0.0), table, start).counts
    for name, array in fitted.arrays.items():
        np.testing.assert_allclose(refined[name], array, rtol=1e-12, atol=1e-12, err_msg=name)


# ---- k-means++ -----------------------------------------------------------------------------------
class ScriptedChoice:
    """Stands in for a Generator: records the probabilities of each draw and returns a
    scripted row.
    """

    def __init__(self, picks: list[int]) -> None:
        self.picks, self.seen = list(picks), []

    def choice(self, n: int, p: np.ndarray) -> int:
        self.seen.append(np.array(p))
        return self.picks.pop(0)


@pytest.mark.few(4)
@every_family
def test_seeding_never_repeats_a_row(case: FamilyCase) -> None:
    rows = case.family.prepare(case.rows)
    for seed in range(10):
        for K in (2, 7, 25):
            chosen = choose_plusplus(case.family, rows, np.ones(25), K, np.random.default_rng(seed))
            assert len(set(chosen.tolist())) == len(chosen) == K


@pytest.mark.few(4)
@every_family
def test_more_components_than_rows_chooses_every_row(case: FamilyCase) -> None:
    chosen = choose_plusplus(
        case.family, case.family.prepare(case.rows), np.ones(25), 40, np.random.default_rng(0)
    )
    assert sorted(chosen.tolist()) == list(range(25))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name", ["gaussian", "fixed_variance", "poisson", "bernoulli", "categorical", "multinomial"]
)
def test_as_many_components_as_distinct_rows_chooses_each_of_them(name: str) -> None:
    case = FAMILIES[name]
    distinct = np.unique(case.dense, axis=0)
    rows = np.repeat(distinct, 3, axis=0)
    for seed in range(10):
        chosen = choose_plusplus(
            case.family,
            case.family.prepare(rows),
            np.ones(len(rows)),
            len(distinct),
            np.random.default_rng(seed),
        )
        assert len(np.unique(rows[chosen], axis=0)) == len(distinct)


def test_rows_that_do_not_count_are_never_chosen() -> None:
    case = FAMILIES["gaussian"]
    repeats = np.where(np.arange(25) % 2, 0.0, 2.0)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        assert (
            choose_plusplus(case.family, case.family.prepare(case.rows), repeats, 30, rng) % 2 == 0
        ).all()
        assert (choose_random(repeats, 30, rng) % 2 == 0).all()


def test_probabilities_are_squared_distances_over_their_sum() -> None:
    X = blobs(30, 5, n_features=3)
    family = families.FixedVarianceGaussian(variance=1.0, mean=0.0, mean_strength=1e-12).resolve(
        measure(Table(X))
    )
    rng = ScriptedChoice([4, 11, 20])
    chosen = choose_plusplus(family, family.prepare(X), np.ones(30), 3, rng)
    assert chosen.tolist() == [4, 11, 20]
    squared = ((X[:, None] - X[None, [4, 11]]) ** 2).sum(-1)
    np.testing.assert_allclose(rng.seen[0], np.full(30, 1 / 30), rtol=1e-14)
    # The prior is worth 1e-12 of a row; rows are standardized and back.
    np.testing.assert_allclose(
        rng.seen[1], squared[:, 0] / squared[:, 0].sum(), rtol=1e-10, atol=1e-30
    )
    np.testing.assert_allclose(
        rng.seen[2], squared.min(1) / squared.min(1).sum(), rtol=1e-10, atol=1e-30
    )


def test_repeats_multiply_the_divergence() -> None:
    X, repeats = blobs(12, 5), np.arange(1.0, 13.0)
    family = families.FixedVarianceGaussian(variance=1.0, mean=0.0, mean_strength=1e-12).resolve(
        measure(Table(X))
    )
    rng = ScriptedChoice([4, 7])
    choose_plusplus(family, family.prepare(X), repeats, 2, rng)
    squared = repeats * ((X - X[4]) ** 2).sum(1)
    np.testing.assert_allclose(rng.seen[0], repeats / repeats.sum(), rtol=1e-14)
    np.testing.assert_allclose(rng.seen[1], squared / squared.sum(), rtol=1e-10, atol=1e-30)


@every_family
def test_divergence_is_the_bregman_divergence_of_smoothed_rows(case: FamilyCase) -> None:
    """What seeding computes in one pass equals `bregman` on one-row counts."""
    rows = case.family.prepare(case.rows)
    model = MODELS["finite"](case.family, 1.0)
    means = case.family.smoothed_mean(
        count_labels(model, Table(case.rows).whole(), np.arange(25), 25)
    )
    table = case.family.bregman(means, means)
    for index in (0, 7):
        # Differences of logarithms of size <= 100, a divergence of zero among them.
        np.testing.assert_allclose(
            case.family.divergence(rows, index), table[:, index], rtol=1e-9, atol=1e-9
        )


# ---- starts --------------------------------------------------------------------------------------
def test_from_random_takes_one_row_for_each_component() -> None:
    rows = blobs(50, 2)
    model = blob_model(rows)
    start = from_random(model, Table(rows), 4, np.random.default_rng(3))
    np.testing.assert_allclose(start.seed["share"], 50 / 4)  # one row each, scaled to the data
    # the prior drowned: the mean is the row
    means = model.family.describe(start.seed.scale(1e9))["mean"]
    nearest = ((rows[:, None] - means[None]) ** 2).sum(-1).min(0)
    assert nearest.max() < 1e-10
    again = from_random(model, Table(rows), 4, np.random.default_rng(3))
    np.testing.assert_array_equal(again.seed["moments"], start.seed["moments"])


def test_from_random_with_fewer_rows_than_components_leaves_the_rest_empty() -> None:
    rows = blobs(3, 2)
    start = from_random(blob_model(rows), Table(rows), 5, np.random.default_rng(0))
    assert (start.seed["share"] > 0).sum() == 3
    assert start.seed["share"].sum() == pytest.approx(3.0)


@pytest.mark.covering
@every_family
@pytest.mark.parametrize("allocation", list(MODELS))
def test_from_plusplus_counts_every_row(case: FamilyCase, allocation: str) -> None:
    model, table = MODELS[allocation](case.family, 1.0), Table(case.rows)
    start = from_plusplus(model, table, 4, np.random.default_rng(0))
    assert start.seed["share"].sum() == pytest.approx(25.0)
    assert start.seed.n_units == 25.0
    passes = [
        from_plusplus(model, table, 4, np.random.default_rng(0), n_passes=i).seed
        for i in (1, 2, 3, 6)
    ]
    assert_never_drops([model.log_mode(seed, start.params) for seed in passes])
    np.testing.assert_array_equal(passes[1]["share"], start.seed["share"])  # two passes unless told


def test_from_plusplus_of_a_sample_is_scaled_to_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stickbreak.initialize.plusplus.SAMPLE_ROWS", 30)
    rows = blobs(200, 2)
    start = from_plusplus(blob_model(rows), Table(rows), 3, np.random.default_rng(0))
    assert start.seed["share"].sum() == pytest.approx(200.0)
    np.testing.assert_allclose(
        start.seed["share"] * 30 / 200, np.round(start.seed["share"] * 30 / 200), atol=1e-12
    )


def test_from_plusplus_seeds_a_labelled_component_with_its_own_rows() -> None:
    rows = np.concatenate([np.full((10, 2), c) for c in (0.0, 50.0, 100.0)]) + blobs(
        30, 1, spread=0.0
    )
    labels = np.full(30, -1)
    labels[[3, 25]] = [2, 0]  # row 3 (near 0) is component 2, row 25 (near 100) is component 0
    legal = np.concatenate([np.ones((1, 3)), np.eye(3)])
    table = Table(rows, sets=labels + 1)
    model = blob_model(rows)
    for seed in range(5):
        start = from_plusplus(model, table, 3, np.random.default_rng(seed), legal=legal)
        means = model.family.describe(start.seed)["mean"][:, 0]
        assert means[2] == pytest.approx(0.0, abs=2.0)
        assert means[0] == pytest.approx(100.0, abs=2.0)


@every_family
def test_from_labels_counts_the_known_rows(case: FamilyCase) -> None:
    model = MODELS["finite"](case.family, 1.0)
    labels = np.arange(25) % 4 - 1  # -1, 0, 1, 2
    start = from_labels(model, Table(case.rows), labels, 3)
    known = labels >= 0
    hard = start_from(model, Table(case.rows[np.flatnonzero(known)]), np.eye(3)[labels[known]]).seed
    for name, array in hard.scale(25 / known.sum()).arrays.items():
        np.testing.assert_allclose(start.seed[name], array, rtol=1e-12, atol=1e-12, err_msg=name)
    assert start.seed.n_units == pytest.approx(25.0)


def test_from_labels_of_clusters_far_apart_finds_their_means(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statistics about reference points of their own, also when the rows fill several batches."""
    monkeypatch.setattr("stickbreak.data.table.BATCH_ROWS", 20)
    labels = np.arange(90) % 3
    rows = blobs(90, 1, spread=0.0) + 1e6 * labels[:, None]
    model = blob_model(rows, family=families.Gaussian(covariance=1.0))
    seed = from_labels(model, Table(rows), labels, 3).seed
    assert (seed["anchor"] != 0).any()
    expected = np.array([rows[labels == k].mean(0) for k in range(3)])
    # The prior mean, a million away, is worth 0.01 of 30 rows.
    np.testing.assert_allclose(
        model.family.describe(seed)["mean"],
        (30 * expected + 0.01 * rows.mean(0)) / 30.01,
        atol=1e-3,
    )


def test_from_previous_scales_to_the_new_data_and_keeps_ids() -> None:
    rows = blobs(50, 2)
    model = blob_model(rows)
    found = fit(model, BatchVB(max_iter=20), rows, 3)
    start = from_previous(found.counts, found.params, found.ids, 200.0)
    np.testing.assert_allclose(start.seed["share"], 4 * found.counts["share"])
    assert start.ids == found.ids
    again = fit(
        model,
        BatchVB(max_iter=20),
        rows,
        from_previous(found.counts, found.params, found.ids, 50.0),
    )
    assert again.bound >= found.bound - 1e-9
    assert set(again.ids) == set(found.ids)


@pytest.mark.slow
def test_births_on_sparse_rows_equal_those_on_dense_ones() -> None:
    """A sample of CSR rows has a vocabulary of its own: the coarse passes of newborns must read the
    counts through it.
    """
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(400, 0.05), 3)
    X = rng.multinomial(60, topics[rng.integers(3, size=150)]).astype(float)
    assert (X.sum(0) == 0).any()
    fits = [
        sb.DPMixture(family=sb.Multinomial(concentration=0.1), random_state=0).fit(rows)
        for rows in (X, sparse.csr_array(X))
    ]
    assert [model.n_components_ for model in fits] == [3, 3]
    # sums in another order
    assert fits[1].lower_bound_ == pytest.approx(fits[0].lower_bound_, rel=1e-9)
