"""A prior to copy: shares ~ Dirichlet(concentration, ..., concentration).

It works as it stands. Hyperparameters have no component axis: K is read off the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.parameters import require_positive
from stickbreak.priors import ROWS, BasePrior
from stickbreak.protocols import Array, Counts, Out, Rule
from stickbreak.stats import Field, Fields, Summary


@dataclass(frozen=True)
class FlatShares(BasePrior):
    """Every component is worth the same number of rows beforehand.

    concentration : that number of rows
    """

    concentration: float = 1.0

    def __post_init__(self) -> None:
        require_positive(concentration=self.concentration)

    def fields(self, axis: str) -> dict[str, Field]:
        return {"share": Field((axis,))}

    def zeros(self, n_components: int) -> Out:
        return {"share": np.zeros(n_components)}

    def sizes(self, counts: Counts) -> Array:
        return counts["share"]

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> Mapping[str, Any]:
        # `pick` takes mean_log, log_mean, mode or draw of a table: here Dirichlet rows
        return {"share": rule.pick(ROWS)(counts["share"], self._pseudo(counts))}

    def predictive(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        return {"share": np.log(self.mean(counts, params))}

    def mean(self, counts: Counts, params: Fields) -> Array:
        return np.exp(ROWS.log_mean(counts["share"], self._pseudo(counts)))

    def bound(self, total: Summary, params: Fields) -> float:
        pseudo = self._pseudo(total)
        rise = ROWS.log_rise(total["share"], pseudo)
        return float(rise)

    def log_mode(self, total: Summary, params: Fields) -> float:
        return float(ROWS.log_best(total["share"], self._pseudo(total)))

    def _pseudo(self, counts: Counts) -> Array:
        return np.full(len(counts["share"]), self.concentration)
