"""Oracles for rows with missing entries (NaN), from the oracles of complete rows.

Columns   independent columns: a missing entry leaves its factor out
Rows      a row may be missing as a whole
Integrated   any density of vectors: missing entries are integrated out numerically
condition, condition_mp   the Gaussian conditional of what is missing, straight from the precision
matrix
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np

from oracles import conjugate_mp as cmp

Array = np.ndarray


@dataclass(frozen=True)
class Columns:
    """Independent columns, parts[d] the oracle of column d alone; -1 is missing too where
    `is_symbols`.
    """

    parts: tuple[Any, ...]
    is_symbols: bool = False

    def seen(self, X: Array) -> Array:
        X = np.asarray(X, dtype=float)
        return ~np.isnan(X) & ~(self.is_symbols & (X == -1))

    def column(self, d: int, X: Array, weights: Array) -> tuple[Array, Array]:
        there = self.seen(X)[:, d]
        return np.asarray(X)[there][:, [d]], np.asarray(weights)[there]

    def log_marginal(self, X: Array, weights: Array) -> float:
        return float(
            sum(part.log_marginal(*self.column(d, X, weights)) for d, part in enumerate(self.parts))
        )

    def _of_row(self, method: str, x: Array, X: Array, weights: Array) -> float:
        there = np.flatnonzero(self.seen(x))
        return float(
            sum(
                getattr(self.parts[d], method)(np.asarray(x)[[d]], *self.column(d, X, weights))
                for d in there
            )
        )

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        return self._of_row("expected_log_likelihood", x, X, weights)

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        return self._of_row("log_predictive", x, X, weights)

    def log_marginal_mp(self, X: Array, weights: Array) -> float:
        return float(
            sum(
                part.log_marginal_mp(*self.column(d, X, weights))
                for d, part in enumerate(self.parts)
            )
        )

    def expected_log_likelihood_mp(self, x: Array, X: Array, weights: Array) -> float:
        return self._of_row("expected_log_likelihood_mp", x, X, weights)

    def log_predictive_mp(self, x: Array, X: Array, weights: Array) -> float:
        return self._of_row("log_predictive_mp", x, X, weights)


@dataclass(frozen=True)
class Rows:
    """Rows that are all NaN are left out."""

    whole: Any

    @staticmethod
    def seen(X: Array) -> Array:
        return ~np.isnan(X).all(1)

    def log_marginal(self, X: Array, weights: Array) -> float:
        there = self.seen(X)
        return float(self.whole.log_marginal(X[there], np.asarray(weights)[there]))

    def expected_log_likelihood(self, x: Array, X: Array, weights: Array) -> float:
        there = self.seen(X)
        return (
            0.0
            if np.isnan(x).all()
            else self.whole.expected_log_likelihood(x, X[there], np.asarray(weights)[there])
        )

    def log_predictive(self, x: Array, X: Array, weights: Array) -> float:
        there = self.seen(X)
        return (
            0.0
            if np.isnan(x).all()
            else self.whole.log_predictive(x, X[there], np.asarray(weights)[there])
        )


@dataclass(frozen=True)
class Integrated:
    """Missing entries integrated over the line by x = center + width tan(pi t / 2), Gauss-Legendre
    in t.
    """

    whole: Any
    center: Array
    width: Array
    n_points: int = 40

    def log_marginal(self, X: Array, weights: Array) -> float:
        filled, log_step = self.grid(X)
        return float(
            np.logaddexp.reduce(
                [self.whole.log_marginal(rows, weights) for rows in filled] + log_step
            )
        )

    def grid(self, X: Array) -> tuple[Array, Array]:
        """X (n, D) with every missing entry filled, (G, n, D), and the log of each point's weight
        (G,).
        """
        X = np.asarray(X, dtype=float)
        holes = np.argwhere(np.isnan(X))
        t, step = np.polynomial.legendre.leggauss(self.n_points)
        places, log_steps = (
            np.tan(0.5 * np.pi * t),
            np.log(step * 0.5 * np.pi / np.cos(0.5 * np.pi * t) ** 2),
        )
        at = np.array(list(product(range(self.n_points), repeat=len(holes))), dtype=int).reshape(
            self.n_points ** len(holes), len(holes)
        )
        filled, log_step = np.repeat(X[None], len(at), axis=0), np.zeros(len(at))
        for i, (row, d) in enumerate(holes):
            filled[:, row, d] = self.center[d] + self.width[d] * places[at[:, i]]
            log_step += log_steps[at[:, i]] + np.log(self.width[d])
        return filled, log_step


def condition(precision: Array, away: Array) -> tuple[float, float, Array, Array]:
    """Of a row about its mean, away (D,) with NaN where missing, under a Gaussian with this
    precision:

    form of the rest after minimization over the missing part, log det P_mm, completed row (D,),
    covariance (D, D).
    """
    m = np.isnan(away)
    P, a = precision, away[~m]
    gain = np.linalg.solve(P[np.ix_(m, m)], P[np.ix_(m, ~m)])
    schur = P[np.ix_(~m, ~m)] - P[np.ix_(~m, m)] @ gain
    completed, covariance = away.copy(), np.zeros_like(P)
    completed[m] = -gain @ a
    covariance[np.ix_(m, m)] = np.linalg.inv(P[np.ix_(m, m)])
    return float(a @ schur @ a), float(np.linalg.slogdet(P[np.ix_(m, m)])[1]), completed, covariance


def _block(matrix: Any, rows: Any, columns: Any) -> Any:
    return mp.matrix([[matrix[int(i), int(j)] for j in columns] for i in rows])


@cmp.at_50_digits
def nw_partial(prior: Any, x: Array, X: Array) -> tuple[Any, Any, Any]:
    """Normal-Wishart oracle `prior` given complete rows X, and a row x with NaN, in 50 digits:

    log of the integral of exp(E log N) over the missing part, log marginal Student t of the rest,
    conditional mean of the missing.
    """
    mean, k, n, B = cmp.nw_posterior(prior.m0, prior.kappa, prior.n, prior.B, X, np.ones(len(X)))
    D, o, m = len(x), np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
    away = cmp.column(x[o]) - mp.matrix([mean[int(i)] for i in o])
    # of the covariance B / n the part that is there: its Schur complement is inverted
    inner = mp.inverse(_block(B, o, o))
    form = n * (away.T * inner * away)[0]
    log_det_missing = mp.log(mp.det(_block(B, o, o))) - mp.log(mp.det(B)) + len(m) * mp.log(n)
    constant = (cmp.expected_logdet(n, B) - D * mp.log(2 * mp.pi) - D / k) / 2
    expected = constant - form / 2 + (len(m) * mp.log(2 * mp.pi) - log_det_missing) / 2
    dof = n - D + 1
    location = mp.matrix([mean[int(i)] for i in o])
    student = cmp.log_student(
        cmp.column(x[o]), dof, location, _block(B, o, o) * ((k + 1) / (k * dof))
    )
    conditional = mp.matrix([mean[int(i)] for i in m]) + _block(B, m, o) * inner * away
    return expected, student, conditional
