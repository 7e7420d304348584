"""A concentration that is not known: Gamma prior, posterior by the counts alone.

Given the counts n of the components, the shares and the concentration c have the exact joint
posterior

    q(shares, c) = q(c) q(shares | c),   q(c) proportional to p(c) exp(R(n; c)),

where R(n; c) is the log-partition rise that the prior of the shares has for a known c. So the bound
is log of the integral of p(c) exp(R(n; c)), and E[log share] the average of its value at c over
q(c). Nothing is stored besides the counts, and an empty component at the end of the sticks still
costs nothing, since it does so for every c. (A factor q(c) independent of the sticks would charge
it log E[c] - E[log c] for each.)

The integral is a sum over fixed nodes, evenly spaced in log c: a discrete prior for which
everything here is exact. For smooth functions that fall off at both ends such sums converge faster
than any power of the spacing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaincinv, logsumexp

from stickbreak.parameters import Parameters, require_positive
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Fields, Summary

from .dirichlet import SymmetricDirichlet
from .shares import ConcentrationPosterior, ShareCounts
from .sticks import Sticks

__all__ = ["GammaPrior", "UncertainConcentration"]

# of log c; a posterior as narrow as that of some 1,000 components is twice as wide
SPACING = 1.0 / 32.0
STRIDE = 16  # of the first look, which finds where the posterior is
DROP = 60.0  # nats below the best: e**-60 of it is nothing
REACH = 800.0  # nats of prior density that the nodes reach down to
# in log c: below e**-40 of the prior mean a concentration is zero for all that the counts can tell
LEFT = 40.0


@dataclass(frozen=True, eq=False, repr=False)
class GammaPrior(Parameters):
    """Gamma prior on a concentration, which is then learned: density proportional to c**(shape - 1)
    exp(-rate c).

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
        """Raise ValueError for numbers that make no Gamma density that we can add up."""
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
        """Values below which lie these shares of the distribution."""
        return np.asarray(gammaincinv(self.shape, level) / self.rate)

    def nodes(self) -> tuple[Array, Array]:
        """Concentrations (J,) and the logs of their prior probabilities (J,)."""
        return _nodes(float(self.shape), float(self.rate))


@lru_cache(maxsize=32)
def _nodes(shape: float, rate: float) -> tuple[Array, Array]:
    """Evenly spaced in log c, as far as the density is above exp(-REACH) of its best; what lies to
    the left is put on the first.

    With y = log(c / mean) the log density in log c is shape (y - exp(y)), a constant apart.
    """
    ratio = REACH / shape
    left = min(LEFT, 2.0 * math.sqrt(ratio) if ratio < 0.5 else 1.0 + ratio)
    right = min(math.sqrt(2.0 * ratio), math.log1p(ratio) + 2.0)
    step = min(SPACING, 0.5 / math.sqrt(shape))
    lowest = math.log(shape / rate) - left if shape >= 1.0 else -math.log(rate) - LEFT
    highest = math.log(shape / rate) + right
    log_c = lowest + step * np.arange(math.ceil((highest - lowest) / step) + 1)
    log_weight = shape * log_c - rate * np.exp(log_c)
    # a geometric series: all nodes further left
    log_weight[0] -= math.log(-math.expm1(-shape * step))
    c, log_weight = np.exp(log_c), log_weight - logsumexp(log_weight)
    c.flags.writeable = log_weight.flags.writeable = False  # shared by all who ask
    return c, log_weight


@dataclass(frozen=True)
class UncertainConcentration(ShareCounts):
    """Shares whose concentration c is learned: c ~ Gamma, shares | c as the prior `given` has them.

    given : Sticks or SymmetricDirichlet
    """

    given: type[Sticks] | type[SymmetricDirichlet]
    concentration: GammaPrior

    def concentration_posterior(self, counts: Counts) -> ConcentrationPosterior:
        """q(c) for these counts. Nodes are first looked at by strides, then one by one where it
        matters.
        """
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
        """E[log share], the concentration integrated out: the derivative of the bound along a
        count.
        """
        q = self.concentration_posterior(counts)
        return q.probability @ self.given(q.values).mean_log(counts)

    def log_mean(self, counts: Counts) -> Array:
        """Log E[share], the concentration integrated out."""
        q = self.concentration_posterior(counts)
        return np.log(q.probability @ np.exp(self.given(q.values).log_mean(counts)))

    def mode(self, counts: Counts) -> Array:
        """At the posterior mean of the concentration: what k-means passes of a start use."""
        return self.given(self.concentration_posterior(counts).mean).mode(counts)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Log shares drawn from their posterior for a concentration that is drawn from its own."""
        q = self.concentration_posterior(counts)
        return self.given(float(rng.choice(q.values, p=q.probability / q.probability.sum()))).draw(
            counts, rng
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """Log of the integral over c of p(c) exp(R(n; c))."""
        return self.concentration_posterior(total).log_evidence

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM has no objective here: the best concentration of sticks at their modes depends on the
        truncation.
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
