"""k-means||: draws and weights by their definition, rare clusters found, the same result for any
pool and on disk.
"""

from __future__ import annotations

import numpy as np
import pytest
from estimator_cases import CASES, NAMES
from fitting import MODELS, blob_model, blobs
from registers import FAMILIES, FamilyCase

import stickbreak as sb
from stickbreak.data import Table
from stickbreak.inference import workers
from stickbreak.initialize import (
    choose_scalable,
    from_plusplus,
    from_random,
    from_scalable,
    scalable,
)
from stickbreak.initialize.scalable import _draw


@pytest.fixture(autouse=True)
def one_blas_thread():
    """As in a fit."""
    with workers():
        yield


every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())


def divergences(case: FamilyCase, drawn: np.ndarray) -> np.ndarray:
    """(n, drawn) of every row from every drawn one."""
    prepared = case.family.prepare_seeding(case.rows)
    return np.column_stack([case.family.divergence(prepared, int(i)) for i in drawn])


@every_family
def test_divergences_are_the_divergence_from_each_row(case: FamilyCase) -> None:
    prepared = case.family.prepare_seeding(case.rows)
    found = case.family.divergences(prepared, np.array([7, 0, 7]))
    assert found.shape == (3, 25)
    # Differences of sums of some hundred: a divergence of zero among them.
    np.testing.assert_allclose(
        found, [case.family.divergence(prepared, i) for i in (7, 0, 7)], rtol=1e-9, atol=1e-9
    )


@pytest.mark.covering
@every_family
@pytest.mark.parametrize("chunk", [4, 1000])
def test_weights_are_the_rows_nearest_to_each_drawn_one(
    case: FamilyCase, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalable, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(scalable, "BLOCK_ROWS", 3)
    repeats = np.arange(25.0) % 4
    for seed in range(3):
        whole = Table(case.rows, repeats).whole()
        drawn, weights = choose_scalable(case.family, whole, 3, np.random.default_rng(seed))
        assert len(set(drawn.tolist())) == len(drawn)
        assert (repeats[drawn] > 0).all()
        assert 3 <= len(drawn) <= 16  # one, then at most three in each of five rounds
        table = divergences(case, drawn)
        least = np.isclose(table, table.min(1, keepdims=True), rtol=1e-9, atol=1e-12)
        assert weights.sum() == pytest.approx(repeats.sum())
        # rows as near to two are counted for one of them
        assert (weights <= repeats @ least + 1e-9).all()
        only = least & (least.sum(1, keepdims=True) == 1)
        assert (weights >= repeats @ only - 1e-9).all()


def test_rows_are_drawn_in_proportion_to_repeats_times_divergence() -> None:
    weight = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    repeats = np.array([5.0, 1.0, 0.0, 2.0, 1.0])
    whole, rng = Table(np.zeros((5, 1)), repeats).whole(), np.random.default_rng(0)
    first = (
        np.bincount(
            [_draw(sb.Gaussian(), whole, weight, 1, rng)[0] for _ in range(5_000)], minlength=5
        )
        / 5_000
    )
    # four deviations of a share
    np.testing.assert_allclose(first, weight * repeats / (weight * repeats).sum(), atol=0.03)
    # without replacement, never one of weight zero
    every = _draw(sb.Gaussian(), whole, weight, 10, rng)
    assert sorted(every.tolist()) == [1, 3, 4]


@pytest.mark.slow
def test_chunks_do_not_change_the_odds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalable, "CHUNK_ROWS", 2)
    weight, whole, rng = np.arange(5.0), Table(np.zeros((5, 1))).whole(), np.random.default_rng(1)
    first = (
        np.bincount(
            [_draw(sb.Gaussian(), whole, weight, 1, rng)[0] for _ in range(4_000)], minlength=5
        )
        / 4_000
    )
    np.testing.assert_allclose(first, weight / 10, atol=0.03)


def test_the_pool_and_the_disk_do_not_change_a_bit(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalable, "CHUNK_ROWS", 20_000)  # two lanes each
    rows = blobs(30_000, 3)
    np.save(tmp_path / "rows.npy", rows)
    model = blob_model(rows)
    one = from_scalable(model, Table(rows), 6, np.random.default_rng(4))
    with workers(3) as pool:
        many = from_scalable(model, Table(rows), 6, np.random.default_rng(4), pool=pool)
    disk = from_scalable(
        model, Table(np.load(tmp_path / "rows.npy", mmap_mode="r")), 6, np.random.default_rng(4)
    )
    for name, array in one.seed.arrays.items():
        np.testing.assert_array_equal(many.seed[name], array, err_msg=name)
        np.testing.assert_array_equal(disk.seed[name], array, err_msg=name)


@every_family
@pytest.mark.parametrize("allocation", list(MODELS))
def test_every_family_starts_and_every_row_counts(case: FamilyCase, allocation: str) -> None:
    model, table = MODELS[allocation](case.family, 1.0), Table(case.rows)
    for begin in (from_scalable, from_random):
        start = begin(model, table, 4, np.random.default_rng(0))
        assert start.seed["share"].sum() == pytest.approx(25.0)
        assert start.seed.n_units == pytest.approx(25.0)
        assert np.isfinite(model.log_mode(start.seed, start.params))


@pytest.mark.slow
def test_a_cluster_too_rare_for_the_sample_is_found() -> None:
    """Eight rows in 60,000, far away: a sample of 20,000 rows holds two or three of them, if any;
    k-means|| cannot miss them.
    """
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60_000, 2))
    rows[rng.choice(60_000, 8, replace=False)] += 1000.0
    model = blob_model(rows, family=sb.FixedVarianceGaussian(variance=1.0))
    for seed in range(5):
        means = model.family.describe(
            from_scalable(model, Table(rows), 2, np.random.default_rng(seed)).seed
        )["mean"]
        # the prior mean is worth a hundredth of a row
        assert np.sort(means[:, 0])[-1] == pytest.approx(1000.0, abs=20.0)


def test_seeds_are_as_good_as_those_of_plusplus_on_all_rows() -> None:
    """The cost of clusters around the seeds: on average no worse than a tenth more than that of
    k-means++.
    """
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(12, 3)) * 20.0
    rows = centers[rng.integers(0, 12, 3000)] + rng.normal(size=(3000, 3))
    model = blob_model(rows, family=sb.FixedVarianceGaussian(variance=1.0))
    cost = {}
    for begin in (from_plusplus, from_scalable):
        found = []
        for seed in range(10):
            means = model.family.describe(
                begin(model, Table(rows), 12, np.random.default_rng(seed), n_passes=1).seed
            )["mean"]
            found.append(((rows[:, None] - means[None]) ** 2).sum(-1).min(1).mean())
        cost[begin] = np.mean(found)
    assert cost[from_scalable] < 1.1 * cost[from_plusplus]


@pytest.mark.parametrize("begin", [from_scalable, from_random])
def test_a_labelled_component_is_seeded_with_its_own_rows(begin) -> None:
    rows = np.concatenate([np.full((10, 2), c) for c in (0.0, 50.0, 100.0)]) + blobs(
        30, 1, spread=0.0
    )
    labels = np.full(30, -1)
    labels[[3, 25]] = [2, 0]  # row 3 (near 0) is component 2, row 25 (near 100) is component 0
    legal = np.concatenate([np.ones((1, 3)), np.eye(3)])
    model = blob_model(rows)
    for seed in range(5):
        start = begin(
            model, Table(rows, sets=labels + 1), 3, np.random.default_rng(seed), legal=legal
        )
        means = model.family.describe(start.seed)["mean"][:, 0]
        assert means[2] == pytest.approx(0.0, abs=3.0)
        assert means[0] == pytest.approx(100.0, abs=3.0)


def test_fewer_distinct_rows_than_components_leave_the_rest_empty() -> None:
    rows = np.repeat([[0.0, 0.0], [5.0, 5.0]], 10, axis=0)
    start = from_scalable(
        blob_model(np.eye(2) + rows[:2]), Table(rows), 4, np.random.default_rng(0)
    )
    assert start.seed["share"].sum() == pytest.approx(20.0)
    assert (start.seed["share"] > 0).sum() == 2


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    rows = blobs(100, 0)
    from_scalable(
        blob_model(rows),
        Table(rows),
        3,
        np.random.default_rng(0),
        report=lambda *told: seen.append(told),
    )
    assert seen == [(100 * i, 600) for i in range(1, 7)]


# ---- estimators ----------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
@pytest.mark.parametrize("cls", [sb.Mixture, pytest.param(sb.DPMixture, marks=pytest.mark.slow)])
def test_every_way_to_begin_fits(cls, init: str) -> None:
    rows = blobs(300, 2, spread=10.0)
    model = cls(3, init=init, n_init=3, random_state=0).fit(rows)
    assert model.lower_bound_ == pytest.approx(
        cls(3, n_init=3, random_state=0).fit(rows).lower_bound_, rel=1e-3
    )
    again = cls(3, init=init, n_init=3, random_state=0, n_jobs=2).fit(rows)
    assert again.lower_bound_ == model.lower_bound_
    assert np.isfinite(cls(3, init=init, random_state=0).partial_fit(rows).lower_bound_)
    guided = cls(3, init=init, random_state=0).fit(rows, labels=np.where(np.arange(300) < 1, 1, -1))
    assert guided.component_ids_[guided.labels_[0]] == 1


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"unknown init 'kmeans'; choose one of auto, k-means\+\+, "
        r"k-means\|\|, random",
    ):
        sb.Mixture(2, init="kmeans").fit(blobs(20, 0))


# ten laps are enough to see the bound rise
@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
@pytest.mark.parametrize("init", ["k-means||", "random"])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_fits_from_every_start(name: str, init: str) -> None:
    case = CASES[name]
    model = sb.Mixture(
        3, family=name, init=init, inference=sb.BatchVB(max_iter=10), random_state=0
    ).fit(case.rows)
    assert np.diff(model.trace_.bound).min() >= -1e-10 * abs(model.lower_bound_)
    assert model.score(case.new) > sb.Mixture(1, family=name).fit(case.rows).score(case.new)
