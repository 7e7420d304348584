"""The one loop that fits every model: rule x accumulator.

Stopping, trace, callbacks, moves and checkpoints are objects that it calls.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import (
    DAMAGE,
    CheckpointError,
    NoRoomError,
    StickbreakWarning,
    WorkersLostError,
    in_one_line,
)
from stickbreak.protocols import Pool, Revisit, Watch
from stickbreak.stats import SERIAL, Fields, Summary, Tally

from .accumulate import Accumulator
from .checked_snapshots import check_sides, check_snapshot
from .checkpoints import Checkpointer, Snapshot
from .engine import Data, Engine, Visits
from .proposals import Outcome
from .rules import BaseRule
from .sparsity import count_missed
from .state import Info, Start, State
from .trace import LapRecord, Trace

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Result", "run", "step"]

UPDATES = 3  # of globals that are not functions of the counts, in a lap of many batches


def _no_warm() -> None:
    """None, for structures whose units keep nothing."""
    return


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a fit found.

    model : with the hyperparameters that the fit learned
    ended_by : Ctrl-C, or the loss of all workers, if that ended it early
    is_out_of_room : ended early for want of disk and memory
    warm : values of every unit, for a fit that continues from this one
    """

    model: Model
    counts: Summary
    params: Fields
    ids: tuple[int, ...]
    next_id: int
    n_steps: int
    trace: Trace
    bound: float
    is_converged: bool
    ended_by: BaseException | None = None
    is_out_of_room: bool = False
    warm: Callable[[], Fields | None] = _no_warm

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C or lost workers ended it."""
        return self.ended_by is not None


def step(
    model: Model,
    rule: BaseRule,
    accumulator: Accumulator,
    state: State,
    batch: Batch,
    watches: Sequence[Watch] = (),
    pool: Pool = SERIAL,
) -> Summary:
    """Visit one batch: infer locally, update the total, update the globals.

    Returns the batch's new counts. The structure decides how units with values of their own
    continue from these (`revisit`), until it reports that the batch has settled. Globals that are
    functions of the counts are always up to date. Others (an HDP's root) are updated a few times a
    lap and at its end, which never lowers the bound.
    """
    old, counts = state.recall(batch), state.counts.restrict(batch.symbols)
    kept = state.warm_of(batch, old)
    if state.seed is None and old is not None:
        counts = rule.others(model, counts, old.summary)
    is_settled = rule.continues or state.seed is not None or batch.id in state.settled
    if old is None or kept is None or is_settled:
        new, warm = rule.visit(model, counts, state.params, batch, kept, watches, pool)
    else:

        def infer(warm: Fields | None) -> tuple[Summary, Fields | None]:
            return rule.visit(model, counts, state.params, batch, warm, watches, pool)

        improves = partial(_improves, model, rule, state, old.summary)
        new, warm, is_settled = model.structure.revisit(Revisit(infer, kept, improves))
        state.settled |= {batch.id} if is_settled else set()
    state.moved, state.accepted = rule.moved(model, kept, warm), rule.accepted(warm)
    accumulator.combine(state, batch, old, new, warm)
    if not accumulator.is_exact:
        state.seed = None  # a noisy total stands for all data from the first visit on
    state.n_steps += 1
    if state.seed is None and (state.position + 1) % -(-state.n_batches // UPDATES) == 0:
        state.params = rule.global_step(model, state.total.view(), state.params)
    return new


def _improves(model: Model, rule: BaseRule, state: State, old: Summary, new: Summary) -> bool:
    """Whether exchanging a batch's old counts for new ones raises the whole-data bound."""
    changed = new
    if state.n_batches > 1 or new.index is not None:
        total = Tally.taking(state.total.snapshot())
        changed = total.subtract(old).add(replace(new, sides={})).summary()
    before = rule.bound(model, state.total.view(), state.params)
    after = rule.bound(model, changed, state.params)
    return before is None or after is None or after > before


@dataclass
class _Loop:
    """One fit in progress."""

    model: Model
    engine: Engine
    data: Data
    state: State
    trace: Trace
    pool: Pool
    seed: int
    plan: Visits

    def __post_init__(self) -> None:
        self.rule = self.engine.rule_for(self.model, self.data)
        self.accumulator = self.engine.accumulator(self.data)
        self.mover = self.engine.mover()
        self.visits: list[tuple[float, ...]] = []
        if self.engine.callbacks:
            self.pool = self.pool.telling(self._tell)
        self.began = time.monotonic() - (self.trace[-1].seconds if len(self.trace) else 0.0)

    def _tell(self, n_done: int, n_tasks: int) -> None:
        for callback in self.engine.callbacks:
            callback.on_tasks(n_done, n_tasks)

    def take_up(self, saved: Snapshot) -> None:
        """Continue the lap in which a checkpoint was written."""
        self.visits = list(saved.visits)
        if saved.saved_moves is not None:
            self.mover.unpack(*saved.saved_moves, self.model, self.state)
        watches = [*self.mover.watches, *self.engine.watches()]
        check_sides(self.model, self.rule, self.state, watches)

    def snapshot(self) -> Snapshot:
        """The contents of a checkpoint."""
        visits = tuple(self.visits)
        return Snapshot(self.state, self.trace, visits, self.model.learned(), self.mover.pack)

    def begin_lap(self, settled: bool) -> bool:
        """Plan this lap's moves. False if the fit has settled and no move is left to try."""
        if self.state.position > 0:
            return True
        with self._timing():
            return self._propose(settled)

    @contextmanager
    def _timing(self) -> Iterator[None]:
        """Count the time within as that of moves."""
        began = time.monotonic()
        yield
        self.trace.seconds_of_moves += time.monotonic() - began

    def _propose(self, settled: bool) -> bool:
        of_fit = self.model, self.state, self.data, self.seed, settled, self.pool
        callbacks = self.engine.callbacks
        if self.mover.tries_last:
            self.trace.moves += self.mover.plan(*of_fit, callbacks=callbacks)
            if self.mover.proposals:
                return True
        outcome, records = self.mover.try_out(*of_fit, self.plan.fixed(), callbacks)
        self.trace.moves += records
        if outcome is not None:
            self._adopt(outcome)
            return True
        if not self.mover.tries_last:
            self.trace.moves += self.mover.plan(*of_fit, callbacks=callbacks)
        return not settled or bool(self.mover.proposals)

    def _adopt(self, outcome: Outcome) -> None:
        """Continue from a trial's outcome.

        Its counts stand in for the total until every batch has been seen.
        """
        state = self.state
        fresh = self.accumulator.begin(
            Start(outcome.counts, outcome.params), outcome.ids, state.n_batches
        )
        fresh.warm = self.plan.share_out(outcome.posteriors.warm())
        kept = {"next_id": outcome.next_id, "lap": state.lap, "n_steps": state.n_steps}
        # in one go: Ctrl-C must not leave half of it
        state.__dict__.update({**fresh.__dict__, **kept})

    def visit(self, batch: Batch, saver: Checkpointer | None) -> None:
        """One step, with trace, callbacks and checkpoint."""
        state = self.state
        watches = [*self.mover.watches, *self.engine.watches()]
        rule = self.rule.at(self.seed, state.n_steps)
        new = step(self.model, rule, self.accumulator, state, batch, watches, self.pool)
        state.position += 1
        moved = -1.0 if state.moved is None else state.moved
        found = *count_missed(new), moved, *state.accepted
        self.visits.append((new.log_z, batch.n_observations, *found))
        bound = self.bound() if self.engine.trace_visits else None
        if bound is not None:
            self.trace.visits.append(bound)
        seen = bound, new.log_z, batch.n_observations, state.n_components
        info = Info(state.lap + 1, state.n_steps, batch.id, *seen)
        for callback in self.engine.callbacks:
            callback.on_step(info)
        if saver is not None:
            saver.save_if_due(self.snapshot())

    def end_lap(self, saver: Checkpointer | None) -> tuple[bool, bool]:
        """Record the lap. Returns whether the fit converged, and whether a callback ended it."""
        record = self._settle()
        self.trace.laps.append(record)
        if saver is not None:
            saver.save_if_due(self.snapshot())
        try:
            for callback in self.engine.callbacks:
                callback.on_lap(record)
        except StopIteration:
            return False, True
        stopping = self.engine.stopping_for(self.model)
        return stopping.is_converged(self.trace, self.data.n_observations), False

    def _settle(self) -> LapRecord:
        """End of a lap: fresh sums, moves, upkeep, order, learned priors, bound."""
        state = self.state
        self.accumulator.end_lap(state)
        if self.mover.proposals:  # so that moves get no credit for what updated globals gain
            state.params = self.rule.global_step(self.model, state.total.view(), state.params)
        with self._timing():
            self.trace.moves += self.mover.decide(self.model, state)
        state.log = state.log.trim(state.lap_version)  # every batch was visited since
        for edit in self.model.upkeep(state.total.view()):
            state.edit(edit)
        order = self.model.order(state.total.view()) if self.engine.reorder else None
        if order is not None:
            state.edit(order)
        state.params = self.rule.global_step(self.model, state.total.view(), state.params)
        self.model = self.rule.learn(self.model, state.total.view())
        log_z, units, checked, missed, moved, proposed, taken = np.array(self.visits).sum(0)
        state.lap, state.position, self.visits = state.lap + 1, 0, []
        state.lap_version = len(state.log)
        seconds = time.monotonic() - self.began
        disagreement = float(missed / checked) if checked else None
        n_used = self.rule.n_used(self.model, state.total.view())
        found = self.bound(), float(log_z / units), state.n_components
        change = float(moved / self.data.n_rows) if moved >= 0 else None
        acceptance = float(taken / proposed) if proposed else None
        return LapRecord(state.lap, *found, seconds, disagreement, n_used, change, acceptance)

    def bound(self) -> float | None:
        """The whole-data bound; None if rule or accumulator has none."""
        if not self.accumulator.is_exact or self.state.seed is not None:
            return None
        return self.rule.bound(self.model, self.state.total.view(), self.state.params)

    def bound_so_far(self) -> float | None:
        """The bound, or the last lap's while an accepted trial stands in for the total."""
        bound = self.bound()
        return self.trace[-1].bound if bound is None and len(self.trace) else bound


def run(
    model: Model,
    engine: Engine,
    data: Data,
    start: Start | Snapshot,
    *,
    seed: int = 0,
    pool: Pool = SERIAL,
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Laps over the data from a start, or a checkpoint, until the stopping rule or max_iter.

    settings : what identifies this fit in its checkpoints (see checkpoints.py)

    Ctrl-C ends the fit and keeps its present result; so do lost workers, and a want of room, with a
    warning.
    """
    engine.check()
    loop = _begin(engine.adapt(model), engine, data, start, seed, pool)
    state, trace = loop.state, loop.trace
    saver = Checkpointer.make(engine.checkpoint, engine.checkpoint_every, settings or {})
    out_of_room = stopped = False
    ended_by: BaseException | None = None
    stopping = engine.stopping_for(loop.model)
    converged = len(trace) > 0 and stopping.is_converged(trace, data.n_observations)
    try:
        while not stopped and len(trace) < engine.max_iter and loop.begin_lap(converged):
            for batch in islice(loop.plan.lap(seed, state.lap), state.position, None):
                loop.visit(batch, saver)
            converged, stopped = loop.end_lap(saver)
    except (KeyboardInterrupt, WorkersLostError) as error:
        ended_by = error
        state.recover(loop.model)
    except NoRoomError as error:
        if not len(trace):  # nothing is learned before the end of the first lap
            raise
        out_of_room, converged = True, False
        state.recover(loop.model)
        _warn_out_of_room(state.lap, error)
    finally:
        for callback in engine.callbacks:
            callback.on_end()
    trace.seconds_of_fit = time.monotonic() - loop.began
    trace.processors = tuple(sorted({*trace.processors, *pool.processors}))
    counts = state.counts
    if ended_by is not None or out_of_room:
        bound = loop.bound_so_far()
    else:
        bound = engine.final_bound(loop.model, data, counts, state.params, trace, pool)
    return Result(
        model=replace(loop.model, structure=model.structure),  # readers use all components
        counts=replace(counts, sides={}),
        params=state.params,
        ids=state.ids,
        next_id=state.next_id,
        n_steps=state.n_steps,
        trace=trace,
        bound=math.nan if bound is None else bound,
        is_converged=converged,
        ended_by=ended_by,
        is_out_of_room=out_of_room,
        warm=state.all_warm if state.keeps_warm else _no_warm,
    )


def _warn_out_of_room(lap: int, error: NoRoomError) -> None:
    warnings.warn(
        f"the fit ended after lap {lap}, with what it has found: {error}",
        StickbreakWarning,
        stacklevel=3,
    )


def _begin(
    model: Model, engine: Engine, data: Data, start: Start | Snapshot, seed: int, pool: Pool
) -> _Loop:
    """The loop before its first visit, or where a checkpoint left it."""
    engine.check_data(model, data)
    plan = engine.plan_for(model, data)
    if isinstance(start, Snapshot):
        accumulator = engine.accumulator(data)
        with _named(start.path):
            state = accumulator.resume(start.state)
            model = model.with_learned(start.learned)
            check_snapshot(model, engine.rule_for(model, data), accumulator, plan, start)
            loop = _Loop(model, engine, data, state, start.trace, pool, seed, plan)
            loop.take_up(start)
            loop.rule.potentials(model, state.counts, state.params)  # raises if there are none
        return loop
    start = replace(start, seed=model.adopt(start.seed))
    start = engine.rule().begin(model, data, start, pool)
    ids = start.ids or tuple(range(start.seed.size(model.axis)))
    state = engine.accumulator(data).begin(start, ids, plan.n_batches)
    state.warm = plan.share_out(start.warm)
    state.settled = set(state.warm)  # such units go on from their values
    for edit in model.upkeep(state.counts):
        state.edit(edit)
    return _Loop(model, engine, data, state, Trace(), pool, seed, plan)


@contextmanager
def _named(path: Path | None) -> Iterator[None]:
    """Errors within become a CheckpointError that names the file."""
    try:
        yield
    except DAMAGE as error:
        raise CheckpointError(f"{path} is damaged: {in_one_line(error)}") from None
