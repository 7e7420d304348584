"""Columns of counts, each Poisson with a Gamma prior on its rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.data import Scale
from stickbreak.kernels.rows import poisson_predictive
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field

from .base import BaseFamily, prior_vector, require_positive
from .multinomial import check_counts, log_factorial_rows

__all__ = ["Poisson"]


class PoissonRows(NamedTuple):
    """values (n, D); base (n,): minus the sum of log x!."""

    values: Array
    base: Array


def _collect(rows: PoissonRows, shares: Array, out: dict[str, Array]) -> None:
    out["events"] += shares.T @ rows.values
    out["rows"] += shares.sum(0)
    out["base"] += rows.base @ shares


@dataclass(frozen=True)
class RateScores:
    """Evidence x . log_rate - sum of rates - log x!; log_rate, rate (K, D)."""

    log_rate: Array
    rate: Array

    def evidence(self, rows: PoissonRows) -> Array:
        """(n, K) log evidence."""
        return (self.log_rate @ rows.values.T - self.rate.sum(1)[:, None] + rows.base).T

    def collect(self, rows: PoissonRows, shares: Array, out: dict[str, Array]) -> None:
        """Add events of each column, rows, and the constants of the rows."""
        _collect(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>."""
        spent = (self.rate.sum(1) * counts["rows"]).sum()
        return float((self.log_rate * counts["events"]).sum() - spent + counts["base"].sum())


@dataclass(frozen=True)
class NegativeBinomialScores:
    """Posterior predictive: shape (K, D), rate (K,)."""

    shape: Array
    rate: Array

    def evidence(self, rows: PoissonRows) -> Array:
        """(n, K) log negative binomial probability."""
        out = np.empty((len(self.rate), len(rows.values))).T
        poisson_predictive(rows.values, self.shape, self.rate, out)
        out += rows.base[:, None]
        return out

    def collect(self, rows: PoissonRows, shares: Array, out: dict[str, Array]) -> None:
        """Add events of each column, rows, and the constants of the rows."""
        _collect(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """Not linear in the counts: rules that use it have no bound."""
        return float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(BaseFamily):
    """Columns of counts, independent given the component, Gamma(shape, rate) prior on each rate.

    Parameters
    ----------
    rate : how many rows the prior is worth. Default 1.
    shape : prior events, a number or (D,); the prior mean is shape / rate. Default: the columns' means times `rate`.
    """

    rate: float = 1.0
    shape: Any = None
    measure = "probabilities"

    def resolve(self, scale: Scale) -> Poisson:
        """Shape = rate * column mean (an empty column counts as half an event a row)."""
        require_positive(rate=self.rate)
        mean = np.where(scale.mean > 0, scale.mean, 0.5)
        shape = prior_vector("shape", self.shape, self.rate * mean)
        require_positive(shape=float(shape.min()))
        return replace(self, shape=shape)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Counts must be whole and not negative."""
        check_counts(rows, first)
        values = np.asarray(rows)
        bad = values != np.floor(values)
        if bad.any():
            at, column = np.argwhere(bad)[0]
            raise ValueError(f"row {first + at}, column {column} is {values[at, column]}; Poisson counts are whole numbers")

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return len(self.shape)

    def fields(self, axis: str) -> dict[str, Field]:
        """Events (K, D), rows (K,), base (K,): minus the sum of log x!."""
        return {"events": Field((axis, None)), "rows": Field((axis,)), "base": Field((axis,), nonnegative=False)}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        flat = np.zeros(n_components)
        return {"events": np.zeros((n_components, len(self.shape))), "rows": flat, "base": flat.copy()}

    def width(self) -> int:
        """Columns."""
        return len(self.shape)

    def prepare(self, rows: Any) -> PoissonRows:
        """Counts as floats with their constants."""
        values = np.ascontiguousarray(rows, dtype=float)
        return PoissonRows(values, -log_factorial_rows(values))

    # ------------------------------------------------------------------------------------------ posterior

    def _posterior(self, counts: Counts) -> tuple[Array, Array]:
        """Shape (K, D), rate (K,)."""
        return self.shape + counts["events"], self.rate + counts["rows"]

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) Gamma log-partition differences, summed over columns, plus the rows' constants."""
        a, b = self._posterior(counts)
        rise = gammaln(a) - a * np.log(b)[:, None] - gammaln(self.shape) + self.shape * np.log(self.rate)
        return rise.sum(1) + counts["base"]

    def mean_log(self, counts: Counts) -> RateScores:
        """E[log rate], E[rate]."""
        a, b = self._posterior(counts)
        return RateScores(digamma(a) - np.log(b)[:, None], a / b[:, None])

    def log_mean(self, counts: Counts) -> NegativeBinomialScores:
        """Negative binomial."""
        return NegativeBinomialScores(*self._posterior(counts))

    def mode(self, counts: Counts) -> RateScores:
        """The mode in natural coordinates (log rate) is shape / rate."""
        a, b = self._posterior(counts)
        rate = a / b[:, None]
        return RateScores(np.log(rate), rate)

    def log_mode(self, counts: Counts) -> Array:
        """(K,) a log(a / b) - a at the mode, plus the rows' constants."""
        a, b = self._posterior(counts)
        return (a * (np.log(a) - np.log(b)[:, None]) - a).sum(1) + counts["base"]

    # ------------------------------------------------------------------------------------------ means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Rate (K, D)."""
        a, b = self._posterior(counts)
        return {"rate": a / b[:, None]}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between Poissons, summed over columns."""
        a, b = first["rate"], second["rate"]
        return (a * np.log(a)).sum(1)[:, None] - a @ np.log(b).T - a.sum(1)[:, None] + b.sum(1)[None, :]

    def divergence(self, rows: PoissonRows, index: int) -> Array:
        """(n,) KL of smoothed rows."""
        mean = (rows.values + self.shape) / (1.0 + self.rate)
        there = mean[index]
        return np.maximum((mean * (np.log(mean) - np.log(there)) - mean + there).sum(1), 0.0)

    # ------------------------------------------------------------------------------------------ for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One row of counts for each label, from the negative binomial predictive."""
        a, b = self._posterior(counts)
        return rng.poisson(rng.gamma(a[labels]) / b[labels][:, None])

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Rate (K, D): posterior means."""
        return {"rate": np.array(self.smoothed_mean(counts)["rate"])}
