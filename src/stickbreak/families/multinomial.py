"""Rows of counts (documents, histograms): symmetric Dirichlet prior over the columns.

A row has its own total, so a component counts tokens (`emission_total`) while the prior over
components counts rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from stickbreak.data import Scale, is_sparse
from stickbreak.kernels.live_tables import CountParts, LiveCounts
from stickbreak.kernels.rows import dirichlet_multinomial, log_factorials, pairing
from stickbreak.kernels.sparse import multiply_sparse, scatter_sparse_counts
from stickbreak.protocols import Array, Counts
from stickbreak.stats import SYMBOL, Field, Shares, SparseShares

from . import learning, tables
from .base import BaseFamily, BaseScores, require_prior_count
from .missing import fill_missing, find_missing
from .single_precision import single

__all__ = ["CountRows", "Multinomial", "check_counts", "log_factorial_rows"]


class CountRows(NamedTuple):
    """Prepared rows of counts.

    matrix (n, V) : dense or CSR. total (n,) : tokens. base (n,) : log multinomial coefficient.
    seen (n,) : 0 for a missing row, whose counts are 0; None if no row is missing.
    """

    matrix: Any
    total: Array
    base: Array
    seen: Array | None = None


def log_factorial_rows(matrix: Any) -> Array:
    """(n,) sum of log x! over each row, dense or CSR."""
    n = matrix.shape[0]
    out = np.zeros(n)
    if is_sparse(matrix):
        log_factorials(matrix.data, matrix.indptr.astype(np.int64), out)
    else:
        log_factorials(matrix.ravel(), np.arange(n + 1, dtype=np.int64) * matrix.shape[1], out)
    return out


MOST_COUNT = 1e15  # up to here every whole number is a float


def check_counts(rows: Any, first: int = 0) -> None:
    """Counts must not be negative, nor so large that floats do not hold every whole number."""
    values = rows.data if is_sparse(rows) else np.asarray(rows)
    if not values.size or (values.min() >= 0 and values.max() <= MOST_COUNT):
        return
    bad = (values < 0) | (values > MOST_COUNT)
    if not bad.any():
        return
    is_negative = bool((values < 0).any())
    bad = values < 0 if is_negative else bad
    advice = (
        "counts must not be negative"
        if is_negative
        else f"counts go up to {MOST_COUNT:g}, divide them"
    )
    if is_sparse(rows):
        at = int(np.searchsorted(rows.indptr, int(np.argmax(bad)), side="right") - 1)
        raise ValueError(f"row {first + at} has the count {values[bad][0]}; {advice}")
    at, column = np.argwhere(bad)[0]
    raise ValueError(f"row {first + at}, column {column} is {values[at, column]}; {advice}")


@dataclass(frozen=True)
class CountScores(BaseScores):
    """log_table (V, K): evidence is linear in the counts, plus the multinomial coefficient."""

    log_table: Array

    def evidence(self, rows: CountRows) -> Array:
        """(n, K) counts times the table."""
        return np.asfortranarray(np.asarray(rows.matrix @ self.log_table) + rows.base[:, None])

    @cached_property
    def _single(self) -> Array:
        return np.asarray(single(self.log_table))

    def rough(self, rows: CountRows) -> Array:
        """(n, K) counts times the table, in single precision."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asfortranarray(np.asarray(single(rows.matrix) @ self._single))

    def evidence_at(self, rows: CountRows, index: Array) -> Array:
        """(n, M) evidence for components index (n, M)."""
        out = np.empty(index.shape)
        multiply_sparse(*csr_parts(rows.matrix), self.log_table, index, out)
        return out + rows.base[:, None]

    def collect(self, rows: CountRows, shares: Shares, out: dict[str, Array]) -> None:
        """Add token counts, token totals, rows, and the constants of the rows."""
        collect_counts(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>."""
        return float(pairing(self.log_table, counts["emission"])) + float(counts["base"].sum())


@dataclass(frozen=True)
class DirichletMultinomialScores(BaseScores):
    """Posterior predictive of a whole row: alpha (V, K) and its total over all symbols (K,)."""

    alpha: Array
    total: Array

    def evidence(self, rows: CountRows) -> Array:
        """(n, K) log Dirichlet-multinomial probability."""
        out = np.repeat(rows.base[:, None], len(self.total), axis=1)
        dirichlet_multinomial(*csr_parts(rows.matrix), self.alpha, self.total, out)
        return np.asfortranarray(out)

    def collect(self, rows: CountRows, shares: Shares, out: dict[str, Array]) -> None:
        """Add token counts, token totals, rows, and the constants of the rows."""
        collect_counts(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """NaN: scores are not linear in the counts, and rules that use them have no bound."""
        return float("nan")


def csr_parts(matrix: Any) -> tuple[Array, Array, Array]:
    """Row bounds, columns and values of counts, dense or CSR, as kernels read them."""
    rows = sparse.csr_array(matrix)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data


def collect_counts(rows: CountRows, shares: Shares, out: dict[str, Array]) -> None:
    """Add token counts (V, K), token totals (K,), rows (K,) and the constants of the rows (K,)."""
    if isinstance(shares, SparseShares):
        scatter_sparse_counts(*csr_parts(rows.matrix), shares.values, shares.index, out["emission"])
    else:
        out["emission"] += np.asarray(rows.matrix.T @ np.ascontiguousarray(shares))
    out["emission_total"] += rows.total @ shares
    out["rows"] += shares.sum(0) if rows.seen is None else rows.seen @ shares
    out["base"] += rows.base @ shares


@dataclass(frozen=True, eq=False, repr=False)
class Multinomial(BaseFamily):
    """Rows of counts with a symmetric Dirichlet prior; dense arrays or CSR.

    Parameters
    ----------
    concentration : prior count of each column. Default 0.1.
    n_symbols : number of columns; set from the data.
    """

    concentration: float = 0.1
    n_symbols: int | None = None
    sparse = True
    draws = True
    learned = ("concentration",)
    missing = "rows"
    measure = "probabilities given the row totals"

    def resolve(self, scale: Scale) -> Multinomial:
        """n_symbols = number of columns; concentration as given (0.1)."""
        require_prior_count(concentration=self.concentration)
        return replace(self, n_symbols=scale.n_features)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Counts must not be negative; NaN must fill its whole row."""
        check_counts(rows, first)
        missing = find_missing(rows)
        lone = None if missing is None else missing & ~missing.all(axis=1, keepdims=True)
        if lone is not None and lone.any():
            at, column = np.argwhere(lone)[0]
            raise ValueError(
                f"row {first + at}, column {column} is missing, but a row of counts has a total "
                "only if all are known; "
                "fill it, drop the column, mark the whole row as missing, or use family='poisson'"
            )

    @property
    def _size(self) -> int:
        assert self.n_symbols is not None
        return self.n_symbols

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return self._size

    def fields(self, axis: str) -> dict[str, Field]:
        """Emission (V, K) tokens, emission_total (K,), rows (K,), and base (K,).

        base : sum of log multinomial coefficients.
        """
        return {
            "emission": Field((SYMBOL, axis)),
            "emission_total": Field((axis,)),
            "rows": Field((axis,)),
            "base": Field((axis,), nonnegative=False),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        flat = {name: np.zeros(n_components) for name in ("emission_total", "rows", "base")}
        return {"emission": np.zeros((self._size, n_components)), **flat}

    def width(self) -> int:
        """Numbers in a row. Sparse rows have fewer, so their blocks are smaller than needed."""
        return min(self._size, 512)

    def prepare(self, rows: Any) -> CountRows:
        """Counts as floats, with totals and multinomial coefficients; missing rows are zero."""
        matrix: Any = (
            sparse.csr_array(rows, dtype=float)
            if is_sparse(rows)
            else np.ascontiguousarray(rows, dtype=float)
        )
        seen = None
        if find_missing(matrix) is not None:
            self.check_rows(matrix)
            seen = self.has_values(matrix).astype(float)
            matrix = np.where(seen[:, None] > 0, matrix, 0.0)
        total = np.asarray(matrix.sum(axis=1)).ravel()
        return CountRows(matrix, total, gammaln(total + 1.0) - log_factorial_rows(matrix), seen)

    # ------------------------------------------------------------------------------------ sweeps

    sweeps = True

    def live(self, counts: Counts) -> LiveCounts:
        """Counts, copied, for a sweep."""
        table, total = np.array(counts["emission"]), np.array(counts["emission_total"])
        rows, base = np.array(counts["rows"]), np.array(counts["base"])
        pseudo = float(self.concentration)
        return LiveCounts(table, total, rows, base, pseudo, pseudo * self._size)

    def live_rows(self, rows: Any) -> CountParts:
        """CSR parts, totals and constants of the rows."""
        found = self.prepare(rows)
        seen = np.ones(len(found.total)) if found.seen is None else found.seen
        return CountParts(*csr_parts(found.matrix), found.total, found.base, seen)

    def settle(self, live: LiveCounts, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        own = {"emission": live.counts, "emission_total": live.totals}
        return {**own, "rows": live.rows, "base": live.base}

    # ------------------------------------------------------------------------------------ posterior

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) Dirichlet log-partition difference plus the rows' constants."""
        rise = tables.log_partition_rise(
            counts["emission"], counts["emission_total"], self.concentration, self._size
        )
        return rise + counts["base"]

    def log_mode(self, counts: Counts) -> Array:
        """(K,) log joint at the mode in natural coordinates."""
        value = tables.log_mode_value(
            counts["emission"], counts["emission_total"], self.concentration, self._size
        )
        return value + counts["base"]

    def mean_log(self, counts: Counts) -> CountScores:
        """E[log probability]."""
        return CountScores(
            tables.mean_log_table(
                counts["emission"], counts["emission_total"], self.concentration, self._size
            )
        )

    def log_mean(self, counts: Counts) -> DirichletMultinomialScores:
        """Log predictive probability of a whole row."""
        alpha = np.ascontiguousarray(counts["emission"] + self.concentration)
        return DirichletMultinomialScores(
            alpha, counts["emission_total"] + self._size * self.concentration
        )

    def mode(self, counts: Counts) -> CountScores:
        """Log probability at the mode in natural coordinates."""
        return CountScores(
            tables.log_mode_table(
                counts["emission"], counts["emission_total"], self.concentration, self._size
            )
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> CountScores:
        """Log probability at tables drawn from the posterior."""
        return CountScores(
            tables.draw_table(
                counts["emission"], counts["emission_total"], self.concentration, self._size, rng
            )
        )

    def learn(self, counts: Counts) -> Multinomial:
        """Learn the concentration."""
        table = (counts["emission"], counts["emission_total"], self._size)
        found = learning.best_concentration([table], self.concentration)
        return learning.keep_better(self, replace(self, concentration=found), counts)

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Probability (K, V), and weight (K,): the number of tokens, prior included, behind it."""
        total = counts["emission_total"] + self._size * self.concentration
        return {
            "probability": ((counts["emission"] + self.concentration) / total).T,
            "weight": total,
        }

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL times the weight of the first."""
        a, b = first["probability"], second["probability"]
        return first["weight"][:, None] * ((a * np.log(a)).sum(1)[:, None] - a @ np.log(b).T)

    def divergence(self, rows: CountRows, index: int) -> Array:
        """(n,) (tokens + prior) * KL of smoothed rows.

        sum_v (x_v + a) log((x_v + a) / m_v), summed over the nonzero entries of x: where x_v = 0,
        the term is a log(a) - a log(m_v).
        """
        a, V = self.concentration, rows.matrix.shape[1]
        there = rows.matrix[index : index + 1]
        target = np.asarray(there.toarray() if is_sparse(there) else there, dtype=float).ravel() + a
        log_total = np.log(target.sum() + a * (self._size - V))
        log_target = np.log(target) - log_total
        if is_sparse(rows.matrix):
            own = sparse.csr_array(rows.matrix, copy=True)
            own.data = (own.data + a) * np.log(own.data + a) - a * np.log(a)
            entropy = np.asarray(own.sum(axis=1)).ravel() + V * a * np.log(a)
        else:
            smooth = rows.matrix + a
            entropy = (smooth * np.log(smooth)).sum(1)
        cross = np.asarray(rows.matrix @ log_target).ravel() + a * log_target.sum()
        weight = rows.total + a * self._size
        # symbols of the vocabulary that this batch does not have
        unseen = a * (self._size - V) * log_total
        return np.maximum(entropy - weight * np.log(weight) - cross + unseen, 0.0)

    # ---------------------------------------------------------------------------------- for readers

    def _row_total(self, counts: Counts) -> Array:
        """(K,) tokens of a component's average row."""
        return counts["emission_total"] / np.maximum(counts["rows"], 1e-12)

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One row of counts for each label; its total is that of the component's average row."""
        shares = rng.gamma((counts["emission"] + self.concentration).T[labels])
        tokens = np.maximum(np.round(self._row_total(counts)), 1).astype(int)[labels]
        return rng.multinomial(tokens, shares / shares.sum(1, keepdims=True))

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Missing rows, replaced by the components' average rows; CSR rows have none."""
        if is_sparse(rows):
            return rows
        return fill_missing(
            rows, (shares * self._row_total(counts)) @ self.smoothed_mean(counts)["probability"]
        )

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Probability (K, V): posterior means."""
        return {"probability": np.array(self.smoothed_mean(counts)["probability"])}
