"""Evidence that is quadratic in the row, shared by the Gaussian families.

One matrix product evaluates rows, another collects their statistics. Rows are centered and scaled
once (`standardize`), and their features [1, z, products of z] are laid out feature-major.

Statistics are moments about a reference point, the component's *anchor*, usually the center of the
data (zero). If a component is so far from its anchor that differences of squares would cancel
(`FAR`), its Cholesky factor is used instead of the matrix product. At the end of the lap it gets an
anchor of its own (`Reanchor`), which keeps its moments accurate too.

This file has what all of them share, and the scores of full covariances. Independent columns are in
`columns.py`, rows with missing entries in `partial.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from stickbreak.errors import NumericalError
from stickbreak.kernels.quadratic import (
    full_features,
    shifted_features,
    standardize,
    standardized_full,
)
from stickbreak.kernels.sparse import add_sparse_full, dot_sparse_full
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Reanchor, Shares, SparseShares, triangle, weigh

from .base import LOG_2PI, BaseFamily, BaseScores, fill_missing
from .partial import PartialRows, collect_partial, divide_rows, evaluate_partial, expect_partial
from .single_precision import multiply_roughly, pick_sparse, single

__all__ = [
    "FAR", "Collecting", "DrawnScores", "FullForm", "FullMoments", "MomentFamily",
    "QuadraticScores", "StudentScores", "as_rows",
    "cholesky", "draw_deviations", "draw_factors", "far_averages", "far_slots", "impute_full",
    "moment_zeros", "n_full",
    "prepare_full", "prepare_standardized", "spread", "unpack_symmetric",
]  # fmt: skip

FAR = 1e5
"""Limit for the terms of a quadratic form, per column. Beyond it their sum, which is about 1 per
column, loses more than 2e-11 of itself: terms round at 2e-16."""

EMPTY = 1e-11
"""Fewer rows than this are rounding errors of running differences: their average means nothing.

Their part of the bound is left out, so the limit must be as small as rounding: components lose
their last rows slowly."""


# ------------------------------------------------------------------------------- layout of features


def n_full(n_features: int) -> int:
    """Length of [1, z, z_a z_b for a <= b]."""
    return 1 + n_features + n_features * (n_features + 1) // 2


def unpack_symmetric(packed: Array, n_features: int) -> Array:
    """(K, D (D + 1) / 2) upper triangles to (K, D, D) symmetric matrices."""
    rows, columns = triangle(n_features)
    out = np.empty((len(packed), n_features, n_features))
    out[:, rows, columns] = packed
    out[:, columns, rows] = packed
    return out


def as_rows(rows: Any) -> Array:
    """The user's rows as contiguous floats."""
    rows = np.asarray(rows)
    return (
        np.ascontiguousarray(rows)
        if rows.dtype in (np.float64, np.float32)
        else rows.astype(float, order="C")
    )


def prepare_full(rows: Any, center: Array, scale: Array) -> Array | PartialRows:
    """Features (P, n) of rows (n, D); with missing entries, partial rows are kept apart."""
    rows = as_rows(rows)
    out = np.empty((n_full(rows.shape[1]), len(rows)))
    is_incomplete = standardized_full(rows, center, 1.0 / scale, out)
    return divide_rows(np.isnan(rows), out, np.log(scale)) if is_incomplete else out


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


def prepare_standardized(rows: Any, center: Array, scale: Array) -> Array:
    """[1, z] (1 + D, n) of rows (n, D); a missing entry is 0, the center."""
    rows = as_rows(rows)
    out = np.empty((1 + rows.shape[1], len(rows)))
    if standardize(rows, center, 1.0 / scale, out):
        np.copyto(out, 0.0, where=np.isnan(out))
    return out


# ------------------------------------------------------------------------------------------ moments


def moment_zeros(n_components: int, n_moments: int, n_features: int) -> dict[str, Array]:
    """Moments and anchors of no rows; all anchors are at the center."""
    return {
        "moments": np.zeros((n_components, n_moments)),
        "anchor": np.zeros((n_components, n_features)),
    }


def spread(
    count: Array, first: Array, second: Array, strength: float, prior: Array
) -> tuple[Array, Array, Array]:
    """Posterior mean (K, D), scatter about the average, and the prior's pull (K, D).

    scatter : sum (x - xbar)(x - xbar)', (K, D, D); or (K, D) if `second` holds squares only. It is
        the only difference of large terms, and the reason why moments are about the anchor.
    pull : sqrt(strength n / (strength + n)) (xbar - prior); the posterior adds pull pull' to the
        scatter.

    prior (K, D) : prior mean, relative to the anchors.
    count (K, 1) : rows; or (K, D) where columns have their own counts (squares only). A component
        with fewer than `EMPTY` rows, a remainder of subtraction, is at the prior.
    """
    seen = count > EMPTY
    n = np.where(seen, count, 0.0)
    average = np.where(seen, first / np.where(seen, count, 1.0), prior)
    away = average - prior
    pull = np.sqrt(strength * n / (strength + n)) * away
    mean = average - strength / (strength + n) * away
    if second.ndim == 2:
        return mean, np.maximum(np.where(seen, second - n * average**2, 0.0), 0.0), pull
    inner = second - n[:, :, None] * average[:, :, None] * average[:, None, :]
    return mean, np.where(seen[:, :, None], inner, 0.0), pull


def far_averages(count: Array, first: Array, scatter: Array, anchor: Array) -> Reanchor | None:
    """New anchors, at the averages, for components whose moments have lost too many digits.

    scatter : of the prior and the data, without the pull; (K, D, D) or its diagonal (K, D). Each
        column is checked by itself.
    count : (K, 1) or (K, D).
    """
    seen = count > EMPTY
    average = np.where(seen, first / np.where(seen, count, 1.0), 0.0)
    variance = scatter if scatter.ndim == 2 else 1.0 / np.einsum("kdd->kd", np.linalg.inv(scatter))
    far = (np.maximum(count, 1.0) * average**2 > FAR * variance).any(1)
    if not far.any():
        return None
    return Reanchor("anchor", np.where(far[:, None], anchor + average, anchor))


def cholesky(scatter: Array, squares: Array) -> Array:
    """Lower factors (K, D, D) of the scatters.

    squares (K, D) : raw second moments, which bound the rounding error of the scatter.
    """
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
            "a component's scatter matrix is not positive definite; give the family a larger prior "
            "covariance"
        ) from None


def draw_factors(dof: Array, factor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Lower factors F (K, D, D) of drawn covariances F F', and their log determinants (K,).

    The precisions, inverses of F F', are Wishart(dof, inverse scale factor factor').

    precision = factor^-T U U' factor^-1, where U is upper triangular with standard normals above a
    diagonal of square roots of chi squares: the triangular form of a standard Wishart, with columns
    taken from the last to the first. Then F = factor U^-T is lower triangular.
    """
    K, D = factor.shape[:2]
    upper = np.triu(rng.standard_normal((K, D, D)), 1)
    squares = rng.chisquare(dof[:, None] - np.arange(D)[::-1])
    upper[:, np.arange(D), np.arange(D)] = np.sqrt(squares)
    log_det = 2.0 * np.log(np.einsum("kdd->kd", factor)).sum(1) - np.log(squares).sum(1)
    return factor @ np.linalg.inv(upper).transpose(0, 2, 1), log_det


def draw_deviations(factor: Array, rng: np.random.Generator) -> Array:
    """(K, D) one normal vector for each component, with covariance factor factor'."""
    return np.asarray((factor @ rng.standard_normal((*factor.shape[:2], 1)))[:, :, 0])


def far_slots(is_ill: Array, anchor: Array) -> tuple[int, ...]:
    """Components that the shared matrix product cannot evaluate.

    They have an anchor of their own, or their terms are too large to add up.
    """
    return tuple(np.flatnonzero(is_ill | (anchor != 0).any(1)).tolist())


class MomentFamily(BaseFamily):
    """A family of vectors; statistics are moments about anchors, in the frame (center, scale)."""

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
        """Number of features of a row."""
        raise NotImplementedError

    def fields(self, axis: str) -> dict[str, Field]:
        """Moments [n, sum z, sums of products] about the anchor, and the anchor.

        The anchor describes the moments and is not added up.
        """
        return {
            "moments": Field((axis, None), nonnegative=False, about="anchor"),
            "anchor": Field((axis, None), nonnegative=False, merge="keep", additive=False),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        return moment_zeros(n_components, self.width(), self.n_features)

    def prepare_seeding(self, rows: Any) -> Array:
        """[1, z] (1 + D, n) of rows (n, D)."""
        return prepare_standardized(rows, self.center, self.scale)

    def _log_jacobian(self) -> float:
        """Log density in the user's units minus log density in the frame."""
        return -float(np.log(self.scale).sum())


class FullMoments(MomentFamily):
    """A family whose statistics are products of all pairs of columns."""

    missing: ClassVar[Literal["rows", "completed"]] = "completed"

    def width(self) -> int:
        """Number of features of a row."""
        return n_full(self.n_features)

    def prepare(self, rows: Any) -> Array | PartialRows:
        """Features (P, n) of rows (n, D); with missing entries, partial rows are kept apart."""
        return prepare_full(rows, self.center, self.scale)


# ---------------------------------------------------------------------------------- quadratic forms


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

    def direct(self, k: int, features: Array) -> Array:
        """(n,) the form of component k, without differences of squares."""
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
                "Gibbs draws no missing entries of Gaussians with full covariance, and "
                f"{len(rows.places)} rows of a block lack "
                "some; use DiagonalGaussian, whose columns leave them out exactly, or a "
                "variational engine such as BatchVB"
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
        rise = (
            gammaln(power)
            - gammaln(self.power)[:, None]
            + 0.5 * lost * np.log(self.dof * np.pi)[:, None]
        )
        at = rows.n_missing
        constant = (self.constant[:, None] + rise)[:, at] - 0.5 * log_det + rows.log_scale
        return constant - power[:, at] * np.log1p(form / self.dof[:, None])

    def pair(self, counts: Counts) -> float:
        """NaN: scores are not linear in the counts, and rules that use them have no bound."""
        return float("nan")
