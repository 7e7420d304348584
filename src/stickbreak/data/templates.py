"""Templates of slots, and the substrings that slots may emit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Substrings", "Template", "no_substrings", "parse_templates", "substrings_of"]

Array = npt.NDArray[np.int64]
SLOT = re.compile(r"(\w+)(\+?)")


class Template(NamedTuple):
    """Slots (Q,) of all templates, one template after another.

    names : of slots, each once
    name, template : of each slot; repeats : whether it may be used again
    is_first, is_last : whether its template begins and ends with it
    """

    names: tuple[str, ...]
    name: Array
    template: Array
    repeats: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    is_last: npt.NDArray[np.bool_]

    @property
    def n_templates(self) -> int:
        """How many there are."""
        return int(self.template[-1]) + 1

    def n_segments(self, lengths: npt.ArrayLike, max_segment: int) -> tuple[Array, Array]:
        """The fewest and the most segments of strings of these lengths; 0 if none can be cut."""
        n, slots = np.asarray(lengths)[:, None], np.bincount(self.template)
        is_open = np.bincount(self.template, weights=self.repeats) > 0
        covers = (slots <= n) & (is_open | (n <= slots * max_segment))
        fewest = np.where(covers, np.maximum(slots, -(-n // max_segment)), n + 1).min(1)
        most = np.where(covers, np.where(is_open, n, slots), 0).max(1)
        return np.where(most > 0, fewest, 0), most


@lru_cache(maxsize=64)
def parse_templates(text: str) -> Template:
    """Templates from a text such as "Stem | Prefix+ Stem": + for one or more segments."""
    if not isinstance(text, str):
        raise ValueError(f"templates must be a string such as 'Word+'; got {text!r}")
    slots = []
    for t, part in enumerate(text.split("|")):
        words = part.split()
        if not words:
            raise ValueError(f"templates={text!r} has an empty template")
        for word in words:
            found = SLOT.fullmatch(word)
            if found is None:
                raise ValueError(
                    f"templates={text!r}: {word!r} is no slot; write a name, with + after it for "
                    "one or more segments, and | between templates"
                )
            slots.append((found[1], t, found[2] == "+"))
    names = tuple(dict.fromkeys(name for name, _, _ in slots))
    template = np.array([t for _, t, _ in slots])
    edges = np.diff(template, prepend=-1, append=template[-1] + 1) > 0
    return Template(
        names,
        np.array([names.index(name) for name, _, _ in slots]),
        template,
        np.array([repeats for _, _, repeats in slots]),
        edges[:-1],
        edges[1:],
    )


class Substrings(NamedTuple):
    """Substrings by number: prefix (V,), the number without the last letter, -1 for none; letter.

    Every prefix of a substring is one too, with a smaller number.
    """

    prefix: Array
    letter: Array

    def lengths(self) -> Array:
        """(V,) letters of each."""
        found = np.zeros(len(self.prefix), dtype=np.int64)
        left = self.prefix.copy()
        while (left >= -1).any():
            found += left >= -1
            left = np.where(left >= 0, self.prefix[left], -2)
        return found

    def letters_of(self, number: int) -> list[int]:
        """The letters of one substring."""
        found: list[int] = []
        while number >= 0:
            found.append(int(self.letter[number]))
            number = int(self.prefix[number])
        return found[::-1]

    def extended(
        self, letters: Array, offsets: Array, max_length: int, n_letters: int
    ) -> tuple[Substrings, Array]:
        """All substrings of these strings too, and which begin at each letter: (n, max_length).

        letters (n,), offsets (S + 1,) : the strings; ids are -1 beyond their ends
        n_letters : more than the largest letter that there may be
        """
        n, size = len(letters), len(self.prefix)
        left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(n)
        keys = (self.prefix + 1) * n_letters + self.letter
        order = np.argsort(keys)
        keys = np.append(keys[order], -1)  # so that searches end within
        order = np.append(order, -1)
        ids, last = np.full((n, max_length), -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        prefix, letter = [self.prefix], [self.letter]
        for j in range(max_length):
            at = np.flatnonzero(left > j)
            wanted = (last[at] + 1) * n_letters + letters[at + j]
            place = np.searchsorted(keys[:-1], wanted)
            is_known = keys[place] == wanted
            new, which = np.unique(wanted[~is_known], return_inverse=True)
            found = order[place]
            found[~is_known] = size + which
            prefix.append(new // n_letters - 1)
            letter.append(new % n_letters)
            size += len(new)
            ids[at, j] = last[at] = found
        return Substrings(np.concatenate(prefix), np.concatenate(letter)), ids


def no_substrings() -> Substrings:
    """None yet."""
    none = np.zeros(0, dtype=np.int64)
    return Substrings(none, none)


def substrings_of(ids: Array, letters: Array) -> Substrings:
    """The substrings of strings, from which of them begin at each letter, ids (n, max_length)."""
    size = int(ids.max(initial=-1)) + 1
    prefix, letter = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for j in range(ids.shape[1]):
        at = np.flatnonzero(ids[:, j] >= 0)
        letter[ids[at, j]] = letters[at + j]
        if j > 0:
            prefix[ids[at, j]] = ids[at, j - 1]
    return Substrings(prefix, letter)
