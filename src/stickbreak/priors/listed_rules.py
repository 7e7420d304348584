"""The tables of a grammar whose rules are listed, with subtypes of its symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, logsumexp, xlogy

from stickbreak.data import Listing
from stickbreak.kernels.annotation.sweeps import RuleGroups
from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields, Summary, log_gamma_draws, log_gamma_rise

from .base import BasePrior

__all__ = ["ListedRules"]

NAMES = ("root", "binary_rule", "unary_rule", "word_rule")
COARSE = "coarse_"  # before the names of tables without subtypes


@dataclass(frozen=True, eq=False)
class ListedRules(BasePrior):
    """A Dirichlet for each symbol and subtype, over the listed rules and the subtypes of children.

    root (R, H), binary_rule (B, H, H, H), unary_rule (U, H, H), word_rule (L, H): the symbol of the
    whole with its subtype; and of every rule the subtypes of parent and children. All rules of a
    parent and its subtype share one Dirichlet.

    listing : the rules
    concentration, word_concentration, root_concentration : prior count of each entry of rules, of
        words, and of root. Near zero, the modes (EM) are maximum likelihood.
    """

    listing: Listing
    concentration: float = 0.01
    word_concentration: float = 0.01
    root_concentration: float = 0.1

    def __post_init__(self) -> None:
        require_prior_count(
            concentration=self.concentration,
            word_concentration=self.word_concentration,
            root_concentration=self.root_concentration,
        )

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {
            "root": Field((None, axis)),
            "binary_rule": Field((None, axis, axis, axis)),
            "unary_rule": Field((None, axis, axis)),
            "word_rule": Field((None, axis)),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        H, found = n_components, self.listing
        sizes = {
            "root": (len(found.tops), H),
            "binary_rule": (len(found.binary), H, H, H),
            "unary_rule": (len(found.unary), H, H),
            "word_rule": (len(found.emits), H),
        }
        return {name: np.zeros(size) for name, size in sizes.items()}

    def sizes(self, counts: Counts) -> Array:
        """(H,) expected nodes of each subtype."""
        rules = counts["binary_rule"].sum((0, 2, 3)) + counts["unary_rule"].sum((0, 2))
        return np.asarray(rules + counts["word_rule"].sum(0))

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(H,) shares of all nodes."""
        held = self.sizes(counts) + float(self.concentration)
        return np.asarray(held / held.sum())

    # ------------------------------------------------------------------------------ tables

    def pseudo(self, params: Fields, n_components: int) -> RuleGroups:
        """Parents of rules, and prior counts."""
        found, H = self.listing, n_components
        n_symbols = len(found.symbols)
        of_rules = H * H * np.bincount(found.binary[:, 0], minlength=n_symbols)
        of_rules = of_rules + H * np.bincount(found.unary[:, 0], minlength=n_symbols)
        of_words = np.bincount(found.emits[:, 0], minlength=n_symbols)
        prior = float(self.concentration) * of_rules + float(self.word_concentration) * of_words
        binary, unary, emit = (
            np.ascontiguousarray(table[:, 0]) for table in (found.binary, found.unary, found.emits)
        )
        return RuleGroups(
            binary, unary, emit, float(self.concentration), float(self.word_concentration),
            float(self.root_concentration), prior,
        )  # fmt: skip

    def _rows(self, counts: Counts) -> tuple[dict[str, Array], Array, float]:
        """Counts with prior counts; their sums (S, H) by parent and subtype; that of roots."""
        H = counts["root"].shape[1]
        groups = self.pseudo(Fields({}, {}), H)
        alpha = {
            "root": counts["root"] + groups.root_prior,
            "binary_rule": counts["binary_rule"] + groups.rule_prior,
            "unary_rule": counts["unary_rule"] + groups.rule_prior,
            "word_rule": counts["word_rule"] + groups.word_prior,
        }
        totals = self.totals(counts) + groups.prior[:, None]
        return alpha, totals, float(alpha["root"].sum())

    def totals(self, counts: Counts) -> Array:
        """(S, H) counts of all rules of each symbol and subtype."""
        found, H = self.listing, counts["root"].shape[1]
        totals = np.zeros((len(found.symbols), H))
        np.add.at(totals, found.binary[:, 0], counts["binary_rule"].sum((2, 3)))
        np.add.at(totals, found.unary[:, 0], counts["unary_rule"].sum(2))
        np.add.at(totals, found.emits[:, 0], counts["word_rule"])
        return totals

    def _over_totals(self, alpha: Mapping[str, Array], log_of: Any, below: Array, root: Any) -> Any:
        """log_of(entries) - below of their parents."""
        found = self.listing
        return {
            "root": log_of(alpha["root"]) - root,
            "binary_rule": log_of(alpha["binary_rule"]) - below[found.binary[:, 0], :, None, None],
            "unary_rule": log_of(alpha["unary_rule"]) - below[found.unary[:, 0], :, None],
            "word_rule": log_of(alpha["word_rule"]) - below[found.emits[:, 0]],
        }

    def mean_log(self, counts: Counts) -> dict[str, Array]:
        """E[log probability] of every entry."""
        alpha, totals, root = self._rows(counts)
        return dict(self._over_totals(alpha, digamma, _at_parents(digamma, totals), digamma(root)))

    def log_mean(self, counts: Counts) -> dict[str, Array]:
        """Log E[probability] of every entry."""
        alpha, totals, root = self._rows(counts)
        return dict(self._over_totals(alpha, np.log, _at_parents(np.log, totals), np.log(root)))

    mode = log_mean

    def draw(self, counts: Counts, rng: np.random.Generator) -> dict[str, Array]:
        """Logs of probabilities drawn from the posterior: gamma draws over their sums."""
        alpha = self._rows(counts)[0]
        logs = {name: log_gamma_draws(table, rng) for name, table in alpha.items()}
        sums = np.full((len(self.listing.symbols), counts["root"].shape[1]), -np.inf)
        for name, rules in (
            ("binary_rule", self.listing.binary),
            ("unary_rule", self.listing.unary),
            ("word_rule", self.listing.emits),
        ):
            if len(rules):
                below = logsumexp(logs[name].reshape(*logs[name].shape[:2], -1), axis=2)
                np.logaddexp.at(sums, rules[:, 0], below)
        return dict(self._over_totals(logs, np.asarray, sums, logsumexp(logs["root"])))

    def _coarse(self, counts: Counts) -> dict[str, Array]:
        """The logs of expected rules without subtypes, which prune charts."""
        summed = {
            name: counts[name].sum(tuple(range(1, counts[name].ndim)), keepdims=True)
            for name in NAMES
        }
        found = self.log_mean(summed)
        return {COARSE + name: table.reshape(-1) for name, table in found.items()}

    # ------------------------------------------------------------------------------ potentials

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Log potentials of every entry, and of rules without subtypes."""
        return {**rule.pick(self)(counts), **self._coarse(counts)}

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Logs of expected entries, and of rules without subtypes."""
        return {**self.log_mean(counts), **self._coarse(counts)}

    def log_rise(self, total: Counts, params: Fields) -> float:
        """Log-partitions of the posteriors minus those of the priors."""
        groups = self.pseudo(params, total["root"].shape[1])
        priors = (groups.root_prior, groups.rule_prior, groups.rule_prior, groups.word_prior)
        each = sum(
            float(log_gamma_rise(np.full(total[name].shape, prior), total[name]).sum())
            for name, prior in zip(NAMES, priors, strict=True)
        )
        held, roots = self.totals(total), total["root"]
        is_parent = groups.prior > 0
        prior = np.broadcast_to(groups.prior[is_parent, None], held[is_parent].shape)
        below = float(log_gamma_rise(prior, held[is_parent]).sum())
        of_roots = np.array([groups.root_prior * roots.size])
        return each - below - float(log_gamma_rise(of_roots, np.array([roots.sum()]))[0])

    def bound(self, total: Summary, params: Fields) -> float:
        """Log-partitions of the posteriors minus those of the priors."""
        return self.log_rise(total, params)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Sum (count + pseudo) log probability at the mode."""
        alpha, totals, root = self._rows(total)
        each = sum(float(xlogy(table, table).sum()) for table in alpha.values())
        return each - float(xlogy(totals, totals).sum()) - float(xlogy(root, root))


def _at_parents(log_of: Any, totals: Array) -> Array:
    """log_of(totals); zero of symbols that are no parent."""
    return np.asarray(np.where(totals > 0, log_of(np.where(totals > 0, totals, 1.0)), 0.0))
