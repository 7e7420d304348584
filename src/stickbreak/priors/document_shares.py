"""Shares of topics in documents: each document has a Dirichlet of its own around shares that all
have in common.

    pi_d ~ Dirichlet(concentration b)

with b uniform (LDA), or from the root of an HDP. What a corpus has to remember of its documents'
posteriors is the sum of their E[log pi]: the bound is linear in it, and a better root is a function
of it [H16, 5.3].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields, Summary

from .base import BasePrior
from .concentration import GammaPrior
from .learned_points import check_concentration, learn_point, log_density
from .root import Root, TopicGroups, linear_term, make_root, warn_of_point

__all__ = ["DirichletTopics", "HDPTopics", "TopicPseudo"]


class TopicPseudo(NamedTuple):
    """Prior counts of a document: of each topic (K,), and of all that are not in use (0 where there
    are none).
    """

    topics: Array
    rest: float


class DocumentCounts(BasePrior):
    """share (K,): words of each topic; log_share (K,), log_rest: sum over documents of
    E[log pi].
    """

    concentration: float | GammaPrior

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {
            "share": Field((axis,)),
            "log_share": Field((axis,), nonnegative=False, merge="tracked"),
            "log_rest": Field((), nonnegative=False),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {
            "share": np.zeros(n_components),
            "log_share": np.zeros(n_components),
            "log_rest": np.zeros(()),
        }

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts of every document."""
        raise NotImplementedError

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of what is learned as a point, and stored."""
        return ("concentration",) if isinstance(self.concentration, GammaPrior) else ()

    def concentration_at(self, params: Fields) -> float:
        """The documents' concentration: known, or as learned so far."""
        return float(params["concentration"] if self.learned else self.concentration)  # type: ignore[arg-type]

    def _start_learned(self) -> tuple[dict[str, Field], dict[str, Array]]:
        begun = {name: np.array(getattr(self, name).mean) for name in self.learned}
        return {name: Field(()) for name in self.learned}, begun

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Prior counts, which a document adds its own to: the same under every rule, since
        documents keep their posteriors.
        """
        pseudo = self.pseudo(params, len(counts["share"]))
        return {"pseudo": pseudo.topics, "rest": pseudo.rest}

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Prior counts, unused mass left out."""
        return {"pseudo": self.pseudo(params, len(counts["share"])).topics, "rest": 0.0}

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM's objective: documents keep their posteriors, so the same as for variational Bayes."""
        return self.bound(total, params)

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected words of each topic."""
        return np.asarray(counts["share"])

    def of_sizes(self, sizes: Array) -> dict[str, Array]:
        """Share (K,)."""
        return {"share": sizes}


@dataclass(frozen=True, eq=False)
class DirichletTopics(DocumentCounts):
    """A finite number of topics, all alike before any document is seen: the prior of latent
    Dirichlet allocation.

    concentration : prior count of each topic in a document. A GammaPrior: learned, as the point
        that makes the bound plus the log prior density (of the log) largest
    """

    concentration: float | GammaPrior = 0.1

    def __post_init__(self) -> None:
        check_concentration("concentration", self.concentration)

    def start(self, n_components: int, axis: str) -> Fields:
        """What is learned, which begins at its prior mean."""
        return Fields(*self._start_learned())

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,), all the same."""
        return TopicPseudo(np.full(n_components, self.concentration_at(params)), 0.0)

    def update(self, total: Summary, params: Fields) -> Fields:
        """A better concentration, where it is learned."""
        for name in self.learned:
            params = learn_point(name, lambda at: self.bound(total, at), params)
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """Sum over documents of E[log p(pi)], and the log prior density of what is learned."""
        pseudo = self.pseudo(params, len(total["share"])).topics
        normalizer = float(gammaln(pseudo.sum()) - gammaln(pseudo).sum())
        learned = sum(
            log_density(getattr(self, name), float(params[name])) for name in self.learned
        )
        return float(pseudo @ total["log_share"]) + total.n_units * normalizer + learned

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) shares of all words, with the prior counts of one document added."""
        held = counts["share"] + self.concentration_at(params)
        return np.asarray(held / held.sum())


@dataclass(frozen=True, eq=False)
class HDPTopics(DocumentCounts):
    """Topics without a limit: documents are centered on the shares of one root.

    concentration : of documents around the root's shares; small values give documents of few
        topics. May be a GammaPrior
    top_concentration : of the root's sticks; large values expect many topics. May be a GammaPrior
    root, precision : as for HDPRows
    """

    concentration: float | GammaPrior = 0.5
    top_concentration: float | GammaPrior = 10.0
    root: str = "beta"
    precision: str = "rule"

    def __post_init__(self) -> None:
        for name in ("concentration", "top_concentration"):
            check_concentration(name, getattr(self, name))
        self._root()  # checks root and precision
        if self.root == "point":
            warn_of_point("topic")

    def _root(self) -> Root:
        return make_root(self.root, self.top_concentration, self.precision)

    def _groups(self, n_units: float, params: Fields) -> TopicGroups:
        numbers = np.zeros(len(params["root"]) + 1)
        numbers[-1] = n_units
        return TopicGroups(self.concentration_at(params), numbers)

    def start(self, n_components: int, axis: str) -> Fields:
        """Root (K,) mean shares, what they leave to one is unused; and what is learned."""
        layout, begun = self._start_learned()
        return Fields(
            {"root": Field((axis,)), **layout},
            {"root": np.full(n_components, 1.0 / (n_components + 1)), **begun},
        )

    def top(self, counts: Summary, params: Fields) -> float | GammaPrior:
        """The root's concentration: as given, or its posterior where it is learned."""
        return self._root().top(params["root"], self._groups(counts.n_units, params))

    def shares(self, params: Fields) -> Array:
        """(K + 1,) the root's mean shares, unused mass last."""
        return self._root().shares(params["root"])

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,), unused mass apart."""
        counts = self.concentration_at(params) * self.shares(params)
        return TopicPseudo(counts[:-1], float(counts[-1]))

    def update(self, total: Summary, params: Fields) -> Fields:
        """A better root, then a better concentration where that is learned; each is kept only if it
        raises the bound.
        """
        if total.n_units > 0:
            slope = self.concentration_at(params) * np.append(total["log_share"], total["log_rest"])
            root = self._root().solve(
                params["root"], self._groups(total.n_units, params), lambda b: linear_term(slope, b)
            )
            params = replace(params, arrays={**params.arrays, "root": root})
        for name in self.learned:
            params = learn_point(name, lambda at: self.bound(total, at), params)
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """The root's part with the documents' normalizers, their E[log pi], and the log prior
        density of what is learned.
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

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) shares of all words, with the prior counts of one document added."""
        pseudo = self.pseudo(params, len(counts["share"]))
        held = counts["share"] + pseudo.topics
        return np.asarray(held / (held.sum() + pseudo.rest))
