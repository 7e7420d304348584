"""Counts of documents, which all priors of topics share.

Of the documents' posteriors, only the sum of E[log pi] is stored: the bound is linear in it, and it
is all that an update of the root needs [H16, 5.3].
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields, Summary

from .base import BasePrior
from .concentration import GammaPrior

__all__ = ["DocumentCounts", "TopicPseudo"]


class TopicPseudo(NamedTuple):
    """Prior counts of a document: (K,) of each topic, and the rest for topics not in use (or 0)."""

    topics: Array
    rest: float


class DocumentCounts(BasePrior):
    """Counts of documents.

    share (K,) : words of each topic
    log_share (K,), log_rest : sum over documents of E[log pi]
    """

    concentration: float | GammaPrior
    is_held: bool

    def held(self) -> Self:
        """The same prior; documents of random labels are all alike, and would be learned so."""
        return replace(self, is_held=True)  # type: ignore[type-var]

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
        """Names of the parameters that are learned as points, and stored."""
        return ("concentration",) if isinstance(self.concentration, GammaPrior) else ()

    @property
    def moving(self) -> tuple[str, ...]:
        """Those of them that an update changes."""
        return () if self.is_held else self.learned

    def concentration_at(self, params: Fields) -> float:
        """The documents' concentration: the given value, or the one learned so far."""
        return float(params["concentration"] if self.learned else self.concentration)  # type: ignore[arg-type]

    def _require_given(self, *names: str) -> None:
        """Raise ValueError if one of these numbers is to be learned: samplers draw none."""
        for name in names:
            if isinstance(getattr(self, name), GammaPrior):
                raise ValueError(
                    f"samplers draw no {name}; give a number, or use a variational engine such as "
                    "BatchVB"
                )

    def _start_learned(self) -> tuple[dict[str, Field], dict[str, Array]]:
        begun = {name: np.array(getattr(self, name).mean) for name in self.learned}
        return {name: Field(()) for name in self.learned}, begun

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Prior counts, to which each document adds its own.

        They are the same under every rule, because documents keep their posteriors.
        """
        pseudo = self.pseudo(params, len(counts["share"]))
        return {"pseudo": pseudo.topics, "rest": pseudo.rest}

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Prior counts, unused mass left out."""
        return {"pseudo": self.pseudo(params, len(counts["share"])).topics, "rest": 0.0}

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM's objective. Equals the bound, because documents keep their posteriors."""
        return self.bound(total, params)

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected words of each topic."""
        return np.asarray(counts["share"])

    def of_sizes(self, sizes: Array) -> dict[str, Array]:
        """Share (K,)."""
        return {"share": sizes}

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) shares of all words, with the prior counts of one document added."""
        pseudo = self.pseudo(params, len(counts["share"]))
        held = counts["share"] + pseudo.topics
        return np.asarray(held / (held.sum() + pseudo.rest))
