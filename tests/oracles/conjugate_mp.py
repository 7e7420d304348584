"""Extended-precision (50 digits) conjugate formulas for the Gaussian families.

Floats enter exactly.  Every function returns an mpmath `mpf`; `float(...)` rounds it once at the
end. Weighted rows: X (N, D), weights (N,).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 50


def at_50_digits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function with 50 significant digits."""

    @wraps(function)
    def run(*args: Any) -> Any:
        with mp.workdps(DIGITS):
            return function(*args)

    return run


def column(values: Any) -> Any:
    """1-D floats -> mp column vector."""
    return mp.matrix([[mp.mpf(float(v))] for v in np.asarray(values, dtype=float)])


def square(values: Any) -> Any:
    """2-D floats -> mp matrix."""
    return mp.matrix([[mp.mpf(float(v)) for v in row] for row in np.asarray(values, dtype=float)])


def quadratic(x: Any, B: Any) -> Any:
    """x' B^-1 x."""
    return (x.T * mp.inverse(B) * x)[0]


def moments(X: Any, weights: Any, D: int) -> tuple[Any, Any, Any]:
    """Total weight, weighted mean (D,1), scatter about that mean (D,D); the mean of
    nothing is 0.
    """
    w = [mp.mpf(float(v)) for v in weights]
    rows = [column(x) for x in X]
    total, mean, scatter = sum(w, mp.mpf(0)), mp.zeros(D, 1), mp.zeros(D, D)
    if total == 0:
        return total, mean, scatter
    for wn, x in zip(w, rows, strict=True):
        mean += wn * x / total
    for wn, x in zip(w, rows, strict=True):
        scatter += wn * (x - mean) * (x - mean).T
    return total, mean, scatter


def log_wishart(n: Any, B: Any) -> Any:
    """(nD/2) log 2 + log Gamma_D(n/2) - (n/2) log|B|."""
    D = B.rows
    log_gamma = mp.mpf(D * (D - 1)) / 4 * mp.log(mp.pi) + sum(
        mp.loggamma((n + 1 - d) / 2) for d in range(1, D + 1)
    )
    return n * D / 2 * mp.log(2) + log_gamma - n / 2 * mp.log(mp.det(B))


def expected_logdet(n: Any, B: Any) -> Any:
    """sum_d psi((n+1-d)/2) + D log 2 - log|B|."""
    D = B.rows
    return (
        sum(mp.digamma((n + 1 - d) / 2) for d in range(1, D + 1))
        + D * mp.log(2)
        - mp.log(mp.det(B))
    )


def log_student(x: Any, dof: Any, m: Any, shape: Any) -> Any:
    """Log density of the multivariate Student-t."""
    D = shape.rows
    head = mp.loggamma((dof + D) / 2) - mp.loggamma(dof / 2) - mp.mpf(D) / 2 * mp.log(dof * mp.pi)
    return (
        head - mp.log(mp.det(shape)) / 2 - (dof + D) / 2 * mp.log(1 + quadratic(x - m, shape) / dof)
    )


# ---- Normal-Wishart ------------------------------------------------------------------------------
def nw_posterior(
    m0: Any, kappa: float, n: float, B: Any, X: Any, weights: Any
) -> tuple[Any, Any, Any, Any]:
    """(m, kappa, n, B) after the weighted rows."""
    m0_, B_, kappa_, n_ = column(m0), square(B), mp.mpf(float(kappa)), mp.mpf(float(n))
    total, mean, scatter = moments(X, weights, m0_.rows)
    kappa_hat = kappa_ + total
    shift = mean - m0_
    B_hat = B_ + scatter + kappa_ * total / kappa_hat * shift * shift.T
    return m0_ + total / kappa_hat * shift, kappa_hat, n_ + total, B_hat


def nw_log_partition(kappa: Any, n: Any, B: Any) -> Any:
    """(D/2) log(2 pi/kappa) + log_wishart(n, B)."""
    return mp.mpf(B.rows) / 2 * mp.log(2 * mp.pi / kappa) + log_wishart(n, B)


@at_50_digits
def nw_log_marginal(m0: Any, kappa: float, n: float, B: Any, X: Any, weights: Any) -> Any:
    """Weighted h plus the difference of log-partitions."""
    _, kappa_hat, n_hat, B_hat = nw_posterior(m0, kappa, n, B, X, weights)
    prior = nw_log_partition(mp.mpf(float(kappa)), mp.mpf(float(n)), square(B))
    total = kappa_hat - mp.mpf(float(kappa))
    return (
        nw_log_partition(kappa_hat, n_hat, B_hat)
        - prior
        - total * B_hat.rows / 2 * mp.log(2 * mp.pi)
    )


@at_50_digits
def nw_expected(m0: Any, kappa: float, n: float, B: Any, x: Any, X: Any, weights: Any) -> Any:
    """E[logdet]/2 - D log(2 pi)/2 - (D/kappa + n (x-m)'B^-1(x-m))/2."""
    m, k, n_hat, B_hat = nw_posterior(m0, kappa, n, B, X, weights)
    D = B_hat.rows
    spread = D / k + n_hat * quadratic(column(x) - m, B_hat)
    return (expected_logdet(n_hat, B_hat) - D * mp.log(2 * mp.pi) - spread) / 2


@at_50_digits
def nw_predictive(m0: Any, kappa: float, n: float, B: Any, x: Any, X: Any, weights: Any) -> Any:
    """Student-t, dof n-D+1, shape B (kappa+1)/(kappa dof)."""
    m, k, n_hat, B_hat = nw_posterior(m0, kappa, n, B, X, weights)
    dof = n_hat - B_hat.rows + 1
    return log_student(column(x), dof, m, B_hat * ((k + 1) / (k * dof)))


# ---- zero mean, Wishart --------------------------------------------------------------------------
def zm_posterior(n: float, B: Any, X: Any, weights: Any) -> tuple[Any, Any]:
    """(n + N, B + sum w x x')."""
    n_hat, B_hat = mp.mpf(float(n)), square(B)
    for w, x in zip(weights, X, strict=True):
        n_hat += mp.mpf(float(w))
        B_hat += mp.mpf(float(w)) * column(x) * column(x).T
    return n_hat, B_hat


@at_50_digits
def zm_log_marginal(n: float, B: Any, X: Any, weights: Any) -> Any:
    """Weighted h plus the difference of Wishart log-partitions."""
    n_hat, B_hat = zm_posterior(n, B, X, weights)
    n0 = mp.mpf(float(n))
    base = (n_hat - n0) * B_hat.rows / 2 * mp.log(2 * mp.pi)
    return log_wishart(n_hat, B_hat) - log_wishart(n0, square(B)) - base


@at_50_digits
def zm_expected(n: float, B: Any, x: Any, X: Any, weights: Any) -> Any:
    """-D log(2 pi)/2 + E[logdet]/2 - (n/2) x'B^-1 x."""
    n_hat, B_hat = zm_posterior(n, B, X, weights)
    return (
        expected_logdet(n_hat, B_hat)
        - B_hat.rows * mp.log(2 * mp.pi)
        - n_hat * quadratic(column(x), B_hat)
    ) / 2


@at_50_digits
def zm_predictive(n: float, B: Any, x: Any, X: Any, weights: Any) -> Any:
    """Student-t, dof n-D+1, location 0, shape B/dof."""
    n_hat, B_hat = zm_posterior(n, B, X, weights)
    dof = n_hat - B_hat.rows + 1
    return log_student(column(x), dof, mp.zeros(B_hat.rows, 1), B_hat / dof)


# ---- known variance, one dimension ---------------------------------------------------------------
def fv_posterior(m0: float, kappa: float, values: Any, weights: Any) -> tuple[Any, Any, Any, Any]:
    """(m_hat, kappa_hat, N, scatter about the weighted mean plus kappa N/(kappa+N) (mean -
    m0)^2).
    """
    k0, m0_ = mp.mpf(float(kappa)), mp.mpf(float(m0))
    total, mean, scatter = moments([[v] for v in values], weights, 1)
    shift = mean[0] - m0_
    k = k0 + total
    return m0_ + total / k * shift, k, total, scatter[0] + k0 * total / k * shift**2


@at_50_digits
def fv_log_marginal(v: float, m0: float, kappa: float, values: Any, weights: Any) -> Any:
    """-N log(2 pi v)/2 + log(kappa/kappa_hat)/2 - spread/(2 v)."""
    v_ = mp.mpf(float(v))
    _, k, total, spread = fv_posterior(m0, kappa, values, weights)
    return (-total * mp.log(2 * mp.pi * v_) + mp.log(mp.mpf(float(kappa)) / k) - spread / v_) / 2


@at_50_digits
def fv_expected(v: float, m0: float, kappa: float, x: float, values: Any, weights: Any) -> Any:
    """-log(2 pi v)/2 - ((x-m)^2/v + 1/kappa)/2."""
    v_ = mp.mpf(float(v))
    m, k, _, _ = fv_posterior(m0, kappa, values, weights)
    return -(mp.log(2 * mp.pi * v_) + (mp.mpf(float(x)) - m) ** 2 / v_ + 1 / k) / 2


@at_50_digits
def fv_predictive(v: float, m0: float, kappa: float, x: float, values: Any, weights: Any) -> Any:
    """N(x | m, v (1 + 1/kappa))."""
    m, k, _, _ = fv_posterior(m0, kappa, values, weights)
    spread = mp.mpf(float(v)) * (1 + 1 / k)
    return -(mp.log(2 * mp.pi * spread) + (mp.mpf(float(x)) - m) ** 2 / spread) / 2
