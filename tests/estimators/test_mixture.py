"""fit, predict, score, sample of mixtures, for every family by name."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from estimator_cases import CASES, N_GROUPS, NAMES, blobs, fixed_dp
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import stickbreak as sb

ESTIMATORS = (sb.Mixture, fixed_dp)
ENGINES = ("batch", "memoized", "stochastic", "em", "hard-em")


def fit(cls, name: str, **settings):
    settings = {"random_state": 0, "n_init": 3, **settings}
    return cls(settings.pop("n_components", N_GROUPS), family=name, **settings).fit(
        CASES[name].rows
    )


@pytest.fixture(
    scope="module",
    params=itertools.product(ESTIMATORS, NAMES),
    ids=lambda p: f"{p[0].__name__}-{p[1]}",
)
def fitted(request):
    cls, name = request.param
    return fit(cls, name), CASES[name]


@pytest.mark.covering
def test_groups_are_found_and_labels_are_predictions(fitted):
    model, case = fitted
    np.testing.assert_array_equal(model.labels_, model.predict(case.rows))
    assert model.labels_.shape == (len(case.rows),)
    floor = 0.6 if case.name == "zero-mean" else 0.95  # groups without a mean overlap around zero
    assert adjusted_rand_score(case.groups, model.labels_) > floor


def test_predict_proba_sums_to_one_and_peaks_where_predict_says(fitted):
    model, case = fitted
    shares = model.predict_proba(case.new)
    assert shares.shape == (len(case.new), N_GROUPS)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(shares.argmax(1), model.predict(case.new))


def test_score_is_the_mean_of_score_samples(fitted):
    model, case = fitted
    values = model.score_samples(case.new)
    assert np.isfinite(values).all()
    assert model.score(case.new) == pytest.approx(values.mean(), rel=1e-14)
    weights = np.arange(1.0, len(values) + 1)
    assert model.score(case.new, sample_weight=weights) == pytest.approx(
        np.average(values, weights=weights), rel=1e-14
    )


def test_learned_attributes_have_their_shapes(fitted):
    model, case = fitted
    n, n_features = case.rows.shape
    assert (model.n_components_, model.n_features_in_) == (N_GROUPS, n_features)
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-12)
    assert model.counts_.sum() == pytest.approx(n, rel=1e-12)
    assert model.n_effective_ == N_GROUPS
    assert sorted(model.component_ids_) == list(range(N_GROUPS))
    assert model.converged_
    assert model.n_iter_ == len(model.trace_)
    assert model.lower_bound_ == model.trace_[-1].bound
    assert all(len(v) == N_GROUPS for v in model.posterior_.values())
    if "mean" in model.posterior_:
        assert model.means_.shape == (N_GROUPS, n_features)
    assert not hasattr(model, "feature_names_in_")


def test_samples_look_like_the_data(fitted):
    model, case = fitted
    rows, labels = model.sample(4000, random_state=1)
    assert rows.shape == (4000, case.rows.shape[1])
    # 5 standard errors
    np.testing.assert_allclose(
        np.bincount(labels, minlength=N_GROUPS) / 4000, model.weights_, atol=0.04
    )
    again, _ = model.sample(4000, random_state=1)
    np.testing.assert_array_equal(rows, again)
    assert np.isfinite(model.score_samples(rows)).all()  # what is drawn can be read
    if case.name != "zero-mean":  # heavy tails of three scales: no mean to compare
        spread = case.rows.std(0) + 0.1
        np.testing.assert_array_less(np.abs(rows.mean(0) - case.rows.mean(0)) / spread, 0.35)


def test_fit_predict_is_fit_then_labels():
    X = CASES["gaussian"].rows
    np.testing.assert_array_equal(
        sb.Mixture(3, random_state=0).fit_predict(X), sb.Mixture(3, random_state=0).fit(X).labels_
    )


@pytest.mark.covering
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_labels_are_predictions_for_every_engine(cls, engine):
    case = CASES["gaussian"]
    model = cls(3, inference=engine, random_state=0, n_init=3).fit(case.rows)
    np.testing.assert_array_equal(model.labels_, model.predict(case.rows))
    np.testing.assert_array_equal(model.predict_proba(case.rows).argmax(1), model.labels_)
    assert adjusted_rand_score(case.groups, model.labels_) > 0.95
    assert np.isfinite(model.lower_bound_)
    if engine == "hard-em":
        assert set(np.unique(model.predict_proba(case.rows))) <= {0.0, 1.0}


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "zero-mean", "fixed-variance"])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_predictive_density_of_one_column_integrates_to_one(cls, name):
    model = cls(3, family=name, random_state=0).fit(CASES[name].rows[:, :1])
    # x = sinh(u) reaches 1e10: Student tails are cut below 1e-12
    u = np.linspace(-24.0, 24.0, 20_001)
    density = np.exp(model.score_samples(np.sinh(u)[:, None])) * np.cosh(u)
    assert np.trapezoid(density, u) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_predictive_probabilities_of_all_rows_sum_to_one(cls):
    every = lambda *sizes: np.array(list(itertools.product(*(range(s) for s in sizes))))
    tables = {
        "categorical": (CASES["categorical"].rows[:, :3], every(3, 3, 3)),
        "bernoulli": (CASES["bernoulli"].rows[:, :6], every(*[2] * 6)),
        "poisson": (CASES["poisson"].rows[:, :1], np.arange(400)[:, None]),
        "multinomial": (
            CASES["multinomial"].rows,
            np.array([r for r in every(*[5] * 6) if r.sum() == 4]),
        ),
    }
    for name, (rows, possible) in tables.items():
        model = cls(2, family=name, random_state=0).fit(rows)
        assert np.exp(model.score_samples(possible)).sum() == pytest.approx(1.0, abs=1e-9), name


@pytest.mark.covering
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_weight_is_a_repeat_count(cls, name):
    """One component: nothing is random, so default priors, counts and bound must agree. Three: from
    the same warm start.
    """
    rows = CASES[name].rows[:60]
    repeats = np.random.default_rng(5).integers(0, 4, len(rows))
    repeated = np.repeat(rows, repeats, axis=0)
    by_weight = sb.Mixture(1, family=name).fit(rows, sample_weight=repeats)
    by_repeat = sb.Mixture(1, family=name).fit(repeated)
    assert by_weight.lower_bound_ == pytest.approx(by_repeat.lower_bound_, rel=1e-10)
    first = cls(3, family=name, warm_start=True, random_state=0).fit(rows)
    second = copy.deepcopy(first)
    first.fit(rows, sample_weight=repeats)
    second.fit(repeated)
    assert first.lower_bound_ == pytest.approx(second.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(first.counts_, second.counts_, rtol=1e-6, atol=1e-6)
    assert first.counts_.sum() == pytest.approx(repeats.sum(), rel=1e-12)


# ---- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_few_labels_name_the_components(cls, name):
    case, wanted = CASES[name], np.array([2, 0, 1])
    labels = np.full(len(case.rows), -1)
    for g in range(3):
        labels[np.flatnonzero(case.groups == g)[:10]] = wanted[g]
    model = cls(3, family=name, random_state=0).fit(case.rows, labels=labels)
    found = model.component_ids_[model.labels_]
    np.testing.assert_array_equal(found[labels >= 0], labels[labels >= 0])
    assert (found == wanted[case.groups]).mean() > (0.8 if name == "zero-mean" else 0.97)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_label_outweighs_the_evidence_and_predict_knows_no_labels(cls):
    case = CASES["gaussian"]
    labels = np.full(len(case.rows), -1)
    a, b = (np.flatnonzero(case.groups == g) for g in (0, 1))
    labels[a[:8]], labels[b[:8]] = 0, 1
    labels[b[0]] = 0  # against the evidence
    model = cls(3, random_state=0).fit(case.rows, labels=labels)
    assert model.component_ids_[model.labels_[b[0]]] == 0
    assert model.component_ids_[model.predict(case.rows[b[:1]])[0]] == 1


def test_all_rows_labelled_is_the_closed_form():
    case = CASES["gaussian"]
    model = sb.Mixture(3, random_state=0).fit(case.rows, labels=case.groups)
    np.testing.assert_array_equal(model.component_ids_[model.labels_], case.groups)
    np.testing.assert_allclose(model.counts_, np.bincount(case.groups), rtol=1e-12)
    means = [case.rows[case.groups == g].mean(0) for g in range(3)]
    # the prior mean is worth a hundredth of a row
    np.testing.assert_allclose(model.means_, means, atol=0.02)


def test_labels_that_are_all_unknown_change_nothing():
    case = CASES["gaussian"]
    unknown = sb.Mixture(3, random_state=0).fit(case.rows, labels=np.full(len(case.rows), -1))
    assert unknown.lower_bound_ == sb.Mixture(3, random_state=0).fit(case.rows).lower_bound_


def test_ids_of_labels_are_reserved_when_no_row_has_them():
    """Label 2 of 3 is used, 0 and 1 are not: their components exist and are free for unlabelled
    rows.
    """
    case = CASES["gaussian"]
    labels = np.where(case.groups == 0, 2, -1)
    model = fixed_dp(3, random_state=0, n_init=3).fit(case.rows, labels=labels)
    found = model.component_ids_[model.labels_]
    assert (found[case.groups == 0] == 2).all()
    assert set(found[case.groups != 0]) <= {0, 1}


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_labels_name_ids_after_a_warm_start_too(cls):
    # the second group is larger
    X = np.concatenate([blobs(20, seed=1)[:, :1] * 0.1, 50 + blobs(200, seed=2)[:, :1] * 0.1])
    groups = (X[:, 0] > 25).astype(int)
    model = cls(2, warm_start=True, random_state=0).fit(X, labels=groups)
    np.testing.assert_array_equal(model.component_ids_[model.labels_], groups)
    model.fit(X, labels=groups)
    np.testing.assert_array_equal(model.component_ids_[model.labels_], groups)
    np.testing.assert_allclose(
        np.sort(model.means_[:, 0]), [X[groups == g].mean() for g in (0, 1)], atol=0.1
    )


# ---- starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_warm_start_continues_from_the_last_fit(cls):
    X = blobs(300, n_groups=4, seed=4)
    model = cls(4, warm_start=True, random_state=0).fit(X)
    bound, n_iter = model.lower_bound_, model.n_iter_
    model.fit(X)
    assert model.n_iter_ <= max(3, n_iter)
    assert model.lower_bound_ >= bound - 1e-10 * abs(bound)
    cold = cls(4, random_state=0).fit(X)
    assert cold.fit(X).lower_bound_ == bound  # without warm_start a fit begins afresh


@pytest.mark.slow
def test_starts_of_a_dirichlet_process_differ():
    """Two clusters stretched alike, touching: from one component, every seed ends below.

    The default, which begins with many, does not.
    """
    rng = np.random.default_rng([6, 2])
    labels, means = rng.integers(0, 10, 1500), rng.uniform(-10, 10, (10, 2))
    X = (means[labels] + rng.normal(size=(1500, 2))) @ np.array([[0.6, -0.6], [-0.4, 0.8]])
    from_one = {"init": "k-means++", "random_state": 0}
    one, best = (sb.DPMixture(n_init=n, **from_one).fit(X).lower_bound_ for n in (1, 3))
    assert best > one + 20  # 28.6 nats; all starts were alike, and `n_init` changed nothing
    assert sb.DPMixture(random_state=0).fit(X).lower_bound_ > one + 20


def test_n_init_keeps_the_best_start():
    X = blobs(200, n_groups=6, seed=9)
    bounds = [sb.Mixture(6, random_state=1, n_init=n).fit(X).lower_bound_ for n in (1, 2, 4, 8)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0]


def test_random_state_of_every_kind():
    X = blobs(200, n_groups=5, seed=3)
    bound = lambda state: sb.Mixture(8, random_state=state).fit(X).lower_bound_
    assert bound(3) == bound(3)
    assert bound(np.random.RandomState(3)) == bound(3)
    assert bound(np.random.default_rng(3)) == bound(np.random.default_rng(3))
    assert len({bound(None) for _ in range(6)}) > 1  # None is a fresh draw
    rng = np.random.default_rng(3)
    assert len({bound(rng) for _ in range(6)}) > 1  # a generator moves on
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002
    bound(5)
    np.testing.assert_array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002  the global state is nobody's


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_number_of_groups_is_found(seed):
    rows = blobs(400, n_groups=5, seed=seed)
    model = sb.DPMixture(random_state=seed).fit(rows)
    truncated = fixed_dp(20, random_state=seed, n_init=5).fit(rows)
    assert model.n_components_ == model.n_effective_ == truncated.n_effective_ == 5
    assert truncated.n_components_ == 20
    # empty components cost nothing
    assert model.lower_bound_ == pytest.approx(truncated.lower_bound_, rel=1e-6)
    for found in (model, truncated):
        assert (np.diff(found.counts_) <= 1e-9).all()  # largest first


def test_sparse_counts_equal_dense_ones():
    rows = CASES["multinomial"].rows
    # wide and mostly empty: batches bring their own vocabulary
    rows = np.hstack([rows, np.zeros((len(rows), 40), dtype=int)])
    for inference in (
        None,
        sb.MemoizedVB(n_batches=3),
        sb.StochasticVB(batch_size=40, max_iter=20, tol=0.1),
    ):
        dense = sb.Mixture(3, family="multinomial", inference=inference, random_state=0).fit(rows)
        for form in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
            found = sb.Mixture(3, family="multinomial", inference=inference, random_state=0).fit(
                form(rows)
            )
            assert found.lower_bound_ == pytest.approx(dense.lower_bound_, rel=1e-10)
            np.testing.assert_array_equal(found.predict(form(rows)), dense.predict(rows))
            np.testing.assert_allclose(
                found.score_samples(rows), dense.score_samples(form(rows)), rtol=1e-10
            )
