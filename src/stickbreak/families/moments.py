"""Moments of rows about reference points: what the Gaussian families count.

Rows are centered and scaled once (`standardize`), and their features [1, z, products of z] are laid
out feature-major: one matrix product collects the statistics of all components.

The reference point of a component is its *anchor*, usually the center of the data (zero). A
component that is so far from its anchor that differences of squares would cancel (`FAR`) gets an
anchor of its own at the end of the lap (`Reanchor`), which keeps its moments accurate.

What is evaluated is in `quadratic.py`; independent columns are in `columns.py`, rows with missing
entries in `partial.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from stickbreak.errors import NumericalError
from stickbreak.kernels.quadratic import standardize, standardized_full
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Edit, Field, Reanchor, triangle

from .base import BaseFamily
from .missing import find_missing
from .partial import PartialRows, divide_rows

__all__ = [
    "DEFAULT_SHARE", "EMPTY", "FAR", "FullMoments", "MomentFamily", "as_rows", "cholesky",
    "complete_rows", "far_averages", "n_full", "n_partial", "prepare_full", "prepare_standardized",
    "require_near", "spread", "standardized_rows", "unpack_symmetric",
]  # fmt: skip

DEFAULT_SHARE = 0.25  # of a column's variance that we expect within one component

FAR = 1e5
"""Limit for the terms of a quadratic form, per column. Beyond it their sum, which is about 1 per
column, loses more than 2e-11 of itself: terms round at 2e-16."""

FURTHEST = 1e140
"""Largest distance of a row from the center, in units of the scale: its square, in units of a
narrow component, must be a number."""

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


def require_near(rows: Any, center: Any, scale: Any, first: int) -> None:
    """Raise ValueError for a row (n, D) that is too far from the frame to have a density.

    Only once the frame (D,) is set. first : number of the first row.
    """
    if np.shape(scale) != rows.shape[1:]:
        return
    reach = FURTHEST * np.asarray(scale)
    with np.errstate(over="ignore"):
        low, high = center - reach, center + reach
    # reductions, because a table of differences would be as large as the rows
    if not ((np.fmin.reduce(rows, 0) < low) | (np.fmax.reduce(rows, 0) > high)).any():
        return
    at, column = np.argwhere((rows < low) | (rows > high))[0]
    raise ValueError(
        f"row {first + at}, column {column} is {rows[at, column]:g}, too far for squares from the "
        f"rows of the fit, whose spread is {scale[column]:g}; check its unit"
    )


def standardized_rows(rows: Any, center: Array, scale: Array) -> Array:
    """Rows (n, D) in the frame, row-major, NaN where missing."""
    return np.asarray((as_rows(rows) - center) * (1.0 / scale))


def n_partial(rows: Any) -> int:
    """Rows that lack some of their entries.

    The expectations that complete them would have to be kept, for each component, to remove them
    from the counts.
    """
    missing = find_missing(rows)
    return 0 if missing is None else int((missing.any(1) & ~missing.all(1)).sum())


def complete_rows(rows: Any, center: Array, scale: Array) -> Array:
    """Rows (n, D) in the frame, NaN for a row without entries; ValueError if one lacks some."""
    if n_partial(rows):
        raise ValueError(
            f"{n_partial(rows)} rows lack some of their entries, and "
            "collapsed sweeps of Gaussians with full covariance take complete rows; impute them, "
            "use DiagonalGaussian, whose columns leave them out exactly, or another start or engine"
        )
    return standardized_rows(rows, center, scale)


def prepare_standardized(rows: Any, center: Array, scale: Array) -> Array:
    """[1, z] (1 + D, n) of rows (n, D); a missing entry is 0, the center."""
    rows = as_rows(rows)
    out = np.empty((1 + rows.shape[1], len(rows)))
    if standardize(rows, center, 1.0 / scale, out):
        np.copyto(out, 0.0, where=np.isnan(out))
    return out


# ------------------------------------------------------------------------------------------ moments


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
        """Moments and anchors of no rows; all anchors are at the center."""
        return {
            "moments": np.zeros((n_components, self.width())),
            "anchor": np.zeros((n_components, self.n_features)),
        }

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Rows must not be so far from those of the fit that their density is no number."""
        require_near(np.asarray(rows), self.center, self.scale, first)

    def prepare_seeding(self, rows: Any) -> Array:
        """[1, z] (1 + D, n) of rows (n, D)."""
        return prepare_standardized(rows, self.center, self.scale)

    def _log_jacobian(self) -> float:
        """Log density in the user's units minus log density in the frame."""
        return -float(np.log(self.scale).sum())

    def _prior(self) -> tuple[float, Array, float, Array]:
        """Strength, mean (D,), dof and scatter (D,) or (D, D) in the standardized frame."""
        raise NotImplementedError

    def _moments(self, counts: Counts) -> tuple[Array, Array, Array]:
        """Rows (K, 1) or (K, D), their sums (K, D), and their squares or products."""
        raise NotImplementedError

    def refine(self, counts: Counts) -> Edit | None:
        """New anchors for components that are too far from theirs."""
        strength, prior_mean, _, prior_scatter = self._prior()
        n, first, second = self._moments(counts)
        _, scatter, _ = spread(n, first, second, strength, prior_mean - counts["anchor"])
        return far_averages(n, first, prior_scatter + scatter, counts["anchor"])


class FullMoments(MomentFamily):
    """A family whose statistics are products of all pairs of columns."""

    missing: ClassVar[Literal["rows", "completed"]] = "completed"

    def width(self) -> int:
        """Number of features of a row."""
        return n_full(self.n_features)

    def prepare(self, rows: Any) -> Array | PartialRows:
        """Features (P, n) of rows (n, D); with missing entries, partial rows are kept apart."""
        return prepare_full(rows, self.center, self.scale)

    def _moments(self, counts: Counts) -> tuple[Array, Array, Array]:
        """Rows (K, 1), their sums (K, D), and sums of products (K, D, D)."""
        moments, D = counts["moments"], self.n_features
        return moments[:, :1], moments[:, 1 : 1 + D], unpack_symmetric(moments[:, 1 + D :], D)
