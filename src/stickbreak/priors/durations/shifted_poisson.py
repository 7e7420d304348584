"""Durations whose excess over one is Poisson.

length - 1 ~ Poisson(rate),   rate ~ Gamma(shape, 1 / scale)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array
from stickbreak.stats import log_gamma_draws

from .base import BaseDuration, column_of

__all__ = ["ShiftedPoisson"]


@dataclass(frozen=True, repr=False)
class ShiftedPoisson(BaseDuration):
    """Segments of 1 + Poisson(rate) rows: lengths spread about their mean by its square root.

    Parameters
    ----------
    shape, rate : of the Gamma prior over the Poisson rate, whose mean is shape / rate: `shape`
        excess rows in `rate` segments.
    """

    shape: float = 1.0
    rate: float = 0.05

    def __post_init__(self) -> None:
        require_prior_count(shape=self.shape, rate=self.rate)

    def _posterior(self, histogram: Array) -> tuple[Array, Array, Array]:
        """Shape (K, 1) and rate (K, 1) of the posterior, and lengths less one (D,)."""
        lengths, n = column_of(histogram)
        excess = lengths - 1.0
        return (self.shape + histogram @ excess)[:, None], (self.rate + n)[:, None], excess

    def log_marginal(self, histogram: Array) -> Array:
        """Log-partition of the Gamma posterior minus that of the prior, and the base measure."""
        a, b, excess = self._posterior(histogram)
        prior = self.shape * np.log(self.rate) - gammaln(self.shape)
        return (gammaln(a) - a * np.log(b))[:, 0] + prior - histogram @ gammaln(excess + 1.0)

    def log_mode(self, histogram: Array) -> Array:
        """Shape log(rate) - shape at rate = shape / rate of the posterior."""
        a, b, excess = self._posterior(histogram)
        return (xlogy(a, a / b) - a)[:, 0] - histogram @ gammaln(excess + 1.0)

    def mean_log(self, histogram: Array) -> Array:
        """Excess E[log rate] - E[rate] - log excess!."""
        a, b, excess = self._posterior(histogram)
        return _log_poisson(excess, digamma(a) - np.log(b), a / b)

    def mode(self, histogram: Array) -> Array:
        """At the posterior mean of the rate, which is the mode of its log."""
        a, b, excess = self._posterior(histogram)
        return _log_poisson(excess, np.log(a / b), a / b)

    def log_mean(self, histogram: Array) -> Array:
        """Negative binomial with shape a and stay probability 1 / (b + 1)."""
        a, b, excess = self._posterior(histogram)
        ways = gammaln(a + excess) - gammaln(a) - gammaln(excess + 1.0)
        return np.asarray(ways + a * np.log(b) - (a + excess) * np.log1p(b))

    def draw(self, histogram: Array, *, rng: np.random.Generator) -> Array:
        """At a rate drawn from its posterior."""
        a, b, excess = self._posterior(histogram)
        log_rate = log_gamma_draws(a, rng) - np.log(b)
        return _log_poisson(excess, log_rate, np.exp(log_rate))

    def describe(self, histogram: Array) -> dict[str, Array]:
        """Posterior mean of the rate."""
        a, b, _ = self._posterior(histogram)
        return {"duration_rate": (a / b)[:, 0]}


def _log_poisson(excess: Array, log_rate: Array, rate: Array) -> Array:
    return np.asarray(excess * log_rate - rate - gammaln(excess + 1.0))
