"""What a prior counts of lengths: a histogram, or the statistics of stages.

The histogram serves every law, and needs the expected number of segments of every length. A law of
stages needs three sums only, which a chain with sub-states gives in time linear in the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, logsumexp

from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field

from .base import BaseDuration
from .negative_binomial import StageCounts, StagedDuration

__all__ = ["CountedLengths", "CountedStages"]

NEVER = 1e-8  # chance of leaving a state that cannot be left; less would be lost in rounding


@dataclass(frozen=True)
class CountedLengths:
    """duration (K, D): segments of every length 1, ..., D, any law.

    A segment that the end of its sequence cuts off is counted at the lengths that it may have had,
    each with its posterior probability.
    """

    law: BaseDuration
    max_length: int

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {"duration": Field((axis, None))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {"duration": np.zeros((n_components, self.max_length))}

    def segments(self, counts: Counts) -> Array:
        """(K,) segments of each state."""
        return np.asarray(counts["duration"].sum(1))

    def potentials(self, counts: Counts, rule: Rule) -> dict[str, Any]:
        """Duration (K, D): log weights of the lengths."""
        return {"duration": rule.pick(self.law)(counts["duration"])}

    def predictive(self, counts: Counts) -> dict[str, Any]:
        """Duration (K, D): log posterior predictive."""
        return {"duration": self.law.log_mean(counts["duration"])}

    def endless(self) -> dict[str, Any]:
        """The potentials of one state that is never left: all segments are as long as can be."""
        duration = np.full((1, self.max_length), -np.inf)
        duration[0, -1] = 0.0
        return {"duration": duration}

    def table(self, counts: Counts, max_length: int | None = None) -> Array:
        """(K, D) probabilities of the lengths 1, ..., D: the posterior predictive."""
        n = self.max_length if max_length is None or self.law.is_limited else max_length
        seen = counts["duration"]
        if n > seen.shape[1]:
            seen = np.pad(seen, ((0, 0), (0, n - seen.shape[1])))
        return np.exp(self.law.log_mean(seen))

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Posterior means of the law's parameters."""
        return self.law.describe(counts["duration"])

    def bound(self, counts: Counts) -> float:
        """Log-partitions of the posteriors minus those of the priors."""
        return float(self.law.log_marginal(counts["duration"]).sum())

    def log_marginal(self, counts: Counts) -> float:
        """The same."""
        return self.bound(counts)

    def log_mode(self, counts: Counts) -> float:
        """Largest log joint."""
        return float(self.law.log_mode(counts["duration"]).sum())


@dataclass(frozen=True)
class CountedStages:
    """stays (K,), segments (K,) and, if r is learned, log_ways (K, R): see `StageCounts`.

    Potentials are for one r in each state, the most probable one, whose sub-states a chain has:
    q(r) is a point. The bound is exact for it. Draws take r from its posterior.
    """

    law: StagedDuration

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        found = {"stays": Field((axis,)), "segments": Field((axis,))}
        return found | ({"log_ways": Field((axis, None))} if self.law.learns_shape else {})

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        found = {"stays": np.zeros(n_components), "segments": np.zeros(n_components)}
        if self.law.learns_shape:
            found["log_ways"] = np.zeros((n_components, len(self.law.shapes)))
        return found

    def segments(self, counts: Counts) -> Array:
        """(K,) segments of each state."""
        return np.asarray(counts["segments"])

    def _of(self, counts: Counts) -> StageCounts:
        # with r given, the ways are a constant of the local part
        none = np.zeros((len(counts["segments"]), len(self.law.shapes)))
        ways = counts["log_ways"] if self.law.learns_shape else none
        return StageCounts(counts["stays"], counts["segments"], ways)

    def potentials(self, counts: Counts, rule: Rule) -> dict[str, Any]:
        """Stays and segments (K,): log p, r log (1 - p); shape (K,): r; log_ways (K, R): 1 at r."""
        return dict(rule.pick(self)(counts))

    def predictive(self, counts: Counts) -> dict[str, Any]:
        """At the posterior mean of p."""
        return self.log_mean(counts)

    def mean_log(self, counts: Counts) -> dict[str, Any]:
        """Expected logs at the most probable r."""
        seen = self._of(counts)
        at = self.law.log_weights(seen).argmax(1)
        a, b = self._betas(seen, at)
        return self._tables(at, digamma(a) - digamma(a + b), digamma(b) - digamma(a + b))

    def log_mean(self, counts: Counts) -> dict[str, Any]:
        """The posterior mean of p at the most probable r."""
        seen = self._of(counts)
        return self._at_means(seen, self.law.log_weights(seen))

    def mode(self, counts: Counts) -> dict[str, Any]:
        """The best r and p together."""
        seen = self._of(counts)
        return self._at_means(seen, self.law.mode_weights(seen))

    def draw(self, counts: Counts, *, rng: np.random.Generator) -> dict[str, Any]:
        """R and p drawn from their posterior."""
        return self._tables(*self.law.draw_stages(self._of(counts), rng))

    def _at_means(self, seen: StageCounts, weights: Array) -> dict[str, Any]:
        at = weights.argmax(1)
        a, b = self._betas(seen, at)
        return self._tables(at, np.log(a / (a + b)), np.log(b / (a + b)))

    def _betas(self, seen: StageCounts, at: Array) -> tuple[Array, Array]:
        own = np.arange(len(at)), at
        a, b = self.law.betas(seen)
        return a[own], b[own]

    def _tables(self, at: Array, log_stay: Array, log_leave: Array) -> dict[str, Any]:
        r = np.array(self.law.shapes, dtype=float)[at]
        found = {"stays": log_stay, "segments": r * log_leave, "shape": r}
        if self.law.learns_shape:
            found["log_ways"] = np.eye(len(self.law.shapes))[at]
        return found

    def endless(self) -> dict[str, Any]:
        """The potentials of one state that is hardly ever left."""
        return self._tables(np.zeros(1, int), np.log1p([-NEVER]), np.log([NEVER]))

    def table(self, counts: Counts, max_length: int | None = None) -> Array:
        """(K, D) probabilities of the lengths 1, ..., D: the posterior predictive."""
        return np.exp(self.law.log_predictive(self._of(counts), int(max_length or 1)))

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Posterior means of r and p."""
        return self.law.describe_counts(self._of(counts))

    def bound(self, counts: Counts) -> float:
        """Log joint of lengths and r at the best r, p integrated out."""
        return float(self.law.log_weights(self._of(counts)).max(1).sum())

    def log_marginal(self, counts: Counts) -> float:
        """The same with r summed out, for labels that were drawn."""
        return float(logsumexp(self.law.log_weights(self._of(counts)), axis=1).sum())

    def log_mode(self, counts: Counts) -> float:
        """Largest log joint."""
        return float(self.law.mode_weights(self._of(counts)).max(1).sum())
