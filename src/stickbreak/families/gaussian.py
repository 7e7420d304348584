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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln, multigammaln

from stickbreak.data import Scale
from stickbreak.kernels.quadratic import update_factors
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Edit

from . import learning, quadratic
from .base import LOG_2PI, column_spread, prior_frame, prior_vector, require_positive

if TYPE_CHECKING:
    from .fixedvariance import FixedVarianceGaussian

__all__ = [
    "Gaussian", "expected_precision", "fixed_variance", "gaussian_divergence", "learn_covariance",
    "prior_matrix",
    "spiked_divergence", "spiked_divergences",
]  # fmt: skip

DEFAULT_SHARE = 0.25  # of a column's variance that we expect within one component


def fixed_variance(family: Any, variance: Array) -> FixedVarianceGaussian:
    """A family of known variances (D,) with the prior mean and the frame of another family."""
    from .fixedvariance import FixedVarianceGaussian  # here: that file imports DEFAULT_SHARE

    return FixedVarianceGaussian(
        np.asarray(variance), family.mean, family.mean_strength, family.center, family.scale
    )


class NormalWishart(NamedTuple):
    """Posterior in the standardized frame; means are relative to the anchors."""

    strength: Array  # (K,)
    mean: Array  # (K, D)
    dof: Array  # (K,)
    factor: Array  # (K, D, D) lower Cholesky factor of the inverse scale
    log_det: Array  # (K,) of the inverse scale
    anchor: Array  # (K, D)


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(quadratic.FullMoments):
    """Gaussian with full covariance, Normal-Wishart prior.

    Parameters
    ----------
    mean : prior mean, a number or (D,). Default: the columns' means.
    mean_strength : how many rows the prior mean is worth. Default 0.01.
    dof : degrees of freedom of the Wishart prior, above D + 1. Default D + 3.
    covariance : prior expected covariance, a number (times the identity), (D,) variances or (D, D).
        Default: diagonal, a quarter of each column's variance.
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
    center: Any = None
    scale: Any = None
    draws = True
    learned = ("mean", "mean_strength", "covariance")

    def resolve(self, scale: Scale) -> Gaussian:
        """Prior mean = column means; covariance = diag(0.25 * column variances); dof = D + 3."""
        require_positive(mean_strength=self.mean_strength)
        variance = column_spread(scale)
        dof = scale.n_features + 3.0 if self.dof is None else float(self.dof)
        if not dof > scale.n_features + 1:
            raise ValueError(
                "dof must be above the number of columns plus one "
                f"({scale.n_features + 1}); got {dof}"
            )
        return replace(
            self,
            mean=prior_vector("mean", self.mean, scale.mean),
            dof=dof,
            covariance=prior_matrix("covariance", self.covariance, DEFAULT_SHARE * variance),
            **prior_frame(self.center, self.scale, scale.mean, np.sqrt(variance)),
        )

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

    def _posterior(self, counts: Counts) -> NormalWishart:
        strength, prior_mean, dof, inverse_scale = self._prior()
        moments, anchor, D = counts["moments"], counts["anchor"], self.n_features
        n, second = moments[:, 0], quadratic.unpack_symmetric(moments[:, 1 + D :], D)
        mean, scatter, pull = quadratic.spread(
            n[:, None], moments[:, 1 : 1 + D], second, strength, prior_mean - anchor
        )
        factor = quadratic.cholesky(inverse_scale + scatter, np.einsum("kdd->kd", second))
        # Not added to the scatter: a long pull would drown the other directions.
        update_factors(factor, pull)
        log_det = 2.0 * np.log(np.einsum("kdd->kd", factor)).sum(1)
        return NormalWishart(strength + n, mean, dof + n, factor, log_det, anchor)

    def _log_partition(self, strength: Any, dof: Any, log_det: Any) -> Any:
        D = self.n_features
        wishart = (
            0.5 * D * dof * np.log(2.0)
            + multigammaln(0.5 * np.asarray(dof), D)
            - 0.5 * dof * log_det
        )
        return 0.5 * D * (LOG_2PI - np.log(strength)) + wishart

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior."""
        q = self._posterior(counts)
        strength, _, dof, inverse_scale = self._prior()
        prior = self._log_partition(strength, dof, np.linalg.slogdet(inverse_scale)[1])
        per_row = self._log_jacobian() - 0.5 * self.n_features * LOG_2PI
        return (
            self._log_partition(q.strength, q.dof, q.log_det)
            - prior
            + per_row * counts["moments"][:, 0]
        )

    def mean_log(self, counts: Counts) -> quadratic.QuadraticScores:
        """E[log N(x | mean, precision)]."""
        q, D = self._posterior(counts), self.n_features
        log_precision = (
            digamma(0.5 * (q.dof[:, None] - np.arange(D))).sum(1) + D * np.log(2.0) - q.log_det
        )
        constant = 0.5 * (log_precision - D * LOG_2PI - D / q.strength) + self._log_jacobian()
        return quadratic.QuadraticScores.make(
            quadratic.FullForm(q.mean, q.factor, q.dof, q.anchor), constant
        )

    def log_mean(self, counts: Counts) -> quadratic.StudentScores:
        """Student t with dof + 1 - D degrees of freedom.

        Its shape is B (strength + 1) / (strength (dof + 1 - D)).
        """
        q, D = self._posterior(counts), self.n_features
        dof = q.dof + 1.0 - D
        weight = q.strength * dof / (q.strength + 1.0)
        log_det = q.log_det - D * np.log(weight)
        power = 0.5 * (dof + D)
        constant = (
            gammaln(power)
            - gammaln(0.5 * dof)
            - 0.5 * D * np.log(dof * np.pi)
            - 0.5 * log_det
            + self._log_jacobian()
        )
        return quadratic.StudentScores(
            quadratic.FullForm(q.mean, q.factor, weight, q.anchor), constant, power, dof
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
        return quadratic.QuadraticScores.make(
            quadratic.FullForm(q.mean, q.factor, worth, q.anchor), constant
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> quadratic.DrawnScores:
        """N(x | mean, precision) at parameters drawn from the posterior."""
        q = self._posterior(counts)
        factor, log_det = quadratic.draw_factors(q.dof, q.factor, rng)
        mean = q.mean + quadratic.draw_deviations(factor, rng) / np.sqrt(q.strength)[:, None]
        constant = -0.5 * (log_det + self.n_features * LOG_2PI) + self._log_jacobian()
        return quadratic.DrawnScores.make(
            quadratic.FullForm(mean, factor, np.ones(len(mean)), q.anchor), constant
        )

    def log_mode(self, counts: Counts) -> Array:
        """(dof - D - 2) / 2 (log det precision - D) at the mode, with the constants of the rows."""
        q, D = self._posterior(counts), self.n_features
        worth = self._rows_worth(q.dof)
        per_row = self._log_jacobian() - 0.5 * D * LOG_2PI
        return 0.5 * worth * (D * np.log(worth) - q.log_det - D) + per_row * counts["moments"][:, 0]

    # ------------------------------------------------------------------------------ empirical Bayes

    def _expected_precision(self, counts: Counts) -> tuple[Array, Array]:
        """E[precision] (K, D, D) in the standardized frame, and rows (K,)."""
        q = self._posterior(counts)
        return expected_precision(q.dof, q.factor), q.strength - self.mean_strength

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
            return learn_covariance(self, counts, self.scale)
        better = learn_covariance(self._with_mean(counts), counts, self.scale)
        return learning.learn_number(
            better, counts, lambda x: replace(better, mean_strength=x), better.mean_strength
        )

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean (K, D) and covariance (K, D, D) at the mode, in the user's units."""
        q = self._posterior(counts)
        scatter = q.factor @ q.factor.transpose(0, 2, 1)
        covariance = (
            scatter / self._rows_worth(q.dof)[:, None, None] * np.outer(self.scale, self.scale)
        )
        return {"mean": (q.anchor + q.mean) * self.scale + self.center, "covariance": covariance}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between Gaussians."""
        return gaussian_divergence(
            first["mean"], first["covariance"], second["mean"], second["covariance"]
        )

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) KL from each row's smoothed Gaussian to that of row `index`.

        A row's smoothed scatter is B + c d d' with d = z - prior mean, so everything follows from
        inner products of whitened d.
        """
        strength, prior_mean, dof, inverse_scale = self._prior()
        away = rows[1 : 1 + self.n_features] - prior_mean[:, None]
        white = solve_triangular(
            np.linalg.cholesky(inverse_scale), away, lower=True, check_finite=False
        )
        worth = float(self._rows_worth(np.asarray(dof + 1.0)))
        spike = strength / (strength + 1.0)
        between = white - white[:, index : index + 1]
        inner, size = white[:, index] @ between, (white[:, index] ** 2).sum()
        shrink = spike / (1.0 + spike * size)
        squared = ((between**2).sum(0) - shrink * inner**2) / (strength + 1.0) ** 2
        return np.maximum(spiked_divergence(white, index, spike) + 0.5 * worth * squared, 0.0)

    def divergences(self, rows: Array, indices: Array) -> Array:
        """(m, n) divergences from several rows; whitened once, with one matrix product."""
        strength, prior_mean, dof, inverse_scale = self._prior()
        away = rows[1 : 1 + self.n_features] - prior_mean[:, None]
        white = solve_triangular(
            np.linalg.cholesky(inverse_scale), away, lower=True, check_finite=False
        )
        worth = float(self._rows_worth(np.asarray(dof + 1.0)))
        return spiked_divergences(
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
        scatter = q.factor @ q.factor.transpose(0, 2, 1)
        covariance = (
            scatter
            / (q.dof - self.n_features - 1.0)[:, None, None]
            * np.outer(self.scale, self.scale)
        )
        return {"mean": (q.anchor + q.mean) * self.scale + self.center, "covariance": covariance}

    def refine(self, counts: Counts) -> Edit | None:
        """New anchors for components that are too far from theirs."""
        strength, prior_mean, _, inverse_scale = self._prior()
        moments, anchor, D = counts["moments"], counts["anchor"], self.n_features
        n, first, second = (
            moments[:, :1],
            moments[:, 1 : 1 + D],
            quadratic.unpack_symmetric(moments[:, 1 + D :], D),
        )
        _, scatter, _ = quadratic.spread(n, first, second, strength, prior_mean - anchor)
        return quadratic.far_averages(n, first, inverse_scale + scatter, anchor)


def prior_matrix(name: str, value: Any, default: Array) -> Array:
    """Prior covariance (D, D) from a number, variances (D,), a matrix, or the default variances."""
    matrix = np.asarray(default if value is None else value, dtype=float)
    D = len(default)
    if matrix.ndim < 2:
        if matrix.ndim == 1 and len(matrix) != D:
            raise ValueError(f"{name} has {len(matrix)} entries but the data have {D} columns")
        matrix = np.diag(np.broadcast_to(matrix, D))
    if matrix.shape != (D, D):
        raise ValueError(f"{name} has shape {matrix.shape} but the data have {D} columns")
    if (
        not np.isfinite(matrix).all()
        or not np.allclose(matrix, matrix.T)
        or np.linalg.eigvalsh(matrix)[0] <= 0
    ):
        raise ValueError(f"{name} must be symmetric and positive definite")
    return matrix


def expected_precision(dof: Array, factor: Array) -> Array:
    """(K, D, D) dof * inverse(factor factor'): the mean of Wishart posteriors."""
    inverse = np.linalg.inv(factor)
    return dof[:, None, None] * (inverse.transpose(0, 2, 1) @ inverse)


def learn_covariance(family: Any, counts: Counts, scale: Array) -> Any:
    """A family with Wishart prior and a better prior covariance.

    First EM steps, B = dof K inverse(sum E[precision]), then the scale of B.

    EM alone is slow when components have few rows: their posteriors follow the prior and hold it
    back, mostly in its scale. No variance falls below `NARROWEST` times that of its column, because
    a component without variance would take B to zero.

    scale (D,) : units of the frame of `family._expected_precision`.
    """
    frame, worth = np.outer(scale, scale), family.dof - len(scale) - 1.0
    floor = min(learning.NARROWEST, float(np.linalg.eigvalsh(family.covariance / frame)[0]))
    for _ in range(learning.EM_STEPS):
        precision, rows = family._expected_precision(counts)
        seen = rows > quadratic.EMPTY
        if not seen.any():
            return family
        values, axes = np.linalg.eigh(
            family.dof * seen.sum() / worth * np.linalg.inv(precision[seen].sum(0))
        )
        covariance = (axes * np.maximum(values, floor)) @ axes.T * frame
        family = learning.keep_better(family, replace(family, covariance=covariance), counts)
    lowest = floor / float(np.linalg.eigvalsh(family.covariance / frame)[0])
    scaled = lambda x: replace(family, covariance=x * family.covariance)
    return learning.learn_number(family, counts, scaled, 1.0, max(lowest, 0.1), 10.0)


def gaussian_divergence(
    mean_a: Array, covariance_a: Array, mean_b: Array, covariance_b: Array
) -> Array:
    """(J, K) KL(N(mean_a, covariance_a) || N(mean_b, covariance_b))."""
    precision = np.linalg.inv(covariance_b)
    away = mean_a[:, None, :] - mean_b[None, :, :]
    squared = np.einsum("jkd,kde,jke->jk", away, precision, away)
    trace = np.einsum("kde,jed->jk", precision, covariance_a)
    log_ratio = (
        np.linalg.slogdet(covariance_b)[1][None, :] - np.linalg.slogdet(covariance_a)[1][:, None]
    )
    return 0.5 * (trace + squared - mean_a.shape[1] + log_ratio)


def spiked_divergence(white: Array, index: int, spike: float) -> Array:
    """(n,) (tr(M) - logdet(M) - D) / 2, where M = (I + s y_j y_j')^-1 (I + s y_n y_n').

    white : whitened rows y (D, n). spike : s. index : j.
    """
    sizes, inner = (white**2).sum(0), white[:, index] @ white
    size = sizes[index]
    shrink = spike / (1.0 + spike * size)
    trace = spike * sizes - shrink * size - shrink * spike * inner**2
    return 0.5 * (trace + np.log1p(spike * size) - np.log1p(spike * sizes))


def spiked_divergences(white: Array, indices: Array, spike: float, weight: float) -> Array:
    """(m, n) spiked_divergence from rows `indices`, plus weight / 2 * d' (I + s y_j y_j')^-1 d.

    Here d = y - y_j. With h = y'y_j and c = s / (1 + s |y_j|^2) this is a quadratic in h, so it
    takes one matrix product and few passes over (m, n).
    """
    sizes, inner = (white**2).sum(0), white[:, indices].T @ white
    size = sizes[indices][:, None]
    shrink = spike / (1.0 + spike * size)
    own = 0.5 * ((spike + weight) * sizes - np.log1p(spike * sizes))
    theirs = 0.5 * (np.log1p(spike * size) - shrink * size + weight * size * (1.0 - shrink * size))
    out: Array = -0.5 * shrink * (spike + weight) * inner
    out -= weight * (1.0 - shrink * size)
    out *= inner
    out += own
    out += theirs
    return np.maximum(out, 0.0, out=out)
