"""Shares of topics in documents: one Dirichlet for each document, centered on common shares.

    pi_d ~ Dirichlet(concentration b)

The common shares b are uniform (LDA), or come from the root of an HDP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields, Summary

from .concentration import GammaPrior
from .document_counts import DocumentCounts, TopicPseudo
from .labeled_topics import LabeledTopics, WeakLimitTopics
from .learned_points import check_concentration, learn_point, log_density
from .root import Root, TopicGroups, linear_term, make_root, warn_of_point

__all__ = ["DirichletTopics", "HDPTopics"]


@dataclass(frozen=True, eq=False)
class DirichletTopics(DocumentCounts):
    """The prior of latent Dirichlet allocation: K topics, exchangeable a priori.

    concentration : prior count of each topic in a document. If a GammaPrior, it is learned as the
        point that maximizes the bound plus the log prior density (of the log)
    is_held : whether a learned one stays as it is
    """

    concentration: float | GammaPrior = 0.1
    is_held: bool = False

    def __post_init__(self) -> None:
        check_concentration("concentration", self.concentration)

    def for_draws(self) -> LabeledTopics:
        """The same prior, with what samplers count."""
        self._require_given("concentration")
        return LabeledTopics(float(self.concentration))  # type: ignore[arg-type]

    def start(self, n_components: int, axis: str) -> Fields:
        """Learned parameters, at their prior means."""
        return Fields(*self._start_learned())

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,), all the same."""
        return TopicPseudo(np.full(n_components, self.concentration_at(params)), 0.0)

    def update(self, total: Summary, params: Fields) -> Fields:
        """A better concentration, if it is learned."""
        for name in self.moving:
            params = learn_point(name, lambda at: self.bound(total, at), params)
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """Sum over documents of E[log p(pi)], plus the log prior density of learned parameters."""
        pseudo = self.pseudo(params, len(total["share"])).topics
        normalizer = float(gammaln(pseudo.sum()) - gammaln(pseudo).sum())
        learned = sum(
            log_density(getattr(self, name), float(params[name])) for name in self.learned
        )
        return float(pseudo @ total["log_share"]) + total.n_units * normalizer + learned


@dataclass(frozen=True, eq=False)
class HDPTopics(DocumentCounts):
    """Any number of topics: documents are centered on the shares of one root.

    concentration : of documents around the root's shares; small values give documents of few
        topics. May be a GammaPrior
    top_concentration : of the root's sticks; large values expect many topics. May be a GammaPrior
    root, precision : as for HDPRows
    is_held : whether a learned concentration of documents stays as it is
    """

    concentration: float | GammaPrior = 0.5
    top_concentration: float | GammaPrior = 10.0
    root: str = "beta"
    precision: str = "rule"
    is_held: bool = False

    def __post_init__(self) -> None:
        for name in ("concentration", "top_concentration"):
            check_concentration(name, getattr(self, name))
        self._root()  # checks root and precision
        if self.root == "point":
            warn_of_point("topic")

    def for_draws(self) -> WeakLimitTopics:
        """The weak limit, for samplers: the present number of topics, a root that is drawn."""
        self._require_given("concentration", "top_concentration")
        numbers = float(self.concentration), float(self.top_concentration)  # type: ignore[arg-type]
        return WeakLimitTopics(*numbers, root=self.root)

    def _root(self) -> Root:
        return make_root(self.root, self.top_concentration, self.precision)

    def _groups(self, n_units: float, params: Fields) -> TopicGroups:
        numbers = np.zeros(len(params["root"]) + 1)
        numbers[-1] = n_units
        return TopicGroups(self.concentration_at(params), numbers)

    def start(self, n_components: int, axis: str) -> Fields:
        """Root: mean shares (K,), the remainder is unused mass. Learned parameters."""
        layout, begun = self._start_learned()
        return Fields(
            {"root": Field((axis,)), **layout},
            {"root": np.full(n_components, 1.0 / (n_components + 1)), **begun},
        )

    def top(self, counts: Summary, params: Fields) -> float | GammaPrior:
        """The root's concentration: the given value, or its posterior if it is learned."""
        return self._root().top(params["root"], self._groups(counts.n_units, params))

    def shares(self, params: Fields) -> Array:
        """(K + 1,) the root's mean shares, unused mass last."""
        return self._root().shares(params["root"])

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,), with the unused mass separate."""
        counts = self.concentration_at(params) * self.shares(params)
        return TopicPseudo(counts[:-1], float(counts[-1]))

    def update(self, total: Summary, params: Fields) -> Fields:
        """A better root, then a better concentration if that is learned.

        Each is kept only if it raises the bound.
        """
        if total.n_units > 0:
            slope = self.concentration_at(params) * np.append(total["log_share"], total["log_rest"])
            root = self._root().solve(
                params["root"], self._groups(total.n_units, params), lambda b: linear_term(slope, b)
            )
            params = replace(params, arrays={**params.arrays, "root": root})
        for name in self.moving:
            params = learn_point(name, lambda at: self.bound(total, at), params)
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """The prior's part of the bound, a sum of three terms.

        The root's part with the documents' normalizers, the documents' E[log pi], and the log prior
        density of learned parameters.
        """
        own = self._root().bound(params["root"], self._groups(total.n_units, params))
        expected = self.concentration_at(params) * float(
            self.shares(params) @ np.append(total["log_share"], total["log_rest"])
        )
        return (
            own
            + expected
            + sum(log_density(getattr(self, name), float(params[name])) for name in self.learned)
        )
