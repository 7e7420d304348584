"""What families share: names, checks of hyperparameters, and defaults of the protocol."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.errors import DataWarning
from stickbreak.parameters import Parameters
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Edit

__all__ = ["LOG_2PI", "BaseFamily", "column_spread", "prior_frame", "prior_vector", "require_positive"]

LOG_2PI = math.log(2.0 * math.pi)


class BaseFamily(Parameters):
    """Defaults: no upkeep of the statistics."""

    sparse = False
    """Whether rows may be a CSR matrix."""

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        raise NotImplementedError

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
        """Raise ValueError for rows that the family cannot read (`first`: number of the first row); vectors can all be read."""


def require_positive(**values: float) -> None:
    """A clear error for a hyperparameter that must be above zero."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < float(value) < math.inf):
            raise ValueError(f"{name} must be a positive number; got {value!r}")


def prior_vector(name: str, value: Any, default: Array) -> Array:
    """A hyperparameter per column: the default, a number for all columns, or an array of the right length."""
    if value is None:
        return np.asarray(default, dtype=float)
    vector = np.asarray(value, dtype=float)
    if vector.ndim > 1 or (vector.ndim == 1 and len(vector) != len(default)):
        raise ValueError(f"{name} has shape {vector.shape} but the data have {len(default)} columns")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite; got {value!r}")
    return np.array(np.broadcast_to(vector, default.shape))


def prior_frame(center: Any, scale: Any, default_center: Array, default_scale: Array) -> dict[str, Any]:
    """The frame in which statistics are kept: center and scale (D,), as given or as the data have them."""
    frame = {"center": prior_vector("center", center, default_center), "scale": prior_vector("scale", scale, default_scale)}
    require_positive(scale=float(frame["scale"].min()))
    return frame


def column_spread(scale: Scale) -> Array:
    """(D,) variance of each column; a constant column is warned about and counts as 1."""
    floor = (64 * np.finfo(float).eps * np.abs(scale.mean)) ** 2
    constant = scale.variance <= floor
    if constant.any():
        where = np.flatnonzero(constant)
        shown = ", ".join(map(str, where[:5])) + ("..." if len(where) > 5 else "")
        warnings.warn(
            f"column{'s' if len(where) > 1 else ''} {shown}: constant, no help in telling components apart; prior variance is 1",
            DataWarning,
            stacklevel=2,
        )
    return np.where(constant, 1.0, scale.variance)
