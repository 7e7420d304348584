"""`score_sequences(draws=)`: the mean density over parameters that are drawn."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

import stickbreak as sb

LEVELS, LENGTHS = (-5.0, 0.0, 5.0, 0.0, -5.0), (6, 9, 6, 9, 6)
RNG = np.random.default_rng(0)
X = [np.repeat(LEVELS, LENGTHS)[:, None] + RNG.normal(size=(sum(LENGTHS), 1)) for _ in range(3)]
SYMBOLS = [(x[:, 0] > 0).astype(int) for x in X]
MODELS = {
    "hmm": (sb.HMM, {}),
    "hdp-hmm": (sb.HDPHMM, {}),
    "hsmm": (sb.HSMM, {"max_duration": 400}),
    "hsmm-embedded": (sb.HSMM, {"duration_inference": "embedded"}),
    "hdp-hsmm": (sb.HDPHSMM, {"duration": "poisson", "max_duration": 400}),
    "hdp-hsmm-embedded": (sb.HDPHSMM, {"duration_inference": "embedded"}),
}

pytestmark = pytest.mark.filterwarnings("ignore")
of_all = pytest.mark.parametrize("name", MODELS)


def fitted(name, rows, weight=1.0, **settings):
    cls, own = MODELS[name]
    settings = {"max_iter": 8, "random_state": 0, "init": "k-means++", **own, **settings}
    inference = sb.BatchVB(max_iter=8, moves=None)
    model = cls(3, inference=inference, **settings)
    return model.fit(rows, sample_weight=[weight] * len(rows))


@of_all
def test_mean_densities_of_all_sequences_sum_to_one(name):
    """Every set of parameters that is drawn gives a law of sequences, of which cut segments are
    a part. 1e-6: lengths above 400, of which drawn laws have little.
    """
    model = fitted(name, SYMBOLS, family="categorical")
    every = [np.array(symbols) for symbols in product((0, 1), repeat=4)]
    for draws in (1, 5):
        found = model.score_sequences(every, draws=draws, random_state=2)
        assert logsumexp(found) == pytest.approx(0.0, abs=1e-6)


@of_all
def test_draws_of_a_posterior_that_is_all_but_certain_score_as_its_means(name):
    """Of 1e8 copies: a parameter is within 1e-4 of its mean, and 36 rows add up."""
    model = fitted(name, X, weight=1e8)
    mean = model.score_sequences(X)
    drawn = model.score_sequences(X, draws=3, random_state=1)
    np.testing.assert_allclose(drawn, mean, atol=2e-2)
    assert np.abs(drawn - mean).max() > 0.0


def test_draws_are_those_of_the_seed():
    model = fitted("hsmm", X)
    drawn = [model.score_sequences(X, draws=4, random_state=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()
    with pytest.raises(ValueError, match="draws"):
        model.score_sequences(X, draws=0)
