"""A root whose sticks have Beta posteriors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma

from stickbreak.kernels.roots import beta_derivatives
from stickbreak.protocols import Array

from ..concentration import GammaPrior
from .base import Own, Root, top_term
from .groups import Groups, Surrogate, Term, trigamma

__all__ = ["BetaRoot"]


@dataclass(frozen=True)
class BetaRoot(Root):
    """q(u_k) = Beta(m_k w_k, (1 - m_k) w_k), with means m from the stored shares.

    It uses the surrogate bound of the groups. Empty components lower this bound, so it can choose
    their number.

    precision : "rule", the w_k that is right without the groups' counts, c1_k + c0_k
        [H16, eq. 5.39]; or "best", the optimum.
    """

    precision: str = "rule"

    def __post_init__(self) -> None:
        if self.precision not in ("rule", "best"):
            raise ValueError(f"precision must be 'rule' or 'best'; got {self.precision!r}")

    def _outside(self, groups: Groups, surrogate: Surrogate, shares: Array) -> Term:
        return Term(float(surrogate.linear @ shares), surrogate.linear, np.zeros_like(shares))

    def _own(self, u: Array, surrogate: Surrogate) -> Own:
        """sum_k log B(a, b) + (c1 - a) E[log u] + (c0 - b) E[log(1 - u)].

        Here a = u w and b = (1 - u) w.
        """
        w, prior, out = self.precisions(u, surrogate), self.concentration, np.empty((3, len(u)))
        given, learned = 0.0, (0.0, 0.0)
        if isinstance(prior, GammaPrior):
            learned = float(prior.shape), float(prior.rate)
        else:
            given = float(prior)
        log_pass, known = beta_derivatives(
            u, w, surrogate.ones, surrogate.zeros, given, learned, out
        )
        top = top_term(prior, len(u), log_pass)[0]
        value = betaln(u * w, (1.0 - u) * w).sum() + known + top + surrogate.constant
        return Own(float(value), out)

    def _log_pass(self, u: Array, surrogate: Surrogate) -> Array:
        w = self.precisions(u, surrogate)
        return np.asarray(digamma((1.0 - u) * w) - digamma(w))

    def precisions(self, u: Array, surrogate: Surrogate) -> Array:
        """(K,) total counts w of the sticks' posteriors."""
        c1, prior = surrogate.ones + 1.0, self.concentration
        w = c1 + surrogate.zeros + (prior.mean if isinstance(prior, GammaPrior) else prior)
        return w if self.precision == "rule" else self._best_precisions(u, surrogate, w)

    def _best_precisions(self, u: Array, surrogate: Surrogate, w: Array) -> Array:
        """Fisher scoring in w, started at the rule; (a, b) moves on a line through the origin."""
        c1 = surrogate.ones + 1.0
        for _ in range(60):
            a, b, all_of_it = u * w, (1.0 - u) * w, trigamma(w)
            mean = top_term(self.concentration, len(u), float((digamma(b) - digamma(w)).sum()))[1]
            c0 = surrogate.zeros + mean
            stop, go = trigamma(a), trigamma(b)
            slope = u * (c1 - a) * stop + (1.0 - u) * (c0 - b) * go - all_of_it * (c1 + c0 - w)
            better = np.clip(
                w + slope / (u**2 * stop + (1.0 - u) ** 2 * go - all_of_it), 0.5 * w, 2.0 * w
            )
            done = np.abs(better - w).max() < 1e-12 * w.max()
            w = better
            if done:
                break
        return w
