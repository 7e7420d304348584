"""A collapsed fit, and one lap of each other engine that goes on from it with `warm_start`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.inference import ENGINES

RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(m, 1.0, (60, 2)) for m in (-4.0, 0.0, 4.0)])
SYMBOLS = [np.repeat(RNG.integers(0, 3, 6), 5) for _ in range(8)]
TEXTS = [["sun", "sea", "sand"] * 3] * 6 + [["law", "court", "judge"] * 3] * 6
MODELS = {
    "mixture": (sb.Mixture(3), ROWS),
    "hmm": (sb.HMM(3, family="categorical"), SYMBOLS),
    "hdp-hmm": (sb.HDPHMM(3, family="categorical"), SYMBOLS),
    "lda": (sb.LatentDirichletAllocation(2), TEXTS),
}
REFUSED = {
    ("mixture", "subchain"): "SubchainVB cuts sequences into windows, and these data have none",
    ("lda", "subchain"): "SubchainVB is for hidden Markov models; use StochasticVB",
    ("lda", "hard-em"): "HardEM is not for documents",
}


def collapsed(name: str, **settings: Any) -> tuple[Any, Any]:
    """A fit by collapsed sweeps, and its data."""
    model, data = MODELS[name]
    model = type(model)(**{**model.get_params(deep=False), "random_state": 0, **settings})
    return model.set_params(inference="collapsed").fit(data), data


def labels(model: Any, data: Any) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in model.predict(data)])


def one_lap(model: Any, data: Any, **settings: Any) -> Any:
    """One lap more, from where the model is."""
    settings = {"max_iter": 1, "tol": None, "warm_start": True, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        return model.set_params(**settings).fit(data)


@pytest.mark.parametrize("engine", sorted(ENGINES))
@pytest.mark.parametrize("name", MODELS)
def test_one_lap_of_any_engine_keeps_what_collapsed_sweeps_found(name: str, engine: str) -> None:
    """A cold start gives other names to the components, so that the same labels are no accident."""
    model, data = collapsed(name)
    counts, found = model.counts_, labels(model, data)
    if (name, engine) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name, engine]):
            one_lap(model, data, inference=engine)
        return
    one_lap(model, data, inference=engine)
    assert model.n_iter_ == 1
    np.testing.assert_array_equal(labels(model, data), found)
    # of 60 to 90 rows each, draws and best labels move one or two
    np.testing.assert_allclose(model.counts_, counts, atol=2.0)


@pytest.mark.parametrize("name", MODELS)
def test_variational_bayes_rises_from_a_collapsed_fit(name: str) -> None:
    """The bound at collapsed posteriors is that of variational Bayes before its first step."""
    model, data = collapsed(name)
    before = model.lower_bound_
    one_lap(model, data, inference=sb.BatchVB(moves=None), max_iter=20)
    bounds = np.array([before, *(lap.bound for lap in model.trace_.laps)])
    assert (np.diff(bounds) >= -1e-10 * np.abs(bounds[1:])).all()


def test_table_counts_hand_over_to_another_root() -> None:
    model, data = collapsed("hdp-hmm", root="tables", n_components=5)
    found = labels(model, data)
    one_lap(model, data, root="beta", inference=sb.BatchVB(moves=None), max_iter=20)
    bounds = np.array([lap.bound for lap in model.trace_.laps])
    assert (np.diff(bounds) >= -1e-10 * np.abs(bounds[1:])).all()
    np.testing.assert_array_equal(labels(model, data), found)
