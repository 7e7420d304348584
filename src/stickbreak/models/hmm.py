"""Hidden Markov models: chains over Dirichlet rows, or over rows that share a root (HDP)."""

from __future__ import annotations

from typing import Any

from stickbreak.families.base import BaseFamily
from stickbreak.priors import DirichletRows, HDPRows
from stickbreak.structures import Chain

from .base import Model

__all__ = ["finite_hmm", "hdp_hmm"]


def finite_hmm(family: BaseFamily, *, learns: bool = False, **rows: Any) -> Model:
    """Start row and transition rows ~ Dirichlet; keywords are those of DirichletRows."""
    return Model(Chain(), family, DirichletRows(**rows), learns=learns)


def hdp_hmm(family: BaseFamily, *, learns: bool = False, **rows: Any) -> Model:
    """Rows ~ Dirichlet(concentration b + stickiness e_j), b ~ sticks.

    Keywords are those of HDPRows.
    """
    return Model(Chain(), family, HDPRows(**rows), learns=learns)
