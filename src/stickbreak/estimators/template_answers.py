"""What a fitted `TemplateGrammar` says of strings, and what it has learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from stickbreak.data import Companion, parse_templates
from stickbreak.inference import workers
from stickbreak.models import parse_units, share_parts
from stickbreak.priors import SlotTables
from stickbreak.reading import Rows, Stack
from stickbreak.stats import Array

from .tree_models import Rule, TreeEstimator, most_frequent

__all__ = ["Segment", "TemplateAnswers"]


class Segment(NamedTuple):
    """A segment of a string: the name of its slot, its letters, and where it begins and ends."""

    name: str
    text: Any
    begin: int
    end: int


class TemplateAnswers(TreeEstimator):
    """Segments of strings, and tables of substrings."""

    templates: str

    def predict(self, X: Rows, *, parameters: str = "fitted") -> list[list[Any]]:
        """The segments of each string: strings, or parts of what was given.

        Parameters
        ----------
        X : strings, as in `fit`. Substrings that the fit has not seen have their prior counts.
        parameters : "fitted", the potentials of the fitted rule; "mean", posterior means.
        """
        found = self.parse(X, parameters=parameters)
        return [[segment.text for segment in own] for own in found]

    def parse(
        self, X: Rows, *, method: str = "viterbi", parameters: str = "fitted"
    ) -> list[list[Segment]]:
        """The segments of each string with the names of their slots: the best segmentation.

        Parameters
        ----------
        X, parameters : as in `predict`.
        method : "viterbi".
        """
        self._check_method(method)
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            marks, _ = parse_units(fitted.model, potentials, table.whole(), pool)
        return self._trees(marks, X, table)

    def _trees(self, found: Companion, X: Any, table: Stack) -> list[list[Segment]]:
        return [
            self._segments(found.of(s), part) for s, part in enumerate(cast("Sequence[Any]", X))
        ]

    def _segments(self, marks: Array, given: Any) -> list[Segment]:
        slots, begins = parse_templates(self.templates), np.flatnonzero(marks).tolist()
        found = []
        for begin, end in zip(begins, [*begins[1:], len(marks)], strict=True):
            name = slots.names[slots.name[marks[begin] - 1]]
            found.append(Segment(name, given[begin:end], begin, end))
        return found

    def parse_proba(self, X: Rows, *, parameters: str = "fitted") -> list[Array]:
        """Probability (n,) that a segment begins at each letter.

        Parameters
        ----------
        X, parameters : as in `predict`.
        """
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            found = share_parts(fitted.model, potentials, table.whole(), pool)
        return [found.of(s) for s in range(table.n_spans)]

    @property
    def names_(self) -> list[str]:
        """Names of slots, in the order of all tables."""
        return list(parse_templates(self.templates).names)

    @property
    def template_(self) -> Array:
        """(T,) posterior mean probability of each template."""
        return np.exp(self._require_fitted().predictive()["template"])

    def _apart(self, k: int) -> str:
        name = f"{self.names_[k]} -> "
        own = [rule.text for rule in self.top_rules(200) if rule.text.startswith(name)]
        return ", ".join(text.removeprefix(name) for text in own[:5])

    def top_rules(self, n: int = 10) -> list[Rule]:
        """The n substrings of slots most often expected in the training strings.

        Parameters
        ----------
        n : how many; -1 for all.
        """
        fitted = self._require_fitted()
        prior, counts = fitted.model.prior, fitted.counts["segment"]
        assert isinstance(prior, SlotTables)
        chances = fitted.predictive()["segment"]
        letters = next(iter(self.categories_.values()), None)
        found = []
        for flat in most_frequent(counts, n):
            c, v = np.unravel_index(flat, counts.shape)
            codes = prior.substrings.letters_of(int(v))
            text = "".join(str(code if letters is None else letters[code]) for code in codes)
            rule = f"{self.names_[c]} -> {text}"
            found.append(Rule(rule, float(np.exp(chances[c, v])), float(counts[c, v])))
        return found
