"""Mixtures: independent rows over a finite prior or over sticks."""

from __future__ import annotations

from stickbreak.families.base import BaseFamily
from stickbreak.priors import (
    BasePrior,
    GammaPrior,
    Sticks,
    SymmetricDirichlet,
    UncertainConcentration,
)
from stickbreak.structures import Independent

from .base import Model

__all__ = ["dp_mixture", "finite_mixture"]


def _shares(
    given: type[Sticks] | type[SymmetricDirichlet], concentration: float | GammaPrior
) -> BasePrior:
    """A prior over components whose concentration is known, or has a prior itself."""
    if isinstance(concentration, GammaPrior):
        return UncertainConcentration(given, concentration)
    return given(concentration)


def finite_mixture(
    family: BaseFamily, concentration: float | GammaPrior = 1.0, *, learns: bool = False
) -> Model:
    """Shares ~ Dirichlet(concentration / K), rows independent given their component."""
    return Model(Independent(), family, _shares(SymmetricDirichlet, concentration), learns=learns)


def dp_mixture(
    family: BaseFamily, concentration: float | GammaPrior = 1.0, *, learns: bool = False
) -> Model:
    """Shares ~ Dirichlet process sticks, rows independent given their component."""
    return Model(Independent(), family, _shares(Sticks, concentration), learns=learns)
