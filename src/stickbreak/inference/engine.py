"""Settings that every engine has, and what it makes of them.

An engine must say its `rule`, `accumulator`, `plan` and `stopping`; all else has a default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from stickbreak.data import Batch, Steps
from stickbreak.parameters import Parameters, require_whole
from stickbreak.protocols import Pool, Watch
from stickbreak.stats import Fields, Summary, Tally

from .accumulate import Accumulator
from .averaged import AveragedDraws
from .mover import Mover
from .proposals import BaseMove
from .rules import BaseRule, MeanLog
from .sparsity import SparsityWatch
from .state import Info
from .stopping import MonitorStopping, Stopping
from .trace import LapRecord, Trace

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Callback", "Data", "Engine", "SparseEngine", "Visits", "bound_by_pass"]


class Data(Protocol):
    """What an engine needs of the data. unit_name : what its units are called in messages."""

    unit_name: ClassVar[str]

    @property
    def n_rows(self) -> int:
        """Rows, without repeats."""

    @property
    def n_spans(self) -> int:
        """Units, without repeats: what `take` draws from."""

    @property
    def n_units(self) -> float:
        """Units, with repeats."""

    @property
    def n_observations(self) -> float:
        """Rows, with repeats; tolerances are per observation."""

    @property
    def step_size(self) -> int:
        """Default number of units in a step of stochastic inference."""

    @property
    def steps(self) -> Steps:
        """Default steps of stochastic variational Bayes."""

    def whole(self) -> Batch:
        """All data as one batch."""

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Fixed batches, determined by the data alone."""

    def pick(self, indices: Any, id: int = 0) -> Batch:
        """As `take`, for units that are inferred lane by lane and may be most of them."""

    def take(self, indices: Any, id: int = 0) -> Batch:
        """Some rows (or units) as a batch."""

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """A sample of units for a start, of about `size` rows at most."""

    def some_of(self, units: Any, size: int, rng: np.random.Generator) -> Batch:
        """Random ones of some units, of about `size` rows at most."""

    def fingerprint(self) -> str:
        """A digest that tells these data from others."""


class Visits(Protocol):
    """The batches of each lap."""

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """The batches of one lap, in the order of their visits."""

    def fixed(self) -> Sequence[Batch]:
        """The batches, if they are the same in every lap; else none."""

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Cut the values of all units into those of each batch; empty if batches are not fixed."""


class Callback:
    """Called during a fit; override what you need.

    Raising StopIteration from `on_lap` ends the fit and keeps its present result.
    """

    def on_step(self, info: Info) -> None:
        """After every visit."""

    def on_tasks(self, n_done: int, n_tasks: int) -> None:
        """Now and then while a visit or a trial runs on the workers of others."""

    def on_trial(self, kind: str, ids: tuple[int, ...], n_components: int) -> None:
        """Before a move is tried on data that laps cannot track it on, or looked at on a sample.

        kind : "birth", "merge", "delete" or "loosen"; ids : components that it would change
        """

    def on_lap(self, record: LapRecord) -> None:
        """After every lap."""

    def on_end(self) -> None:
        """When the fit is over, even if it failed."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Engine(Parameters):
    """Settings that every engine has.

    max_iter : laps (passes over the data) at most
    tol : nats per unit; a lap that gains less ends the fit
    reorder : sort components by bound at the end of each lap
    trace_visits : also record the bound after every visit (costs a bound each)
    checkpoint, checkpoint_every : file to save the fit's state to, and seconds between saves
    callbacks : objects of class Callback

    revisits : whether batches are the same in every lap, so that what is found out about their rows
        is worth keeping; if not, a fit holds nothing for each row
    draws : whether laps draw labels
    """

    revisits: ClassVar[bool] = True
    draws: ClassVar[bool] = False

    max_iter: int = 200
    tol: float = 1e-5
    reorder: bool = True
    trace_visits: bool = False
    checkpoint: Any = None
    checkpoint_every: float = 60.0
    callbacks: Sequence[Callback] = ()

    def check(self) -> None:
        """Raise ValueError for an invalid setting."""
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

    def for_starts(self) -> Engine:
        """The engine that finds a start for this one by fitting a simpler model: itself."""
        return self

    def adapt(self, model: Model) -> Model:
        """The model that the engine fits: by default the given one."""
        return model

    def check_data(self, model: Model, data: Data) -> None:
        """Raise ValueError for data that the engine cannot fit this model to."""

    def watches(self) -> list[Watch]:
        """What a fit collects besides its moves' watches: by default nothing."""
        return []

    def with_moves(self, recommended: Sequence[BaseMove]) -> Engine:
        """The engine with the moves that a model recommends; itself if it has none or was told."""
        return self

    def mover(self) -> Mover:
        """The moves that change the number of components: by default none."""
        return Mover(())

    def rule(self) -> BaseRule:
        """How counts become potentials."""
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

    def rule_for(self, model: Model, data: Data) -> BaseRule:
        """The rule for one model and its data: by default the same, or its average of draws."""
        return AveragedDraws(model.n_drawn) if self._averages(model) else self.rule()

    def stopping_for(self, model: Model) -> Stopping:
        """When to stop for one model: by log_z, if averages of draws leave it without a bound."""
        return MonitorStopping(self.tol) if self._averages(model) else self.stopping()

    def _averages(self, model: Model) -> bool:
        """Whether drawn labelings stand for the expectation: the model says so, the engine can."""
        return model.n_drawn > 0 and type(self.rule()) is MeanLog

    def plan_for(self, model: Model, data: Data) -> Visits:
        """The same for one model: by default it is the same for all."""
        return self.plan(data)

    def final_bound(
        self, model: Model, data: Data, counts: Summary, params: Fields, trace: Trace, pool: Pool
    ) -> float:
        """The whole-data bound (or objective) of the result: by default the last lap's."""
        if self._averages(model):
            return bound_by_pass(model, data, counts, params, pool)
        bound = trace[-1].bound if len(trace) else None
        return math.nan if bound is None else bound


def bound_by_pass(model: Model, data: Data, counts: Summary, params: Fields, pool: Pool) -> float:
    """The exact bound of globals that are not optimal, by one pass over the data."""
    rule = MeanLog()
    potentials = model.potentials(counts, params, rule)
    found = Tally(counts.empty())
    for batch in data.batches("auto"):
        restricted = model.potentials(counts.restrict(batch.symbols), params, rule)
        found.add(model.local_step(restricted, batch, None, (), pool)[0])
    return float(model.bound_at(counts, params, potentials, found.summary()))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SparseEngine(Engine):
    """An engine whose rows may be limited to a few components each, see `BatchVB`."""

    max_active: int | None = None
    candidates: int | None = None

    def check(self) -> None:
        """Check the limits too."""
        super().check()
        if self.max_active is not None:
            require_whole(max_active=self.max_active)
        if self.candidates is None:
            return
        require_whole(candidates=self.candidates)
        if self.max_active is None or self.candidates < self.max_active:
            raise ValueError(
                "candidates are what max_active components are chosen among; got "
                f"candidates={self.candidates} with "
                f"max_active={self.max_active}: use max_active=4, candidates=16, for example"
            )

    def adapt(self, model: Model) -> Model:
        """The model, limited to max_active components per row."""
        return model if self.max_active is None else model.sparse(self.max_active, self.candidates)

    def watches(self) -> list[Watch]:
        """A check of how often the limit changes what rows use, if there is one."""
        return [] if self.max_active is None else [SparsityWatch()]
