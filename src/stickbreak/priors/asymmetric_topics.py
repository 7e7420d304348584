"""Shares of topics in documents, each topic with a prior count of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields, Summary

from .document_counts import DocumentCounts, TopicPseudo
from .labeled_topics import LabeledTopics
from .learned_points import MOST

__all__ = ["AUTO", "AsymmetricTopics"]

AUTO = "auto"
FIRST = 0.1  # prior count that each topic begins with, where they are learned
LEAST = 1e-3  # smallest learned one: below it a document cannot come by the topic
N_STEPS = 20  # of Newton's method, for each update


@dataclass(frozen=True, eq=False)
class AsymmetricTopics(DocumentCounts):
    """pi_d ~ Dirichlet(a), a (K,): some topics are expected in more documents than others.

    concentration : a, given; or "auto": learned as the point that maximizes the bound
    """

    concentration: Any = AUTO

    def __post_init__(self) -> None:
        if isinstance(self.concentration, str):
            if self.concentration != AUTO:
                raise ValueError(
                    f'concentration must be a number, one for each topic, or "{AUTO}"; got '
                    f"{self.concentration!r}"
                )
            return
        values = np.asarray(self.concentration, dtype=float)
        if values.ndim != 1 or not len(values):
            raise ValueError(
                f"concentration must have one number for each topic; got the shape {values.shape}"
            )
        for value in values:
            require_prior_count(most=MOST, concentration=float(value))

    @property
    def _given(self) -> Sequence[float] | None:
        return None if isinstance(self.concentration, str) else self.concentration

    def for_draws(self) -> LabeledTopics:
        """Raise ValueError: samplers have one number for all topics."""
        raise ValueError(
            f"samplers take one concentration for all topics; got {self.concentration!r}: give a "
            "number, or use a variational engine such as BatchVB"
        )

    def start(self, n_components: int, axis: str) -> Fields:
        """Prior counts (K,): the given ones, or all the same."""
        counts = np.full(n_components, FIRST)
        if self._given is not None:
            counts = np.array(self._given, dtype=float)
            if len(counts) != n_components:
                raise ValueError(
                    f"concentration has {len(counts)} numbers for {n_components} topics; give "
                    "one for each"
                )
        return Fields({"pseudo": Field((axis,))}, {"pseudo": counts})

    def concentration_at(self, params: Fields) -> float:
        """The mean of the topics' prior counts."""
        return float(np.mean(params["pseudo"]))

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,)."""
        return TopicPseudo(np.maximum(params["pseudo"], LEAST), 0.0)

    def update(self, total: Summary, params: Fields) -> Fields:
        """Better prior counts, if they are learned."""
        if self._given is not None or total.n_units <= 0:
            return params
        before = self.pseudo(params, len(total["share"])).topics
        found = fit_dirichlet(np.asarray(total["log_share"]) / total.n_units, before)
        better = replace(params, arrays={**params.arrays, "pseudo": found})
        return better if self.bound(total, better) > self.bound(total, params) else params

    def bound(self, total: Summary, params: Fields) -> float:
        """Sum over documents of E[log p(pi)]."""
        pseudo = self.pseudo(params, len(total["share"])).topics
        return float(pseudo @ total["log_share"]) + total.n_units * _log_normalizer(pseudo)


def _log_normalizer(pseudo: Array) -> float:
    return float(gammaln(pseudo.sum()) - gammaln(pseudo).sum())


def fit_dirichlet(log_share: Array, start: Array) -> Array:
    """The counts (K,) of the Dirichlet under which mean log shares (K,) are most probable.

    Newton's method, whose matrix is diagonal but for a constant [Minka 2000]; concave, so a step
    that does not gain is halved. Counts stay between `LEAST` and `MOST`.
    """
    counts = np.array(start, dtype=float)
    value = counts @ log_share + _log_normalizer(counts)
    for _ in range(N_STEPS):
        slope = digamma(counts.sum()) - digamma(counts) + log_share
        curve, common = -polygamma(1, counts), polygamma(1, counts.sum())
        shift = (slope / curve).sum() / (1.0 / common + (1.0 / curve).sum())
        step, size, before = -(slope - shift) / curve, 1.0, value
        while size > 1e-6:
            trial = np.clip(counts + size * step, np.maximum(LEAST, counts / 10), MOST)
            found = float(trial @ log_share + _log_normalizer(trial))
            if found > value:
                counts, value = trial, found
                break
            size /= 2
        if value - before < 1e-10 * max(1.0, abs(value)):
            break
    return counts
