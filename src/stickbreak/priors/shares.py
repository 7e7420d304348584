"""Base of the priors of mixtures: one count for each component; nothing else is stored."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields

from .base import BasePrior

__all__ = ["ConcentrationPosterior", "ShareCounts"]


class ConcentrationPosterior(NamedTuple):
    """Posterior q(c) of a concentration c.

    values, probability : (J,) nodes and their probabilities
    log_evidence : the prior's part of the bound
    """

    values: Array
    probability: Array
    log_evidence: float

    @property
    def mean(self) -> float:
        """Posterior mean."""
        return float(self.probability @ self.values)

    def quantile(self, level: Any) -> Array:
        """Quantiles of the posterior, interpolated linearly in log c between nodes."""
        if len(self.values) == 1:
            return np.full(np.shape(level), self.values[0])
        middle = self.probability.cumsum() - 0.5 * self.probability
        return np.exp(np.interp(level, middle, np.log(self.values)))


class ShareCounts(BasePrior):
    """share (K,): expected rows of each component. All parameters are functions of it."""

    concentration: Any

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {"share": Field((axis,))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {"share": np.zeros(n_components)}

    def log_rise(self, counts: Counts) -> Array:
        """Log-partition of the posterior minus that of the prior, for each concentration."""
        raise NotImplementedError

    def concentration_posterior(self, counts: Counts) -> ConcentrationPosterior:
        """Posterior of the concentration: a point, because the concentration is known here."""
        return ConcentrationPosterior(
            np.array([float(self.concentration)]), np.ones(1), float(self.log_rise(counts))
        )

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected rows of each component."""
        return np.asarray(counts["share"])

    def of_sizes(self, sizes: Array) -> dict[str, Array]:
        """Share (K,)."""
        return {"share": sizes}

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Log of the expected shares (K,), renormalized over the components in use."""
        share = self.mean(counts, params)
        return {"share": np.log(share / share.sum())}
