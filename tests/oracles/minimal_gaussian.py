"""Minimal-form Gaussian families.

A symmetric matrix A is held as svec(A): its upper triangle, off-diagonal entries times sqrt(2), so
that svec(A).svec(B) = tr(A B) and ordinary gradients in these coordinates are gradients in the
minimal form. The volume element is d svec(A) = 2^(D(D-1)/4) prod_{i<=j} dA_ij.
"""

from __future__ import annotations

from itertools import product
from math import lgamma, log, pi
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import digamma, multigammaln

from oracles.minimal_base import Family, Vector

LOG2PI = log(2.0 * pi)


def svec(A: np.ndarray) -> Vector:
    """Symmetric (D, D) -> (D(D+1)/2,)."""
    D = A.shape[0]
    return np.array(
        [A[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i in range(D) for j in range(i, D)]
    )


def smat(a: Vector, D: int) -> np.ndarray:
    """Inverse of `svec`."""
    A, at = np.zeros((D, D)), 0
    for i in range(D):
        for j in range(i, D):
            A[i, j] = A[j, i] = a[at] / (1.0 if i == j else np.sqrt(2.0))
            at += 1
    return A


def is_positive_definite(A: np.ndarray) -> bool:
    """All eigenvalues strictly positive."""
    return bool(np.all(np.linalg.eigvalsh(A) > 0))


def logdet(A: np.ndarray) -> float:
    """Log-determinant by eigenvalues; -inf on the boundary, nan never."""
    values = np.linalg.eigvalsh(A)
    return float(np.log(values).sum()) if np.all(values > 0) else -np.inf


def log_wishart(n: float, B: np.ndarray) -> float:
    """log integral |L|^((n-D-1)/2) exp(-tr(B L)/2) prod_{i<=j} dL_ij."""
    D = B.shape[0]
    return float(n * D / 2 * log(2.0) + multigammaln(n / 2, D) - n / 2 * logdet(B))


def log_jacobian(D: int) -> float:
    """log of |d svec(-L/2)| / prod_{i<=j} dL_ij."""
    return (D * (D - 1) / 4 - D * (D + 1) / 2) * log(2.0)


def wishart_expected_logdet(n: float, B: np.ndarray) -> float:
    """E[logdet L] = sum_{d=1..D} psi((n+1-d)/2) + D log 2 - logdet B."""
    D = B.shape[0]
    return float(sum(digamma((n + 1 - d) / 2) for d in range(1, D + 1)) + D * log(2.0) - logdet(B))


def gaussian_nodes(m: Vector, Sigma: np.ndarray) -> list[tuple[Any, float]]:
    """Tensor Gauss-Hermite nodes of N(m, Sigma), exact for polynomials of degree <= 7."""
    D = len(m)
    z, w = np.polynomial.hermite_e.hermegauss(4)
    w = w / w.sum()
    root = np.linalg.cholesky(Sigma)
    return [
        (m + root @ z[list(i)], float(np.prod(w[list(i)]))) for i in product(range(4), repeat=D)
    ]


class FixedVarianceGaussian(Family):
    """x ~ N(m, v), v known: phi = m/v, s = x, c = v phi^2/2; m ~ N(tau/nu, v/nu)."""

    dim = 1

    def __init__(self, v: float) -> None:
        self.v = v

    def s(self, x: Any) -> Vector:
        return np.array([float(x)])

    def h(self, x: Any) -> float:
        return float(-x * x / (2 * self.v) - log(self.v) / 2 - LOG2PI / 2)

    def c(self, phi: Vector) -> float:
        return float(self.v * phi[0] ** 2 / 2)

    def mean(self, phi: Vector) -> Vector:
        return self.v * phi

    def natural(self, mean_parameter: Vector) -> Vector:
        return mean_parameter / self.v

    def gam(self, mu: Vector) -> float:
        return float(mu[0] ** 2 / (2 * self.v))

    def in_mean_space(self, mu: Vector) -> bool:
        return True

    def cP(self, tau: Vector, nu: float) -> float:
        return float(tau[0] ** 2 / (2 * self.v * nu) - log(self.v * nu) / 2 + LOG2PI / 2)

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        return tau / (self.v * nu)

    def E_c(self, tau: Vector, nu: float) -> float:
        """v (E[phi]^2 + Var[phi]) / 2."""
        return float(tau[0] ** 2 / (2 * self.v * nu**2) + 1 / (2 * nu))

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        return float(stats.norm.logpdf(x, tau[0] / nu, np.sqrt(self.v + self.v / nu)))

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.norm.logpdf(x, phi[0] * self.v, np.sqrt(self.v)))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        return [(float(x[0]), w) for x, w in gaussian_nodes(phi * self.v, np.array([[self.v]]))]


class ZeroMeanGaussian1D(Family):
    """x ~ N(0, var): phi = -1/(2 var), s = x^2, c = -log(-2 phi)/2, h = -log(2 pi)/2.

    precision ~ Gamma(shape nu/2 + 1, rate tau/2); E[var] = tau/nu.
    """

    dim = 1

    def s(self, x: Any) -> Vector:
        return np.array([float(x) ** 2])

    def h(self, x: Any) -> float:
        return -LOG2PI / 2

    def c(self, phi: Vector) -> float:
        return -log(-2 * phi[0]) / 2 if phi[0] < 0 else np.inf

    def mean(self, phi: Vector) -> Vector:
        return -1.0 / (2.0 * phi)

    def natural(self, mean_parameter: Vector) -> Vector:
        return -1.0 / (2.0 * mean_parameter)

    def gam(self, mu: Vector) -> float:
        return -0.5 - log(mu[0]) / 2 if mu[0] > 0 else np.inf

    def in_mean_space(self, mu: Vector) -> bool:
        return bool(mu[0] > 0)

    def cP(self, tau: Vector, nu: float) -> float:
        return log(0.5) + lgamma(nu / 2 + 1) - (nu / 2 + 1) * log(tau[0] / 2)

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        """-E[precision]/2."""
        return -(nu / 2 + 1) / tau

    def E_c(self, tau: Vector, nu: float) -> float:
        """-E[log precision]/2."""
        return float(-(digamma(nu / 2 + 1) - log(tau[0] / 2)) / 2)

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        return float(stats.t.logpdf(x, nu + 2, 0.0, np.sqrt(tau[0] / (nu + 2))))

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.norm.logpdf(x, 0.0, np.sqrt(-1 / (2 * phi[0]))))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        return [
            (float(x[0]), w) for x, w in gaussian_nodes(np.zeros(1), np.array([self.mean(phi)]))
        ]


class ZeroMeanGaussian(Family):
    """x ~ N(0, L^-1) in D dimensions: phi = -L/2, s = x x', c = -logdet(L)/2, h = -D log(2 pi)/2.

    L ~ Wishart(dof nu + D + 1, inverse scale tau); E[L^-1] = tau/nu.
    """

    def __init__(self, D: int) -> None:
        self.D, self.dim = D, D * (D + 1) // 2

    def s(self, x: Any) -> Vector:
        return svec(np.outer(x, x))

    def h(self, x: Any) -> float:
        return -self.D * LOG2PI / 2

    def c(self, phi: Vector) -> float:
        return -logdet(-2.0 * smat(phi, self.D)) / 2

    def mean(self, phi: Vector) -> Vector:
        return svec(np.linalg.inv(-2.0 * smat(phi, self.D)))

    def natural(self, mean_parameter: Vector) -> Vector:
        return svec(-np.linalg.inv(smat(mean_parameter, self.D)) / 2)

    def gam(self, mu: Vector) -> float:
        return -self.D / 2 - logdet(smat(mu, self.D)) / 2

    def in_mean_space(self, mu: Vector) -> bool:
        return is_positive_definite(smat(mu, self.D))

    def cP(self, tau: Vector, nu: float) -> float:
        return log_wishart(nu + self.D + 1, smat(tau, self.D)) + log_jacobian(self.D)

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        return svec(-(nu + self.D + 1) / 2 * np.linalg.inv(smat(tau, self.D)))

    def E_c(self, tau: Vector, nu: float) -> float:
        return -wishart_expected_logdet(nu + self.D + 1, smat(tau, self.D)) / 2

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        """Student-t, dof n - D + 1 = nu + 2, shape tau/(nu + 2)."""
        return float(
            stats.multivariate_t.logpdf(x, np.zeros(self.D), smat(tau, self.D) / (nu + 2), nu + 2)
        )

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(
            stats.multivariate_normal.logpdf(x, np.zeros(self.D), smat(self.mean(phi), self.D))
        )

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        return gaussian_nodes(np.zeros(self.D), smat(self.mean(phi), self.D))


class Gaussian(Family):
    """x ~ N(m, L^-1) in D dimensions: phi = (L m, -L/2), s = (x, x x'), c = m'Lm/2 - logdet(L)/2.

    Prior with tau = (t, T): kappa = nu, m0 = t/nu, Wishart dof n = nu + D + 2, inverse scale B = T
    - t t'/nu.
    """

    def __init__(self, D: int) -> None:
        self.D, self.dim = D, D + D * (D + 1) // 2

    def split(self, vector: Vector) -> tuple[Vector, np.ndarray]:
        """First D entries, and the symmetric matrix in the others."""
        return vector[: self.D], smat(vector[self.D :], self.D)

    def s(self, x: Any) -> Vector:
        return np.concatenate([x, svec(np.outer(x, x))])

    def h(self, x: Any) -> float:
        return -self.D * LOG2PI / 2

    def ordinary(self, phi: Vector) -> tuple[Vector, np.ndarray]:
        """(m, Sigma)."""
        a, half = self.split(phi)
        Sigma = np.linalg.inv(-2.0 * half)
        return Sigma @ a, Sigma

    def c(self, phi: Vector) -> float:
        a, half = self.split(phi)
        if not is_positive_definite(-half):
            return np.inf
        return float(a @ np.linalg.solve(-2.0 * half, a) / 2 - logdet(-2.0 * half) / 2)

    def mean(self, phi: Vector) -> Vector:
        m, Sigma = self.ordinary(phi)
        return np.concatenate([m, svec(Sigma + np.outer(m, m))])

    def natural(self, mean_parameter: Vector) -> Vector:
        m, second = self.split(mean_parameter)
        L = np.linalg.inv(second - np.outer(m, m))
        return np.concatenate([L @ m, svec(-L / 2)])

    def gam(self, mu: Vector) -> float:
        m, second = self.split(mu)
        return -self.D / 2 - logdet(second - np.outer(m, m)) / 2

    def in_mean_space(self, mu: Vector) -> bool:
        m, second = self.split(mu)
        return is_positive_definite(second - np.outer(m, m))

    def ordinary_prior(self, tau: Vector, nu: float) -> tuple[Vector, float, float, np.ndarray]:
        """(m0, kappa, n, B)."""
        t, T = self.split(tau)
        return t / nu, nu, nu + self.D + 2, T - np.outer(t, t) / nu

    def cP(self, tau: Vector, nu: float) -> float:
        _, kappa, n, B = self.ordinary_prior(tau, nu)
        return self.D / 2 * (LOG2PI - log(kappa)) + log_wishart(n, B) + log_jacobian(self.D)

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        m0, _, n, B = self.ordinary_prior(tau, nu)
        L = n * np.linalg.inv(B)
        return np.concatenate([L @ m0, svec(-L / 2)])

    def E_c(self, tau: Vector, nu: float) -> float:
        """E[m'Lm]/2 - E[logdet L]/2 with E[m'Lm] = D/kappa + n m0'B^-1 m0."""
        m0, kappa, n, B = self.ordinary_prior(tau, nu)
        quadratic = self.D / kappa + n * m0 @ np.linalg.solve(B, m0)
        return float(quadratic / 2 - wishart_expected_logdet(n, B) / 2)

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        """Student-t, dof n - D + 1, location m0, shape B (kappa+1)/(kappa (n-D+1))."""
        m0, kappa, n, B = self.ordinary_prior(tau, nu)
        dof = n - self.D + 1
        return float(stats.multivariate_t.logpdf(x, m0, B * (kappa + 1) / (kappa * dof), dof))

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        return float(stats.multivariate_normal.logpdf(x, *self.ordinary(phi)))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        return gaussian_nodes(*self.ordinary(phi))


class DiagonalGaussian(Family):
    """Independent x_d ~ N(m_d, 1/l_d): phi = (l m, -l/2), s = (x, x^2), c = sum_d (l_d m_d^2 - log
    l_d)/2.

    Prior with tau = (t, T): l_d ~ Gamma((nu+3)/2, (T_d - t_d^2/nu)/2), m_d | l_d ~ N(t_d/nu, 1/(nu
    l_d)).
    """

    def __init__(self, D: int) -> None:
        self.D, self.dim = D, 2 * D

    def s(self, x: Any) -> Vector:
        return np.concatenate([x, np.square(x)])

    def h(self, x: Any) -> float:
        return -self.D * LOG2PI / 2

    def ordinary(self, phi: Vector) -> tuple[Vector, Vector]:
        """(m, variance), each (D,)."""
        variance = -1.0 / (2.0 * phi[self.D :])
        return phi[: self.D] * variance, variance

    def c(self, phi: Vector) -> float:
        if np.any(phi[self.D :] >= 0):
            return np.inf
        m, variance = self.ordinary(phi)
        return float(sum(m**2 / variance + np.log(variance)) / 2)

    def mean(self, phi: Vector) -> Vector:
        m, variance = self.ordinary(phi)
        return np.concatenate([m, variance + m**2])

    def variance(self, mu: Vector) -> Vector:
        """Variances at a mean parameter."""
        return mu[self.D :] - mu[: self.D] ** 2

    def natural(self, mean_parameter: Vector) -> Vector:
        variance = self.variance(mean_parameter)
        return np.concatenate([mean_parameter[: self.D] / variance, -1.0 / (2.0 * variance)])

    def gam(self, mu: Vector) -> float:
        variance = self.variance(mu)
        return float(sum(-0.5 - np.log(variance) / 2)) if np.all(variance > 0) else np.inf

    def in_mean_space(self, mu: Vector) -> bool:
        return bool(np.all(self.variance(mu) > 0))

    def ordinary_prior(self, tau: Vector, nu: float) -> tuple[Vector, float, Vector]:
        """(m0, Gamma shape, Gamma rates)."""
        t, T = tau[: self.D], tau[self.D :]
        return t / nu, (nu + 3) / 2, (T - t**2 / nu) / 2

    def cP(self, tau: Vector, nu: float) -> float:
        """Per dimension: log(1/2) (from d(-l/2)) + log sqrt(2 pi/nu) + lgamma(shape) - shape
        log(rate).
        """
        _, shape, rate = self.ordinary_prior(tau, nu)
        one = log(0.5) + (LOG2PI - log(nu)) / 2 + lgamma(shape)
        return float(sum(one - shape * np.log(rate)))

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        m0, shape, rate = self.ordinary_prior(tau, nu)
        return np.concatenate([shape / rate * m0, -shape / rate / 2])

    def E_c(self, tau: Vector, nu: float) -> float:
        """sum_d (1/nu + E[l_d] m0_d^2 - E[log l_d]) / 2."""
        m0, shape, rate = self.ordinary_prior(tau, nu)
        return float(sum(1 / nu + shape / rate * m0**2 - digamma(shape) + np.log(rate)) / 2)

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        """Product of Student-t, dof 2 shape, scale^2 = (rate/shape)(1 + 1/nu)."""
        m0, shape, rate = self.ordinary_prior(tau, nu)
        return float(sum(stats.t.logpdf(x, 2 * shape, m0, np.sqrt(rate / shape * (1 + 1 / nu)))))

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        m, variance = self.ordinary(phi)
        return float(sum(stats.norm.logpdf(x, m, np.sqrt(variance))))

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        m, variance = self.ordinary(phi)
        return gaussian_nodes(m, np.diag(variance))
