"""Priors of topics for samplers, whose words have labels in the place of shares.

Given labels, a document's shares are integrated out: what it adds to the log joint is the
probability of its labels, a Dirichlet-multinomial, which the structure computes where the
document's counts are. The root of an HDP is drawn in its weak limit,

    b ~ Dirichlet(top_concentration / K, ...),   pi_d ~ Dirichlet(concentration b),

given how many words of each document took their topic from the root, not from an earlier word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields, Summary, draw_log_dirichlet

from .document_counts import DocumentCounts, TopicPseudo

__all__ = ["LabeledTopics", "WeakLimitTopics"]


class LabelCounts(DocumentCounts):
    """Counts of documents with labels.

    log_labels : log probability of all labels, given the root that they were drawn with
    """

    def held(self) -> Self:
        """The prior itself: nothing is learned."""
        return self

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted; E[log pi] for readers, who see no labels."""
        return {**super().fields(axis), "log_labels": Field((), nonnegative=False)}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {**super().zeros(n_components), "log_labels": np.zeros(())}

    def bound(self, total: Summary, params: Fields) -> float:
        """The prior's part of the log joint: the log probability of the labels."""
        return float(total["log_labels"])


@dataclass(frozen=True, eq=False)
class LabeledTopics(LabelCounts):
    """The prior that samplers use for `DirichletTopics`, and for prior counts of each topic.

    concentration : a number for all topics, or one for each
    """

    concentration: Any = 0.1

    def concentration_at(self, params: Fields) -> float:
        """The topics' prior count; the mean, if they differ."""
        return float(np.mean(self.concentration))

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,)."""
        return TopicPseudo(np.array(np.broadcast_to(self.concentration, n_components)), 0.0)


@dataclass(frozen=True, eq=False)
class WeakLimitTopics(LabelCounts):
    """The prior that samplers use for `HDPTopics`: same numbers, K root shares that sum to one.

    tables (K,) : words of all documents that took their topic from the root
    root : the `root` of the `HDPTopics` that this is the limit of
    """

    concentration: float = 0.5
    top_concentration: float = 10.0
    root: str = "beta"

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {**super().fields(axis), "tables": Field((axis,))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {**super().zeros(n_components), "tables": np.zeros(n_components)}

    def start(self, n_components: int, axis: str) -> Fields:
        """Root (K,): equal shares."""
        return Fields({"root": Field((axis,))}, {"root": np.full(n_components, 1.0 / n_components)})

    def shares(self, params: Fields) -> Array:
        """(K,) the root's shares, normalized: an HDP's start may leave mass for unused topics."""
        return np.asarray(params["root"] / params["root"].sum())

    def top(self, counts: Summary, params: Fields) -> float:
        """The given concentration of the root."""
        return self.top_concentration

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,); there is no unused mass."""
        return TopicPseudo(self.concentration * self.shares(params), 0.0)

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """A root drawn given the tables."""
        asked = total["tables"] + self.top_concentration / len(total["tables"])
        root = np.exp(draw_log_dirichlet(asked, None, rng))
        # A share of exactly 0 would make a topic impossible.
        return replace(
            params, arrays={**params.arrays, "root": np.maximum(root, np.finfo(float).tiny)}
        )
