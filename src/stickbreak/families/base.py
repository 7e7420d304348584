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
    """Defaults of a family: it reads all columns, as numbers, without upkeep or missing entries."""

    sparse = False
    """Whether rows may be a CSR matrix."""

    missing: ClassVar[Literal["refused", "rows", "exact", "completed", "mixed"]] = "refused"
    """What NaN means.

    refused: an error. rows: the whole row is left out. exact: the entry is left out. completed: the
    entry has a factor of its own. mixed: what the member that reads the column says.
    """

    @property
    def lags(self) -> int:
        """How many previous rows each row must carry; 0 where rows are evaluated one by one."""
        return 0

    max_categories = 0
    """Most categories (strings, booleans) that a column of a data frame may have; 0 where columns
    hold numbers.
    """

    missing_category = np.nan
    """Stands for a missing category; the others are numbered 0, 1, 2, ..."""

    def locate(self, names: Sequence[str] | None, n_columns: int) -> Self:
        """The same family with columns given by name replaced by their positions in `names`."""
        return self

    def readers(self, n_columns: int) -> Sequence[Any]:
        """The family that reads each column."""
        return (self,) * n_columns

    learned: ClassVar[tuple[str, ...]] = ()
    """Names of the arguments that `learn` changes, in families that have it."""

    def hyperparameters(self) -> dict[str, Array]:
        """Values of the arguments that `learn` changes, by name."""
        return {name: np.array(getattr(self, name), dtype=float) for name in self.learned}

    def with_hyperparameters(self, values: Mapping[str, Array]) -> Self:
        """The same family with these values for the arguments that `learn` changes."""
        changed = {
            name: float(value) if value.ndim == 0 else value for name, value in values.items()
        }
        return replace(self, **changed)  # type: ignore[type-var]

    measure = "densities"
    """What log evidence is the logarithm of. Bounds and scores of families with different measures
    cannot be compared.
    """

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        raise NotImplementedError

    def coarse(self) -> Any:
        """A simpler family for starts, with divergences in the same units; here `self`."""
        return self

    def refine(self, counts: Counts) -> Edit | None:
        """New reference points for the statistics; None here, where they need none."""
        return None

    def prepare(self, rows: Any) -> Any:
        """Rows in the form that Scores read."""
        raise NotImplementedError

    def prepare_seeding(self, rows: Any) -> Any:
        """Rows in the form that `divergence` reads; here the same as for Scores."""
        return self.prepare(rows)

    def divergence(self, rows: Any, index: int) -> Array:
        """(n,) divergence of each prepared row's smoothed mean from that of row `index`."""
        raise NotImplementedError

    def divergences(self, rows: Any, indices: Array) -> Array:
        """(m, n) divergences from each of the rows `indices`."""
        return np.stack([self.divergence(rows, int(index)) for index in indices])

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Raise ValueError for rows that the family cannot read; here all can be read.

        first : number of the first row, for the message.
        """

    def has_values(self, rows: Any) -> Array:
        """(n,) whether a row has any entry. A row without one cannot start a component."""
        missing = find_missing(rows)
        return (
            np.ones(rows.shape[0], dtype=bool)
            if missing is None
            else np.asarray(~missing.all(axis=1))
        )

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Rows (n, D) with missing entries replaced by their mean over components, shares (n, K).

        Here no entry can be missing, and rows are returned as they are.
        """
        return rows


def require_draws(family: Any) -> None:
    """Raise ValueError for a family that cannot draw its parameters."""
    if not isinstance(family, DrawingFamily):
        raise ValueError(
            f"{type(family).__name__} has no method `draw(counts, rng)`, which Gibbs "
            "needs; use a variational engine"
        )


# ---------------------------------------------------------------------------------- missing entries


@dataclass(frozen=True)
class Incomplete:
    """Prepared rows of which some lack entries.

    features : 0 where an entry is missing.
    missing (D, n) : 1 where an entry is missing, else 0.
    """

    features: Array
    missing: Array


def features_of(rows: Array | Incomplete) -> tuple[Array, Array | None]:
    """Features of prepared rows, and where entries are missing (None if rows are complete)."""
    return (rows.features, rows.missing) if isinstance(rows, Incomplete) else (rows, None)


def find_missing(rows: Any) -> Array | None:
    """(n, D) where the user's rows are NaN; None if they are complete."""
    if is_sparse(rows) or np.asarray(rows).dtype.kind != "f":
        return None
    missing = np.isnan(rows)
    return missing if missing.any() else None


def column_counts(rows: Array, missing: Array) -> Array:
    """Number of rows seen by each column: (K, D), or (K, 1) if nothing is missing, which is faster.

    rows (K,) : number of rows of each component. missing (K, D) : how many of them lack the column.
    """
    return np.maximum(rows[:, None] - missing, 0.0) if missing.any() else rows[:, None]


def fill_missing(rows: Any, values: Array) -> Array:
    """Rows (n, D) with NaN replaced by values (n, D)."""
    return np.where(np.isnan(rows), values, rows)


# ---------------------------------------------------------------------------------- hyperparameters


def prior_vector(name: str, value: Any, default: Array) -> Array:
    """(D,) hyperparameter for each column: the default, one number for all, or an array (D,)."""
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
    """Center and scale (D,) of the frame for statistics; default: those of the data."""
    frame = {
        "center": prior_vector("center", center, default_center),
        "scale": prior_vector("scale", scale, default_scale),
    }
    require_positive(scale=float(frame["scale"].min()))
    return frame


def column_spread(scale: Scale) -> Array:
    """(D,) variance of each column; a constant column gets variance 1 and a warning."""
    floor = (64 * np.finfo(float).eps * np.abs(scale.mean)) ** 2
    constant = scale.variance <= floor
    # a column without any values was reported when the table was measured
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
