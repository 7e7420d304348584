"""The one interface of a minimal exponential family with its (tau, nu) conjugate prior.

All of phi, mu, tau and s(x) are real vectors of one length `dim`, and

    log p(x | phi)        = phi.s(x) - c(phi) + h(x)
    log P(phi | tau, nu)  = tau.phi - nu c(phi) - cP(tau, nu),   cP = log integral exp(tau.phi - nu
    c(phi)) dphi.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Vector = np.ndarray


class Family:
    """Formulas common to all families; a family supplies the methods that raise here."""

    dim: int

    # ---- supplied by each family -----------------------------------------------------------------
    def s(self, x: Any) -> Vector:
        """Sufficient statistic of one atom, shape (dim,)."""
        raise NotImplementedError

    def h(self, x: Any) -> float:
        """Log base measure of one atom."""
        raise NotImplementedError

    def c(self, phi: Vector) -> float:
        """Log-partition of the likelihood; +inf outside natural space."""
        raise NotImplementedError

    def mean(self, phi: Vector) -> Vector:
        """mu = grad c(phi) = E[s(x) | phi]."""
        raise NotImplementedError

    def natural(self, mean_parameter: Vector) -> Vector:
        """phi(mu), the inverse of `mean`."""
        raise NotImplementedError

    def gam(self, mu: Vector) -> float:
        """Legendre dual gam(mu) = mu.phi(mu) - c(phi(mu)), by limits on the boundary of
        mean space.
        """
        raise NotImplementedError

    def in_mean_space(self, mu: Vector) -> bool:
        """Whether mu lies strictly inside mean space."""
        raise NotImplementedError

    def cP(self, tau: Vector, nu: float) -> float:
        """Prior log-partition, the log of the integral over phi."""
        raise NotImplementedError

    def E_phi(self, tau: Vector, nu: float) -> Vector:
        """E[phi] under the prior, = d cP / d tau."""
        raise NotImplementedError

    def E_c(self, tau: Vector, nu: float) -> float:
        """E[c(phi)] under the prior, = - d cP / d nu."""
        raise NotImplementedError

    def log_predictive(self, x: Any, tau: Vector, nu: float) -> float:
        """log integral p(x|phi) P(phi|tau,nu) dphi, from the textbook predictive law (not
        from cP).
        """
        raise NotImplementedError

    def textbook_log_density(self, x: Any, phi: Vector) -> float:
        """log p(x | phi) from scipy.stats in ordinary parameters."""
        raise NotImplementedError

    def nodes(self, phi: Vector) -> list[tuple[Any, float]]:
        """Atoms and weights with E[f(x)|phi] = sum w f(x), exact to rounding for f affine in s(x)
        and h(x).
        """
        raise NotImplementedError

    # ---- common ----------------------------------------------------------------------------------
    def log_density(self, x: Any, phi: Vector) -> float:
        """phi.s(x) - c(phi) + h(x)."""
        return float(phi @ self.s(x) - self.c(phi) + self.h(x))

    def expectation(self, f: Any, phi: Vector) -> Any:
        """E[f(x) | phi] over `nodes`."""
        return sum(w * f(x) for x, w in self.nodes(phi))

    def bregman(self, mu_a: Vector, mu_b: Vector) -> float:
        """D(a, b) = gam(a) - gam(b) - (a - b).phi(b); a may lie on the boundary, b must be
        interior.
        """
        return float(self.gam(mu_a) - self.gam(mu_b) - (mu_a - mu_b) @ self.natural(mu_b))

    def kl(self, phi_a: Vector, phi_b: Vector) -> float:
        """KL(p_a || p_b) = E_a[log p_a - log p_b], with the textbook densities."""

        def difference(x: Any) -> float:
            return self.textbook_log_density(x, phi_a) - self.textbook_log_density(x, phi_b)

        return float(self.expectation(difference, phi_a))

    def sum_s(self, X: Sequence[Any]) -> Vector:
        """sum_n s(x_n), shape (dim,)."""
        total = np.zeros(self.dim)
        for x in X:
            total = total + self.s(x)
        return total

    def posterior(self, X: Sequence[Any], tau: Vector, nu: float) -> tuple[Vector, float]:
        """(tau + sum s(x_n), nu + N)."""
        return tau + self.sum_s(X), nu + len(X)

    def log_marginal(self, X: Sequence[Any], tau: Vector, nu: float) -> float:
        """sum h(x_n) + cP(tau + S, nu + N) - cP(tau, nu)."""
        tau_hat, nu_hat = self.posterior(X, tau, nu)
        return float(sum(self.h(x) for x in X) + self.cP(tau_hat, nu_hat) - self.cP(tau, nu))

    def expected_log_likelihood(self, x: Any, tau: Vector, nu: float) -> float:
        """s(x).E[phi] - E[c(phi)] + h(x)."""
        return float(self.s(x) @ self.E_phi(tau, nu) - self.E_c(tau, nu) + self.h(x))

    def l_data(self, X: Sequence[Any], tau: Vector, nu: float, tau_q: Vector, nu_q: float) -> float:
        """E_q[log p(X | phi) + log P(phi | tau, nu) - log P(phi | tau_q, nu_q)], term by term."""
        e_phi, e_c = self.E_phi(tau_q, nu_q), self.E_c(tau_q, nu_q)
        likelihood = sum(self.expected_log_likelihood(x, tau_q, nu_q) for x in X)
        prior = tau @ e_phi - nu * e_c - self.cP(tau, nu)
        own = tau_q @ e_phi - nu_q * e_c - self.cP(tau_q, nu_q)
        return float(likelihood + prior - own)
