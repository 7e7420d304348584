"""Moves that wait until a fit has settled, and trials of chains that begin with loosened steps."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.priors import DirichletRows
from stickbreak.stats import Fields, Summary

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(c, 1.0, (60, 1)) for c in (-6.0, 0.0, 6.0)])


def first_merge(start, model):
    engine = sb.BatchVB(moves=[sb.Merge(start=start)], max_iter=300)
    model.set_params(inference=engine, random_state=0).fit(X)
    laps = [record.lap for record in model.trace_.moves if record.kind == "merge"]
    return laps[0], model


@pytest.mark.parametrize("model", [sb.DPMixture(8), sb.HDPHMM(8)], ids=["mixture", "chain"])
def test_merges_wait_until_a_lap_gains_nothing(model):
    early, _ = first_merge(1, model)
    late, found = first_merge("settled", model)
    assert early <= 2 < late
    bounds = found.trace_.bound
    # the lap before the first watched one gained less than tol a row
    assert abs(bounds[late - 2] - bounds[late - 3]) < 1e-5 * len(X)
    assert found.n_effective_ == 3


@pytest.mark.parametrize("move", [sb.Merge, sb.Delete])
@pytest.mark.parametrize("start", ["late", 0, 1.5])
def test_other_starts_are_refused(move, start):
    model = sb.DPMixture(3, inference=sb.BatchVB(moves=[move(start=start)]))
    with pytest.raises(ValueError, match="start"):
        model.fit(X)


def test_deletes_wait_too():
    engine = sb.BatchVB(moves=[sb.Delete(start="settled")], max_iter=200)
    fits = [sb.DPMixture(6, inference=engine, random_state=seed).fit(X) for seed in range(5)]
    first = [(fit, fit.trace_.moves[0].lap) for fit in fits if fit.trace_.moves]
    assert first  # where all that is left over is empty, nothing is tried
    for fit, lap in first:
        bounds = fit.trace_.bound
        assert abs(bounds[lap - 2] - bounds[lap - 3]) < 1e-5 * len(X)


def test_a_settled_fit_is_resumed_bit_for_bit(tmp_path):
    path = tmp_path / "fit.ckpt"
    moves = [sb.Merge(start="settled"), sb.Delete(start="settled"), sb.Birth()]

    def make(**more):
        engine = sb.BatchVB(moves=moves, checkpoint=path, checkpoint_every=0, **more)
        return sb.HDPHMM(6, inference=engine, random_state=0)

    whole = make().fit(X)
    (lap,) = [m.lap for m in whole.trace_.moves if m.kind == "merge"][:1]

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == lap:
                raise KeyboardInterrupt

    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        make(callbacks=(Stop(),)).fit(X)
    resumed = make().resume(X)
    assert resumed.lower_bound_ == whole.lower_bound_
    assert len(resumed.trace_.moves) == len(whole.trace_.moves)


def test_loosened_steps_keep_rows_and_impossible_steps():
    prior = DirichletRows(transition_prior=[[1, 1, 0], [1, 1, 1], [1, 1, 1]], start_prior=[1, 1, 1])
    steps = np.array([[50.0, 6.0, 0.0], [4.0, 40.0, 2.0], [8.0, 0.0, 30.0]])
    layout = prior.fields("state")
    counts = Summary(layout, {"start": np.ones(3), "transition": steps})
    found = prior.loosened(counts, Fields({}, {}))["transition"]
    assert found[0, 2] == 0.0
    assert found[2, 1] > 0.0
    assert np.array_equal(np.diagonal(found), np.diagonal(steps))
    none = Summary(layout, {"start": np.ones(3), "transition": np.diag([3.0, 2.0, 1.0])})
    assert prior.loosened(none, Fields({}, {})) is none
