"""What priors of mixtures share: one count for each component, and nothing stored besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields, Summary

__all__ = ["ShareCounts"]


class ShareCounts:
    """share (K,): expected rows of each component. All parameters are functions of it."""

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {"share": Field((axis,))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {"share": np.zeros(n_components)}

    def start(self, n_components: int, axis: str) -> Fields:
        """Nothing is stored."""
        return Fields({}, {})

    def update(self, total: Summary, params: Fields) -> Fields:
        """Nothing is stored."""
        return params

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected shares."""
        raise NotImplementedError

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Log of the expected shares (K,), renormalized over the components in use."""
        share = self.mean(counts, params)
        return {"share": np.log(share / share.sum())}
