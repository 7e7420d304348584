"""The root of an HDP: shares of components that all groups (documents, rows of a chain) have in
common.

    u_k ~ Beta(1, concentration),   b_k = u_k prod_{l<k} (1 - u_l),   rest = prod_k (1 - u_k)

What is stored is the mean shares (K,), a form in which a merge is an addition; the rest is what
they leave to one. Slots that an edit appended are zero, and take their part of the rest. Sticks are
broken in the order of size (`by_size`), whatever the order of the slots: labels are exchangeable,
so this is as valid as any order, and the bound does not change when slots trade places.

Both roots climb the same function: their own part, plus a Term of b that the caller knows (expected
log shares of the groups). Newton steps in logits of u, each kept only if it raises that function: a
solve never lowers the bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, logit, zeta

from stickbreak.errors import StickbreakWarning
from stickbreak.protocols import Array

from .concentration import GammaPrior
from .root_groups import Groups, Surrogate, Term, trigamma

__all__ = [
    "BetaRoot",
    "PointRoot",
    "Pull",
    "Root",
    "fill_shares",
    "make_root",
    "share_sticks",
    "top_posterior",
    "top_term",
    "warn_of_point",
]

Pull = Callable[[Array], Term]
TINY = 1e-8  # sticks stay this far from 0 and 1: digamma(0) is infinite
# of every share and of the rest: their sum with the others must still be told from one
FLOOR = 1e-10
EDGE = 1e-5  # a stick beyond it is a poor place to begin: the closed form is tried as well
MAX_STEPS = 12
MAX_MOVE = 4.0  # in logits, of one step
SETTLED = 1e-6  # nats: a step that promises less is not taken
ARMIJO = 1e-4
DAMPING = (0.0, 0.03, 0.3, 3.0, 30.0)


class Root(Protocol):
    """Shares common to all groups."""

    def shares(self, mean: Array) -> Array:
        """(K + 1,) shares b, the rest last, from stored mean shares (K,)."""

    def bound(self, mean: Array, groups: Groups) -> float:
        """The part of the bound that is the root's and the groups' priors': E[log p(u) / q(u)] +
        their log normalizers.
        """

    def solve(self, mean: Array, groups: Groups, pull: Pull) -> Array:
        """Mean shares (K,) that raise bound + pull(b).value; never lowers it."""


class Own(NamedTuple):
    """A sum over sticks: value; first and second derivatives (K,) in u; scale (K,), a positive
    stand-in for minus the second.
    """

    value: float
    slope: Array
    curvature: Array
    scale: Array


class Place(NamedTuple):
    """The climbed function at some logits: value, gradient (K,), minus the Hessian (K, K), and its
    positive stand-in (K,).
    """

    value: float
    gradient: Array
    bend: Array
    scale: Array


def fill_shares(mean: Array) -> Array:
    """(K + 1,) positive shares that sum to one. Empty slots are cut from the rest: with n of them
    each takes 1 / (n + 1) of it.
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
    """The best factor q(c) = Gamma(shape + K, rate - S) for S = sum_k E[log(1 - u_k)]. Nothing is
    stored.
    """
    return GammaPrior(prior.shape + n_sticks, prior.rate - log_pass)


def top_term(
    concentration: float | GammaPrior, n_sticks: int, log_pass: float
) -> tuple[float, float]:
    """K log c + c S for S = sum_k E[log(1 - u_k)], and its derivative in S, which is (the mean of)
    c.

    For c ~ Gamma(shape, rate) the log of the integral over c of p(c) c**K exp(c S), where q(c) is
    at its best.
    """
    if not isinstance(concentration, GammaPrior):
        return n_sticks * float(np.log(concentration)) + concentration * log_pass, concentration
    q = top_posterior(concentration, n_sticks, log_pass)
    prior = concentration.shape * np.log(concentration.rate) - gammaln(concentration.shape)
    return float(prior + gammaln(q.shape) - q.shape * np.log(q.rate)), q.mean


@dataclass(frozen=True)
class _Climber:
    """What both roots share: places of sticks, and Newton steps."""

    concentration: float | GammaPrior = 10.0
    by_size: bool = True

    def _own(self, u: Array, surrogate: Surrogate) -> Own:
        raise NotImplementedError

    def _log_pass(self, u: Array, surrogate: Surrogate) -> Array:
        """(K,) E[log(1 - u_k)]."""
        raise NotImplementedError

    def _outside(self, groups: Groups, surrogate: Surrogate, shares: Array) -> Term:
        """What the groups' priors add as a function of b."""
        raise NotImplementedError

    def _sticks(self, mean: Array) -> tuple[Array, Array]:
        """Sticks (K,) in their order, and that order (K,)."""
        return _sticks(mean, self.by_size)

    def shares(self, mean: Array) -> Array:
        """(K + 1,) shares b, the rest last, in the order of the slots."""
        return _shares(np.ascontiguousarray(mean, dtype=float).tobytes(), self.by_size)

    def top(self, mean: Array, groups: Groups) -> float | GammaPrior:
        """The concentration: as given, or its posterior where it is learned."""
        if not isinstance(self.concentration, GammaPrior):
            return self.concentration
        u, _ = self._sticks(mean)
        return top_posterior(
            self.concentration, len(u), float(self._log_pass(u, groups.surrogate(len(u))).sum())
        )

    def bound(self, mean: Array, groups: Groups) -> float:
        """E[log p(u) / q(u)] (a density for a point estimate) plus the groups' log normalizers, or
        what bounds them from below.
        """
        u, order = self._sticks(mean)
        surrogate, shares = groups.surrogate(len(u)), _unsorted(share_sticks(u), order)
        return self._own(u, surrogate).value + self._outside(groups, surrogate, shares).value

    def solve(self, mean: Array, groups: Groups, pull: Pull) -> Array:
        """Mean shares (K,) that raise bound + pull(b).value. Once more where the order of sizes has
        changed.
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
            # what is stored is what was found: sums do not round
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
        """The first of some shares on the way to `aim` that is better than `value` in the order of
        its own sizes.

        Nearly always `aim` itself: by size is mostly the best order of given shares, but there is
        no law that says so.
        """
        for part in (1.0, 0.5, 0.2, 0.05):
            tried = fill_shares(mean)[:-1] * (1.0 - part) + part * aim
            if place(*self._sticks(tried)).value > value:
                return np.asarray(tried)
        return None

    def _climb(
        self, u: Array, order: Array, surrogate: Surrogate, place: Callable[[Array, Array], Place]
    ) -> tuple[Array, float, float]:
        """Sticks found, the value at the given ones, and that reached. From the closed form as well
        where those are extreme.
        """
        starts = [u]
        if u.min() < EDGE or u.max() > 1.0 - EDGE:
            starts.append((surrogate.ones + 1.0) / (surrogate.ones + surrogate.zeros + 2.0))
        found = [_newton(logit(start), lambda x: place(_stick(x), order)) for start in starts]
        x, _, reached = max(found, key=lambda each: each[2])
        return _stick(x), found[0][1], reached

    def _place(self, u: Array, order: Array, surrogate: Surrogate, term: Pull) -> Place:
        """Value and derivatives in logits x of u. With d log b_l / d x_k = A_lk (1 - u_k at l = k,
        -u_k at l > k, else 0):

        gradient = own part + A' (b s)
        Hessian = own part + A' diag(b s + b^2 h) A - diag_k(u_k (1 - u_k) sum_{l>=k} b_l s_l)

        where s and h are the slope and curvature of the term.
        """
        b = share_sticks(u)
        if b.min() < FLOOR:  # outside: no share may be lost in the sum with the others
            return Place(-np.inf, np.zeros_like(u), np.zeros((0, 0)), np.zeros_like(u))
        found, own, spread = term(_unsorted(b, order)), self._own(u, surrogate), u * (1.0 - u)
        drawn = b * _sorted(found.slope, order)
        log_slope = _below(len(u)) * -u  # A
        np.fill_diagonal(log_slope, 1.0 - u)
        scale = own.scale * spread**2
        gradient = own.slope * spread + drawn @ log_slope
        from_here = drawn[::-1].cumsum()[::-1][:-1]
        diagonal = (
            own.curvature * spread**2 + own.slope * spread * (1.0 - 2.0 * u) - spread * from_here
        )
        bent = drawn + b**2 * _sorted(found.curvature, order)
        bend = -(log_slope.T @ (bent[:, None] * log_slope))
        bend.flat[:: len(u) + 1] -= diagonal
        return Place(own.value + found.value, gradient, bend, scale)


def _sticks(mean: Array, by_size: bool) -> tuple[Array, Array]:
    filled = fill_shares(mean)
    order = np.argsort(-filled[:-1], kind="stable") if by_size else np.arange(len(mean))
    placed = _sorted(filled, order)
    from_here = placed[::-1].cumsum()[::-1]
    return np.clip(placed[:-1] / from_here[:-1], TINY, 1.0 - TINY), order


@lru_cache(maxsize=16)
def _shares(mean: bytes, by_size: bool) -> Array:
    """Kept, because stochastic inference asks at every step for the shares of a root that changes a
    few times a lap.
    """
    u, order = _sticks(np.frombuffer(mean), by_size)
    shares = _unsorted(share_sticks(u), order)
    shares.flags.writeable = False  # all who ask get this array
    return shares


@lru_cache(maxsize=16)
def _below(K: int) -> Array:
    """(K + 1, K) ones below the diagonal."""
    return np.tri(K + 1, K, -1)


def _sorted(shares: Array, order: Array) -> Array:
    """(K + 1,) in the order of the sticks."""
    return np.append(shares[:-1][order], shares[-1])


def _unsorted(placed: Array, order: Array) -> Array:
    """Shares in the order of the sticks (K + 1,) put back in that of the slots."""
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
    """Damped Newton steps with backtracking, uphill only: where they end, and the values at the
    beginning and there.
    """
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
    """Newton's step where the function bends down in every direction; else with as much of the
    scale added as it takes.
    """
    for damping in DAMPING:
        bend = place.bend + np.diag(damping * place.scale) if damping else place.bend
        try:
            np.linalg.cholesky(bend)
        except np.linalg.LinAlgError:
            continue
        return np.asarray(np.linalg.solve(bend, place.gradient))
    return place.gradient / place.scale


@dataclass(frozen=True)
class BetaRoot(_Climber):
    """q(u_k) = Beta(m_k w_k, (1 - m_k) w_k) with means m from the stored shares, and the surrogate
    bound of the groups.

    Empty components lower this bound, so it can say how many there are.

    concentration : of the sticks; a GammaPrior for one that is learned
    precision : "rule", w_k as it would be without the groups' counts, c1_k + c0_k [H16, eq. 5.39];
        or "best", at its optimum
    """

    precision: str = "rule"

    def __post_init__(self) -> None:
        if self.precision not in ("rule", "best"):
            raise ValueError(f"precision must be 'rule' or 'best'; got {self.precision!r}")

    def _outside(self, groups: Groups, surrogate: Surrogate, shares: Array) -> Term:
        return Term(float(surrogate.linear @ shares), surrogate.linear, np.zeros_like(shares))

    def _own(self, u: Array, surrogate: Surrogate) -> Own:
        """sum_k log B(a, b) + (c1 - a) E[log u] + (c0 - b) E[log(1 - u)], a = u w and b = (1 - u)
        w.
        """
        w = self.precisions(u, surrogate)
        a, b, c1, tail = u * w, (1.0 - u) * w, surrogate.ones + 1.0, digamma(w)
        log_stop, log_pass = digamma(a) - tail, digamma(b) - tail
        top, mean = top_term(self.concentration, len(u), float(log_pass.sum()))
        value = (
            betaln(a, b).sum()
            + (c1 - a) @ log_stop
            + (surrogate.zeros - b) @ log_pass
            + top
            + surrogate.constant
        )
        more, less, stop, go = c1 - a, surrogate.zeros + mean - b, trigamma(a), trigamma(b)
        slope = w * (more * stop - less * go)
        bent = -2.0 * (more * zeta(3.0, a) + less * zeta(3.0, b))  # tetragamma(x) = -2 zeta(3, x)
        return Own(float(value), slope, w**2 * (bent - stop - go), w**2 * (stop + go))

    def _log_pass(self, u: Array, surrogate: Surrogate) -> Array:
        w = self.precisions(u, surrogate)
        return np.asarray(digamma((1.0 - u) * w) - digamma(w))

    def precisions(self, u: Array, surrogate: Surrogate) -> Array:
        """(K,) total counts w of the sticks' posteriors."""
        c1, prior = surrogate.ones + 1.0, self.concentration
        w = c1 + surrogate.zeros + (prior.mean if isinstance(prior, GammaPrior) else prior)
        return w if self.precision == "rule" else self._best_precisions(u, surrogate, w)

    def _best_precisions(self, u: Array, surrogate: Surrogate, w: Array) -> Array:
        """Fisher scoring in w: along a line through the origin of (a, b), from the rule of
        thumb.
        """
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


@dataclass(frozen=True)
class PointRoot(_Climber):
    """A point estimate of the shares, with the density of b (not of u) as its prior [J14, 5.4;
    LK07].

        log p(b) = K log c + (c - 1) log R_K - sum_{i<K} log R_i,   R_i = 1 - b_1 - ... - b_i

    The normalizers of the groups are exact, but a point pays nothing for a component: empty ones
    raise this "bound", and with more of them than the concentration it has no maximum. It cannot
    choose the number of components.
    """

    def _outside(self, groups: Groups, surrogate: Surrogate, shares: Array) -> Term:
        return groups.normalizers(shares)

    def _log_pass(self, u: Array, surrogate: Surrogate) -> Array:
        return np.log1p(-u)

    def _own(self, u: Array, surrogate: Surrogate) -> Own:
        """In sticks log R_i = sum_{l<=i} log(1 - u_l), so log p(b) = K log c + sum_k (c - 1 - K +
        k) log(1 - u_k).
        """
        later = len(u) - 1.0 - np.arange(len(u))  # K - k for k = 1, ..., K
        log_pass = np.log1p(-u)
        top, mean = top_term(self.concentration, len(u), float(log_pass.sum()))
        power = mean - 1.0 - later
        scale = (surrogate.ones + surrogate.zeros + 2.0) / (u * (1.0 - u))
        return Own(
            float(top - (1.0 + later) @ log_pass),
            -power / (1.0 - u),
            -power / (1.0 - u) ** 2,
            scale,
        )


def make_root(kind: str, concentration: float | GammaPrior, precision: str) -> BetaRoot | PointRoot:
    """The root that a prior asks for by name."""
    if kind not in ("beta", "point"):
        raise ValueError(f"root must be 'beta' or 'point'; got {kind!r}")
    if kind == "beta":
        return BetaRoot(concentration, precision=precision)
    if precision != "rule":
        raise ValueError(
            f"precision={precision!r} is of a Beta posterior; a point estimate has none"
        )
    return PointRoot(concentration)


def warn_of_point(component: str) -> None:
    """Said when a prior with a point estimate of its root is made."""
    message = (
        f"the bound of a point estimate rises with every empty {component}: it cannot choose their "
        "number; use root='beta'"
    )
    warnings.warn(message, StickbreakWarning, stacklevel=4)
