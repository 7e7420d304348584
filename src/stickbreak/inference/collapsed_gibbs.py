"""Collapsed Gibbs sampling: sweeps that draw a label where variational ones take expectations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Pool, Sweep
from stickbreak.stats import Fields, Summary

from .collapsed import ExcludeOwn
from .random_streams import DRAWS
from .rules import BaseRule

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .engine import Data
    from .state import Start

__all__ = ["DrawOwn"]


@dataclass(frozen=True, eq=False)
class DrawOwn(ExcludeOwn):
    """A label drawn from the posterior predictive given the labels of all others: Gibbs sampling.

    temperatures : of the first and of the last lap, in geometric steps between
    n_laps : of the schedule; later ones have the last temperature
    rng, power : of one visit, see `at`; without random numbers (readers), predictives
    """

    temperatures: tuple[float, float] = (1.0, 1.0)
    n_laps: int = 1
    rng: np.random.Generator | None = None
    power: float = 1.0

    monitor = ""  # of draws: no fit ends by it

    @property
    def objective(self) -> str:
        """Log joint of data and labels, parameters integrated out."""
        return "log joint"

    def at(self, seed: int, step: int) -> DrawOwn:
        """The rule with the random numbers and the temperature of one visit, one a lap."""
        first, last = self.temperatures
        done = min(1.0, step / (self.n_laps - 1)) if self.n_laps > 1 else 1.0
        rng = np.random.default_rng([seed, DRAWS, step])
        return replace(self, rng=rng, power=1.0 / (first ** (1.0 - done) * last**done))

    def keeps(self, model: Model, batch: Batch, n_components: int) -> Fields | None:
        """The labels of every unit."""
        return model.structure.own_labels(batch, n_components, model.axis)

    def begin(self, model: Model, data: Data, start: Start, pool: Pool) -> Start:
        """The start, without values of units that are not labels and cannot become such."""
        return BaseRule.begin(self, model, data, start, pool)

    def _how(self, model: Model, batch: Batch, is_part: bool) -> Sweep:
        assert self.rng is not None
        seeds = self.rng.integers(0, 1 << 64, batch.n_rows, dtype=np.uint64)
        drawn = model.structure.drawn_granularity
        return Sweep(drawn, is_part, seeds=seeds, power=self.power)

    def global_step(self, model: Model, total: Summary, params: Fields) -> Fields:
        """Draw the parameters, once a visit. Unchanged at the end of a lap."""
        return params if self.rng is None else model.redraw(total, params, self.rng)

    def accepted(self, warm: Fields | None) -> tuple[float, float]:
        """Units for which the last visit proposed something, and that took it."""
        if warm is None or "accepted" not in warm:
            return super().accepted(warm)
        return float((warm["accepted"] >= 0).sum()), float((warm["accepted"] > 0).sum())

    def n_used(self, model: Model, total: Summary) -> int | None:
        """Components that hold at least one row."""
        return int(model.n_used(total))
