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

from .base import RandomState
from .segment_samples import SegmentSampler
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
    max_segment: int

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

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> tuple[list[Any], list[list[Segment]]]:
        """Draw strings with their segments, at posterior means.

        Parameters
        ----------
        n_samples : number of strings. Those with a segment of more than max_segment letters, or
            with a letter that the fit has not seen, are drawn again.
        random_state : seed; default: the estimator's.

        Returns
        -------
        Strings (lists of letters if some have more than one character, arrays if they are numbers)
        and the segments of each, as in `parse`.
        """
        fitted, rng = self._require_fitted(), self._rng(random_state)
        prior, slots = fitted.model.prior, parse_templates(self.templates)
        assert isinstance(prior, SlotTables)
        tables = {name: np.exp(table) for name, table in fitted.predictive().tables.items()}
        sampler = SegmentSampler(prior, tables, self.max_segment)
        strings, segments = [], []
        for _ in range(int(n_samples)):
            drawn = sampler.draw(rng)
            ends = np.cumsum([len(letters) for _, letters in drawn]).tolist()
            string = self._spelled([letter for _, letters in drawn for letter in letters])
            strings.append(string)
            names = [slots.names[slots.name[q]] for q, _ in drawn]
            segments.append(
                [
                    Segment(name, string[begin:end], begin, end)
                    for name, begin, end in zip(names, [0, *ends], ends, strict=False)
                ]
            )
        return strings, segments

    def _spelled(self, codes: list[int]) -> Any:
        """Letters as they were given: a string, a list of letters, or an array of numbers."""
        names = next(iter(self.categories_.values()), None)
        if names is None:
            return np.array(codes)
        letters = [names[code] for code in codes]
        is_text = all(isinstance(name, str) and len(name) == 1 for name in names)
        return "".join(letters) if is_text else letters

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
