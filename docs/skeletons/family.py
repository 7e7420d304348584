"""A family to copy: columns of waiting times, exponential, with a Gamma prior on each rate.

It works as it stands. K components, D columns. CONTRIBUTING.md says where a copy goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.data import Scale
from stickbreak.estimators import register_part
from stickbreak.families.base import BaseFamily, BaseScores, require_positive
from stickbreak.families.prior_scales import prior_vector
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import Field, Shares


class WaitingScores(BaseScores):
    """Statistics of rows, which are the same under every rule."""

    def collect(self, rows: Array, shares: Shares, out: Out) -> None:
        out["time"] += shares.T @ rows
        out["rows"] += shares.sum(0)


@dataclass(frozen=True)
class RateScores(WaitingScores):
    """Evidence that is linear in the statistics. log_rate, rate (K, D)."""

    log_rate: Array
    rate: Array

    def evidence(self, rows: Array) -> Array:
        return (self.log_rate.sum(1)[:, None] - self.rate @ rows.T).T

    def pair(self, counts: Counts) -> float:
        return float(self.log_rate.sum(1) @ counts["rows"] - (self.rate * counts["time"]).sum())


@dataclass(frozen=True)
class LomaxScores(WaitingScores):
    """Posterior predictive. shape (K,), rate (K, D)."""

    shape: Array
    rate: Array

    def evidence(self, rows: Array) -> Array:
        top = (np.log(self.shape)[:, None] + self.shape[:, None] * np.log(self.rate)).sum(1)
        tail = np.log(self.rate[:, None, :] + rows[None]).sum(2)
        return (top[:, None] - (self.shape + 1.0)[:, None] * tail).T

    def pair(self, counts: Counts) -> float:
        return float("nan")  # not linear in the statistics


@register_part  # so that files know it; families of the library are known anyway
@dataclass(frozen=True, eq=False, repr=False)
class Exponential(BaseFamily):
    """Columns of positive numbers, exponential given the component.

    Parameters
    ----------
    shape : of the Gamma prior on each rate, above 1. The prior is worth shape - 1 rows.
    rate : prior time, a number or (D,). A row is expected to be rate / (shape - 1). Default: so
        that this is the mean of the column.
    """

    shape: float = 2.0
    rate: Any = None

    @property
    def n_columns(self) -> int:
        return len(self.rate)

    def resolve(self, scale: Scale) -> Exponential:
        require_positive(**{"shape - 1": self.shape - 1.0})
        rate = prior_vector("rate", self.rate, (self.shape - 1.0) * scale.mean)
        require_positive(rate=float(rate.min()))
        return replace(self, rate=rate)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        bad = np.argwhere(np.asarray(rows) < 0)
        if len(bad):
            at, column = bad[0]
            raise ValueError(
                f"row {first + at}, column {column} is {rows[at, column]}; waiting times must not "
                "be negative"
            )

    def prepare(self, rows: Any) -> Array:
        return np.ascontiguousarray(rows, dtype=float)

    def fields(self, axis: str) -> dict[str, Field]:
        return {"time": Field((axis, None)), "rows": Field((axis,))}

    def zeros(self, n_components: int) -> Out:
        return {"time": np.zeros((n_components, self.n_columns)), "rows": np.zeros(n_components)}

    # ------------------------------------------------------------------------------ posterior

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
        rate = (a - 1.0)[:, None] / b  # the largest density over minus the rate, not over its log
        return RateScores(np.log(rate), rate)

    def log_mode(self, counts: Counts) -> Array:
        a, b = self._posterior(counts)
        worth = (a - 1.0)[:, None]
        return (worth * np.log(worth / b) - worth).sum(1)

    # ------------------------------------------------------------------------------ starts

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        a, b = self._posterior(counts)
        return {"mean": b / (a - 1.0)[:, None]}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        ratio = first["mean"][:, None] / second["mean"][None]
        return (ratio - 1.0 - np.log(ratio)).sum(-1)

    def divergence(self, rows: Array, index: int) -> Array:
        mean = (rows + self.rate) / self.shape  # `smoothed_mean` of each row alone
        return self.bregman({"mean": mean}, {"mean": mean[index : index + 1]})[:, 0]

    # ------------------------------------------------------------------------------ for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        a, b = self._posterior(counts)
        rate = rng.gamma(np.broadcast_to(a[labels][:, None], b[labels].shape)) / b[labels]
        return rng.exponential(1.0 / rate)

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Mean waiting times (K, D)."""
        return {"mean": np.array(self.smoothed_mean(counts)["mean"])}
