"""Known change points: every answer about segments takes them, as fits do."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.structures.semimarkov import segments_of

LEVELS, LENGTHS = (-5.0, 0.0, 5.0, 0.0, -5.0), (6, 9, 6, 9, 6)
RNG = np.random.default_rng(0)
X = [np.repeat(LEVELS, LENGTHS)[:, None] + RNG.normal(size=(sum(LENGTHS), 1)) for _ in range(3)]
NOISY = [x + RNG.normal(0, 4, x.shape) for x in X]
POINTS = [np.r_[0, np.cumsum(LENGTHS)[:-1]]] * 3

pytestmark = pytest.mark.filterwarnings("ignore")


def make(form="exact", **settings):
    lengths = {"max_duration": 20} if form == "exact" else {"duration_inference": form}
    settings = {"max_iter": 15, "random_state": 0, "init": "k-means++", **lengths, **settings}
    return sb.HSMM(3, **settings)


@pytest.fixture(scope="module", params=["exact", "embedded"])
def model(request):
    return make(request.param).fit(X, change_points=POINTS)


def begins(labels):
    return set(segments_of(labels, np.array([0, len(labels)])).begin.tolist())


def test_segments_are_kept_and_begin_where_they_may(model):
    assert any(begins(labels) - set(POINTS[0]) for labels in model.predict(NOISY))
    for labels in (
        model.predict(NOISY, change_points=POINTS),
        model.predict(NOISY, method="viterbi", change_points=POINTS),
        model.decode(NOISY, change_points=POINTS)[1],
        make().fit_predict(NOISY, change_points=POINTS),
    ):
        assert all(begins(each) <= set(POINTS[0]) for each in labels)
    found = model.predict_segments(NOISY, change_points=POINTS)
    assert set(found.start) <= set(POINTS[0].tolist())
    alone = model.predict(NOISY[0], change_points=POINTS[0])
    np.testing.assert_array_equal(alone, model.predict(NOISY, change_points=POINTS)[0])
    np.testing.assert_array_equal(model.predict(X, change_points=POINTS)[0], model.labels_[0])


def test_shares_change_at_change_points_only(model):
    moves = np.setdiff1d(np.arange(1, len(X[0])), POINTS[0])
    for shares in (
        model.predict_proba(NOISY, change_points=POINTS)[0],
        model.predict_proba([x[:9] for x in NOISY], change_points=[p[:2] for p in POINTS])[0],
    ):
        here = moves[moves < len(shares)]
        np.testing.assert_allclose(shares[here], shares[here - 1], atol=1e-9)
    # what is known of a row is not taken back by the rows after it: filters see the past alone
    seen = [x[:9] for x in NOISY]
    short = model.filter_proba(seen, change_points=[p[:2] for p in POINTS])
    whole = model.filter_proba(NOISY, change_points=POINTS)
    np.testing.assert_allclose(whole[0][:9], short[0], atol=1e-9)
    assert np.abs(whole[0][:9] - model.filter_proba(NOISY)[0][:9]).max() > 1e-3


def test_scores_are_those_of_segments_that_begin_there(model):
    given = {"change_points": POINTS}
    rows, sums = model.score_samples(NOISY, **given), model.score_sequences(NOISY, **given)
    np.testing.assert_allclose([each.sum() for each in rows], sums, atol=1e-9)
    assert model.score(NOISY, **given) == pytest.approx(sums.sum() / (3 * len(X[0])))
    free = model.score_sequences(NOISY)
    everywhere = [np.arange(len(x)) for x in X]
    np.testing.assert_allclose(model.score_sequences(NOISY, change_points=everywhere), free)
    assert (sums < free).all()  # the sum over some of the segmentations
    drawn = model.score_sequences(NOISY, draws=2, random_state=0, **given)
    assert (drawn < model.score_sequences(NOISY, draws=2, random_state=0)).all()


def test_what_comes_next_is_told_by_segments_that_begin_there(model):
    """After one row and a gap the segment may be new, or as old as the sequence."""
    rows = [np.r_[[[0.0]], np.full((7, 1), np.nan)]] * 2
    points = [np.array([0]), np.array([0, 7])]
    rest = model.predict_remaining(rows, change_points=points)
    np.testing.assert_allclose(rest.sum(1), 1.0, atol=1e-6)
    means, free = rest @ np.arange(rest.shape[1]), model.predict_remaining(rows)
    assert means[0] < free[0] @ np.arange(free.shape[1]) - 0.05
    assert means[0] < means[1] - 0.05
    state = model.predict([np.zeros((1, 1))])[0][0]
    found = model.forecast(rows, 3, change_points=points)
    np.testing.assert_allclose(found.states.sum(2), 1.0, atol=1e-6)
    # to what other states have of the first row
    np.testing.assert_allclose(found.states[0, 0, state], 1.0 - rest[0, 0], atol=1e-3)
    assert found.states[1, 0, state] < 1.0 - rest[1, 0] - 0.01


def test_gaps_are_filled_and_streams_are_cut_where_segments_begin():
    holes = [x.copy() for x in NOISY]
    holes[0][3:8] = np.nan
    model = make().fit(X)
    filled = model.impute(holes, change_points=POINTS)[0]
    assert np.ptp(filled[3:6]) < 1e-9  # one state
    assert abs(filled[5, 0] - filled[6, 0]) > 1.0
    streamed = make().partial_fit(X[:2], change_points=POINTS[:2])
    streamed.partial_fit(NOISY[2:], change_points=POINTS[2:])
    free = make().partial_fit(X[:2], change_points=POINTS[:2]).partial_fit(NOISY[2:])
    assert streamed.counts_.sum() == pytest.approx(free.counts_.sum())
    assert streamed.durations_.segments.sum() < free.durations_.segments.sum() - 0.1


def test_bad_change_points_are_named_by_answers(model, tmp_path):
    for answer in (
        model.predict, model.decode, model.predict_proba, model.filter_proba, model.impute,
        model.score, model.score_samples, model.score_sequences, model.predict_remaining,
        model.forecast, model.partial_fit,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="40"):
            answer(X, change_points=[[0, 40]] * 3)
    for answer in (model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(ValueError, match="change_points= is for sequences in memory"):
            answer(X, change_points=POINTS, out=tmp_path)
    with pytest.raises(ValueError, match="unknown method"):
        model.predict(X, method="best")


def test_an_interrupted_fit_is_resumed_with_its_change_points(tmp_path):
    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 2:
                raise KeyboardInterrupt

    def engine(*callbacks):
        path = tmp_path / "c"
        return sb.BatchVB(
            max_iter=5, tol=0.0, checkpoint=path, checkpoint_every=0.0, callbacks=callbacks
        )

    whole = make(inference=engine(), max_iter=None).fit(NOISY, change_points=POINTS)
    (tmp_path / "c").unlink()
    with pytest.raises(KeyboardInterrupt):
        make(inference=engine(Stop()), max_iter=None).fit(NOISY, change_points=POINTS)
    again = sb.resume(tmp_path / "c", NOISY, change_points=POINTS)
    assert again.lower_bound_ == whole.lower_bound_
    np.testing.assert_array_equal(again.labels_[0], whole.labels_[0])
