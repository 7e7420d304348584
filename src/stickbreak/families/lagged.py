"""Rows that hold a value and its context, (x, p), read as (p, d).

d = x - mean p is the departure from the value that the prior expects.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.errors import DataWarning
from stickbreak.kernels.live_gaussian import LiveSums
from stickbreak.kernels.live_regression import ContextRows, LiveRegression, LiveRegressionSums
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array, Counts

from .live_gaussians import live_regression
from .missing import find_missing
from .moments import (
    FullMoments,
    prepare_full,
    prepare_standardized,
    require_near,
    standardized_rows,
)
from .partial import PartialRows

__all__ = ["LaggedMoments", "prior_coefficients"]


class LaggedMoments(FullMoments):
    """A family of values given the `order` values before.

    Statistics are moments of (context, departure).
    """

    order: int
    intercept: bool
    mean: Any
    missing = "rows"
    sweeps = True
    begins_swept = False

    def _sizes(self, n_columns: int) -> tuple[int, int]:
        """D and E of rows with n_columns columns."""
        if n_columns % (1 + self.order) or n_columns == 0:
            raise ValueError(
                f"rows have {n_columns} columns; order={self.order} needs a value and {self.order} "
                "of the same width before it, "
                f"a multiple of {1 + self.order}: see stickbreak.lag_rows"
            )
        D = n_columns // (1 + self.order)
        return D, n_columns - D

    @property
    def lags(self) -> int:
        """How many previous rows each row carries."""
        require_whole(order=self.order)
        return int(self.order)

    @property
    def n_values(self) -> int:
        """D, columns of a value."""
        return self.n_features // (1 + self.order)

    @property
    def n_context(self) -> int:
        """E, columns of a context."""
        return self.n_features - self.n_values

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """A row must hold a value and the `order` rows before it, all of the same width."""
        require_whole(order=self.order)
        D, E = self._sizes(int(rows.shape[1]))
        if np.shape(self.scale) == (D + E,):  # the frame has the context first
            center, scale = np.roll(self.center, D), np.roll(self.scale, D)
            require_near(np.asarray(rows), center, scale, first)

    def has_values(self, rows: Any) -> Array:
        """(n,) whether a row is complete."""
        missing = find_missing(rows)
        return (
            np.ones(len(rows), dtype=bool) if missing is None else np.asarray(~missing.any(axis=1))
        )

    def _arrange(self, rows: Any, partly: bool = False) -> Array:
        """The user's rows (x, p), (n, D + E), as (p, x - mean p); all NaN if an entry is missing.

        partly : keep the other entries of values that lack some.
        """
        values = np.asarray(rows, dtype=float)
        D, E = self._sizes(values.shape[1])
        out = np.empty(values.shape)
        out[:, :E] = values[:, D:]
        np.subtract(values[:, :D], values[:, D:] @ self.mean.T, out=out[:, E:])
        out[np.isnan(values[:, D:] if partly else values).any(axis=1)] = np.nan
        return out

    def prepare(self, rows: Any) -> Array | PartialRows:
        """Features (P, n) of (context, departure) from rows (n, D + E).

        Rows that lack entries are kept apart.
        """
        return prepare_full(self._arrange(rows), self.center, self.scale)

    def prepare_seeding(self, rows: Any) -> Array:
        """[1, z] (1 + D + E, n) of rows (n, D + E)."""
        return prepare_standardized(self._arrange(rows), self.center, self.scale)

    def _measure(self, scale: Scale) -> Scale:
        """Scale of (context, departure) over the complete rows; one warning for the others."""
        D, E = self._sizes(scale.n_features)
        found = scale.of(self._arrange)
        names = range(E + D) if scale.names is None else scale.names
        left_out = found.n_units - found.seen[0]
        if not found.seen[0] > 0:
            raise ValueError(
                "no row has both its value and its whole context; at least one must be complete"
            )
        if left_out > 0:
            warnings.warn(
                f"{left_out:g} of {found.n_units:g} rows lack an entry of their value or context, "
                "and are left out",
                DataWarning,
                stacklevel=3,
            )
        return replace(found, names=(*names[D:], *names[:D]))

    # ------------------------------------------------------------------------------ sweeps

    def live(self, counts: Counts) -> LiveRegression:
        """Counts, copied, with posteriors that follow them row by row."""
        sums, per_row = self.live_sums(counts).joint, self._log_jacobian()
        prior, intercept = self._prior(), bool(self.intercept)
        return live_regression(sums, prior, self.n_context, per_row, intercept=intercept)

    def live_sums(self, counts: Counts) -> LiveRegressionSums:
        """Moments alone."""
        return LiveRegressionSums(LiveSums(np.array(counts["moments"]), np.array(counts["anchor"])))

    def live_rows(self, rows: Any) -> ContextRows:
        """Complete rows in the frame; NaN for those that are left out."""
        joint = standardized_rows(self._arrange(rows), self.center, self.scale)
        return ContextRows(joint, np.ascontiguousarray(joint[:, : self.n_context]))

    def settle(self, live: LiveRegressionSums, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        return {"moments": live.joint.moments, "anchor": live.joint.anchor}

    def _log_jacobian(self) -> float:
        """Log Jacobian of the values alone: contexts have no density."""
        return -float(np.log(self.scale[self.n_context :]).sum())


def prior_coefficients(value: Any, n_values: int, n_context: int) -> Array:
    """(D, E) prior mean of the coefficients, from a matrix or a number.

    The number times the identity is for the row just before.
    """
    matrix = np.asarray(value, dtype=float)
    if matrix.ndim == 0:
        matrix = matrix * np.eye(n_values, n_context)
    if matrix.shape != (n_values, n_context):
        raise ValueError(
            f"mean has shape {matrix.shape}; expected a number or ({n_values}, "
            f"{n_context}): values, context"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"mean must be finite; got {value!r}")
    return matrix
