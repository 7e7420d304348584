"""Topic models whose topics have prior counts of their own, given or learned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.base import clone
from topics import corpus, make_model, plain_bound, random_start

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.inference import MeanLog, MemoizedVB, run
from stickbreak.priors.asymmetric_topics import fit_dirichlet

GIVEN = (0.7, 0.3, 0.1, 0.05)


def uneven(n: int = 200) -> np.ndarray:
    """Documents of three topics with words of their own, one of them in nearly all."""
    rng = np.random.default_rng(0)
    topics = np.kron(np.eye(3), np.full(4, 0.25))
    shares = rng.dirichlet([2.0, 0.2, 0.05], n)
    return np.array([rng.multinomial(60, share @ topics) for share in shares])


def test_the_fitted_dirichlet_has_the_given_mean_logs():
    truth = np.array([2.0, 0.5, 0.05, 0.9])
    logs = digamma(truth) - digamma(truth.sum())
    start = np.full(4, 0.1)
    for _ in range(5):
        start = fit_dirichlet(logs, start)
    np.testing.assert_allclose(start, truth, rtol=1e-5)


@pytest.mark.parametrize("concentration", [GIVEN, "auto"], ids=["given", "learned"])
def test_bound_is_that_of_all_shares_and_never_drops(concentration):
    documents = Documents.from_counts(corpus(0))
    model = make_model("lda", concentration=concentration)
    start = random_start(model, 4)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    counts, _ = model.local_step(potentials, documents.whole())
    params = model.global_step(counts, start.params)
    shares, before = model.shares(potentials, documents.whole()), potentials["pseudo"]
    plain = plain_bound(model, documents, shares, before, params)
    assert model.bound(counts, params) == pytest.approx(plain, abs=1e-7)
    assert model.bound(counts, params) >= model.bound(counts, start.params)
    found = run(model, MemoizedVB(n_batches=3, max_iter=15, tol=0), documents, start)
    bounds = [lap.bound for lap in found.trace if lap.bound is not None]
    assert np.diff(bounds).min() >= -1e-9


def test_learned_counts_tell_common_topics_from_rare_ones():
    X = uneven()
    even = sb.LatentDirichletAllocation(3, random_state=0).fit(X)
    model = sb.LatentDirichletAllocation(3, concentration="auto", random_state=0).fit(X)
    assert model.lower_bound_ > even.lower_bound_ + 20
    common, *_, rare = np.argsort(-model.topic_concentration_)
    assert model.weights_.argmax() == common
    assert model.topic_concentration_[common] > 1.0 > 0.2 > model.topic_concentration_[rare]
    assert model.concentration_ == pytest.approx(model.topic_concentration_.mean())
    np.testing.assert_allclose(even.topic_concentration_, 0.1)


def test_given_counts_are_kept_in_copies_and_files(tmp_path):
    model = sb.LatentDirichletAllocation(4, concentration=list(GIVEN), random_state=0)
    model = clone(model).fit(corpus(0))
    np.testing.assert_allclose(np.sort(model.topic_concentration_), np.sort(GIVEN))
    model.save(tmp_path / "model.stickbreak")
    loaded = sb.load(tmp_path / "model.stickbreak")
    np.testing.assert_array_equal(loaded.topic_concentration_, model.topic_concentration_)
    np.testing.assert_array_equal(loaded.transform(corpus(1)), model.transform(corpus(1)))


@pytest.mark.parametrize(
    ("concentration", "message"),
    [
        ("uneven", "one for each topic, or \"auto\"; got 'uneven'"),
        ([0.1, 0.2], "concentration has 2 numbers for 3 topics"),
        ([0.1, -0.2, 0.3], "concentration"),
        ([[0.1, 0.2]], r"got the shape \(1, 2\)"),
    ],
)
def test_bad_counts_are_refused(concentration, message):
    with pytest.raises(ValueError, match=message):
        sb.LatentDirichletAllocation(3, concentration=concentration).fit(corpus(0))


def test_samplers_refuse_them():
    with pytest.raises(ValueError, match="samplers take one concentration for all topics"):
        sb.LatentDirichletAllocation(3, concentration="auto", inference="gibbs").fit(corpus(0))
