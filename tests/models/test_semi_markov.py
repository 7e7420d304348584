"""Semi-Markov models as wholes: bounds against all labelings, stochastic steps, drawn averages."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import BatchVB, MemoizedVB, StochasticVB, run
from stickbreak.initialize import count_labels, from_blocks
from stickbreak.models import finite_hsmm, hdp_hsmm
from stickbreak.priors import FreeDurations, Geometric, NegativeBinomial, ShiftedPoisson

LAWS = (NegativeBinomial(r_max=4), ShiftedPoisson(), Geometric(), FreeDurations())
FAMILY = Categorical(concentration=0.5, n_symbols=(3,))
ROWS = np.array([0, 0, 1, 1, 2, 0, 0, 1, 2, 2])[:, None]
DATA = Sequences(ROWS, offsets=np.array([0, 5, 10]))


def log_evidence(model, data, n_states):
    """log p(rows) by all labelings, parameters integrated out; every segment ends within."""
    params = model.start_params(n_states)
    found = []
    for states in product(range(n_states), repeat=data.n_rows):
        labels = np.array(states)
        counts = count_labels(model, data.whole(), labels, n_states)
        found.append(model.bound(counts, params))
    return logsumexp(found)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_bound_rises_and_stays_below_the_evidence_of_all_labelings(law):
    small = Sequences(ROWS[:7], offsets=np.array([0, 4, 7]))
    model = finite_hsmm(FAMILY, duration=law, max_duration=5, right_censored=False)
    exact = log_evidence(model, small, 2)
    for seed in range(3):
        start = from_blocks(model, small, 2, np.random.default_rng(seed), length=2)
        found = run(model, BatchVB(max_iter=30, tol=0.0), small, start)
        assert np.diff(found.trace.bound).min() > -1e-9
        assert found.bound < exact + 1e-9


@pytest.mark.parametrize("make", [finite_hsmm, hdp_hsmm])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_bound_never_drops_with_batches_and_cut_segments(make, law):
    model = make(FAMILY, duration=law, max_duration=8)
    data = Sequences(np.tile(ROWS, (3, 1)), offsets=np.arange(0, 31, 5))
    start = from_blocks(model, data, 3, np.random.default_rng(1), length=2)
    engine = MemoizedVB(n_batches=3, max_iter=12, tol=0.0, moves=None, trace_visits=True)
    found = run(model, engine, data, start)
    rises = np.diff(np.array(found.trace.visits))
    assert rises.min() > -1e-8


@pytest.mark.parametrize("make", [finite_hsmm, hdp_hsmm])
@pytest.mark.parametrize("law", [NegativeBinomial(r=3), Geometric()], ids=["r=3", "geometric"])
def test_bound_never_drops_by_a_given_number_of_stages(make, law):
    """With r given no lengths are drawn: stages have the exact posterior, of any length."""
    model = make(FAMILY, duration=law, duration_inference="embedded")
    data = Sequences(np.tile(ROWS, (3, 1)), offsets=np.arange(0, 31, 5))
    start = from_blocks(model, data, 3, np.random.default_rng(1), length=2)
    engine = MemoizedVB(n_batches=3, max_iter=12, tol=0.0, moves=None, trace_visits=True)
    found = run(model, engine, data, start)
    assert np.diff(np.array(found.trace.visits)).min() > -1e-8
    whole = run(model, BatchVB(max_iter=12, tol=0.0), data, start)
    assert np.diff(whole.trace.bound).min() > -1e-9


def test_one_step_of_all_data_with_rate_one_is_a_lap():
    model = finite_hsmm(FAMILY, max_duration=8)
    start = from_blocks(model, DATA, 2, np.random.default_rng(0), length=2)
    lap = run(model, BatchVB(max_iter=1), DATA, start)
    engine = StochasticVB(max_iter=1, batch_size=2, kappa=0.0, delay=0.0, first_rate=1.0)
    step = run(model, engine, DATA, start)
    for name in lap.counts.arrays:
        np.testing.assert_allclose(step.counts[name], lap.counts[name], atol=1e-10)


def test_steps_on_all_batches_average_to_the_counts_of_all_data():
    model = finite_hsmm(FAMILY, max_duration=8)
    data = Sequences(np.tile(ROWS, (2, 1)), offsets=np.arange(0, 21, 5))
    start = from_blocks(model, data, 2, np.random.default_rng(0), length=2)
    from stickbreak.inference import MeanLog

    potentials = model.potentials(start.seed, start.params, MeanLog())
    whole = model.local_step(potentials, data.whole())[0]
    parts = [model.local_step(potentials, data.take(np.array([s])))[0] for s in range(4)]
    for name in whole.arrays:
        mean = sum(4 * part[name] for part in parts) / 4
        np.testing.assert_allclose(mean, whole[name], atol=1e-10)


@pytest.mark.slow
def test_averages_of_draws_approach_the_posterior_of_drawn_parameters():
    """One state of lengths is certain here: the mean counts of many draws add up."""
    law = NegativeBinomial(r_max=3)
    model = finite_hsmm(FAMILY, duration=law, max_duration=8)
    drawn = replace(model, n_drawn=40)
    start = from_blocks(model, DATA, 2, np.random.default_rng(0), length=2)
    found = run(drawn, BatchVB(max_iter=2, tol=0.0), DATA, start, seed=3)
    assert found.counts["rows"].sum() == pytest.approx(10.0)
    assert found.counts["start"].sum() == pytest.approx(2.0)
    segments = found.counts["duration"].sum()
    assert segments == pytest.approx(2.0 + found.counts["transition"].sum())
    assert np.isfinite(found.bound)
    assert all(record.bound is None for record in found.trace)
    again = run(drawn, BatchVB(max_iter=2, tol=0.0), DATA, start, seed=3)
    np.testing.assert_array_equal(again.counts["duration"], found.counts["duration"])
