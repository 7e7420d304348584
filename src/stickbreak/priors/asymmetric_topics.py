"""Shares of topics in documents, each topic with a prior count of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields, Summary

from .concentration import GammaPrior
from .document_counts import DocumentCounts, TopicPseudo
from .labeled_topics import LabeledTopics
from .learned_points import MOST

__all__ = ["AUTO", "AsymmetricTopics", "fit_dirichlet", "is_learned"]

AUTO = "auto"
FIRST = 0.1  # prior count that each topic begins with, where they are learned
LEAST = 1e-3  # smallest learned one: below it a document cannot come by the topic
N_STEPS = 20  # of Newton's method, for each update
SHRINK = 0.1  # a step leaves at least this part of a count
ENOUGH = 1e-10  # relative gain of a step that ends an update


def is_learned(concentration: object) -> bool:
    """Whether an argument asks for a concentration, or one for each topic, that is learned."""
    return isinstance(concentration, GammaPrior) or (
        isinstance(concentration, str) and concentration == AUTO
    )


@dataclass(frozen=True, eq=False)
class AsymmetricTopics(DocumentCounts):
    """pi_d ~ Dirichlet(a), a (K,): some topics are expected in more documents than others.

    concentration : a, given; or "auto": learned as the point that maximizes the bound
    is_held : whether learned counts stay as they are
    """

    concentration: Any = AUTO
    is_held: bool = False

    def __post_init__(self) -> None:
        if is_learned(self.concentration):
            return
        values = self.concentration
        if isinstance(values, str) or np.ndim(values) != 1 or not len(values):
            raise ValueError(
                f'concentration must be a number, one for each topic, or "{AUTO}"; got {values!r}'
            )
        for k, value in enumerate(values):
            require_prior_count(most=MOST, **{f"concentration[{k}]": value})
        # A tuple: nobody changes it later, and files and copies keep it as it is.
        object.__setattr__(self, "concentration", tuple(float(value) for value in values))

    def _given(self, n_components: int) -> Array:
        """The given prior counts. Raises ValueError unless there is one for each topic."""
        if len(self.concentration) != n_components:
            raise ValueError(
                f"concentration has {len(self.concentration)} numbers for {n_components} topics; "
                "give one for each"
            )
        return np.array(self.concentration)

    def for_draws(self) -> LabeledTopics:
        """The same prior, with what samplers count; they draw no prior counts."""
        if is_learned(self.concentration):
            raise ValueError(
                f'samplers draw no concentration; give numbers in the place of "{AUTO}", or use a '
                "variational engine such as BatchVB"
            )
        return LabeledTopics(self.concentration)

    def start(self, n_components: int, axis: str) -> Fields:
        """Prior counts (K,) if they are learned, at first all the same."""
        if not is_learned(self.concentration):
            self._given(n_components)
            return Fields({}, {})
        return Fields({"pseudo": Field((axis,))}, {"pseudo": np.full(n_components, FIRST)})

    def concentration_at(self, params: Fields) -> float:
        """The mean of the topics' prior counts."""
        return float(
            np.mean(params["pseudo"] if is_learned(self.concentration) else self.concentration)
        )

    def pseudo(self, params: Fields, n_components: int) -> TopicPseudo:
        """Prior counts (K,)."""
        if not is_learned(self.concentration):
            return TopicPseudo(self._given(n_components), 0.0)
        return TopicPseudo(np.clip(params["pseudo"], LEAST, MOST), 0.0)

    def update(self, total: Summary, params: Fields) -> Fields:
        """Better prior counts, if they are learned."""
        if not is_learned(self.concentration) or self.is_held or total.n_units <= 0:
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

    Newton's method, whose matrix is diagonal but for a constant [M00, 1.2]. The function is
    concave; a step that does not gain is halved. Counts stay between `LEAST` and `MOST`.
    """
    counts = np.array(start, dtype=float)
    value = float(counts @ log_share) + _log_normalizer(counts)
    for _ in range(N_STEPS):
        slope = digamma(counts.sum()) - digamma(counts) + log_share
        curve, common = -polygamma(1, counts), polygamma(1, counts.sum())
        shift = (slope / curve).sum() / (1.0 / common + (1.0 / curve).sum())
        step, size, before = -(slope - shift) / curve, 1.0, value
        while size > 1e-6:
            trial = np.clip(counts + size * step, np.maximum(LEAST, SHRINK * counts), MOST)
            found = float(trial @ log_share) + _log_normalizer(trial)
            if found > value:
                counts, value = trial, found
                break
            size /= 2
        if value - before <= ENOUGH * max(1.0, abs(value)):
            break
    return counts
