"""One engine serves every double, unchanged: bounds, equalities, workers, memory on disk,
checkpoints.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from doubles import brute
from doubles.cases import CASES, NOT_BUILT
from doubles.data import begin, random_start

from stickbreak.checks import check_model
from stickbreak.data import Batch
from stickbreak.inference import (
    EM,
    Callback,
    HardEM,
    MeanLog,
    Memoized,
    MemoizedVB,
    SpillingMemory,
    Stochastic,
    StochasticVB,
    read_checkpoint,
    run,
    workers,
)
from stickbreak.inference.loop import step
from stickbreak.inference.schedules import PowerDecay
from stickbreak.stats import BasePool, Tally

VISITS: dict[str, Any] = {"tol": 0.0, "trace_visits": True}


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Tables are tiny: threads of BLAS would only wait for each other."""
    with workers(1):
        yield


def assert_never_drops(bounds):
    """By no more than 1e-10 max(1, |bound|), the library's own definition."""
    bounds = np.asarray(bounds)
    drop = (bounds[:-1] - bounds[1:]) / np.maximum(1.0, np.abs(bounds[:-1]))
    assert len(bounds) > 2
    assert drop.max() <= 1e-10


def assert_same_counts(first, second, exact=True, tolerance=1e-8):
    assert set(first.arrays) == set(second.arrays)
    for name in first.arrays:
        assert first[name].shape == second[name].shape, name
        np.testing.assert_allclose(
            first[name], second[name], rtol=0, atol=0.0 if exact else tolerance, err_msg=name
        )


def start_of(case, n_batches, seed=0):
    return random_start(case.model, case.data.batches(n_batches), case.n_components, seed)


@pytest.mark.parametrize("n_batches", [1, 4])
@pytest.mark.parametrize("name", NOT_BUILT)
def test_bound_never_decreases(name, n_batches):
    case = CASES[name]
    result = run(
        case.model,
        MemoizedVB(n_batches=n_batches, max_iter=8, **VISITS),
        case.data,
        start_of(case, n_batches),
    )
    assert_never_drops(result.trace.visits)
    assert result.bound > result.trace.visits[0] + 1.0  # it learns


@pytest.mark.parametrize("name", NOT_BUILT)
def test_one_batch_equals_a_plain_loop(name):
    case = CASES[name]
    start, batch = start_of(case, 1), case.data.batches(1)[0]
    result = run(case.model, MemoizedVB(n_batches=1, max_iter=5, **VISITS), case.data, start)
    counts, params, warm, bounds = start.seed, start.params, None, []
    for _ in range(5):
        potentials = case.model.potentials(counts.restrict(batch.symbols), params, MeanLog())
        new, warm = case.model.local_step(potentials, batch, warm)
        counts = Tally(case.model.zeros(case.n_components)).add(new).summary()
        params = case.model.global_step(counts, params)
        bounds.append(case.model.bound(counts, params))
        params = case.model.global_step(counts, params)  # the engine's own, at the end of the lap
    np.testing.assert_allclose(result.trace.visits, bounds, rtol=1e-10)


def test_own_vocabulary_changes_nothing():
    """Compact batches compute with and remember their own symbols; the total stays whole."""
    results = []
    for name in ("chain", "chain-own-vocabulary"):
        case = CASES[name]
        results.append(
            run(
                case.model,
                MemoizedVB(n_batches=6, max_iter=5, **VISITS),
                case.data,
                start_of(case, 6),
            )
        )
    assert_same_counts(results[0].counts, results[1].counts, exact=False, tolerance=1e-10)
    np.testing.assert_allclose(results[0].trace.visits, results[1].trace.visits, rtol=1e-12)
    case = CASES["chain-own-vocabulary"]
    batches = case.data.batches(6)
    state = begin(case.model, batches, 4)
    step(case.model, MeanLog(), Memoized(), state, batches[0])
    assert len(batches[0].symbols) < 7
    assert state.memory.recall(0).summary["emission"].shape == (len(batches[0].symbols), 4)
    assert state.total.view()["emission"].shape == (7, 4)


# ------------------------------------------------------------------------------------------ workers


class Far(BasePool):
    """A pool whose jobs and results travel by pickle, as to another process."""

    def map(self, call, jobs):
        trip = lambda value: pickle.loads(pickle.dumps(value))
        return [trip(trip(call)(trip(job))) for job in jobs]


@pytest.mark.parametrize("name", NOT_BUILT)
def test_workers_do_not_change_a_bit(name, monkeypatch):
    monkeypatch.setattr("stickbreak.data.batches.ORDERED_ROWS", 12)
    monkeypatch.setattr("stickbreak.data.batches.LANE_UNITS", 2)
    case = CASES[name]
    assert all(len(batch.lanes()) > 1 for batch in case.data.batches(2))
    engine, results = MemoizedVB(n_batches=2, max_iter=4, tol=0.0), []
    for n_jobs in (1, 2):
        with workers(n_jobs) as pool:
            results.append(run(case.model, engine, case.data, start_of(case, 2), pool=pool))
    with workers(1):
        results.append(run(case.model, engine, case.data, start_of(case, 2), pool=Far()))
    for other in results[1:]:
        assert_same_counts(results[0].counts, other.counts)
        assert results[0].bound == other.bound


# --------------------------------------------------------------------------- memory and checkpoints


@pytest.mark.parametrize("name", NOT_BUILT)
def test_spilled_memory_changes_no_bit(name, tmp_path):
    case = CASES[name]
    batches, totals = case.data.batches(4), []
    for memory in (None, SpillingMemory(1, tmp_path)):
        state = begin(case.model, batches, case.n_components)
        state.memory = state.memory if memory is None else memory
        for _ in range(3):
            for batch in batches:
                step(case.model, MeanLog(), Memoized(), state, batch)
            Memoized().end_lap(state)
        totals.append((state.total.view(), case.model.bound(state.total.view(), state.params)))
    assert memory.n_spilled == 4
    assert_same_counts(totals[0][0], totals[1][0])
    assert totals[0][1] == totals[1][1]


class StopAt(Callback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_step(self, info):
        if info.step == self.at:
            raise KeyboardInterrupt


@pytest.mark.covering
@pytest.mark.parametrize("at", [3, 7, 8])
@pytest.mark.parametrize(
    "name",
    ["chain-own-vocabulary", "document-rest", "tree", "alignment", "annotation"],
)
def test_checkpoints_resume_bit_for_bit(name, at, tmp_path):
    """In the first lap (the seed stands in), inside a later one, at its end; warm starts
    included.
    """
    case = CASES[name]
    engine = MemoizedVB(n_batches=4, max_iter=3, **VISITS)
    whole = run(case.model, engine, case.data, start_of(case, 4), seed=1)
    stopped = replace(
        engine, checkpoint=tmp_path / "fit", checkpoint_every=0.0, callbacks=(StopAt(at + 1),)
    )
    run(case.model, stopped, case.data, start_of(case, 4), seed=1)
    _, snapshot = read_checkpoint(tmp_path / "fit")
    assert snapshot.state.n_steps == at
    kept = [snapshot.state.memory.recall(i) for i in snapshot.state.memory]
    assert all((visit.warm is not None) == name.startswith("document") for visit in kept)
    again = run(case.model, engine, case.data, snapshot, seed=1)
    assert_same_counts(whole.counts, again.counts)
    assert_same_counts(whole.params, again.params)
    assert whole.trace.visits == again.trace.visits


# --------------------------------------------------------------------- other rules and accumulators


def starts_cold(case):
    """Whether units keep nothing from visit to visit: their local optimum is unique."""
    return case.model.structure.cold_start(case.data.whole(), 2, case.model.axis) is None


COLD = [name for name in NOT_BUILT if starts_cold(CASES[name])]


@pytest.mark.slow
@pytest.mark.parametrize("name", COLD)
def test_doubles_pass_the_public_battery(name):
    case = CASES[name]
    check_model(case.model, case.data, start_of(case, 1), n_batches=3, max_iter=3)


@pytest.mark.covering
@pytest.mark.parametrize("engine", [EM, HardEM])
@pytest.mark.parametrize("name", COLD)
def test_em_raises_its_objective(name, engine):
    case = CASES[name]
    result = run(case.model, engine(max_iter=8, **VISITS), case.data, start_of(case, 1))
    assert_never_drops(result.trace.visits)


@pytest.mark.parametrize("name", NOT_BUILT)
def test_stochastic_steps_keep_the_number_of_units(name):
    """Scaled visits stand for all data; the noisy total predicts better than the start."""
    case = CASES[name]
    engine = StochasticVB(batch_size=6, kappa=0.6, delay=1.0, max_iter=8, tol=0.0)
    result = run(case.model, engine, case.data, start_of(case, 1), seed=2)
    assert result.counts.n_units == pytest.approx(case.data.n_units, rel=1e-12)
    assert result.trace.log_z[-1] > result.trace.log_z[0]


@dataclass(frozen=True)
class Subchains(Stochastic):
    """Parts of one long chain: every field has its own scale. n_rows: length of the chain."""

    n_rows: int = 0

    def combine(self, state, batch, old, new, warm):
        """A step of the natural gradient."""
        rate = self.schedule.rate(state.n_steps + 1)
        part, n = batch.n_rows, self.n_rows
        scaled = new.scale(n / part, by_field={"initial": 1.0, "transition": (n - 1) / (part - 1)})
        state.total = Tally(state.total.summary().scale(1.0 - rate)).add(scaled.scale(rate))


def test_subchains_scale_each_field_by_its_own_factor():
    """Windows of a chain: rows, steps and starts occur n / part, (n - 1) / (part - 1) and 1 times
    as often in the whole.
    """
    case = CASES["chain-gaussian"]
    rows = case.data.rows
    n, part = len(rows), 10
    whole = replace(case.data.whole(), offsets=np.array([0, n]))
    windows = [Batch(at, rows[at : at + part], np.array([0, part])) for at in range(n - part)]
    accumulator = Subchains(1.0, 1.0, PowerDecay(0.6, 0.0), n)
    start = random_start(case.model, [whole], 3)
    state = accumulator.begin(start, (0, 1, 2), len(windows))
    log_z = lambda: (
        brute.infer(
            case.model, case.model.potentials(state.total.view(), state.params, MeanLog()), whole
        )[0].log_z
    )
    before = log_z()
    for at in np.random.default_rng(0).permutation(len(windows))[:40]:
        step(case.model, MeanLog(), accumulator, state, windows[at])
    total = state.total.view()
    # the first step has rate one, so nothing of the seed is left: masses are those of the whole
    # chain
    assert total["initial"].sum() == pytest.approx(1.0, rel=1e-12)
    assert total["transition"].sum() == pytest.approx(n - 1, rel=1e-12)
    assert total["moments"][:, 0].sum() == pytest.approx(n, rel=1e-12)
    # of some 570 nats, by 40 windows that each have replaced part of the others
    assert log_z() > before + 20.0
