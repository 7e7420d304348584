"""A family to copy: columns of waiting times, each exponential with a Gamma prior on its rate. It
works as it stands.

Copy it to src/stickbreak/families/, change the mathematics, export it in families/__init__.py, name
it in families/names.py, and add a record to FAMILIES in tests/registers.py: that runs every law on
it, as `stickbreak.checks.check_family` does alone. K components, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.data import Scale
from stickbreak.families.base import BaseFamily, BaseScores, prior_vector, require_positive
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field


class _Collecting(BaseScores):
    """Statistics of rows, the same under every rule. `out` is the lane's own: add to it in
    place.
    """

    def collect(self, rows: Array, shares: Array, out: dict[str, Array]) -> None:
        out["time"] += shares.T @ rows
        out["rows"] += shares.sum(0)


@dataclass(frozen=True)
class RateScores(_Collecting):
    """Evidence that is linear in the statistics. log_rate, rate (K, D)."""

    log_rate: Array
    rate: Array

    def evidence(self, rows: Array) -> Array:
        # the transpose of a C-contiguous (K, n)
        return (self.log_rate.sum(1)[:, None] - self.rate @ rows.T).T

    def pair(self, counts: Counts) -> float:
        return float(
            (self.log_rate.sum(1) * counts["rows"]).sum() - (self.rate * counts["time"]).sum()
        )


@dataclass(frozen=True)
class LomaxScores(_Collecting):
    """Posterior predictive: not linear in the statistics, so it has no pairing. shape (K,), rate
    (K, D).
    """

    shape: Array
    rate: Array

    def evidence(self, rows: Array) -> Array:
        top = (np.log(self.shape)[:, None] + self.shape[:, None] * np.log(self.rate)).sum(1)
        tail = np.log(self.rate[:, None, :] + rows[None]).sum(2)
        return (top[:, None] - (self.shape + 1.0)[:, None] * tail).T

    def pair(self, counts: Counts) -> float:
        return float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(BaseFamily):
    """Columns of positive numbers, exponential given the component, Gamma(shape, rate) prior on
    each rate.

    Parameters
    ----------
    shape : above 1; shape - 1 is how many rows the prior is worth. Default 2.
    rate : prior time, a number or (D,); the prior mean of a row is rate / (shape - 1). Default: the
        columns' means.
    """

    shape: float = 2.0
    rate: Any = None
    # Rows with NaN are refused. A family that can leave missing entries out says so: missing =
    # "exact", counts the rows
    # that have each column, and answers for them in prepare, collect, evidence, pair and impute
    # (see families/poisson.py).

    def resolve(self, scale: Scale) -> Exponential:
        """Open priors from the data's scale; write the rule here and on the mathematics page."""
        require_positive(**{"shape - 1": self.shape - 1.0})
        rate = prior_vector("rate", self.rate, (self.shape - 1.0) * scale.mean)
        require_positive(rate=float(rate.min()))
        return replace(self, rate=rate)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """One clear error for rows that cannot be read: name row, column and value."""
        if (np.asarray(rows) < 0).any():
            at, column = np.argwhere(np.asarray(rows) < 0)[0]
            raise ValueError(
                f"row {first + at}, column {column} is {rows[at, column]}; waiting "
                "times must not be negative"
            )

    def fields(self, axis: str) -> dict[str, Field]:
        # axes, sign, what merge and insert mean
        return {"time": Field((axis, None)), "rows": Field((axis,))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        return {"time": np.zeros((n_components, len(self.rate))), "rows": np.zeros(n_components)}

    def prepare(self, rows: Any) -> Array:
        return np.ascontiguousarray(rows, dtype=float)

    def width(self) -> int:
        return len(self.rate)

    # ---- the posterior, and the three laws: d log_marginal = mean_log, its difference = log_mean,

    def _posterior(self, counts: Counts) -> tuple[Array, Array]:
        return self.shape + counts["rows"], self.rate + counts["time"]

    def log_marginal(self, counts: Counts) -> Array:
        a, b = self._posterior(counts)
        prior = gammaln(self.shape) - self.shape * np.log(self.rate)
        return (gammaln(a)[:, None] - a[:, None] * np.log(b) - prior).sum(1)

    def mean_log(self, counts: Counts) -> RateScores:
        a, b = self._posterior(counts)
        return RateScores(digamma(a)[:, None] - np.log(b), a[:, None] / b)

    def log_mean(self, counts: Counts) -> LomaxScores:
        return LomaxScores(*self._posterior(counts))

    def mode(self, counts: Counts) -> RateScores:
        a, b = self._posterior(counts)
        # in natural coordinates (minus the rate): (n + nu) / (S + tau)
        rate = (a - 1.0)[:, None] / b
        return RateScores(np.log(rate), rate)

    def log_mode(self, counts: Counts) -> Array:
        a, b = self._posterior(counts)
        worth = (a - 1.0)[:, None]
        return (worth * np.log(worth / b) - worth).sum(1)

    # ---- seeding: mean parameters (S + tau) / (n + nu) and the KL between members of the family

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        a, b = self._posterior(counts)
        return {"mean": b / (a - 1.0)[:, None]}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        ratio = first["mean"][:, None] / second["mean"][None]
        return (ratio - 1.0 - np.log(ratio)).sum(-1)

    def divergence(self, rows: Array, index: int) -> Array:
        # smoothed: strictly inside the mean space, so never infinite
        mean = (rows + self.rate) / self.shape
        return self.bregman({"mean": mean}, {"mean": mean[index : index + 1]})[:, 0]

    # ---- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        a, b = self._posterior(counts)
        rate = rng.gamma(np.broadcast_to(a[labels][:, None], b[labels].shape)) / b[labels]
        return rng.exponential(1.0 / rate)

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Mean waiting time (K, D), posterior expectation, in the user's units."""
        return {"mean": np.array(self.smoothed_mean(counts)["mean"])}
