"""The average of some drawn labelings in the place of their expectation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Pool, Watch
from stickbreak.stats import Fields, Summary, Tally

from .random_streams import DRAWS
from .rules import Draw, MeanLog

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["AveragedDraws"]


@dataclass(frozen=True, eq=False)
class AveragedDraws(MeanLog):
    """Counts of labelings, each drawn under parameters that are drawn first [J14, 5.3.3].

    They estimate the expectation of the exact posterior of labels over the parameters' posterior,
    not the optimum of the bound: the bound may fall, and is not computed. `log_z` is the mean log
    evidence under the drawn parameters, without rows' unused mass.

    Without random numbers (streams, readers) the local step is the expectation.
    """

    n_draws: int
    rng: np.random.Generator | None = None

    @property
    def objective(self) -> str:
        """None."""
        return ""

    def at(self, seed: int, step: int) -> AveragedDraws:
        """The rule with the random numbers of one visit, which depend on seed and step only."""
        return replace(self, rng=np.random.default_rng([seed, DRAWS, step]))

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """The mean counts of the labelings of one batch; no local bound."""
        if self.rng is None:
            return super().visit(model, counts, params, batch, warm, watches, pool)
        draw, total = _DrawPart(self.rng), Tally(counts.empty())
        for _ in range(self.n_draws):
            total.add(draw.visit(model, counts, params, batch, None, (), pool)[0])
        return total.summary().scale(1.0 / self.n_draws), None

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """None: the entropy of what was drawn is not known."""
        return None

    def learn(self, model: Model, total: Summary) -> Model:
        """The model itself: without a bound, nothing tells which hyperparameters are better."""
        return model


class _DrawPart(Draw):
    """One labeling of those that are averaged."""

    def local_model(self, model: Model) -> Model:
        """The model that draws labels, whose counts may be weighted."""
        assert self.rng is not None
        return model.averaging(self.rng)
