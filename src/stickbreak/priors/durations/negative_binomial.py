"""Durations that pass through r stages: negative binomial, and geometric for one stage.

    p(d | r, p) = C(d + r - 2, d - 1) p**(d - 1) (1 - p)**r,   p ~ Beta(stay, leave),
    r uniform on 1, ..., r_max

One plus the number of rows at which a segment stayed before it advanced for the r-th time; the mean
is 1 + r p / (1 - p). The posterior q(r) q(p | r) is exact given the lengths:

    q(p | r) = Beta(stay + A, leave + r n),   A = sum (d - 1) over n segments,
    log q(r) = sum log C(d + r - 2, d - 1) + log B(stay + A, leave + r n) + const.

In print [J14, 5.3.18] q(r) counts the lengths twice and lacks the entropy of q(p | r).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln, logsumexp, xlogy

from stickbreak.parameters import require_prior_count, require_whole
from stickbreak.protocols import Array
from stickbreak.stats import log_gamma_draws

from .base import BaseDuration, column_of

__all__ = ["Geometric", "NegativeBinomial", "StageCounts", "StagedDuration", "log_ways"]

MOST_STAGES = 1000  # more is a matter of rows per segment, and a chain of so many sub-states


class StageCounts(NamedTuple):
    """What lengths tell of r and p: stays (K,), segments (K,), log_ways (K, R).

    stays : sum of length - 1; log_ways : sum of log C(d + r - 2, d - 1), for each possible r
    """

    stays: Array
    segments: Array
    log_ways: Array


@lru_cache(maxsize=8)
def log_ways(shapes: tuple[int, ...], max_length: int) -> Array:
    """(R, D) log C(d + r - 2, d - 1): ways to spread d - 1 stays over r stages."""
    d, r = np.arange(1.0, max_length + 1), np.array(shapes, dtype=float)[:, None]
    table = gammaln(d + r - 1.0) - gammaln(d) - gammaln(r)
    table.flags.writeable = False  # cached, so all callers share it
    return np.asarray(table)


class StagedDuration(BaseDuration):
    """A law of segments that pass through stages, each as long as it stays."""

    is_staged = True

    stay: float
    leave: float

    @property
    def shapes(self) -> tuple[int, ...]:
        """The possible numbers of stages, equally probable at first."""
        raise NotImplementedError

    @property
    def learns_shape(self) -> bool:
        """Whether there is more than one."""
        return len(self.shapes) > 1

    def counts_of(self, histogram: Array) -> StageCounts:
        """The statistics of lengths (K, D)."""
        lengths, n = column_of(histogram)
        ways = histogram @ log_ways(self.shapes, histogram.shape[1]).T
        return StageCounts(histogram @ (lengths - 1.0), n, ways)

    # ------------------------------------------------------------------------------ q(r) q(p | r)

    def betas(self, counts: StageCounts) -> tuple[Array, Array]:
        """(K, R) parameters of q(p | r)."""
        r = np.array(self.shapes, dtype=float)
        return (
            (self.stay + counts.stays)[:, None] + np.zeros(len(r)),
            self.leave + np.outer(counts.segments, r),
        )

    def log_weights(self, counts: StageCounts) -> Array:
        """(K, R) log of p(r) p(lengths | r): unnormalized q(r)."""
        rise = betaln(*self.betas(counts)) - betaln(self.stay, self.leave)
        return np.asarray(counts.log_ways + rise - np.log(len(self.shapes)))

    def shares_of_shapes(self, counts: StageCounts) -> Array:
        """(K, R) q(r)."""
        weights = self.log_weights(counts)
        return np.exp(weights - logsumexp(weights, axis=1, keepdims=True))

    def mode_weights(self, counts: StageCounts) -> Array:
        """(K, R) log joint at the mode of p for every r, up to a constant."""
        a, b = self.betas(counts)
        best = xlogy(a, a / (a + b)) + xlogy(b, b / (a + b))
        return np.asarray(counts.log_ways + best - np.log(len(self.shapes)))

    # ------------------------------------------------------------------------------ laws

    def log_marginal(self, histogram: Array) -> Array:
        """Log of the sum over r of p(r) p(lengths | r)."""
        return np.asarray(logsumexp(self.log_weights(self.counts_of(histogram)), axis=1))

    def log_mode(self, histogram: Array) -> Array:
        """The best r, and p at its mode in natural coordinates."""
        return np.asarray(self.mode_weights(self.counts_of(histogram)).max(1))

    def mean_log(self, histogram: Array) -> Array:
        """Expectation over r and p."""
        counts = self.counts_of(histogram)
        a, b = self.betas(counts)
        return self._mixed(
            self.shares_of_shapes(counts), digamma(a) - digamma(a + b), digamma(b) - digamma(a + b),
            histogram.shape[1],
        )  # fmt: skip

    def mode(self, histogram: Array) -> Array:
        """At the best r and p; of equally good r, the smallest."""
        counts = self.counts_of(histogram)
        a, b = self.betas(counts)
        chosen = np.eye(len(self.shapes))[self.mode_weights(counts).argmax(1)]
        return self._mixed(chosen, np.log(a / (a + b)), np.log(b / (a + b)), histogram.shape[1])

    def log_mean(self, histogram: Array) -> Array:
        """Beta negative binomials, averaged over r."""
        return self.log_predictive(self.counts_of(histogram), histogram.shape[1])

    def log_predictive(self, counts: StageCounts, max_length: int) -> Array:
        """(K, D) as `log_mean`, for the statistics of the lengths."""
        a, b = (each[:, :, None] for each in self.betas(counts))
        r = np.array(self.shapes, dtype=float)[:, None]
        ways = log_ways(self.shapes, max_length)
        each = ways + betaln(a + np.arange(max_length), b + r) - betaln(a, b)
        weights = self.log_weights(counts)
        shares = weights - logsumexp(weights, axis=1, keepdims=True)
        return np.asarray(logsumexp(each + shares[:, :, None], axis=1))

    def draw(self, histogram: Array, *, rng: np.random.Generator) -> Array:
        """At r and p drawn from their posterior."""
        at, log_stay, log_leave = self.draw_stages(self.counts_of(histogram), rng)
        one = np.ones((1, len(self.shapes)))
        return self._mixed(
            np.eye(len(self.shapes))[at], log_stay[:, None] * one, log_leave[:, None] * one,
            histogram.shape[1],
        )  # fmt: skip

    def draw_stages(
        self, counts: StageCounts, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Positions (K,) in `shapes`, log p (K,) and log (1 - p) (K,), drawn."""
        ends = self.shares_of_shapes(counts).cumsum(1)
        at = (ends < rng.random((len(ends), 1)) * ends[:, -1:]).sum(1)
        own = np.arange(len(at)), at
        stay, leave = (log_gamma_draws(each[own], rng) for each in self.betas(counts))
        total = np.logaddexp(stay, leave)
        return at, stay - total, leave - total

    def _mixed(self, shares: Array, log_stay: Array, log_leave: Array, D: int) -> Array:
        """(K, D) mean over r, with shares (K, R), of log C + (d - 1) log p + r log (1 - p)."""
        r = np.array(self.shapes, dtype=float)
        per_stay, per_segment = (shares * log_stay).sum(1), (shares * log_leave) @ r
        return np.asarray(
            shares @ log_ways(self.shapes, D)
            + np.outer(per_stay, np.arange(D))
            + per_segment[:, None]
        )

    def describe(self, histogram: Array) -> dict[str, Array]:
        """Posterior means of r and of p."""
        return self.describe_counts(self.counts_of(histogram))

    def describe_counts(self, counts: StageCounts) -> dict[str, Array]:
        """As `describe`, for the statistics of the lengths."""
        shares, (a, b) = self.shares_of_shapes(counts), self.betas(counts)
        return {
            "duration_stages": shares @ np.array(self.shapes, dtype=float),
            "duration_stay": (shares * (a / (a + b))).sum(1),
        }


@dataclass(frozen=True, repr=False)
class NegativeBinomial(StagedDuration):
    """Segments of r stages, each of which lasts a geometric number of rows.

    The mean and the spread of lengths are learned apart: many stages make them regular, one makes
    them geometric, as in a hidden Markov model. The time of a fit can be linear in the rows,
    whatever the lengths: see `duration_inference` of `HSMM`.

    Parameters
    ----------
    r : the number of stages; None to learn it for every state.
    r_max : the largest r that is considered, if it is learned; all are equally probable at first.
    stay, leave : prior counts of staying in a stage for another row, and of leaving it.
    """

    r: int | None = None
    r_max: int = 10
    stay: float = 1.0
    leave: float = 1.0

    def __post_init__(self) -> None:
        require_prior_count(stay=self.stay, leave=self.leave)
        require_whole(r_max=self.r_max)
        if self.r is not None:
            require_whole(r=self.r)
        if max(self.r or 1, self.r_max) > MOST_STAGES:
            raise ValueError(
                f"r and r_max must be at most {MOST_STAGES}; got r={self.r!r}, r_max={self.r_max!r}"
            )

    @property
    def shapes(self) -> tuple[int, ...]:
        """The given r, or 1 to r_max."""
        return tuple(range(1, int(self.r_max) + 1)) if self.r is None else (int(self.r),)


@dataclass(frozen=True, repr=False)
class Geometric(StagedDuration):
    """Segments that end after each row with the same probability, as in a hidden Markov model.

    Parameters
    ----------
    stay, leave : prior counts of staying for another row, and of leaving.
    """

    stay: float = 1.0
    leave: float = 1.0

    def __post_init__(self) -> None:
        require_prior_count(stay=self.stay, leave=self.leave)

    @property
    def shapes(self) -> tuple[int, ...]:
        """One stage."""
        return (1,)
