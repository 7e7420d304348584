"""Settings that every engine has, and what it makes of them.

An engine must say its `rule`, `accumulator`, `plan` and `stopping`; all else has a default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stickbreak.data import Batch
from stickbreak.parameters import Parameters, require_whole
from stickbreak.protocols import Pool, Watch
from stickbreak.stats import Fields, Summary

from .accumulate import Accumulator
from .mover import Mover
from .rules import BaseRule
from .sparsity import SparsityWatch
from .state import Info
from .stopping import Stopping
from .trace import LapRecord, Trace

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Callback", "Data", "Engine", "SparseEngine", "Visits"]


class Data(Protocol):
    """What an engine needs of the data."""

    @property
    def n_rows(self) -> int:
        """Rows, repeats not counted."""

    @property
    def n_spans(self) -> int:
        """Units, repeats not counted: what `take` draws from."""

    @property
    def n_units(self) -> float:
        """Units, repeats counted."""

    @property
    def n_observations(self) -> float:
        """Rows, repeats counted: what tolerances are given for."""

    @property
    def step_size(self) -> int:
        """Units of a step of stochastic inference when nobody says."""

    def whole(self) -> Batch:
        """Everything as one batch."""

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Fixed batches, by the data alone."""

    def take(self, indices: Any, id: int = 0) -> Batch:
        """Some rows (or units) as a batch."""

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Units for a start to look at, of about `size` rows at most."""

    def fingerprint(self) -> str:
        """A digest that tells these data from others."""


class Visits(Protocol):
    """The batches of each lap."""

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """The batches of one lap, in the order of their visits."""

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Values of all units as those of each batch; nothing where batches are not fixed."""


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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SparseEngine(Engine):
    """An engine whose rows may use a few components each, see `BatchVB`."""

    max_active: int | None = None
    candidates: int | None = None

    def check(self) -> None:
        """Also the limits."""
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
        """The model whose rows use max_active components each."""
        return model if self.max_active is None else model.sparse(self.max_active, self.candidates)

    def watches(self) -> list[Watch]:
        """How often a limit changes what rows use, where that is not plain."""
        return [] if self.max_active is None else [SparsityWatch()]
