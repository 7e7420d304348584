"""Rows of a (sticky) HDP hidden Markov model: all rows are centered on the shares of one root.

    start row ~ Dirichlet(start_concentration b),   b from the root,
    row j ~ Dirichlet(concentration b + stickiness e_j)

q(row j) = Dirichlet(counts + prior counts) follows from the counts and the root, so only the root
is stored. With the rows at their optimum, the bound is a function of the root alone. `update`
climbs this function directly, instead of alternating between rows and root [H16, 6.4]. For entries
without counts the two are so strongly coupled that alternating would take dozens of laps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from stickbreak.errors import StickbreakWarning
from stickbreak.kernels.roots import polygamma_sums
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields, Summary, log_beta, log_mode_beta

from .concentration import GammaPrior
from .learned_points import check_concentration, learn_point, log_density
from .root import ChainGroups, Groups, Root, Term, make_root, trigamma, warn_of_point
from .transitions import RowCounts, RowPseudo, require_stickiness
from .weak_limit import WeakLimitRows

__all__ = ["MODES", "POSTERIORS", "HDPRows", "RowFunctions", "RowTerm"]

# Below it the surrogate bound falls like log(stickiness), for any data.
LEAST_STICKINESS = 1e-3


class RowFunctions(NamedTuple):
    """Value of rows theta = counts + prior: sum_l F(theta_l) - F(sum_l theta_l) over the last axis.

    slope, curvature : the first two derivatives of F
    sums : their sums over rows with weights (R,), squared for the curvature
    """

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    sums: Callable[[Array, Array], tuple[Array, Array]]


def _posterior_sums(theta: Array, weight: Array) -> tuple[Array, Array]:
    slope, curvature = np.empty((2, theta.shape[1]))
    polygamma_sums(theta, weight, slope, curvature)
    return slope, curvature


def _mode_sums(theta: Array, weight: Array) -> tuple[Array, Array]:
    return weight @ np.log(theta), weight**2 @ np.reciprocal(theta)


# log-partitions: variational Bayes
POSTERIORS = RowFunctions(log_beta, digamma, trigamma, _posterior_sums)
# log joint at the modes: EM
MODES = RowFunctions(log_mode_beta, np.log, np.reciprocal, _mode_sums)


@dataclass(frozen=True)
class RowTerm:
    """Contribution of the rows at their optimum (posteriors or modes), as a function of b.

    Includes all K + 1 rows, start first.
    """

    counts: Array  # (K + 1, K + 1), with stickiness; zero for the bucket of unused states
    weight: Array  # (K + 1,) concentration of each row
    total: Array  # (K + 1,) row sums of counts and prior (b sums to one)
    rows: RowFunctions

    @staticmethod
    def make(total: Counts, groups: ChainGroups, rows: RowFunctions) -> RowTerm:
        """The term of these counts."""
        K = len(total["start"])
        counts = np.zeros((K + 1, K + 1))
        counts[0, :-1], counts[1:, :-1] = total["start"], total["transition"]
        counts[1:, :-1].flat[:: K + 1] += groups.stickiness
        weight = np.append(groups.start, np.full(K, groups.rows))
        return RowTerm(counts, weight, counts.sum(1) + weight, rows)

    def __call__(self, shares: Array) -> Term:
        """Sum over rows of F(theta_l) - F(total), theta = counts + weight b."""
        theta = self.counts + np.outer(self.weight, shares)
        slope, curvature = self.rows.sums(theta, self.weight)
        return Term(self._value(theta), slope - self.of_totals, curvature)

    @cached_property
    def of_totals(self) -> float:
        """The part of the slope that is the same for every share."""
        return float(self.weight @ self.rows.slope(self.total))

    def value(self, shares: Array) -> float:
        """The value alone."""
        return self._value(self.counts + np.outer(self.weight, shares))

    def _value(self, theta: Array) -> float:
        return float(self.rows.value(theta).sum())


@dataclass(frozen=True, eq=False)
class HDPRows(RowCounts):
    """The prior of a (sticky) HDP hidden Markov model.

    concentration : of transition rows around the root's shares; small values give sparse rows that
        differ from each other
    start_concentration : of the start row
    top_concentration : of the root's sticks; large values expect many states
    stickiness : extra prior count of staying, zero or at least 1e-3
    root : "beta", a Beta posterior over sticks, whose bound can choose the number of states;
        "point", a point estimate as in older work, whose bound cannot
    precision : of the Beta posterior, see BetaRoot
    at_modes : whether updates raise EM's objective, see `for_modes`

    Each of the four numbers may be a GammaPrior, and is then learned. top_concentration has a
    posterior in closed form; the others are points that maximize the bound plus the log prior
    density (of the log). The bound includes these terms, and no update lowers it. The surrogate is
    tight only for small concentrations, so learned values above about 1 come out too small.
    """

    concentration: float | GammaPrior = 0.5
    start_concentration: float | GammaPrior = 10.0
    top_concentration: float | GammaPrior = 10.0
    stickiness: float | GammaPrior = 0.0
    root: str = "beta"
    precision: str = "rule"
    at_modes: bool = False

    def __post_init__(self) -> None:
        for name in ("concentration", "start_concentration", "top_concentration"):
            check_concentration(name, getattr(self, name))
        _check_stickiness(self.stickiness)
        self._root()  # checks root and precision
        if self.at_modes and self.learned:
            raise ValueError(
                f"EM cannot learn {', '.join(self.learned)}; give numbers, or use a variational "
                "engine such as BatchVB"
            )
        if self.root == "point":
            warn_of_point("state")

    def for_modes(self) -> HDPRows:
        """The same prior for EM: `update` raises `log_mode` instead of `bound`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StickbreakWarning)  # already raised by the original
            return replace(self, at_modes=True)

    def for_draws(self) -> WeakLimitRows:
        """The weak limit, for Gibbs: the present number of states, and a root that can be drawn."""
        if self.learned:
            raise ValueError(
                f"Gibbs draws no {', '.join(self.learned)}; give numbers, or use a "
                "variational engine such as BatchVB"
            )
        if isinstance(self.top_concentration, GammaPrior):
            raise ValueError(
                "Gibbs draws no top_concentration; give a number, or use a "
                "variational engine such as BatchVB"
            )
        names = ("concentration", "start_concentration", "top_concentration", "stickiness")
        return WeakLimitRows(**{name: float(getattr(self, name)) for name in names}, root=self.root)

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the parameters that are learned as points, and stored."""
        names = ("concentration", "start_concentration", "stickiness")
        return tuple(name for name in names if isinstance(getattr(self, name), GammaPrior))

    def _root(self) -> Root:
        return make_root(self.root, self.top_concentration, self.precision)

    def start(self, n_components: int, axis: str) -> Fields:
        """Root: mean shares (K,), the remainder is unused mass.

        Learned concentrations start at their prior means.
        """
        layout = {"root": Field((axis,)), **{name: Field(()) for name in self.learned}}
        priors = {name: getattr(self, name) for name in self.learned}
        begun = {name: np.array(max(p.mean, LEAST_STICKINESS)) for name, p in priors.items()}
        return Fields(layout, {"root": np.full(n_components, 1.0 / (n_components + 1)), **begun})

    def concentrations(self, params: Fields) -> ChainGroups:
        """The numbers of the rows' priors: given values, or those learned so far."""
        names = ("start_concentration", "concentration", "stickiness")
        return ChainGroups(
            *(float(params[n] if n in self.learned else getattr(self, n)) for n in names)
        )

    def top(self, counts: Summary, params: Fields) -> float | GammaPrior:
        """The given value, or its posterior if it is learned."""
        return self._root().top(params["root"], self._groups(params))

    def _groups(self, params: Fields) -> Groups:
        """The rows as groups below the root."""
        return self.concentrations(params)

    def _row_term(self, total: Counts, params: Fields, rows: RowFunctions) -> RowTerm:
        """What the rows contribute, as a function of the root's shares."""
        return RowTerm.make(total, self.concentrations(params), rows)

    def shares(self, params: Fields) -> Array:
        """(K + 1,) the root's mean shares, unused mass last."""
        return self._root().shares(params["root"])

    def pseudo(self, params: Fields, n_components: int) -> RowPseudo:
        """Prior counts of all rows, with the unused mass separate."""
        groups, b = self.concentrations(params), self.shares(params)
        rows = np.empty((n_components, n_components))
        rows[:] = groups.rows * b[:-1]
        rows.flat[:: n_components + 1] += groups.stickiness
        return RowPseudo(
            groups.start * b[:-1],
            rows,
            groups.start * float(b[-1]),
            np.full(n_components, groups.rows * b[-1]),
        )

    def update(self, total: Summary, params: Fields) -> Fields:
        """A better root, then better concentrations if those are learned.

        Each is kept only if it raises the objective.
        """
        functions = MODES if self.at_modes else POSTERIORS
        term = self._row_term(total, params, functions)
        root = self._root().solve(params["root"], self._groups(params), term)
        params = replace(params, arrays={**params.arrays, "root": root})
        for name in self.learned:
            least = LEAST_STICKINESS if name == "stickiness" else 0.0
            params = learn_point(name, lambda at: self.bound(total, at), params, least)
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """The root's part, the rows' log-partitions, log prior density of learned parameters."""
        return self._objective(total, params, POSTERIORS) + sum(
            log_density(getattr(self, name), float(params[name])) for name in self.learned
        )

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM's objective: the rows at their modes, for the present root."""
        if not self.at_modes:
            raise ValueError(
                "EM needs HDPRows(...).for_modes(), whose root follows EM's "
                "objective; or use BatchVB or MemoizedVB"
            )
        return self._objective(total, params, MODES)

    def _objective(self, total: Summary, params: Fields, rows: RowFunctions) -> float:
        root, term = self._root(), self._row_term(total, params, rows)
        shares = root.shares(params["root"])
        return root.bound(params["root"], self._groups(params)) + term.value(shares)


def _check_stickiness(value: Any) -> None:
    if isinstance(value, GammaPrior):
        value.check()
        return
    require_stickiness(value)
    if 0 < value < LEAST_STICKINESS:
        raise ValueError(
            f"stickiness={value!r} is too small for its bound, which falls like its log; "
            f"use 0 for none, or at least {LEAST_STICKINESS}"
        )
