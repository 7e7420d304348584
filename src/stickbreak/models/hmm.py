"""Hidden Markov models: chains over Dirichlet rows, or over rows that share a root (HDP)."""

from __future__ import annotations

from typing import Any

from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.families.shared_symbols import SharedCategorical
from stickbreak.priors import DirichletRows, HDPRows, TableRoot, TableRows
from stickbreak.structures import Chain, TableChain

from .base import Model

__all__ = ["finite_hmm", "hdp_hmm", "hdp_rows"]


def finite_hmm(family: BaseFamily, *, learns: bool = False, **rows: Any) -> Model:
    """Start row and transition rows ~ Dirichlet; keywords are those of DirichletRows."""
    return Model(Chain(), family, DirichletRows(**rows), learns=learns)


def hdp_hmm(family: BaseFamily, *, learns: bool = False, **rows: Any) -> Model:
    """Rows ~ Dirichlet(concentration b + stickiness e_j), b ~ sticks.

    Keywords are those of `hdp_rows`. With tables, what is learned of symbols is their base.
    """
    prior = hdp_rows(**rows)
    if isinstance(prior, TableRows):
        chain = TableChain(existence=prior.root.existence, n_draws=int(prior.root.n_draws))
        if learns and isinstance(family, Categorical):
            family = SharedCategorical.of(family)
        return Model(chain, family, prior, learns=learns)
    return Model(Chain(), family, prior, learns=learns)


def hdp_rows(root: Any = "beta", **rows: Any) -> HDPRows | TableRows:
    """Rows around the root that is named; keywords are those of HDPRows, or of TableRows."""
    if root == "tables" or isinstance(root, TableRoot):
        return TableRows(root=TableRoot() if root == "tables" else root, **rows)
    if root not in ("beta", "point"):
        raise ValueError(f"root must be 'beta', 'point' or 'tables'; got {root!r}")
    return HDPRows(root=root, **rows)
