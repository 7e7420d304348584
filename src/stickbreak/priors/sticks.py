"""Dirichlet-process prior over components, by stick-breaking.

    u_k ~ Beta(1, concentration),   share_k = u_k prod_{l<k} (1 - u_l)

Nested truncation: the posterior of sticks beyond the K in use is the prior, so bounds at different
K can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.kernels.row_sweeps import LiveShares
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Fields, Summary, log_gamma_draws, log_gamma_rise, log_mode_beta

from .shares import ShareCounts

__all__ = ["Sticks"]


@dataclass(frozen=True)
class Sticks(ShareCounts):
    """Beta(1, concentration) sticks. Nothing is stored.

    The posterior q(u_k) = Beta(1 + n_k, concentration + n_{>k}) follows from the counts.

    concentration : a number, or (J,) for several at once; results then have that axis first.
    """

    concentration: Any = 1.0

    def _beta(self, counts: Counts) -> tuple[Array, Array]:
        """Beta parameters (K,), (K,)."""
        n = counts["share"]
        later = np.r_[n[::-1].cumsum()[::-1][1:], 0.0]
        return 1.0 + n, np.asarray(self.concentration)[..., None] + later

    @staticmethod
    def _chain(log_stop: Array, log_pass: Array) -> Array:
        passed = log_pass.cumsum(-1)[..., :-1]
        return log_stop + np.concatenate([np.zeros((*passed.shape[:-1], 1)), passed], axis=-1)

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Share (K,) log potentials."""
        return {"share": rule.pick(self)(counts)}

    def mean_log(self, counts: Counts) -> Array:
        """E[log share]."""
        a, b = self._beta(counts)
        total = digamma(a + b)
        return self._chain(digamma(a) - total, digamma(b) - total)

    def log_mean(self, counts: Counts) -> Array:
        """Log E[share]."""
        a, b = self._beta(counts)
        total = np.log(a + b)
        return self._chain(np.log(a) - total, np.log(b) - total)

    def mode(self, counts: Counts) -> Array:
        """The mode in natural (logit) coordinates is the mean."""
        return self.log_mean(counts)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Log shares of sticks drawn from their posterior. Labels are limited to the K in use."""
        stop, rest = (log_gamma_draws(x, rng) for x in self._beta(counts))
        total = np.logaddexp(stop, rest)
        return self._chain(stop - total, rest - total)

    def log_rise(self, counts: Counts) -> Array:
        """Log-partition of the posterior minus that of the prior, in closed form.

        sum lgamma(1 + n_k) + lgamma(c) - lgamma(c + n) - sum log(1 + n_{>=k} / c), c the
        concentration.
        """
        n, c = counts["share"], np.asarray(self.concentration)
        from_here = n[::-1].cumsum()[::-1]
        closed = gammaln(1.0 + n).sum() - np.log1p(from_here / c[..., None]).sum(-1)
        return np.asarray(closed - log_gamma_rise(c, from_here[0]))

    def bound(self, total: Summary, params: Fields) -> float:
        """The closed form: log-partitions of the sticks' posteriors minus those of their priors."""
        return float(self.log_rise(total))

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Sum of a log(a / (a + b)) + b log(b / (a + b)) over sticks Beta(a, b)."""
        return float(log_mode_beta(np.stack(self._beta(total), axis=-1)).sum())

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected shares; the remainder belongs to components not in use."""
        return np.exp(self.log_mean(counts))

    def order(self, total: Summary) -> Array | None:
        """Largest first, which is the best order for given counts. None if already in order."""
        order = np.argsort(-total["share"], kind="stable")
        return None if (order == np.arange(len(order))).all() else order

    def pseudo(self, params: Fields, n_components: int) -> LiveShares:
        """The concentration."""
        return LiveShares(True, np.array([float(self.concentration)]), np.zeros(1))
