"""Regression of a row's value on its context: posterior, form, predictive density, and draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stickbreak.protocols import Array, Counts

from . import quadratic
from .moments import cholesky
from .partial import PartialRows

__all__ = ["MatrixNormalWishart", "PredictiveScores", "RegressionForm", "Successors"]


class MatrixNormalWishart(NamedTuple):
    """Posterior in the standardized frame of (context, departure); means are from the anchors."""

    strength: Array  # (K,) of the intercept; infinite without one
    mean: Array  # (K, W) of context and departure; zero without an intercept
    dof: Array  # (K,)
    factor: Array  # (K, W, W) lower factor of the joint scatter
    log_det_context: Array  # (K,) of V
    log_det: Array  # (K,) of B
    anchor: Array  # (K, W)


@dataclass(frozen=True)
class RegressionForm(quadratic.FullForm):
    """Sum of weight * w**2, where w = inverse(factor) (z - mean).

    Each direction has its own weight, (K, D); 0 leaves it out. With the context first and factor
    factor' the joint scatter, the first directions are those of the context, the others those of
    the residual of the regression.
    """

    @cached_property
    def precision(self) -> Array:
        """(K, D, D) matrices of the form."""
        inverse = np.linalg.inv(self.factor)
        return inverse.transpose(0, 2, 1) @ (self.weight[:, :, None] * inverse)

    @cached_property
    def deviation(self) -> Array:
        """(K, D) standard deviations of a typical row.

        The largest weight is about the number of rows in the scatter.
        """
        return np.sqrt((self.factor**2).sum(2) / self.weight.max(1)[:, None])

    def direct(self, k: int, features: Array) -> Array:
        """(n,) the form of component k, without differences of squares."""
        return np.asarray(self.weight[k] @ self.solve(k, features) ** 2)


@dataclass(frozen=True)
class PredictiveScores(quadratic.Collecting):
    """Student t of the value given the context.

    Evidence = constant - D / 2 log(widen + q) - power * log(1 + r / (widen + q)), where q and r are
    the forms `context` and `form` of the context and of the residual; n_values is D.
    """

    form: RegressionForm
    context: RegressionForm
    constant: Array
    power: Array
    widen: Array
    n_values: int

    @cached_property
    def _terms(self) -> tuple[Array, Array, tuple[int, ...]]:
        far = quadratic.far_slots(self.form.is_ill | self.context.is_ill, self.form.anchor)
        return self.context.coefficients(), self.form.coefficients(), far

    def evidence(self, rows: Array | PartialRows) -> Array:
        """(n, K) log predictive density of features (P, n)."""
        # No row is partial: a row counts as a whole or not at all.
        if isinstance(rows, PartialRows):
            return rows.join(self.evidence(rows.features).T, np.empty((len(self.power), 0))).T
        of_context, of_residual, far = self._terms
        q, r = np.maximum(of_context @ rows, 0.0), np.maximum(of_residual @ rows, 0.0)
        for k in far:
            q[k], r[k] = self.context.direct(k, rows), self.form.direct(k, rows)
        q += self.widen[:, None]
        r /= q
        np.log1p(r, out=r)
        r *= self.power[:, None]
        np.log(q, out=q)
        q *= -0.5 * self.n_values
        q -= r
        q += self.constant[:, None]
        return q.T

    def pair(self, counts: Counts) -> float:
        """NaN: scores are not linear in the counts, and rules that use them have no bound."""
        return float("nan")


@dataclass(frozen=True)
class Successors:
    """Draws values that follow contexts, from the posterior predictive, in the user's units.

    center (K, E) : context at which coefficients and intercept are independent.
    value (K, D) : expected value there. coefficients (K, D, E).
    whiten (K, E, E) : whitens contexts about the center.
    widen (K,) : 1 plus the variance of the intercept.
    root (K, D, D) : factor of the shape matrix of a Student t with dof (K,).
    average (K, E), spread (K, E, E) : average of the contexts, and factor of their covariance.
    """

    center: Array
    value: Array
    coefficients: Array
    whiten: Array
    widen: Array
    root: Array
    dof: Array
    average: Array
    spread: Array

    @classmethod
    def make(cls, family: Any, q: MatrixNormalWishart, counts: Counts) -> Successors:
        """The sampler of an AutoregressiveGaussian with posterior q of its counts."""
        D, E = family.n_values, family.n_context
        of_context, of_value = family.scale[:E], family.scale[E:]
        whiten = np.linalg.inv(q.factor[:, :E, :E])
        place = (q.anchor + q.mean) * family.scale + family.center
        dof = q.dof + 1.0 - D
        average, spread = _contexts(family, q, counts["moments"])
        return cls(
            center=place[:, :E],
            value=place[:, E:] + place[:, :E] @ family.mean.T,
            coefficients=family.mean
            + q.factor[:, E:, :E] @ whiten * (of_value[:, None] / of_context),
            whiten=whiten / of_context,
            widen=1.0 + 1.0 / q.strength,
            root=q.factor[:, E:, E:] * of_value[:, None] / np.sqrt(dof)[:, None, None],
            dof=dof,
            average=average * of_context + family.center[:E],
            spread=spread * of_context[:, None],
        )

    def draw(self, labels: Array, contexts: Array, rng: np.random.Generator) -> Array:
        """(n, D) the value that follows each context (n, E) under component labels (n,)."""
        dof = self.dof[labels]
        noise = (
            rng.standard_normal((len(labels), self.value.shape[1]))
            / np.sqrt(rng.chisquare(dof) / dof)[:, None]
        )
        out = np.empty_like(noise)
        for k in np.unique(labels):
            at = np.flatnonzero(labels == k)
            away = contexts[at] - self.center[k]
            width = np.sqrt(self.widen[k] + ((away @ self.whiten[k].T) ** 2).sum(1))
            out[at] = (
                self.value[k]
                + away @ self.coefficients[k].T
                + width[:, None] * (noise[at] @ self.root[k].T)
            )
        return out

    def draw_contexts(self, labels: Array, rng: np.random.Generator) -> Array:
        """(n, E) contexts like those that each component has seen.

        They are Gaussian, with the average and covariance of those seen.
        """
        noise = rng.standard_normal((len(labels), self.average.shape[1]))
        out = np.empty_like(noise)
        for k in np.unique(labels):
            at = labels == k
            out[at] = self.average[k] + noise[at] @ self.spread[k].T
        return out

    def draw_path(self, labels: Array, context: Array, rng: np.random.Generator) -> Array:
        """(T, D) a sequence in which every value becomes the context of the next.

        labels (T,); context (E,) of the first value.
        """
        D = self.value.shape[1]
        out, context = np.empty((len(labels), D)), np.array(context, dtype=float)
        for t in range(len(labels)):
            out[t] = self.draw(labels[t : t + 1], context[None], rng)[0]
            context = np.concatenate([out[t], context[:-D]])
        return out


def _contexts(family: Any, q: MatrixNormalWishart, moments: Array) -> tuple[Array, Array]:
    """Average (K, E) of the contexts, and factor (K, E, E) of their covariance, in the frame.

    The prior counts among the contexts seen.
    """
    E, factor = family.n_context, q.factor[:, : family.n_context, : family.n_context]
    rows = family.mean_strength + moments[:, 0]
    if family.intercept:
        return (q.anchor + q.mean)[:, :E], factor / np.sqrt(rows)[:, None, None]
    average = moments[:, 1 : 1 + E] / rows[:, None]
    square = factor @ factor.transpose(0, 2, 1) / rows[:, None, None]
    covariance = square - average[:, :, None] * average[:, None, :]
    return average, cholesky(covariance, np.einsum("kdd->kd", square))
