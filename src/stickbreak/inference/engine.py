"""The one loop that fits every model: rule x accumulator. Stopping, trace, callbacks and
checkpoints are objects it calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import CheckpointError
from stickbreak.parameters import Parameters, require_whole
from stickbreak.protocols import Pool, Revisit, Watch
from stickbreak.stats import Fields, Summary, Tally

from .accumulate import Accumulator
from .checkpoints import Checkpointer, Snapshot
from .memory import Visit
from .proposals import Mover, Outcome
from .rules import BaseRule
from .sparsity import count_missed
from .state import Info, Start, State
from .stopping import Stopping
from .trace import LapRecord, Trace

UPDATES = 3  # of the globals that are not functions of the counts, in a lap of many batches

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Callback", "Data", "Engine", "Result", "run", "step"]


class Data(Protocol):
    """What an engine needs of the data."""

    @property
    def n_rows(self) -> int:
        """Rows, repeats not counted."""
        ...

    @property
    def n_spans(self) -> int:
        """Units, repeats not counted: what `take` draws from."""
        ...

    @property
    def n_units(self) -> float:
        """Units, repeats counted."""
        ...

    @property
    def n_observations(self) -> float:
        """Rows, repeats counted: what tolerances are given for."""
        ...

    @property
    def step_size(self) -> int:
        """Units of a step of stochastic inference when nobody says."""
        ...

    def whole(self) -> Batch:
        """Everything as one batch."""
        ...

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Fixed batches, by the data alone."""
        ...

    def take(self, indices: Any, id: int = 0) -> Batch:
        """Some rows (or units) as a batch."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Units for a start to look at, of about `size` rows at most."""
        ...

    def fingerprint(self) -> str:
        """A digest that tells these data from others."""
        ...


class Callback:
    """Called during a fit; override what you need. Raising StopIteration from `on_lap` ends the fit
    with what it has.
    """

    def on_step(self, info: Info) -> None:
        """After every visit."""

    def on_lap(self, record: LapRecord) -> None:
        """After every lap."""

    def on_end(self) -> None:
        """When the fit is over, also when it failed."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Engine(Parameters):
    """Settings that every engine has.

    max_iter : laps (passes over the data) at most
    tol : nats per unit; a lap that gains less ends the fit
    reorder : put components in the order the bound likes best at the end of each lap
    trace_visits : also record the bound after every visit (costs a bound each)
    checkpoint, checkpoint_every : file to save the fit's state to, and after how many seconds again
    callbacks : objects of class Callback
    """

    max_iter: int = 200
    tol: float = 1e-5
    reorder: bool = True
    trace_visits: bool = False
    checkpoint: Any = None
    checkpoint_every: float = 60.0
    callbacks: Sequence[Callback] = ()

    def check(self) -> None:
        """Raise ValueError for a setting that makes no sense."""
        require_whole(max_iter=self.max_iter)
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ValueError(f"tol must be zero or positive; got {self.tol!r}")

        if (
            isinstance(self.checkpoint_every, bool)
            or not isinstance(self.checkpoint_every, Real)
            or not self.checkpoint_every >= 0
        ):
            raise ValueError(
                f"checkpoint_every must be zero or more seconds; got {self.checkpoint_every!r}"
            )

        if not all(isinstance(callback, Callback) for callback in self.callbacks):
            raise ValueError(f"callbacks must be objects of class Callback; got {self.callbacks!r}")

    def adapt(self, model: Model) -> Model:
        """The model that the engine fits: here the one that is given."""
        return model

    def watches(self) -> list[Watch]:
        """What a fit collects besides what its moves ask for: here nothing."""
        return []

    def mover(self) -> Mover:
        """What changes the number of components: here nothing."""
        return Mover(())

    def rule(self) -> BaseRule:
        """Counts to potentials."""
        raise NotImplementedError

    def accumulator(self, data: Data) -> Accumulator:
        """How a visit changes the total."""
        raise NotImplementedError

    def stopping(self) -> Stopping:
        """When to stop."""
        raise NotImplementedError

    def plan(self, data: Data) -> Visits:
        """Which batches each lap visits, in which order."""
        raise NotImplementedError

    def final_bound(
        self, model: Model, data: Data, counts: Summary, params: Fields, trace: Trace, pool: Pool
    ) -> float:
        """The whole-data bound (or objective) of the result: here the last lap's."""
        bound = trace[-1].bound if len(trace) else None
        return math.nan if bound is None else bound


class Visits(Protocol):
    """The batches of each lap."""

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""
        ...

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """The batches of one lap, in the order of their visits."""
        ...

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Values of all units as those of each batch; nothing where batches are not fixed."""
        ...


def _no_warm() -> None:
    """Of structures whose units keep nothing."""
    return


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a fit found.

    model : with the hyperparameters that the fit learned
    warm : values of every unit, for a fit that goes on from this one
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
    is_interrupted: bool = False
    warm: Callable[[], Fields | None] = _no_warm


def step(
    model: Model,
    rule: BaseRule,
    accumulator: Accumulator,
    state: State,
    batch: Batch,
    watches: Sequence[Watch] = (),
    pool: Pool = map,
) -> Summary:
    """Visit one batch: infer locally, refresh the total, refresh the globals. Returns the batch's
    new counts.

    Globals that are functions of the counts are always fresh; others (an HDP's root) a few times a
    lap, and at its end: whenever that is, it does not lower the bound.
    """
    old = state.recall(batch)
    counts = state.counts.restrict(batch.symbols)
    new, warm = _visit(model, rule, state, batch, old, counts, watches, pool)
    accumulator.combine(state, batch, old, new, warm)
    if not accumulator.is_exact:
        state.seed = None  # a noisy total stands for all data from the first visit on
    state.n_steps += 1
    if state.seed is None and (state.position + 1) % -(-state.n_batches // UPDATES) == 0:
        state.params = rule.global_step(model, state.total.view(), state.params)
    return new


def _visit(
    model: Model,
    rule: BaseRule,
    state: State,
    batch: Batch,
    old: Visit | None,
    counts: Summary,
    watches: Sequence[Watch],
    pool: Pool,
) -> tuple[Summary, Fields | None]:
    """New counts of a batch, and new values of its units.

    Units with values of their own go on from these as the structure sees fit, until it says that
    the batch has settled.
    """

    def infer(warm: Fields | None) -> tuple[Summary, Fields | None]:
        return rule.visit(model, counts, state.params, batch, warm, watches, pool)

    kept = state.warm_of(batch, old)
    if kept is None or old is None or state.seed is not None or batch.id in state.settled:
        return infer(kept)
    seen = old.summary

    def improves(new: Summary) -> bool:
        before = rule.bound(model, state.total.view(), state.params)
        after = rule.bound(model, _exchanged(state, seen, new), state.params)
        return before is None or after is None or after > before

    new, warm, is_settled = model.structure.revisit(Revisit(infer, kept, improves))
    if is_settled:
        state.settled.add(batch.id)
    return new, warm


def _exchanged(state: State, old: Summary, new: Summary) -> Summary:
    """The total with a batch's old counts exchanged for new ones."""
    if state.n_batches == 1 and new.index is None:
        return new
    total = Tally.taking(state.total.snapshot())
    return total.subtract(old).add(replace(new, sides={})).summary()


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
        self.rule, self.accumulator = self.engine.rule(), self.engine.accumulator(self.data)
        self.mover = self.engine.mover()
        self.visits: list[tuple[float, ...]] = []
        self.began = time.monotonic() - (self.trace[-1].seconds if len(self.trace) else 0.0)

    def begin_lap(self, settled: bool) -> bool:
        """What this lap's moves will watch; False when the fit has settled and they have nothing
        left to try.
        """
        if self.state.position > 0:
            return True
        outcome, records = self.mover.try_out(
            self.model, self.state, self.data, self.seed, settled, self.pool
        )
        self.trace.moves += records
        if outcome is not None:
            self._adopt(outcome)
            return True
        self.mover.plan(self.model, self.state, self.data, self.seed, settled, self.pool)
        return not settled or bool(self.mover.proposals)

    def _adopt(self, outcome: Outcome) -> None:
        """Go on from the outcome of a trial: its counts stand in for the total until every batch
        has been seen.
        """
        state = self.state
        fresh = self.accumulator.begin(
            Start(outcome.counts, outcome.params), outcome.ids, state.n_batches
        )
        fresh.warm = self.plan.share_out(outcome.warm)
        kept = {"next_id": outcome.next_id, "lap": state.lap, "n_steps": state.n_steps}
        # in one go: Ctrl-C must not leave half of it
        state.__dict__.update({**fresh.__dict__, **kept})

    def visit(self, batch: Batch) -> Info:
        """One step, with what readers want to know of it."""
        state = self.state
        watches = [*self.mover.watches, *self.engine.watches()]
        rule = self.rule.at(self.seed, state.n_steps)
        new = step(self.model, rule, self.accumulator, state, batch, watches, self.pool)
        state.position += 1
        self.visits.append((new.log_z, batch.n_observations, *count_missed(new)))
        bound = self.bound() if self.engine.trace_visits else None
        if bound is not None:
            self.trace.visits.append(bound)
        return Info(
            state.lap + 1,
            state.n_steps,
            batch.id,
            bound,
            new.log_z,
            batch.n_observations,
            state.n_components,
        )

    def end_lap(self) -> LapRecord:
        """Fresh sums, upkeep, order, learned priors, bound."""
        state = self.state
        self.accumulator.end_lap(state)
        if self.mover.proposals:  # what moves gain must not be what fresh globals would
            state.params = self.rule.global_step(self.model, state.total.view(), state.params)
        self.trace.moves += self.mover.decide(self.model, state)
        state.log = state.log.trim(state.lap_version)  # every batch was visited since
        for edit in self.model.upkeep(state.total.view()):
            state.edit(edit)
        order = self.model.order(state.total.view()) if self.engine.reorder else None
        if order is not None:
            state.edit(order)
        state.params = self.rule.global_step(self.model, state.total.view(), state.params)
        self.model = self.rule.learn(self.model, state.total.view())
        log_z, units, checked, missed = np.array(self.visits).sum(0)
        state.lap, state.position, self.visits = state.lap + 1, 0, []
        state.lap_version = len(state.log)
        seconds = time.monotonic() - self.began
        disagreement = float(missed / checked) if checked else None
        n_used = self.rule.n_used(self.model, state.total.view())
        return LapRecord(
            state.lap,
            self.bound(),
            float(log_z / units),
            state.n_components,
            seconds,
            disagreement,
            n_used,
        )

    def bound(self) -> float | None:
        """The whole-data bound, where rule and accumulator have one."""
        if not self.accumulator.is_exact or self.state.seed is not None:
            return None
        return self.rule.bound(self.model, self.state.total.view(), self.state.params)


def run(
    model: Model,
    engine: Engine,
    data: Data,
    start: Start | Snapshot,
    *,
    seed: int = 0,
    pool: Pool = map,
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Laps over the data from a start (or a checkpoint's snapshot) until the stopping rule or
    max_iter.

    settings : what identifies this fit in its checkpoints (see checkpoints.py). Ctrl-C ends it with
        what it has.
    """
    engine.check()
    plan, given = engine.plan(data), model
    model = engine.adapt(model)
    if isinstance(start, Snapshot):
        state, trace = engine.accumulator(data).resume(start.state), start.trace
        counted = state.total.view()
        if (
            not any(model.axis in f.axes for f in counted.layout.values())
            or counted.size(model.axis) != state.n_components
        ):
            raise CheckpointError(
                f"the checkpoint names {state.n_components} components but "
                "counts others: it is damaged"
            )
        model = model.with_learned(start.learned)
    else:
        ids = start.ids or tuple(range(start.seed.size(model.axis)))
        state = engine.accumulator(data).begin(start, ids, plan.n_batches)
        trace = Trace()
        for edit in model.upkeep(state.counts):
            state.edit(edit)
    loop = _Loop(model, engine, data, state, trace, pool, seed, plan)
    if isinstance(start, Snapshot):
        loop.visits = list(start.visits)
        if start.saved_moves is not None:
            try:
                loop.mover.unpack(*start.saved_moves)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise CheckpointError(f"the checkpoint's moves are damaged: {error!r}") from None
    saver = Checkpointer.make(engine.checkpoint, engine.checkpoint_every, settings or {})
    interrupted = stopped = False
    converged = len(trace) > 0 and engine.stopping().is_converged(trace, data.n_observations)
    try:
        while not stopped and len(trace) < engine.max_iter:
            if not loop.begin_lap(converged):
                break
            converged, stopped = _run_lap(loop, plan, saver)
    except KeyboardInterrupt:
        interrupted = True
        state.recover(loop.model)
    finally:
        for callback in engine.callbacks:
            callback.on_end()
    counts = state.counts
    bound = (
        loop.bound()
        if interrupted
        else engine.final_bound(loop.model, data, counts, state.params, trace, pool)
    )
    return Result(
        model=loop.model if model is given else replace(loop.model, structure=given.structure),
        counts=replace(counts, sides={}),
        params=state.params,
        ids=state.ids,
        next_id=state.next_id,
        n_steps=state.n_steps,
        trace=trace,
        bound=math.nan if bound is None else bound,
        is_converged=converged,
        is_interrupted=interrupted,
        warm=state.all_warm if state.keeps_warm else _no_warm,
    )


def _run_lap(loop: _Loop, plan: Visits, saver: Checkpointer | None) -> tuple[bool, bool]:
    """One lap, from wherever a checkpoint left it. Returns whether the fit has converged, and
    whether a callback ended it.
    """
    state, engine = loop.state, loop.engine
    for batch in islice(plan.lap(loop.seed, state.lap), state.position, None):
        info = loop.visit(batch)
        for callback in engine.callbacks:
            callback.on_step(info)
        if saver is not None:
            saver.save_if_due(
                Snapshot(
                    state, loop.trace, tuple(loop.visits), loop.model.learned(), loop.mover.pack
                )
            )
    record = loop.end_lap()
    loop.trace.laps.append(record)
    if saver is not None:
        saver.save_if_due(Snapshot(state, loop.trace, (), loop.model.learned(), loop.mover.pack))
    try:
        for callback in engine.callbacks:
            callback.on_lap(record)
    except StopIteration:
        return False, True
    return engine.stopping().is_converged(loop.trace, loop.data.n_observations), False
