"""Binary columns, each with a Beta prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import digamma

from stickbreak.data import Scale
from stickbreak.kernels.live_tables import LiveBinary
from stickbreak.protocols import Array, Counts
from stickbreak.stats import (
    Field,
    Shares,
    log_gamma_draws,
    log_gamma_rise,
    log_mode_beta,
    weigh,
)

from . import learning
from .base import BaseFamily, BaseScores, require_prior_count
from .missing import Incomplete, features_of, fill_missing, find_missing
from .single_precision import evaluate_sparse, multiply_roughly, pick_sparse, single

__all__ = ["Bernoulli"]

# Prior counts. Zeros are rows less ones, which leaves rounding errors; their log probability may
# be minus one over the prior count.
LEAST = 1e-6


@dataclass(frozen=True)
class BinaryScores(BaseScores):
    """log_on, log_off (K, D): log potentials of a one and of a zero. Evidence is linear in rows."""

    log_on: Array
    log_off: Array

    def evidence(self, rows: Array | Incomplete) -> Array:
        """(n, K) from columns (D, n). A missing entry is read as 0; its term is removed again."""
        columns, missing = features_of(rows)
        out = (self.log_on - self.log_off) @ columns + self.log_off.sum(1)[:, None]
        if missing is not None:
            out -= self.log_off @ missing
        return out.T

    @cached_property
    def _slope(self) -> Array:
        return self.log_on - self.log_off

    @cached_property
    def _single(self) -> Array:
        return np.asarray(single(self._slope))

    def rough(self, rows: Array | Incomplete) -> Array:
        """(n, K) evidence in single precision; exact for blocks with missing entries."""
        if isinstance(rows, Incomplete):
            return self.evidence(rows)
        return (multiply_roughly(self._single, rows) + single(self.log_off.sum(1))[:, None]).T

    def evidence_at(self, rows: Array | Incomplete, index: Array) -> Array:
        """(n, M) evidence for components index (n, M)."""
        if isinstance(rows, Incomplete):
            return pick_sparse(self.evidence(rows), index)
        return evaluate_sparse(self._slope, rows, index) + self.log_off.sum(1)[index]

    def collect(self, rows: Array | Incomplete, shares: Shares, out: dict[str, Array]) -> None:
        """Add ones by column, rows, and missing entries."""
        columns, missing = features_of(rows)
        weigh(shares, columns.T, out["ones"])
        out["rows"] += shares.sum(0)
        if missing is not None:
            weigh(shares, missing.T, out["missing"])

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>."""
        zeros = counts["rows"][:, None] - counts["missing"] - counts["ones"]
        return float((self.log_on * counts["ones"]).sum() + (self.log_off * zeros).sum())


@dataclass(frozen=True, eq=False, repr=False)
class Bernoulli(BaseFamily):
    """Binary columns (0 or 1), independent given the component, Beta(on, off) prior on each.

    Parameters
    ----------
    on, off : prior counts of ones and of zeros. Default 0.5 each (Jeffreys' choice).
    n_features : number of columns; set from the data.
    """

    on: float = 0.5
    off: float = 0.5
    measure = "probabilities"
    n_features: int | None = None
    max_categories = 2
    draws = True
    learned = ("on", "off")
    missing = "exact"

    def resolve(self, scale: Scale) -> Bernoulli:
        """Keep the prior counts; set n_features."""
        require_prior_count(LEAST, on=self.on, off=self.off)
        return replace(self, n_features=scale.n_features)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Values must be 0 or 1; NaN is missing."""
        values = np.asarray(rows)
        bad = (values != 0) & (values != 1) & (values == values)
        if bad.any():
            at, column = np.argwhere(bad)[0]
            raise ValueError(
                f"row {first + at}, column {column} is {values[at, column]}; "
                "Bernoulli columns hold 0 and 1"
            )

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return int(self.n_features or 0)

    def fields(self, axis: str) -> dict[str, Field]:
        """Ones (K, D), rows (K,), missing entries (K, D)."""
        return {"ones": Field((axis, None)), "rows": Field((axis,)), "missing": Field((axis, None))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        assert self.n_features is not None
        table = np.zeros((n_components, self.n_features))
        return {"ones": table, "rows": np.zeros(n_components), "missing": table.copy()}

    def width(self) -> int:
        """Number of columns."""
        assert self.n_features is not None
        return self.n_features

    def prepare(self, rows: Any) -> Array | Incomplete:
        """Columns (D, n) of rows (n, D) as floats, and the places of missing entries, if any."""
        columns = np.ascontiguousarray(np.asarray(rows, dtype=float).T)
        missing = find_missing(columns)
        return (
            columns
            if missing is None
            else Incomplete(np.where(missing, 0.0, columns), missing.astype(float))
        )

    def prepare_seeding(self, rows: Any) -> Array:
        """Columns (D, n) of rows (n, D) as floats; NaN stays, and differs from no value."""
        return np.ascontiguousarray(np.asarray(rows, dtype=float).T)

    # ------------------------------------------------------------------------------------ sweeps

    sweeps = True

    def live(self, counts: Counts) -> LiveBinary:
        """Counts, copied, for a sweep."""
        ones, zeros, missing = (
            np.array(table.T, order="C") for table in (*self._seen(counts), counts["missing"])
        )
        rows = np.array(counts["rows"])
        return LiveBinary(ones, zeros, missing, rows, float(self.on), float(self.off))

    def live_rows(self, rows: Any) -> Array:
        """Rows (n, D) as floats, NaN where missing."""
        return np.ascontiguousarray(rows, dtype=float)

    def settle(self, live: LiveBinary, n_components: int) -> dict[str, Array]:
        """Fields from live counts."""
        ones, missing = (np.ascontiguousarray(table.T) for table in (live.ones, live.missing))
        return {"ones": ones, "rows": live.rows, "missing": missing}

    # ------------------------------------------------------------------------------------ posterior

    def _seen(self, counts: Counts) -> tuple[Array, Array]:
        """Ones and zeros (K, D).

        Rounding of a subtraction may leave slightly more ones than rows, so zeros are clamped.
        """
        ones = counts["ones"]
        return ones, np.maximum(counts["rows"][:, None] - counts["missing"] - ones, 0.0)

    def _posterior(self, counts: Counts) -> tuple[Array, Array]:
        """Beta parameters (K, D)."""
        ones, zeros = self._seen(counts)
        return self.on + ones, self.off + zeros

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) Beta log-partition differences, summed over columns."""
        ones, zeros = self._seen(counts)
        rise = log_gamma_rise(self.on, ones) + log_gamma_rise(self.off, zeros)
        return np.asarray((rise - log_gamma_rise(self.on + self.off, ones + zeros)).sum(1))

    def mean_log(self, counts: Counts) -> BinaryScores:
        """Scores from E[log p] and E[log(1 - p)]."""
        a, b = self._posterior(counts)
        total = digamma(a + b)
        return BinaryScores(digamma(a) - total, digamma(b) - total)

    def log_mean(self, counts: Counts) -> BinaryScores:
        """Log predictive probabilities."""
        a, b = self._posterior(counts)
        total = np.log(a + b)
        return BinaryScores(np.log(a) - total, np.log(b) - total)

    def mode(self, counts: Counts) -> BinaryScores:
        """The mode in natural coordinates is the mean."""
        return self.log_mean(counts)

    def draw(self, counts: Counts, rng: np.random.Generator) -> BinaryScores:
        """Logs of p and 1 - p at probabilities drawn from the posterior."""
        on, off = (log_gamma_draws(x, rng) for x in self._posterior(counts))
        total = np.logaddexp(on, off)
        return BinaryScores(on - total, off - total)

    def log_mode(self, counts: Counts) -> Array:
        """(K,) log joint at the mode in natural coordinates."""
        return log_mode_beta(np.stack(self._posterior(counts), axis=-1)).sum(1)

    def learn(self, counts: Counts) -> Bernoulli:
        """Learn `on` and `off`: first their sum, then their odds."""
        worth, odds = self.on + self.off, self.on / self.off
        better = learning.learn_number(self, counts, lambda x: self._with_odds(x, odds), worth)
        worth = better.on + better.off
        return learning.learn_number(
            better, counts, lambda x: self._with_odds(worth, x), odds, 1e-3, 1e3
        )

    def _with_odds(self, worth: float, odds: float) -> Bernoulli:
        return replace(self, on=worth * odds / (1.0 + odds), off=worth / (1.0 + odds))

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Probability (K, D) of a one, and of a zero: one minus the other may round to nothing."""
        a, b = self._posterior(counts)
        return {"probability": a / (a + b), "of_zero": b / (a + b)}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) KL, summed over columns."""
        one, zero = (first[name] for name in ("probability", "of_zero"))
        entropy = (one * np.log(one) + zero * np.log(zero)).sum(1)
        cross = one @ np.log(second["probability"]).T + zero @ np.log(second["of_zero"]).T
        return np.asarray(entropy[:, None] - cross)

    def divergence(self, rows: Array, index: int) -> Array:
        """(n,) KL of smoothed rows: a constant for each column that differs, by direction.

        A missing entry adds nothing.
        """
        high, low = (
            (1.0 + self.on) / (1.0 + self.on + self.off),
            self.on / (1.0 + self.on + self.off),
        )
        of_zeros = np.log(self.off / (1.0 + self.off))  # log of (1 - high) / (1 - low)
        gap = np.log(high / low) - of_zeros
        up = high * gap + of_zeros  # KL(high || low)
        down = -low * gap - of_zeros  # KL(low || high)
        there = rows[:, index : index + 1]
        return ((rows > there) * up + (rows < there) * down).sum(0)

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One binary row for each label."""
        probability = self.smoothed_mean(counts)["probability"][labels]
        return (rng.random(probability.shape) < probability).astype(np.int64)

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Array:
        """Missing entries replaced by the probability of a one."""
        return fill_missing(rows, shares @ self.smoothed_mean(counts)["probability"])

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Probability (K, D) of a one: posterior means."""
        return {"probability": np.array(self.smoothed_mean(counts)["probability"])}
