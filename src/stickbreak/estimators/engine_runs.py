"""Run an engine: a fit from several starts, and one that resumes.

Each returns a `Fitted`. It reads the estimator's arguments and does not change the estimator.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Table, is_on_disk
from stickbreak.errors import (
    CheckpointError,
    ConvergenceWarning,
    NumericalError,
    WorkersLostError,
)
from stickbreak.families.base import BaseFamily
from stickbreak.inference import (
    Engine,
    Result,
    Snapshot,
    Start,
    read_checkpoint,
    require_place,
    require_same_fit,
    run,
    workers,
)
from stickbreak.initialize import from_previous
from stickbreak.models import Model
from stickbreak.progress import Progress
from stickbreak.protocols import Pool
from stickbreak.reading import Groups, Schema, Stack
from stickbreak.stats import SERIAL, Array

from .engine_choice import TRUNCATION
from .fitted import Fitted
from .model_files import identify_fit

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["Task", "check_end", "finish", "fit_from_starts", "make_seed", "resume_fit"]


@dataclass(frozen=True)
class Task:
    """Data to fit a model to.

    table, schema : checked rows, and their columns
    n_components : how many components to begin with, where there is no previous fit
    legal : (S, K) which components each set of rows may have; None for all
    previous : the fit to continue from; None to begin
    family : the likelihood with all that it takes from the data, if reading has set it
    """

    table: Table
    schema: Schema
    n_components: int
    legal: Array | None = None
    previous: Fitted | None = None
    family: BaseFamily | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """Permanent ids of the components that the fit begins with."""
        return tuple(range(self.n_components)) if self.previous is None else self.previous.ids

    @property
    def is_on_disk(self) -> bool:
        """Whether the rows stay in a file."""
        return is_on_disk(self.table.rows)


def make_seed(random_state: Any) -> int:
    """One whole number from an int, None, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return int(np.random.RandomState(int(random_state)).randint(2**31 - 1))
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


# ---------------------------------------------------------------------------------------- fits


def fit_from_starts(
    estimator: Estimator, task: Task, seed: int | None = None
) -> tuple[Fitted, BaseException | None]:
    """The best of `n_init` starts, and what ended the search early: Ctrl-C, or lost workers.

    seed : drawn from `random_state`, unless it has been already
    """
    engine = estimator._engine_for(task)
    if task.previous is not None and engine.checkpoint is not None:
        raise ValueError(
            "checkpoint= cannot save a warm start, which needs the model it "
            "continues; use warm_start=False"
        )
    seed = make_seed(estimator.random_state) if seed is None else seed
    has_file = engine.checkpoint is not None
    settings = identify_fit(estimator, task, engine, seed) if has_file else None
    if settings is not None:
        require_place(engine.checkpoint, settings)  # before the work that a start is
    best: Result | None = None
    ends: list[tuple[float, int, int]] = []
    n_starts = 1 if task.previous is not None else int(estimator.n_init)
    with workers(estimator.n_jobs) as pool:
        model = estimator._model_of(task, engine)
        for i in range(n_starts):
            try:
                rng = np.random.default_rng([seed, i])
                start = _start(estimator, model, _vary(estimator, task, i), rng, pool)
            except (KeyboardInterrupt, WorkersLostError) as error:
                if best is None:
                    raise
                return finish(estimator, best, engine, task, SERIAL), error
            watched = _with_progress(estimator, engine, task.table, i, n_starts)
            found = run(
                model, watched, task.table, start, seed=seed + i, pool=pool, settings=settings
            )
            ends.append((float(found.bound), len(found.ids), len(found.trace)))
            if best is None or found.bound > best.bound:
                best = found
            if found.is_interrupted or found.is_out_of_room:
                break
        assert best is not None
        fitted = finish(estimator, best, engine, task, _pool_after(found, pool))
        several = tuple(ends) if len(ends) > 1 else ()
        return replace(fitted, starts=several), found.ended_by


def resume_fit(
    estimator: Estimator, task: Task, saved: tuple[dict[str, Any], Snapshot] | None
) -> tuple[Fitted, BaseException | None]:
    """Continue from the engine's checkpoint; see `fit_from_starts`.

    saved : what is in it, if it has been read already
    """
    engine = estimator._engine_for(task)
    if engine.checkpoint is None:
        raise ValueError(
            "resume needs an engine with checkpoint=, the file that the interrupted fit wrote"
        )
    expected = identify_fit(estimator, task, engine, 0)
    known = {name: value for name, value in expected.items() if name != "seed"}
    found, snapshot = saved or read_checkpoint(engine.checkpoint)
    require_same_fit(engine.checkpoint, found, known)
    _require_sets(engine.checkpoint, task.legal, snapshot.state.params.arrays.get("legal"))
    seed = int(found["seed"])
    watched = _with_progress(estimator, engine, task.table)
    settings = {**expected, "seed": seed}
    with workers(estimator.n_jobs) as pool:
        model = estimator._model_of(replace(task, previous=None), engine)
        try:
            result = run(
                model, watched, task.table, snapshot, seed=seed, pool=pool, settings=settings
            )
        except NumericalError as error:
            raise NumericalError(f"{engine.checkpoint}, resumed: {error}") from None
        return finish(estimator, result, engine, task, _pool_after(result, pool)), result.ended_by


def _pool_after(found: Result, pool: Pool) -> Pool:
    """Where answers are made after a fit: here, if the workers are lost."""
    return SERIAL if isinstance(found.ended_by, WorkersLostError) else pool


def _require_sets(path: Any, ours: Array | None, theirs: Array | None) -> None:
    """Raise CheckpointError if a file has other legal sets than the rows name."""
    n_ours, n_theirs = (0 if sets is None else np.shape(sets)[:1] for sets in (ours, theirs))
    if n_ours != n_theirs:
        raise CheckpointError(f"{path} is damaged: {n_theirs} legal sets; the rows have {n_ours}")


def _vary(estimator: Estimator, task: Task, start: int) -> Task:
    """The task of one of several starts.

    From one component they would all be alike, so those after the first begin with many.
    """
    is_alike = task.n_components == 1 and task.legal is None and estimator._is_unbounded
    if start == 0 or not is_alike or estimator._starts_differ():
        return task
    return replace(task, n_components=max(1, min(TRUNCATION, task.table.n_spans)))


def _start(
    estimator: Estimator, model: Model, task: Task, rng: np.random.Generator, pool: Pool
) -> Start:
    """A start from the data, or from the previous fit."""
    old = task.previous
    if old is None:
        return estimator._seed(model, task, rng, pool)
    start = from_previous(old.counts, old.params, old.ids, task.table.n_units)
    if task.legal is None:
        return start
    return replace(start, params=model.with_legal(start.params, task.legal))


def _with_progress(
    estimator: Estimator, engine: Engine, table: Table, start: int = 0, n_starts: int = 1
) -> Engine:
    if not Progress.is_wanted(estimator.verbose):
        return engine
    progress = Progress(
        engine.max_iter,
        table.n_observations,
        start=start,
        n_starts=n_starts,
        noun=estimator._row_noun,
        shows=bool(estimator.verbose),
    )
    return replace(engine, callbacks=(*engine.callbacks, progress))


def check_end(fitted: Fitted) -> None:
    """Raise NumericalError for a bound that is not a number; warn if the bound did not settle."""
    engine = fitted.engine
    if not np.isfinite(fitted.bound):
        raise NumericalError(
            f"the fit ended with a bound of {fitted.bound}; check the data's "
            "scale and the family's prior"
        )
    if not fitted.is_converged and len(fitted.trace) >= engine.max_iter:
        warnings.warn(
            f"stopped at max_iter={engine.max_iter} before the bound settled to "
            f"tol={engine.tol}; raise max_iter or tol, or check trace_",
            ConvergenceWarning,
            stacklevel=5,
        )


def finish(estimator: Estimator, result: Result, engine: Engine, task: Task, pool: Pool) -> Fitted:
    """The fitted model with labels of the training rows; for rows on disk, without.

    Those are computed when asked for.
    """
    fitted = Fitted.from_result(result, engine, task.schema)
    if task.previous is not None and task.previous.names:
        kept = {i: name for i, name in task.previous.names.items() if i in set(fitted.ids)}
        fitted = replace(fitted, names=kept)
    if isinstance(task.table, Stack | Groups):
        fitted = replace(fitted, shape=task.table.shape)
    if not estimator._has_labels:
        return estimator._with_answers(fitted, result, task, pool)
    if task.is_on_disk:
        return replace(fitted, data=task.table)
    batch = task.table.whole()
    return replace(fitted, labels=estimator._decode(fitted, fitted.potentials(), batch, pool))


# ---------------------------------------------------------------------------------------- streams
