"""Rounded columns: what they cost is the mean over all that rounds to a value; no component shrinks
to a single value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import stickbreak as sb
from stickbreak.checks import check_family
from stickbreak.data import Table, measure
from stickbreak.inference import BatchVB, run
from stickbreak.initialize import from_plusplus
from stickbreak.models import dp_mixture

NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)  # exact for the quadratic log density
FAMILIES = {"gaussian": sb.Gaussian, "diagonal": sb.DiagonalGaussian}


def rounded(n: int = 60, D: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0, 1.5, (n, D)), rng.normal(9, 1.5, (n, D))]).round()


def fitted(family, X, n_components: int = 3):
    table = Table(X)
    model = dp_mixture(family.resolve(measure(table, allow_missing=True)), 1.0)
    start = from_plusplus(model, table, n_components, np.random.default_rng(0))
    return run(model, BatchVB(max_iter=30), table, start)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rounding", [1.0, [0.5, 0.0]])
def test_evidence_is_the_mean_over_a_step(name, rounding):
    X, make = rounded(), FAMILIES[name]
    result = fitted(make(rounding=rounding), X)
    family, plain = result.model.family, make(rounding=0.0)
    steps = np.broadcast_to(np.asarray(rounding), 2)
    rows = X[:5]
    found = family.mean_log(result.counts).evidence(family.prepare(rows))
    # the same posterior without its cost of rounding, at points of a step around each row
    posterior = type(plain)(**{**family.get_params(deep=False), "rounding": None})
    held = family._posterior(result.counts)
    object.__setattr__(posterior, "_posterior", lambda counts: held)
    expected = np.zeros_like(found)
    for a, wa in zip(NODES, WEIGHTS, strict=True):
        for b, wb in zip(NODES, WEIGHTS, strict=True):
            moved = posterior.prepare(rows + 0.5 * steps * np.array([a, b]))
            expected += 0.25 * wa * wb * posterior.mean_log(result.counts).evidence(moved)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_bound_is_one_on_the_probability_of_the_rounded_values(name):
    """One row: sum over all whole numbers what the prior predictive says of each."""
    table = Table(np.array([[0.0], [1.0], [2.0], [1.0]]))
    family = FAMILIES[name](rounding=1.0).resolve(measure(table))
    empty = dp_mixture(family, 1.0).zeros(1)
    values = np.arange(-2000.0, 2001.0)[:, None]
    found = family.log_mean(empty).evidence(family.prepare(values))
    # probabilities of whole numbers sum to one, their lower bounds to less; the prior expects
    # components hardly wider than a step, where the mean over a step costs most
    assert -1.5 < logsumexp(found) < 0.0


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("missing", [False, True])
def test_the_bound_never_drops(name, missing):
    X = rounded(seed=3)
    if missing:
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    bounds = fitted(FAMILIES[name](rounding=1.0), X, 5).trace.bound
    assert (np.diff(bounds) > -1e-9 * np.abs(bounds[1:])).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_laws_of_families_hold(name):
    check_family(FAMILIES[name](rounding=1.0), rounded())


@pytest.mark.parametrize("name", FAMILIES)
def test_whole_numbers_are_rounded_unless_the_prior_is_given(name):
    X = np.column_stack([rounded()[:, 0], np.random.default_rng(0).normal(size=120)])
    assert sb.Mixture(2, family=name, random_state=0).fit(X).family_.rounding.tolist() == [1, 0]
    spread = {"gaussian": "covariance", "diagonal": "variance"}[name]
    own = FAMILIES[name](**{spread: 1.0})
    assert sb.Mixture(2, family=own, random_state=0).fit(X).family_.rounding.tolist() == [0, 0]
    X[3, 0] = np.nan
    assert sb.Mixture(2, family=name, random_state=0).fit(X).family_.rounding.tolist() == [1, 0]
    X[100, 0] = 0.5
    assert sb.Mixture(2, family=name, random_state=0).fit(X).family_.rounding.tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"rounding must be zero or positive; got -1"):
        sb.Mixture(2, family=FAMILIES[name](rounding=-1)).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_component_lives_on_a_column_that_is_nearly_always_zero(name, tmp_path):
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 150)
    X = rng.normal(groups[:, None] * [6.0, 6.0, 0, 0, 0, 0], 1.0, (300, 6))
    X[:, 2:] = rng.random((300, 4)) < 0.02
    model = sb.DPMixture(family=name, random_state=0).fit(X)
    assert adjusted_rand_score(groups, model.labels_) > 0.95
    model.save(tmp_path / "model")
    loaded = sb.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.family_.rounding, [0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_wide_covariances_with_few_rows_are_warned_about():
    rng = np.random.default_rng(0)
    groups = rng.integers(3, size=300)
    X = rng.normal(0, 3, (3, 60))[groups] + rng.normal(size=(300, 60))
    with pytest.warns(sb.DataWarning, match=r'300 rows .* 1,890 numbers.*family="diagonal"'):
        model = sb.DPMixture(random_state=0).fit(X)
    assert model.n_components_ == 3
    assert adjusted_rand_score(groups, model.labels_) == 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stickbreak.DataWarning")
def test_digits_are_not_one_component():
    X, digits = load_digits(return_X_y=True)
    for seed in (0, 1):
        model = sb.DPMixture(random_state=seed).fit(X)
        assert 7 <= model.n_components_ <= 12
        assert adjusted_rand_score(digits, model.labels_) > 0.5


@pytest.mark.parametrize("name", FAMILIES)
def test_files_from_before_rounding_load_and_answer_as_then(name, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = sb.Mixture(2, family=name, random_state=0).fit(X)
    family = replace(model._fitted.model.family, rounding=None)
    model._fitted = replace(model._fitted, model=replace(model._fitted.model, family=family))
    model.save(tmp_path / "old")
    np.testing.assert_array_equal(
        sb.load(tmp_path / "old").score_samples(X), model.score_samples(X)
    )
