"""Duration laws by name."""

from __future__ import annotations

from typing import Any

from .base import BaseDuration
from .free import FreeDurations
from .negative_binomial import Geometric, NegativeBinomial
from .shifted_poisson import ShiftedPoisson

__all__ = ["DURATIONS", "make_duration"]

DURATIONS: dict[str, type[BaseDuration]] = {
    "negative-binomial": NegativeBinomial,
    "poisson": ShiftedPoisson,
    "geometric": Geometric,
    "free": FreeDurations,
}


def make_duration(given: Any) -> BaseDuration:
    """A law by its name, with its default prior, or the given object."""
    if isinstance(given, str):
        if given not in DURATIONS:
            raise ValueError(
                f"unknown duration {given!r}; choose one of {', '.join(DURATIONS)}, or give an "
                "object such as sb.NegativeBinomial()"
            )
        return DURATIONS[given]()
    if not isinstance(given, BaseDuration):
        raise ValueError(
            f"duration must be a name or an object such as sb.NegativeBinomial(); got {given!r}"
        )
    return given
