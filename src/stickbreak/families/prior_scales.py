"""Hyperparameters from the scale of the data: one number a column, and the frame of columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.errors import DataWarning
from stickbreak.parameters import require_positive
from stickbreak.protocols import Array

__all__ = ["column_spread", "prior_frame", "prior_vector", "require_moderate"]

LARGEST = 1e150  # of a column's typical value, and one over its smallest: squares are numbers


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


def require_moderate(scale: Scale) -> None:
    """Raise ValueError for columns whose squares are no numbers: too large, or too small."""
    is_large = (scale.seen > 0) & ~(scale.square <= LARGEST**2)
    has_small = (scale.mean != 0) | ((scale.largest > 0) & (scale.largest < 1.0 / LARGEST))
    bad = np.flatnonzero(is_large | ((scale.square < LARGEST**-2) & has_small))
    if len(bad):
        where, limit, remedy = "below", 1.0 / LARGEST, "multiply"
        if is_large[bad[0]]:
            where, limit, remedy = "beyond", LARGEST, "divide"
        raise ValueError(
            f"column {scale.name(bad[0])} holds values {where} {limit:g}, whose squares floats "
            f"cannot hold; {remedy} it by a constant"
        )


def column_spread(scale: Scale) -> Array:
    """(D,) variance of each column; a constant column gets variance 1 and a warning."""
    require_moderate(scale)
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
