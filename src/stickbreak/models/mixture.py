"""Mixtures: independent rows over a finite prior or over sticks."""

from __future__ import annotations

from stickbreak.priors import Sticks, SymmetricDirichlet
from stickbreak.protocols import Family
from stickbreak.structures import Independent

from .base import Model

__all__ = ["dp_mixture", "finite_mixture"]


def finite_mixture(family: Family, concentration: float = 1.0) -> Model:
    """Shares ~ Dirichlet(concentration / K), rows independent given their component."""
    return Model(Independent(), family, SymmetricDirichlet(concentration))


def dp_mixture(family: Family, concentration: float = 1.0) -> Model:
    """Shares ~ Dirichlet process sticks, rows independent given their component."""
    return Model(Independent(), family, Sticks(concentration))
