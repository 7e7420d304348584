"""Regression of a row's value on its context, matrix-normal-Wishart prior, straight from weighted
rows.

x = A p + noise, L ~ Wishart(dof n, inverse scale B), A | L ~ MN(M, row covariance L^-1, column
precision V): M (D, F), V (F, F). A row is (x, p); with `intercept` a 1 is appended to p, so that
the last column of M and V is the intercept's. Methods as in `conjugate`; those with the suffix
`_mp` work with 50 digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from scipy import stats

from oracles import conjugate_mp as cmp
from oracles.conjugate import LOG2PI, expected_logdet, log_wishart

Array = np.ndarray


def joined_prior(
    mean: Array, offset: Array, precision: Array, context_mean: Array, strength: float
) -> tuple[Array, Array]:
    """M (D, E + 1) and V (E + 1, E + 1): A has this mean and column precision; A g + b, at the
    context mean g, this strength.
    """
    g = np.append(context_mean, 1.0)
    V = strength * np.outer(g, g)
    V[:-1, :-1] += precision
    return np.column_stack([mean, offset]), V


@dataclass(frozen=True)
class Regression:
    """The model of the module's docstring."""

    M: Array
    V: Array
    n: float
    B: Array
    intercept: bool

    def split(self, rows: Array) -> tuple[Array, Array]:
        """Values (N, D) and contexts (N, F) of rows."""
        rows, D = np.atleast_2d(np.asarray(rows, dtype=float)), len(self.B)
        ones = np.ones((len(rows), int(self.intercept)))
        return rows[:, :D], np.column_stack([rows[:, D:], ones])

    def posterior(self, X: Array, weights: Array) -> tuple[Array, Array, float, Array]:
        """(M, V, n, B)."""
        V, MV, B = self.V.copy(), self.M @ self.V, self.B + self.M @ self.V @ self.M.T
        for x, p, w in zip(*self.split(X), weights, strict=True):
            V, MV, B = V + w * np.outer(p, p), MV + w * np.outer(x, p), B + w * np.outer(x, x)
        M = np.linalg.solve(V, MV.T).T
        B = B - M @ V @ M.T
        return M, V, self.n + float(sum(weights)), (B + B.T) / 2

    def _log_partition(self, V: Array, n: float, B: Array) -> float:
        return log_wishart(n, B) - len(B) / 2 * float(np.linalg.slogdet(V)[1])

    def log_marginal(self, X: Array, weights: Array) -> float:
        _, V, n, B = self.posterior(X, weights)
        constant = -float(sum(weights)) * len(B) / 2 * LOG2PI
        return self._log_partition(V, n, B) - self._log_partition(self.V, self.n, self.B) + constant

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        M, V, n, B = self.posterior(X, weights)
        (value,), (p,) = self.split(x)
        away, D = value - M @ p, len(B)
        spread = n * away @ np.linalg.solve(B, away) + D * p @ np.linalg.solve(V, p)
        return float((expected_logdet(n, B) - D * LOG2PI - spread) / 2)

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        M, V, n, B = self.posterior(X, weights)
        (value,), (p,) = self.split(x)
        dof = n - len(B) + 1
        return float(
            stats.multivariate_t.logpdf(
                value, M @ p, B * (1 + p @ np.linalg.solve(V, p)) / dof, dof
            )
        )

    # ---- 50 digits

    def _posterior_mp(self, X: Array, weights: Array) -> tuple[Any, Any, Any, Any]:
        M, V = cmp.square(self.M), cmp.square(self.V)
        n, MV, B = mp.mpf(float(self.n)), M * V, cmp.square(self.B) + M * V * M.T
        for x, p, w in zip(*self.split(X), weights, strict=True):
            w, x, p = mp.mpf(float(w)), cmp.column(x), cmp.column(p)
            n, V, MV, B = n + w, V + w * p * p.T, MV + w * x * p.T, B + w * x * x.T
        M = MV * mp.inverse(V)
        return M, V, n, B - M * V * M.T

    def log_marginal_mp(self, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            value = mp.mpf(0)
            for V, n, B, sign in (
                (*self._posterior_mp(X, weights)[1:], 1),
                (*self._posterior_mp(X[:0], [])[1:], -1),
            ):
                value += sign * (cmp.log_wishart(n, B) - mp.mpf(B.rows) / 2 * mp.log(mp.det(V)))
            return value - mp.fsum(map(float, weights)) * len(self.B) / 2 * mp.log(2 * mp.pi)

    def expected_log_likelihood_mp(self, x: Array, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            M, V, n, B = self._posterior_mp(X, weights)
            (value,), (p,) = self.split(x)
            p, D = cmp.column(p), len(self.B)
            spread = n * cmp.quadratic(cmp.column(value) - M * p, B) + D * cmp.quadratic(p, V)
            return (cmp.expected_logdet(n, B) - D * mp.log(2 * mp.pi) - spread) / 2

    def log_predictive_mp(self, x: Array, X: Array, weights: Array) -> Any:
        with mp.workdps(cmp.DIGITS):
            M, V, n, B = self._posterior_mp(X, weights)
            (value,), (p,) = self.split(x)
            p = cmp.column(p)
            dof = n - len(self.B) + 1
            return cmp.log_student(
                cmp.column(value), dof, M * p, B * ((1 + cmp.quadratic(p, V)) / dof)
            )
