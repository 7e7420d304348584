"""A concentration that is learned: Gamma prior, and a posterior that follows from the counts.

Given the counts n of the components, the shares and the concentration c have the exact joint
posterior

    q(shares, c) = q(c) q(shares | c),   q(c) proportional to p(c) exp(R(n; c)).

R(n; c) is the log-partition of the shares' posterior minus that of their prior, for a known c. So
the bound is the log of the integral of p(c) exp(R(n; c)), and E[log share] is its value at c
averaged over q(c). Nothing is stored besides the counts. An empty component at the end of the
sticks costs nothing, because it costs nothing for every c. (A factor q(c) independent of the sticks
would charge log E[c] - E[log c] for each.)

The integral is a sum over fixed nodes, evenly spaced in log c. This is a discrete prior, for which
everything here is exact. For smooth functions that fall off at both ends, such sums converge faster
than any power of the spacing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaincinv, logsumexp

from stickbreak.kernels.row_sweeps import LiveShares
from stickbreak.parameters import Parameters, require_positive
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Fields, Summary

from .dirichlet import SymmetricDirichlet
from .shares import ConcentrationPosterior, ShareCounts
from .sticks import Sticks

__all__ = ["GammaPrior", "UncertainConcentration"]

# Between nodes, in log c. Even with some 1,000 components the posterior is twice as wide.
SPACING = 1.0 / 32.0
STRIDE = 16  # nodes per step of the coarse pass, which locates the posterior
DROP = 60.0  # nats below the best; nodes beyond it are negligible
REACH = 800.0  # nats below the peak of the prior density that the nodes cover
# In log c. Counts cannot tell a concentration below e**-40 of the prior mean from zero.
LEFT = 40.0


@dataclass(frozen=True, eq=False, repr=False)
class GammaPrior(Parameters):
    """Gamma prior on a concentration, which is then learned.

    The density is proportional to c**(shape - 1) exp(-rate c).

    Parameters
    ----------
    shape, rate : the prior mean is shape / rate, its standard deviation sqrt(shape) / rate. Default
        1 and 1.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.DPMixture(concentration=sb.GammaPrior(shape=2.0))
    DPMixture(concentration=GammaPrior(shape=2.0))
    """

    shape: float = 1.0
    rate: float = 1.0

    def check(self) -> None:
        """Raise ValueError for a shape or rate outside the range that the nodes can cover."""
        require_positive(shape=self.shape, rate=self.rate)
        if not 1e-3 <= self.shape <= 1e6 or not 1e-6 <= self.rate <= 1e6:
            raise ValueError(
                "GammaPrior takes a shape from 1e-3 to 1e6 and a rate from 1e-6 to 1e6; "
                f"got shape={self.shape!r}, rate={self.rate!r}"
            )

    @property
    def mean(self) -> float:
        """The mean, shape / rate."""
        return float(self.shape / self.rate)

    def quantile(self, level: Any) -> Array:
        """Quantiles of the distribution at these levels."""
        return np.asarray(gammaincinv(self.shape, level) / self.rate)

    def nodes(self) -> tuple[Array, Array]:
        """Concentrations (J,) and the logs of their prior probabilities (J,)."""
        return _nodes(float(self.shape), float(self.rate))


@lru_cache(maxsize=32)
def _nodes(shape: float, rate: float) -> tuple[Array, Array]:
    """Nodes evenly spaced in log c, where the density is above exp(-REACH) of its maximum.

    The mass to the left of them is put on the first node. With y = log(c / mean), the log density
    in log c is shape (y - exp(y)) up to a constant.
    """
    ratio = REACH / shape
    left = min(LEFT, 2.0 * math.sqrt(ratio) if ratio < 0.5 else 1.0 + ratio)
    right = min(math.sqrt(2.0 * ratio), math.log1p(ratio) + 2.0)
    step = min(SPACING, 0.5 / math.sqrt(shape))
    lowest = math.log(shape / rate) - left if shape >= 1.0 else -math.log(rate) - LEFT
    highest = math.log(shape / rate) + right
    log_c = lowest + step * np.arange(math.ceil((highest - lowest) / step) + 1)
    log_weight = shape * log_c - rate * np.exp(log_c)
    # all nodes further left, as a geometric series
    log_weight[0] -= math.log(-math.expm1(-shape * step))
    c, log_weight = np.exp(log_c), log_weight - logsumexp(log_weight)
    c.flags.writeable = log_weight.flags.writeable = False  # cached, so all callers share it
    return c, log_weight


@dataclass(frozen=True)
class UncertainConcentration(ShareCounts):
    """Shares whose concentration is learned: c ~ Gamma, shares | c as in the prior `given`.

    given : Sticks or SymmetricDirichlet
    """

    given: type[Sticks] | type[SymmetricDirichlet]
    concentration: GammaPrior

    def concentration_posterior(self, counts: Counts) -> ConcentrationPosterior:
        """q(c) for these counts: a coarse pass over the nodes, then every node near the maximum."""
        c, log_prior = self.concentration.nodes()
        first = np.r_[0 : len(c) : STRIDE, len(c) - 1]
        coarse = log_prior[first] + self.given(c[first]).log_rise(counts)
        near = np.flatnonzero(coarse > coarse.max() - DROP)
        low, high = first[max(near[0] - 1, 0)], first[min(near[-1] + 1, len(first) - 1)]
        c, log_prior = c[low : high + 1], log_prior[low : high + 1]
        joint = log_prior + self.given(c).log_rise(counts)
        log_evidence = float(logsumexp(joint))
        return ConcentrationPosterior(c, np.exp(joint - log_evidence), log_evidence)

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Share (K,) log potentials."""
        return {"share": rule.pick(self)(counts)}

    def mean_log(self, counts: Counts) -> Array:
        """E[log share] with the concentration integrated out.

        It is the derivative of the bound with respect to a count.
        """
        q = self.concentration_posterior(counts)
        return q.probability @ self.given(q.values).mean_log(counts)

    def log_mean(self, counts: Counts) -> Array:
        """Log E[share], the concentration integrated out."""
        q = self.concentration_posterior(counts)
        return np.log(q.probability @ np.exp(self.given(q.values).log_mean(counts)))

    def mode(self, counts: Counts) -> Array:
        """The mode at the posterior mean of the concentration; k-means passes of a start use it."""
        return self.given(self.concentration_posterior(counts).mean).mode(counts)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Log shares drawn from their posterior, given a concentration drawn from its posterior."""
        q = self.concentration_posterior(counts)
        return self.given(float(rng.choice(q.values, p=q.probability / q.probability.sum()))).draw(
            counts, rng
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """Log of the integral over c of p(c) exp(R(n; c))."""
        return self.concentration_posterior(total).log_evidence

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Raise ValueError: EM has no objective here.

        The best concentration of sticks at their modes depends on the truncation.
        """
        raise ValueError(
            "EM cannot learn a concentration; give it a number, or use a variational "
            "engine such as BatchVB"
        )

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected shares."""
        return np.exp(self.log_mean(counts))

    def order(self, total: Summary) -> Array | None:
        """The order that is best for every concentration."""
        return self.given().order(total)

    def pseudo(self, params: Fields, n_components: int) -> LiveShares:
        """The concentrations that there may be, and their log probabilities."""
        nodes = (np.array(values) for values in self.concentration.nodes())
        return LiveShares(self.given is Sticks, *nodes)
