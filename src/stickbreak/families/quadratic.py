"""Evidence that is quadratic in the row: what Gaussians with full covariance evaluate.

One matrix product evaluates rows on the features of `moments.py`. If a component is so far from its
anchor that the terms would cancel (`FAR`), its Cholesky factor is used instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.kernels.quadratic import full_features, shifted_features
from stickbreak.kernels.sparse import add_sparse_full, dot_sparse_full
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Shares, SparseShares, log_gamma_rise, triangle, weigh

from .base import LOG_2PI, BaseScores
from .missing import fill_missing
from .moments import FAR, prepare_full
from .partial import PartialRows, collect_partial, evaluate_partial, expect_partial
from .single_precision import multiply_roughly, pick_sparse, single

__all__ = [
    "Collecting", "DrawnScores", "FullForm", "QuadraticScores", "StudentScores", "far_slots",
    "impute_full",
]  # fmt: skip


@dataclass(frozen=True)
class FullForm:
    """(z - mean)' precision (z - mean) for K components.

    precision = weight * inverse(factor factor'). mean (K, D) relative to the anchor; factor
    (K, D, D) lower triangular; weight (K,); anchor (K, D).
    """

    mean: Array
    factor: Array
    weight: Array
    anchor: Array

    @cached_property
    def precision(self) -> Array:
        """(K, D, D) matrices of the form."""
        inverse = np.linalg.inv(self.factor)
        return self.weight[:, None, None] * (inverse.transpose(0, 2, 1) @ inverse)

    @cached_property
    def deviation(self) -> Array:
        """(K, D) standard deviations of a typical row."""
        return np.sqrt((self.factor**2).sum(2) / self.weight[:, None])

    @cached_property
    def size(self) -> Array:
        """(K,) size of the terms of the form for a typical row, at |mean| plus one deviation.

        The form itself is about 1 per column, so the size tells how many digits cancel.
        """
        typical = np.abs(self.mean) + self.deviation
        return np.einsum("kd,kde,ke->k", typical, np.abs(self.precision), typical)

    @cached_property
    def is_ill(self) -> Array:
        """(K,) whether adding the form's terms loses too many digits.

        Then the factor is used instead of the precision.
        """
        return self.size > FAR * self.mean.shape[1]

    def coefficients(self) -> Array:
        """(K, P) coefficients of the form on features about the anchor."""
        pull = (self.precision @ self.mean[:, :, None])[:, :, 0]
        squared = (pull * self.mean).sum(1)
        rows, columns = triangle(self.mean.shape[1])
        products = self.precision[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
        return np.concatenate([squared[:, None], -2.0 * pull, products], axis=1)

    def solve(self, k: int, features: Array) -> Array:
        """(D, n) inverse(factor) (z - mean) of component k."""
        from scipy.linalg import solve_triangular  # slow to import, and few models need it

        away = (features[1 : 1 + self.mean.shape[1]] - self.anchor[k][:, None]) - self.mean[k][
            :, None
        ]
        return np.asarray(solve_triangular(self.factor[k], away, lower=True, check_finite=False))

    def direct(self, k: int, features: Array) -> Array:
        """(n,) the form of component k, without differences of squares."""
        return self.weight[k] * (self.solve(k, features) ** 2).sum(0)

    def seen_from(self, k: int, features: Array) -> Array:
        """Features about the anchor of component k."""
        out = np.empty_like(features)
        shifted_features(features, self.anchor[k], self.mean.shape[1], out)
        full_features(out, self.mean.shape[1])
        return out


def impute_full(form: FullForm, rows: Any, shares: Array, center: Array, scale: Array) -> Any:
    """Rows (n, D) with missing entries replaced by their regression on the entries present.

    A row without entries becomes the mean.
    """
    prepared = prepare_full(rows, center, scale)
    if not isinstance(prepared, PartialRows):
        return rows
    z = shares @ (form.anchor + form.mean)
    z[prepared.places] = expect_partial(form, prepared, shares)
    return fill_missing(rows, z * scale + center)


def far_slots(is_ill: Array, anchor: Array) -> tuple[int, ...]:
    """Components that the shared matrix product cannot evaluate.

    They have an anchor of their own, or their terms are too large to add up.
    """
    return tuple(np.flatnonzero(is_ill | (anchor != 0).any(1)).tolist())


class Collecting(BaseScores):
    """Statistics of rows, the same for every rule of a family."""

    form: FullForm

    @cached_property
    def anchored(self) -> list[int]:
        """Components with an anchor of their own."""
        return np.flatnonzero((self.form.anchor != 0).any(1)).tolist()

    def collect(self, rows: Array | PartialRows, shares: Shares, out: dict[str, Array]) -> None:
        """Add moments about each component's anchor; missing entries add their expected moments."""
        if isinstance(rows, PartialRows):
            collect_partial(self.form, rows, shares, out["moments"])
            shares = (
                shares[rows.complete]
                if isinstance(shares, SparseShares)
                else shares.T[:, rows.complete].T
            )
        features = rows.features if isinstance(rows, PartialRows) else rows
        if isinstance(shares, SparseShares):
            rest = shares.without(self.anchored)
            add_sparse_full(
                features, self.form.mean.shape[1], rest.values, rest.index, out["moments"]
            )
        else:
            weigh(shares, features.T, out["moments"], skip=self.anchored)
        for k in self.anchored:
            out["moments"][k] += self.form.seen_from(k, features) @ shares[:, k]


@dataclass(frozen=True)
class QuadraticScores(Collecting):
    """Evidence = constant - form / 2."""

    form: FullForm
    constant: Array
    linear: Array
    far: tuple[int, ...]

    @classmethod
    def make(cls, form: FullForm, constant: Array) -> QuadraticScores:
        """Scores from constant (K,), the evidence at the component's mean."""
        linear = -0.5 * form.coefficients()
        linear[:, 0] += constant
        return cls(form, constant, linear, far_slots(form.is_ill, form.anchor))

    def evidence(self, rows: Array | PartialRows) -> Array:
        """(n, K) log evidence of features (P, n); the missing part of a row is integrated out."""
        if isinstance(rows, PartialRows):
            return rows.join(self.evidence(rows.features).T, self._partial_evidence(rows)).T
        out = self.linear @ rows
        for k in self.far:
            out[k] = self.constant[k] - 0.5 * self.form.direct(k, rows)
        return out.T

    @cached_property
    def _single(self) -> Array:
        return np.asarray(single(self.linear))

    def rough(self, rows: Array | PartialRows) -> Array:
        """(n, K) evidence in single precision.

        Far components and blocks with missing entries are exact.
        """
        if isinstance(rows, PartialRows):
            return self.evidence(rows)
        out = multiply_roughly(self._single, rows)
        for k in self.far:
            out[k] = self.constant[k] - 0.5 * self.form.direct(k, rows)
        return out.T

    def evidence_at(self, rows: Array | PartialRows, index: Array) -> Array:
        """(n, M) evidence for components index (n, M)."""
        if isinstance(rows, PartialRows):
            return pick_sparse(self.evidence(rows), index)
        out = np.empty(index.shape)
        dot_sparse_full(rows, self.form.mean.shape[1], self.linear, index, out)
        for k in self.far:
            i, m = np.nonzero(index == k)
            out[i, m] = self.constant[k] - 0.5 * self.form.direct(k, rows[:, i])
        return out

    def _partial_evidence(self, rows: PartialRows) -> Array:
        """(K, n) log of the integral of exp(evidence) over the missing entries.

        It is constant - form / 2 + the log volume of a Gaussian.
        """
        form, log_det = evaluate_partial(self.form, rows)
        return (
            self.constant[:, None]
            - 0.5 * (form + log_det - rows.n_missing * LOG_2PI)
            + rows.log_scale
        )

    def pair(self, counts: Counts) -> float:
        """<potentials, moments>, both about the anchors."""
        return float((self.linear * counts["moments"]).sum())


@dataclass(frozen=True)
class DrawnScores(QuadraticScores):
    """Evidence at drawn parameters.

    Rows must be complete to be counted: the expectation of a missing entry is not a draw of it.
    """

    @classmethod
    def make(cls, form: FullForm, constant: Array) -> DrawnScores:
        """Scores from constant (K,), the evidence at the component's mean."""
        found = QuadraticScores.make(form, constant)
        return cls(found.form, found.constant, found.linear, found.far)

    def collect(self, rows: Array | PartialRows, shares: Shares, out: dict[str, Array]) -> None:
        """Add moments about each component's anchor."""
        if isinstance(rows, PartialRows) and len(rows.places):
            raise ValueError(
                "no missing entries of Gaussians with full covariance are drawn, and "
                f"{len(rows.places)} rows of a block lack "
                "some; use DiagonalGaussian, whose columns leave them out exactly, or a "
                "variational engine such as BatchVB (for durations with "
                "duration_inference='embedded' or 'exact')"
            )
        super().collect(rows, shares, out)


@dataclass(frozen=True)
class StudentScores(Collecting):
    """Evidence = constant - power * log(1 + form / dof): a multivariate Student t."""

    form: FullForm
    constant: Array
    power: Array
    dof: Array

    @cached_property
    def _terms(self) -> tuple[Array, tuple[int, ...]]:
        return self.form.coefficients(), far_slots(self.form.is_ill, self.form.anchor)

    def evidence(self, rows: Array | PartialRows) -> Array:
        """(n, K) log predictive density of features (P, n); of the entries present in a row."""
        if isinstance(rows, PartialRows):
            return rows.join(self.evidence(rows.features).T, self._partial_evidence(rows)).T
        coefficients, far = self._terms
        out = np.maximum(coefficients @ rows, 0.0)
        for k in far:
            out[k] = self.form.direct(k, rows)
        out /= self.dof[:, None]
        np.log1p(out, out=out)
        out *= -self.power[:, None]
        out += self.constant[:, None]
        return out.T

    def _partial_evidence(self, rows: PartialRows) -> Array:
        """(K, n) Student t of the columns present.

        It has the same dof, and their part of the location and of the shape matrix.
        """
        form, log_det = evaluate_partial(self.form, rows)
        lost = np.arange(self.form.mean.shape[1])  # number of missing columns
        power = self.power[:, None] - 0.5 * lost
        rise = 0.5 * lost * np.log(self.dof * np.pi)[:, None] - log_gamma_rise(power, 0.5 * lost)
        at = rows.n_missing
        constant = (self.constant[:, None] + rise)[:, at] - 0.5 * log_det + rows.log_scale
        return constant - power[:, at] * np.log1p(form / self.dof[:, None])

    def pair(self, counts: Counts) -> float:
        """NaN: scores are not linear in the counts, and rules that use them have no bound."""
        return float("nan")
