"""Columns of counts, each Poisson with a Gamma prior on its rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from stickbreak.data import Scale
from stickbreak.kernels.live_tables import EventRows, LiveEvents
from stickbreak.kernels.rows import poisson_predictive
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Shares, log_gamma_draws, log_gamma_rise, weigh

from . import learning
from .base import BaseFamily, BaseScores, require_prior_count
from .missing import column_counts, fill_missing, find_missing
from .multinomial import check_counts, log_factorial_rows
from .prior_scales import prior_vector
from .single_precision import evaluate_sparse, multiply_roughly, pick_sparse, single

__all__ = ["Poisson"]


class PoissonRows(NamedTuple):
    """Prepared rows of counts.

    values (n, D) : 0 where missing. base (n,) : minus the sum of log x!.
    missing (n, D) : 1 where an entry is missing; None if rows are complete.
    """

    values: Array
    base: Array
    missing: Array | None = None


def _collect(rows: PoissonRows, shares: Shares, out: dict[str, Array]) -> None:
    weigh(shares, rows.values, out["events"])
    out["rows"] += shares.sum(0)
    out["base"] += rows.base @ shares
    if rows.missing is not None:
        weigh(shares, rows.missing, out["missing"])


@dataclass(frozen=True)
class RateScores(BaseScores):
    """Evidence = x . log_rate - sum of rates - log x!; log_rate and rate (K, D)."""

    log_rate: Array
    rate: Array

    def evidence(self, rows: PoissonRows) -> Array:
        """(n, K) log evidence. A missing entry is read as 0 events; its term is removed again."""
        out = self.log_rate @ rows.values.T - self.rate.sum(1)[:, None] + rows.base
        if rows.missing is not None:
            out += self.rate @ rows.missing.T
        return out.T

    @cached_property
    def _single(self) -> Array:
        return np.asarray(single(self.log_rate))

    def rough(self, rows: PoissonRows) -> Array:
        """(n, K) evidence in single precision, without the constants of the rows.

        Blocks with missing entries are exact.
        """
        if rows.missing is not None:
            return self.evidence(rows)
        return (multiply_roughly(self._single, rows.values.T) - single(self.rate.sum(1))[:, None]).T

    def evidence_at(self, rows: PoissonRows, index: Array) -> Array:
        """(n, M) evidence for components index (n, M)."""
        if rows.missing is not None:
            return pick_sparse(self.evidence(rows), index)
        return (
            evaluate_sparse(self.log_rate, rows.values.T, index)
            - self.rate.sum(1)[index]
            + rows.base[:, None]
        )

    def collect(self, rows: PoissonRows, shares: Shares, out: dict[str, Array]) -> None:
        """Add events by column, rows, the constants of the rows, and missing entries."""
        _collect(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>."""
        spent = (self.rate * (counts["rows"][:, None] - counts["missing"])).sum()
        return float((self.log_rate * counts["events"]).sum() - spent + counts["base"].sum())


@dataclass(frozen=True)
class NegativeBinomialScores(BaseScores):
    """Posterior predictive: shape, rate (K, D)."""

    shape: Array
    rate: Array

    def evidence(self, rows: PoissonRows) -> Array:
        """(n, K) log negative binomial probability."""
        out = np.empty((len(self.rate), len(rows.values))).T
        poisson_predictive(rows.values, self.shape, self.rate, out)
        out += rows.base[:, None]
        # a missing entry was read as 0 events, of log probability -shape log(1 + 1 / rate)
        if rows.missing is not None:
            out += ((self.shape * np.log1p(1.0 / self.rate)) @ rows.missing.T).T
        return out

    def collect(self, rows: PoissonRows, shares: Shares, out: dict[str, Array]) -> None:
        """Add events by column, rows, the constants of the rows, and missing entries."""
        _collect(rows, shares, out)

    def pair(self, counts: Counts) -> float:
        """NaN: scores are not linear in the counts, and rules that use them have no bound."""
        return float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(BaseFamily):
    """Columns of counts, independent given the component, Gamma(shape, rate) prior on each rate.

    Parameters
    ----------
    rate : how many rows the prior is worth. Default 1.
    shape : prior events, a number or (D,); the prior mean is shape / rate. Default: the columns'
        means times `rate`.
    """

    rate: float = 1.0
    shape: Any = None
    draws = True
    learned = ("rate", "shape")
    missing = "exact"
    measure = "probabilities"

    def resolve(self, scale: Scale) -> Poisson:
        """Shape = rate * column mean; a column without events counts as half an event per row."""
        require_prior_count(rate=self.rate)
        mean = np.where(scale.mean > 0, scale.mean, 0.5)
        shape = prior_vector("shape", self.shape, self.rate * mean)
        for value in (shape.min(), shape.max()):
            require_prior_count(shape=float(value))
        return replace(self, shape=shape)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Counts must be whole numbers, not negative; NaN is missing."""
        check_counts(rows, first)
        values = np.asarray(rows)
        bad = (values != np.floor(values)) & (values == values)
        if bad.any():
            at, column = np.argwhere(bad)[0]
            raise ValueError(
                f"row {first + at}, column {column} is {values[at, column]}; Poisson "
                "counts are whole numbers"
            )

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return len(self.shape)

    def fields(self, axis: str) -> dict[str, Field]:
        """Events (K, D), rows (K,), base (K,): minus the sum of log x!, missing (K, D) entries."""
        base = Field((axis,), nonnegative=False)
        return {
            "events": Field((axis, None)),
            "rows": Field((axis,)),
            "base": base,
            "missing": Field((axis, None)),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        flat, table = np.zeros(n_components), np.zeros((n_components, len(self.shape)))
        return {"events": table, "rows": flat, "base": flat.copy(), "missing": table.copy()}

    def width(self) -> int:
        """Number of columns."""
        return len(self.shape)

    def prepare(self, rows: Any) -> PoissonRows:
        """Counts as floats, with their constants and the places of missing entries, if any."""
        values = np.ascontiguousarray(rows, dtype=float)
        missing = find_missing(values)
        if missing is None:
            return PoissonRows(values, -log_factorial_rows(values))
        values = np.where(missing, 0.0, values)
        return PoissonRows(values, -log_factorial_rows(values), missing.astype(float))

    # ------------------------------------------------------------------------------------ sweeps

    sweeps = True

    def live(self, counts: Counts) -> LiveEvents:
        """Counts, copied, for a sweep."""
        events, missing = (np.array(counts[n].T, order="C") for n in ("events", "missing"))
        rows, base = np.array(counts["rows"]), np.array(counts["base"])
        total, shape = events.sum(0) + self.shape.sum(), np.asarray(self.shape, dtype=float)
        is_partial = np.array([float(missing.any())])
        return LiveEvents(events, missing, rows, base, total, is_partial, shape, float(self.rate))

    def live_rows(self, rows: Any) -> EventRows:
        """Counts as floats, NaN where missing, with their constants."""
        return EventRows(np.ascontiguousarray(rows, dtype=float), self.prepare(rows).base)

    def settle(self, live: LiveEvents, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        events, missing = (np.ascontiguousarray(table.T) for table in (live.events, live.missing))
        return {"events": events, "rows": live.rows, "base": live.base, "missing": missing}

    # ------------------------------------------------------------------------------------ posterior

    def _posterior(self, counts: Counts) -> tuple[Array, Array]:
        """Shape (K, D); rate (K, D), or (K, 1) if nothing is missing."""
        return self.shape + counts["events"], self.rate + column_counts(
            counts["rows"], counts["missing"]
        )

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) Gamma log-partition differences, summed over columns, plus the rows' constants."""
        events, (_, b) = counts["events"], self._posterior(counts)
        rows = column_counts(counts["rows"], counts["missing"])
        rise = log_gamma_rise(self.shape, events) - events * np.log(b)
        return (rise - self.shape * np.log1p(rows / self.rate)).sum(1) + counts["base"]

    def mean_log(self, counts: Counts) -> RateScores:
        """Scores from E[log rate] and E[rate]."""
        a, b = self._posterior(counts)
        return RateScores(digamma(a) - np.log(b), a / b)

    def log_mean(self, counts: Counts) -> NegativeBinomialScores:
        """Negative binomial predictive."""
        a, b = self._posterior(counts)
        return NegativeBinomialScores(a, np.ascontiguousarray(np.broadcast_to(b, a.shape)))

    def mode(self, counts: Counts) -> RateScores:
        """The mode in natural coordinates (log rate) is shape / rate."""
        a, b = self._posterior(counts)
        rate = a / b
        return RateScores(np.log(rate), rate)

    def draw(self, counts: Counts, rng: np.random.Generator) -> RateScores:
        """Log likelihood at rates drawn from the posterior."""
        a, b = self._posterior(counts)
        log_rate = log_gamma_draws(a, rng) - np.log(b)
        return RateScores(log_rate, np.exp(log_rate))

    def log_mode(self, counts: Counts) -> Array:
        """(K,) a log(a / b) - a at the mode, plus the rows' constants."""
        a, b = self._posterior(counts)
        return (a * (np.log(a) - np.log(b)) - a).sum(1) + counts["base"]

    def learn(self, counts: Counts) -> Poisson:
        """Learn `shape`, column by column, then `rate` at the same prior means.

        One component alone says nothing about `rate`.
        """
        a, b = self._posterior(counts)
        events, log_rate = a - self.shape, np.log(b).reshape(len(b), -1) - np.log(self.rate)
        value = lambda shape: (log_gamma_rise(shape, events) - shape * log_rate).sum(0)
        shape = learning.climb(value, self.shape, 1e-6, np.inf)
        better = learning.keep_better(self, replace(self, shape=shape), counts)
        if learning.occupied(b - self.rate) < 2:
            return better
        mean = better.shape / self.rate
        return learning.learn_number(
            better, counts, lambda rate: replace(self, shape=rate * mean, rate=rate), self.rate
        )

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Rate (K, D)."""
        a, b = self._posterior(counts)
        return {"rate": a / b}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL between Poissons, summed over columns."""
        a, b = first["rate"], second["rate"]
        return (
            (a * np.log(a)).sum(1)[:, None]
            - a @ np.log(b).T
            - a.sum(1)[:, None]
            + b.sum(1)[None, :]
        )

    def divergence(self, rows: PoissonRows, index: int) -> Array:
        """(n,) KL of smoothed rows; a missing entry is at the prior mean."""
        seen = 1.0 if rows.missing is None else 1.0 - rows.missing
        mean = (rows.values + self.shape) / (seen + self.rate)
        there = mean[index]
        return np.maximum((mean * (np.log(mean) - np.log(there)) - mean + there).sum(1), 0.0)

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One row of counts for each label, from the negative binomial predictive."""
        a, b = self._posterior(counts)
        return rng.poisson(rng.gamma(a[labels]) / b[labels])

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Array:
        """Missing entries replaced by the components' rates."""
        return fill_missing(rows, shares @ self.smoothed_mean(counts)["rate"])

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Rate (K, D): posterior means."""
        return {"rate": np.array(self.smoothed_mean(counts)["rate"])}
