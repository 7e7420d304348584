"""Strings with their segments, drawn from a fitted template grammar."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stickbreak.data import parse_templates
from stickbreak.priors import SlotTables
from stickbreak.stats import Array

from .tree_samples import try_until

__all__ = ["SegmentSampler"]

Segments = list[tuple[int, list[int]]]


class SegmentSampler:
    """Draws strings, letter numbers of each segment with the number of its slot.

    tables : probabilities template (T,), repeat (Q, 2) and segment (C, V), see `SlotTables`
    max_segment : strings with a longer segment, or with a letter never seen, are drawn again
    """

    def __init__(self, prior: SlotTables, tables: Mapping[str, Array], max_segment: int) -> None:
        self._slots, self._max_segment = parse_templates(prior.templates), max_segment
        self._template = np.cumsum(tables["template"])
        self._again, self._ends = tables["repeat"][:, 0], np.cumsum(tables["segment"], 1)
        self._substrings, self._stop = prior.substrings, prior.stop
        self._letters, self._known = np.zeros(0), frozenset[tuple[int, ...]]()
        if prior.base == "spelling":
            self._letters = np.cumsum(prior.letter_shares())
            pairs = range(len(self._substrings.prefix))
            self._known = frozenset(tuple(self._substrings.letters_of(v)) for v in pairs)

    def draw(self, rng: np.random.Generator) -> Segments:
        """One string."""
        refused = f"a segment of more than max_segment={self._max_segment} letters"
        found: Segments = try_until(lambda: self._try(rng), refused)
        return found

    def _try(self, rng: np.random.Generator) -> Segments | None:
        found: Segments = []
        for q in np.flatnonzero(self._slots.template == _pick(self._template, rng)).tolist():
            is_open = True
            while is_open:
                letters = self._segment(int(self._slots.name[q]), rng)
                if letters is None:
                    return None
                found.append((q, letters))
                is_open = bool(self._slots.repeats[q]) and bool(rng.random() < self._again[q])
        return found

    def _segment(self, name: int, rng: np.random.Generator) -> list[int] | None:
        """The letters of one segment; None if it cannot be written."""
        ends = self._ends[name]
        if not len(self._letters) or rng.random() < ends[-1]:
            return self._substrings.letters_of(_pick(ends, rng))
        while True:  # what is not listed has the rest of the base
            letters = [_pick(self._letters, rng)]
            while rng.random() >= self._stop:
                letters.append(_pick(self._letters, rng))
            if tuple(letters) not in self._known:
                is_known = max(letters) < len(self._letters) - 1
                return letters if is_known and len(letters) <= self._max_segment else None


def _pick(ends: Array, rng: np.random.Generator) -> int:
    """A number by its share; ends : running sums of shares."""
    return min(int(np.searchsorted(ends, rng.random() * ends[-1], side="right")), len(ends) - 1)
