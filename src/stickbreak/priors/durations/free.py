"""Durations with a probability of their own for every length.

length ~ Categorical(share),   share ~ Dirichlet(concentration, ..., concentration)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array

from ..dirichlet import ROWS
from .base import BaseDuration

__all__ = ["FreeDurations"]


@dataclass(frozen=True, repr=False)
class FreeDurations(BaseDuration):
    """Segments of 1, 2, ..., `max_duration` rows, each length with a probability of its own.

    For laws with several peaks, and many segments: every length is learned by itself.

    Parameters
    ----------
    concentration : prior count of each length.
    """

    is_limited = True

    concentration: float = 0.5

    def __post_init__(self) -> None:
        require_prior_count(concentration=self.concentration)

    def _pseudo(self, histogram: Array) -> Array:
        return np.full(histogram.shape, float(self.concentration))

    def log_marginal(self, histogram: Array) -> Array:
        """Log-partition of the Dirichlet posterior minus that of the prior."""
        return ROWS.log_rise(histogram, self._pseudo(histogram))

    def log_mode(self, histogram: Array) -> Array:
        """Sum (count + concentration) log share at the mode."""
        return ROWS.log_best(histogram, self._pseudo(histogram))

    def mean_log(self, histogram: Array) -> Array:
        """E[log share]."""
        return ROWS.mean_log(histogram, self._pseudo(histogram))

    def log_mean(self, histogram: Array) -> Array:
        """Log E[share]."""
        return ROWS.log_mean(histogram, self._pseudo(histogram))

    def mode(self, histogram: Array) -> Array:
        """The mode in natural coordinates is the mean."""
        return ROWS.mode(histogram, self._pseudo(histogram))

    def draw(self, histogram: Array, *, rng: np.random.Generator) -> Array:
        """Log shares drawn from their posterior."""
        return ROWS.draw(histogram, self._pseudo(histogram), rng=rng)

    def describe(self, histogram: Array) -> dict[str, Array]:
        """Posterior mean of the shares."""
        return {"duration_share": np.exp(self.log_mean(histogram))}
