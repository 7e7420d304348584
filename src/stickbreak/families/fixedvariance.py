"""Vectors with unknown mean and known variance: Gaussian prior on the mean.

mean_d ~ Normal(prior mean_d, variance_d / mean_strength).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.kernels.live_columns import LiveMeans
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Edit

from . import learning
from .base import LOG_2PI, require_positive, require_prior_count
from .columns import ColumnMoments, ColumnScores, DiagonalForm
from .moments import DEFAULT_SHARE, EMPTY, far_averages, spread
from .prior_scales import column_spread, prior_frame, prior_vector

__all__ = ["FixedVarianceGaussian", "fixed_variance"]


@dataclass(frozen=True, eq=False, repr=False)
class FixedVarianceGaussian(ColumnMoments):
    """Gaussian with known variances and independent columns: soft k-means with a prior.

    Parameters
    ----------
    variance : known variance of a component, a number or (D,). Default: a quarter of each column's
        variance.
    mean : prior mean, a number or (D,). Default: the columns' means.
    mean_strength : how many rows the prior mean is worth. Default 0.01.
    center, scale : (D,) frame in which statistics are kept; set from the data. It only affects
        rounding.
    """

    variance: Any = None
    mean: Any = None
    mean_strength: float = 0.01
    center: Any = None
    scale: Any = None
    draws = True
    learned = ("mean", "mean_strength")

    def resolve(self, scale: Scale) -> FixedVarianceGaussian:
        """Variance = 0.25 * column variances; prior mean = column means."""
        require_prior_count(mean_strength=self.mean_strength)
        columns = column_spread(scale)
        variance = prior_vector("variance", self.variance, DEFAULT_SHARE * columns)
        require_positive(variance=float(variance.min()))
        return replace(
            self,
            variance=variance,
            mean=prior_vector("mean", self.mean, scale.mean),
            **prior_frame(self.center, self.scale, scale.mean, np.sqrt(columns)),
        )

    # ------------------------------------------------------------------------------------ posterior

    def _variance(self) -> Array:
        return self.variance / self.scale**2

    def _posterior(self, counts: Counts) -> tuple[Array, Array, Array]:
        """Strength (K, D), mean (K, D) and scatter (K, D), the pull included.

        Strength is (K, 1) if nothing is missing. The mean is relative to the anchor, and the
        scatter is about the mean.
        """
        n, first, second = self._moments(counts)
        prior = (self.mean - self.center) / self.scale - counts["anchor"]
        mean, scatter, pull = spread(n, first, second, self.mean_strength, prior)
        return self.mean_strength + n, mean, scatter + pull**2

    def _per_row(self) -> Array:
        """(D,) log density of a column at its mean, in the user's units."""
        return -0.5 * (LOG_2PI + np.log(self.variance))

    def _log_rows(self, counts: Counts) -> Array:
        """(K, D) log density of the rows at the posterior mean, with the prior's pull."""
        n, _, _ = self._moments(counts)
        _, _, scatter = self._posterior(counts)
        return self._per_row() * n - 0.5 * scatter / self._variance()

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log marginal likelihood.

        The sum of log(strength / (strength + n)) / 2 - scatter / (2 variance) + constants.
        """
        strength, _, _ = self._posterior(counts)
        return (self._log_rows(counts) + 0.5 * np.log(self.mean_strength / strength)).sum(1)

    def _scores(self, mean: Array, anchor: Array, constant: Array, widen: Any) -> ColumnScores:
        precision = np.broadcast_to(1.0 / (self._variance() * widen), mean.shape)
        return ColumnScores.make(DiagonalForm(mean, precision, anchor), constant)

    def mean_log(self, counts: Counts) -> ColumnScores:
        """E[log N(x | mean, variance)].

        It is the density at the posterior mean, less 1 / (2 strength) for each column.
        """
        strength, mean, _ = self._posterior(counts)
        return self._scores(mean, counts["anchor"], self._per_row() - 0.5 / strength, 1.0)

    def log_mean(self, counts: Counts) -> ColumnScores:
        """N(x | mean, variance (1 + 1 / strength))."""
        strength, mean, _ = self._posterior(counts)
        widen = 1.0 + 1.0 / strength
        return self._scores(mean, counts["anchor"], self._per_row() - 0.5 * np.log(widen), widen)

    def mode(self, counts: Counts) -> ColumnScores:
        """N(x | posterior mean, variance)."""
        _, mean, _ = self._posterior(counts)
        return self._scores(mean, counts["anchor"], self._per_row(), 1.0)

    def draw(self, counts: Counts, rng: np.random.Generator) -> ColumnScores:
        """N(x | mean, variance) at means drawn from the posterior."""
        strength, mean, _ = self._posterior(counts)
        drawn = mean + rng.standard_normal(mean.shape) * np.sqrt(self._variance() / strength)
        return self._scores(drawn, counts["anchor"], self._per_row(), 1.0)

    def log_mode(self, counts: Counts) -> Array:
        """Log joint at the posterior mean, up to a constant of the prior."""
        return self._log_rows(counts).sum(1)

    def live(self, counts: Counts) -> LiveMeans:
        """Counts, copied, for a sweep."""
        rows, of_columns, is_partial = self._live_counts(counts)
        _, first, _ = self._moments(counts)
        first, anchor = (np.array(table.T, order="C") for table in (first, counts["anchor"]))
        prior = np.asarray((self.mean - self.center) / self.scale)
        return LiveMeans(
            rows, of_columns, first, anchor, is_partial, float(self.mean_strength), prior,
            np.asarray(self._variance()), self._per_row(), EMPTY,
        )  # fmt: skip

    def learn(self, counts: Counts) -> FixedVarianceGaussian:
        """Learn `mean`, then `mean_strength`; the variance is known.

        One component alone cannot tell the two apart.
        """
        strength, mean, _ = self._posterior(counts)
        rows = strength - self.mean_strength
        if learning.occupied(rows) < 2:
            return self
        weight = (rows / strength).reshape(len(mean), -1).sum(0)
        prior = (self.mean - self.center) / self.scale
        found = prior + (counts["anchor"] + mean - prior).sum(0) / weight
        better = learning.keep_better(
            self, replace(self, mean=found * self.scale + self.center), counts
        )
        return learning.learn_number(
            better, counts, lambda x: replace(better, mean_strength=x), better.mean_strength
        )

    # ------------------------------------------------------------------------------- means, seeding

    def _mean(self, counts: Counts) -> Array:
        _, mean, _ = self._posterior(counts)
        return (counts["anchor"] + mean) * self.scale + self.center

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean (K, D) in the user's units."""
        return {"mean": self._mean(counts)}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) squared distance over twice the variance."""
        away = first["mean"][:, None] - second["mean"][None]
        return 0.5 * (away**2 / self.variance).sum(-1)

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) squared distance of smoothed means over twice the variance."""
        z = rows[1 : 1 + self.n_features]
        away = (z - z[:, index : index + 1]) / (1.0 + self.mean_strength)
        return 0.5 * (1.0 / self._variance()) @ away**2

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """Rows of the Gaussian predictive."""
        strength, _, _ = self._posterior(counts)
        width = np.sqrt(self.variance * (1.0 + 1.0 / strength[labels]))
        return self._mean(counts)[labels] + width * rng.standard_normal(
            (len(labels), self.n_features)
        )

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Mean (K, D): posterior expectation; variance (K, D): the known one."""
        mean = self._mean(counts)
        return {"mean": mean, "variance": np.tile(self.variance, (len(mean), 1))}

    def refine(self, counts: Counts) -> Edit | None:
        """New anchors for components that are too far from theirs."""
        n, first, _ = self._moments(counts)
        known = np.maximum(n, 1.0) * self._variance()
        return far_averages(n, first, known, counts["anchor"])


def fixed_variance(family: Any, variance: Array) -> FixedVarianceGaussian:
    """A family of known variances (D,) with the prior mean and the frame of another family."""
    return FixedVarianceGaussian(
        np.asarray(variance), family.mean, family.mean_strength, family.center, family.scale
    )
