"""HDP roots, slowly: normalizers, surrogates and bounds, written term by term."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

Array = np.ndarray


def c_dir(v: Array) -> float:
    """Log normalizer of a Dirichlet: log density = c_dir + sum (v - 1) log p."""
    return float(gammaln(v.sum()) - gammaln(v).sum())


def c_beta(a: float, b: float) -> float:
    return float(gammaln(a + b) - gammaln(a) - gammaln(b))


def stick_shares(u: Array) -> Array:
    """(K + 1,) by a loop."""
    left, out = 1.0, []
    for each in u:
        out.append(each * left)
        left *= 1.0 - each
    return np.array([*out, left])


def stick_fractions(shares: Array) -> Array:
    """(K,) sticks of shares (K + 1,)."""
    return np.array([shares[k] / shares[k:].sum() for k in range(len(shares) - 1)])


def row_surrogate(alpha: float, b: Array) -> float:
    """Lower bound on c_dir(alpha b)."""
    return float((len(b) - 1) * np.log(alpha) + np.log(b).sum())


def sticky_row_surrogate(alpha: float, kappa: float, b: Array, k: int, *, concave: bool) -> float:
    """Lower bound on c_dir(alpha b + kappa e_k), with log(alpha b_k + kappa), or with what
    concavity makes of it.
    """
    own = np.log(alpha * b[k] + kappa)
    if concave:
        own = np.log(kappa) + b[k] * (np.log(alpha + kappa) - np.log(kappa))
    return float(
        (len(b) - 1) * np.log(alpha) - np.log(alpha + kappa) + own + np.log(np.delete(b, k)).sum()
    )


def chain_normalizers(alpha0: float, alpha: float, kappa: float, b: Array) -> float:
    """Sum of c_dir over the start row and all transition rows."""
    K = len(b) - 1
    return c_dir(alpha0 * b) + sum(c_dir(alpha * b + kappa * np.eye(K + 1)[j]) for j in range(K))


def chain_surrogate(alpha0: float, alpha: float, kappa: float, b: Array) -> float:
    """The same sum of the rows' surrogates."""
    K = len(b) - 1
    if kappa == 0.0:
        return row_surrogate(alpha0, b) + K * row_surrogate(alpha, b)
    return row_surrogate(alpha0, b) + sum(
        sticky_row_surrogate(alpha, kappa, b, k, concave=True) for k in range(K)
    )


def segment_normalizers(alpha0: float, alpha: float, b: Array) -> float:
    """A start row, and rows without their own entry."""
    return c_dir(alpha0 * b) + sum(c_dir(alpha * np.delete(b, j)) for j in range(len(b) - 1))


def stick_terms(mean: Array, w: Array, c1: Array, c0: Array, gamma: float) -> float:
    """Sum of c_Beta(1, gamma) - c_Beta(a, b) + (c1 - a) E[log u] + (c0 - b) E[log(1 - u)]."""
    total = 0.0
    for m, precision, one, zero in zip(mean, w, c1, c0, strict=True):
        a, b = m * precision, (1.0 - m) * precision
        log_stop, log_pass = digamma(a) - digamma(precision), digamma(b) - digamma(precision)
        total += c_beta(1.0, gamma) - c_beta(a, b) + (one - a) * log_stop + (zero - b) * log_pass
    return float(total)


def chain_coefficients(K: int, kappa: float, gamma: float) -> tuple[Array, Array]:
    """c1 and c0 (K,) of the sticks."""
    k = np.arange(1, K + 1)
    if kappa == 0.0:
        return np.full(K, K + 2.0), (K + 1.0) * (K + 1 - k) + gamma
    return np.full(K, K + 1.0), K * (K + 1.0 - k) + 1.0 + gamma


def chain_bound(
    counts: Any, shares: Array, settings: dict[str, float], theta: Array | None = None
) -> float:
    """L_trans + L_top for shares (K + 1,) in the order of the sticks, posteriors theta (K + 1, K +
    1) or their optimum.

    counts : start (K,) and transition (K, K); settings: alpha0, alpha, kappa, gamma.
    """
    alpha0, alpha, kappa, gamma = (settings[n] for n in ("alpha0", "alpha", "kappa", "gamma"))
    start, transition = counts
    K, total = len(start), 0.0
    for j in range(K + 1):
        seen = np.append(start if j == 0 else transition[j - 1], 0.0)
        prior = (alpha0 if j == 0 else alpha) * shares + (
            kappa * np.eye(K + 1)[j - 1] if j else 0.0
        )
        posterior = seen + prior if theta is None else theta[j]
        mean_log = digamma(posterior) - digamma(posterior.sum())
        total += -c_dir(posterior) + ((seen + prior - posterior) * mean_log).sum()
    c1, c0 = chain_coefficients(K, kappa, gamma)
    total += stick_terms(stick_fractions(shares), c1 + c0, c1, c0, gamma)
    total += K * np.log(alpha0) + K**2 * np.log(alpha)
    if kappa:
        total += (np.log(alpha + kappa) - np.log(kappa)) * (shares[:-1].sum() - K)
    return float(total)


def expected_log_rows(
    counts: Any, shares: Array, alpha0: float, alpha: float, kappa: float
) -> Array:
    """(K + 1, K + 1) E[log row] at the optimal posteriors, start row first."""
    start, transition = counts
    K = len(start)
    prior = np.outer(np.r_[alpha0, np.full(K, alpha)], shares)
    prior[1:, :-1] += kappa * np.eye(K)
    theta = prior + np.pad(np.vstack([start, transition]), ((0, 0), (0, 1)))
    return digamma(theta) - digamma(theta.sum(1))[:, None]


def log_root_density(b: Array, gamma: float) -> float:
    """Log density of shares (K,) under sticks Beta(1, gamma): the product of the sticks' densities
    and of |d u / d b|.
    """
    total, left = 0.0, 1.0
    for share in b:
        u = share / left
        total += np.log(gamma) + (gamma - 1.0) * np.log1p(-u) - np.log(left)
        left -= share
    return float(total)


def differences(f: Any, x: Array, h: float = 1e-5) -> Array:
    """Central differences, extrapolated once."""
    out = np.empty(len(x))
    for i in range(len(x)):
        e = np.eye(len(x))[i]
        rough, fine = ((f(x + s * e) - f(x - s * e)) / (2 * s) for s in (2 * h, h))
        out[i] = (4 * fine - rough) / 3
    return out
