"""The battery that every model must pass."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.inference import (
    EM,
    BatchVB,
    Callback,
    Engine,
    Info,
    MeanLog,
    MemoizedVB,
    Result,
    Start,
    StochasticVB,
    read_checkpoint,
    run,
    workers,
)
from stickbreak.models import Model
from stickbreak.priors import BasePrior

from .requirements import PRIOR, defines, require_methods

__all__ = ["check_model"]

TOLERANCE = 1e-10
"""The bound never drops by more than this fraction of the larger of 1 and itself."""


def check_model(
    model: Model, data: Any, start: Start, *, n_batches: int = 4, max_iter: int = 6
) -> None:
    """Check a model on some data; an AssertionError says what fails.

    From lap 2 on, the bound never drops at a batch or memoized step, nor does EM's objective. One
    memoized batch equals batch. Results do not depend on the number of threads. A fit resumed from
    any checkpoint continues bit for bit. Both formulas give the same bound at optimal globals. The
    prior must define what `BasePrior` says; without `log_mode`, EM is not checked.

    Parameters
    ----------
    model : a Model.
    data : a Table, or any container that engines can read.
    start : start of the fits (see `stickbreak.initialize`).
    n_batches, max_iter : of the memoized fits.
    """
    require_methods(model.prior, BasePrior, PRIOR)
    settings: dict[str, Any] = {"max_iter": max_iter, "tol": 0.0, "trace_visits": True}
    engines: list[Engine] = [BatchVB(**settings), MemoizedVB(n_batches=n_batches, **settings)]
    if defines(model.prior, BasePrior, "log_mode"):
        engines.append(EM(**settings))
    for engine in engines:
        _check_monotone(run(model, engine, data, start), type(engine).__name__)
    batch = run(model, BatchVB(**settings), data, start)
    one = run(model, MemoizedVB(n_batches=1, **settings), data, start)
    gap = np.abs(batch.trace.bound - one.trace.bound).max()
    assert gap <= 1e-10 * max(1.0, abs(batch.bound)), (
        f"one memoized batch must equal batch: off by {gap:.2e}"
    )
    engines = [
        MemoizedVB(n_batches=n_batches, **settings),
        StochasticVB(batch_size=max(1, data.n_spans // 3), max_iter=2),
    ]
    for engine in engines:
        _check_threads(model, engine, data, start)
        _check_resume(model, engine, data, start)
    _check_bound_at(batch.model, data, batch)


def _check_monotone(result: Result, name: str) -> None:
    for kind, bounds in (("lap", result.trace.bound), ("visit", np.array(result.trace.visits))):
        drop = (bounds[:-1] - bounds[1:]) / np.maximum(1.0, np.abs(bounds[:-1]))
        assert drop.size == 0 or drop.max() <= TOLERANCE, (
            f"{name}: the bound dropped by {drop.max():.2e} at a {kind}"
        )


def _check_threads(model: Model, engine: Engine, data: Any, start: Start) -> None:
    found = []
    for n_jobs in (1, 2):
        with workers(n_jobs) as pool:
            found.append(run(model, engine, data, start, pool=pool))
    _assert_same(
        found[0], found[1], f"{type(engine).__name__} must not depend on the number of threads"
    )


class _StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, info: Info) -> None:
        """Interrupt at the given step, after the checkpoint of the step before."""
        if info.step == self.step:
            raise KeyboardInterrupt


def _check_resume(model: Model, engine: Engine, data: Any, start: Start) -> None:
    whole = run(model, engine, data, start)
    with tempfile.TemporaryDirectory() as folder:
        for step in (2, 3, whole.n_steps - 1):
            path = Path(folder) / f"{step}.checkpoint"
            stopped = replace(
                engine, checkpoint=path, checkpoint_every=0.0, callbacks=(_StopAt(step),)
            )
            interrupted = run(model, stopped, data, start)
            assert interrupted.is_interrupted, "an interrupted fit must say so"
            _, snapshot = read_checkpoint(path)
            resumed = run(model, engine, data, snapshot)
            _assert_same(
                whole,
                resumed,
                f"{type(engine).__name__} must resume bit for bit from step {step - 1}",
            )


def _check_bound_at(model: Model, data: Any, result: Result) -> None:
    counts, params = result.counts, result.params
    potentials = model.potentials(counts, params, MeanLog())
    found, _ = model.local_step(potentials, data.whole())
    after = model.bound(found, model.global_step(found, params))
    before = model.bound_at(counts, params, potentials, found)
    slack = 1e-9 * max(1.0, abs(after))
    assert result.bound - slack <= before <= after + slack, (
        f"bound_at gave {before}; expected {result.bound} to {after}"
    )


def _assert_same(first: Result, second: Result, what: str) -> None:
    assert first.bound == second.bound or (np.isnan(first.bound) and np.isnan(second.bound)), (
        f"{what}: bounds differ"
    )
    for name in first.counts:
        assert np.array_equal(first.counts[name], second.counts[name]), f"{what}: {name} differs"
    assert first.ids == second.ids, f"{what}: ids differ"
