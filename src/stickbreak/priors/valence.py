"""The tables of the dependency model with valence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields

from .rule_tables import RuleTables, Table

__all__ = ["ValenceRows"]


@dataclass(frozen=True)
class ValenceRows(RuleTables):
    """root (V,), stop (V, 2, 2, 2), attach (V, 2, V): an independent Dirichlet for each row.

    Which word is the root; whether a head stops or goes on, given its tag, the side (left, right)
    and whether it has a child there; which tag its next child there has.

    concentration, stop_concentration : prior count of each entry of root and attach, and of stop.
        Near zero, the modes (EM) are maximum likelihood.
    """

    concentration: float = 0.1
    stop_concentration: float = 0.1

    def __post_init__(self) -> None:
        require_prior_count(
            concentration=self.concentration, stop_concentration=self.stop_concentration
        )

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {
            "root": Field((axis,)),
            "stop": Field((axis, None, None, None)),
            "attach": Field((axis, None, axis)),
        }

    def tables(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """Prior counts."""
        V, alpha = n_components, float(self.concentration)
        return {
            "root": Table(np.full(V, alpha)),
            "stop": Table(np.full((V, 2, 2, 2), float(self.stop_concentration))),
            "attach": Table(np.full((V, 2, V), alpha)),
        }

    def sizes(self, counts: Counts) -> Array:
        """(V,) words with each tag: every one is the root or a child."""
        return np.asarray(counts["root"] + counts["attach"].sum((0, 1)))
