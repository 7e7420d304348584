"""Links between the words of sentence pairs: Pharaoh `i-j` lines, gold files, symmetrization."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from stickbreak.kernels.links import join_links

from .bitext import Bitext
from .corpora import open_file, require_file
from .document_formats import show_start
from .lines import LineReader

__all__ = ["RULES", "Gold", "Links", "as_links", "read_gold", "read_links", "symmetrize"]

Array = npt.NDArray[Any]
Link = tuple[int, int]

MAX_POSITION = 9_999  # of a word; symmetrization draws up a grid
NUMBERS = re.compile(rb"\d+")
PHARAOH = re.compile(rb"\s*(?:\d{1,9}-\d{1,9}(?:\s+|$))*")
GRADED = re.compile(rb"\s*(?:\d{1,9}[-?p]\d{1,9}(?:\s+|$))*")
NUMBERED = re.compile(rb"\s*(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?\s*")

RULES: dict[str, tuple[bool, bool, int]] = {
    "intersection": (False, False, 0),
    "union": (True, False, 0),
    "grow-diag": (False, True, 0),
    "grow-diag-final": (False, True, 1),
    "grow-diag-final-and": (False, True, 2),
}
"""Ways to make one set of links of two; see `symmetrize`."""


@dataclass(frozen=True, eq=False)
class Links(Sequence[list[Link]]):
    """Links of sentence pairs: `links[s]` is a sorted list of (source position, target position).

    positions (L, 2) : from 0
    offsets (S + 1,) : pair s owns positions offsets[s]:offsets[s + 1]
    """

    positions: Array
    offsets: Array

    @classmethod
    def of_words(cls, sources: Array, offsets: Array) -> Links:
        """Links of target words: sources (n,) position that each is linked to, -1 for none."""
        linked = sources >= 0
        starts = np.repeat(offsets[:-1], np.diff(offsets))
        units = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        targets = np.arange(len(sources)) - starts
        return cls.sort(sources[linked], targets[linked], units[linked], len(offsets) - 1)

    @classmethod
    def sort(cls, sources: Array, targets: Array, units: Array, n_units: int) -> Links:
        """Links in any order, units (L,) saying to which pair they belong; double ones once."""
        n_sources, n_targets = (int(np.max(side, initial=0)) + 1 for side in (sources, targets))
        rows = np.asarray(units, dtype=np.int64) * n_sources + sources
        keys = np.sort(rows * n_targets + targets)  # np.unique takes a hundred times as long
        keys = keys[np.diff(keys, prepend=-1) > 0]
        rows = keys // n_targets
        positions = np.column_stack([rows % n_sources, keys % n_targets]).astype(np.int32)
        offsets = np.searchsorted(rows // n_sources, np.arange(n_units + 1))
        return cls(positions, offsets.astype(np.int64))

    @property
    def n_links(self) -> int:
        """Number of links of all pairs."""
        return len(self.positions)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, s: int) -> list[Link]: ...
    @overload
    def __getitem__(self, s: slice) -> list[list[Link]]: ...
    def __getitem__(self, s: int | slice) -> list[Link] | list[list[Link]]:
        if isinstance(s, slice):
            return [self[at] for at in range(len(self))[s]]
        at = range(len(self))[s]
        return [(i, j) for i, j in self.positions[self.offsets[at] : self.offsets[at + 1]].tolist()]

    def swapped(self) -> Links:
        """Source and target exchanged."""
        units = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return Links.sort(self.positions[:, 1], self.positions[:, 0], units, len(self))

    def take(self, chosen: Array) -> Links:
        """The links of some pairs, in the order given."""
        return Links.sort(*_taken(self, chosen), len(chosen))

    def lines(self) -> Iterator[str]:
        """Pharaoh lines, `0-0 1-2`, without line ends."""
        pairs = self.positions.astype(np.int64)
        numbers, at = np.unique(pairs[:, 0] << 32 | pairs[:, 1], return_inverse=True)
        shown = [f"{number >> 32}-{number & 0xFFFFFFFF}" for number in numbers.tolist()]
        words = [shown[k] for k in at.tolist()]  # few are distinct
        for lo, hi in pairwise(self.offsets.tolist()):
            yield " ".join(words[lo:hi])

    def __repr__(self) -> str:
        return f"<{self.n_links:,} links of {len(self):,} sentence pairs>"


def _taken(links: Links, chosen: Array) -> tuple[Array, Array, Array]:
    lengths = np.diff(links.offsets)[chosen]
    ends = np.cumsum(lengths)
    at = np.arange(int(lengths.sum())) + np.repeat(
        links.offsets[chosen] - (ends - lengths), lengths
    )
    units = np.repeat(np.arange(len(chosen)), lengths)
    return links.positions[at, 0], links.positions[at, 1], units


@dataclass(frozen=True)
class Gold:
    """Links that people drew for some sentence pairs.

    sure, possible : of each of these pairs; possible ones include the sure ones
    pairs : (G,) which pairs of the bitext they are, from 0
    """

    sure: Links
    possible: Links
    pairs: Array

    def swapped(self) -> Gold:
        """Source and target exchanged."""
        return Gold(self.sure.swapped(), self.possible.swapped(), self.pairs)


def as_links(given: Any, name: str = "links") -> Links:
    """Links as users have them: `Links`, lists of (i, j) for each pair, or Pharaoh lines."""
    if isinstance(given, Links):
        return given
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise ValueError(f"{name} must hold the links of each pair; got {given!r}")
    table: list[tuple[int, int, int]] = []
    n_units = 0
    for s, links in enumerate(given):
        if isinstance(links, str):
            links = _read_line(links.encode("utf-8", "replace"), f"{name} of pair {s}")
        try:
            table += [(s, int(i), int(j)) for i, j in links]
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} of pair {s} are {links!r}; expected pairs (i, j) of positions"
            ) from None
        n_units = s + 1
    found = np.array(table, dtype=np.int64).reshape(-1, 3)
    bad = np.flatnonzero((found[:, 1:] < 0).any(1) | (found[:, 1:] > MAX_POSITION).any(1))
    if len(bad):
        s, i, j = found[bad[0]]
        raise ValueError(
            f"{name} of pair {s} hold ({i}, {j}); positions are from 0 to {MAX_POSITION:,}"
        )
    return Links.sort(found[:, 1], found[:, 2], found[:, 0], n_units)


def symmetrize(forward: Any, reverse: Any, rule: str = "grow-diag-final-and") -> Links:
    """One set of links from those of two directions.

    Parameters
    ----------
    forward, reverse : links of each pair as (source, target) positions, both of them: `Links`,
        lists, or Pharaoh lines. Those of a reversed model are turned by `swapped()` before.
    rule : "intersection", links of both; "union", of either. "grow-diag" begins with the
        intersection, and sweeps over the links chosen so far, by source and target position: of the
        eight neighbors of a link (left, right, above and below first), each that is in the union
        is chosen at once if its source word or its target word has no chosen link yet. A sweep goes
        over the links chosen before it, and a sweep that adds none is the last.
        "grow-diag-final" then goes through all links of forward, and after them of reverse, by
        position, and chooses those whose source or target word has none; "grow-diag-final-and"
        those of which both have none.

    Returns
    -------
    Links

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.symmetrize(["0-0 1-1 1-2"], ["0-0 2-2"], "grow-diag")[0]
    [(0, 0), (1, 1), (1, 2), (2, 2)]
    """
    if rule not in RULES:
        raise ValueError(f"unknown symmetrization {rule!r}; choose one of {', '.join(RULES)}")
    ours, theirs = as_links(forward, "forward"), as_links(reverse, "reverse")
    if len(ours) != len(theirs):
        raise ValueError(f"forward has links of {len(ours)} pairs but reverse of {len(theirs)}")
    union, grow, final = RULES[rule]
    sides = (ours.positions, ours.offsets, theirs.positions, theirs.offsets)
    return Links(*join_links(*sides, union, grow, final))


# -------------------------------------------------------------------------------------------- files


def read_links(path: str | os.PathLike[str], bitext: Bitext | None = None) -> Links:
    """Read Pharaoh lines: the links of one pair on each line, as `source-target` from 0.

    bitext : the sentence pairs, to check that there are as many lines, and that all links are
        inside the sentences.
    """
    path = require_file(path)
    table: list[Array] = []
    n_lines = 0
    for first, lines in _pieces(path):
        for at, line in enumerate(lines):
            where = f"{path}, line {first + at}"
            pairs = np.array(_read_line(line, where), dtype=np.int64).reshape(-1, 2)
            table.append(np.column_stack([np.full(len(pairs), n_lines), pairs]))
            n_lines += 1
    found = np.concatenate([np.zeros((0, 3), np.int64), *table])
    links = Links.sort(found[:, 1], found[:, 2], found[:, 0], n_lines)
    if bitext is not None:
        if n_lines != bitext.n_pairs:
            raise ValueError(
                f"{path} has {n_lines:,} lines but {bitext.name} has {bitext.n_pairs:,} pairs"
            )
        _check_inside(links, np.arange(n_lines), bitext, str(path))
    return links


def read_gold(path: str | os.PathLike[str], bitext: Bitext | None = None) -> Gold:
    """Read links that people drew, sure and possible ones.

    Parameters
    ----------
    path : one of two formats, also compressed (`.gz`). Numbered lines: `pair source target S` from
        1, a link on each; P marks a possible one, and without a mark it is sure. Pharaoh: the links
        of one pair on each line from 0, `2-3` for a sure one, `2?3` or `2p3` for a possible one.
    bitext : the sentence pairs, to check that the links are of them.

    Returns
    -------
    Gold
    """
    path = require_file(path)
    rows: list[tuple[int, int, int, bool]] = []
    is_numbered: bool | None = None
    n_lines = 0
    for first, lines in _pieces(path):
        for at, line in enumerate(lines):
            if is_numbered is None and line.strip():
                is_numbered = NUMBERED.fullmatch(line) is not None
            rows += _gold_line(line, n_lines, is_numbered, f"{path}, line {first + at}")
            n_lines += 1
    if not rows:
        raise ValueError(f"{path} has no links")
    table = np.array(rows, dtype=np.int64)
    pairs = np.unique(table[:, 0]) if is_numbered else np.arange(n_lines)
    units = np.searchsorted(pairs, table[:, 0])
    is_sure = table[:, 3] > 0
    sources, targets = table[:, 1], table[:, 2]
    sure = Links.sort(sources[is_sure], targets[is_sure], units[is_sure], len(pairs))
    gold = Gold(sure, Links.sort(sources, targets, units, len(pairs)), pairs)
    if bitext is not None:
        _check_gold(gold, bitext, str(path))
    return gold


def _pieces(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    try:
        with open_file(path) as file:
            for first, piece in LineReader(path, file).pieces():
                yield first, piece.removesuffix(b"\n").split(b"\n")
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _read_line(line: bytes, where: str) -> list[Link]:
    if PHARAOH.fullmatch(line) is None:
        raise ValueError(f"{where} is {show_start(line)}; expected links like `0-0 1-2`")
    return _positions(list(map(int, NUMBERS.findall(line))), where)


def _positions(numbers: list[int], where: str) -> list[Link]:
    if numbers and max(numbers) > MAX_POSITION:
        raise ValueError(
            f"{where} has position {max(numbers)}; sentences may have {MAX_POSITION + 1:,} words"
        )
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _gold_line(
    line: bytes, at: int, is_numbered: bool | None, where: str
) -> list[tuple[int, int, int, bool]]:
    """Pair, source and target position from 0, and whether it is sure, of the links of a line."""
    if not is_numbered:
        if GRADED.fullmatch(line) is None:
            raise ValueError(f"{where} is {show_start(line)}; expected links like `0-0 1?2`")
        sure = [b"-" in word for word in line.split()]
        links = _positions(list(map(int, NUMBERS.findall(line))), where)
        return [(at, i, j, known) for (i, j), known in zip(links, sure, strict=True)]
    if not line.strip():
        return []
    found = NUMBERED.fullmatch(line)
    if found is None:
        raise ValueError(f"{where} is {show_start(line)}; expected `pair source target S` or P")
    pair, i, j = (int(number) for number in found.groups()[:3])
    if min(pair, i, j) < 1:
        raise ValueError(f"{where} is {show_start(line)}; pairs and positions are counted from 1")
    _positions([i, j], where)
    return [(pair - 1, i - 1, j - 1, found[4] != b"P")]


def _check_gold(gold: Gold, bitext: Bitext, name: str) -> None:
    if int(gold.pairs.max()) >= bitext.n_pairs:
        raise ValueError(
            f"{name} has links of pair {int(gold.pairs.max()) + 1:,} but {bitext.name} has "
            f"{bitext.n_pairs:,}: is it the gold of other sentences?"
        )
    _check_inside(gold.possible, gold.pairs, bitext, name)


def _check_inside(links: Links, pairs: Array, bitext: Bitext, name: str) -> None:
    """Refuse links to words that the sentences do not have; pairs (S,) : their numbers."""
    owners = np.repeat(pairs, np.diff(links.offsets))
    sizes = np.column_stack([bitext.source.lengths[owners], bitext.target.lengths[owners]])
    bad = np.flatnonzero((links.positions >= sizes).any(1))
    if len(bad):
        (i, j), (m, n), s = links.positions[bad[0]], sizes[bad[0]], int(owners[bad[0]])
        raise ValueError(
            f"{name} links words {i}-{j} (from 0) of {bitext.place(s)}, whose sentences have {m} "
            f"and {n} words: are these the links of other sentences, or with sides exchanged?"
        )
