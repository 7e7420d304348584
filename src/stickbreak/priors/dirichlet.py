"""Dirichlet rows, and the finite prior over components: shares ~ Dirichlet(concentration / K)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma

from stickbreak.kernels.row_sweeps import LiveShares
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import (
    Fields,
    Summary,
    draw_log_dirichlet,
    log_beta,
    log_gamma_rise,
    log_mode_beta,
)

from .shares import ShareCounts

__all__ = ["ROWS", "RowTable", "SymmetricDirichlet"]


@dataclass(frozen=True)
class RowTable:
    """Dirichlet rows over the last axis, with parameters `counts + pseudo`.

    rest : mass of the outcomes not in use, one number a row.
    pseudo == 0 marks an impossible outcome: its log probability is -inf, whatever was counted.
    """

    def log_partition(
        self, counts: Array, pseudo: Array, rest: Array | float | None = None
    ) -> Array:
        """Sum lgamma(alpha) - lgamma(sum alpha), alpha = (counts + pseudo, rest)."""
        return log_beta(_joined(counts, pseudo, rest))

    def log_rise(self, counts: Array, pseudo: Array, rest: Array | float | None = None) -> Array:
        """Log-partition of the posterior minus that of the prior, exact for large prior counts."""
        is_possible = pseudo > 0
        seen = np.where(is_possible, counts, 0.0)
        each = log_gamma_rise(np.where(is_possible, pseudo, 1.0), seen)
        return np.asarray(each.sum(-1) - log_gamma_rise(_total(pseudo, rest), seen.sum(-1)))

    def mean_log(self, counts: Array, pseudo: Array, rest: Array | float | None = None) -> Array:
        """E[log share]."""
        alpha = _possible(counts, pseudo)
        return digamma(alpha) - digamma(_total(alpha, rest))[..., None]  # digamma(0) = -inf

    def log_mean(self, counts: Array, pseudo: Array, rest: Array | float | None = None) -> Array:
        """Log E[share]."""
        alpha = _possible(counts, pseudo)
        with np.errstate(divide="ignore"):  # impossible outcomes
            return np.log(alpha) - np.log(_total(alpha, rest))[..., None]

    def mode(self, counts: Array, pseudo: Array, rest: Array | float | None = None) -> Array:
        """The mode in natural coordinates is the mean, and exists for every pseudo-count."""
        return self.log_mean(counts, pseudo, rest)

    def draw(
        self,
        counts: Array,
        pseudo: Array,
        rest: Array | float | None = None,
        *,
        rng: np.random.Generator,
    ) -> Array:
        """Log shares drawn from their posterior; they sum to less than one if there is a rest."""
        return draw_log_dirichlet(_possible(counts, pseudo), rest, rng)

    def log_best(self, counts: Array, pseudo: Array, rest: Array | float | None = None) -> Array:
        """Log joint in natural coordinates at its mode, up to a constant of the prior.

        sum alpha log(alpha / sum alpha), alpha = (counts + pseudo, rest).
        """
        return log_mode_beta(_joined(counts, pseudo, rest))


def _possible(counts: Array, pseudo: Array) -> Array:
    return counts + pseudo if pseudo.all() else np.where(pseudo > 0, counts + pseudo, 0.0)


def _joined(counts: Array, pseudo: Array, rest: Array | float | None) -> Array:
    """(counts + pseudo, rest), the rest as the last entry of each line; 0 if impossible."""
    alpha = _possible(counts, pseudo)
    if rest is None:
        return alpha
    last = np.broadcast_to(rest, alpha.shape[:-1])[..., None]
    return np.concatenate([alpha, last], axis=-1)


def _total(alpha: Array, rest: Array | float | None) -> Array:
    return np.asarray(alpha.sum(-1) if rest is None else alpha.sum(-1) + rest)


ROWS = RowTable()


@dataclass(frozen=True)
class SymmetricDirichlet(ShareCounts):
    """shares ~ Dirichlet(concentration / K) over K components; K comes from the counts.

    concentration : a number, or (J,) for several at once; results then have that axis first.
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

    def draw(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Log shares drawn from their posterior."""
        return ROWS.draw(counts["share"], self._pseudo(counts), rng=rng)

    def log_rise(self, counts: Counts) -> Array:
        """Log-partition of the posterior minus that of the prior."""
        return ROWS.log_rise(counts["share"], self._pseudo(counts))

    def bound(self, total: Summary, params: Fields) -> float:
        """Log-partition of the posterior minus that of the prior."""
        return float(self.log_rise(total))

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Sum (count + concentration / K) log share at the mode."""
        pseudo = self._pseudo(total)
        return float(((total["share"] + pseudo) * self.mode(total)).sum())

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected shares; they sum to one."""
        return np.exp(self.log_mean(counts))

    def pseudo(self, params: Fields, n_components: int) -> LiveShares:
        """The concentration."""
        return LiveShares(False, np.array([float(self.concentration)]), np.zeros(1))
