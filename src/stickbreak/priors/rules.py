"""The tables of a context-free grammar: roots, kinds, and rules with two children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields

from .rule_tables import RuleTables, Table

__all__ = ["DirichletRules", "GrammarTables"]


class GrammarTables(RuleTables):
    """root (K,), kind (K, 2) of emitting or splitting, binary_rule (K, K, K) of both children."""

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {
            "root": Field((axis,)),
            "kind": Field((axis, None)),
            "binary_rule": Field((axis, axis, axis)),
        }

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected nodes of each category: words and splits."""
        return np.asarray(counts["kind"].sum(1))


@dataclass(frozen=True)
class DirichletRules(GrammarTables):
    """The prior of a finite grammar: an independent Dirichlet for each row.

    concentration : prior count of each pair of children, kind_concentration : of emitting and of
    splitting, root_concentration : of each category as root. Near zero, the modes (EM) are maximum
    likelihood.
    """

    concentration: float = 0.1
    kind_concentration: float = 1.0
    root_concentration: float = 1.0

    def __post_init__(self) -> None:
        require_prior_count(
            concentration=self.concentration,
            kind_concentration=self.kind_concentration,
            root_concentration=self.root_concentration,
        )

    def tables(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """Prior counts."""
        K = n_components
        return {
            "root": Table(np.full(K, float(self.root_concentration))),
            "kind": Table(np.full((K, 2), float(self.kind_concentration))),
            "binary_rule": Table(np.full((K, K, K), float(self.concentration)), width=2),
        }
