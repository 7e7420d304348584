"""Run an engine: a fit from several starts, one that resumes, one that is streamed.

Each returns a `Fitted`. It reads the estimator's arguments and does not change the estimator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Table, is_on_disk
from stickbreak.errors import CheckpointError, NumericalError
from stickbreak.inference import (
    Accumulator,
    Draw,
    DrawOwn,
    Engine,
    MeanLog,
    Mover,
    MoveRecord,
    Outcome,
    PowerDecay,
    Result,
    Scene,
    Snapshot,
    Start,
    State,
    Stochastic,
    StochasticVB,
    Streaming,
    Trace,
    read_checkpoint,
    require_place,
    require_same_fit,
    run,
    step,
    workers,
)
from stickbreak.initialize import from_previous
from stickbreak.models import Model
from stickbreak.moves import idle_components, join_stream
from stickbreak.progress import Phase, Progress
from stickbreak.protocols import Pool
from stickbreak.reading import Schema, Stack
from stickbreak.stats import Array, Tally

from .engine_choice import TRUNCATION, pick_engine
from .fitted import Fitted
from .model_files import identify_fit

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["Task", "fit_from_starts", "make_seed", "resume_fit", "stream"]


@dataclass(frozen=True)
class Task:
    """Data to fit a model to.

    table, schema : checked rows, and their columns
    n_components : how many components to begin with, where there is no previous fit
    legal : (S, K) which components each set of rows may have; None for all
    previous : the fit to continue from; None to begin
    """

    table: Table
    schema: Schema
    n_components: int
    legal: Array | None = None
    previous: Fitted | None = None

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


def fit_from_starts(estimator: Estimator, task: Task) -> tuple[Fitted, bool]:
    """The best of `n_init` starts, and whether Ctrl-C ended the search."""
    engine = estimator._engine(task.is_on_disk)
    if task.previous is not None and engine.checkpoint is not None:
        raise ValueError(
            "checkpoint= cannot save a warm start, which needs the model it "
            "continues; use warm_start=False"
        )
    seed, has_file = make_seed(estimator.random_state), engine.checkpoint is not None
    settings = identify_fit(estimator, task, engine, seed) if has_file else None
    if settings is not None:
        require_place(engine.checkpoint, settings)  # before the work that a start is
    best: Result | None = None
    n_starts = 1 if task.previous is not None else int(estimator.n_init)
    with workers(estimator.n_jobs) as pool:
        model = estimator._model_of(task, engine)
        for i in range(n_starts):
            try:
                rng = np.random.default_rng([seed, i])
                start = _start(estimator, model, _vary(estimator, task, i), rng, pool)
            except KeyboardInterrupt:
                if best is None:
                    raise
                return _finish(estimator, best, engine, task, pool), True
            watched = _with_progress(estimator, engine, task.table, i, n_starts)
            found = run(
                model, watched, task.table, start, seed=seed + i, pool=pool, settings=settings
            )
            if best is None or found.bound > best.bound:
                best = found
            if found.is_interrupted or found.is_out_of_room:
                break
        assert best is not None
        return _finish(estimator, best, engine, task, pool), found.is_interrupted


def resume_fit(
    estimator: Estimator, task: Task, saved: tuple[dict[str, Any], Snapshot] | None
) -> tuple[Fitted, bool]:
    """Continue from the engine's checkpoint; see `fit_from_starts`.

    saved : what is in it, if it has been read already
    """
    engine = estimator._engine(task.is_on_disk)
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
        return _finish(estimator, result, engine, task, pool), result.is_interrupted


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


def _finish(estimator: Estimator, result: Result, engine: Engine, task: Task, pool: Pool) -> Fitted:
    """The fitted model with labels of the training rows; for rows on disk, without.

    Those are computed when asked for.
    """
    fitted = Fitted.from_result(result, engine, task.schema)
    if isinstance(task.table, Stack):
        fitted = replace(fitted, shape=task.table.shape)
    if not estimator._has_labels:
        return estimator._with_answers(fitted, result, task, pool)
    if task.is_on_disk:
        return replace(fitted, data=task.table)
    batch = task.table.whole()
    return replace(fitted, labels=estimator._decode(fitted, fitted.potentials(), batch, pool))


# ---------------------------------------------------------------------------------------- streams


def stream(estimator: Estimator, task: Task, total_samples: float | None) -> Fitted:
    """Update the model with more rows.

    With total_samples (units of the whole data), takes a stochastic step instead.
    """
    if total_samples is not None and not total_samples > 0:
        raise ValueError(f"total_samples must be positive; got {total_samples!r}")
    engine = pick_engine(estimator, True)
    accumulator = _make_accumulator(engine, task.table, total_samples)
    with workers(estimator.n_jobs) as pool:
        model = estimator._model_of(task, engine)
        _require_one_visit(engine, model, task.table)
        parts, seen = task.table.parts() if task.is_on_disk else [task.table], task.previous
        legal = task.legal
        if seen is None and total_samples is None and engine.mover().moves:
            begun = _begin_stream(estimator, model, engine, replace(task, table=parts[0]), pool)
            if len(parts) == 1:
                return _without_sets(_finish(estimator, begun, engine, task, pool))
            legal = begun.params.arrays.get("legal")  # of the components that moves have left
            seen, model = Fitted.from_result(begun, engine, task.schema), begun.model
            parts = parts[1:]
        if seen is None:
            rng = np.random.default_rng(make_seed(estimator.random_state))
            start = estimator._seed(model, task, rng, pool)
            state = accumulator.begin(start, tuple(range(start.seed.size(model.axis))), 1)
        else:
            state = _state_of(seen, model, legal)
        moves = _take_steps(estimator, model, engine, accumulator, state, task, parts, pool)
        before = () if seen is None else seen.trace.moves
        result = _result_of(state, model, engine, accumulator, [*before, *moves])
        return _without_sets(_finish(estimator, result, engine, task, pool))


def _without_sets(fitted: Fitted) -> Fitted:
    """The fit without legal sets, which belong to the rows of one call."""
    return replace(fitted, params=fitted.model.with_legal(fitted.params, None))


def _require_one_visit(engine: Engine, model: Model, table: Table) -> None:
    """Raise ValueError for an engine whose units continue from what they keep."""
    rule = engine.rule()
    keeps_labels = isinstance(rule, Draw) and rule.keeps(model, table.whole(), 1) is not None
    keeps_draws = isinstance(rule, DrawOwn) or model.structure.n_sweeps > 1
    if (rule.continues and keeps_draws) or keeps_labels:
        raise ValueError(
            f"{type(engine).__name__} visits units again and again, and a stream sees them once; "
            "use MemoizedVB, or StochasticVB with total_samples"
        )


def _make_accumulator(engine: Engine, table: Table, total_samples: float | None) -> Accumulator:
    if total_samples is None:
        return Streaming()
    schedule = engine.schedule if isinstance(engine, StochasticVB) else PowerDecay()
    total = float(total_samples)
    return Stochastic(total, total * table.n_units / table.n_spans, schedule)


def _begin_stream(
    estimator: Estimator, model: Model, engine: Engine, task: Task, pool: Pool
) -> Result:
    """Fit the first rows of a stream like rows in memory."""
    seed = make_seed(estimator.random_state)
    start = estimator._seed(model, task, np.random.default_rng(seed), pool)
    quiet = replace(engine, checkpoint=None)
    return run(model, quiet, task.table, start, seed=seed, pool=pool)


def _state_of(seen: Fitted, model: Model, legal: Array | None) -> State:
    """The state in which the previous call ended."""
    return State(
        Tally(seen.counts),
        model.with_legal(seen.params, legal),
        None,
        seen.ids,
        1,
        next_id=seen.next_id,
        lap=seen.n_steps,
        n_steps=seen.n_steps,
    )


def _take_steps(
    estimator: Estimator,
    model: Model,
    engine: Engine,
    accumulator: Accumulator,
    state: State,
    task: Task,
    parts: list[Table],
    pool: Pool,
) -> list[MoveRecord]:
    """Visit each part once. Changes the state, and returns the moves that were tried."""
    mover, moves = engine.mover() if accumulator.is_exact else Mover(()), []
    seed, limited = make_seed(estimator.random_state), engine.adapt(model)
    n_seen, n_rows = 0, sum(part.n_rows for part in parts)
    with Phase("learning", bool(estimator.verbose)) as phase:
        for part in parts:
            at = limited, state, part, seed + state.n_steps
            born = None
            if task.legal is None and _has_stream_births(estimator, limited, engine, accumulator):
                scene = mover.scene_of_stream(*at, pool)
                born = _born_in_stream(estimator, model, engine, task, scene)
            if born is not None:
                moves += _adopt(state, *born)
            else:
                mover.plan(*at, True, pool, in_stream=True)
                rule = engine.rule_for(limited, part)
                step(limited, rule, accumulator, state, part.whole(), mover.watches, pool)
                moves += mover.decide(model, state)
                for edit in model.upkeep(state.total.view()):
                    state.edit(edit)
            n_seen += part.n_rows
            phase.update(n_seen, n_rows)
    return moves


def _has_stream_births(
    estimator: Estimator, model: Model, engine: Engine, accumulator: Accumulator
) -> bool:
    """Whether parts of a stream may bring components that a lap cannot track.

    A model of a fixed number of components has them for those that are idle.
    """
    structure, kinds = model.structure, {move.kind for move in engine.mover().moves}
    return (
        accumulator.is_exact
        and isinstance(engine.rule(), MeanLog)
        and "redistribute" not in structure.tracks
        and structure.least_held is not None
        and ("birth" in kinds or not estimator._is_unbounded)
    )


def _born_in_stream(
    estimator: Estimator, model: Model, engine: Engine, task: Task, scene: Scene
) -> tuple[Outcome, MoveRecord | None] | None:
    """All rows seen, with births if they pay; None if there is no room for them."""
    idle = None if estimator._is_unbounded else idle_components(scene)
    if idle is not None and not len(idle):
        return None
    n_first = int(estimator.n_components)
    own = replace(task, table=scene.data, previous=None, n_components=n_first)
    alone = _begin_stream(estimator, model, engine, own, scene.pool)
    return join_stream(scene, alone.counts, idle)


def _adopt(state: State, found: Outcome, record: MoveRecord | None) -> list[MoveRecord]:
    """Continue from what births in a stream ended with."""
    state.total, state.params, state.ids = Tally(found.counts), found.params, found.ids
    state.next_id, state.n_steps = found.next_id, state.n_steps + 1
    return [] if record is None else [record]


def _result_of(
    state: State,
    model: Model,
    engine: Engine,
    accumulator: Accumulator,
    moves: list[MoveRecord],
) -> Result:
    """The total so far; without a bound if the total is noisy."""
    counts, params, rule = state.total.summary(), state.params, engine.rule()
    model = rule.learn(model, counts)
    bound = rule.bound(model, counts, params) if accumulator.is_exact else None
    return Result(
        model=model,
        counts=counts,
        params=params,
        ids=state.ids,
        next_id=state.next_id,
        n_steps=state.n_steps,
        trace=Trace(moves=moves),
        bound=np.nan if bound is None else bound,
        is_converged=False,
    )
