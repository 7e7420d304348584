"""The data and state that a move may use when it plans."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL, Fields, Summary

from .attempts import Attempts
from .posteriors import Outcome, Part, Posteriors
from .records import MoveRecord
from .rules import MeanLog

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .engine import Callback

__all__ = ["Sample", "Scene", "Spent"]

SAMPLE_ROWS = 20_000  # most rows in a sample: enough to see a component's parts
# Posteriors of units inferred at more different times are renewed by a pass over all data: a trial
# would read a table for each of those times.
MOST_LAYERS = 5
SAMPLE_SHARES = 1 << 23  # most numbers in the shares of those rows


@dataclass(frozen=True)
class Sample:
    """Some rows of the data with their posterior shares (n, K), repeats included.

    scale : data units for each sampled one
    """

    batch: Batch
    shares: Array
    scale: float

    def mass(self, slots: Sequence[int]) -> Array:
        """(n,) share of each row in some components."""
        return self.shares[:, list(slots)].sum(1)


@dataclass
class Spent:
    """What a trial has cost, and by how much it missed or passed the bound it had to beat.

    n_units : units that were inferred again
    n_passes : passes over all data that this amounts to
    """

    n_units: int = 0
    n_passes: float = 0.0
    gain: float = 0.0


@dataclass
class Scene:
    """What a move may use when it plans: the model at the beginning of a lap.

    settled : the last lap gained hardly anything
    has_settled : some lap of the fit has gained hardly anything
    in_stream : the data are rows that will be seen once; the total is that of earlier rows
    batches, warm : fixed batches of the fit, and the values that its units keep; for trials
    spent : what the present trial has cost
    focus : units that hold what a birth divides; None for all
    own : own counts of every unit, in the order of the data, if the fit is collapsed
    callbacks : told of each candidate before it is tried, or looked at on a sample
    looks : candidates that did not pay on a sample
    seconds : of a look at a sample, by kind and position, of candidates that paid there
    """

    model: Model
    total: Summary
    params: Fields
    ids: tuple[int, ...]
    data: Any
    attempts: Attempts
    rng: np.random.Generator
    lap: int
    settled: bool
    pool: Pool = SERIAL
    in_stream: bool = False
    next_id: int = 0
    batches: Sequence[Batch] = ()
    warm: Fields | None = None
    spent: Spent = field(default_factory=Spent)
    focus: Array | None = None
    own: Fields | None = None
    has_settled: bool = False
    callbacks: Sequence[Callback] = ()
    looks: list[MoveRecord] = field(default_factory=list)
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)

    @cached_property
    def bound(self) -> float:
        """The whole-data bound."""
        return float(self.model.bound(self.total, self.params))

    @cached_property
    def sizes(self) -> Array:
        """(K,) expected rows of each component."""
        return np.asarray(self.model.prior.sizes(self.total))

    @cached_property
    def posteriors(self) -> Posteriors:
        """Posteriors of all units, by one more pass over them when a trial first asks."""
        self.spent.n_passes += 1.0
        now = self.total, self.params, self.warm
        return Posteriors.at(self.model, self.data, self._batches, self.pool, *now)

    @cached_property
    def bound_to_beat(self) -> float:
        """The bound of those posteriors: a trial gets no credit for one more pass."""
        counts = self.posteriors.counts
        params = self.model.global_step(counts, self.params)
        return max(self.bound, float(self.model.bound(counts, params)))

    @cached_property
    def seen_first(self) -> dict[float, tuple[Part, float]]:
        """Units that trials of this scene look at first, by their share of all, and their bound."""
        return {}

    @property
    def _batches(self) -> Sequence[Batch]:
        return self.batches or self.data.batches(1)

    def none_kept(self) -> tuple[Posteriors, Part]:
        """No posteriors yet, and all units as the part that a trial touches."""
        empty = Posteriors(self.model, self.data, self._batches, self.pool, ())
        return empty, empty.everything()

    def spend(self, part: Part, times: float) -> None:
        """Count what it costs to infer a part some times."""
        share = sum(batch.n_rows for batch in part.batches) / self.data.n_rows
        self.spent.n_passes += times * share

    def by_size(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Positions, largest component first: little fits compare in this order."""
        return tuple(sorted(slots, key=lambda k: -self.sizes[k]))

    @cached_property
    def protected(self) -> frozenset[int]:
        """Positions that labels name, which no move may touch."""
        return self.model.named(self.params)

    @cached_property
    def sample(self) -> Sample:
        """Rows for planning, with their shares. Drawn once a lap, when a move first asks."""
        batch = self.data.sample(self.sample_size, self.rng)
        scale = self.data.n_observations / batch.n_observations
        return Sample(batch, self.shares_of(batch), scale)

    @property
    def sample_size(self) -> int:
        """Most rows whose shares are worth their memory."""
        return max(1000, min(SAMPLE_ROWS, SAMPLE_SHARES // len(self.ids)))

    def shares_of(self, batch: Batch) -> Array:
        """(n, K) posterior shares of some rows, repeats included."""
        potentials = self.model.potentials(
            self.total.restrict(batch.symbols), self.params, MeanLog()
        )
        shares = self.model.shares(potentials, batch, self.pool)
        return shares if batch.repeats is None else shares * batch.repeats[:, None]

    @cached_property
    def misfit(self) -> Array | None:
        """(K,) |z| of each component's sampled rows, see `BaseFamily.misfit`."""
        batch, followed = self.sample.batch, None
        if batch.symbols is not None:  # rows are numbered by a vocabulary of their own
            return None
        if self.model.structure.is_ordered and batch.offsets is not None:
            followed = np.delete(np.arange(batch.n_rows), batch.offsets[1:] - 1)
        return self.model.family.misfit(batch.rows, self.sample.shares, followed)

    def may_try(self, kind: str, slots: Sequence[int]) -> bool:
        """Whether the components at some positions are unprotected, and this candidate is due."""
        if self.protected.intersection(slots):
            return False
        ids = tuple(self.ids[k] for k in slots)
        return self.attempts.may_try(
            kind, ids, [float(self.sizes[k]) for k in slots], self.lap, self.settled
        )

    def give_up(
        self, kind: str, slots: Sequence[int], times: int = 1, *, hopeless: bool = False
    ) -> None:
        """Record that a candidate was not worth watching, as `times` failures."""
        ids, sizes = tuple(self.ids[k] for k in slots), [float(self.sizes[k]) for k in slots]
        for _ in range(times):
            self.attempts.fail(kind, ids, sizes, self.lap, hopeless=hopeless)

    def tell(self, kind: str, ids: tuple[int, ...]) -> float:
        """Say what is tried or looked at now; returns the time."""
        for callback in self.callbacks:
            callback.on_trial(kind, ids, len(self.ids))
        return time.monotonic()

    def look_at(self, kind: str, target: int) -> float:
        """Say that a component is looked at on a sample; returns the time."""
        return self.tell(kind, (self.ids[target],))

    def keep_look(
        self, kind: str, target: int, began: float, *, n_rows: int, gain: float, pays: bool
    ) -> None:
        """Record a look at a sample. One that pays is decided on all data, which is recorded."""
        seconds = time.monotonic() - began
        if pays:
            self.seconds[kind, target] = seconds
            return
        ids = (self.ids[target],)
        found = MoveRecord(
            self.lap + 1, kind, ids, (), gain, gain, False, n_rows, 0.0, seconds, True
        )
        self.looks.append(found)

    def after(self, outcome: Outcome) -> Scene:
        """The scene after a trial was accepted."""
        later = replace(self, total=outcome.counts, params=outcome.params, focus=None)
        later = replace(later, ids=outcome.ids, next_id=outcome.next_id)
        if len(outcome.posteriors.layers) <= MOST_LAYERS:
            later.posteriors = outcome.posteriors  # type: ignore[assignment]
            later.own = None if self.own is None else outcome.posteriors.warm()
            return later
        later.warm = outcome.posteriors.warm()
        counts = later.posteriors.counts
        params = self.model.global_step(counts, later.params)
        renewed = replace(later, total=counts, params=params)
        renewed.posteriors = later.posteriors
        return renewed

    def as_outcome(self) -> Outcome:
        """What the fit continues from if no further trial is accepted."""
        now = self.total, self.params, self.ids, self.next_id, self.bound
        return Outcome(*now, self.posteriors)
