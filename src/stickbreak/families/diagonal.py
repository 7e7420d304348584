"""Vectors with unknown mean and independent columns: Normal-Gamma prior on each.

precision_d ~ Gamma(dof / 2, B_d / 2), mean_d | precision_d ~ Normal(prior mean_d, 1 /
(mean_strength * precision_d)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from stickbreak.data import Scale
from stickbreak.kernels.live_columns import LiveNormalColumns
from stickbreak.protocols import Array, Counts
from stickbreak.stats import log_gamma_rise

from . import learning
from .base import LOG_2PI, require_positive, require_prior_count
from .columns import ColumnMoments, ColumnScores, ColumnStudentScores, DiagonalForm
from .fixedvariance import FixedVarianceGaussian, fixed_variance
from .moments import DEFAULT_SHARE, EMPTY, spread
from .normality import departure
from .prior_scales import column_spread, prior_frame, prior_vector
from .rounding import noise_of, prior_rounding
from .wishart import check_largest_dof

__all__ = ["DiagonalGaussian", "column_divergence"]


class NormalGamma(NamedTuple):
    """Posterior in the standardized frame; means are relative to the anchors.

    Columns with missing entries have their own counts.
    """

    n: Array  # (K, D) rows that have the column, or (K, 1) if no entry is missing
    strength: Array  # (K, D) or (K, 1)
    mean: Array  # (K, D)
    dof: Array  # (K, D) or (K, 1)
    scatter: Array  # (K, D)
    anchor: Array  # (K, D)


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalGaussian(ColumnMoments):
    """Gaussian with independent columns, Normal-Gamma prior.

    Parameters
    ----------
    mean : prior mean, a number or (D,). Default: the columns' means.
    mean_strength : how many rows the prior mean is worth. Default 0.01.
    dof : degrees of freedom of each column's precision, above 2. Default 4.
    variance : prior expected variance, a number or (D,). Default: a quarter of each column's
        variance.
    rounding : step to which a column is rounded, a number or (D,); 0 for none. No component gets
        narrower than its steps. Default: 1 for columns of whole numbers, unless `variance` is
        given.
    center, scale : (D,) frame in which statistics are kept; set from the data. It only affects
        rounding.
    """

    mean: Any = None
    mean_strength: float = 0.01
    dof: float = 4.0
    variance: Any = None
    rounding: Any = None
    center: Any = None
    scale: Any = None
    draws = True
    optional = ("rounding",)
    learned = ("mean", "mean_strength", "variance")

    def resolve(self, scale: Scale) -> DiagonalGaussian:
        """Prior mean = column means; prior variance = 0.25 * column variances."""
        require_prior_count(mean_strength=self.mean_strength)
        if not self.dof > 2:
            raise ValueError(f"dof must be above 2; got {self.dof}")
        check_largest_dof(self.dof)
        rounding = prior_rounding(self.rounding, self.variance, scale)
        columns = column_spread(scale) + rounding**2 / 12.0
        variance = prior_vector("variance", self.variance, DEFAULT_SHARE * columns)
        require_positive(variance=float(variance.min()))
        return replace(
            self,
            mean=prior_vector("mean", self.mean, scale.mean),
            variance=variance,
            rounding=rounding,
            **prior_frame(self.center, self.scale, scale.mean, np.sqrt(columns)),
        )

    def misfit(self, rows: Any, shares: Array, followed: Array | None = None) -> Array | None:
        """By skewness and kurtosis, correlations, and products of successive rows."""
        return departure(rows, shares, followed, is_diagonal=True)

    def coarse(self) -> FixedVarianceGaussian:
        """Known variances, those of the prior, for all components: k-means in their metric."""
        return fixed_variance(self, self.variance)

    # ------------------------------------------------------------------------------------ posterior

    def _prior(self) -> tuple[float, Array, float, Array]:
        scatter = (self.dof - 2.0) * self.variance / self.scale**2
        return self.mean_strength, (self.mean - self.center) / self.scale, self.dof, scatter

    def _posterior(self, counts: Counts) -> NormalGamma:
        strength, prior_mean, dof, prior_scatter = self._prior()
        n, first, second = self._moments(counts)
        mean, scatter, pull = spread(n, first, second, strength, prior_mean - counts["anchor"])
        scatter = prior_scatter + n * self._noise + scatter + pull**2
        return NormalGamma(n, strength + n, mean, dof + n, scatter, counts["anchor"])

    @property
    def _noise(self) -> Array:
        return noise_of(self.rounding, self.scale)

    def _per_row(self) -> Array:
        """(D,) constants of a row's density in the user's units, by column."""
        return -np.log(self.scale) - 0.5 * LOG_2PI

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior, summed over columns."""
        q = self._posterior(counts)
        strength, _, dof, scatter = self._prior()
        rise = log_gamma_rise(0.5 * dof, 0.5 * q.n) - 0.5 * np.log1p(q.n / strength)
        away = 0.5 * (q.n * np.log(0.5 * q.scatter) + dof * np.log(q.scatter / scatter))
        return (rise - away + self._per_row() * q.n).sum(1)

    def mean_log(self, counts: Counts) -> ColumnScores:
        """E[log N(x | mean, precision)]."""
        q = self._posterior(counts)
        constant = (
            0.5 * (digamma(0.5 * q.dof) - np.log(0.5 * q.scatter) - 1.0 / q.strength)
            + self._per_row()
        )
        precision = q.dof / q.scatter
        constant -= 0.5 * precision * self._noise
        return ColumnScores.make(DiagonalForm(q.mean, precision, q.anchor), constant)

    def log_mean(self, counts: Counts) -> ColumnStudentScores:
        """Student t with `dof` degrees of freedom for each column."""
        q = self._posterior(counts)
        scatter = q.scatter + self._noise  # of the row's own rounding too
        precision = q.dof / scatter * (q.strength / (q.strength + 1.0))
        constant = (
            log_gamma_rise(0.5 * q.dof, 0.5)
            + 0.5 * q.dof * np.log(q.scatter / scatter)
            - 0.5 * np.log(q.dof * np.pi)
            - np.log(self.scale)
        )
        return ColumnStudentScores(
            DiagonalForm(q.mean, precision, q.anchor),
            constant + 0.5 * np.log(precision),
            np.broadcast_to(q.dof, q.mean.shape),
        )

    def _rows_worth(self, dof: Any) -> Any:
        return np.maximum(dof - 3.0, 1e-6)

    def mode(self, counts: Counts) -> ColumnScores:
        """N(x | mean, scatter / (dof - 3)): the mode in natural coordinates."""
        q = self._posterior(counts)
        precision = self._rows_worth(q.dof) / q.scatter
        constant = 0.5 * (np.log(precision) - precision * self._noise) + self._per_row()
        return ColumnScores.make(DiagonalForm(q.mean, precision, q.anchor), constant)

    def draw(self, counts: Counts, rng: np.random.Generator) -> ColumnScores:
        """N(x | mean, precision) at parameters drawn from the posterior of each column."""
        q = self._posterior(counts)
        precision = rng.gamma(np.broadcast_to(0.5 * q.dof, q.mean.shape)) * 2.0 / q.scatter
        mean = q.mean + rng.standard_normal(q.mean.shape) / np.sqrt(q.strength * precision)
        constant = 0.5 * (np.log(precision) - precision * self._noise) + self._per_row()
        return ColumnScores.make(DiagonalForm(mean, precision, q.anchor), constant)

    def log_mode(self, counts: Counts) -> Array:
        """(dof - 3) / 2 (log precision - 1) at the mode, plus the constants of the rows.

        Summed over columns.
        """
        q = self._posterior(counts)
        worth = self._rows_worth(q.dof)
        value = 0.5 * worth * (np.log(worth) - np.log(q.scatter) - 1.0)
        return (value + self._per_row() * q.n).sum(1)

    def live(self, counts: Counts) -> LiveNormalColumns:
        """Counts, copied, with posteriors that follow them row by row."""
        q, (rows, of_columns, is_partial) = self._posterior(counts), self._live_counts(counts)
        means, scatters, anchors = (
            np.array(table.T, order="C") for table in (q.mean, q.scatter, q.anchor)
        )
        tables = rows, of_columns, means, scatters, anchors
        strength, mean, dof, scatter = self._prior()
        prior = float(strength), np.asarray(mean), float(dof), np.asarray(scatter)
        constants = np.asarray(self._noise), -np.log(self.scale), EMPTY
        return LiveNormalColumns(*tables, is_partial, *prior, *constants)

    # ------------------------------------------------------------------------------ empirical Bayes

    def _with_mean(self, counts: Counts) -> DiagonalGaussian:
        """Move the prior mean to the precision-weighted average of the components' averages."""
        strength, prior_mean, _, _ = self._prior()
        q = self._posterior(counts)
        strengths, precision = (
            q.strength.reshape(len(q.mean), -1),
            q.dof.reshape(len(q.mean), -1) / q.scatter,
        )
        weight = strength * (strengths - strength) / strengths * precision
        pull = (strength * precision * (q.anchor + q.mean - prior_mean)).sum(0)
        mean = prior_mean + pull / weight.sum(0)
        return learning.keep_better(
            self, replace(self, mean=mean * self.scale + self.center), counts
        )

    def _with_variance(self, counts: Counts) -> DiagonalGaussian:
        """One EM step, scatter_d = dof K / sum E[precision_d], over components with rows."""
        q = self._posterior(counts)
        seen = q.strength.reshape(len(q.mean), -1) - self.mean_strength > EMPTY
        expected = (seen * q.dof.reshape(len(q.mean), -1) / q.scatter).sum(0)
        scatter = self.dof * seen.sum(0) / np.where(expected > 0, expected, 1.0)
        variance = np.where(expected > 0, scatter / (self.dof - 2.0) * self.scale**2, self.variance)
        return learning.keep_better(
            self, replace(self, variance=np.maximum(variance, self._narrowest())), counts
        )

    def _narrowest(self) -> Array:
        """(D,) smallest variances of a learned prior."""
        return np.minimum(learning.NARROWEST * self.scale**2, self.variance)

    def _learn_variance(self, counts: Counts) -> DiagonalGaussian:
        """EM steps, then one scale for all columns (see `learn_covariance`)."""
        better = self
        for _ in range(learning.EM_STEPS):
            better = better._with_variance(counts)
        lowest = max(0.1, float((self._narrowest() / better.variance).max()))
        return learning.learn_number(
            better,
            counts,
            lambda x: replace(better, variance=x * better.variance),
            1.0,
            lowest,
            10.0,
        )

    def learn(self, counts: Counts) -> DiagonalGaussian:
        """Learn `mean`, `variance` and `mean_strength`, in turn.

        One component alone cannot tell the mean from its strength.
        """
        if learning.occupied(self._posterior(counts).strength - self.mean_strength) < 2:
            return self._learn_variance(counts)
        better = self._with_mean(counts)._learn_variance(counts)
        return learning.learn_number(
            better, counts, lambda x: replace(better, mean_strength=x), better.mean_strength
        )

    # ------------------------------------------------------------------------------- means, seeding

    def _user_mean(self, q: NormalGamma) -> Array:
        return (q.anchor + q.mean) * self.scale + self.center

    def _mean(self, counts: Counts) -> Array:
        return self._user_mean(self._posterior(counts))

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean and variance (K, D) at the mode, in the user's units."""
        q = self._posterior(counts)
        return {
            "mean": self._user_mean(q),
            "variance": q.scatter / self._rows_worth(q.dof) * self.scale**2,
        }

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between Gaussians with independent columns."""
        return column_divergence(
            first["mean"][:, None],
            first["variance"][:, None],
            second["mean"][None],
            second["variance"][None],
        ).sum(-1)

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) KL from each row's smoothed Gaussian to that of row `index`."""
        strength, prior_mean, dof, scatter = self._prior()
        away = rows[1 : 1 + self.n_features] - prior_mean[:, None]
        scatter = (scatter + self._noise)[:, None] + strength / (strength + 1.0) * away**2
        variance = scatter / self._rows_worth(dof + 1.0)
        mean = away / (strength + 1.0)
        at = slice(index, index + 1)
        return np.maximum(
            column_divergence(mean, variance, mean[:, at], variance[:, at]).sum(0), 0.0
        )

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """Rows drawn from the predictive: an independent Student t in each column."""
        q = self._posterior(counts)
        width = np.sqrt(q.scatter / q.dof * ((q.strength + 1.0) / q.strength))
        noise = rng.standard_t(q.dof[labels], (len(labels), self.n_features))
        return ((q.anchor + q.mean)[labels] + width[labels] * noise) * self.scale + self.center

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Mean and variance (K, D): posterior expectations."""
        q = self._posterior(counts)
        return {"mean": self._user_mean(q), "variance": q.scatter / (q.dof - 2.0) * self.scale**2}


def column_divergence(mean_a: Array, variance_a: Array, mean_b: Array, variance_b: Array) -> Array:
    """KL of univariate Gaussians, elementwise."""
    ratio = variance_a / variance_b
    return 0.5 * (ratio - 1.0 - np.log(ratio) + (mean_a - mean_b) ** 2 / variance_b)
