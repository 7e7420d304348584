"""Limits of the components that rows use, as users meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stickbreak as sb


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    """Rows of four overlapping clusters."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])
    return centers[rng.integers(0, 4, 240)] + rng.normal(size=(240, 2))


def limited(**settings: Any) -> sb.BatchVB:
    return sb.BatchVB(max_iter=40, tol=1e-2, max_active=2, **settings)


def test_readers_see_all_components(X):
    """predict_proba is the posterior under the fitted components, not the limited one that the fit
    used.
    """
    model = sb.Mixture(6, inference=limited(), random_state=0).fit(X)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    assert np.count_nonzero(shares, axis=1).min() == 6
    np.testing.assert_array_equal(model.predict(X), shares.argmax(1))
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert np.isnan(model.trace_.disagreement).all()


def test_a_fit_with_candidates_says_how_often_they_miss(X):
    exact, quick = (
        sb.Mixture(6, inference=limited(candidates=c), random_state=0).fit(X) for c in (None, 4)
    )
    assert quick.lower_bound_ == pytest.approx(exact.lower_bound_, rel=1e-9)
    np.testing.assert_array_equal(quick.trace_.disagreement, 0.0)
    assert quick.trace_[0].disagreement == 0.0


def test_limits_are_kept_in_files_and_checkpoints(X, tmp_path: Path):
    path = tmp_path / "fit.checkpoint"
    engine = limited(candidates=4, checkpoint=path, checkpoint_every=0.0)
    model = sb.Mixture(6, inference=engine, random_state=0).fit(X)
    model.save(tmp_path / "model.stickbreak")
    loaded = sb.load(tmp_path / "model.stickbreak")
    assert (loaded.inference.max_active, loaded.inference.candidates) == (2, 4)
    np.testing.assert_array_equal(loaded.trace_.disagreement, model.trace_.disagreement)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert sb.resume(path, X).lower_bound_ == model.lower_bound_


def test_a_stream_is_limited_too(X):
    streams = [
        sb.Mixture(6, inference=sb.StochasticVB(max_active=L), random_state=0) for L in (1, None)
    ]
    for model in streams:
        for part in np.split(X, 3):
            model.partial_fit(part)
    one, every = (model.counts_ for model in streams)
    np.testing.assert_allclose(one, one.round(), atol=1e-9)  # every row is somebody's
    assert np.abs(every - every.round()).max() > 1e-3


def test_moves_find_the_clusters_with_limited_rows(X):
    rng = np.random.default_rng(1)
    wide = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])[rng.integers(0, 4, 240)] + rng.normal(
        size=(240, 2)
    )
    plain, few = (
        sb.DPMixture(
            inference=sb.MemoizedVB(moves=(sb.Birth(), sb.Merge(), sb.Delete()), max_active=L),
            random_state=0,
        ).fit(wide)
        for L in (None, 2)
    )
    assert few.n_components_ == plain.n_components_ == 4
    # the clusters lie apart: a row has one component
    assert few.lower_bound_ == pytest.approx(plain.lower_bound_, abs=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_active": 0}, "max_active"),
        ({"max_active": 2.5}, "max_active"),
        (
            {"candidates": 8},
            "candidates are what max_active components are chosen among; got "
            "candidates=8 with max_active=None",
        ),
        ({"max_active": 4, "candidates": 3}, "got candidates=3 with max_active=4"),
        ({"max_active": 4, "candidates": "many"}, "candidates"),
    ],
)
@pytest.mark.parametrize("engine", [sb.BatchVB, sb.MemoizedVB, sb.StochasticVB])
def test_limits_that_make_no_sense_are_refused(X, engine, settings, message):
    with pytest.raises(ValueError, match=message):
        sb.Mixture(3, inference=engine(**settings)).fit(X)


@pytest.mark.parametrize("engine", [sb.EM, sb.HardEM])
def test_engines_of_modes_have_no_limits(engine):
    with pytest.raises(TypeError, match="max_active"):
        engine(max_active=2)


def test_more_than_there_are_is_all(X):
    plain, limit = (
        sb.Mixture(
            3, inference=sb.BatchVB(max_iter=40, tol=1e-2, max_active=L), random_state=0
        ).fit(X)
        for L in (None, 3)
    )
    assert limit.lower_bound_ == plain.lower_bound_


# ---- sequences -----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def sequences() -> list[np.ndarray]:
    """Chains that stay in each of six clear states for a while."""
    rng = np.random.default_rng(0)
    places = 6.0 * np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]])
    paths = [np.cumsum(rng.random(T) < 0.1) % 6 for T in (150, 90, 1, 120, 140)]
    return [places[path] + rng.normal(size=(len(path), 2)) for path in paths]


@pytest.mark.slow  # `models/test_sparse_chains.py` has more of them
@pytest.mark.parametrize("engine", [sb.BatchVB, sb.MemoizedVB, sb.StochasticVB])
@pytest.mark.parametrize(
    "model",
    [sb.HMM(8, random_state=0), sb.HDPHMM(8, stickiness=5, random_state=0)],
    ids=["hmm", "hdp-hmm"],
)
def test_chains_with_few_states(sequences, engine, model):
    """Clear states: six of eight give the fit of all; readers see all states; what is missed is
    told.
    """
    settings = {"max_iter": 100, "tol": 1e-2}
    settings |= {} if engine is sb.StochasticVB else {"moves": None}
    few, dense = (
        type(model)(
            **{**model.get_params(deep=False), "inference": engine(max_active=L, **settings)}
        ).fit(sequences)
        for L in (6, None)
    )
    assert few.lower_bound_ == pytest.approx(dense.lower_bound_, abs=0.1)
    assert few.trace_.disagreement[-1] < 1e-4
    assert np.isnan(dense.trace_.disagreement).all()
    shares = np.concatenate(few.predict_proba(sequences))
    assert np.count_nonzero(shares, axis=1).max() == 8
    for found, expected in zip(few.predict(sequences), dense.predict(sequences), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_chains_with_few_states_in_files_checkpoints_and_streams(sequences, tmp_path: Path):
    path = tmp_path / "fit.checkpoint"
    engine = sb.MemoizedVB(
        n_batches=2, max_iter=20, tol=1e-2, max_active=2, checkpoint=path, checkpoint_every=0.0
    )
    model = sb.HMM(6, inference=engine, random_state=0).fit(sequences)
    model.save(tmp_path / "model.stickbreak")
    loaded = sb.load(tmp_path / "model.stickbreak")
    assert loaded.inference.max_active == 2
    np.testing.assert_array_equal(loaded.trace_.disagreement, model.trace_.disagreement)
    assert sb.resume(path, sequences).lower_bound_ == model.lower_bound_
    stream = (
        sb.HMM(6, inference=sb.BatchVB(max_active=1), random_state=0)
        .partial_fit(sequences[:3])
        .partial_fit(sequences[3:])
    )
    # every row is somebody's
    np.testing.assert_allclose(stream.counts_, stream.counts_.round(), atol=1e-9)
    assert stream.counts_.sum() == pytest.approx(sum(map(len, sequences)))


@pytest.mark.slow
def test_moves_find_the_states_with_limited_rows(sequences):
    moves = (sb.Birth(), sb.Merge(), sb.Delete())
    plain, few = (
        sb.HDPHMM(
            1, stickiness=5, inference=sb.MemoizedVB(moves=moves, max_active=L), random_state=0
        ).fit(sequences)
        for L in (None, 3)
    )
    assert few.n_components_ == plain.n_components_ == 6
    assert few.lower_bound_ == pytest.approx(plain.lower_bound_, abs=0.1)


@pytest.mark.slow
def test_autoregressions_and_impossible_steps_with_few_states(sequences):
    walk = np.cumsum(np.random.default_rng(1).normal(size=(200, 2)), axis=0)
    lagged = sb.HMM(
        5,
        family=sb.AutoregressiveGaussian(order=1),
        inference=sb.BatchVB(max_active=2, tol=1e-3),
        random_state=0,
    )
    assert np.isfinite(lagged.fit(walk).lower_bound_)
    onward = np.triu(np.ones((6, 6)))  # left to right: a row that has gone too far cannot go back
    for L in (1, 2):
        engine = sb.BatchVB(max_iter=60, tol=1e-3, max_active=L)
        chain = sb.HMM(6, transition_prior=onward, inference=engine, random_state=0).fit(sequences)
        assert np.isfinite(chain.lower_bound_)
        assert (chain.transmat_[np.tril_indices(6, -1)] == 0).all()
