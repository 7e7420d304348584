"""An estimator is its arguments and one Fitted, however that was made."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import stickbreak as sb
from stickbreak import estimators

rng = np.random.default_rng(0)
ROWS = np.concatenate([rng.normal(-4, 1, (40, 2)), rng.normal(4, 1, (40, 2))])
WORDS = [["cat", "dog", "cat"], ["salt", "pan", "salt"]] * 10
FAST = {"random_state": 0, "inference": sb.MemoizedVB(max_iter=3, tol=1e9, moves=None)}
CASES = {
    "Mixture": (sb.Mixture(2, **FAST), ROWS),
    "DPMixture": (sb.DPMixture(2, **FAST), ROWS),
    "HMM": (sb.HMM(2, **FAST), [ROWS[:40], ROWS[40:]]),
    "HDPHMM": (sb.HDPHMM(2, **FAST), [ROWS[:40], ROWS[40:]]),
    "HSMM": (sb.HSMM(2, max_duration=20, **FAST), [ROWS[:40], ROWS[40:]]),
    "HDPHSMM": (sb.HDPHSMM(2, max_duration=20, **FAST), [ROWS[:40], ROWS[40:]]),
    "LatentDirichletAllocation": (sb.LatentDirichletAllocation(2, **FAST), WORDS),
    "HDPTopicModel": (sb.HDPTopicModel(2, **FAST), WORDS),
}


@pytest.mark.parametrize("name", CASES)
def test_at_most_four_of_our_classes_stand_above_an_estimator(name):
    above = [c for c in getattr(estimators, name).__mro__[1:] if c is not object]
    assert len(above) <= 4
    assert all(c.__module__.startswith("stickbreak.estimators") for c in above)


@pytest.mark.parametrize("name", CASES)
def test_fit_stream_and_load_each_make_one_fitted_value(name, tmp_path):
    model, X = CASES[name]
    fitted, streamed = clone(model).fit(X), clone(model).partial_fit(X)
    fitted.save(tmp_path / "m")
    loaded = sb.load(tmp_path / "m")
    for made in (fitted, streamed, loaded):
        assert set(vars(made)) == {*model.get_params(deep=False), "_fitted"}
        assert made._fitted.schema == fitted._fitted.schema
    for twin in (
        loaded,
        copy.copy(fitted),
        copy.deepcopy(fitted),
        pickle.loads(pickle.dumps(fitted)),
    ):
        assert twin.lower_bound_ == fitted.lower_bound_
        np.testing.assert_array_equal(twin.weights_, fitted.weights_)
        np.testing.assert_array_equal(twin.score_samples(X), fitted.score_samples(X))


@pytest.mark.parametrize("name", CASES)
def test_before_a_fit_nothing_is_learned(name):
    model, _ = CASES[name]
    learned = [n for n in dir(type(model)) if n.endswith("_") and not n.startswith("_")]
    assert {"weights_", "n_features_in_", "feature_names_in_", "labels_"} <= set(learned)
    assert not [n for n in learned if hasattr(clone(model), n)]


def test_a_fit_that_fails_leaves_the_last_one_as_it_was():
    model = clone(CASES["Mixture"][0]).fit(pd.DataFrame(ROWS, columns=["a", "b"]))
    before = model._fitted
    with pytest.raises(ValueError, match="but X has 3 rows"):
        model.fit(ROWS[:3], labels=[0, 1])
    assert model._fitted is before
    assert list(model.feature_names_in_) == ["a", "b"]
    model.fit(ROWS)
    assert not hasattr(model, "feature_names_in_")
