"""Several tables of Dirichlet rows at once: what grammars have in place of one row of shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Fields, Summary

from .base import BasePrior
from .dirichlet import ROWS

__all__ = ["RuleTables", "Table"]


class Table(NamedTuple):
    """Prior counts of one table, with the axes of its field; None for `rest` if nothing is unused.

    width : how many of the last axes a row of outcomes spans
    """

    pseudo: Array
    rest: Array | float | None = None
    width: int = 1


class RuleTables(BasePrior):
    """Tables of rows, each with a Dirichlet prior. A subclass says `fields` and `tables`."""

    def tables(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """The tables by the name of their field."""
        raise NotImplementedError

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        found = self.tables(self.start(n_components, "axis"), n_components)
        return {name: np.zeros(table.pseudo.shape) for name, table in found.items()}

    def pseudo(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """Prior counts of each table."""
        return self.tables(params, n_components)

    def _tables_for(self, counts: Counts, params: Fields) -> Mapping[str, Table]:
        return self.tables(params, self._n_components(counts))

    def _n_components(self, counts: Counts) -> int:
        return len(counts["root"])

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Log potentials of each table, with the axes of its field."""
        return {
            name: _by_rows(self._log_of(name, counts, rule), counts[name], table, table.rest)
            for name, table in self._tables_for(counts, params).items()
        }

    def _log_of(self, name: str, counts: Counts, rule: Rule) -> Callable[..., Array]:
        """From counts, prior counts and what is unused of a table to its log potentials."""
        return rule.pick(ROWS)

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Logs of expected rows, renormalized over the outcomes in use."""
        return {
            name: _by_rows(ROWS.log_mean, counts[name], table, None)
            for name, table in self._tables_for(counts, params).items()
        }

    def log_rise(self, total: Counts, params: Fields) -> float:
        """Log-partitions of the rows' posteriors minus those of their priors."""
        return sum(
            float(ROWS.log_rise(*_rows(total[name], table), table.rest).sum())
            for name, table in self._tables_for(total, params).items()
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """Log-partitions of the rows' posteriors minus those of their priors."""
        return self.log_rise(total, params)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Sum (count + pseudo) log probability at the mode."""
        return sum(
            float(ROWS.log_best(*_rows(total[name], table), table.rest).sum())
            for name, table in self._tables_for(total, params).items()
        )

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) shares of all that was counted, with the prior counts of one row added."""
        held = self.sizes(counts) + self._tables_for(counts, params)["root"].pseudo
        return np.asarray(held / held.sum())


def _rows(counts: Array, table: Table) -> tuple[Array, Array]:
    """Counts and prior counts (..., outcomes)."""
    lead = counts.shape[: counts.ndim - table.width]
    return counts.reshape(*lead, -1), table.pseudo.reshape(*lead, -1)


def _by_rows(log_of: Any, counts: Array, table: Table, rest: Any) -> Array:
    """Potentials of one table, in the shape of its counts."""
    return np.asarray(log_of(*_rows(counts, table), rest)).reshape(counts.shape)
