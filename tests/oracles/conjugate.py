"""Conjugate models with rich priors, straight from weighted rows.

Every model has, for rows X (N, D), weights w (N,) >= 0 and one row x (D,):

    log_marginal(X, w)              sum_n w_n h(x_n) + logZ(posterior) - logZ(prior);
                                    for w in {0, 1} the log marginal likelihood of the rows with w =
                                    1
    expected_log_likelihood(x, X, w)  E[log p(x | phi)] under the posterior given the weighted rows
    log_predictive(x, X, w)         log E[p(x | phi)] under the same posterior

with all constants (2 pi, x!, multinomial coefficients) kept.  The Gaussian models have the same
three with the suffix `_mp`, in 50-digit arithmetic (module `conjugate_mp`), returning an mpmath
number.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any

import mpmath as mp
import numpy as np
from scipy import stats
from scipy.special import digamma, gammaln, multigammaln

from oracles import conjugate_mp as cmp

LOG2PI = log(2.0 * pi)
Array = np.ndarray


def two_pass(X: Array, w: Array) -> tuple[float, Array, Array]:
    """Total weight, weighted mean (D,), scatter about it (D, D); the mean of nothing is 0."""
    X, w = np.asarray(X, dtype=float), np.asarray(w, dtype=float)
    D, total = X.shape[1], float(sum(w))
    mean, scatter = np.zeros(D), np.zeros((D, D))
    if total == 0.0:
        return total, mean, scatter
    for x, wn in zip(X, w, strict=True):
        mean = mean + wn * x / total
    for x, wn in zip(X, w, strict=True):
        scatter = scatter + wn * np.outer(x - mean, x - mean)
    return total, mean, scatter


def log_wishart(n: float, B: Array) -> float:
    """(nD/2) log 2 + log Gamma_D(n/2) - (n/2) log|B|."""
    D = B.shape[0]
    return float(n * D / 2 * log(2.0) + multigammaln(n / 2, D) - n / 2 * np.linalg.slogdet(B)[1])


def expected_logdet(n: float, B: Array) -> float:
    """sum_d psi((n+1-d)/2) + D log 2 - log|B|."""
    D = B.shape[0]
    return float(
        sum(digamma((n + 1 - d) / 2) for d in range(1, D + 1))
        + D * log(2.0)
        - np.linalg.slogdet(B)[1]
    )


@dataclass(frozen=True)
class Gaussian:
    """L ~ Wishart(dof n, inverse scale B), m | L ~ N(m0, (kappa L)^-1), x ~ N(m, L^-1); m0 (D,), B
    (D, D).
    """

    m0: Array
    kappa: float
    n: float
    B: Array

    def posterior(self, X: Array, weights: Array) -> tuple[Array, float, float, Array]:
        """(m, kappa, n, B): B + scatter + kappa N/(kappa+N) (mean - m0)(mean - m0)'."""
        N, mean, scatter = two_pass(X, weights)
        shift = mean - self.m0
        k = self.kappa + N
        return (
            self.m0 + N / k * shift,
            k,
            self.n + N,
            self.B + scatter + self.kappa * N / k * np.outer(shift, shift),
        )

    def log_marginal(self, X: Array, weights: Array) -> float:
        _, k, n, B = self.posterior(X, weights)
        D, N = len(self.m0), float(sum(weights))
        wishart = log_wishart(n, B) - log_wishart(self.n, self.B)
        return float(-N * D / 2 * LOG2PI + D / 2 * log(self.kappa / k) + wishart)

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        m, k, n, B = self.posterior(X, weights)
        D = len(m)
        spread = D / k + n * (x - m) @ np.linalg.solve(B, x - m)
        return float(expected_logdet(n, B) / 2 - D * LOG2PI / 2 - spread / 2)

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        m, k, n, B = self.posterior(X, weights)
        dof = n - len(m) + 1
        return float(stats.multivariate_t.logpdf(x, m, B * (k + 1) / (k * dof), dof))

    def log_marginal_mp(self, X: Array, weights: Array) -> Any:
        return cmp.nw_log_marginal(self.m0, self.kappa, self.n, self.B, X, weights)

    def expected_log_likelihood_mp(self, x: Array, X: Array, weights: Array) -> Any:
        return cmp.nw_expected(self.m0, self.kappa, self.n, self.B, x, X, weights)

    def log_predictive_mp(self, x: Array, X: Array, weights: Array) -> Any:
        return cmp.nw_predictive(self.m0, self.kappa, self.n, self.B, x, X, weights)


@dataclass(frozen=True)
class DiagonalGaussian:
    """l_d ~ Gamma(shape a/2, rate b_d/2), m_d | l_d ~ N(m0_d, 1/(kappa l_d)), x_d ~ N(m_d, 1/l_d);
    m0, b (D,).
    """

    m0: Array
    kappa: float
    a: float
    b: Array

    def posterior(self, X: Array, weights: Array) -> tuple[Array, float, float, Array]:
        """(m (D,), kappa, a, b (D,)): b_d + scatter_dd + kappa N/(kappa+N) (mean_d - m0_d)^2."""
        N, mean, scatter = two_pass(X, weights)
        shift = mean - self.m0
        k = self.kappa + N
        return (
            self.m0 + N / k * shift,
            k,
            self.a + N,
            self.b + np.diag(scatter) + self.kappa * N / k * shift**2,
        )

    def log_marginal(self, X: Array, weights: Array) -> float:
        _, k, a, b = self.posterior(X, weights)
        total, N = 0.0, float(sum(weights))
        for d in range(len(self.m0)):
            gamma_hat = lgamma(a / 2) - a / 2 * log(b[d] / 2)
            gamma_bar = lgamma(self.a / 2) - self.a / 2 * log(self.b[d] / 2)
            total += -N / 2 * LOG2PI + log(self.kappa / k) / 2 + gamma_hat - gamma_bar
        return total

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        m, k, a, b = self.posterior(X, weights)
        e_log = digamma(a / 2) - np.log(b / 2)
        return float(sum(e_log / 2 - LOG2PI / 2 - (1 / k + a / b * (x - m) ** 2) / 2))

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        m, k, a, b = self.posterior(X, weights)
        return float(sum(stats.t.logpdf(x, a, m, np.sqrt(b / a * (1 + 1 / k)))))

    def _column_mp(self, d: int) -> tuple[Any, float, float, Any]:
        """One dimension as Normal-Wishart with D = 1: Wishart_1(a, b) = Gamma(a/2, rate b/2)."""
        return [self.m0[d]], self.kappa, self.a, [[self.b[d]]]

    def log_marginal_mp(self, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            return mp.fsum(
                cmp.nw_log_marginal(*self._column_mp(d), X[:, [d]], weights)
                for d in range(len(self.m0))
            )

    def expected_log_likelihood_mp(self, x: Array, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            D = len(self.m0)
            return mp.fsum(
                cmp.nw_expected(*self._column_mp(d), [x[d]], X[:, [d]], weights) for d in range(D)
            )

    def log_predictive_mp(self, x: Array, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            D = len(self.m0)
            return mp.fsum(
                cmp.nw_predictive(*self._column_mp(d), [x[d]], X[:, [d]], weights) for d in range(D)
            )


@dataclass(frozen=True)
class ZeroMeanGaussian:
    """L ~ Wishart(dof n, inverse scale B (D, D)), x ~ N(0, L^-1)."""

    n: float
    B: Array

    def posterior(self, X: Array, weights: Array) -> tuple[float, Array]:
        """(n + N, B + sum w x x')."""
        B = np.array(self.B, dtype=float)
        for x, w in zip(X, weights, strict=True):
            B = B + w * np.outer(x, x)
        return self.n + float(sum(weights)), B

    def log_marginal(self, X: Array, weights: Array) -> float:
        n, B = self.posterior(X, weights)
        return float(
            -(n - self.n) * len(B) / 2 * LOG2PI + log_wishart(n, B) - log_wishart(self.n, self.B)
        )

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        n, B = self.posterior(X, weights)
        return float(
            -len(B) * LOG2PI / 2 + expected_logdet(n, B) / 2 - n / 2 * x @ np.linalg.solve(B, x)
        )

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        n, B = self.posterior(X, weights)
        dof = n - len(B) + 1
        return float(stats.multivariate_t.logpdf(x, np.zeros(len(B)), B / dof, dof))

    def log_marginal_mp(self, X: Array, weights: Array) -> Any:
        return cmp.zm_log_marginal(self.n, self.B, X, weights)

    def expected_log_likelihood_mp(self, x: Array, X: Array, weights: Array) -> Any:
        return cmp.zm_expected(self.n, self.B, x, X, weights)

    def log_predictive_mp(self, x: Array, X: Array, weights: Array) -> Any:
        return cmp.zm_predictive(self.n, self.B, x, X, weights)


@dataclass(frozen=True)
class FixedVarianceGaussian:
    """x_d ~ N(m_d, v_d) with v_d known, m_d ~ N(m0_d, v_d/kappa); v, m0 (D,)."""

    v: Array
    m0: Array
    kappa: float

    def posterior(self, X: Array, weights: Array) -> tuple[Array, float]:
        """(m (D,), kappa)."""
        N, mean, _ = two_pass(X, weights)
        return self.m0 + N / (self.kappa + N) * (mean - self.m0), self.kappa + N

    def log_marginal(self, X: Array, weights: Array) -> float:
        """Per column: -N log(2 pi v)/2 + log(kappa/(kappa+N))/2 - (scatter + kappa N/(kappa+N)
        shift^2)/(2 v).
        """
        N, mean, scatter = two_pass(X, weights)
        k = self.kappa + N
        spread = np.diag(scatter) + self.kappa * N / k * (mean - self.m0) ** 2
        return float(
            sum(-N / 2 * np.log(2 * pi * self.v) + log(self.kappa / k) / 2 - spread / (2 * self.v))
        )

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        m, k = self.posterior(X, weights)
        return float(sum(-np.log(2 * pi * self.v) / 2 - ((x - m) ** 2 / self.v + 1 / k) / 2))

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        m, k = self.posterior(X, weights)
        return float(sum(stats.norm.logpdf(x, m, np.sqrt(self.v * (1 + 1 / k)))))

    def _columns(self) -> list[tuple[float, float, float]]:
        """(v_d, m0_d, kappa) of each column."""
        return [(float(v), float(m), self.kappa) for v, m in zip(self.v, self.m0, strict=True)]

    def log_marginal_mp(self, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            return mp.fsum(
                cmp.fv_log_marginal(*c, X[:, d], weights) for d, c in enumerate(self._columns())
            )

    def expected_log_likelihood_mp(self, x: Array, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            return mp.fsum(
                cmp.fv_expected(*c, x[d], X[:, d], weights) for d, c in enumerate(self._columns())
            )

    def log_predictive_mp(self, x: Array, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            return mp.fsum(
                cmp.fv_predictive(*c, x[d], X[:, d], weights) for d, c in enumerate(self._columns())
            )


def log_beta_vector(lam: Array) -> float:
    """sum lgamma(lambda_v) - lgamma(sum lambda_v)."""
    return float(gammaln(lam).sum() - gammaln(lam.sum()))


@dataclass(frozen=True)
class Categorical:
    """x_d in 0..sizes[d]-1, one Dirichlet with every entry = `concentration` for each column."""

    sizes: tuple[int, ...]
    concentration: float

    def posterior(self, X: Array, weights: Array) -> list[Array]:
        """Dirichlet parameters of each column: concentration + weighted counts."""
        lam = [np.full(V, float(self.concentration)) for V in self.sizes]
        for x, w in zip(X, weights, strict=True):
            for d in range(len(self.sizes)):
                lam[d][int(x[d])] += w
        return lam

    def log_marginal(self, X: Array, weights: Array) -> float:
        prior = [np.full(V, float(self.concentration)) for V in self.sizes]
        hats = self.posterior(X, weights)
        return sum(
            log_beta_vector(hat) - log_beta_vector(bar)
            for hat, bar in zip(hats, prior, strict=True)
        )

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        lam = self.posterior(X, weights)
        return float(
            sum(digamma(lam[d][int(x[d])]) - digamma(lam[d].sum()) for d in range(len(lam)))
        )

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        lam = self.posterior(X, weights)
        return float(sum(log(lam[d][int(x[d])] / lam[d].sum()) for d in range(len(lam))))


@dataclass(frozen=True)
class Multinomial:
    """Count vectors x (V,), eta ~ Dirichlet with every entry = `concentration`; rows may differ in
    total count.
    """

    V: int
    concentration: float

    @staticmethod
    def h(x: Array) -> float:
        """log (sum x)! - sum log x_v!."""
        return lgamma(float(sum(x)) + 1) - sum(lgamma(float(v) + 1) for v in x)

    def posterior(self, X: Array, weights: Array) -> Array:
        """concentration + sum_n w_n x_n, shape (V,)."""
        lam = np.full(self.V, float(self.concentration))
        for x, w in zip(X, weights, strict=True):
            lam = lam + w * np.asarray(x, dtype=float)
        return lam

    def log_marginal(self, X: Array, weights: Array) -> float:
        base = sum(w * self.h(x) for x, w in zip(X, weights, strict=True))
        prior = log_beta_vector(np.full(self.V, float(self.concentration)))
        return float(base + log_beta_vector(self.posterior(X, weights)) - prior)

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        lam = self.posterior(X, weights)
        return float(
            self.h(x) + sum(x[v] * (digamma(lam[v]) - digamma(lam.sum())) for v in range(self.V))
        )

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        counts = np.asarray(x, dtype=int)
        return float(
            stats.dirichlet_multinomial.logpmf(
                counts, self.posterior(X, weights), int(counts.sum())
            )
        )


@dataclass(frozen=True)
class Bernoulli:
    """x_d in {0, 1}, mu_d ~ Beta(a, b) for each column."""

    a: float
    b: float

    def posterior(self, X: Array, weights: Array) -> tuple[Array, Array]:
        """(a + weighted ones, b + weighted zeros), each (D,)."""
        X = np.asarray(X, dtype=float)
        ones = sum((w * x for x, w in zip(X, weights, strict=True)), np.zeros(X.shape[1]))
        zeros = sum((w * (1 - x) for x, w in zip(X, weights, strict=True)), np.zeros(X.shape[1]))
        return self.a + ones, self.b + zeros

    def log_marginal(self, X: Array, weights: Array) -> float:
        prior = lgamma(self.a) + lgamma(self.b) - lgamma(self.a + self.b)
        pairs = zip(*self.posterior(X, weights), strict=True)
        return float(sum(lgamma(a) + lgamma(b) - lgamma(a + b) - prior for a, b in pairs))

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        a, b = self.posterior(X, weights)
        return float(sum(x * digamma(a) + (1 - np.asarray(x)) * digamma(b) - digamma(a + b)))

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        a, b = self.posterior(X, weights)
        return float(sum(stats.bernoulli.logpmf(np.asarray(x, dtype=int), a / (a + b))))


@dataclass(frozen=True)
class Poisson:
    """Counts x_d ~ Poisson(rate_d), rate_d ~ Gamma(shape a, rate b) for each column."""

    a: float
    b: float

    def posterior(self, X: Array, weights: Array) -> tuple[Array, float]:
        """(a + sum_n w_n x_n (D,), b + sum_n w_n)."""
        X = np.asarray(X, dtype=float)
        total = sum((w * x for x, w in zip(X, weights, strict=True)), np.zeros(X.shape[1]))
        return self.a + total, self.b + float(sum(weights))

    def log_marginal(self, X: Array, weights: Array) -> float:
        shapes, rate = self.posterior(X, weights)
        base = -sum(w * lgamma(float(v) + 1) for x, w in zip(X, weights, strict=True) for v in x)
        prior = lgamma(self.a) - self.a * log(self.b)
        return float(base + sum(lgamma(shape) - shape * log(rate) - prior for shape in shapes))

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        shapes, rate = self.posterior(X, weights)
        x = np.asarray(x, dtype=float)
        return float(sum(x * (digamma(shapes) - log(rate)) - shapes / rate - gammaln(x + 1)))

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        shapes, rate = self.posterior(X, weights)
        return float(sum(stats.nbinom.logpmf(np.asarray(x, dtype=int), shapes, rate / (rate + 1))))


@dataclass(frozen=True)
class Product:
    """Independent members, (model, columns) each: every value is the sum of theirs."""

    members: tuple[tuple[Any, tuple[int, ...]], ...]

    def posterior(self, X: Array, weights: Array) -> list[Any]:
        """Each member's posterior of its own columns."""
        return [model.posterior(X[:, list(at)], weights) for model, at in self.members]

    def log_marginal(self, X: Array, weights: Array) -> float:
        return float(sum(model.log_marginal(X[:, list(at)], weights) for model, at in self.members))

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        own = [
            model.expected_log_likelihood(x[list(at)], X[:, list(at)], weights)
            for model, at in self.members
        ]
        return float(sum(own))

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        return float(
            sum(
                model.log_predictive(x[list(at)], X[:, list(at)], weights)
                for model, at in self.members
            )
        )
