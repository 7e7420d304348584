"""Rows of an HDP hidden Markov model by expected table counts: for collapsed inference.

    u_k ~ Beta(1, top),   b_k = u_k prod_{l<k} (1 - u_l),   every row ~ Dirichlet process(c, b)

The start row is one of the rows. They are integrated out, and s_jk, the tables of a Chinese
restaurant, say how many of the steps C_jk from j to k took their target from the root:

    p(z, s | b)  =  prod_j Gamma(c) / Gamma(c + C_j) prod_k [C_jk, s_jk] (c b_k)**s_jk

with Stirling numbers of the first kind. With Beta posteriors of the sticks u, and q(s | z) at its
optimum, rows have prior counts c G_k, G_k = exp(E[log b_k]). These sum to less than c: what is
missing is for states that are not in use [W16, 5.3].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, digamma

from stickbreak.parameters import Parameters, require_whole
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields, Summary, log_gamma_rise
from stickbreak.stats.expected_tables import (
    LEAST,
    N_INNER,
    RARE,
    best_concentration,
    expected_tables,
)

from .hdp_transitions import HDPRows
from .learned_points import MOST, check_concentration
from .root import ChainGroups
from .transitions import RowCounts, RowPseudo

__all__ = [
    "EXISTENCE", "Present", "StickPosteriors", "TableRoot", "TableRows", "expected_rise",
    "expected_tables", "log_rise_below", "table_bound",
]  # fmt: skip

EXISTENCE = ("independent", "mean-field", "exact", "sampled")
LEAST_SHARE = 1e-300  # of a state that nothing asks for: prior counts stay above zero


@dataclass(frozen=True, eq=False, repr=False)
class TableRoot(Parameters):
    """Root of an `HDPHMM` or `HDPPCFG` that follows expected table counts, for collapsed inference.

    Parameters
    ----------
    existence : how the probability that some step goes from one state to another is found, of
        which table counts depend: "independent" (as if steps were independent of each other; fast),
        "mean-field" (as if states were), "exact" (its time grows with the fourth power of the
        number of states) or "sampled" (from drawn paths). Grammars have the first only.
    n_draws : paths drawn of every sequence, if it is "sampled".
    learns : whether the two concentrations are learned; if not, they stay as given. That of the
        rows does not become larger than given: rows that begin alike would stay so.

    Examples
    --------
    >>> import stickbreak as sb
    >>> model = sb.HDPHMM(10, family="categorical", root=sb.TableRoot(existence="exact"))
    """

    existence: str = "independent"
    n_draws: int = 20
    learns: bool = True

    def check(self) -> None:
        """Raise ValueError for an invalid setting."""
        if self.existence not in EXISTENCE:
            raise ValueError(
                f"existence must be one of {', '.join(EXISTENCE)}; got {self.existence!r}"
            )
        require_whole(n_draws=self.n_draws)
        if not isinstance(self.learns, bool):
            raise ValueError(f"learns must be True or False; got {self.learns!r}")


class StickPosteriors(NamedTuple):
    """q(u_k) = Beta(ones_k, zeros_k): 1 + tables of k, and top + tables of all later states."""

    ones: Array
    zeros: Array

    @staticmethod
    def of_tables(tables: Array, top: float) -> StickPosteriors:
        """The best posterior, given expected tables (K,)."""
        later = tables[::-1].cumsum()[::-1]
        return StickPosteriors(1.0 + tables, top + np.append(later[1:], 0.0))

    def log_shares(self) -> Array:
        """(K,) E[log b_k]."""
        stop, go_on = self._logs()
        return np.asarray(stop + np.append(0.0, go_on.cumsum()[:-1]))

    def best_top(self) -> float:
        """The concentration that these sticks make most probable."""
        passed = digamma(self.ones + self.zeros) - digamma(self.zeros)
        return float(np.clip(len(self.ones) / passed.sum(), LEAST, MOST))

    def bound(self, top: float) -> float:
        """E[log p(u) / q(u)]."""
        stop, go_on = self._logs()
        own = betaln(self.ones, self.zeros) - (self.ones - 1.0) * stop
        return float((own + np.log(top) + (top - self.zeros) * go_on).sum())

    def _logs(self) -> tuple[Array, Array]:
        both = digamma(self.ones + self.zeros)
        return digamma(self.ones) - both, digamma(self.zeros) - both


class Present(NamedTuple):
    """Expected steps, and the probability that there is one.

    steps, is_step (K + 1, K) : of each entry, start row first
    taken, is_taken (K + 1,) : of each row
    """

    steps: Array
    is_step: Array
    taken: Array
    is_taken: Array

    @staticmethod
    def of(counts: Counts) -> Present:
        """From counts. At least one step is expected where there is one, so q(step) <= E[steps]."""
        steps = np.vstack([counts["start"], counts["transition"]])
        absent = np.vstack([counts["log_absent_start"], counts["log_absent"]])
        taken = steps.sum(1)
        row = -np.expm1(np.minimum(counts["log_absent_row"], 0.0))
        return Present(
            steps,
            np.minimum(-np.expm1(np.minimum(absent, 0.0)), steps),
            taken,
            np.minimum(np.append(1.0, row), taken),
        )


def log_rise_below(steps: Array, weight: Array, rest: float, most: Array) -> Array:
    """(R,) lower bounds on E[log p(row's steps)], from expected steps (R, K).

    weight (K,), rest : prior counts, and those of states not in use
    most (R,) : steps that a row can have

    Rows are cut into choices "k, or one of those after it", least frequent first. Such a choice
    has log probability b(a, c), convex, for a steps to k and c to later ones. So E[b] is at least
    b(E[a], E[c]), and at least (1 - p) b(0, most) + p b(E[a] / p, most) for p >= q(a > 0), because
    b falls with c: the better one for steps that hardly anyone takes.
    """
    order = np.argsort(steps, axis=1, kind="stable")
    a, x = np.take_along_axis(steps, order, axis=1), weight[order]
    later = np.maximum(a[:, ::-1].cumsum(1)[:, ::-1] - a, 0.0)
    y = np.maximum(x[:, ::-1].cumsum(1)[:, ::-1] - x, 0.0) + max(rest, LEAST_SHARE)

    def choice(a: Array, c: Array) -> Array:
        return log_gamma_rise(x, a) + log_gamma_rise(y, c) - log_gamma_rise(x + y, a + c)

    p, last = np.minimum(a, 1.0), np.broadcast_to(most[:, None], a.shape)
    apart = (1.0 - p) * choice(np.zeros_like(a), last)
    apart += p * choice(a / np.maximum(p, np.finfo(float).tiny), last)
    return np.asarray(np.maximum(choice(a, later), apart).sum(1))


@dataclass(frozen=True, eq=False)
class TableRows(RowCounts):
    """The prior of an HDP hidden Markov model under collapsed inference.

    concentration : of all rows, the start row too; top_concentration : of the root's sticks. Both
        are learned from these values on, as points that make the bound largest, unless root says
        that they stay. The first does not become larger than given.
    root : how existence is found, and what is learned
    start_concentration, stickiness : as in HDPRows, but not used: must be left as they are

    Counted besides starts and steps: log_absent (K, K), the sum over sequences of log q(no step
    from row to column), log_absent_row (K,), from the row at all, and log_absent_start (K,).

    Stored: root (K,), the shares G; tables (K,), expected tables of each state; concentration, top.
    """

    draws = False

    concentration: float = 0.5
    top_concentration: float = 10.0
    root: TableRoot = TableRoot()
    start_concentration: float = HDPRows.start_concentration  # type: ignore[assignment]
    stickiness: float = 0.0

    def __post_init__(self) -> None:
        usual = TableRows.start_concentration
        if self.start_concentration != usual:
            raise ValueError(
                f"start_concentration={self.start_concentration!r} is not for root='tables': its "
                f"start row has the concentration of the others; leave it at {usual:g}"
            )
        if self.stickiness != 0:
            raise ValueError(
                f"root='tables' has no stickiness; got {self.stickiness!r}: use 0, or root='beta'"
            )
        for name in ("concentration", "top_concentration"):
            value = getattr(self, name)
            if isinstance(value, Parameters):
                raise ValueError(
                    f"root='tables' learns {name} from a number on, without a prior; got {value!r}"
                )
            check_concentration(name, value)
        self.root.check()

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted; logs of probabilities are below zero."""
        return {
            **super().fields(axis),
            "log_absent": Field((axis, axis), nonnegative=False, per="pair"),
            "log_absent_row": Field((axis,), nonnegative=False, per="pair"),
            "log_absent_start": Field((axis,), nonnegative=False, per="unit"),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        K = n_components
        logs = {"log_absent": (K, K), "log_absent_row": (K,), "log_absent_start": (K,)}
        return {**super().zeros(K), **{name: np.zeros(shape) for name, shape in logs.items()}}

    def start(self, n_components: int, axis: str) -> Fields:
        """Equal shares, of the states and of the rest; no tables yet."""
        K = n_components
        layout = {"root": Field((axis,)), "tables": Field((axis,))}
        numbers = {"concentration": self.concentration, "top": self.top_concentration}
        arrays = {"root": np.full(K, 1.0 / (K + 1)), "tables": np.zeros(K)}
        layout |= {name: Field(()) for name in numbers}
        return Fields(layout, arrays | {n: np.array(float(v)) for n, v in numbers.items()})

    def concentrations(self, params: Fields) -> ChainGroups:
        """The concentration of all rows, learned so far."""
        c = float(params["concentration"])
        return ChainGroups(c, c)

    def top(self, counts: Summary, params: Fields) -> float:
        """The root's concentration, learned so far."""
        return float(params["top"])

    def pseudo(self, params: Fields, n_components: int) -> RowPseudo:
        """Prior counts of all rows, with the unused mass separate."""
        c, shares = float(params["concentration"]), np.maximum(params["root"], LEAST_SHARE)
        rest = c * max(1.0 - float(shares.sum()), 0.0)
        rows = np.tile(c * shares, (n_components, 1))
        return RowPseudo(c * shares, rows, rest, np.full(n_components, rest))

    def update(self, total: Summary, params: Fields) -> Fields:
        """Expected tables, then sticks and concentrations: none lowers `surrogate`."""
        seen, c, top = Present.of(total), float(params["concentration"]), float(params["top"])
        weight = c * np.maximum(params["root"], LEAST_SHARE)
        tables = expected_tables(weight, seen.steps, seen.is_step)
        by_state = tables.sum(0)
        sticks = StickPosteriors.of_tables(by_state, top)
        if self.root.learns:
            for _ in range(N_INNER):
                top = sticks.best_top()
                sticks = StickPosteriors.of_tables(by_state, top)
            most, n_tables = self.concentration, float(by_state.sum())
            c = best_concentration(c, most, n_tables, seen.taken, seen.is_taken)
        shares = np.exp(np.maximum(sticks.log_shares(), np.log(LEAST_SHARE)))
        numbers = {"concentration": np.array(c), "top": np.array(top)}
        return replace(
            params, arrays={**params.arrays, "root": shares, "tables": by_state, **numbers}
        )

    def surrogate(self, total: Summary, params: Fields) -> float:
        """What updates raise: the bound, with E[f(C)] taken as q f(E[C] / q), q = q(C > 0).

        That is a lower bound for the entries of rows, but an upper one for their totals.
        """
        seen, c = Present.of(total), float(params["concentration"])
        sticks = StickPosteriors.of_tables(params["tables"], float(params["top"]))
        return table_bound(seen, sticks, c) + sticks.bound(float(params["top"]))

    def bound(self, total: Summary, params: Fields) -> float:
        """The sticks' part, and a lower bound on the expected log probability of the rows."""
        c, top = float(params["concentration"]), float(params["top"])
        sticks = StickPosteriors.of_tables(params["tables"], top)
        weight = c * np.exp(np.maximum(sticks.log_shares(), np.log(LEAST_SHARE)))
        steps = np.vstack([total["start"], total["transition"]])
        most = np.full(len(steps), float(total["transition"].sum()))
        most[0] = float(total["start"].sum())
        rest = c - float(weight.sum())
        return sticks.bound(top) + float(log_rise_below(steps, weight, rest, most).sum())


def table_bound(seen: Present, sticks: StickPosteriors, concentration: float) -> float:
    """Sum of q f(E / q) over the entries of all rows, less those of their totals."""
    weight = concentration * np.exp(np.maximum(sticks.log_shares(), np.log(LEAST_SHARE)))
    entries = expected_rise(weight, seen.steps, seen.is_step)
    return entries - expected_rise(concentration, seen.taken, seen.is_taken)


def expected_rise(weight: Any, steps: Any, is_step: Any) -> float:
    """Sum of q f(E / q), f(C) = log Gamma(x + C) / Gamma(x); weight x, steps E, is_step q."""
    steps, is_step = np.asarray(steps), np.asarray(is_step)
    given = np.maximum(steps / np.maximum(is_step, RARE), 1.0)
    found = np.where(is_step < RARE, steps * np.log(weight), 0.0)
    found += np.where(is_step < RARE, 0.0, is_step * log_gamma_rise(np.asarray(weight), given))
    return float(found.sum())
