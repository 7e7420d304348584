"""Independent Gaussian columns: evidence and statistics are sums over columns.

A missing entry leaves its term out. Features are [1, z, z**2], with z = 0 where an entry is
missing. The evidence of such a row is that of the features, corrected for the missing terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.kernels.live_columns import LiveColumnSums
from stickbreak.kernels.quadratic import diagonal_features, shifted_features, standardized_diagonal
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Shares, weigh

from .base import BaseScores
from .missing import Incomplete, column_counts, features_of, fill_missing
from .moments import FAR, MomentFamily, as_rows, standardized_rows
from .quadratic import far_slots
from .single_precision import evaluate_sparse, multiply_roughly, pick_sparse, single

__all__ = [
    "ColumnMoments",
    "ColumnScores",
    "ColumnStudentScores",
    "DiagonalForm",
    "n_diagonal",
    "prepare_diagonal",
]


def n_diagonal(n_features: int) -> int:
    """Length of [1, z, z**2]."""
    return 1 + 2 * n_features


def prepare_diagonal(rows: Any, center: Array, scale: Array) -> Array | Incomplete:
    """Features [1, z, z**2] (1 + 2 D, n) of rows (n, D), and missing places, if any."""
    rows = as_rows(rows)
    D = rows.shape[1]
    out = np.empty((n_diagonal(D), len(rows)))
    if not standardized_diagonal(rows, center, 1.0 / scale, out):
        return out
    missing = np.isnan(out[1 : 1 + D])
    out[1:][np.tile(missing, (2, 1))] = 0.0
    return Incomplete(out, missing.astype(float))


class ColumnMoments(MomentFamily):
    """Independent columns: moments [n, sum z, sum z**2] and missing entries, by column."""

    missing = "exact"

    def width(self) -> int:
        """Number of features of a row, missing entries not counted."""
        return n_diagonal(self.n_features)

    def fields(self, axis: str) -> dict[str, Field]:
        """Moments about the anchor of rows that have the column; missing (K, D): rows without."""
        fields = super().fields(axis)
        fields["moments"] = Field(
            (axis, None), nonnegative=False, about="anchor", missing="missing"
        )
        return {**fields, "missing": Field((axis, None))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        return {**super().zeros(n_components), "missing": np.zeros((n_components, self.n_features))}

    def prepare(self, rows: Any) -> Array | Incomplete:
        """Features (1 + 2 D, n) of rows (n, D), and the places of missing entries, if any."""
        return prepare_diagonal(rows, self.center, self.scale)

    def _moments(self, counts: Counts) -> tuple[Array, Array, Array]:
        """Rows that have each column, and their sums and sums of squares (K, D).

        Rows are (K, D), or (K, 1) if nothing is missing.
        """
        moments, D = counts["moments"], self.n_features
        return (
            column_counts(moments[:, 0], counts["missing"]),
            moments[:, 1 : 1 + D],
            moments[:, 1 + D :],
        )

    sweeps = True

    def live_sums(self, counts: Counts) -> LiveColumnSums:
        """Moments alone."""
        return LiveColumnSums(*(np.array(counts[n]) for n in ("moments", "anchor", "missing")))

    def live_rows(self, rows: Any) -> Array:
        """Rows (n, D) in the frame, NaN where missing."""
        return standardized_rows(rows, self.center, self.scale)

    def settle(self, live: LiveColumnSums, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        return live._asdict()

    def _live_counts(self, counts: Counts) -> tuple[Array, Array, Array]:
        """Rows (K,), those that have a column (D, K), and (1,) whether some lack one."""
        moments, missing = counts["moments"], counts["missing"]
        of_columns = np.maximum(moments[:, :1] - missing, 0.0).T
        return (
            np.array(moments[:, 0]),
            np.ascontiguousarray(of_columns),
            np.array([float(missing.any())]),
        )

    def _mean(self, counts: Counts) -> Array:
        """(K, D) expected entry in the user's units."""
        raise NotImplementedError

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Array:
        """Missing entries replaced by the components' means; shares (n, K)."""
        return fill_missing(rows, shares @ self._mean(counts))


@dataclass(frozen=True)
class DiagonalForm:
    """sum_d precision_d (z_d - mean_d)**2 for K components. mean, precision, anchor (K, D)."""

    mean: Array
    precision: Array
    anchor: Array

    def coefficients(self) -> Array:
        """(K, 1 + 2 D) coefficients on [1, z, z**2] about the anchor."""
        pull = self.precision * self.mean
        return np.concatenate(
            [(pull * self.mean).sum(1)[:, None], -2.0 * pull, self.precision], axis=1
        )

    @property
    def is_ill(self) -> Array:
        """(K,) whether adding the form's terms loses too many digits."""
        return ((np.abs(self.mean) * np.sqrt(self.precision) + 1.0) ** 2).mean(1) > FAR

    def away(self, k: int, features: Array, seen: Array | None) -> Array:
        """(D, n) rows minus the mean of component k.

        seen (D, n) : 0 where an entry is missing, else 1; None if rows are complete.
        """
        D = self.mean.shape[1]
        away = (features[1 : 1 + D] - self.anchor[k][:, None]) - self.mean[k][:, None]
        return away if seen is None else away * seen

    def seen_from(self, k: int, features: Array, seen: Array | None) -> Array:
        """Features about the anchor of component k."""
        out, D = np.empty_like(features), self.mean.shape[1]
        shifted_features(features, self.anchor[k], D, out)
        if seen is not None:
            out[1 : 1 + D] *= seen
        diagonal_features(out, D)
        return out


def _sum_seen(values: Array, seen: Array | None) -> Any:
    """Sum of values (D,) over the columns present: one number, or one for each row (n,)."""
    return values.sum() if seen is None else values @ seen


class _Collecting(BaseScores):
    """Statistics of rows, the same for every rule of a family."""

    form: DiagonalForm

    @cached_property
    def anchored(self) -> list[int]:
        """Components with an anchor of their own."""
        return np.flatnonzero((self.form.anchor != 0).any(1)).tolist()

    def collect(self, rows: Array | Incomplete, shares: Shares, out: dict[str, Array]) -> None:
        """Add moments about each component's anchor, and missing entries."""
        features, missing = features_of(rows)
        seen = None if missing is None else 1.0 - missing
        weigh(shares, features.T, out["moments"], skip=self.anchored)
        for k in self.anchored:
            out["moments"][k] += self.form.seen_from(k, features, seen) @ shares[:, k]
        if missing is not None:
            weigh(shares, missing.T, out["missing"])


@dataclass(frozen=True)
class ColumnScores(_Collecting):
    """Evidence: sum over the columns present of constant_d - precision_d (z_d - mean_d)**2 / 2.

    constant (K, D). linear (K, 1 + 2 D): coefficients of the features. absent (K, D): correction
    for a missing entry.
    """

    form: DiagonalForm
    constant: Array
    linear: Array
    absent: Array
    far: tuple[int, ...]

    @classmethod
    def make(cls, form: DiagonalForm, constant: Array) -> ColumnScores:
        """Scores from constant (K, D) or broadcast to it: the evidence of a column at its mean."""
        constant = np.broadcast_to(constant, form.mean.shape)
        linear = -0.5 * form.coefficients()
        linear[:, 0] += constant.sum(1)
        absent = 0.5 * form.precision * form.mean**2 - constant
        return cls(form, constant, linear, absent, far_slots(form.is_ill, form.anchor))

    def evidence(self, rows: Array | Incomplete) -> Array:
        """(n, K) log evidence of features (1 + 2 D, n)."""
        features, missing = features_of(rows)
        out = self.linear @ features
        if missing is not None:
            out += self.absent @ missing
        seen = None if missing is None else 1.0 - missing
        for k in self.far:
            away = self.form.away(k, features, seen)
            out[k] = _sum_seen(self.constant[k], seen) - 0.5 * (self.form.precision[k] @ away**2)
        return out.T

    @cached_property
    def _single(self) -> Array:
        return np.asarray(single(self.linear))

    def rough(self, rows: Array | Incomplete) -> Array:
        """(n, K) evidence in single precision.

        Blocks with far components or missing entries are exact.
        """
        if self.far or isinstance(rows, Incomplete):
            return self.evidence(rows)
        return multiply_roughly(self._single, rows).T

    def evidence_at(self, rows: Array | Incomplete, index: Array) -> Array:
        """(n, M) evidence for components index (n, M)."""
        if self.far or isinstance(rows, Incomplete):
            return pick_sparse(self.evidence(rows), index)
        return evaluate_sparse(self.linear, rows, index)

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>, moments about the anchors."""
        return float(
            (self.linear * counts["moments"]).sum() + (self.absent * counts["missing"]).sum()
        )


@dataclass(frozen=True)
class ColumnStudentScores(_Collecting):
    """Log predictive: sum over the columns present of a Student t with form.precision.

    constant, dof (K, D).
    """

    form: DiagonalForm
    constant: Array
    dof: Array

    def evidence(self, rows: Array | Incomplete) -> Array:
        """(n, K) log predictive density.

        Sum of constant - (dof + 1) / 2 log(1 + precision (z - mean)**2 / dof).
        """
        features, missing = features_of(rows)
        out = np.empty((len(self.constant), features.shape[1]))
        seen = None if missing is None else 1.0 - missing
        for k in range(len(out)):
            away = self.form.away(k, features, seen)
            terms = np.log1p(away**2 * (self.form.precision[k] / self.dof[k])[:, None])
            out[k] = _sum_seen(self.constant[k], seen) - 0.5 * (self.dof[k] + 1.0) @ terms
        return out.T

    def pair(self, counts: Counts) -> float:
        """NaN: scores are not linear in the counts, and rules that use them have no bound."""
        return float("nan")
