"""Dirichlet rows, and the finite prior over components: shares ~ Dirichlet(concentration / K, ...)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Fields, Summary

from .shares import ShareCounts

__all__ = ["ROWS", "DirichletRows", "SymmetricDirichlet"]


@dataclass(frozen=True)
class DirichletRows:
    """Dirichlet rows over the last axis, `counts + pseudo`."""

    def log_partition(self, counts: Array, pseudo: Array) -> Array:
        """Sum lgamma(alpha) - lgamma(sum alpha), alpha = counts + pseudo."""
        alpha = counts + pseudo
        return gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))

    def mean_log(self, counts: Array, pseudo: Array) -> Array:
        """E[log share]."""
        alpha = counts + pseudo
        return digamma(alpha) - digamma(alpha.sum(-1))[..., None]

    def log_mean(self, counts: Array, pseudo: Array) -> Array:
        """Log E[share]."""
        alpha = counts + pseudo
        return np.log(alpha) - np.log(alpha.sum(-1))[..., None]

    def mode(self, counts: Array, pseudo: Array) -> Array:
        """The mode in natural coordinates is the mean, and exists for every pseudo-count."""
        return self.log_mean(counts, pseudo)


ROWS = DirichletRows()


@dataclass(frozen=True)
class SymmetricDirichlet(ShareCounts):
    """shares ~ Dirichlet(concentration / K) over K components; K comes from the counts.

    concentration : a number, or (J,) to look at several at once: results then have that axis first.
    """

    concentration: Any = 1.0

    def _pseudo(self, counts: Counts) -> Array:
        n_components = len(counts["share"])
        return np.asarray(self.concentration)[..., None] / n_components + np.zeros(n_components)

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Share (K,) log potentials."""
        return {"share": rule.pick(self)(counts)}

    def mean_log(self, counts: Counts) -> Array:
        """E[log share]."""
        return ROWS.mean_log(counts["share"], self._pseudo(counts))

    def log_mean(self, counts: Counts) -> Array:
        """Log E[share]."""
        return ROWS.log_mean(counts["share"], self._pseudo(counts))

    def mode(self, counts: Counts) -> Array:
        """The mode in natural coordinates is the mean."""
        return self.log_mean(counts)

    def log_rise(self, counts: Counts) -> Array:
        """log-partition of the posterior minus that of the prior."""
        pseudo = self._pseudo(counts)
        return np.asarray(ROWS.log_partition(counts["share"], pseudo) - ROWS.log_partition(np.zeros_like(pseudo), pseudo))

    def bound(self, total: Summary, params: Fields) -> float:
        """log-partition of the posterior minus that of the prior."""
        return float(self.log_rise(total))

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Sum (count + concentration / K) log share at the mode."""
        pseudo = self._pseudo(total)
        return float(((total["share"] + pseudo) * self.mode(total)).sum())

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected shares; they sum to one."""
        return np.exp(self.log_mean(counts))

    def order(self, total: Summary) -> Array | None:
        """The order of components does not matter."""
        return None
