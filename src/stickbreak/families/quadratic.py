"""Evidence that is quadratic in the row, shared by the Gaussian families: one matrix product to judge, one to collect.

Rows are centred and scaled once (`standardize`), and their features [1, z, products of z] are laid out feature-major.
Statistics are moments about a reference point, the component's *anchor*: the centre of the data (zero) as a rule. A
component so far from its anchor that differences of squares would cancel (`FAR`) is judged by its Cholesky factor, and
gets an anchor of its own at the end of the lap (`Reanchor`), which keeps its moments accurate too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from stickbreak.errors import NumericalError
from stickbreak.kernels.quadratic import (
    diagonal_features,
    full_features,
    shifted_features,
    standardize,
    standardized_diagonal,
    standardized_full,
)
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Reanchor, triangle

from .base import BaseFamily

__all__ = [
    "FAR", "DiagonalForm", "DiagonalMoments", "FullForm", "FullMoments", "QuadraticScores", "StudentScores", "cholesky",
    "far_averages", "far_slots", "moment_fields", "moment_zeros", "n_diagonal", "n_full", "prepare_diagonal", "prepare_full",
    "prepare_standardized", "spread", "unpack_symmetric",
]  # fmt: skip

FAR = 1e5
"""Size of a quadratic form's terms beyond which their sum loses more than 2e-11 (it is of order 1; they round at 2e-16)."""

EMPTY = 1e-8
"""Fewer rows than this are what running differences leave of none: their average means nothing."""


# ---------------------------------------------------------------------------------------------- layout of features


def n_full(n_features: int) -> int:
    """Length of [1, z, z_a z_b for a <= b]."""
    return 1 + n_features + n_features * (n_features + 1) // 2


def n_diagonal(n_features: int) -> int:
    """Length of [1, z, z**2]."""
    return 1 + 2 * n_features


def unpack_symmetric(packed: Array, n_features: int) -> Array:
    """(K, D (D + 1) / 2) upper triangles to (K, D, D) symmetric matrices."""
    rows, columns = triangle(n_features)
    out = np.empty((len(packed), n_features, n_features))
    out[:, rows, columns] = packed
    out[:, columns, rows] = packed
    return out


def _as_rows(rows: Any) -> Array:
    rows = np.asarray(rows)
    return np.ascontiguousarray(rows) if rows.dtype in (np.float64, np.float32) else rows.astype(float, order="C")


def prepare_full(rows: Any, center: Array, scale: Array) -> Array:
    """(n, D) rows to features (P, n)."""
    rows = _as_rows(rows)
    out = np.empty((n_full(rows.shape[1]), len(rows)))
    standardized_full(rows, center, 1.0 / scale, out)
    return out


def prepare_standardized(rows: Any, center: Array, scale: Array) -> Array:
    """(n, D) rows to [1, z] (1 + D, n)."""
    rows = _as_rows(rows)
    out = np.empty((1 + rows.shape[1], len(rows)))
    standardize(rows, center, 1.0 / scale, out)
    return out


def prepare_diagonal(rows: Any, center: Array, scale: Array) -> Array:
    """(n, D) rows to features [1, z, z**2] (1 + 2 D, n)."""
    rows = _as_rows(rows)
    out = np.empty((n_diagonal(rows.shape[1]), len(rows)))
    standardized_diagonal(rows, center, 1.0 / scale, out)
    return out


# ---------------------------------------------------------------------------------------------- moments


def moment_fields(axis: str) -> dict[str, Field]:
    """Moments about the anchor, and the anchor itself (which describes them, and so is not added)."""
    return {
        "moments": Field((axis, None), nonnegative=False, about="anchor"),
        "anchor": Field((axis, None), nonnegative=False, merge="keep", additive=False),
    }


def moment_zeros(n_components: int, n_moments: int, n_features: int) -> dict[str, Array]:
    """No rows seen, all anchors at the centre."""
    return {"moments": np.zeros((n_components, n_moments)), "anchor": np.zeros((n_components, n_features))}


def spread(count: Array, first: Array, second: Array, strength: float, prior: Array) -> tuple[Array, Array, Array]:
    """What the data say of each component: posterior mean (K, D), scatter about the average, and the prior's pull (K, D).

    The scatter is sum (x - xbar)(x - xbar)', (K, D, D), or (K, D) when `second` holds squares only: the one difference of
    large terms, which is why moments are about the anchor. The pull adds pull pull' to it, where
    pull = sqrt(strength n / (strength + n)) (xbar - prior). prior (K, D) is the prior mean as seen from the anchors.
    A component with next to no rows (what subtraction leaves of none) is at the prior.
    """
    seen = count > EMPTY
    n = np.where(seen, count, 0.0)
    average = np.where(seen[:, None], first / np.where(seen, count, 1.0)[:, None], prior)
    away = average - prior
    pull = np.sqrt(strength * n / (strength + n))[:, None] * away
    mean = average - (strength / (strength + n))[:, None] * away
    if second.ndim == 2:
        return mean, np.maximum(np.where(seen[:, None], second - n[:, None] * average**2, 0.0), 0.0), pull
    inner = second - n[:, None, None] * average[:, :, None] * average[:, None, :]
    return mean, np.where(seen[:, None, None], inner, 0.0), pull


def far_averages(count: Array, first: Array, scatter: Array, anchor: Array) -> Reanchor | None:
    """New anchors, at the averages, for components whose moments about theirs have lost too many digits.

    scatter: the prior's and the data's (without the pull), (K, D, D) or its diagonal (K, D); judged column by column.
    """
    seen = count > EMPTY
    average = np.where(seen[:, None], first / np.where(seen, count, 1.0)[:, None], 0.0)
    variance = scatter if scatter.ndim == 2 else np.einsum("kdd->kd", scatter)
    if scatter.ndim == 3:
        variance = 1.0 / np.einsum("kdd->kd", np.linalg.inv(scatter))
    far = (np.maximum(count, 1.0)[:, None] * average**2 > FAR * variance).any(1)
    if not far.any():
        return None
    return Reanchor("anchor", np.where(far[:, None], anchor + average, anchor))


def cholesky(scatter: Array, squares: Array) -> Array:
    """Lower factors (K, D, D). `squares` (K, D): raw second moments, which tell how far the scatter may be wrong by rounding."""
    try:
        return np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        pass
    rounding = 8 * np.finfo(float).eps * squares
    padded = scatter + rounding[:, :, None] * np.eye(scatter.shape[-1])
    try:
        return np.linalg.cholesky(padded)
    except np.linalg.LinAlgError:
        raise NumericalError(
            "a component's scatter matrix is not positive definite; give the family a larger prior covariance"
        ) from None


def far_slots(size: Array, anchor: Array) -> tuple[int, ...]:
    """Components that the shared matrix product must not judge: anchored elsewhere, or with terms too large to add up."""
    return tuple(np.flatnonzero((size > FAR) | (anchor != 0).any(1)).tolist())


class MomentFamily(BaseFamily):
    """A family of vectors whose statistics are moments about anchors, in the frame (center, scale)."""

    center: Any
    scale: Any

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.center)

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return self.n_features

    def width(self) -> int:
        """Features of a row."""
        raise NotImplementedError

    def fields(self, axis: str) -> dict[str, Field]:
        """Moments [n, sum z, sums of products] about the anchor, and the anchor."""
        return moment_fields(axis)

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return moment_zeros(n_components, self.width(), self.n_features)

    def prepare_seeding(self, rows: Any) -> Array:
        """(n, D) rows to [1, z] (1 + D, n)."""
        return prepare_standardized(rows, self.center, self.scale)

    def _log_jacobian(self) -> float:
        """Log density in the user's units minus that in the frame."""
        return -float(np.log(self.scale).sum())


class FullMoments(MomentFamily):
    """Products of all pairs of columns."""

    def width(self) -> int:
        """Features of a row."""
        return n_full(self.n_features)

    def prepare(self, rows: Any) -> Array:
        """(n, D) rows to features (P, n)."""
        return prepare_full(rows, self.center, self.scale)


class DiagonalMoments(MomentFamily):
    """Squares of columns only."""

    def width(self) -> int:
        """Features of a row."""
        return n_diagonal(self.n_features)

    def prepare(self, rows: Any) -> Array:
        """(n, D) rows to features (1 + 2 D, n)."""
        return prepare_diagonal(rows, self.center, self.scale)


# ---------------------------------------------------------------------------------------------- quadratic forms


@dataclass(frozen=True)
class FullForm:
    """(z - mean)' precision (z - mean) for K components; precision = weight * inverse(factor factor').

    mean (K, D) from the anchor; factor (K, D, D) lower; weight (K,); anchor (K, D).
    """

    mean: Array
    factor: Array
    weight: Array
    anchor: Array

    def coefficients(self) -> tuple[Array, Array]:
        """(K, P) coefficients of the form on features about the anchor, and the size (K,) of the terms that they add up.

        The size is that of a typical row, |mean| plus one standard deviation: what is left of it after cancellation is
        about 1, so it tells how many digits go.
        """
        inverse = np.linalg.inv(self.factor)
        precision = self.weight[:, None, None] * (inverse.transpose(0, 2, 1) @ inverse)
        pull = (precision @ self.mean[:, :, None])[:, :, 0]
        squared = (pull * self.mean).sum(1)
        rows, columns = triangle(self.mean.shape[1])
        products = precision[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
        typical = np.abs(self.mean) + np.sqrt((self.factor**2).sum(2) / self.weight[:, None])
        size = np.einsum("kd,kde,ke->k", typical, np.abs(precision), typical)
        return np.concatenate([squared[:, None], -2.0 * pull, products], axis=1), size

    def direct(self, k: int, features: Array) -> Array:
        """(n,) the form of one component without differences of squares."""
        D = self.mean.shape[1]
        away = (features[1 : 1 + D] - self.anchor[k][:, None]) - self.mean[k][:, None]
        solved = solve_triangular(self.factor[k], away, lower=True, check_finite=False)
        return self.weight[k] * (solved**2).sum(0)

    def seen_from(self, k: int, features: Array) -> Array:
        """Features about the anchor of component k."""
        out = np.empty_like(features)
        shifted_features(features, self.anchor[k], self.mean.shape[1], out)
        full_features(out, self.mean.shape[1])
        return out


@dataclass(frozen=True)
class DiagonalForm:
    """sum_d precision_d (z_d - mean_d)**2 for K components. mean, precision, anchor (K, D)."""

    mean: Array
    precision: Array
    anchor: Array

    def coefficients(self) -> tuple[Array, Array]:
        """(K, 1 + 2 D) coefficients on [1, z, z**2] about the anchor, and the size (K,) of the terms that they add up."""
        pull = self.precision * self.mean
        squared = (pull * self.mean).sum(1)
        size = ((np.abs(self.mean) * np.sqrt(self.precision) + 1.0) ** 2).sum(1)
        return np.concatenate([squared[:, None], -2.0 * pull, self.precision], axis=1), size

    def direct(self, k: int, features: Array) -> Array:
        """(n,) the form of one component without differences of squares."""
        D = self.mean.shape[1]
        away = (features[1 : 1 + D] - self.anchor[k][:, None]) - self.mean[k][:, None]
        return self.precision[k] @ away**2

    def seen_from(self, k: int, features: Array) -> Array:
        """Features about the anchor of component k."""
        out = np.empty_like(features)
        shifted_features(features, self.anchor[k], self.mean.shape[1], out)
        diagonal_features(out, self.mean.shape[1])
        return out


class _Collecting:
    """Statistics of rows: the same for every rule of a family."""

    form: Any

    @cached_property
    def anchored(self) -> list[int]:
        """Components with a reference point of their own."""
        return np.flatnonzero((self.form.anchor != 0).any(1)).tolist()

    def collect(self, rows: Array, shares: Array, out: dict[str, Array]) -> None:
        """Add moments about each component's anchor."""
        moments = shares.T @ rows.T
        for k in self.anchored:
            moments[k] = self.form.seen_from(k, rows) @ shares[:, k]
        out["moments"] += moments


@dataclass(frozen=True)
class QuadraticScores(_Collecting):
    """Evidence constant - form / 2."""

    form: Any
    constant: Array
    linear: Array
    far: tuple[int, ...]

    @classmethod
    def make(cls, form: Any, constant: Array) -> QuadraticScores:
        """Constant (K,): the evidence at the component's mean."""
        coefficients, size = form.coefficients()
        linear = -0.5 * coefficients
        linear[:, 0] += constant
        return cls(form, constant, linear, far_slots(size, form.anchor))

    def evidence(self, rows: Array) -> Array:
        """(n, K) log evidence of features (P, n)."""
        out = self.linear @ rows
        for k in self.far:
            out[k] = self.constant[k] - 0.5 * self.form.direct(k, rows)
        return out.T

    def pair(self, counts: Counts) -> float:
        """<potentials, moments>, both about the anchors."""
        return float((self.linear * counts["moments"]).sum())


@dataclass(frozen=True)
class StudentScores(_Collecting):
    """Evidence constant - power * log(1 + form / dof): a multivariate Student t."""

    form: Any
    constant: Array
    power: Array
    dof: Array

    @cached_property
    def _judging(self) -> tuple[Array, tuple[int, ...]]:
        coefficients, size = self.form.coefficients()
        return coefficients, far_slots(size, self.form.anchor)

    def evidence(self, rows: Array) -> Array:
        """(n, K) log predictive density of features (P, n)."""
        coefficients, far = self._judging
        out = np.maximum(coefficients @ rows, 0.0)
        for k in far:
            out[k] = self.form.direct(k, rows)
        out /= self.dof[:, None]
        np.log1p(out, out=out)
        out *= -self.power[:, None]
        out += self.constant[:, None]
        return out.T

    def pair(self, counts: Counts) -> float:
        """Not linear in the counts: rules that use it have no bound."""
        return float("nan")
