"""Rules of a grammar around one root by expected table counts: for collapsed inference.

    root row ~ Dirichlet process(r, b),   row of a category ~ Dirichlet process(c, b b'),
    u_k ~ Beta(1, top),   b_k = u_k prod_{l<k} (1 - u_l)

Rows are integrated out, as in `tables.py`. A table of the pair (a, b) took its target from the root
twice, a and b, so that with Beta posteriors of the sticks

    prior counts  c G_a G_b,   G_k = exp(E[log b_k]):   E[log b_a b_b] = E[log b_a] + E[log b_b]
    ones_k        1 + tables with k as left child + those with k as right child + those of the root

and a table of the pair (k, k) counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Field, Fields, Summary
from stickbreak.stats.expected_tables import N_INNER, best_concentration, expected_tables

from .dirichlet import ROWS
from .learned_points import check_concentration
from .rule_tables import Table
from .rules import GrammarTables
from .tables import LEAST_SHARE, StickPosteriors, TableRoot, expected_rise, log_rise_below

__all__ = ["TableRules"]

AS_USUAL = TableRoot()
LOGS = ("log_absent_root", "log_absent", "log_absent_row")


@dataclass(frozen=True, eq=False)
class TableRules(GrammarTables):
    """The prior of a grammar that finds its number of categories, under collapsed inference.

    concentration, root_concentration, top_concentration : of rules, of the root row and of the
        root's sticks; learned from these values on, unless root says that they stay. The first two
        do not become larger than given.
    kind_concentration : prior count of emitting, and of splitting
    root : what is learned; only independent existence

    Counted besides: log_absent (K, K, K), the sum over sentences of log q(rule not used),
    log_absent_row (K,), of q(category never splits), and log_absent_root (K,).

    Stored: root (K,), the shares G; tables (K,), expected tables of each category; concentration,
    root_concentration, top.
    """

    concentration: float = 1.0
    root_concentration: float = 1.0
    top_concentration: float = 1.0
    kind_concentration: float = 1.0
    root: TableRoot = AS_USUAL

    draws = False

    def __post_init__(self) -> None:
        for name in ("concentration", "root_concentration", "top_concentration"):
            check_concentration(name, getattr(self, name))
        require_prior_count(kind_concentration=self.kind_concentration)
        self.root.check()
        if self.root.existence != "independent":
            raise ValueError(
                f"existence={self.root.existence!r} is for hidden Markov models; grammars have "
                "existence='independent' only"
            )

    def for_draws(self) -> Never:
        """The root of a grammar is not drawn."""
        raise ValueError("samplers draw no root of a grammar; use PCFG, or another engine")

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted; logs of probabilities are below zero."""
        return {
            **super().fields(axis),
            "log_absent_root": Field((axis,), nonnegative=False),
            "log_absent": Field((axis, axis, axis), nonnegative=False),
            "log_absent_row": Field((axis,), nonnegative=False),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        K = n_components
        shapes = dict(zip(LOGS, ((K,), (K, K, K), (K,)), strict=True))
        return {**super().zeros(K), **{name: np.zeros(shape) for name, shape in shapes.items()}}

    def start(self, n_components: int, axis: str) -> Fields:
        """Equal shares, of the categories and of the rest; no tables yet."""
        K = n_components
        numbers = {
            "concentration": self.concentration,
            "root_concentration": self.root_concentration,
            "top": self.top_concentration,
        }
        layout = {"root": Field((axis,)), "tables": Field((axis,))}
        layout |= {name: Field(()) for name in numbers}
        arrays = {"root": np.full(K, 1.0 / (K + 1)), "tables": np.zeros(K)}
        return Fields(layout, arrays | {n: np.array(float(v)) for n, v in numbers.items()})

    def tables(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """Prior counts, with the unused mass separate."""
        K, shares = n_components, np.maximum(params["root"], LEAST_SHARE)
        c, r, used = (
            float(params["concentration"]),
            float(params["root_concentration"]),
            shares.sum(),
        )
        pairs = np.maximum(c * np.outer(shares, shares), LEAST_SHARE)
        rest = c * max(1.0 - float(used) ** 2, 0.0)
        return {
            "root": Table(r * shares, r * max(1.0 - float(used), 0.0)),
            "kind": Table(np.full((K, 2), float(self.kind_concentration))),
            "binary_rule": Table(np.broadcast_to(pairs, (K, K, K)), np.full(K, rest), 2),
        }

    # ------------------------------------------------------------------------------ updates

    def update(self, total: Summary, params: Fields) -> Fields:
        """Expected tables, then sticks and concentrations: none lowers `surrogate`."""
        seen, of = _Seen.of(total), self.tables(params, len(total["root"]))
        at_root = expected_tables(of["root"].pseudo, seen.roots, seen.is_root)
        pairs = expected_tables(of["binary_rule"].pseudo, seen.rules, seen.is_rule).sum(0)
        tables = at_root + pairs.sum(1) + pairs.sum(0)
        numbers = {n: float(params[n]) for n in ("concentration", "root_concentration", "top")}
        sticks = StickPosteriors.of_tables(tables, numbers["top"])
        if self.root.learns:
            for _ in range(N_INNER):
                numbers["top"] = sticks.best_top()
                sticks = StickPosteriors.of_tables(tables, numbers["top"])
            numbers["concentration"] = best_concentration(
                numbers["concentration"], self.concentration, float(pairs.sum()), seen.taken,
                seen.is_taken,
            )  # fmt: skip
            n = np.array([seen.roots.sum()])
            numbers["root_concentration"] = best_concentration(
                numbers["root_concentration"], self.root_concentration, float(at_root.sum()), n,
                np.minimum(n, 1.0),
            )  # fmt: skip
        found: dict[str, Any] = {name: np.array(value) for name, value in numbers.items()}
        found |= {"root": _shares(sticks), "tables": tables}
        return replace(params, arrays={**params.arrays, **found})

    # ------------------------------------------------------------------------------ bounds

    def surrogate(self, total: Summary, params: Fields) -> float:
        """What updates raise: the bound, with E[f(C)] taken as q f(E[C] / q), q = q(C > 0)."""
        seen, top = _Seen.of(total), float(params["top"])
        sticks = StickPosteriors.of_tables(params["tables"], top)
        of = self.tables(
            replace(params, arrays={**params.arrays, "root": _shares(sticks)}), len(seen.roots)
        )
        value = expected_rise(of["root"].pseudo, seen.roots, seen.is_root)
        value += expected_rise(of["binary_rule"].pseudo, seen.rules, seen.is_rule)
        n = seen.roots.sum()
        value -= expected_rise(params["root_concentration"], n, np.minimum(n, 1.0))
        value -= expected_rise(params["concentration"], seen.taken, seen.is_taken)
        return value + self._kinds(total) + sticks.bound(top)

    def bound(self, total: Summary, params: Fields) -> float:
        """The sticks' part, and a lower bound on the expected log probability of the rows."""
        K, top = len(total["root"]), float(params["top"])
        sticks = StickPosteriors.of_tables(params["tables"], top)
        of = self.tables(replace(params, arrays={**params.arrays, "root": _shares(sticks)}), K)
        roots, rules = total["root"][None], total["binary_rule"].reshape(K, -1)
        most = np.full(K, float(rules.sum()))
        root, rule = of["root"], of["binary_rule"]
        value = log_rise_below(roots, root.pseudo, float(root.rest or 0.0), roots.sum(1)).sum()
        rest = float(np.asarray(rule.rest)[0])
        value += log_rise_below(rules, rule.pseudo[0].ravel(), rest, most).sum()
        return float(value) + self._kinds(total) + sticks.bound(top)

    def _kinds(self, total: Counts) -> float:
        kinds = total["kind"]
        return float(ROWS.log_rise(kinds, np.full(kinds.shape, self.kind_concentration)).sum())


def _shares(sticks: StickPosteriors) -> Array:
    """(K,) G, above zero."""
    return np.asarray(np.exp(np.maximum(sticks.log_shares(), np.log(LEAST_SHARE))))


@dataclass(frozen=True)
class _Seen:
    """Expected uses, and the probability of any: roots (K,), rules (K, K, K), taken (K,) rows."""

    roots: Array
    is_root: Array
    rules: Array
    is_rule: Array
    taken: Array
    is_taken: Array

    @staticmethod
    def of(counts: Counts) -> _Seen:
        """From counts; at least one use is expected where there is one."""
        roots, rules = counts["root"], counts["binary_rule"]
        taken = rules.sum((1, 2))

        def present(name: str, uses: Array) -> Array:
            return np.minimum(-np.expm1(np.minimum(counts[name], 0.0)), uses)

        return _Seen(
            roots, present("log_absent_root", roots), rules, present("log_absent", rules), taken,
            present("log_absent_row", taken),
        )  # fmt: skip
