"""Columns of symbols, each with its own symmetric Dirichlet prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.data.limits import limit
from stickbreak.kernels.collapsed import LiveTable
from stickbreak.kernels.live_tables import LiveColumns
from stickbreak.kernels.rows import gather_symbols, pairing, scatter_symbols
from stickbreak.kernels.sparse import gather_sparse, scatter_sparse_symbols
from stickbreak.kernels.sparse_documents import N_LIKELY, find_likely
from stickbreak.kernels.tables import linear_rows, padded, scatter_words
from stickbreak.kernels.vectors import EIGHT
from stickbreak.protocols import Array, Counts
from stickbreak.stats import SYMBOL, Field, Shares, SparseShares, WordShares

from . import learning, tables
from .base import BaseFamily, BaseScores, require_prior_count
from .missing import find_missing
from .multinomial import Multinomial
from .single_precision import single

__all__ = ["Categorical", "TableScores"]


@dataclass(frozen=True)
class TableScores(BaseScores):
    """log_table (V, K): log potentials, symbol-major. Symbols of all columns share one axis."""

    log_table: Array

    def evidence(self, rows: Array) -> Array:
        """(n, K) sum over columns of the symbols' entries in the table; symbol -1 is missing."""
        out = np.empty((len(rows), self.log_table.shape[1]))
        gather_symbols(self.log_table, rows, out)
        return np.asfortranarray(out)

    @cached_property
    def symbol_table(self) -> tuple[Array, Array]:
        """exp(log_table - top) (V, width) and top (V,), the largest entry of each symbol.

        width is K rounded up to a multiple of eight; columns beyond K are zero.
        """
        V, K = self.log_table.shape
        table, top = np.empty((V, -(-K // EIGHT) * EIGHT)), np.empty(V)
        linear_rows(self.log_table, table, top)
        return table, top

    @cached_property
    def likely_components(self) -> tuple[Array, Array]:
        """(V, T) the few components under which each symbol is most probable, and how probable."""
        V, K = self.log_table.shape
        out, peaks = (
            np.empty((V, min(N_LIKELY, K)), dtype=np.int64),
            np.empty((V, min(N_LIKELY, K))),
        )
        find_likely(self.symbol_table[0], K, out, peaks)
        return out, peaks

    @cached_property
    def _single(self) -> Array:
        return np.asarray(single(self.log_table))

    def rough(self, rows: Array) -> Array:
        """(n, K) evidence in single precision."""
        out = np.empty((len(rows), self.log_table.shape[1]), dtype=np.float32)
        gather_symbols(self._single, rows, out)
        return np.asfortranarray(out)

    def evidence_at(self, rows: Array, index: Array) -> Array:
        """(n, M) evidence for components index (n, M)."""
        out = np.empty(index.shape)
        gather_sparse(self.log_table, rows, index, out)
        return out

    def collect(self, rows: Array, shares: Shares, out: dict[str, Array]) -> None:
        """Add the shares to the counts of their symbols."""
        if isinstance(shares, WordShares) and rows.shape[1] == 1 and (rows >= 0).all():
            held = shares.table, shares.index, shares.offsets, shares.weights, shares.scale
            scatter_words(*held, rows[:, 0], out["emission"])
            out["emission_total"] += shares.sum(0)
            return
        if isinstance(shares, SparseShares):
            scatter_sparse_symbols(
                rows, shares.values, shares.index, out["emission"], out["emission_total"]
            )
        else:
            scatter_symbols(
                rows, np.ascontiguousarray(shares), out["emission"], out["emission_total"]
            )

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>."""
        return float(pairing(self.log_table, counts["emission"]))


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(BaseFamily):
    """Symbols 0, 1, 2, ... in one or more columns, symmetric Dirichlet prior for each column.

    -1 and NaN are missing.

    Parameters
    ----------
    concentration : prior count of each symbol. Default 0.5.
    n_symbols : number of symbols, an int or one for each column. Default: the largest symbol seen,
        plus one.
    """

    concentration: float = 0.5
    n_symbols: Any = None
    max_categories = 1 << 31  # what `resolve` says is below
    missing_category = -1.0
    draws = True
    learned = ("concentration",)
    missing = "exact"
    measure = "probabilities"

    def resolve(self, scale: Scale) -> Categorical:
        """Set n_symbols to each column's largest symbol plus one; keep the concentration.

        Its default 0.5 is Jeffreys' choice.
        """
        require_prior_count(concentration=self.concentration)
        self._refuse_many(scale)
        seen = np.maximum(np.minimum(scale.largest, 2.0**62).astype(int) + 1, 1)
        wanted = (
            seen
            if self.n_symbols is None
            else np.broadcast_to(np.asarray(self.n_symbols, dtype=int), seen.shape)
        )
        if (wanted < seen).any():
            d = int(np.flatnonzero(wanted < seen)[0])
            raise ValueError(f"column {d} has symbol {seen[d] - 1} but n_symbols={wanted[d]}")
        return replace(self, n_symbols=tuple(int(v) for v in wanted))

    def _refuse_many(self, scale: Scale) -> None:
        """Raise ValueError for a table of all symbols that is larger than anyone intended."""
        total, d = float(np.maximum(scale.largest + 1, 1).sum()), int(np.argmax(scale.largest))
        if self.n_symbols is None and total > limit("SYMBOLS"):
            raise ValueError(
                f"column {d} has symbol {scale.largest[d]:.16g}, all columns have {total:.16g} "
                f"symbols, and the limit is {limit('SYMBOLS'):,}; recode them as 0, 1, 2, ..., "
                "give n_symbols, or raise STICKBREAK_MAX_SYMBOLS in the environment"
            )

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Symbols must be whole numbers from -1 (missing, like NaN) to n_symbols - 1, if known."""
        values = _as_columns(rows)
        known = np.inf if self.n_symbols is None else np.asarray(self.n_symbols)
        if np.ndim(known) == 1 and np.size(known) != values.shape[1]:
            raise ValueError(
                f"n_symbols has {np.size(known)} entries but the data have "
                f"{values.shape[1]} columns"
            )
        bad = ((values < -1) | (values != np.floor(values)) | (values >= known)) & (
            values == values
        )
        if bad.any():
            at, column = np.argwhere(bad)[0]
            limit = (
                ""
                if self.n_symbols is None
                else f" below {np.broadcast_to(known, values.shape[1:])[column]}"
            )
            value = values[at, column]
            advice = (
                ""
                if value == np.floor(value)
                else "; other categories go in as strings of a data frame"
            )
            raise ValueError(
                f"row {first + at}, column {column} is {value}; symbols are whole numbers{limit}, "
                f"-1 for missing{advice}"
            )

    @property
    def _offsets(self) -> Array:
        return np.r_[0, np.cumsum(self.n_symbols)]

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return len(self.n_symbols)

    def fields(self, axis: str) -> dict[str, Field]:
        """Emission (V, K) over the symbols of all columns; emission_total (D, K)."""
        return {"emission": Field((SYMBOL, axis)), "emission_total": Field((None, axis))}

    sweeps = True

    @property
    def is_one_symbol(self) -> bool:
        """Those of a single column."""
        return len(self.n_symbols) == 1

    def live(self, counts: Counts) -> LiveTable | LiveColumns:
        """Counts, copied, for a sweep."""
        concentration, n_symbols = float(self.concentration), np.asarray(self.n_symbols)
        if len(n_symbols) > 1:
            own = np.array(counts["emission"]), np.array(counts["emission_total"])
            return LiveColumns(*own, concentration, concentration * n_symbols)
        width = -(-counts["emission"].shape[1] // EIGHT) * EIGHT
        table, total = (padded(counts[n], width) for n in ("emission", "emission_total"))
        return LiveTable(table, total[0], concentration, concentration * int(n_symbols[0]))

    def live_rows(self, rows: Any) -> Array:
        """Positions (n, D) on the shared axis, -1 where missing."""
        return np.ascontiguousarray(self.prepare(rows))

    def own_symbols(self, rows: Array, counts: Counts) -> Array | None:
        """The symbols of one column, if they are less than half of all."""
        is_seen = np.zeros(len(counts["emission"]), dtype=np.bool_)
        is_seen[rows[rows >= 0]] = True
        is_few = len(self.n_symbols) == 1 and 2 * is_seen.sum() < len(is_seen)
        return np.flatnonzero(is_seen) if is_few else None

    def settle(self, live: LiveTable | LiveColumns, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        own = {"emission": live.counts, "emission_total": np.atleast_2d(live.totals)}
        return {name: np.ascontiguousarray(array[:, :n_components]) for name, array in own.items()}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        return {
            "emission": np.zeros((int(self._offsets[-1]), n_components)),
            "emission_total": np.zeros((len(self.n_symbols), n_components)),
        }

    def width(self) -> int:
        """Number of columns."""
        return len(self.n_symbols)

    def prepare(self, rows: Any) -> Array:
        """Symbols (n, D) as positions on the shared axis; -1 stays, NaN becomes -1."""
        self.check_rows(rows)  # kernels trust their input
        values = _as_columns(rows)
        missing = find_missing(values)
        symbols = (values if missing is None else np.where(missing, -1.0, values)).astype(np.int64)
        return np.where(symbols < 0, -1, symbols + self._offsets[:-1])

    def has_values(self, rows: Any) -> Array:
        """(n,) whether a row has any symbol."""
        return np.asarray((_as_columns(rows) >= 0).any(axis=1))

    # ------------------------------------------------------------------------------------ posterior

    def _columns(self, counts: Counts) -> list[tuple[Array, Array, int]]:
        """Table (V_d, K), total (K,) and number of symbols of each column."""
        at = self._offsets
        table, total = counts["emission"], counts["emission_total"]
        return [(table[at[d] : at[d + 1]], total[d], int(v)) for d, v in enumerate(self.n_symbols)]

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) sum over columns of Dirichlet log-partition differences."""
        parts = [
            tables.log_partition_rise(t, n, self.concentration, v)
            for t, n, v in self._columns(counts)
        ]
        return np.sum(parts, axis=0)

    def log_mode(self, counts: Counts) -> Array:
        """(K,) log joint at the mode in natural coordinates."""
        parts = [
            tables.log_mode_value(t, n, self.concentration, v) for t, n, v in self._columns(counts)
        ]
        return np.sum(parts, axis=0)

    def _scores(self, counts: Counts, transform: Any) -> TableScores:
        if len(self.n_symbols) == 1:  # a batch may bring its own vocabulary
            whole = transform(
                counts["emission"],
                counts["emission_total"][0],
                self.concentration,
                self.n_symbols[0],
            )
            return TableScores(np.ascontiguousarray(whole))
        return TableScores(
            np.concatenate(
                [transform(t, n, self.concentration, v) for t, n, v in self._columns(counts)]
            )
        )

    def mean_log(self, counts: Counts) -> TableScores:
        """E[log probability]."""
        return self._scores(counts, tables.mean_log_table)

    def log_mean(self, counts: Counts) -> TableScores:
        """Log predictive probability."""
        return self._scores(counts, tables.log_mean_table)

    def mode(self, counts: Counts) -> TableScores:
        """Log probability at the mode in natural coordinates."""
        return self._scores(counts, tables.log_mode_table)

    def draw(self, counts: Counts, rng: np.random.Generator) -> TableScores:
        """Log probability at tables drawn from the posterior."""
        return self._scores(counts, partial(tables.draw_table, rng=rng))

    def grouped(self, smoothing: float) -> Multinomial | None:
        """Counts of the symbols, where there is one column."""
        if len(self.n_symbols) != 1:
            return None
        return Multinomial(max(smoothing, self.concentration), self.n_symbols[0])

    def from_grouped(self, counts: Counts) -> tuple[dict[str, Array], Array]:
        """The same table, whose columns sum to the rows."""
        table, total = np.ascontiguousarray(counts["emission"]), np.ravel(counts["emission_total"])
        return {"emission": table, "emission_total": total[None]}, total

    def learn(self, counts: Counts) -> Categorical:
        """Learn the concentration, one for all columns."""
        found = learning.best_concentration(self._columns(counts), self.concentration)
        return learning.keep_better(self, replace(self, concentration=found), counts)

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Probability (K, V): those of all columns, side by side."""
        return {"probability": np.exp(self.mode(counts).log_table).T}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL, summed over columns."""
        a, b = first["probability"], second["probability"]
        return (a * np.log(a)).sum(1)[:, None] - a @ np.log(b).T

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) KL of smoothed one-hot rows: a constant for each column where the symbols differ.

        A missing symbol adds nothing.
        """
        out = np.zeros(len(rows))
        for d, v in enumerate(self.n_symbols):
            low, high = (
                self.concentration / (1 + v * self.concentration),
                (1 + self.concentration) / (1 + v * self.concentration),
            )
            here, there = rows[:, d], rows[index, d]
            differ = (here != there) & (here >= 0) & (there >= 0)
            out += differ * (high - low) * (np.log(high) - np.log(low))
        return out

    # ---------------------------------------------------------------------------------- for readers

    def _probabilities(self, counts: Counts) -> list[Array]:
        """(V_d, K) posterior means of each column."""
        return [
            np.exp(tables.log_mean_table(table, total, self.concentration, v))
            for table, total, v in self._columns(counts)
        ]

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One symbol for each column."""
        out = np.empty((len(labels), len(self.n_symbols)), dtype=np.int64)
        for d, means in enumerate(self._probabilities(counts)):
            edges = means.cumsum(0).T
            draws = rng.random(len(labels)) * edges[labels, -1]
            out[:, d] = (edges[labels] < draws[:, None]).sum(1)
        return out

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Array:
        """Missing symbols replaced by the most probable ones."""
        at, probability = self._offsets, shares @ self.smoothed_mean(counts)["probability"]
        best = np.column_stack(
            [probability[:, at[d] : at[d + 1]].argmax(1) for d in range(len(self.n_symbols))]
        )
        return np.where(np.asarray(rows) >= 0, rows, best)

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Probability (K, D, V): posterior means, V the largest alphabet, 0 for unused symbols."""
        n_components, widest = counts["emission"].shape[1], max(self.n_symbols)
        out = np.zeros((n_components, len(self.n_symbols), widest))
        for d, means in enumerate(self._probabilities(counts)):
            out[:, d, : len(means)] = means.T
        return {"probability": out}


def _as_columns(rows: Any) -> Array:
    """Symbols (n, D); a single column may be given as (n,)."""
    values = np.asarray(rows)
    return values[:, None] if values.ndim == 1 else values
