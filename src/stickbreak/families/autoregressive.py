"""Vectors that depend on the rows before them: matrix-normal-Wishart prior.

x = A p + b + noise, where the context p holds the rows before x; precision ~ Wishart(dof, inverse
scale B); A | precision ~ matrix normal(M, row covariance inverse(precision), column precision V).

Rows are read as (p, d), where d = x - M p. The prior mean of A - M is then zero. And x and p, which
are nearly equal in a densely sampled series, do not cancel in the statistics. The prior of the
intercept is worth `offset_strength` rows at the average (context_mean, offset).

Everything about a component follows from one joint scatter of (p, d), as for a Normal-Wishart, with
the context first. S = L L' holds V in its first block. L holds the regression of d on p (below the
factor of V) and the factor of B (last).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.kernels.quadratic import update_factors
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Edit, log_gamma_rise

from . import learning, quadratic, wishart
from .base import LOG_2PI, require_prior_count
from .lagged import LaggedMoments, prior_coefficients
from .missing import fill_missing, find_missing
from .moments import DEFAULT_SHARE, cholesky, spread
from .prior_scales import column_spread, prior_frame, prior_vector, require_moderate
from .regression import MatrixNormalWishart, PredictiveScores, RegressionForm, Successors

__all__ = ["AutoregressiveGaussian"]


@dataclass(frozen=True, eq=False, repr=False)
class AutoregressiveGaussian(LaggedMoments):
    """Gaussian whose mean is linear in the rows before: vector autoregression.

    The prior is matrix-normal-Wishart. A row holds a value and its context, (x_t, x_{t-1}, ...,
    x_{t-order}): D (1 + order) columns, as `lag_rows` makes them from sequences, or with contexts
    of your own. Densities are those of x_t given the context. A row that lacks any entry is left
    out: it has no evidence and adds no statistics.

    Parameters
    ----------
    order : how many rows back the context reaches. The context has E = order * D columns.
    intercept : True for x = A p + b, False for x = A p through the origin. With an intercept, a fit
        does not depend on the zero of the data.
    mean : prior mean of A, (D, E) or a number. The number times the identity is the prior mean for
        the row just before; it is 0 for earlier rows. Default 1: a random walk.
    mean_strength : how many rows the prior mean of A is worth. Default 1.
    context : expected square of the context about its mean, a number (times the identity), (E,) or
        (E, E). The column precision of A is V = mean_strength * context. Default: diagonal, the
        variances of the columns (mean squares without an intercept).
    context_mean, offset : (E,) and (D,). At the context `context_mean` the prior expects x - mean p
        to be `offset` on average, whatever A is. Default: averages of the data. Only with an
        intercept.
    offset_strength : how many rows the prior offset is worth. Default 0.1.
    dof : degrees of freedom of the Wishart prior, above D + 1. Default D + 2.
    covariance : prior expected covariance of the noise, a number (times the identity), (D,)
        variances or (D, D). Default: diagonal, a quarter of the variances of x - mean p.
    center, scale : (E + D,) frame in which statistics of (p, x - mean p) are kept; set from the
        data. It only affects rounding.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> x = np.zeros((300, 1))
    >>> for t, e in enumerate(np.random.default_rng(0).normal(size=299)):
    ...     x[t + 1] = 0.8 * x[t] + 0.1 * e
    >>> rows, _ = sb.lag_rows(x)
    >>> model = sb.Mixture(1, family=sb.AutoregressiveGaussian()).fit(rows)
    >>> model.posterior_["coefficients"].round(1).tolist()
    [[[0.8]]]
    """

    order: int = 1
    intercept: bool = True
    mean: Any = 1.0
    mean_strength: float = 1.0
    context: Any = None
    context_mean: Any = None
    offset: Any = None
    offset_strength: float = 0.1
    dof: float | None = None
    covariance: Any = None
    center: Any = None
    scale: Any = None
    draws = True
    learned = ("mean_strength", "offset_strength", "covariance")

    def resolve(self, scale: Scale) -> AutoregressiveGaussian:
        """Set priors from averages and variances of the context and of x - mean p.

        dof = D + 2: the prior covariance is worth one row.
        """
        require_whole(order=self.order)
        require_prior_count(mean_strength=self.mean_strength, offset_strength=self.offset_strength)
        D, E = self._sizes(scale.n_features)
        own = replace(self, mean=prior_coefficients(self.mean, D, E))
        require_moderate(scale)
        found = own._measure(scale)
        typical = (
            column_spread(found)
            if self.intercept
            else np.where(found.square > 0, found.square, 1.0)
        )
        average = found.mean if self.intercept else np.zeros(E + D)
        dof = wishart.prior_dof(self.dof, D + 2.0, D, "values")
        own._check_intercept()
        return replace(
            own,
            context=wishart.prior_matrix("context", self.context, typical[:E]),
            context_mean=prior_vector("context_mean", self.context_mean, average[:E]),
            offset=prior_vector("offset", self.offset, average[E:]),
            dof=dof,
            covariance=wishart.prior_matrix(
                "covariance", self.covariance, DEFAULT_SHARE * typical[E:]
            ),
            **prior_frame(self.center, self.scale, average, np.sqrt(typical)),
        )

    def _check_intercept(self) -> None:
        """Refuse what only an intercept has: a regression through the origin has no location."""
        for name in () if self.intercept else ("context_mean", "offset", "center"):
            given = getattr(self, name)
            if given is not None and np.any(np.asarray(given) != 0):
                raise ValueError(
                    f"{name} is for intercept=True; without an intercept it must be 0 "
                    f"or None, got {given!r}"
                )

    # ------------------------------------------------------------------------------------ posterior

    def _prior(self) -> tuple[float, Array, float, Array]:
        """Of the offset: strength, and average (W,); dof; joint scatter diag(V, B) (W, W)."""
        return self._prior_once

    @cached_property
    def _prior_once(self) -> tuple[float, Array, float, Array]:
        assert self.dof is not None
        first = self.mean_strength * np.asarray(self.context)
        second = (self.dof - self.n_values - 1) * np.asarray(self.covariance)
        W = len(first)
        scatter = np.zeros((W + len(second), W + len(second)))
        scatter[:W, :W], scatter[W:, W:] = first, second
        average = (np.concatenate([self.context_mean, self.offset]) - self.center) / self.scale
        return self.offset_strength, average, self.dof, scatter / np.outer(self.scale, self.scale)

    def _posterior(self, counts: Counts) -> MatrixNormalWishart:
        strength, average, dof, prior_scatter = self._prior()
        n, first, second = self._moments(counts)
        anchor, E = counts["anchor"], self.n_context
        mean, scatter, rows = np.zeros_like(anchor), second, np.full(len(n), np.inf)
        if self.intercept:
            rows = strength + n[:, 0]
            mean, scatter, pull = spread(n, first, second, strength, average - anchor)
        factor = cholesky(prior_scatter + scatter, np.einsum("kdd->kd", second))
        if self.intercept:
            update_factors(factor, pull)
        logs = 2.0 * np.log(np.einsum("kdd->kd", factor))
        return MatrixNormalWishart(
            rows, mean, dof + n[:, 0], factor, logs[:, :E].sum(1), logs[:, E:].sum(1), anchor
        )

    @cached_property
    def _at_prior(self) -> MatrixNormalWishart:
        return self._posterior(self.zeros(1))

    def _per_row(self) -> float:
        return self._log_jacobian() - 0.5 * self.n_values * LOG_2PI

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior."""
        q, prior = self._posterior(counts), self._at_prior
        D, rows = self.n_values, counts["moments"][:, 0]
        rise = wishart.log_partition_rise(
            float(prior.dof[0]), float(prior.log_det[0]), rows, q.log_det, D
        )
        stronger = q.log_det_context - prior.log_det_context
        if self.intercept:
            stronger = stronger + np.log1p(rows / self.offset_strength)
        return rise - 0.5 * D * stronger + self._per_row() * rows

    def _form(self, q: MatrixNormalWishart, of_context: Any, of_residual: Any) -> RegressionForm:
        """The form with these weights of the context and residual directions, numbers or (K,)."""
        weight = np.empty(q.mean.shape)
        weight[:, : self.n_context] = np.reshape(of_context, (-1, 1))
        weight[:, self.n_context :] = np.reshape(of_residual, (-1, 1))
        return RegressionForm(q.mean, q.factor, weight, q.anchor)

    def mean_log(self, counts: Counts) -> quadratic.QuadraticScores:
        """E[log N(x | A p + b, precision)].

        The residual's form has weight dof. The context's has weight D: the uncertainty of A.
        """
        q, D = self._posterior(counts), self.n_values
        log_precision = wishart.expected_log_det(q.dof, q.log_det, D)
        constant = 0.5 * (log_precision - D / q.strength) + self._per_row()
        return quadratic.QuadraticScores.make(self._form(q, D, q.dof), constant)

    def log_mean(self, counts: Counts) -> PredictiveScores:
        """Student t with dof + 1 - D degrees of freedom.

        Its shape is B (1 + 1 / strength + (p - center)' V^-1 (p - center)) / dof.
        """
        q, D = self._posterior(counts), self.n_values
        power = 0.5 * (q.dof + 1.0)
        constant = (
            log_gamma_rise(power - 0.5 * D, 0.5 * D)
            + 0.5 * (D * np.log(2.0) - q.log_det)
            + self._per_row()
        )
        return PredictiveScores(
            self._form(q, 0.0, 1.0),
            self._form(q, 1.0, 0.0),
            constant,
            power,
            1.0 + 1.0 / q.strength,
            D,
        )

    def _rows_worth(self, dof: Any) -> Any:
        """N + nu of the mode, in coordinates (root of the precision times [A b], precision).

        In these coordinates a mode exists for every prior.
        """
        return dof - self.n_values - 1.0

    def mode(self, counts: Counts) -> quadratic.QuadraticScores:
        """N(x | A p + b, B / (dof - D - 1)): expected A and b, and the precision at its mode."""
        q, D = self._posterior(counts), self.n_values
        worth = self._rows_worth(q.dof)
        constant = 0.5 * (D * np.log(worth) - q.log_det) + self._per_row()
        return quadratic.QuadraticScores.make(self._form(q, 0.0, worth), constant)

    def draw(self, counts: Counts, rng: np.random.Generator) -> quadratic.DrawnScores:
        """N(x | A p + b, precision) at parameters drawn from the posterior.

        Rows of A - M vary as the noise, its columns as V^-1. With F F' the drawn covariance,
        [A - M, b] differs from its expectation by F times standard normals. Those of A are in
        coordinates where contexts are white, where the joint factor holds the regression.
        """
        q, E = self._posterior(counts), self.n_context
        noise, log_det = wishart.draw_factors(q.dof, q.factor[:, E:, E:], rng)
        factor, mean = q.factor.copy(), q.mean.copy()
        factor[:, E:, :E] += noise @ rng.standard_normal((len(mean), self.n_values, E))
        factor[:, E:, E:] = noise
        mean[:, E:] += wishart.draw_deviations(noise, rng) / np.sqrt(q.strength)[:, None]
        form = self._form(q._replace(mean=mean, factor=factor), 0.0, 1.0)
        return quadratic.DrawnScores.make(form, self._per_row() - 0.5 * log_det)

    def log_mode(self, counts: Counts) -> Array:
        """(dof - D - 1) / 2 (log det precision - D) at the mode, plus the constants of the rows."""
        q, D = self._posterior(counts), self.n_values
        worth = self._rows_worth(q.dof)
        return (
            0.5 * worth * (D * np.log(worth) - q.log_det - D)
            + self._per_row() * counts["moments"][:, 0]
        )

    # ------------------------------------------------------------------------------ empirical Bayes

    def _expected_precision(self, counts: Counts) -> tuple[Array, Array]:
        """E[precision] (K, D, D) in the standardized frame, and rows (K,)."""
        q, E = self._posterior(counts), self.n_context
        return wishart.expected_precision(q.dof, q.factor[:, E:, E:]), counts["moments"][:, 0]

    def learn(self, counts: Counts) -> AutoregressiveGaussian:
        """Learn `covariance`, then `mean_strength` and `offset_strength`; prior means stay."""
        better = wishart.learn_covariance(self, counts, self.scale[self.n_context :])
        # a single offset says nothing about the spread of offsets
        knows_offsets = self.intercept and learning.occupied(counts["moments"][:, 0]) >= 2
        for name in ("mean_strength", "offset_strength")[: 1 + knows_offsets]:
            make = partial(_with_number, better, name)
            better = learning.learn_number(better, counts, make, getattr(better, name))
        return better

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Joint mean (K, W) and covariance (K, W, W) of (context, departure) at the mode.

        Both are in the user's units.
        """
        q = self._posterior(counts)
        return {
            "mean": (q.anchor + q.mean) * self.scale + self.center,
            "covariance": wishart.covariances(q.factor, self._rows_worth(q.dof), self.scale),
        }

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between values given their context, averaged over the contexts of the first.

        It is the KL of the joint distributions minus that of the contexts.
        """
        a, b, E = first, second, self.n_context
        joint = wishart.gaussian_divergence(a["mean"], a["covariance"], b["mean"], b["covariance"])
        context = [part for m in (a, b) for part in (m["mean"][:, :E], m["covariance"][:, :E, :E])]
        return joint - wishart.gaussian_divergence(*context)

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) divergence of each row's smoothed regression from that of row `index`."""
        return self.divergences(rows, np.array([index]))[0]

    def divergences(self, rows: Array, indices: Array) -> Array:
        """(m, n) divergences from several rows.

        A row's scatter is diag(V, B) + c z z', whose whitened form has two inner products.
        """
        strength, average, dof, scatter = self._prior()
        white = wishart.whiten(scatter, rows[1 : 1 + self.n_features] - average[:, None])
        spike, weight = 1.0, 0.0
        if self.intercept:
            spike = strength / (strength + 1.0)
            weight = self._rows_worth(dof + 1.0) / (strength + 1.0) ** 2
        joint, context = (
            wishart.spiked_divergences(part, indices, spike, weight)
            for part in (white, white[: self.n_context])
        )
        return np.maximum(joint - context, 0.0)

    # ---------------------------------------------------------------------------------- for readers

    def successors(self, counts: Counts) -> Successors:
        """The sampler of values that follow contexts; for sequences, made once for all steps."""
        return Successors.make(self, self._posterior(counts), counts)

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """Rows (x, p): contexts like those the component has seen, and values drawn given them.

        The family has no model of contexts. Here they are Gaussian, with the average and covariance
        of those seen; values are drawn from the posterior predictive. In a sequence the context is
        the values before: see `sample_next`.
        """
        successors = self.successors(counts)
        contexts = successors.draw_contexts(labels, rng)
        return np.concatenate([successors.draw(labels, contexts, rng), contexts], axis=1)

    def sample_next(
        self, counts: Counts, labels: Array, contexts: Array, rng: np.random.Generator
    ) -> Array:
        """(n, D) a value from the posterior predictive for each label and context (n, E)."""
        return self.successors(counts).draw(labels, np.asarray(contexts, dtype=float), rng)

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Missing entries of values, replaced by regression on their other entries and the context.

        The regression is averaged over components. Missing contexts stay missing, and so do the
        values that follow them.
        """
        values, D, E = np.asarray(rows, dtype=float), self.n_values, self.n_context
        if find_missing(values) is None:
            return rows
        form = self.mean_log(counts).form
        filled = quadratic.impute_full(
            form, self._arrange(values, partly=True), shares, self.center, self.scale
        )
        expected = filled[:, E:] + values[:, D:] @ self.mean.T
        return np.concatenate([fill_missing(values[:, :D], expected), values[:, D:]], axis=1)

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Posterior expectations: coefficients (K, D, E), intercept (K, D), covariance (K, D, D).

        covariance : of the noise.
        intercept : only if the family has one.
        context_mean (K, E), context_covariance (K, E, E) : of the contexts the component has seen;
            the prior counts among them.
        """
        q, found, E = self._posterior(counts), self.successors(counts), self.n_context
        factor = q.factor[:, E:, E:] * self.scale[E:, None]
        intercept = {
            "intercept": found.value - np.einsum("kde,ke->kd", found.coefficients, found.center)
        }
        return {
            "coefficients": found.coefficients,
            **(intercept if self.intercept else {}),
            "covariance": factor
            @ factor.transpose(0, 2, 1)
            / self._rows_worth(q.dof)[:, None, None],
            "context_mean": found.average,
            "context_covariance": found.spread @ found.spread.transpose(0, 2, 1),
        }

    def refine(self, counts: Counts) -> Edit | None:
        """New anchors for components that are too far from theirs; none without an intercept."""
        return super().refine(counts) if self.intercept else None


def _with_number(family: AutoregressiveGaussian, name: str, value: float) -> AutoregressiveGaussian:
    return replace(family, **{name: value})  # type: ignore[arg-type]
