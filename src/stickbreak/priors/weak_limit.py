"""Rows of a (sticky) HDP hidden Markov model with at most K states, to be drawn: the weak limit.

    b ~ Dirichlet(top_concentration / K, ...),   start row ~ Dirichlet(start_concentration b),
    row j ~ Dirichlet(concentration b + stickiness e_j)

For many states this approaches the HDP [FSJW11]. Given the counts, and rows integrated out, b is
drawn by way of how many of the steps of each row asked the root for their target (`draw_tables`): a
count of those is all that the root sees. A step from j to j may have asked the stickiness instead,
which is then taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields, Summary, draw_log_dirichlet

from .root import ChainGroups
from .transitions import RowCounts, RowPseudo

__all__ = ["WeakLimitRows", "draw_tables"]

CHUNK = 1 << 20  # draws that are held at once


def draw_tables(counts: Array, concentration: Array, rng: np.random.Generator) -> Array:
    """How many of `counts` outcomes were drawn from the base measure, not copied from an earlier
    one; arrays of one shape.

    Outcome i = 0, 1, ... of an entry is new with probability c / (c + i), c its concentration
    (tables of a Chinese restaurant).
    """
    n, c = np.rint(counts).astype(np.int64).ravel(), np.asarray(concentration, dtype=float).ravel()
    ends, out = n.cumsum(), np.zeros(n.size)
    for low in range(0, int(n.sum()), CHUNK):
        places = np.arange(low, min(low + CHUNK, int(ends[-1])))
        entry = np.searchsorted(ends, places, side="right")
        earlier = places - (ends - n)[entry]
        is_new = rng.random(len(places)) * (c[entry] + earlier) < c[entry]
        out += np.bincount(entry, weights=is_new, minlength=n.size)
    return out.reshape(np.shape(counts))


@dataclass(frozen=True, eq=False)
class WeakLimitRows(RowCounts):
    """What Gibbs makes of `HDPRows`: the same numbers, and a root of K shares that sum to one.

    root : that of the `HDPRows` which this is the limit of; a drawn root is neither a posterior nor
        an estimate.
    """

    concentration: float = 0.5
    start_concentration: float = 10.0
    top_concentration: float = 10.0
    stickiness: float = 0.0
    root: str = "beta"

    def concentrations(self, params: Fields) -> ChainGroups:
        """The numbers, as given."""
        return ChainGroups(self.start_concentration, self.concentration, self.stickiness)

    def top(self, counts: Summary, params: Fields) -> float:
        """The root's concentration, as given."""
        return self.top_concentration

    def start(self, n_components: int, axis: str) -> Fields:
        """Root (K,): equal shares."""
        return Fields({"root": Field((axis,))}, {"root": np.full(n_components, 1.0 / n_components)})

    def shares(self, params: Fields) -> Array:
        """(K,) the root's shares; what an HDP's start leaves for unused states is dealt out."""
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
        # A share of 0 would say that a state is impossible: no share is that small.
        return replace(
            params, arrays={**params.arrays, "root": np.maximum(root, np.finfo(float).tiny)}
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """Logs of p(labels | root) and p(root), added: the prior's part of the log joint."""
        K = len(total["start"])
        each = self.top_concentration / K
        root = (
            gammaln(self.top_concentration)
            - K * gammaln(each)
            + (each - 1.0) * np.log(self.shares(params)).sum()
        )
        return float(root) + self.log_rise(total, params)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """The weak limit is drawn, not maximized."""
        raise ValueError(
            "EM needs HDPRows(...).for_modes(); the weak limit is what Gibbs draws from"
        )
