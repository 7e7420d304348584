"""Angles: von Mises with a known concentration, and a von Mises prior on each mean direction.

Prepared rows are (n, 2 D): the cosines, then the sines. The posterior of a direction is von Mises
again: its resultant is the prior's plus the concentration times the sum of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ive

from stickbreak.data import Scale
from stickbreak.estimators import register_part
from stickbreak.families.base import LOG_2PI, BaseFamily, BaseScores, require_positive
from stickbreak.families.prior_scales import prior_vector
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import Field, Shares


def log_i0(x: Any) -> Any:
    return np.log(ive(0, x)) + x


def on_circle(angle: Array) -> Array:
    """(..., 2 D) cosines and sines of angles (..., D)."""
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)


def polar(resultant: Array) -> tuple[Array, Array]:
    """Lengths and angles (..., D) of resultants (..., 2 D)."""
    x, y = np.split(resultant, 2, axis=-1)
    return np.hypot(x, y), np.arctan2(y, x)


class AngleScores(BaseScores):
    """Statistics of rows, which are the same under every rule."""

    def collect(self, rows: Array, shares: Shares, out: Out) -> None:
        out["resultant"] += shares.T @ rows
        out["rows"] += shares.sum(0)


@dataclass(frozen=True)
class DirectionScores(AngleScores):
    """weight (K, 2 D) times the row, less the log normalizer of a row."""

    weight: Array
    log_normalizer: float

    def evidence(self, rows: Array) -> Array:
        return (self.weight @ rows.T - self.log_normalizer).T

    def pair(self, counts: Counts) -> float:
        linear = (self.weight * counts["resultant"]).sum()
        return float(linear - self.log_normalizer * counts["rows"].sum())


@dataclass(frozen=True)
class PredictiveScores(AngleScores):
    """Directions integrated out. resultant (K, 2 D): of their posteriors."""

    resultant: Array
    concentration: float
    log_normalizer: float

    def evidence(self, rows: Array) -> Array:
        after, _ = polar(self.resultant[:, None] + self.concentration * rows[None])
        before, _ = polar(self.resultant)
        rise = log_i0(after).sum(-1) - log_i0(before).sum(-1)[:, None]
        return (rise - self.log_normalizer).T

    def pair(self, counts: Counts) -> float:
        return float("nan")


@register_part
@dataclass(frozen=True, eq=False, repr=False)
class VonMises(BaseFamily):
    """Columns of angles in radians.

    Parameters
    ----------
    concentration : of the angles around the direction of their component.
    strength : concentration of the prior on directions.
    direction : where that prior points to, a number or (D,). Default 0.
    """

    draws = True

    concentration: float = 2.0
    strength: float = 0.1
    direction: Any = None

    @property
    def n_columns(self) -> int:
        return len(self.direction)

    def resolve(self, scale: Scale) -> VonMises:
        require_positive(concentration=self.concentration, strength=self.strength)
        direction = prior_vector("direction", self.direction, np.zeros(scale.n_features))
        return replace(self, direction=direction)

    def prepare(self, rows: Any) -> Array:
        return np.ascontiguousarray(on_circle(np.asarray(rows, dtype=float)))

    def width(self) -> int:
        return 2 * self.n_columns

    def fields(self, axis: str) -> dict[str, Field]:
        return {"resultant": Field((axis, None), nonnegative=False), "rows": Field((axis,))}

    def zeros(self, n_components: int) -> Out:
        K = n_components
        return {"resultant": np.zeros((K, 2 * self.n_columns)), "rows": np.zeros(K)}

    # ------------------------------------------------------------------------------ posterior

    def _posterior(self, sums: Array) -> Array:
        """Resultants of posteriors after these sums of rows."""
        return self.strength * on_circle(self.direction) + self.concentration * sums

    @property
    def _log_normalizer(self) -> float:
        return self.n_columns * float(LOG_2PI + log_i0(self.concentration))

    def log_marginal(self, counts: Counts) -> Array:
        length, _ = polar(self._posterior(counts["resultant"]))
        rise = log_i0(length).sum(1) - self.n_columns * log_i0(self.strength)
        return rise - counts["rows"] * self._log_normalizer

    def log_mode(self, counts: Counts) -> Array:
        length, _ = polar(self._posterior(counts["resultant"]))
        return length.sum(1) - counts["rows"] * self._log_normalizer

    def mean_log(self, counts: Counts) -> DirectionScores:
        length, angle = polar(self._posterior(counts["resultant"]))
        mean = np.tile(ive(1, length) / ive(0, length), 2) * on_circle(angle)
        return DirectionScores(self.concentration * mean, self._log_normalizer)

    def log_mean(self, counts: Counts) -> PredictiveScores:
        resultant = self._posterior(counts["resultant"])
        return PredictiveScores(resultant, self.concentration, self._log_normalizer)

    def mode(self, counts: Counts) -> DirectionScores:
        return self._at(polar(self._posterior(counts["resultant"]))[1])

    def draw(self, counts: Counts, rng: np.random.Generator) -> DirectionScores:
        length, angle = polar(self._posterior(counts["resultant"]))
        return self._at(rng.vonmises(angle, length))

    def _at(self, angle: Array) -> DirectionScores:
        return DirectionScores(self.concentration * on_circle(angle), self._log_normalizer)

    # ------------------------------------------------------------------------------ starts

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        return {"direction": polar(self._posterior(counts["resultant"]))[1]}

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        apart = first["direction"][:, None] - second["direction"][None]
        mean = self.concentration * ive(1, self.concentration) / ive(0, self.concentration)
        return mean * (1.0 - np.cos(apart)).sum(-1)

    def divergence(self, rows: Array, index: int) -> Array:
        angle = polar(self._posterior(rows))[1]
        return self.bregman({"direction": angle}, {"direction": angle[index : index + 1]})[:, 0]

    # ------------------------------------------------------------------------------ for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        length, angle = polar(self._posterior(counts["resultant"]))
        return rng.vonmises(rng.vonmises(angle[labels], length[labels]), self.concentration)

    def expected_rows(self, counts: Counts, shares: Array) -> Array:
        return polar(shares @ on_circle(self.describe(counts)["direction"]))[1]

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Directions (K, D), in radians from -pi to pi."""
        return {"direction": polar(self._posterior(counts["resultant"]))[1]}
