"""One column of symbols whose components share a learned base, for collapsed inference.

    component k ~ Dirichlet(strength * t),   t ~ Dirichlet(1, ..., 1)

Components are integrated out, and tables say how many rows took their symbol from the base, as for
the rows of an HDP (`priors/tables.py`). Prior counts are strength * G, G = exp(E[log t]), which sum
to less than the strength: what is missing is nobody's, and is not shared out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma

from stickbreak.kernels.collapsed import LiveTable
from stickbreak.kernels.live_tables import LiveColumns
from stickbreak.kernels.rows import scatter_symbols
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import SYMBOL, Field, Shares, log_gamma_rise
from stickbreak.stats.expected_tables import best_concentration, expected_tables

from .categorical import Categorical, TableScores

__all__ = ["SharedCategorical"]

SURE = 1.0 - 1e-15  # largest share whose absence has a logarithm
EVEN = 1.0  # prior count of each symbol of the base
LEAST = 1e-300  # share of a symbol


def count_absent(rows: Array, shares: Array, out: Array) -> None:
    """Add log(1 - share) of each row (n, 1) to its symbol: out (V, K), log q(nobody has it)."""
    logs = np.log1p(-np.minimum(np.asarray(shares, dtype=float), SURE))
    scatter_symbols(rows, logs, out, np.zeros((1, out.shape[1])))


@dataclass(frozen=True)
class SharedScores(TableScores):
    """Those of a table; rows also count as not having the components that they lack."""

    def collect(self, rows: Array, shares: Shares, out: dict[str, Array]) -> None:
        """Add the shares to the counts of their symbols."""
        super().collect(rows, shares, out)
        count_absent(rows, np.ascontiguousarray(shares), out["log_absent_symbol"])


@dataclass(frozen=True, eq=False, repr=False)
class SharedCategorical(Categorical):
    """A `Categorical` of one column, with a base that `learn` finds.

    strength : of the base; it does not become larger than concentration * n_symbols, with which it
        begins, for the reason that a concentration of rows does not.
    base (V,) : shares G of the symbols.

    Counted besides: log_absent_symbol (V, K), the sum over a symbol's rows of log q(another state).
    """

    strength: float = 1.0
    base: Any = None
    draws = False
    learned = ("strength", "base")  # type: ignore[assignment]
    learns_collapsed = True

    @classmethod
    def of(cls, family: Categorical) -> SharedCategorical:
        """The family before anything is learned: the same prior counts. Itself if it is one."""
        if isinstance(family, SharedCategorical):
            return family
        if len(family.n_symbols) != 1:
            raise ValueError(
                f"the base of {len(family.n_symbols)} columns cannot be learned; use "
                "learn_prior=False, or one column of symbols"
            )
        V = int(family.n_symbols[0])
        strength, base = family.concentration * V, np.full(V, 1.0 / V)
        return cls(family.concentration, family.n_symbols, strength, base)

    @property
    def weights(self) -> Array:
        """(V,) prior counts."""
        return np.asarray(self.strength * np.maximum(self.base, LEAST))

    def fields(self, axis: str) -> dict[str, Field]:
        """Those of a table, and what symbols lack; logs of probabilities are below zero."""
        absent = Field((SYMBOL, axis), nonnegative=False)
        return {**super().fields(axis), "log_absent_symbol": absent}

    def zeros(self, n_components: int) -> Out:
        """Empty counts."""
        found = super().zeros(n_components)
        return {**found, "log_absent_symbol": np.zeros_like(found["emission"])}

    # ------------------------------------------------------------------------------------ posterior

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition rises, of the Dirichlet with one more symbol that nobody has."""
        rises = log_gamma_rise(self.weights[:, None], counts["emission"]).sum(0)
        return np.asarray(rises - log_gamma_rise(self.strength, counts["emission_total"][0]))

    def log_mode(self, counts: Counts) -> Array:
        """(K,) log joint at the mode in natural coordinates."""
        table, log_rest = self.mode(counts).log_table, np.log(self._totals(counts))
        rest = max(self.strength - float(self.weights.sum()), 0.0)
        own = ((counts["emission"] + self.weights[:, None]) * table).sum(0)
        return np.asarray(own + rest * (np.log(max(rest, LEAST)) - log_rest))

    def mean_log(self, counts: Counts) -> TableScores:
        """E[log probability]."""
        table = digamma(counts["emission"] + self.weights[:, None])
        return SharedScores(np.ascontiguousarray(table - digamma(self._totals(counts))))

    def log_mean(self, counts: Counts) -> TableScores:
        """Log predictive probability."""
        return SharedScores(np.ascontiguousarray(self._log_means(counts)))

    mode = log_mean

    def _totals(self, counts: Counts) -> Array:
        return np.asarray(counts["emission_total"][0] + self.strength)

    def _log_means(self, counts: Counts) -> Array:
        table = np.log(counts["emission"] + self.weights[:, None])
        return np.asarray(table - np.log(self._totals(counts)))

    def _probabilities(self, counts: Counts) -> list[Array]:
        return [np.exp(self._log_means(counts))]

    # ------------------------------------------------------------------------------------ learning

    def learn(self, counts: Counts) -> SharedCategorical:
        """Expected tables, then the base and its strength.  [W16, 5.5.3]"""
        steps, taken = counts["emission"], counts["emission_total"][0]
        absent = np.minimum(counts["log_absent_symbol"], 0.0)
        is_step = np.minimum(-np.expm1(absent), steps)
        is_taken = np.minimum(-np.expm1(absent.sum(0)), taken)
        tables = expected_tables(self.weights[:, None], steps, is_step).sum(1)
        log_base = digamma(EVEN + tables) - digamma((EVEN + tables).sum())
        most = self.concentration * float(self.n_symbols[0])
        strength = best_concentration(
            self.strength, most, float(tables.sum()), taken, np.maximum(is_taken, 0.0)
        )
        return replace(self, strength=strength, base=np.exp(log_base))

    # ------------------------------------------------------------------------------------ sweeps

    def live(self, counts: Counts) -> LiveTable | LiveColumns:
        """Counts, copied, with the prior counts among them, which no row takes away."""
        live = super().live(counts)
        assert isinstance(live, LiveTable)
        return LiveTable(live.counts + self.weights[:, None], live.totals + self.strength, 0.0, 0.0)

    def live_sums(self, counts: Counts) -> LiveTable | LiveColumns:
        """Without prior counts."""
        return super().live(counts)

    def own_symbols(self, rows: Array, counts: Counts) -> Array | None:
        """All: the base has a number for each."""
        return None

    def absences(self, rows: Array, shares: Array, n_components: int) -> Out:
        """What the rows of a lane lack after a sweep."""
        out = np.zeros((int(self.n_symbols[0]), n_components))
        count_absent(rows, shares, out)
        return {"log_absent_symbol": out}
