"""Groups below an HDP root: their Dirichlet priors are centered on the root's shares.

With b = (shares, rest), K + 1 numbers that sum to one, a group has the prior Dirichlet(c b). The
bound needs the logs of the priors' normalizers, lgamma(c) - sum_l lgamma(c b_l). As functions of b
these are `normalizers`, which a point estimate uses. For sticks with a Beta posterior their
expectation has no closed form; `surrogate` is a lower bound that has one:

    lgamma(c) - sum_l lgamma(c b_l) >= K log c + sum_l log b_l   for every c > 0 [H16, eq. 5.24].

The gap lgamma(1 + c) - sum_l lgamma(1 + c b_l) is never negative, since lgamma(1 + x) is convex and
zero at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import digamma, gammaln, zeta

from stickbreak.protocols import Array
from stickbreak.stats import log_gamma_rise

__all__ = [
    "ChainGroups",
    "Groups",
    "SegmentGroups",
    "Surrogate",
    "Term",
    "TopicGroups",
    "linear_term",
    "trigamma",
    "truncated_slope",
]

SMALL = 400  # entries below which scipy's trigamma is faster


class Term(NamedTuple):
    """A function of b (K + 1,): its value, slope (K + 1,), and curvature (K + 1,).

    The curvature is the diagonal of the second derivatives; the others are zero.
    """

    value: float
    slope: Array
    curvature: Array


class Surrogate(NamedTuple):
    """constant + sum_k ones_k log u_k + zeros_k log(1 - u_k) + linear . b.

    For sticks u (K,) in their order.
    """

    ones: Array
    zeros: Array
    linear: Array
    constant: float


class Groups(Protocol):
    """The groups below a root with K shares."""

    def surrogate(self, n_components: int) -> Surrogate:
        """A lower bound on the sum of the groups' log normalizers."""

    def normalizers(self, shares: Array) -> Term:
        """The exact sum, for shares b (K + 1,)."""


def linear_term(slope: Array, shares: Array) -> Term:
    """The linear function slope . b."""
    return Term(float(slope @ shares), slope, np.zeros_like(slope))


def truncated_slope(active: Array, buckets: Array) -> Array:
    """(K + 1,) slope of sum_k active_k b_k + sum_m buckets_m b_{>m}.

    Documents that use m topics see the later ones as one. active (K,), buckets (K + 1,) with
    m = 0, ..., K; b_{>m} = b_{m+1} + ... + b_K + rest.
    """
    return np.r_[active, 0.0] + np.r_[buckets[:-1].cumsum(), buckets.sum()]


def trigamma(x: Array) -> Array:
    """Second derivative of lgamma for x > 0.

    Large tables use seven steps of the recurrence, then the asymptotic series, accurate to 1e-12.
    scipy goes through the zeta function, which takes ten times as long, and every step of a root
    needs such a table.
    """
    if x.size < SMALL:
        return np.asarray(zeta(2.0, x))
    out = 1.0 / (x * x)
    for i in range(1, 8):
        y = x + i
        y *= y
        out += np.reciprocal(y, out=y)
    y = 1.0 / (x + 8.0)
    z = y * y
    series = z * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * 5 / 66))))
    return np.asarray(out + y * (1.0 + 0.5 * y + series))


@dataclass(frozen=True)
class ChainGroups:
    """A start row Dirichlet(start b) and K transition rows Dirichlet(rows b + stickiness e_j)."""

    start: float
    rows: float
    stickiness: float = 0.0

    @property
    def pull(self) -> float:
        """log((rows + stickiness) / stickiness), or 0 without stickiness.

        The slope of the chord below log(rows b_j + stickiness), from b_j = 0 to 1.
        """
        return float(np.log1p(self.rows / self.stickiness)) if self.stickiness else 0.0

    def surrogate(self, n_components: int) -> Surrogate:
        """K + 1 groups; with stickiness, each row's own share leaves the sum of logs.

        [H16, eq. 6.33]. The bucket of unused states keeps K + 1 logs. Hence the "+ 1" in the
        coefficient of log(1 - u_k), which is missing in print; without it this is not a lower
        bound.
        """
        K = n_components
        later = K - np.arange(K, dtype=float)  # K + 1 - k for k = 1, ..., K
        constant = K * np.log(self.start) + K * K * np.log(self.rows) - K * self.pull
        linear = np.append(np.full(K, self.pull), 0.0)
        if self.stickiness:
            return Surrogate(np.full(K, float(K)), K * later + 1.0, linear, constant)
        return Surrogate(np.full(K, K + 1.0), (K + 1.0) * later, linear, constant)

    def normalizers(self, shares: Array) -> Term:
        """Start row, K plain rows, and the change that stickiness makes to each row's own entry."""
        K, first, row = len(shares) - 1, self.start * shares, self.rows * shares
        log_row, log_first = gammaln(row), gammaln(first)
        value = gammaln(self.start) - log_first.sum() - K * log_row.sum()
        slope = -self.start * digamma(first) - K * self.rows * digamma(row)
        curvature = -(self.start**2) * trigamma(first) - K * self.rows**2 * trigamma(row)
        if self.stickiness:
            own, sticky = row[:-1], row[:-1] + self.stickiness
            others = self.rows * (1.0 - shares[:-1])
            value += (log_row[:-1] + log_gamma_rise(sticky, others)).sum()
            slope[:-1] += self.rows * (digamma(own) - digamma(sticky))
            curvature[:-1] += self.rows**2 * (trigamma(own) - trigamma(sticky))
        else:
            value += K * gammaln(self.rows)
        return Term(float(value), slope, curvature)


@dataclass(frozen=True)
class TopicGroups:
    """Documents Dirichlet(concentration b), each truncated at its own number of topics.

    numbers (K + 1,) : how many documents use the first 0, 1, ..., K topics. Documents that use
        m < K see all later topics as one bucket, so a birth in one batch leaves the others
        unchanged.
    """

    concentration: float
    numbers: Array

    def surrogate(self, n_components: int) -> Surrogate:
        """Sum over documents of the lower bound for the K_d topics that each uses.

        log(c) K_d + sum_{k <= K_d} log u_k + (K_d + 1 - k) log(1 - u_k).
        """
        K, sizes = n_components, np.arange(n_components + 1.0)
        number, topics = (
            values[::-1].cumsum()[::-1][1:] for values in (self.numbers, self.numbers * sizes)
        )
        zeros = topics + number * (1.0 - sizes[1:])
        return Surrogate(
            number,
            zeros,
            np.zeros(K + 1),
            float(np.log(self.concentration) * (self.numbers @ sizes)),
        )

    def normalizers(self, shares: Array) -> Term:
        """For documents that all use all topics; a point estimate supports no others."""
        if self.numbers[:-1].any():
            raise ValueError(
                "a point estimate of the root needs documents that all use the same "
                "topics; use the Beta root"
            )
        c, number = self.concentration, float(self.numbers[-1])
        value = number * (gammaln(c) - gammaln(c * shares).sum())
        return Term(
            float(value), -number * c * digamma(c * shares), -number * c * c * trigamma(c * shares)
        )


@dataclass(frozen=True)
class SegmentGroups:
    """Semi-Markov: a start row, and K rows without their own entry.

    Row j is Dirichlet(rows b_l for l != j), whose parameters sum to rows (1 - b_j).
    """

    start: float
    rows: float

    def surrogate(self, n_components: int) -> Surrogate:
        """Lower bound for rows of K entries: sum_{l != j} log b_l + (K - 1) log c.

        The exact term -log(1 - b_j) is at least zero and is left out. So every state has K logs and
        the bucket K + 1, as with stickiness.
        """
        K = n_components
        later = K - np.arange(K, dtype=float)
        constant = K * np.log(self.start) + K * (K - 1) * np.log(self.rows)
        return Surrogate(np.full(K, float(K)), K * later + 1.0, np.zeros(K + 1), constant)

    def normalizers(self, shares: Array) -> Term:
        """Functions of all K + 1 shares, with 1 - b_j for the total of row j."""
        K, first, row, total = (
            len(shares) - 1,
            self.start * shares,
            self.rows * shares,
            self.rows * (1.0 - shares[:-1]),
        )
        times = np.r_[np.full(K, K - 1.0), float(K)]  # rows in which an outcome is possible
        value = (
            gammaln(self.start) - gammaln(first).sum() + gammaln(total).sum() - times @ gammaln(row)
        )
        slope = -self.start * digamma(first) - times * self.rows * digamma(row)
        curvature = -(self.start**2) * trigamma(first) - times * self.rows**2 * trigamma(row)
        slope[:-1] -= self.rows * digamma(total)
        curvature[:-1] += self.rows**2 * trigamma(total)
        return Term(float(value), slope, curvature)
