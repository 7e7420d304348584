"""Fits of streams: each call of `partial_fit` sees its rows once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Table
from stickbreak.inference import (
    Accumulator,
    Draw,
    DrawOwn,
    Engine,
    Mover,
    MoveRecord,
    Outcome,
    PowerDecay,
    Result,
    Scene,
    State,
    Stochastic,
    StochasticVB,
    Streaming,
    Trace,
    run,
    step,
    workers,
)
from stickbreak.models import Model
from stickbreak.moves import are_explained, idle_components, join_stream
from stickbreak.progress import Phase
from stickbreak.protocols import Pool
from stickbreak.stats import Array, Tally

from .engine_choice import pick_engine
from .engine_runs import Task, finish, make_seed
from .fitted import Fitted

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["stream"]


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
        sweeps_again = engine.rule().continues and model.structure.n_sweeps > 1
        is_lasting = bool(engine.mover().moves) or sweeps_again
        if seen is None and total_samples is None and is_lasting:
            begun = _begin_stream(estimator, model, engine, replace(task, table=parts[0]), pool)
            if len(parts) == 1:
                return _without_sets(finish(estimator, begun, engine, task, pool))
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
        return _without_sets(finish(estimator, result, engine, task, pool))


def _without_sets(fitted: Fitted) -> Fitted:
    """The fit without legal sets, which belong to the rows of one call."""
    return replace(fitted, params=fitted.model.with_legal(fitted.params, None))


def _require_one_visit(engine: Engine, model: Model, table: Table) -> None:
    """Raise ValueError for an engine whose units continue from what they keep."""
    rule = engine.rule()
    keeps_labels = isinstance(rule, Draw) and rule.keeps(model, table.whole(), 1) is not None
    if isinstance(rule, DrawOwn) or keeps_labels:
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
                rule = engine.rule_for(limited, part).seen_once(limited)
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
        and engine.rule().is_variational
        and "redistribute" not in structure.tracks
        and structure.least_held is not None
        and ("birth" in kinds or not estimator._is_unbounded)
    )


def _born_in_stream(
    estimator: Estimator, model: Model, engine: Engine, task: Task, scene: Scene
) -> tuple[Outcome, MoveRecord | None] | None:
    """All rows seen, with births if they pay; None if there is no room for them.

    A fit of the new rows alone is made only if the known components do not explain them.
    """
    if estimator._is_unbounded and are_explained(scene):
        return join_stream(scene, None)
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
