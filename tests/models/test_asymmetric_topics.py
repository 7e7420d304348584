"""Topic models whose topics have prior counts of their own, given or learned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import digamma, gammaln
from sklearn.base import clone
from topics import corpus, make_model, plain_bound, random_start

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.inference import MeanLog, MemoizedVB, run
from stickbreak.initialize import from_collapsed
from stickbreak.priors.asymmetric_topics import LEAST, fit_dirichlet
from stickbreak.stats import Summary

GIVEN = (0.7, 0.3, 0.1, 0.05)


def uneven(n: int = 200) -> np.ndarray:
    """Documents of three topics with words of their own, one of them in nearly all."""
    rng = np.random.default_rng(0)
    topics = np.kron(np.eye(3), np.full(4, 0.25))
    shares = rng.dirichlet([2.0, 0.2, 0.05], n)
    return np.array([rng.multinomial(60, share @ topics) for share in shares])


def fit(concentration, n_topics: int = 3, **settings):
    model = sb.LatentDirichletAllocation(n_topics, concentration=concentration, random_state=0)
    return model.set_params(**settings)


def test_the_fitted_dirichlet_has_the_given_mean_logs():
    truth = np.array([2.0, 0.5, 0.05, 0.9])
    logs = digamma(truth) - digamma(truth.sum())
    start = np.full(4, 0.1)
    for _ in range(5):
        start = fit_dirichlet(logs, start)
    np.testing.assert_allclose(start, truth, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_fitted_dirichlet_is_the_best_that_a_plain_search_finds(seed):
    rng = np.random.default_rng(seed)
    logs = np.log(rng.dirichlet(rng.gamma(0.5, 1.0, 5) + 0.05, 7) + 1e-12).mean(0)

    def loss(log_counts):
        counts = np.exp(log_counts)
        return gammaln(counts).sum() - gammaln(counts.sum()) - counts @ logs

    found = np.full(5, 0.1)
    for _ in range(10):
        found = fit_dirichlet(logs, found)
    limits = [(np.log(LEAST), np.log(1e6))] * 5
    plain = minimize(loss, np.full(5, np.log(0.1)), method="L-BFGS-B", bounds=limits, tol=1e-14)
    assert loss(np.log(found)) <= plain.fun + 1e-9


def test_the_fitted_dirichlet_stays_in_its_limits():
    """All documents alike have no best concentration; a topic that no document has, no count."""
    assert np.isfinite(fit_dirichlet(np.log([0.5, 0.3, 0.2]), np.full(3, 0.1))).all()
    absent = np.array([digamma(1.0) - digamma(1.001), -2000.0])
    counts = np.full(2, 0.1)
    for _ in range(5):
        counts = fit_dirichlet(absent, counts)
    assert counts[1] == pytest.approx(LEAST)


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


def test_equal_counts_are_one_count_for_all():
    X = corpus(0)
    one, many = fit(0.1).fit(X), fit([0.1, 0.1, 0.1]).fit(X)
    np.testing.assert_array_equal(one.transform(X), many.transform(X))
    assert one.lower_bound_ == pytest.approx(many.lower_bound_, rel=1e-12)


@pytest.mark.parametrize("inference", ["gibbs", "collapsed-gibbs"])
def test_samplers_take_given_counts(inference):
    """The log joint of labels is that of Dirichlet-multinomials with these counts."""
    X, engine = corpus(0), sb.CollapsedGibbs if inference == "collapsed-gibbs" else sb.Gibbs
    model = fit(GIVEN, 4, inference=engine(max_iter=5), init="local").fit(X)
    assert model.topic_concentration_.tolist() == list(GIVEN)
    counts: Summary = model._fitted.counts
    assert counts["share"].sum() == pytest.approx(X.sum())
    with pytest.raises(ValueError, match="concentration='auto' needs a variational engine"):
        fit("auto", inference=inference).fit(X)


@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["em", "collapsed", "memoized", "stochastic"])
def test_every_engine_takes_given_counts(inference):
    found = fit(GIVEN, 4, inference=inference, max_iter=5).fit(corpus(0))
    assert found.topic_concentration_.tolist() == list(GIVEN)


def test_learned_counts_tell_common_topics_from_rare_ones():
    X = uneven()
    even, model = fit(0.1).fit(X), fit("auto").fit(X)
    assert model.lower_bound_ > even.lower_bound_ + 20
    common, *_, rare = np.argsort(-model.topic_concentration_)
    assert model.weights_.argmax() == common
    assert model.topic_concentration_[common] > 1.0 > 0.2 > model.topic_concentration_[rare]
    assert model.concentration_ == pytest.approx(model.topic_concentration_.mean())
    np.testing.assert_allclose(even.topic_concentration_, 0.1)


@pytest.mark.parametrize("concentration", ["auto", sb.GammaPrior()], ids=["each", "one"])
def test_sweeps_of_a_start_learn_no_prior_counts(concentration):
    """Documents of random labels are alike; prior counts learned of them would keep them so."""
    model = make_model("lda", concentration=concentration)
    documents = Documents.from_counts(corpus(0))
    start = from_collapsed(model, documents, 4, np.random.default_rng(0), n_sweeps=5)
    for name, values in model.start_params(4).arrays.items():
        np.testing.assert_array_equal(start.params[name], values)


def test_a_stream_learns_counts_too():
    X, model = uneven(), fit("auto")
    for part in np.array_split(X, 4):
        model.partial_fit(part)
    common, *_, rare = np.argsort(-model.topic_concentration_)
    assert model.topic_concentration_[common] > 4 * model.topic_concentration_[rare]


def test_seeded_topics_have_the_counts_with_their_numbers():
    model = fit([2.0, 0.1, 0.1], seeds={0: range(4), 1: range(4, 8), 2: range(8, 12)})
    found = model.fit(uneven())
    assert found.topic_word_[0, :4].sum() > 0.9
    assert found.topic_concentration_.tolist() == [2.0, 0.1, 0.1]


@pytest.mark.parametrize("concentration", [list(GIVEN), np.array(GIVEN), "auto"])
def test_counts_are_kept_in_copies_and_files(concentration, tmp_path):
    model = clone(fit(concentration, 4)).fit(corpus(0))
    model.save(tmp_path / "model.stickbreak")
    loaded = sb.load(tmp_path / "model.stickbreak")
    np.testing.assert_array_equal(loaded.topic_concentration_, model.topic_concentration_)
    np.testing.assert_array_equal(loaded.transform(corpus(1)), model.transform(corpus(1)))
    assert loaded.concentration_ == model.concentration_


@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
def test_a_fit_with_learned_counts_resumes_with_the_same_bits(tmp_path):
    X, path = corpus(0), tmp_path / "fit.checkpoint"

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 4:
                raise KeyboardInterrupt

    def make(**more):
        saving = {"checkpoint": path, "checkpoint_every": 0.0}
        engine = sb.MemoizedVB(n_batches=2, max_iter=8, tol=0.0, **saving, **more)
        return fit("auto", inference=engine)

    whole = make().fit(X)
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        make(callbacks=(Stop(),)).fit(X)
    resumed = make().resume(X)
    np.testing.assert_array_equal(resumed.topic_concentration_, whole.topic_concentration_)


@pytest.mark.parametrize(
    ("concentration", "message"),
    [
        ("uneven", "one for each topic, or \"auto\"; got 'uneven'"),
        ([0.1, 0.2], "concentration has 2 numbers for 3 topics"),
        ([0.1, -0.2, 0.3], r"concentration\[1\] must be a positive number"),
        ([0.1, np.nan, 0.3], r"concentration\[1\] must be a positive number"),
        ([[0.1, 0.2]], "must be a number, one for each topic"),
        ([], "must be a number, one for each topic"),
    ],
)
def test_bad_counts_are_refused(concentration, message):
    with pytest.raises(ValueError, match=message):
        fit(concentration).fit(corpus(0))


@pytest.mark.parametrize("concentration", [[0.1, 0.2, 0.3], "auto"])
def test_moves_are_refused(concentration):
    engine = sb.MemoizedVB(moves=[sb.Merge()])
    with pytest.raises(ValueError, match="moves change the number of topics"):
        fit(concentration, inference=engine).fit(corpus(0))
