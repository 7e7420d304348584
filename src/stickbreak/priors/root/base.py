"""The root of an HDP: shares of components that all groups (documents, rows of a chain) use.

    u_k ~ Beta(1, concentration),   b_k = u_k prod_{l<k} (1 - u_l),   rest = prod_k (1 - u_k)

Mean shares (K,) are stored, so that merging adds entries; the rest is one minus their sum. Slots
appended by an edit are zero, and take their part of the rest. Sticks are broken in order of size
(`by_size`), whatever the order of the slots. Labels are exchangeable, so this is as valid as any
order, and the bound does not change when slots trade places.

Both kinds of root maximize the same function: their own part, plus a Term of b from the caller
(expected log shares of the groups). They take Newton steps in logits of u, and keep a step only if
it raises that function, so solving never lowers the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit

from stickbreak.kernels.roots import bend_sticks, break_sticks
from stickbreak.protocols import Array

from ..concentration import GammaPrior
from .groups import Groups, Surrogate, Term

__all__ = ["Own", "Pull", "Root", "fill_shares", "share_sticks", "top_posterior", "top_term"]

Pull = Callable[[Array], Term]
TINY = 1e-8  # sticks stay this far from 0 and 1: digamma(0) is infinite
# Smallest share and smallest rest. Anything smaller would be lost when the shares are summed.
FLOOR = 1e-10
# Edge of the domain: below the floor, because shares at the floor lose a little when they are
# normalized and their sticks are clipped.
OUTSIDE = 0.5 * FLOOR
EDGE = 1e-5  # a stick this near 0 or 1 is a poor start: the closed form is tried as well
MAX_STEPS = 12
MAX_MOVE = 4.0  # in logits, of one step
SETTLED = 1e-6  # nats: a step that promises less is not taken
ARMIJO = 1e-4
DAMPING = (0.0, 0.03, 0.3, 3.0, 30.0)


class Own(NamedTuple):
    """The root's own part, a sum over sticks.

    derivatives (3, K) : the first and second in u, and a positive replacement for minus the second
    """

    value: float
    derivatives: Array


class Place(NamedTuple):
    """The objective at some logits: value, gradient (K,), bend (K, K) = minus the Hessian.

    scale (K,) : positive replacement for the diagonal of the bend.
    """

    value: float
    gradient: Array
    bend: Array
    scale: Array


def fill_shares(mean: Array) -> Array:
    """(K + 1,) positive shares that sum to one, the rest last.

    Empty slots are cut from the rest: with n of them each takes 1 / (n + 1) of it.
    """
    rest = max(1.0 - float(mean.sum()), FLOOR)
    empty = mean < FLOOR
    part = rest / (np.count_nonzero(empty) + 1)
    filled = np.maximum(np.append(np.where(empty, part, mean), part), FLOOR)
    return np.asarray(filled / filled.sum())


def share_sticks(u: Array) -> Array:
    """(K + 1,) shares of sticks (K,), the rest last."""
    out = np.ones(len(u) + 1)
    np.cumprod(1.0 - u, out=out[1:])
    out[:-1] *= u
    return out


def top_posterior(prior: GammaPrior, n_sticks: int, log_pass: float) -> GammaPrior:
    """The best factor q(c) = Gamma(shape + K, rate - S) for S = sum_k E[log(1 - u_k)]."""
    return GammaPrior(prior.shape + n_sticks, prior.rate - log_pass)


def top_term(
    concentration: float | GammaPrior, n_sticks: int, log_pass: float
) -> tuple[float, float]:
    """K log c + c S for S = sum_k E[log(1 - u_k)], and its derivative in S: c, or its mean.

    For c ~ Gamma(shape, rate) it is the log of the integral of p(c) c**K exp(c S) over c, which is
    the bound at the best q(c).
    """
    if not isinstance(concentration, GammaPrior):
        return n_sticks * float(np.log(concentration)) + concentration * log_pass, concentration
    q = top_posterior(concentration, n_sticks, log_pass)
    prior = concentration.shape * np.log(concentration.rate) - gammaln(concentration.shape)
    return float(prior + gammaln(q.shape) - q.shape * np.log(q.rate)), q.mean


@dataclass(frozen=True)
class Root:
    """Shares common to all groups.

    concentration : of the sticks; a GammaPrior if it is learned.
    by_size : whether sticks are broken in order of size, or in the order of the slots.
    """

    concentration: float | GammaPrior = 10.0
    by_size: bool = True

    def _own(self, u: Array, surrogate: Surrogate) -> Own:
        raise NotImplementedError

    def _log_pass(self, u: Array, surrogate: Surrogate) -> Array:
        """(K,) E[log(1 - u_k)]."""
        raise NotImplementedError

    def _outside(self, groups: Groups, surrogate: Surrogate, shares: Array) -> Term:
        """Contribution of the groups' priors, as a function of b."""
        raise NotImplementedError

    def _sticks(self, mean: Array) -> tuple[Array, Array]:
        """Sticks (K,) in their order, and that order (K,)."""
        return _sticks(mean, self.by_size)

    def shares(self, mean: Array) -> Array:
        """(K + 1,) shares b, the rest last, in the order of the slots."""
        return _shares(np.ascontiguousarray(mean, dtype=float).tobytes(), self.by_size)

    def top(self, mean: Array, groups: Groups) -> float | GammaPrior:
        """The concentration: the given value, or its posterior if it is learned."""
        if not isinstance(self.concentration, GammaPrior):
            return self.concentration
        u, _ = self._sticks(mean)
        return top_posterior(
            self.concentration, len(u), float(self._log_pass(u, groups.surrogate(len(u))).sum())
        )

    def bound(self, mean: Array, groups: Groups) -> float:
        """The bound's part of the root and of the groups' priors.

        E[log p(u) / q(u)], or log p of a point estimate, plus the groups' log normalizers, or a
        lower bound on them.
        """
        u, order = self._sticks(mean)
        surrogate, shares = groups.surrogate(len(u)), _unsorted(share_sticks(u), order)
        return self._own(u, surrogate).value + self._outside(groups, surrogate, shares).value

    def solve(self, mean: Array, groups: Groups, pull: Pull) -> Array:
        """Mean shares (K,) that raise bound + pull(b).value; never lowers it.

        Solves a second time if the order of sizes has changed.
        """
        surrogate = groups.surrogate(len(mean))

        def place(u: Array, order: Array) -> Place:
            return self._place(
                u, order, surrogate, lambda b: _sum(pull(b), self._outside(groups, surrogate, b))
            )

        for _ in range(2):
            u, order = self._sticks(mean)
            found, began, reached = self._climb(u, order, surrogate, place)
            if not reached > began:
                break
            reach = share_sticks(found)
            aim = _unsorted(reach, order)[:-1]
            is_in_order = not self.by_size or bool((np.diff(reach[:-1]) <= 0).all())
            # Such shares survive storing unchanged: no sum rounds them away.
            if is_in_order and reach.min() > EDGE:
                return aim
            better = self._toward(mean, aim, began, place)
            if better is None:
                break
            mean = better
        return mean

    def _toward(
        self, mean: Array, aim: Array, value: float, place: Callable[[Array, Array], Place]
    ) -> Array | None:
        """The first shares on the line to `aim` whose value, in their own order, exceeds `value`.

        Nearly always `aim` itself: order of size is usually, but not always, the best order.
        """
        for part in (1.0, 0.5, 0.2, 0.05):
            tried = fill_shares(mean)[:-1] * (1.0 - part) + part * aim
            if place(*self._sticks(tried)).value > value:
                return np.asarray(tried)
        return None

    def _climb(
        self, u: Array, order: Array, surrogate: Surrogate, place: Callable[[Array, Array], Place]
    ) -> tuple[Array, float, float]:
        """Sticks found, the value at the given ones, and the value reached.

        If the given sticks are extreme, the closed form is tried as a start too.
        """
        starts = [u]
        if u.min() < EDGE or u.max() > 1.0 - EDGE:
            starts.append((surrogate.ones + 1.0) / (surrogate.ones + surrogate.zeros + 2.0))
        found = [_newton(logit(start), lambda x: place(_stick(x), order)) for start in starts]
        x, _, reached = max(found, key=lambda each: each[2])
        return _stick(x), found[0][1], reached

    def _place(self, u: Array, order: Array, surrogate: Surrogate, term: Pull) -> Place:
        """Value and derivatives in logits x of u.

        With d log b_l / d x_k = A_lk (1 - u_k at l = k, -u_k at l > k, else 0):

        gradient = own part + A' (b s)
        Hessian = own part + A' diag(b s + b^2 h) A - diag_k(u_k (1 - u_k) sum_{l>=k} b_l s_l)

        where s and h are the slope and curvature of the term.
        """
        b = share_sticks(u)
        if b.min() < OUTSIDE:  # a smaller share would be lost in sums
            return Place(-np.inf, np.zeros_like(u), np.zeros((0, 0)), np.zeros_like(u))
        found, own = term(_unsorted(b, order)), self._own(u, surrogate)
        (gradient, scale), bend = np.empty((2, len(u))), np.empty((len(u), len(u)))
        outside = found.slope, found.curvature
        bend_sticks(u, b, order, outside, own.derivatives, gradient, bend, scale)
        return Place(own.value + found.value, gradient, bend, scale)


def _sticks(mean: Array, by_size: bool) -> tuple[Array, Array]:
    u, order = np.empty(len(mean)), np.empty(len(mean), dtype=np.int64)
    break_sticks(fill_shares(mean), by_size, TINY, u, order)
    return u, order


@lru_cache(maxsize=16)
def _shares(mean: bytes, by_size: bool) -> Array:
    """Shares of a root; cached, because stochastic inference asks for them at every step."""
    u, order = _sticks(np.frombuffer(mean), by_size)
    shares = _unsorted(share_sticks(u), order)
    shares.flags.writeable = False  # cached, so all callers share it
    return shares


def _unsorted(placed: Array, order: Array) -> Array:
    """Shares (K + 1,) in the order of the sticks, put back in the order of the slots."""
    out = np.empty_like(placed)
    out[order], out[-1] = placed[:-1], placed[-1]
    return out


def _stick(x: Array) -> Array:
    return np.clip(expit(x), TINY, 1.0 - TINY)


def _sum(first: Term, second: Term) -> Term:
    return Term(
        first.value + second.value, first.slope + second.slope, first.curvature + second.curvature
    )


def _newton(x: Array, at: Callable[[Array], Place]) -> tuple[Array, float, float]:
    """Damped Newton ascent with backtracking: the end point, and the first and last value."""
    here = at(x)
    began = here.value
    for _ in range(MAX_STEPS):
        step = _direction(here)
        if not float(here.gradient @ step) > 2.0 * SETTLED:  # twice what it promises
            break
        step *= min(1.0, MAX_MOVE / float(np.abs(step).max()))
        promised = float(here.gradient @ step)
        for size in 0.4 ** np.arange(12):
            there = at(x + size * step)
            if there.value >= here.value + ARMIJO * size * promised:
                break
        else:
            break
        x, here = x + size * step, there
    return x, began, here.value


def _direction(place: Place) -> Array:
    """Newton's step, with enough of the scale added to make the bend positive definite."""
    for damping in DAMPING:
        bend = place.bend + np.diag(damping * place.scale) if damping else place.bend
        try:
            np.linalg.cholesky(bend)
        except np.linalg.LinAlgError:
            continue
        return np.asarray(np.linalg.solve(bend, place.gradient))
    return place.gradient / place.scale
