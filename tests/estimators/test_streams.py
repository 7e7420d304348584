"""Data on disk, rows that come in parts, and many threads: the same answers."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from estimator_cases import CASES, NAMES, blobs, fixed_dp

import stickbreak as sb

ESTIMATORS = (sb.Mixture, fixed_dp)
LARGE = blobs(20_000, n_features=3, n_groups=4, seed=11)  # several lanes: there is work to share


@pytest.fixture
def path(tmp_path) -> Path:
    np.save(tmp_path / "rows.npy", LARGE)
    return tmp_path / "rows.npy"


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("engine", ["batch", "memoized", "stochastic", "em", "hard-em"])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_two_jobs_give_the_same_bits_as_one(cls, engine):
    def fit(n_jobs):
        with warnings.catch_warnings():
            # five laps are enough to compare
            warnings.simplefilter("ignore", sb.ConvergenceWarning)
            inference = sb.Mixture(inference=engine)._engine(False).set_params(max_iter=5)
            return cls(6, inference=inference, random_state=0, n_jobs=n_jobs).fit(LARGE)

    one, two = fit(1), fit(2)
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.score_samples(LARGE), two.score_samples(LARGE))
    np.testing.assert_array_equal(one.predict_proba(LARGE), two.predict_proba(LARGE))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_predict_may_be_called_from_many_threads(name):
    case = CASES[name]
    model = sb.Mixture(3, family=name, random_state=0).fit(case.rows)
    expected = (
        model.predict(case.rows),
        model.predict_proba(case.rows),
        model.score_samples(case.rows),
    )

    def use(i: int):
        model.n_jobs = 1 + i % 2
        return (
            model.predict(case.rows),
            model.predict_proba(case.rows),
            model.score_samples(case.rows),
        )

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(use, range(40)):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)


# ---- data on disk --------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_path_or_a_memory_map_equals_the_array_in_memory(cls, path):
    inference = sb.MemoizedVB(n_batches=3, moves=None, tol=1e-2)  # a few laps are enough
    make = lambda: cls(5, inference=inference, random_state=0)
    memory = make().fit(LARGE)
    mapped = np.load(path, mmap_mode="r")
    for X in (str(path), path, mapped):
        model = make().fit(X)
        assert model.lower_bound_ == memory.lower_bound_
        np.testing.assert_array_equal(model.weights_, memory.weights_)
        np.testing.assert_array_equal(model.predict(X), memory.labels_)
        np.testing.assert_array_equal(model.score_samples(X), memory.score_samples(LARGE))
        np.testing.assert_array_equal(model.labels_, memory.labels_)
        assert model.n_features_in_ == 3


def test_data_on_disk_are_fitted_by_memoized_steps_unless_told_otherwise(path):
    assert isinstance(sb.Mixture()._engine(True), sb.MemoizedVB)
    assert isinstance(sb.Mixture()._engine(False), sb.BatchVB)
    assert isinstance(sb.DPMixture()._engine(False), sb.MemoizedVB)
    by_name = sb.Mixture(4, inference="batch", random_state=0).fit(path)
    assert by_name.lower_bound_ == sb.Mixture(4, random_state=0).fit(LARGE).lower_bound_


def test_labels_of_data_on_disk_are_computed_when_looked_at_and_never_stored(path):
    model = sb.Mixture(4, random_state=0).fit(path)
    before = set(vars(model)), set(vars(model._fitted)) | {"rule"}
    np.testing.assert_array_equal(model.labels_, model.predict(path))
    assert (set(vars(model)), set(vars(model._fitted))) == before
    small = len(LARGE) // 4  # bytes: less than a label a row
    assert not any(
        isinstance(v, np.ndarray) and v.nbytes > small and not isinstance(v, np.memmap)
        for v in vars(model._fitted).values()
    )


def test_a_pickle_leaves_the_data_on_disk(path):
    model = sb.Mixture(4, random_state=0).fit(path)
    payload = pickle.dumps(model)
    assert len(payload) < 20_000  # the table has 480,000 bytes
    np.testing.assert_array_equal(pickle.loads(payload).predict(LARGE), model.predict(LARGE))


def test_labels_and_weights_go_with_data_on_disk(path):
    groups = np.argmin(np.abs(LARGE[:, :1] - 10.0 * np.arange(4)), axis=1)
    labels = np.where(np.arange(len(LARGE)) % 10 == 0, groups, -1)
    weights = np.full(len(LARGE), 2.0)
    model = sb.Mixture(4, random_state=0).fit(path, labels=labels, sample_weight=weights)
    assert model.counts_.sum() == pytest.approx(2 * len(LARGE), rel=1e-12)
    assert (model.component_ids_[model.labels_] == groups).mean() > 0.999


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.uint8])
def test_other_number_types_equal_the_same_values_as_doubles(dtype, tmp_path):
    X = np.abs(CASES["gaussian"].rows * 8).astype(dtype)
    np.save(tmp_path / "rows.npy", X)
    double = sb.Mixture(3, inference="memoized", random_state=0).fit(X.astype(float))
    for rows in (X, tmp_path / "rows.npy"):
        model = sb.Mixture(3, inference="memoized", random_state=0).fit(rows)
        # float32 sums enter the default prior
        assert model.lower_bound_ == pytest.approx(double.lower_bound_, rel=1e-6)
        np.testing.assert_array_equal(model.labels_, double.labels_)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_family_reads_from_disk(name, tmp_path):
    case = CASES[name]
    np.save(tmp_path / "rows.npy", case.rows)
    settings = {"family": name, "inference": sb.MemoizedVB(moves=None), "random_state": 0}
    memory = sb.DPMixture(3, **settings).fit(case.rows)
    disk = sb.DPMixture(3, **settings).fit(tmp_path / "rows.npy")
    assert disk.lower_bound_ == pytest.approx(memory.lower_bound_, rel=1e-12)
    np.testing.assert_array_equal(disk.labels_, memory.labels_)


# ---- rows in parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_one_component_add_up_to_the_whole(name):
    rows = CASES[name].rows
    rows = rows[np.argsort(rows.max(1))[::-1]]  # the first part has the largest symbol
    parts = sb.Mixture(1, family=name).partial_fit(rows[:50])
    family = parts.family_
    parts.partial_fit(rows[50:90]).partial_fit(rows[90:])
    whole = sb.Mixture(1, family=family).fit(rows)
    np.testing.assert_allclose(parts.counts_, whole.counts_, rtol=1e-12)
    assert parts.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(parts.score_samples(rows), whole.score_samples(rows), rtol=1e-8)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_same_rows_twice_count_twice(cls):
    X = CASES["gaussian"].rows
    model = cls(3, random_state=0).partial_fit(X)
    once = model.counts_.sum()
    model.partial_fit(X)
    assert (once, model.counts_.sum()) == (
        pytest.approx(len(X), rel=1e-12),
        pytest.approx(2 * len(X), rel=1e-12),
    )
    assert np.isfinite(model.lower_bound_)
    np.testing.assert_array_equal(model.labels_, model.predict(X))


def test_priors_and_scaling_are_fixed_by_the_first_part():
    X = CASES["gaussian"].rows
    model = sb.Mixture(3, random_state=0).partial_fit(X)
    family = model.family_
    model.partial_fit(1000.0 + X)
    for name, value in family.get_params().items():
        np.testing.assert_array_equal(model.family_.get_params()[name], value)
    np.testing.assert_allclose(family.mean, X.mean(0), rtol=1e-12)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_total_samples_makes_each_part_a_stochastic_step(cls):
    rng = np.random.default_rng(0)
    model = cls(4, inference=sb.StochasticVB(kappa=0.7, delay=5.0), random_state=0)
    for _ in range(60):
        model.partial_fit(LARGE[rng.choice(len(LARGE), 200)], total_samples=len(LARGE))
        assert model.counts_.sum() == pytest.approx(len(LARGE), rel=1e-9)
    assert np.isnan(model.lower_bound_)  # no exact bound on the way
    assert model.score(LARGE) > sb.Mixture(1).fit(LARGE).score(LARGE) + 1.0
    rate = (5.0 + 61) ** -0.7
    before = model.counts_
    part = LARGE[:500]
    new = model.predict_proba(part).sum(0) * len(LARGE) / len(part)
    model.partial_fit(part, total_samples=len(LARGE))
    np.testing.assert_allclose(model.counts_, (1 - rate) * before + rate * new, rtol=1e-9)


def test_fit_forgets_and_partial_fit_goes_on():
    X = CASES["gaussian"].rows
    model = sb.Mixture(3, random_state=0).fit(X)
    model.partial_fit(X[:10])
    assert model.counts_.sum() == pytest.approx(len(X) + 10, rel=1e-12)
    model.fit(X)
    assert model.counts_.sum() == pytest.approx(len(X), rel=1e-12)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_labels_in_parts_name_the_same_components(cls):
    case = CASES["gaussian"]
    wanted = np.array([2, 0, 1])[case.groups]
    model = cls(3, random_state=0)
    for part in np.array_split(np.arange(len(wanted)), 3):
        model.partial_fit(case.rows[part], labels=wanted[part])
    np.testing.assert_array_equal(model.component_ids_[model.predict(case.rows)], wanted)


def test_weights_in_parts_are_repeats():
    X = CASES["gaussian"].rows
    model = sb.Mixture(1).partial_fit(X, sample_weight=np.full(len(X), 3.0))
    assert model.counts_.sum() == pytest.approx(3 * len(X), rel=1e-12)


# ---- one cluster a piece: what is new is compared with what was seen, not with a fit to it ------
ORDERS = [
    (0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1), (1, 0, 2, 3), (1, 2, 3, 0), (2, 0, 1, 3),
    (2, 1, 3, 0), (3, 0, 1, 2), (3, 1, 2, 0), (1, 3, 0, 2),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_each_piece_may_bring_a_cluster_of_its_own(order):
    rng = np.random.default_rng(0)
    pieces = [rng.normal(at, 1.0, (200, 2)) for at in [(0, 0), (8, 0), (0, 8), (8, 8)]]
    prior = sb.Gaussian(mean=4.0, covariance=10.0)  # the same for the stream and the whole
    for family in ("gaussian", prior):
        model = sb.DPMixture(family=family, random_state=0)
        for i in order:
            model.partial_fit(pieces[i])
        np.testing.assert_allclose(model.counts_, 200, atol=2)
    whole = sb.DPMixture(family=prior, random_state=0).fit(np.concatenate(pieces))
    assert model.n_components_ == whole.n_components_ == 4
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=0.01)
    found = np.concatenate([np.bincount(model.predict(piece), minlength=4) for piece in pieces])
    assert sorted(found)[-4:] == [200] * 4


def test_a_second_piece_far_away_is_a_second_component():
    rng = np.random.default_rng(0)
    near, far = rng.normal(0, 1, (600, 1)), rng.normal(30, 1, (600, 1))
    prior = sb.Gaussian(mean=15.0, covariance=56.0)  # the same for the stream and the whole
    for pieces in ([near, far], [far, near], [near, near, far, near]):
        model = sb.DPMixture(family=prior, random_state=0)
        for piece in pieces:
            model.partial_fit(piece)
        whole = sb.DPMixture(family=prior, random_state=0).fit(np.concatenate(pieces))
        assert model.n_components_ == whole.n_components_ == 2
        assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-4)


@pytest.mark.few(3)
# the variance of the first piece is that of one cluster, and too small for a default
@pytest.mark.parametrize("name", [name for name in NAMES if name != "fixed-variance"])
def test_clusters_of_every_family_come_one_a_piece(name):
    case = CASES[name]
    model = sb.DPMixture(family=name, random_state=0)
    for group in np.unique(case.groups):
        model.partial_fit(case.rows[case.groups == group])
    alone = sb.DPMixture(family=name, random_state=0).fit(case.rows)
    assert (model.counts_ > 2).sum() == (alone.counts_ > 2).sum()


def test_labels_of_a_stream_obey_those_that_are_known():
    """A label against all evidence: rows of one cluster, one of which belongs to the other."""
    X = np.concatenate([np.full((30, 1), -5.0), np.full((30, 1), 5.0)])
    X += np.random.default_rng(0).normal(size=X.shape)
    model = sb.Mixture(2, random_state=0).fit(X)
    own = int(model.labels_[0])
    known = np.array([-1, 1 - own, -1])
    assert model.partial_fit(X[:3], labels=known).labels_.tolist() == [own, 1 - own, own]
    assert model.predict(X[:3]).tolist() == [own] * 3  # labels belong to the rows of one call


@pytest.mark.slow
def test_labels_of_pieces_on_disk_outlast_moves_of_the_first(tmp_path):
    """The first piece is fitted with births, the next has labels for as many components."""
    rng, centers = np.random.default_rng(0), np.array([-20.0, -8.0, 0.0, 8.0, 20.0])
    truth = rng.integers(0, 5, 42_000)  # two pieces
    np.save(tmp_path / "rows.npy", (centers[truth] + rng.normal(size=len(truth)))[:, None])
    rows, known = np.load(tmp_path / "rows.npy", mmap_mode="r"), np.where(truth == 0, 0, -1)
    model = sb.DPMixture(3, random_state=0).partial_fit(rows, labels=known)
    assert model.n_components_ > 3
    assert model.counts_.sum() == pytest.approx(len(truth))
    own = model.component_ids_[model.predict(rows[:1000])] == 0
    assert own[truth[:1000] == 0].all()
