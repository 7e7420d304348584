"""Roots by name."""

from __future__ import annotations

import warnings

from stickbreak.errors import StickbreakWarning

from ..concentration import GammaPrior
from .base import Root
from .beta import BetaRoot
from .point import PointRoot

__all__ = ["make_root", "warn_of_point"]


def make_root(kind: str, concentration: float | GammaPrior, precision: str) -> Root:
    """The root that a prior asks for by name."""
    if kind not in ("beta", "point"):
        raise ValueError(f"root must be 'beta' or 'point'; got {kind!r}")
    if kind == "beta":
        return BetaRoot(concentration, precision=precision)
    if precision != "rule":
        raise ValueError(
            f"precision={precision!r} is of a Beta posterior; a point estimate has none"
        )
    return PointRoot(concentration)


def warn_of_point(component: str) -> None:
    """Warn that a root with a point estimate cannot choose the number of components."""
    message = (
        f"the bound of a point estimate rises with every empty {component}: it cannot choose their "
        "number; use root='beta'"
    )
    warnings.warn(message, StickbreakWarning, stacklevel=4)
