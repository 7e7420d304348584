"""A prior to copy: every component has the same known share, 1 / K. It works as it stands.

Copy it to src/stickbreak/priors/, change the mathematics, and name it where models name their
parts. No hyperparameter has a component axis: K is read off the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.priors import BasePrior
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields, Summary


@dataclass(frozen=True)
class EqualShares(BasePrior):
    """share_k = 1 / K."""

    def fields(self, axis: str) -> dict[str, Field]:
        return {"share": Field((axis,))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        return {"share": np.zeros(n_components)}

    def start(self, n_components: int, axis: str) -> Fields:
        """Parameters that are not a function of the counts (a root's mean shares); none here."""
        return Fields({}, {})

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """A name shared with a count field is paired with it in the bound. Use `rule.pick(table)`
        where rules differ.
        """
        n_components = len(counts["share"])
        return {"share": np.full(n_components, -np.log(n_components))}

    def update(self, total: Summary, params: Fields) -> Fields:
        """Must never lower `bound(total, .)`."""
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """Log-partition of the posterior minus that of the prior; for known shares the expected log
        of the labels.
        """
        return float(-total["share"].sum() * np.log(len(total["share"])))

    def log_mode(self, total: Summary, params: Fields) -> float:
        """The same with modes instead of posteriors."""
        return self.bound(total, params)

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) may sum to less than one where some mass is unused."""
        return np.full(len(counts["share"]), 1.0 / len(counts["share"]))

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Log potentials for held-out scores: posterior means, unused mass renormalized away."""
        return {"share": np.log(self.mean(counts, params))}

    def order(self, total: Summary) -> Array | None:
        """The order of components that raises the bound, or None."""
        return None
