"""The data and state that a move may use when it plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Pool
from stickbreak.stats import Fields, Summary

from .attempts import Attempts
from .rules import MeanLog

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .proposals import Outcome

__all__ = ["Sample", "Scene"]

SAMPLE_ROWS = 20_000  # most rows in a sample: enough to see a component's parts
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
class Scene:
    """What a move may use when it plans: the model at the beginning of a lap.

    settled : the last lap gained hardly anything
    in_stream : the data are rows that will be seen once; the total is that of earlier rows
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
    pool: Pool = map
    in_stream: bool = False
    next_id: int = 0

    @cached_property
    def bound(self) -> float:
        """The whole-data bound."""
        return float(self.model.bound(self.total, self.params))

    @cached_property
    def sizes(self) -> Array:
        """(K,) expected rows of each component."""
        return np.asarray(self.model.prior.sizes(self.total))

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
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_SHARES // len(self.ids)))
        batch = self.data.sample(size, self.rng)
        potentials = self.model.potentials(
            self.total.restrict(batch.symbols), self.params, MeanLog()
        )
        shares = self.model.shares(potentials, batch, self.pool)
        if batch.repeats is not None:
            shares = shares * batch.repeats[:, None]
        return Sample(batch, shares, self.data.n_observations / batch.n_observations)

    def may_try(self, kind: str, slots: Sequence[int]) -> bool:
        """Whether the components at some positions are unprotected, and this candidate is due."""
        if self.protected.intersection(slots):
            return False
        ids = tuple(self.ids[k] for k in slots)
        return self.attempts.may_try(
            kind, ids, [float(self.sizes[k]) for k in slots], self.lap, self.settled
        )

    def give_up(self, kind: str, slots: Sequence[int], times: int = 1) -> None:
        """Record that a candidate was not worth watching, as `times` failures."""
        ids, sizes = tuple(self.ids[k] for k in slots), [float(self.sizes[k]) for k in slots]
        for _ in range(times):
            self.attempts.fail(kind, ids, sizes, self.lap)

    def after(self, outcome: Outcome) -> Scene:
        """The scene after a trial was accepted."""
        later = replace(self, total=outcome.counts, params=outcome.params)
        return replace(later, ids=outcome.ids, next_id=outcome.next_id)
