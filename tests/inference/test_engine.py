"""The loop that all engines share: stopping, callbacks, trace, order and ids, interruptions,
workers.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from fitting import MODELS, assert_same_fit, blob_model, blobs, fit, random_start
from registers import FAMILIES

from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.errors import NumericalError
from stickbreak.inference import (
    EM,
    BatchVB,
    BoundStopping,
    Callback,
    HardEM,
    Info,
    LapRecord,
    MeanLog,
    MemoizedVB,
    MonitorStopping,
    State,
    StochasticVB,
    Trace,
    count_workers,
    executors,
    workers,
)  # fmt: skip
from stickbreak.structures import independent

ENGINES = {
    "batch": BatchVB(max_iter=5, tol=0.0),
    "memoized": MemoizedVB(n_batches=4, max_iter=5, tol=0.0),
    "stochastic": StochasticVB(batch_size=5, max_iter=5, tol=0.0),
    "em": EM(max_iter=5, tol=0.0),
    "hard-em": HardEM(max_iter=5, tol=0.0),
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
ROWS = blobs(60, 3)
MODEL = blob_model(ROWS)


def with_callbacks(engine: Any, *callbacks: Callback, **settings: Any) -> Any:
    return type(engine)(**{**engine.get_params(deep=False), "callbacks": callbacks, **settings})


class Recorder(Callback):
    """Keeps everything that it is told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_step(self, info: Info) -> None:
        self.calls.append(info)

    def on_lap(self, record: LapRecord) -> None:
        self.calls.append(record)

    def on_end(self) -> None:
        self.calls.append("end")


class Raise(Callback):
    """Raises once, at a step or a lap."""

    def __init__(self, error: BaseException, step: int = -1, lap: int = -1) -> None:
        self.error, self.step, self.lap, self.ended = error, step, lap, 0

    def on_step(self, info: Info) -> None:
        if info.step == self.step:
            raise self.error

    def on_lap(self, record: LapRecord) -> None:
        if record.lap == self.lap:
            raise self.error

    def on_end(self) -> None:
        self.ended += 1


# ---- stopping ------------------------------------------------------------------------------------
def trace_of(bounds: list[float | None], log_z: list[float] | None = None) -> Trace:
    values = log_z or [0.0] * len(bounds)
    return Trace(
        [
            LapRecord(i + 1, b, z, 2, 0.0)
            for i, (b, z) in enumerate(zip(bounds, values, strict=True))
        ]
    )


def test_bound_stopping_counts_nats_per_unit() -> None:
    rule = BoundStopping(tol=0.01)
    assert not rule.is_converged(trace_of([]), 100)
    assert not rule.is_converged(trace_of([-50.0]), 100)
    assert not rule.is_converged(trace_of([None, -50.0]), 100)
    assert not rule.is_converged(trace_of([-50.0, -49.0]), 100)
    assert rule.is_converged(trace_of([-50.0, -49.01]), 100)
    assert rule.is_converged(trace_of([-50.0, -49.0]), 101)
    # tol=0 runs to max_iter
    assert not BoundStopping(tol=0.0).is_converged(trace_of([-50.0, -50.0]), 100)


def test_monitor_stopping_waits_for_laps_without_progress() -> None:
    rule = MonitorStopping(tol=0.1, patience=3)
    rising = [-5.0, -4.0, -3.0, -2.0, -1.0]
    assert not rule.is_converged(trace_of([None] * 5, rising), 1)
    assert not rule.is_converged(trace_of([None] * 3, [-1.0, -1.0, -1.0]), 1)
    assert rule.is_converged(trace_of([None] * 5, [-5.0, -1.0, -1.3, -0.95, -1.1]), 1)
    assert not rule.is_converged(trace_of([None] * 5, [-5.0, -1.0, -1.3, -0.85, -1.1]), 1)


@pytest.mark.parametrize(
    "engine", [BatchVB(max_iter=500, tol=1e-4), MemoizedVB(n_batches=4, max_iter=500, tol=1e-4)]
)
def test_fit_ends_when_a_lap_gains_less_than_tol(engine: Any) -> None:
    found = fit(MODEL, engine, ROWS, 4)
    gains = np.diff(found.trace.bound) / 60
    assert found.is_converged
    assert gains[-1] < 1e-4
    assert (gains[:-1] >= 1e-4).all()


@every_engine
def test_max_iter_ends_the_fit(engine: Any) -> None:
    found = fit(MODEL, engine, ROWS, 4)
    assert not found.is_converged
    assert not found.is_interrupted
    assert len(found.trace) == 5
    assert [record.lap for record in found.trace] == [1, 2, 3, 4, 5]


def test_stochastic_fit_converges_by_its_monitor() -> None:
    found = fit(MODEL, StochasticVB(batch_size=10, max_iter=400, tol=1e-3), ROWS, 3)
    assert found.is_converged
    assert 5 < len(found.trace) < 400


@pytest.mark.parametrize(
    "settings",
    [
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"tol": -1.0},
        {"tol": math.nan},
        {"n_batches": 0},
        {"n_batches": "many"},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        fit(MODEL, MemoizedVB(**settings), ROWS, 2)


# ---- callbacks and trace -------------------------------------------------------------------------
@every_engine
def test_callbacks_hear_of_every_step_and_lap_and_the_end(engine: Any) -> None:
    recorder = Recorder()
    found = fit(MODEL, with_callbacks(engine, recorder), ROWS, 4)
    steps = [c for c in recorder.calls if isinstance(c, Info)]
    laps = [c for c in recorder.calls if isinstance(c, LapRecord)]
    assert [i.step for i in steps] == list(range(1, found.n_steps + 1))
    assert laps == list(found.trace)
    assert recorder.calls[-1] == "end"
    assert recorder.calls.count("end") == 1
    assert {i.n_components for i in steps} == {4}
    per_lap = found.n_steps // 5
    assert [i.lap for i in steps] == [1 + s // per_lap for s in range(found.n_steps)]
    for lap in range(5):
        part = steps[lap * per_lap : (lap + 1) * per_lap]
        assert sum(i.n_observations for i in part) == 60
        assert sum(i.log_z for i in part) / 60 == pytest.approx(laps[lap].log_z, rel=1e-12)
    assert (np.diff(found.trace.seconds) >= 0).all()
    assert found.trace.n_components.tolist() == [4] * 5


@every_engine
def test_stop_iteration_ends_the_fit_with_what_it_has(engine: Any) -> None:
    stop = Raise(StopIteration(), lap=2)
    found = fit(MODEL, with_callbacks(engine, stop), ROWS, 4)
    assert len(found.trace) == 2
    assert stop.ended == 1
    assert not found.is_interrupted
    assert np.isfinite(found.bound)
    assert_counts_are_whole(found, 60)


def test_an_error_in_a_callback_is_not_swallowed_and_ends_are_told() -> None:
    fail, recorder = Raise(RuntimeError("no"), step=3), Recorder()
    with pytest.raises(RuntimeError, match="no"):
        fit(MODEL, with_callbacks(ENGINES["memoized"], fail, recorder), ROWS, 4)
    assert fail.ended == 1
    assert recorder.calls[-1] == "end"


def test_trace_round_trips_through_plain_values() -> None:
    trace = fit(
        MODEL, MemoizedVB(n_batches=3, max_iter=3, tol=0.0, trace_visits=True), ROWS, 3
    ).trace
    assert Trace.from_dict(trace.to_dict()) == trace
    assert len(trace.visits) == 7


# ---- order and permanent ids ---------------------------------------------------------------------
@pytest.mark.parametrize("n_batches", [1, 4])
def test_reorder_sorts_components_by_size_and_ids_follow(n_batches: int) -> None:
    rows = np.sort(blobs(90, 5, n_features=1), axis=0)
    model, table = blob_model(rows), Table(rows)
    start = random_start(model, table, 5, 4)
    settings = {"n_batches": n_batches, "max_iter": 1, "tol": 0.0}
    fixed = fit(model, MemoizedVB(reorder=False, **settings), table, start)
    moved = fit(model, MemoizedVB(reorder=True, **settings), table, start)
    assert fixed.ids == (0, 1, 2, 3, 4)
    assert moved.ids != fixed.ids
    assert (np.diff(moved.counts["share"]) <= 0).all()
    # After one lap the same components, only in another order: each keeps its id.
    for place, identity in enumerate(moved.ids):
        np.testing.assert_array_equal(
            moved.counts["moments"][place], fixed.counts["moments"][identity]
        )
    assert moved.bound > fixed.bound


def test_ids_given_at_the_start_are_kept() -> None:
    start = random_start(MODEL, Table(ROWS), 3)
    start = type(start)(start.seed, start.params, (7, 2, 5))
    found = fit(MODEL, ENGINES["memoized"], ROWS, start)
    assert sorted(found.ids) == [2, 5, 7]
    assert found.next_id == 8


@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_counts_descend_at_the_end_of_every_lap(max_iter: int) -> None:
    found = fit(MODEL, MemoizedVB(n_batches=5, max_iter=max_iter, tol=0.0), ROWS, 6)
    assert (np.diff(found.counts["share"]) <= 0).all()
    assert sorted(found.ids) == list(range(6))


# ---- interruptions -------------------------------------------------------------------------------
def assert_counts_are_whole(found: Any, n: float) -> None:
    """The counts sum over all rows, once."""
    assert found.counts.n_units == pytest.approx(n, rel=1e-9)
    assert found.counts["share"].sum() == pytest.approx(n, rel=1e-9)
    assert found.counts["moments"][:, 0].sum() == pytest.approx(n, rel=1e-9)


@every_engine
@pytest.mark.parametrize("where", [{"step": 1}, {"step": 3}, {"lap": 1}, {"lap": 3}], ids=str)
def test_ctrl_c_in_a_callback_leaves_a_usable_result(engine: Any, where: dict[str, int]) -> None:
    stop = Raise(KeyboardInterrupt(), **where)
    found = fit(MODEL, with_callbacks(engine, stop), ROWS, 4)
    assert found.is_interrupted
    assert not found.is_converged
    assert stop.ended == 1
    assert_counts_are_whole(found, 60)
    # the seed stands in: there is no bound yet
    is_first_lap = engine is ENGINES["memoized"] and "step" in where
    if is_first_lap or engine is ENGINES["stochastic"]:
        assert math.isnan(found.bound)
    else:
        assert found.bound == pytest.approx(
            engine.rule().bound(MODEL, found.counts, found.params), rel=1e-12
        )
    labels = MODEL.decode(
        MODEL.potentials(found.counts, found.params, MeanLog()), Table(ROWS).whole()
    )
    assert ((labels >= 0) & (labels < 4)).all()


@every_engine
@pytest.mark.parametrize("call", [1, 3, 5])
def test_ctrl_c_in_a_kernel_leaves_a_usable_result(
    engine: Any, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def interrupted(kernel: Any) -> Any:
        def wrapper(*args: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == call:
                raise KeyboardInterrupt
            return kernel(*args)

        return wrapper

    for name in ("softmax_rows", "best_rows"):
        monkeypatch.setattr(independent, name, interrupted(getattr(independent, name)))
    found = fit(MODEL, engine, ROWS, 4)
    assert found.is_interrupted
    assert_counts_are_whole(found, 60)


@pytest.mark.parametrize("visit", [2, 4, 5, 10, 17])
def test_ctrl_c_between_total_and_memory_is_repaired(
    visit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total has the batch's new counts, the memory its old ones: the result is the sum of what
    is remembered.
    """
    seen, remember = 0, State.remember

    def interrupted(self: State, *args: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == visit:
            raise KeyboardInterrupt
        remember(self, *args)

    monkeypatch.setattr(State, "remember", interrupted)
    found = fit(MODEL, ENGINES["memoized"], ROWS, 4)
    assert found.is_interrupted
    assert_counts_are_whole(found, 60)


# ---- numbers that are not ------------------------------------------------------------------------
@every_engine
@pytest.mark.parametrize("name", ["gaussian", "diagonal", "zero_mean", "fixed_variance"])
@pytest.mark.parametrize("bad", [-math.inf, math.inf])
def test_an_infinite_value_raises(engine: Any, name: str, bad: float) -> None:
    case = FAMILIES[name]
    rows, model = case.rows.copy(), MODELS["dp"](case.family, 1.0)
    start = random_start(model, Table(rows), 3)
    rows[17, 1] = bad
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(
            NumericalError,
            match=r"not a number|local "
            r"bound is",
        ),
    ):
        fit(model, engine, rows, start)


def test_a_row_without_a_legal_component_raises() -> None:
    table = Table(ROWS, sets=np.zeros(60, dtype=int))
    start = random_start(MODEL, table, 3, 0, np.zeros((1, 3)))
    with pytest.raises(NumericalError, match="legal"):
        fit(MODEL, ENGINES["batch"], table, start)


# ---- workers -------------------------------------------------------------------------------------
BIG = blobs(26_000, 6)
BIG_MODEL = MODELS["dp"](families.Gaussian().resolve(measure(Table(BIG))), 1.0)
BIG_ENGINES = {
    "batch": BatchVB(max_iter=3, tol=0.0),
    "memoized": MemoizedVB(n_batches=2, max_iter=3, tol=0.0, trace_visits=True),
    "stochastic": StochasticVB(batch_size=9000, max_iter=2, tol=0.0),
    "em": EM(max_iter=3, tol=0.0),
    "hard-em": HardEM(max_iter=3, tol=0.0),
}


@pytest.mark.parametrize("engine", BIG_ENGINES.values(), ids=BIG_ENGINES.keys())
def test_results_do_not_depend_on_the_number_of_workers(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stickbreak.data.batches.LANE_ROWS", 2048)
    table = Table(BIG)
    start = random_start(BIG_MODEL, table, 5)
    assert len(engine.plan(table).lap(0, 0).__next__().lanes()) > 1
    one, *others = (fit(BIG_MODEL, engine, table, start, n_jobs=n) for n in (1, 2, 3))
    for other in others:
        assert_same_fit(one, other)


def test_count_workers() -> None:
    everyone = count_workers(-1)
    assert count_workers(None) == 1
    assert count_workers(3) == 3
    assert everyone >= 1
    assert count_workers(-2) == max(1, everyone - 1)
    assert count_workers(-100) == 1
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match="n_jobs"):
            count_workers(bad)


def blas_threads() -> list[int]:
    return [
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]


def test_blas_is_held_to_one_thread_and_restored() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert set(blas_threads()) == {2}
        with workers(2) as pool:
            assert set(blas_threads()) == {1}
            assert list(pool.map(abs, [-1, 2, -3])) == [1, 2, 3]
        assert set(blas_threads()) == {2}
        with pytest.raises(RuntimeError), workers(1):
            raise RuntimeError
        assert set(blas_threads()) == {2}


def test_blas_libraries_are_looked_for_again_only_after_an_import(monkeypatch) -> None:
    searches: list[int] = []
    search = threadpoolctl.ThreadpoolController._load_libraries
    monkeypatch.setattr(
        threadpoolctl.ThreadpoolController,
        "_load_libraries",
        lambda self: (searches.append(1), search(self)),
    )
    for name in ("a_module", "another_module"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        for _ in range(3):
            with workers(1):
                pass
    assert len(searches) == 2


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_jobs_are_shared_out_and_come_in_order(n_jobs: int) -> None:
    who: set[int] = set()
    both = threading.Barrier(2, timeout=60)

    def call(job: int) -> int:
        who.add(threading.get_ident())
        if job < 2:
            both.wait()  # two at a time: the caller and a helper
        return job * job

    with workers(n_jobs) as pool:
        assert list(pool.map(call, range(20))) == [job * job for job in range(20)]
        assert list(pool.map(call, [])) == []
        assert list(pool.map(call, [3])) == [9]
    assert threading.get_ident() in who
    assert 2 <= len(who) <= n_jobs


@pytest.mark.parametrize("bad", [0, 1])
def test_the_error_of_a_job_is_raised_and_the_rest_is_left(bad: int) -> None:
    began: list[int] = []
    both = threading.Barrier(2, timeout=60)

    def call(job: int) -> None:
        began.append(job)
        both.wait()
        if job == bad:
            raise ValueError(f"job {job}")
        time.sleep(0.5)  # by then the other has failed

    with workers(2) as pool, pytest.raises(ValueError, match=f"job {bad}"):
        list(pool.map(call, range(50)))
    assert sorted(began) == [0, 1]


def test_overlapping_users_restore_blas_once() -> None:
    """The one that began first ends first: the other still holds the limit, the last one restores
    what was there.
    """
    before = blas_threads()
    entered, leave = threading.Event(), threading.Event()

    def second() -> None:
        with workers(1):
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=second)
    with workers(1):
        thread.start()
        assert entered.wait(60)
    assert set(blas_threads()) == {1}
    assert executors.BLAS._users == 1
    leave.set()
    thread.join()
    assert blas_threads() == before
    assert executors.BLAS._users == 0
