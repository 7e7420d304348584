"""What families share: names, checks of hyperparameters, and defaults of the protocol."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from stickbreak.data import Scale, is_sparse
from stickbreak.errors import DataWarning
from stickbreak.parameters import Parameters, require_positive
from stickbreak.protocols import Array, Counts, DrawingFamily
from stickbreak.stats import Edit

__all__ = [
    "LOG_2PI", "BaseFamily", "Incomplete", "column_counts", "column_spread", "features_of",
    "fill_missing", "find_missing",
    "prior_frame", "prior_vector", "require_draws", "require_positive",
]  # fmt: skip

LOG_2PI = math.log(2.0 * math.pi)


class BaseFamily(Parameters):
    """Defaults: one family for all columns, which hold numbers; no upkeep of the statistics, no
    missing entries.
    """

    sparse = False
    """Whether rows may be a CSR matrix."""

    missing: ClassVar[Literal["refused", "rows", "exact", "completed", "mixed"]] = "refused"
    """What NaN means: an error; a row that does not count as a whole; an entry that does not count;
    one with a factor of its own;
    what the member that reads the column says."""

    @property
    def lags(self) -> int:
        """How many of the rows before it a row must carry; none where rows are judged one
        by one.
        """
        return 0

    max_categories = 0
    """How many categories (strings, booleans) a column of a data frame may have; none where columns
    hold numbers.
    """

    missing_category = np.nan
    """What stands for a missing category among those numbered 0, 1, 2, ..."""

    def locate(self, names: Sequence[str] | None, n_columns: int) -> Self:
        """The same family with columns that are given by name found among `names`."""
        return self

    def readers(self, n_columns: int) -> Sequence[Any]:
        """The family that reads each column."""
        return (self,) * n_columns

    learned: ClassVar[tuple[str, ...]] = ()
    """Arguments that `learn` changes, in families that have it."""

    def hyperparameters(self) -> dict[str, Array]:
        """What `learn` changes, by name."""
        return {name: np.array(getattr(self, name), dtype=float) for name in self.learned}

    def with_hyperparameters(self, values: Mapping[str, Array]) -> Self:
        """The same family with those of another."""
        changed = {
            name: float(value) if value.ndim == 0 else value for name, value in values.items()
        }
        return replace(self, **changed)  # type: ignore[type-var]

    measure = "densities"
    """What log evidence is the logarithm of; bounds and scores of families that differ in it cannot
    be compared.
    """

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        raise NotImplementedError

    def coarse(self) -> Any:
        """A family of fewer parameters that tells rows apart in the same units, for starts: here
        the family itself.
        """
        return self

    def refine(self, counts: Counts) -> Edit | None:
        """Statistics of this family need no reference point."""
        return None

    def prepare(self, rows: Any) -> Any:
        """Rows in the form that Scores read."""
        raise NotImplementedError

    def prepare_seeding(self, rows: Any) -> Any:
        """What `divergence` reads: here all that Scores read."""
        return self.prepare(rows)

    def divergence(self, rows: Any, index: int) -> Array:
        """(n,) divergence of every prepared row's smoothed mean from that of row `index`."""
        raise NotImplementedError

    def divergences(self, rows: Any, indices: Array) -> Array:
        """(m, n) divergences from each of the rows `indices`."""
        return np.stack([self.divergence(rows, int(index)) for index in indices])

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Raise ValueError for rows that the family cannot read (`first`: number of the first row);
        vectors can all be read.
        """

    def has_values(self, rows: Any) -> Array:
        """(n,) whether a row has any entry: one without says nothing of the components and starts
        none.
        """
        missing = find_missing(rows)
        return (
            np.ones(rows.shape[0], dtype=bool)
            if missing is None
            else np.asarray(~missing.all(axis=1))
        )

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Rows (n, D) with missing entries replaced by their mean over components, shares (n, K);
        here none can be missing.
        """
        return rows

    def expected_rows(self, counts: Counts, shares: Array) -> Array:
        """(n, D) what to expect of rows of which only the shares (n, K) of their components are
        known.

        A row of missing entries, imputed; where the family refuses those, the average of the
        summary "mean" (K, D) that `describe` gives.
        """
        if self.missing != "refused":
            nothing = np.full((len(shares), self.n_columns), np.nan)
            return np.asarray(self.impute(counts, nothing, shares))
        family: Any = self
        means = family.describe(counts).get("mean")
        if means is None:
            raise ValueError(
                f"{type(self).__name__} has neither a method `expected_rows(counts, shares)` nor "
                "a summary `mean`, one of which forecasts need"
            )
        return np.asarray(shares @ means)


def require_draws(family: Any) -> None:
    """A clear error for a family that cannot draw its parameters."""
    if not isinstance(family, DrawingFamily):
        raise ValueError(
            f"{type(family).__name__} has no method `draw(counts, rng)`, which Gibbs "
            "needs; use a variational engine"
        )


# ---------------------------------------------------------------------------------------------- mis


@dataclass(frozen=True)
class Incomplete:
    """Prepared rows of which some lack entries: features, in which a missing entry is 0, and
    missing, 1 at those (D, n).
    """

    features: Array
    missing: Array


def features_of(rows: Array | Incomplete) -> tuple[Array, Array | None]:
    """Features of prepared rows, and where entries are missing (None when they are complete)."""
    return (rows.features, rows.missing) if isinstance(rows, Incomplete) else (rows, None)


def find_missing(rows: Any) -> Array | None:
    """(n, D) where rows of the user are NaN; None when they are complete."""
    if is_sparse(rows) or np.asarray(rows).dtype.kind != "f":
        return None
    missing = np.isnan(rows)
    return missing if missing.any() else None


def column_counts(rows: Array, missing: Array) -> Array:
    """How many rows each column has seen: (K, D), or (K, 1) when rows (K,) lack nothing, for the
    sake of speed.
    """
    return np.maximum(rows[:, None] - missing, 0.0) if missing.any() else rows[:, None]


def fill_missing(rows: Any, values: Array) -> Array:
    """Rows (n, D) with NaN replaced by values (n, D)."""
    return np.where(np.isnan(rows), values, rows)


# ---------------------------------------------------------------------------------------------- hyp


def prior_vector(name: str, value: Any, default: Array) -> Array:
    """A hyperparameter per column: the default, a number for all columns, or an array of the right
    length.
    """
    if value is None:
        return np.asarray(default, dtype=float)
    vector = np.asarray(value, dtype=float)
    if vector.ndim > 1 or (vector.ndim == 1 and len(vector) != len(default)):
        raise ValueError(
            f"{name} has shape {vector.shape} but the data have {len(default)} columns"
        )
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite; got {value!r}")
    return np.array(np.broadcast_to(vector, default.shape))


def prior_frame(
    center: Any, scale: Any, default_center: Array, default_scale: Array
) -> dict[str, Any]:
    """The frame in which statistics are kept: center and scale (D,), as given or as the data have
    them.
    """
    frame = {
        "center": prior_vector("center", center, default_center),
        "scale": prior_vector("scale", scale, default_scale),
    }
    require_positive(scale=float(frame["scale"].min()))
    return frame


def column_spread(scale: Scale) -> Array:
    """(D,) variance of each column; a constant column is warned about and counts as 1."""
    floor = (64 * np.finfo(float).eps * np.abs(scale.mean)) ** 2
    constant = scale.variance <= floor
    # a column without values was named when the table was measured
    known = constant & (scale.seen > 0)
    if known.any():
        where = np.flatnonzero(known)
        shown = ", ".join(map(scale.name, where[:5])) + ("..." if len(where) > 5 else "")
        warnings.warn(
            f"column{'s' if len(where) > 1 else ''} {shown}: constant, no help in telling "
            "components apart; prior variance is 1",
            DataWarning,
            stacklevel=2,
        )
    return np.where(constant, 1.0, scale.variance)
