"""Minimal-form exponential families: the discrete ones here, the Gaussian ones re-exported.

Every family follows `minimal_base.Family`.  Atoms x: an integer 0..V-1 (Categorical), a count
vector (Multinomial), 0 or 1 (Bernoulli), a count (Poisson), a float (the 1-D Gaussians), a vector
(the D-dim Gaussians).
"""

from __future__ import annotations

from itertools import product
from math import lgamma, log
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import digamma, expit, gammaln, xlogy

from oracles.minimal_base import Family, Vector
from oracles.minimal_gaussian import (
    DiagonalGaussian,
    FixedVarianceGaussian,
    Gaussian,
    ZeroMeanGaussian,
    ZeroMeanGaussian1D,
    smat,
    svec,
)

__all__ = [
    "Bernoulli",
    "Categorical",
    "DiagonalGaussian",
    "Family",
    "FixedVarianceGaussian",
    "Gaussian",
    "Multinomial",
    "Poisson",
    "ZeroMeanGaussian",
    "ZeroMeanGaussian1D",
    "smat",
    "svec",
]


class Multinomial(Family):
    """Counts x of C tokens over V symbols.

    s = first V-1 counts; phi_v = log(eta_v/eta_V); c = C log(1 + sum e^phi_v); h = log C! - sum log
    x_v!. nu counts documents of C tokens: eta ~ Dirichlet(lambda), lambda_v = tau_v, lambda_V = C
    nu - sum tau.
    """

    def __init__(self, V: int, C: int) -> None:
        self.V, self.C, self.dim = V, C, V - 1

    def s(self, x: Any) -> Vector:
        return np.asarray(x, dtype=float)[:-1]

    def h(self, x: Any) -> float:
        return lgamma(self.C + 1) - sum(lgamma(v + 1) for v in x)

    def c(self, phi: Vector) -> float:
        return self.C * log(1.0 + sum(np.exp(phi)))

    def eta(self, phi: Vector) -> Vector:
        """Probabilities of the V symbols."""
        unnormalised = np.append(np.exp(phi), 1.0)
        return unnormalised / unnormalised.sum()

    def mean(self, phi: Vector) -> Vector:
        return self.C * self.eta(phi)[:-1]

    def full(self, mu: Vector) -> Vector:
        """All V expected counts, the last one by subtraction."""
        return np.append(mu, self.C - mu.sum())

    def natural(self, mean_parameter: Vector) -> Vector:
        m = self.full(mean_parameter)
        return np.log(m[:-1] / m[-1])

    def gam(self, mu: Vector) -> float:
        """sum_v mu_v log(mu_v / C), with 0 log 0 = 0."""
        m = self.full(mu)
        return float(xlogy(m, m / self.C).sum())

    def in_mean_space(self, mu: Vector) -> bool:
        return bool(np.all(self.full(mu) > 0))

    def dirichlet(self, tau: Vector, nu: float) -> Vector:
        """Dirichlet parameters lambda, shape (V,)."""
        return np.append(tau, self.C * nu - tau.sum())

    def cP(self, tau: Vector, nu: float) -> float:
        lam = self.dirichlet(tau, nu)
        return float(gammaln(lam).sum() - gammaln(lam.sum()))

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        lam = self.dirichlet(tau, nu)
        return digamma(lam[:-1]) - digamma(lam[-1])

    def E_c(self, tau: Vector, nu: float) -> float:
        """C E[-log eta_V]."""
        lam = self.dirichlet(tau, nu)
        return float(self.C * (digamma(lam.sum()) - digamma(lam[-1])))

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        return float(
            stats.dirichlet_multinomial.logpmf(np.asarray(x), self.dirichlet(tau, nu), self.C)
        )

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.multinomial.logpmf(np.asarray(x), self.C, self.eta(phi)))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        """All count vectors, weighted by the product of token probabilities times the number of
        orders.
        """
        out: list[tuple[Any, float]] = []
        for head in product(range(self.C + 1), repeat=self.V - 1):
            if sum(head) <= self.C:
                x = np.array([*head, self.C - sum(head)])
                out.append((x, float(stats.multinomial.pmf(x, self.C, self.eta(phi)))))
        return out


class Categorical(Family):
    """One symbol x in 0..V-1: s = one-hot without its last entry; c = log(1 + sum e^phi_v); h = 0.

    eta ~ Dirichlet(tau_1, ..., tau_{V-1}, nu - sum tau).
    """

    def __init__(self, V: int) -> None:
        self.V, self.dim = V, V - 1

    def s(self, x: Any) -> Vector:
        return np.eye(self.V)[x][:-1]

    def h(self, x: Any) -> float:
        return 0.0

    def c(self, phi: Vector) -> float:
        return log(1.0 + sum(np.exp(phi)))

    def eta(self, phi: Vector) -> Vector:
        """Probabilities of the V symbols."""
        return np.append(np.exp(phi), 1.0) / (1.0 + np.exp(phi).sum())

    def mean(self, phi: Vector) -> Vector:
        return self.eta(phi)[:-1]

    def natural(self, mean_parameter: Vector) -> Vector:
        return np.log(mean_parameter / (1.0 - mean_parameter.sum()))

    def gam(self, mu: Vector) -> float:
        """sum_v eta_v log eta_v (minus the entropy)."""
        eta = np.append(mu, 1.0 - mu.sum())
        return float(xlogy(eta, eta).sum())

    def in_mean_space(self, mu: Vector) -> bool:
        return bool(np.all(mu > 0) and mu.sum() < 1)

    def dirichlet(self, tau: Vector, nu: float) -> Vector:
        """Dirichlet parameters lambda, shape (V,)."""
        return np.append(tau, nu - tau.sum())

    def cP(self, tau: Vector, nu: float) -> float:
        return float(gammaln(self.dirichlet(tau, nu)).sum() - gammaln(nu))

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        return digamma(tau) - digamma(nu - tau.sum())

    def E_c(self, tau: Vector, nu: float) -> float:
        return float(digamma(nu) - digamma(nu - tau.sum()))

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        return log(self.dirichlet(tau, nu)[x] / nu)

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.multinomial.logpmf(np.eye(self.V, dtype=int)[x], 1, self.eta(phi)))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        return [(v, float(p)) for v, p in enumerate(self.eta(phi))]


class Bernoulli(Family):
    """x in {0, 1}: s = x, phi = logit(mu), c = log(1 + e^phi), h = 0; mu ~ Beta(tau, nu - tau)."""

    dim = 1

    def s(self, x: Any) -> Vector:
        return np.array([float(x)])

    def h(self, x: Any) -> float:
        return 0.0

    def c(self, phi: Vector) -> float:
        return float(np.logaddexp(0.0, phi[0]))

    def mean(self, phi: Vector) -> Vector:
        return expit(phi)

    def natural(self, mean_parameter: Vector) -> Vector:
        return np.log(mean_parameter) - np.log1p(-mean_parameter)

    def gam(self, mu: Vector) -> float:
        m = float(mu[0])
        return float(xlogy(m, m) + xlogy(1.0 - m, 1.0 - m))

    def in_mean_space(self, mu: Vector) -> bool:
        return bool(0.0 < mu[0] < 1.0)

    def cP(self, tau: Vector, nu: float) -> float:
        return lgamma(tau[0]) + lgamma(nu - tau[0]) - lgamma(nu)

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        return digamma(tau) - digamma(nu - tau)

    def E_c(self, tau: Vector, nu: float) -> float:
        return float(digamma(nu) - digamma(nu - tau[0]))

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        return float(stats.betabinom.logpmf(x, 1, tau[0], nu - tau[0]))

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.bernoulli.logpmf(x, self.mean(phi)[0]))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        m = float(self.mean(phi)[0])
        return [(0, 1.0 - m), (1, m)]


class Poisson(Family):
    """Count x: s = x, phi = log rate, c = e^phi, h = -log x!; rate ~ Gamma(shape tau, rate nu)."""

    dim = 1

    def s(self, x: Any) -> Vector:
        return np.array([float(x)])

    def h(self, x: Any) -> float:
        return -lgamma(x + 1)

    def c(self, phi: Vector) -> float:
        return float(np.exp(phi[0]))

    def mean(self, phi: Vector) -> Vector:
        return np.exp(phi)

    def natural(self, mean_parameter: Vector) -> Vector:
        return np.log(mean_parameter)

    def gam(self, mu: Vector) -> float:
        return float(xlogy(mu[0], mu[0]) - mu[0])

    def in_mean_space(self, mu: Vector) -> bool:
        return bool(mu[0] > 0)

    def cP(self, tau: Vector, nu: float) -> float:
        return lgamma(tau[0]) - float(tau[0]) * log(nu)

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        return digamma(tau) - log(nu)

    def E_c(self, tau: Vector, nu: float) -> float:
        return float(tau[0] / nu)

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        """Negative binomial: Gamma(x+tau)/(x! Gamma(tau)) (nu/(nu+1))^tau (1/(nu+1))^x."""
        return float(stats.nbinom.logpmf(x, tau[0], nu / (nu + 1.0)))

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.poisson.logpmf(x, np.exp(phi[0])))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        """0, 1, 2, ... far enough that the omitted mass is below rounding."""
        rate = float(np.exp(phi[0]))
        top = int(rate + 20.0 * np.sqrt(rate) + 60.0)
        return [(x, float(stats.poisson.pmf(x, rate))) for x in range(top)]
