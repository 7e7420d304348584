"""Vectors with unknown mean and covariance: Normal-Wishart prior.

precision ~ Wishart(dof, inverse scale B); mean | precision ~ Normal(prior mean,
inverse(mean_strength * precision)).

The posterior of a component with statistics (n, sum x, sum x x') has strength + n, dof + n, and
    B + scatter about the average
      + strength n / (strength + n) (average - prior)(average - prior)'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stickbreak.data import Scale
from stickbreak.kernels.live_gaussian import LiveNormal, LiveSums
from stickbreak.kernels.quadratic import update_factors
from stickbreak.protocols import Array, Counts
from stickbreak.stats import log_gamma_rise

from . import learning, quadratic, wishart
from .base import LOG_2PI, require_prior_count
from .fixedvariance import FixedVarianceGaussian, fixed_variance
from .live_gaussians import live_normal
from .moments import DEFAULT_SHARE, FullMoments, cholesky, complete_rows, n_partial, spread
from .normality import departure
from .prior_scales import column_spread, prior_frame, prior_vector
from .rounding import add_noise, noise_of, prior_rounding, trace_with

__all__ = ["Gaussian"]


class NormalWishart(NamedTuple):
    """Posterior in the standardized frame; means are relative to the anchors."""

    strength: Array  # (K,)
    mean: Array  # (K, D)
    dof: Array  # (K,)
    factor: Array  # (K, D, D) lower Cholesky factor of the inverse scale
    log_det: Array  # (K,) of the inverse scale
    anchor: Array  # (K, D)


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(FullMoments):
    """Gaussian with full covariance, Normal-Wishart prior.

    Parameters
    ----------
    mean : prior mean, a number or (D,). Default: the columns' means.
    mean_strength : how many rows the prior mean is worth. Default 0.01.
    dof : degrees of freedom of the Wishart prior, above D + 1. Default D + 3, or
        2 D - 4 if that is more: wide covariances need more than a few rows' worth of prior.
    covariance : prior expected covariance, a number (times the identity), (D,) variances or (D, D).
        Default: diagonal, a quarter of each column's variance.
    rounding : step to which a column is rounded, a number or (D,); 0 for none. No component gets
        narrower than its steps. Default: 1 for columns of whole numbers, unless `covariance` is
        given.
    center, scale : (D,) frame in which statistics are kept; set from the data. It only affects
        rounding.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.Gaussian(mean_strength=0.1)
    Gaussian(mean_strength=0.1)
    """

    mean: Any = None
    mean_strength: float = 0.01
    dof: float | None = None
    covariance: Any = None
    rounding: Any = None
    center: Any = None
    scale: Any = None
    draws = True
    optional = ("rounding",)
    learned = ("mean", "mean_strength", "covariance")

    def resolve(self, scale: Scale) -> Gaussian:
        """Set defaults: column means, a quarter of their variances, dof = max(D + 3, 2 D - 4)."""
        require_prior_count(mean_strength=self.mean_strength)
        D = scale.n_features
        wishart.warn_of_width(D, scale.n_units)
        rounding = prior_rounding(self.rounding, self.covariance, scale)
        variance = column_spread(scale) + rounding**2 / 12.0
        default = DEFAULT_SHARE * variance
        return replace(
            self,
            rounding=rounding,
            mean=prior_vector("mean", self.mean, scale.mean),
            dof=wishart.prior_dof(self.dof, max(D + 3.0, 2.0 * D - 4.0), D),
            covariance=wishart.prior_matrix("covariance", self.covariance, default),
            **prior_frame(self.center, self.scale, scale.mean, np.sqrt(variance)),
        )

    def misfit(self, rows: Any, shares: Array, followed: Array | None = None) -> Array | None:
        """By skewness and kurtosis, and products of successive rows."""
        return departure(rows, shares, followed)

    def coarse(self) -> FixedVarianceGaussian:
        """Known variances, those of the prior, for all components: k-means in their metric."""
        return fixed_variance(self, np.diag(self.covariance))

    # ------------------------------------------------------------------------------------ posterior

    def _prior(self) -> tuple[float, Array, float, Array]:
        """Strength, mean (D,), dof and inverse scale B (D, D) in the standardized frame."""
        assert self.dof is not None
        inverse_scale = (
            (self.dof - self.n_features - 1) * self.covariance / np.outer(self.scale, self.scale)
        )
        return self.mean_strength, (self.mean - self.center) / self.scale, self.dof, inverse_scale

    @property
    def _noise(self) -> Array:
        return noise_of(self.rounding, self.scale)

    def _posterior(self, counts: Counts) -> NormalWishart:
        strength, prior_mean, dof, inverse_scale = self._prior()
        n, first, second = self._moments(counts)
        anchor = counts["anchor"]
        mean, scatter, pull = spread(n, first, second, strength, prior_mean - anchor)
        np.einsum("kdd->kd", scatter)[...] += n * self._noise
        factor = cholesky(inverse_scale + scatter, np.einsum("kdd->kd", second))
        # Not added to the scatter: a long pull would drown the other directions.
        update_factors(factor, pull)
        log_det = 2.0 * np.log(np.einsum("kdd->kd", factor)).sum(1)
        return NormalWishart(strength + n[:, 0], mean, dof + n[:, 0], factor, log_det, anchor)

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior."""
        q, D, rows = self._posterior(counts), self.n_features, counts["moments"][:, 0]
        strength, _, dof, inverse_scale = self._prior()
        prior = float(np.linalg.slogdet(inverse_scale)[1])
        rise = wishart.log_partition_rise(dof, prior, rows, q.log_det, D)
        per_row = self._log_jacobian() - 0.5 * D * LOG_2PI
        return rise - 0.5 * D * np.log1p(rows / strength) + per_row * rows

    def mean_log(self, counts: Counts) -> quadratic.QuadraticScores:
        """E[log N(x | mean, precision)]."""
        q, D = self._posterior(counts), self.n_features
        log_precision = wishart.expected_log_det(q.dof, q.log_det, D)
        constant = 0.5 * (log_precision - D * LOG_2PI - D / q.strength) + self._log_jacobian()
        constant -= 0.5 * q.dof * trace_with(self._noise, q.factor)
        return quadratic.QuadraticScores.make(
            quadratic.FullForm(q.mean, q.factor, q.dof, q.anchor), constant
        )

    def log_mean(self, counts: Counts) -> quadratic.StudentScores:
        """Student t with dof + 1 - D degrees of freedom.

        Its shape is B (strength + 1) / (strength (dof + 1 - D)), where B includes the noise of
        the row's own rounding.
        """
        q, D = self._posterior(counts), self.n_features
        dof = q.dof + 1.0 - D
        weight = q.strength * dof / (q.strength + 1.0)
        factor, grown = add_noise(q.factor, self._noise)
        log_det = q.log_det + (1.0 + q.dof) * grown - D * np.log(weight)
        power = 0.5 * (dof + D)
        constant = (
            log_gamma_rise(0.5 * dof, 0.5 * D)
            - 0.5 * D * np.log(dof * np.pi)
            - 0.5 * log_det
            + self._log_jacobian()
        )
        return quadratic.StudentScores(
            quadratic.FullForm(q.mean, factor, weight, q.anchor), constant, power, dof
        )

    def _rows_worth(self, dof: Array) -> Array:
        """N + nu of the mode in natural coordinates.

        It has a floor, for a component without rows and a prior too weak to have a mode.
        """
        return np.maximum(dof - self.n_features - 2.0, 1e-6)

    def mode(self, counts: Counts) -> quadratic.QuadraticScores:
        """N(x | mean, B / (dof - D - 2)): the mode in natural coordinates."""
        q, D = self._posterior(counts), self.n_features
        worth = self._rows_worth(q.dof)
        constant = 0.5 * (D * np.log(worth) - q.log_det - D * LOG_2PI) + self._log_jacobian()
        constant -= 0.5 * worth * trace_with(self._noise, q.factor)
        return quadratic.QuadraticScores.make(
            quadratic.FullForm(q.mean, q.factor, worth, q.anchor), constant
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> quadratic.DrawnScores:
        """N(x | mean, precision) at parameters drawn from the posterior."""
        q = self._posterior(counts)
        factor, log_det = wishart.draw_factors(q.dof, q.factor, rng)
        mean = q.mean + wishart.draw_deviations(factor, rng) / np.sqrt(q.strength)[:, None]
        constant = -0.5 * (log_det + self.n_features * LOG_2PI) + self._log_jacobian()
        constant -= 0.5 * trace_with(self._noise, factor)
        return quadratic.DrawnScores.make(
            quadratic.FullForm(mean, factor, np.ones(len(mean)), q.anchor), constant
        )

    def log_mode(self, counts: Counts) -> Array:
        """(dof - D - 2) / 2 (log det precision - D) at the mode, with the constants of the rows."""
        q, D = self._posterior(counts), self.n_features
        worth = self._rows_worth(q.dof)
        per_row = self._log_jacobian() - 0.5 * D * LOG_2PI
        return 0.5 * worth * (D * np.log(worth) - q.log_det - D) + per_row * counts["moments"][:, 0]

    # ------------------------------------------------------------------------------ sweeps

    sweeps = True

    def live(self, counts: Counts) -> LiveNormal:
        """Counts, copied, with posteriors that follow them row by row."""
        sums, prior = self.live_sums(counts), self._prior()
        return live_normal(sums, prior, self._noise, self._log_jacobian())

    def live_sums(self, counts: Counts) -> LiveSums:
        """Moments alone."""
        return LiveSums(np.array(counts["moments"]), np.array(counts["anchor"]))

    def can_leave(self, rows: Any) -> bool:
        """Whether none lacks some of its entries."""
        return n_partial(rows) == 0

    def live_rows(self, rows: Any) -> Array:
        """Complete rows (n, D) in the frame."""
        return complete_rows(rows, self.center, self.scale)

    def settle(self, live: LiveSums, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        return {"moments": live.moments, "anchor": live.anchor}

    # ------------------------------------------------------------------------------ empirical Bayes

    def _expected_precision(self, counts: Counts) -> tuple[Array, Array]:
        """E[precision] (K, D, D) in the standardized frame, and rows (K,)."""
        q = self._posterior(counts)
        return wishart.expected_precision(q.dof, q.factor), q.strength - self.mean_strength

    def _with_mean(self, counts: Counts) -> Gaussian:
        """Move the prior mean to the precision-weighted average of the components' averages."""
        strength, prior_mean, _, _ = self._prior()
        q = self._posterior(counts)
        precision, rows = self._expected_precision(counts)
        weight = strength * rows / q.strength
        pull = np.einsum("kde,ke->d", precision, strength * (q.anchor + q.mean - prior_mean))
        mean = prior_mean + np.linalg.solve(np.einsum("k,kde->de", weight, precision), pull)
        return learning.keep_better(
            self, replace(self, mean=mean * self.scale + self.center), counts
        )

    def learn(self, counts: Counts) -> Gaussian:
        """Learn `mean`, `covariance` and `mean_strength`, in turn.

        One component alone cannot tell the mean from its strength.
        """
        if learning.occupied(self._posterior(counts).strength - self.mean_strength) < 2:
            return wishart.learn_covariance(self, counts, self.scale)
        better = wishart.learn_covariance(self._with_mean(counts), counts, self.scale)
        return learning.learn_number(
            better, counts, lambda x: replace(better, mean_strength=x), better.mean_strength
        )

    # ------------------------------------------------------------------------------- means, seeding

    def _in_units(self, q: NormalWishart, rows: Array) -> dict[str, Array]:
        """Mean (K, D) and covariance (K, D, D), B / rows, in the user's units."""
        return {
            "mean": (q.anchor + q.mean) * self.scale + self.center,
            "covariance": wishart.covariances(q.factor, rows, self.scale),
        }

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean (K, D) and covariance (K, D, D) at the mode, in the user's units."""
        q = self._posterior(counts)
        return self._in_units(q, self._rows_worth(q.dof))

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between Gaussians."""
        return wishart.gaussian_divergence(
            first["mean"], first["covariance"], second["mean"], second["covariance"]
        )

    def _whiten(self, rows: Array) -> tuple[Array, float, float]:
        """Whitened z - prior mean (D, n), the prior's strength, and `_rows_worth` of one row."""
        strength, prior_mean, dof, inverse_scale = self._prior()
        scatter, away = inverse_scale + np.diag(self._noise), rows[1 : 1 + self.n_features]
        white = wishart.whiten(scatter, away - prior_mean[:, None])
        return white, strength, float(self._rows_worth(np.asarray(dof + 1.0)))

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) KL from each row's smoothed Gaussian to that of row `index`.

        A row's smoothed scatter is B + c d d' with d = z - prior mean, so everything follows from
        inner products of whitened d.
        """
        white, strength, worth = self._whiten(rows)
        spike = strength / (strength + 1.0)
        between = white - white[:, index : index + 1]
        inner, size = white[:, index] @ between, (white[:, index] ** 2).sum()
        shrink = spike / (1.0 + spike * size)
        squared = ((between**2).sum(0) - shrink * inner**2) / (strength + 1.0) ** 2
        return np.maximum(
            wishart.spiked_divergence(white, index, spike) + 0.5 * worth * squared, 0.0
        )

    def divergences(self, rows: Array, indices: Array) -> Array:
        """(m, n) divergences from several rows; whitened once, with one matrix product."""
        white, strength, worth = self._whiten(rows)
        return wishart.spiked_divergences(
            white, indices, strength / (strength + 1.0), worth / (strength + 1.0) ** 2
        )

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """Rows drawn from the Student t predictive."""
        q, D = self._posterior(counts), self.n_features
        dof = q.dof + 1.0 - D
        root = q.factor * np.sqrt((q.strength + 1.0) / (q.strength * dof))[:, None, None]
        noise = (
            rng.standard_normal((len(labels), D))
            / np.sqrt(rng.chisquare(dof[labels]) / dof[labels])[:, None]
        )
        z = (q.anchor + q.mean)[labels] + np.einsum("nij,nj->ni", root[labels], noise)
        return z * self.scale + self.center

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Missing entries replaced by their regression on the others, averaged over components."""
        return quadratic.impute_full(
            self.mean_log(counts).form, rows, shares, self.center, self.scale
        )

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Mean (K, D) and covariance (K, D, D): posterior expectations."""
        q = self._posterior(counts)
        return self._in_units(q, q.dof - self.n_features - 1.0)
