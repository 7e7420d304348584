"""The weak limit, for Gibbs: rows of a (sticky) HDP hidden Markov model with at most K states.

    b ~ Dirichlet(top_concentration / K, ...),   start row ~ Dirichlet(start_concentration b),
    row j ~ Dirichlet(concentration b + stickiness e_j)

For many states this approaches the HDP [FSJW11]. The root b is drawn given the counts, with the
rows integrated out. First `draw_tables` draws how many steps of each row took their target from the
root; the root depends on these numbers only. A step from j to j may have come from the stickiness
instead; such steps are then removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields, Summary, draw_log_dirichlet, draw_tables

from .root import ChainGroups
from .transitions import RowCounts, RowPseudo

__all__ = ["WeakLimitRows"]


@dataclass(frozen=True, eq=False)
class WeakLimitRows(RowCounts):
    """The prior that Gibbs uses for `HDPRows`: same numbers, and K root shares that sum to one.

    root : the `root` of the `HDPRows` that this is the limit of. A drawn root is neither a
        posterior nor an estimate.
    """

    concentration: float = 0.5
    start_concentration: float = 10.0
    top_concentration: float = 10.0
    stickiness: float = 0.0
    root: str = "beta"

    def concentrations(self, params: Fields) -> ChainGroups:
        """The given numbers."""
        return ChainGroups(self.start_concentration, self.concentration, self.stickiness)

    def top(self, counts: Summary, params: Fields) -> float:
        """The given concentration of the root."""
        return self.top_concentration

    def start(self, n_components: int, axis: str) -> Fields:
        """Root (K,): equal shares."""
        return Fields({"root": Field((axis,))}, {"root": np.full(n_components, 1.0 / n_components)})

    def shares(self, params: Fields) -> Array:
        """(K,) the root's shares, normalized: an HDP's start may leave mass for unused states."""
        return np.asarray(params["root"] / params["root"].sum())

    def pseudo(self, params: Fields, n_components: int) -> RowPseudo:
        """Prior counts of all rows; there is no unused mass."""
        b = self.shares(params)
        rows = np.tile(self.concentration * b, (n_components, 1)) + self.stickiness * np.eye(
            n_components
        )
        return RowPseudo(self.start_concentration * b, rows)

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """A root drawn given the counts, the rows integrated out."""
        prior, K = self.pseudo(params, len(total["start"])), len(total["start"])
        asked = draw_tables(total["transition"], prior.transition, rng)
        stayed = np.diagonal(asked).astype(np.int64)
        asked[np.arange(K), np.arange(K)] -= rng.binomial(
            stayed, self.stickiness / np.diagonal(prior.transition)
        )
        seen = asked.sum(0) + draw_tables(total["start"], prior.start, rng)
        root = np.exp(draw_log_dirichlet(seen + self.top_concentration / K, None, rng))
        # A share of exactly 0 would make a state impossible.
        return replace(
            params, arrays={**params.arrays, "root": np.maximum(root, np.finfo(float).tiny)}
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """The prior's part of the log joint: log p(labels | root) + log p(root)."""
        K = len(total["start"])
        each = self.top_concentration / K
        root = (
            gammaln(self.top_concentration)
            - K * gammaln(each)
            + (each - 1.0) * np.log(self.shares(params)).sum()
        )
        return float(root) + self.log_rise(total, params)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Raise ValueError: the weak limit is drawn, not maximized."""
        raise ValueError(
            "EM needs HDPRows(...).for_modes(); the weak limit is what Gibbs draws from"
        )
