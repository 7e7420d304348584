"""Vectors with unknown mean and independent columns: Normal-Gamma prior on each.

precision_d ~ Gamma(dof / 2, B_d / 2), mean_d | precision_d ~ Normal(prior mean_d, 1 / (mean_strength * precision_d)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.data import Scale
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Edit

from . import learning, quadratic
from .base import LOG_2PI, column_spread, prior_frame, prior_vector, require_positive
from .gaussian import DEFAULT_SHARE

__all__ = ["DiagonalGaussian", "column_divergence"]


class NormalGamma(NamedTuple):
    """Posterior in the standardized frame, means as seen from the anchors."""

    strength: Array  # (K,)
    mean: Array  # (K, D)
    dof: Array  # (K,)
    scatter: Array  # (K, D)
    anchor: Array  # (K, D)


@dataclass(frozen=True)
class ColumnStudentScores:
    """Log predictive: a sum over columns of Student t terms; form.precision is that of each t."""

    form: quadratic.DiagonalForm
    constant: Array
    power: Array
    dof: Array

    def evidence(self, rows: Array) -> Array:
        """(n, K) log predictive density of features (P, n)."""
        D = self.form.mean.shape[1]
        out = np.empty((len(self.constant), rows.shape[1]))
        for k in range(len(out)):
            away = (rows[1 : 1 + D] - self.form.anchor[k][:, None]) - self.form.mean[k][:, None]
            terms = np.log1p(away**2 * (self.form.precision[k] / self.dof[k])[:, None])
            out[k] = self.constant[k] - self.power[k] * terms.sum(0)
        return out.T

    def collect(self, rows: Array, shares: Array, out: dict[str, Array]) -> None:
        """Add moments about each component's anchor."""
        quadratic.QuadraticScores.make(self.form, self.constant).collect(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """Not linear in the counts: rules that use it have no bound."""
        return float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalGaussian(quadratic.DiagonalMoments):
    """Gaussian with independent columns, Normal-Gamma prior.

    Parameters
    ----------
    mean : prior mean, a number or (D,). Default: the columns' means.
    mean_strength : how many rows the prior mean is worth. Default 0.01.
    dof : degrees of freedom of each column's precision, above 2. Default 4.
    variance : prior expected variance, a number or (D,). Default: a quarter of each column's variance.
    center, scale : (D,) frame in which statistics are kept; set from the data, it changes rounding only.
    """

    mean: Any = None
    mean_strength: float = 0.01
    dof: float = 4.0
    variance: Any = None
    center: Any = None
    scale: Any = None
    learned = ("mean", "mean_strength", "variance")

    def resolve(self, scale: Scale) -> DiagonalGaussian:
        """Prior mean = column means; prior variance = 0.25 * column variances."""
        require_positive(mean_strength=self.mean_strength)
        if not self.dof > 2:
            raise ValueError(f"dof must be above 2; got {self.dof}")
        spread = column_spread(scale)
        variance = prior_vector("variance", self.variance, DEFAULT_SHARE * spread)
        require_positive(variance=float(variance.min()))
        return replace(
            self,
            mean=prior_vector("mean", self.mean, scale.mean),
            variance=variance,
            **prior_frame(self.center, self.scale, scale.mean, np.sqrt(spread)),
        )

    # ------------------------------------------------------------------------------------------ posterior

    def _prior(self) -> tuple[float, Array, float, Array]:
        scatter = (self.dof - 2.0) * self.variance / self.scale**2
        return self.mean_strength, (self.mean - self.center) / self.scale, self.dof, scatter

    def _posterior(self, counts: Counts) -> NormalGamma:
        strength, prior_mean, dof, prior_scatter = self._prior()
        moments, anchor, D = counts["moments"], counts["anchor"], self.n_features
        n = moments[:, 0]
        mean, scatter, pull = quadratic.spread(n, moments[:, 1 : 1 + D], moments[:, 1 + D :], strength, prior_mean - anchor)
        return NormalGamma(strength + n, mean, dof + n, prior_scatter + scatter + pull**2, anchor)

    def _log_partition(self, strength: Any, dof: Any, scatter: Array) -> Any:
        D = self.n_features
        gamma = D * gammaln(0.5 * dof) - 0.5 * dof * np.log(0.5 * scatter).sum(-1)
        return 0.5 * D * (LOG_2PI - np.log(strength)) + gamma

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior."""
        q = self._posterior(counts)
        strength, _, dof, scatter = self._prior()
        per_row = self._log_jacobian() - 0.5 * self.n_features * LOG_2PI
        rise = self._log_partition(q.strength, q.dof, q.scatter) - self._log_partition(strength, dof, scatter)
        return rise + per_row * counts["moments"][:, 0]

    def mean_log(self, counts: Counts) -> quadratic.QuadraticScores:
        """E[log N(x | mean, precision)]."""
        q, D = self._posterior(counts), self.n_features
        log_precision = D * digamma(0.5 * q.dof) - np.log(0.5 * q.scatter).sum(1)
        constant = 0.5 * (log_precision - D * LOG_2PI - D / q.strength) + self._log_jacobian()
        form = quadratic.DiagonalForm(q.mean, q.dof[:, None] / q.scatter, q.anchor)
        return quadratic.QuadraticScores.make(form, constant)

    def log_mean(self, counts: Counts) -> ColumnStudentScores:
        """A Student t with `dof` degrees of freedom for each column."""
        q, D = self._posterior(counts), self.n_features
        precision = q.dof[:, None] / q.scatter * (q.strength / (q.strength + 1.0))[:, None]
        power = 0.5 * (q.dof + 1.0)
        constant = D * (gammaln(power) - gammaln(0.5 * q.dof) - 0.5 * np.log(q.dof * np.pi))
        constant = constant + 0.5 * np.log(precision).sum(1) + self._log_jacobian()
        return ColumnStudentScores(quadratic.DiagonalForm(q.mean, precision, q.anchor), constant, power, q.dof)

    def _rows_worth(self, dof: Any) -> Any:
        return np.maximum(dof - 3.0, 1e-6)

    def mode(self, counts: Counts) -> quadratic.QuadraticScores:
        """N(x | mean, scatter / (dof - 3)): the mode in natural coordinates."""
        q, D = self._posterior(counts), self.n_features
        precision = self._rows_worth(q.dof)[:, None] / q.scatter
        constant = 0.5 * (np.log(precision).sum(1) - D * LOG_2PI) + self._log_jacobian()
        return quadratic.QuadraticScores.make(quadratic.DiagonalForm(q.mean, precision, q.anchor), constant)

    def log_mode(self, counts: Counts) -> Array:
        """(dof - 3) / 2 (sum of log precisions - D) at the mode, with the constants of the rows."""
        q, D = self._posterior(counts), self.n_features
        worth = self._rows_worth(q.dof)
        log_precision = (np.log(worth)[:, None] - np.log(q.scatter)).sum(1)
        per_row = self._log_jacobian() - 0.5 * D * LOG_2PI
        return 0.5 * worth * (log_precision - D) + per_row * counts["moments"][:, 0]

    # ------------------------------------------------------------------------------------------ empirical Bayes

    def _with_mean(self, counts: Counts) -> DiagonalGaussian:
        """The prior mean where the averages, weighted by their precision as estimates of it, balance."""
        strength, prior_mean, _, _ = self._prior()
        q = self._posterior(counts)
        strengths, precision = q.strength.reshape(len(q.mean), -1), q.dof.reshape(len(q.mean), -1) / q.scatter
        weight = strength * (strengths - strength) / strengths * precision
        pull = (strength * precision * (q.anchor + q.mean - prior_mean)).sum(0)
        mean = prior_mean + pull / weight.sum(0)
        return learning.keep_better(self, replace(self, mean=mean * self.scale + self.center), counts)

    def _with_variance(self, counts: Counts) -> DiagonalGaussian:
        """A step of EM: scatter_d = dof K / sum E[precision_d], over components with rows."""
        q = self._posterior(counts)
        seen = q.strength.reshape(len(q.mean), -1) - self.mean_strength > quadratic.EMPTY
        expected = (seen * q.dof.reshape(len(q.mean), -1) / q.scatter).sum(0)
        scatter = self.dof * seen.sum(0) / np.where(expected > 0, expected, 1.0)
        variance = np.where(expected > 0, scatter / (self.dof - 2.0) * self.scale**2, self.variance)
        return learning.keep_better(self, replace(self, variance=np.maximum(variance, self._narrowest())), counts)

    def _narrowest(self) -> Array:
        """(D,) variances that no learned prior goes below."""
        return np.minimum(learning.NARROWEST * self.scale**2, self.variance)

    def _learn_variance(self, counts: Counts) -> DiagonalGaussian:
        """Steps of EM, then the scale of all columns (see `learn_covariance`)."""
        better = self
        for _ in range(learning.EM_STEPS):
            better = better._with_variance(counts)
        lowest = max(0.1, float((self._narrowest() / better.variance).max()))
        return learning.learn_number(better, counts, lambda x: replace(better, variance=x * better.variance), 1.0, lowest, 10.0)

    def learn(self, counts: Counts) -> DiagonalGaussian:
        """`mean`, `variance` and `mean_strength`, in turn; one component alone cannot tell means from their strength."""
        if learning.occupied(self._posterior(counts).strength - self.mean_strength) < 2:
            return self._learn_variance(counts)
        better = self._with_mean(counts)._learn_variance(counts)
        return learning.learn_number(better, counts, lambda x: replace(better, mean_strength=x), better.mean_strength)

    # ------------------------------------------------------------------------------------------ means, seeding

    def _user_mean(self, q: NormalGamma) -> Array:
        return (q.anchor + q.mean) * self.scale + self.center

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean and variance (K, D) at the mode, in the user's units."""
        q = self._posterior(counts)
        return {"mean": self._user_mean(q), "variance": q.scatter / self._rows_worth(q.dof)[:, None] * self.scale**2}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between Gaussians with independent columns."""
        return column_divergence(
            first["mean"][:, None], first["variance"][:, None], second["mean"][None], second["variance"][None]
        ).sum(-1)

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) KL from each row's smoothed Gaussian to that of row `index`."""
        strength, prior_mean, dof, scatter = self._prior()
        away = rows[1 : 1 + self.n_features] - prior_mean[:, None]
        variance = (scatter[:, None] + strength / (strength + 1.0) * away**2) / self._rows_worth(dof + 1.0)
        mean = away / (strength + 1.0)
        at = slice(index, index + 1)
        return np.maximum(column_divergence(mean, variance, mean[:, at], variance[:, at]).sum(0), 0.0)

    # ------------------------------------------------------------------------------------------ for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """Rows of the predictive: an independent Student t in each column."""
        q = self._posterior(counts)
        width = np.sqrt(q.scatter / q.dof[:, None] * ((q.strength + 1.0) / q.strength)[:, None])
        noise = rng.standard_t(q.dof[labels][:, None], (len(labels), self.n_features))
        return ((q.anchor + q.mean)[labels] + width[labels] * noise) * self.scale + self.center

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Mean and variance (K, D): posterior expectations."""
        q = self._posterior(counts)
        return {"mean": self._user_mean(q), "variance": q.scatter / (q.dof - 2.0)[:, None] * self.scale**2}

    def refine(self, counts: Counts) -> Edit | None:
        """New anchors for components that are too far from theirs."""
        strength, prior_mean, _, prior_scatter = self._prior()
        moments, anchor, D = counts["moments"], counts["anchor"], self.n_features
        n, first = moments[:, 0], moments[:, 1 : 1 + D]
        _, scatter, _ = quadratic.spread(n, first, moments[:, 1 + D :], strength, prior_mean - anchor)
        return quadratic.far_averages(n, first, prior_scatter + scatter, anchor)


def column_divergence(mean_a: Array, variance_a: Array, mean_b: Array, variance_b: Array) -> Array:
    """KL of univariate Gaussians, elementwise."""
    ratio = variance_a / variance_b
    return 0.5 * (ratio - 1.0 - np.log(ratio) + (mean_a - mean_b) ** 2 / variance_b)
