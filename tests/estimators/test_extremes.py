"""Every extreme fits with a bound that never drops, or is refused in one sentence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from extreme_cases import CASES, SLOW, Extreme, counts, groups, hdp_hmm, hmm, mixture, refusal

import stickbreak as sb

EPS = np.finfo(float).eps

every_extreme = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CASES],
)


def fit(case: Extreme) -> tuple[Any, Any, float]:
    """The fitted model, the data, and the sum of the weights.

    Warnings of the library (few rows, a constant column, laps that ran out) are part of the fit;
    all others are errors.
    """
    data, weights = case.data(), None if case.weights is None else case.weights()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        model = case.estimator().fit(data, sample_weight=weights)
    return model, data, 0.0 if weights is None else float(weights.sum())


def assert_never_drops(model: Any, weight: float) -> None:
    """From lap to lap the bound falls by no more than rounding.

    A bound is a sum of terms of about its own size, which round at 1e-16 each; 1e-10 leaves room
    for a million of them. A component whose rows coincide has a scatter of the prior's size among
    squares of the size of its weight, of which rounding takes EPS; the bound counts the log of the
    scatter once for each row. So the relative error is some EPS times the weight.
    """
    bounds = np.array([record.bound for record in model.trace_ if record.bound is not None])
    assert len(bounds) >= 2
    assert np.isfinite(bounds).all()
    size = max(1.0, float(np.abs(bounds).max()))
    assert np.diff(bounds).min() >= -(1e-10 + 32 * EPS * weight) * size


def assert_answers_are_numbers(model: Any, data: Any) -> None:
    whole = lambda found: np.concatenate(found) if isinstance(found, list) else np.asarray(found)
    shares = whole((model.transform if hasattr(model, "transform") else model.predict_proba)(data))
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-9)
    assert ((shares >= 0) & (shares <= 1.0 + 1e-9)).all()
    labels = whole(model.predict(data))
    assert ((labels >= 0) & (labels < model.n_components_)).all()
    each = whole(model.score_samples(data))
    # the first rows of a sequence are the context of an autoregression, and have no score
    assert np.isfinite(each[getattr(model.family_, "lags", 0) :]).all()
    assert all(np.isfinite(value).all() for value in model.posterior_.values())
    np.testing.assert_allclose(model.weights_.sum(), 1.0, rtol=1e-9)
    if data_of_words(model, data) > 1:
        assert np.isfinite(model.score(data))


def data_of_words(model: Any, data: Any) -> float:
    """Words of a topic model, whose score needs two; infinite for other models."""
    return float(data.sum()) if hasattr(model, "transform") else np.inf


@pytest.mark.few(40)
@every_extreme
def test_extreme(name):
    case, sentence = CASES[name], refusal(name)
    if sentence is None:
        model, data, weight = fit(case)
        assert_never_drops(model, weight)
        assert_answers_are_numbers(model, data)
        return
    with pytest.raises(ValueError, match=sentence) as caught:
        fit(case)
    assert "\n" not in str(caught.value)


def test_there_are_as_many_extremes_as_we_know():
    assert len(CASES) >= 109


LIMITS = {
    "mixture": (mixture(concentration=1e31), r"concentration must be from 1e-300 to 1e.30; got"),
    "tiny": (mixture(concentration=1e-301), r"concentration must be from 1e-300 .*got 1e-301"),
    "mean strength": (mixture(sb.Gaussian(mean_strength=1e31)), r"mean_strength must be from"),
    "diagonal dof": (mixture(sb.DiagonalGaussian(dof=2e6)), r"dof must be at most 1e.06; got 2e"),
    "rows": (
        hmm(transition_prior=np.full((3, 3), 1e31)),
        r"transition_prior must hold numbers of at most 1e.30; the largest is 1e.31",
    ),
    "root": (
        hdp_hmm(concentration=sb.GammaPrior(1e3, 1e-5)),
        r"concentration=GammaPrior.* has the mean 1e.08, above 1e.06; use a larger rate",
    ),
    "symbol": (mixture("categorical"), r"column 0 has symbol 1e.300, .*recode them as 0, 1, 2"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_named(name):
    estimator, sentence = LIMITS[name]
    rows = np.full((60, 1), 1e300) if name == "symbol" else groups()
    with pytest.raises(ValueError, match=sentence) as caught:
        estimator().fit(rows)
    assert "\n" not in str(caught.value)


def test_learned_concentrations_stay_below_the_limit():
    """Documents that are all alike want a concentration without end."""
    alike = np.full((40, 6), 500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        model = sb.LatentDirichletAllocation(
            2, concentration=sb.GammaPrior(1e3, 1e-2), random_state=0,
            inference=sb.BatchVB(max_iter=15, tol=0.0),
        ).fit(alike)  # fmt: skip
    assert model.concentration_ <= 1e6 * (1 + 1e-9)
    assert_never_drops(model, 0.0)


@pytest.mark.parametrize(
    ("small", "large", "settings"),
    [
        (1e16, 1e17, lambda c: mixture(concentration=c)),
        (1e16, 1e17, lambda c: hmm(concentration=c)),
        (1e16, 1e17, lambda c: mixture(sb.Bernoulli(on=c, off=c))),
        (1e16, 1e17, lambda c: mixture(sb.Poisson(rate=c))),
        (1e20, 1e300, lambda c: hmm(stickiness=c)),
    ],
    ids=["mixture", "hmm", "bernoulli", "poisson", "stickiness"],
)
def test_huge_prior_counts_act_like_their_limit(small, large, settings):
    """The bound converges as 60 rows / prior count; rounding of 60 log(1e17) is far below 1e-9."""

    def bound(value: float) -> float:
        estimator = settings(value)()
        family = getattr(estimator, "family", None)
        rows = {sb.Bernoulli: lambda: groups() > 0, sb.Poisson: counts}.get(type(family), groups)()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sb.StickbreakWarning)
            return estimator.fit(np.asarray(rows, dtype=float)).lower_bound_

    np.testing.assert_allclose(bound(small), bound(large), rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "zero-mean", "fixed-variance"])
@pytest.mark.parametrize("make", [mixture, hmm], ids=["mixture", "hmm"])
def test_answers_about_rows_at_any_distance(family, make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        model = make(family)().fit(groups())
    for scale in (1e-300, 1e8, 1e100, 1e139):
        assert_answers_are_numbers(model, groups() * scale)
    for scale in (1e150, 1e300):
        for answer in (model.predict, model.predict_proba, model.score_samples, model.score):
            with pytest.raises(ValueError, match=r"row 0, column 0 is .*check its unit"):
                answer(groups() * scale)


@pytest.mark.slow
def test_draws_are_a_start_of_variational_fits():
    """A drawn root leaves nothing for other states; the next fit begins inside its domain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        model = hdp_hmm(n_components=25, warm_start=True, inference=sb.Gibbs(max_iter=5))()
        model.fit(groups(100)).set_params(inference=sb.BatchVB(max_iter=10)).fit(groups(100))
    assert_never_drops(model, 0.0)
