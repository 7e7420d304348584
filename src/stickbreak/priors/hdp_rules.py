"""Rules of a grammar with a hierarchical Dirichlet process: all rows are centered on one root.

    root row ~ Dirichlet(root_concentration b),   b from the root's sticks u,
    row of a category ~ Dirichlet(concentration b b')   over ordered pairs of categories

The bound needs E[b_a b_b], second moments of the sticks' Beta posteriors, which are products over
sticks of E[u^2], E[u (1 - u)], E[(1 - u)^2], E[u] and E[1 - u]. A point estimate is the case of no
variance. With the rows at their optimum the bound is a function of the sticks alone, which `update`
climbs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np
from scipy.special import digamma, expit, gammaln, logit

from stickbreak.errors import StickbreakWarning
from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields, Summary

from .hdp_transitions import MODES, POSTERIORS, RowFunctions
from .learned_points import check_concentration
from .root import BetaRoot, PointRoot, Surrogate, make_root, warn_of_point
from .root.base import share_sticks
from .rule_tables import Table
from .rules import GrammarTables

__all__ = ["HDPRules"]

EDGE = 12.0  # of a stick's logit
MOST_STEPS = 30


@dataclass(frozen=True)
class RuleGroups:
    """One root row Dirichlet(root b) and K rows Dirichlet(rules b b') of (K + 1)^2 outcomes."""

    root: float
    rules: float

    def surrogate(self, n_components: int) -> Surrogate:
        """2 K (K + 1) + 1 logs of each share: every row has 2 (K + 1), the root row one."""
        K = n_components
        each = 2.0 * K * (K + 1) + 1.0
        later = K - np.arange(K, dtype=float)  # K + 1 - k for k = 1, ..., K
        constant = K * ((K + 1) ** 2 - 1) * np.log(self.rules) + K * np.log(self.root)
        return Surrogate(np.full(K, each), each * later, np.zeros(K + 1), float(constant))


@dataclass(frozen=True)
class _Sticks:
    """Sticks (K,) in their order, and the moments that rows need. w (K,) : their precisions."""

    u: Array
    w: Array

    def factors(self) -> tuple[Array, Array]:
        """(5, K) E[(1 - u)^2], E[u (1 - u)], E[u^2], E[1 - u], E[u]; and derivatives in u."""
        u, less, part = self.u, 1.0 - self.u, 1.0 / (self.w + 1.0)
        spread, slope = u * less * part, (1.0 - 2.0 * u) * part
        values = np.array([less**2 + spread, u * less - spread, u**2 + spread, less, u])
        ones = np.ones_like(u)
        slopes = np.array(
            [-2.0 * less + slope, 1.0 - 2.0 * u - slope, 2.0 * u + slope, -ones, ones]
        )
        return values, slopes

    def pairs(self) -> tuple[Array, Array]:
        """E[b_a b_b] (K + 1, K + 1), the rest last, and the derivatives (K, K + 1, K + 1) of logs.

        Stick l takes part in the pair a <= b by E[(1 - u)^2] before a, by E[u (1 - u)] at a < b,
        E[u^2] at a = b, E[1 - u] between them, E[u] at b.
        """
        K = len(self.u)
        kinds = _kinds(K)
        values, slopes = self.factors()
        logs = np.zeros((K, K + 1, K + 1))
        rates = np.zeros((K, K + 1, K + 1))
        for kind in range(5):
            at = kinds == kind
            logs += at * np.log(values[kind])[:, None, None]
            rates += at * (slopes[kind] / values[kind])[:, None, None]
        return np.exp(logs.sum(0)), rates


def _kinds(K: int) -> Array:
    """(K, K + 1, K + 1) which factor stick l adds to the pair (a, b); 5 for none."""
    stick, a, b = np.ogrid[:K, : K + 1, : K + 1]
    first, last = np.minimum(a, b), np.maximum(a, b)
    found = np.full((K, K + 1, K + 1), 5)
    for kind, where in enumerate((
        stick < first, (stick == first) & (first < last), (stick == first) & (first == last),
        (stick > first) & (stick < last), (stick == last) & (first < last),
    )):  # fmt: skip
        found[where] = kind
    return found


@dataclass(frozen=True, eq=False)
class HDPRules(GrammarTables):
    """The prior of a grammar that finds its number of categories.

    concentration : of the rules of a category around the products of the root's shares
    root_concentration : of the root row around these shares
    top_concentration : of the root's sticks; large values expect many categories
    kind_concentration : prior count of emitting, and of splitting
    root : "beta", a Beta posterior over sticks, whose bound can choose the number of categories;
        "point", a point estimate, whose bound cannot; for tables see `TableRules`
    at_modes : whether updates raise EM's objective, see `for_modes`
    """

    concentration: float = 1.0
    root_concentration: float = 1.0
    top_concentration: float = 1.0
    kind_concentration: float = 1.0
    root: str = "beta"
    at_modes: bool = False

    draws = False

    def __post_init__(self) -> None:
        for name in ("concentration", "root_concentration", "top_concentration"):
            check_concentration(name, getattr(self, name))
        require_prior_count(kind_concentration=self.kind_concentration)
        self._root()  # checks root
        if self.root == "point":
            warn_of_point("category")

    def for_draws(self) -> Never:
        """The root of a grammar is not drawn."""
        raise ValueError("samplers draw no root of a grammar; use PCFG, or another engine")

    def for_modes(self) -> HDPRules:
        """The same prior for EM: `update` raises `log_mode` instead of `bound`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StickbreakWarning)  # already raised by the original
            return replace(self, at_modes=True)

    def _root(self) -> BetaRoot | PointRoot:
        found = make_root(self.root, float(self.top_concentration), "rule")
        assert isinstance(found, BetaRoot | PointRoot)
        return found

    @property
    def groups(self) -> RuleGroups:
        """The concentrations of the rows."""
        return RuleGroups(float(self.root_concentration), float(self.concentration))

    def start(self, n_components: int, axis: str) -> Fields:
        """Root: mean shares (K,), the remainder is unused mass."""
        shares = np.full(n_components, 1.0 / (n_components + 1))
        return Fields({"root": Field((axis,))}, {"root": shares})

    def _sticks(self, u: Array) -> _Sticks:
        """Sticks with the precisions of their posteriors; infinite for a point."""
        root = self._root()
        if isinstance(root, PointRoot):
            return _Sticks(u, np.full(len(u), np.inf))
        return _Sticks(u, root.precisions(u, self.groups.surrogate(len(u))))

    def moments(self, params: Fields) -> tuple[Array, Array]:
        """E[b] (K + 1,) and E[b_a b_b] (K + 1, K + 1), the rest last, in the order of slots."""
        u, order = self._root()._sticks(params["root"])
        pairs, _ = self._sticks(u).pairs()
        place = np.append(np.argsort(order), len(u))
        return share_sticks(u)[place], pairs[np.ix_(place, place)]

    def tables(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """Prior counts, with the unused mass separate."""
        K, groups = n_components, self.groups
        shares, pairs = self.moments(params)
        used = groups.rules * pairs[:K, :K]
        rest = groups.rules * (pairs.sum() - pairs[:K, :K].sum())
        return {
            "root": Table(groups.root * shares[:K], groups.root * float(shares[K])),
            "kind": Table(np.full((K, 2), float(self.kind_concentration))),
            "binary_rule": Table(np.broadcast_to(used, (K, K, K)), np.full(K, rest), 2),
        }

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) shares of all nodes, with the prior counts of the root row added."""
        shares = self._root().shares(params["root"])[:-1]
        held = self.sizes(counts) + float(self.root_concentration) * shares
        return np.asarray(held / held.sum())

    # ------------------------------------------------------------------------------ bounds

    def bound(self, total: Summary, params: Fields) -> float:
        """The root's part, and the rows' log-partitions."""
        return self._objective(total, params, POSTERIORS)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM's objective: the rows at their modes, for the present root."""
        return self._objective(total, params, MODES)

    def _objective(self, total: Counts, params: Fields, rows: RowFunctions) -> float:
        u, order = self._root()._sticks(params["root"])
        counts = _Counts.make(total, order)
        kinds = total["kind"] + float(self.kind_concentration)
        none = np.full(kinds.shape, float(self.kind_concentration))
        rise = rows.value(kinds).sum()
        rise -= rows.value(none).sum() if rows is POSTERIORS else 0.0
        return float(rise) + self._value(u, counts, rows)[0]

    def _value(self, u: Array, counts: _Counts, rows: RowFunctions) -> tuple[float, Array]:
        """The part of the bound that depends on the sticks, and its derivatives (K,) in them."""
        groups, root, K = self.groups, self._root(), len(u)
        own = root._own(u, groups.surrogate(K))
        sticks = self._sticks(u)
        pairs, rates = sticks.pairs()
        shares = share_sticks(u)
        theta, top = counts.rules + groups.rules * pairs, counts.root + groups.root * shares
        value = own.value + rows.value(theta.reshape(K, -1)).sum() + rows.value(top).sum()
        # totals do not depend on the sticks: pairs and shares sum to one
        drawn = groups.rules * pairs * rows.slope(theta).sum(0)
        pulled = groups.root * shares * rows.slope(top)
        if isinstance(root, PointRoot):
            prior = groups.rules * pairs
            value += K * (gammaln(groups.rules) - gammaln(prior).sum())
            value += gammaln(groups.root) - gammaln(groups.root * shares).sum()
            drawn -= K * prior * digamma(prior)
            pulled -= groups.root * shares * digamma(groups.root * shares)
        slope = own.derivatives[0] + np.tensordot(rates, drawn, 2)
        later = pulled[::-1].cumsum()[::-1][1:]
        return float(value), slope + pulled[:-1] / u - later / (1.0 - u)

    def update(self, total: Summary, params: Fields) -> Fields:
        """A better root; kept only if it raises the objective."""
        from scipy.optimize import minimize  # costs more to import than all of the rest

        rows = MODES if self.at_modes else POSTERIORS
        u, order = self._root()._sticks(params["root"])
        counts = _Counts.make(total, order)

        def below(x: Array) -> tuple[float, Array]:
            sticks = expit(x)
            value, slope = self._value(sticks, counts, rows)
            return -value, -slope * sticks * (1.0 - sticks)

        x = np.clip(logit(u), -EDGE, EDGE)
        limits = [(-EDGE, EDGE)] * len(x)
        found = minimize(
            below, x, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": MOST_STEPS}
        )
        shares = np.empty(len(u))
        shares[order] = share_sticks(expit(found.x))[:-1]
        tried = replace(params, arrays={**params.arrays, "root": shares})
        before, after = (self._objective(total, at, rows) for at in (params, tried))
        return tried if after > before else params


@dataclass(frozen=True)
class _Counts:
    """Counts in the order of the sticks, with room for what is unused.

    root (K + 1,), rules (K, K + 1, K + 1)
    """

    root: Array
    rules: Array

    @staticmethod
    def make(total: Any, order: Array) -> _Counts:
        K = len(order)
        rules = np.zeros((K, K + 1, K + 1))
        rules[:, :K, :K] = total["binary_rule"][np.ix_(order, order, order)]
        return _Counts(np.append(total["root"][order], 0.0), rules)
