"""All components have the same known share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.priors import BasePrior
from stickbreak.protocols import Array, Counts, Out, Rule
from stickbreak.stats import Field, Fields, Summary


@dataclass(frozen=True)
class Uniform(BasePrior):
    """share_k = 1 / K."""

    def fields(self, axis: str) -> dict[str, Field]:
        return {"share": Field((axis,))}

    def zeros(self, n_components: int) -> Out:
        return {"share": np.zeros(n_components)}

    def sizes(self, counts: Counts) -> Array:
        return counts["share"]

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> Mapping[str, Any]:
        return self.predictive(counts, params)

    def predictive(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        return {"share": np.log(self.mean(counts, params))}

    def mean(self, counts: Counts, params: Fields) -> Array:
        K = len(counts["share"])
        return np.full(K, 1.0 / K)

    def bound(self, total: Summary, params: Fields) -> float:
        return -float(total["share"].sum() * np.log(len(total["share"])))

    log_mode = bound
