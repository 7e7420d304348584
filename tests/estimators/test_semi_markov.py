"""HSMM and HDPHSMM as users see them: engines, answers, files, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.checks import check_estimator
from stickbreak.checks.estimators import DRAWN_CHECKS, SEQUENCE_CHECKS

LENGTHS = (6, 9, 6, 9, 6)
LEVELS = (-5.0, 0.0, 5.0, 0.0, -5.0)


def make_sequences(n=3, seed=0):
    rng = np.random.default_rng(seed)
    path = np.repeat(LEVELS, LENGTHS)[:, None]
    return [path + rng.normal(size=path.shape) for _ in range(n)]


X = make_sequences()
TRUTH = np.repeat([0, 1, 2, 1, 0], LENGTHS)
QUIET = {"max_iter": 15, "random_state": 0, "init": "k-means++"}


def fitted(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sb.HSMM(3, **{**QUIET, "max_duration": 20, **settings}).fit(X)


def states_by_mean(model):
    return np.argsort(np.argsort(model.means_[:, 0]))


@pytest.fixture(scope="module")
def model():
    return fitted(duration="poisson")


ENGINES = {
    "em": sb.EM(max_iter=15),
    "hard-em": sb.HardEM(max_iter=15),
    "batch": sb.BatchVB(max_iter=15),
    "memoized": sb.MemoizedVB(n_batches=2, max_iter=15),
    "stochastic": sb.StochasticVB(batch_size=2, max_iter=5),
    "gibbs": sb.Gibbs(max_iter=10),
    "collapsed": sb.CollapsedVB(max_iter=10),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.covering
@pytest.mark.parametrize("form", ["exact", "embedded"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cls", [sb.HSMM, sb.HDPHSMM])
def test_every_engine_fits_segments(cls, engine, form):
    lengths = {"duration_inference": form, "max_duration": 20 if form == "exact" else None}
    model = cls(3, inference=ENGINES[engine], random_state=0, init="k-means++", **lengths).fit(X)
    assert np.isfinite(model.lower_bound_)
    bound = np.array([record.bound for record in model.trace_ if record.bound is not None])
    # by stages r is learned from drawn lengths, so that the bound may drop a little
    if form == "exact" and engine in ("em", "hard-em", "batch", "memoized"):
        assert np.diff(bound).min(initial=0.0) > -1e-8
    assert sum(model.counts_) == pytest.approx(3 * sum(LENGTHS))
    assert model.score(X) < 0


def test_segments_are_found_with_their_lengths(model):
    found = model.predict_segments(X)
    order = states_by_mean(model)
    assert found._fields == ("sequence", "start", "end", "state", "length")
    np.testing.assert_array_equal(found.sequence, np.repeat([0, 1, 2], 5))
    np.testing.assert_array_equal(found.length, np.tile(LENGTHS, 3))
    np.testing.assert_array_equal(found.start, np.tile(np.r_[0, np.cumsum(LENGTHS)[:-1]], 3))
    np.testing.assert_array_equal(found.end - found.start, found.length)
    np.testing.assert_array_equal(order[found.state], np.tile([0, 1, 2, 1, 0], 3))
    marginal = model.predict_segments(X, method="marginal")
    np.testing.assert_array_equal(marginal.length, found.length)
    np.testing.assert_array_equal(order[model.labels_[0]], TRUTH)


def test_durations_are_a_table(model):
    found, order = model.durations_, np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(found.probability.sum(1), 1.0, atol=1e-3)
    assert (found.low <= found.median).all()
    assert (found.median <= found.high).all()
    np.testing.assert_allclose(found.mean[order[1]], 9.0, atol=1.0)
    assert found.segments.sum() == pytest.approx(15.0, abs=0.5)
    assert set(model.duration_parameters_) == {"duration_rate"}
    assert np.diagonal(model.transmat_).max() == 0.0


def test_what_comes_next_is_told_by_the_age_of_the_last_segment(model):
    early, late = ([x[: 6 + n] for x in X] for n in (1, 8))  # one and eight rows of nine
    for rows in (early, late):
        rest = model.predict_remaining(rows)
        np.testing.assert_allclose(rest.sum(1), 1.0, atol=1e-9)
    means = [model.predict_remaining(rows)[0] @ np.arange(20) for rows in (early, late)]
    assert means[0] > means[1] + 2
    found = model.forecast(late, 4)
    assert found.states.shape == (3, 4, 3)
    assert found.rows.shape == (3, 4, 1)
    np.testing.assert_allclose(found.states.sum(2), 1.0)
    stays = found.states[:, :, model.predict(late)[0][-1]]
    assert stays[0, 0] > stays[0, 3]  # it is about to end
    rest = model.predict_remaining(late)
    # the last state is all but certain, and is not the next one of another
    np.testing.assert_allclose(stays[:, 0], 1.0 - rest[:, 0], atol=5e-3)


def test_the_online_filter_agrees_with_filter_proba_and_scores(model):
    now = model.online_filter()
    for s in (0, 1):
        now.reset()
        steps, shares = zip(
            *[(f.log_predictive, f.probabilities) for f in map(now.update, X[s])], strict=True
        )
        np.testing.assert_allclose(steps, model.score_samples(X)[s], atol=1e-8)
        np.testing.assert_allclose(shares, model.filter_proba(X)[s], atol=1e-8)
        np.testing.assert_allclose(now.remaining, model.predict_remaining(X)[s], atol=1e-8)
    with pytest.raises(ValueError, match="no row"):
        _ = now.reset().remaining


def test_forecasts_of_autoregressions_go_from_row_to_row():
    rng = np.random.default_rng(0)
    rows = [np.cumsum(rng.normal(size=(40, 1)), 0) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sb.HSMM(2, family="autoregressive", max_duration=20, **QUIET).fit(rows)
    found = model.forecast(rows, 3)
    assert found.rows.shape == (2, 3, 1)
    assert np.isfinite(found.rows).all()
    # one row ahead: the mean over the next states of their regressions
    shares, last = found.states[0, 0], rows[0][-1]
    posterior = model.posterior_
    values = (posterior["coefficients"] @ last)[:, 0] + posterior["intercept"][:, 0]
    assert found.rows[0, 0, 0] == pytest.approx(shares @ values)


def test_models_survive_files(model, tmp_path):
    for one in (model, fitted(duration=sb.NegativeBinomial(r_max=3)), fitted(duration="free")):
        one.save(tmp_path / "model")
        copy = sb.load(tmp_path / "model")
        np.testing.assert_array_equal(copy.score_samples(X)[0], one.score_samples(X)[0])
        assert repr(copy.duration) == repr(one.duration)
        np.testing.assert_array_equal(copy.durations_.mean, one.durations_.mean)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.covering
@pytest.mark.parametrize("form", ["exact", "embedded", "sampled"])
@pytest.mark.parametrize("cls", [sb.HSMM, sb.HDPHSMM])
def test_resumed_and_parallel_fits_have_the_same_bits(cls, form, tmp_path):
    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 2:
                raise KeyboardInterrupt

    def engine(*callbacks):
        return sb.MemoizedVB(
            n_batches=2, max_iter=6, tol=0.0, checkpoint=tmp_path / "c", checkpoint_every=0.0,
            callbacks=callbacks, moves=None,
        )  # fmt: skip

    settings = {"duration_inference": form, "random_state": 0, "init": "k-means++"}
    whole = cls(3, inference=engine(), n_jobs=2, **settings).fit(X)
    (tmp_path / "c").unlink()
    with pytest.raises(KeyboardInterrupt):
        cls(3, inference=engine(Stop()), **settings).fit(X)
    again = cls(3, inference=engine(), **settings).resume(X)
    assert again.lower_bound_ == whole.lower_bound_
    np.testing.assert_array_equal(again.means_, whole.means_)
    np.testing.assert_array_equal(again.durations_.mean, whole.durations_.mean)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["exact", "embedded"])
def test_one_whole_stochastic_step_is_one_lap(form):
    """Spec 5.6 i: step size one, all sequences in the batch."""
    settings = {"duration_inference": form, "random_state": 0, "init": "k-means++"}
    step = sb.StochasticVB(max_iter=1, batch_size=len(X), first_rate=1.0, delay=0.0)
    once = sb.HDPHSMM(3, inference=step, **settings).fit(X)
    lap = sb.HDPHSMM(3, inference=sb.BatchVB(max_iter=1), **settings).fit(X)
    np.testing.assert_allclose(once.means_, lap.means_, rtol=1e-12)
    np.testing.assert_allclose(once.transmat_, lap.transmat_, rtol=1e-9)
    np.testing.assert_allclose(once.durations_.mean, lap.durations_.mean, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_manners_of_chains():
    stacked, lengths = np.concatenate(X), [len(x) for x in X]
    ids = np.repeat(["a", "b", "c"], lengths)
    by_list = fitted()
    by_length = sb.HSMM(3, max_duration=20, **QUIET).fit(stacked, lengths=lengths)
    by_id = sb.HSMM(3, max_duration=20, **QUIET).fit(stacked, sequence_id=ids)
    assert by_list.lower_bound_ == by_length.lower_bound_ == by_id.lower_bound_
    labels = [np.where(np.arange(len(x)) < 5, 0, -1) for x in X]
    known = sb.HSMM(3, max_duration=20, **QUIET).fit(X, labels=labels)
    assert (np.concatenate(known.labels_)[np.concatenate(labels) == 0] == 0).all()
    holes = [x.copy() for x in X]
    holes[0][3] = np.nan
    assert np.isfinite(sb.HSMM(3, max_duration=20, **QUIET).fit(holes).score(holes))
    weighted = sb.HSMM(3, max_duration=20, **QUIET).fit(X, sample_weight=[1.0, 0.0, 1.0])
    assert weighted.counts_.sum() == pytest.approx(2 * len(X[0]))
    streamed = sb.HSMM(3, max_duration=20, **QUIET).partial_fit(X[:2]).partial_fit(X[2:])
    assert streamed.counts_.sum() == pytest.approx(3 * len(X[0]))
    one = sb.HSMM(2, random_state=0, max_duration=3).fit(np.array([[0.3]]))
    assert one.predict(np.array([[0.2]])).shape == (1,)
    assert len(one.predict_segments(np.array([[0.2]])).state) == 1
    assert not hasattr(by_list, "stationary_")
    rows, states = by_list.sample(30, random_state=0)
    assert rows.shape == (30, 1)
    assert states.shape == (30,)


SAMPLED = {
    "batch": sb.BatchVB(max_iter=15),
    "memoized": sb.MemoizedVB(n_batches=2, max_iter=15),
    "stochastic": sb.StochasticVB(batch_size=2, max_iter=8),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", SAMPLED)
@pytest.mark.parametrize("cls", [sb.HSMM, sb.HDPHSMM])
def test_drawn_segments_find_the_states(cls, engine):
    settings = {"duration_inference": "sampled", "random_state": 0, "init": "k-means++"}
    model = cls(3, inference=SAMPLED[engine], **settings).fit(X)
    np.testing.assert_array_equal(states_by_mean(model)[model.labels_[0]], TRUTH)
    assert np.isfinite(model.lower_bound_)
    assert all(record.bound is None for record in model.trace_)
    assert model.counts_.sum() == pytest.approx(3 * len(X[0]))


@pytest.mark.filterwarnings("ignore")
def test_drawn_segments_count_as_often_as_their_sequences():
    settings = {"duration_inference": "sampled", "max_iter": 10, "random_state": 0}
    weights = [2.5, 0.0, 0.5]
    model = sb.HSMM(3, init="k-means++", **settings).fit(X, sample_weight=weights)
    found = model.durations_
    assert model.counts_.sum() == pytest.approx(sum(weights) * len(X[0]))
    # every draw is the truth: five segments of each sequence, whose lengths are those of LENGTHS
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(found.segments[order], 3.0 * np.array([2, 2, 1]), atol=0.05)
    holes = [np.c_[x, x[::-1]] for x in X]
    holes[0][3, 0] = np.nan
    with pytest.raises(ValueError, match=r"DiagonalGaussian.*duration_inference='embedded'"):
        sb.HSMM(3, **settings).fit(holes)
    assert np.isfinite(sb.HSMM(3, family="diagonal", **settings).fit(holes).score(holes))


@pytest.mark.filterwarnings("ignore")
def test_births_and_deletes_find_the_states():
    data = make_sequences(6, seed=3)
    grown = sb.HDPHSMM(1, random_state=0).fit(data)
    shrunk = sb.HDPHSMM(6, random_state=0, max_duration=30).fit(data)
    assert grown.n_effective_ == shrunk.n_effective_ == 3
    assert "birth" in grown.explain_moves()


@pytest.mark.parametrize(
    ("settings", "fit", "named"),
    [
        ({"max_duration": 0}, {}, "max_duration"),
        ({"duration": sb.NegativeBinomial}, {}, "duration must be"),
        ({"duration": "weibull"}, {}, "weibull"),
        ({"duration_inference": "quick"}, {}, "quick"),
        ({"duration": "poisson", "duration_inference": "embedded"}, {}, "NegativeBinomial"),
        ({"transition_prior": np.ones((3, 3))}, {}, "self-transition"),
        ({"n_samples": 0}, {}, "n_samples"),
        ({"max_duration": 4}, {"labels": [np.repeat(0, 36)] * 3}, "36 rows"),
        ({"max_duration": 9}, {"change_points": [[0, 40]] * 3}, "40"),
        ({"max_duration": 9}, {"change_points": [[1, 4]] * 3}, "begins at 0|begin with 1"),
        ({"max_duration": 9}, {"change_points": [[0, 4]] * 2}, "2 sequences"),
        ({"inference": sb.SubchainVB(max_iter=1), "max_duration": 9}, {}, "SubchainVB"),
        ({"inference": "collapsed-gibbs", "max_duration": 9}, {}, "CollapsedGibbs"),
        (
            {"inference": "em", "duration_inference": "sampled"}, {}, "'sampled' is for BatchVB",
        ),
        ({"left_censored": True, "duration_inference": "embedded"}, {}, "left_censored"),
    ],
)  # fmt: skip
def test_bad_input_is_named(settings, fit, named):
    with pytest.raises(ValueError, match=named):
        sb.HSMM(3, random_state=0, **settings).fit(X, **fit)


def test_one_state_and_too_much_work_are_refused():
    with pytest.raises(ValueError, match="follow itself"):
        sb.HSMM(1, max_duration=5).fit(X)
    with pytest.raises(ValueError, match="embedded"):
        sb.HSMM(50).fit(np.zeros((600_000, 1)))
    with pytest.raises(ValueError, match="r_max"):
        sb.HSMM(2, duration=sb.NegativeBinomial(r_max=0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["exact", "embedded", "sampled"])
@pytest.mark.parametrize("cls", [sb.HSMM, sb.HDPHSMM])
def test_sequences_of_one_row_are_segments(cls, form):
    one = np.array([[0.3]])
    for rows in ([one], [one, one + 1.0, np.zeros((5, 1))]):
        model = cls(2, duration_inference=form, max_iter=3, random_state=0).fit(rows)
        assert model.predict(one).shape == (1,)
        assert model.predict_segments(one).length.tolist() == [1]
        assert np.isfinite(model.score(one))
        assert model.predict_remaining(one).sum() == pytest.approx(1.0, abs=1e-6)
        assert model.forecast(one, 2).rows.shape == (1, 2, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", [sb.HSMM, sb.HDPHSMM])
def test_windows_of_a_sequence_are_refused(cls):
    with pytest.raises(ValueError, match=r"SubchainVB is not for segments.*StochasticVB"):
        cls(2, inference="subchain").fit(X)


@pytest.mark.filterwarnings("ignore")
def test_collapsed_starts_begin_with_drawn_segments():
    for form in ("exact", "embedded"):
        model = sb.HSMM(
            3, duration_inference=form, init="collapsed", max_iter=15, random_state=0
        ).fit(X)
        order = states_by_mean(model)
        np.testing.assert_array_equal(order[model.labels_[0]], TRUTH)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["exact", "embedded", "sampled"])
@pytest.mark.parametrize("cls", [sb.HSMM, sb.HDPHSMM])
def test_the_public_battery_passes(cls, form):
    # what is drawn lacks no entries, but where columns leave them out
    family = "diagonal" if form == "sampled" else "gaussian"
    model = cls(3, family=family, duration_inference=form, max_iter=10, random_state=0)
    found = check_estimator(model, np.concatenate(X))
    failed = {r["check_name"] for r in found if r["status"] == "failed"}
    expected = {r["check_name"] for r in found if r["status"] == "xfail"}
    assert failed == set()
    assert expected <= set(SEQUENCE_CHECKS) | (set(DRAWN_CHECKS) if form == "sampled" else set())
