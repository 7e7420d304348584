"""From sentence pairs as users pass them to numbered words, source words beside target words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.data import (
    Bitext,
    Companion,
    GrowingColumn,
    Sequences,
    Side,
    number_pairs,
    read_bitext,
    span_offsets,
    span_rows,
)
from stickbreak.errors import DataWarning
from stickbreak.progress import Phase
from stickbreak.stats import Array

from .schema import Rows, Schema

__all__ = ["SentencePairs", "open_pairs", "read_pairs"]

PIECE = 1 << 22  # words of a spooled text that are numbered at once
STEP_PAIRS = 1024  # of a stochastic step, which makes weights of all pairs of words that there are
VARIATIONAL_PAIRS, VARIATIONAL_STEPS = 4096, 6  # most pairs of a step under E[log]; steps of a lap


@dataclass(frozen=True)
class SentencePairs:
    """Sentence pairs for a model.

    table : target words (n, 1) as rows; source words are the companion. Source word 0 is NULL,
        which no sentence has; the last number of each language stands for all unknown words.
    kept (S,) : which pairs of the bitext these are; others are empty or too long
    bitext : the pairs as they were given, all of them
    """

    table: Sequences
    kept: Array
    bitext: Bitext

    def spread(self, values: Iterable[Any], empty: Any) -> list[Any]:
        """Answers for all pairs of the bitext; `empty` for those that were left out."""
        found = [empty] * self.bitext.n_pairs
        for s, value in zip(self.kept.tolist(), values, strict=True):
            found[s] = value
        return found


def open_pairs(X: Rows, verbose: int = 0) -> Bitext:
    """The bitext in a file, or of a list of pairs; one that was read is returned unchanged."""
    if isinstance(X, Bitext):
        return X
    if isinstance(X, str | Path):
        with Phase(f"reading {X}", bool(verbose)) as phase:
            return read_bitext(X, report=phase.update)
    if isinstance(X, list | tuple):
        return number_pairs(X)
    raise ValueError(
        "sentence pairs are a list of (source, target), the path of a file with lines `source ||| "
        f"target`, or what read_bitext gives; got a {type(X).__name__}"
    )


def read_pairs(
    bitext: Bitext,
    schema: Schema | None,
    *,
    max_length: int,
    lowercase: bool = False,
    grows: bool = False,
    warns: bool = True,
) -> tuple[SentencePairs, Schema]:
    """Numbered words of the usable pairs, and both vocabularies, learned if None.

    max_length : leave out pairs with more words on a side, with one warning that names the first;
        the same for those with an empty side
    grows : add new words to the vocabularies; else they are unknown words
    warns : whether what is left out is still to be said
    """
    if lowercase:
        bitext = replace(bitext, source=_lowered(bitext.source), target=_lowered(bitext.target))
    known = schema or Schema(0, (), source_names=())
    target, source = known.names or (), known.source_names or ()
    if schema is None or grows:
        target, source = _joined(target, bitext.target.words), _joined(source, bitext.source.words)
        known = replace(known, n_features=len(target), names=target, source_names=source)
    kept = _usable(bitext, max_length, warns)
    if not len(kept) and (schema is None or grows):
        raise ValueError(
            f"{bitext.name} has no pair with 1 to max_length={max_length} words on both sides"
        )
    rows, offsets = _numbered(bitext.target, target, 0, kept)
    words, word_offsets = _numbered(bitext.source, source, 1, kept)
    table = Sequences(
        rows[:, None],
        offsets=offsets,
        companion=Companion(words, word_offsets),
        step_sequences=STEP_PAIRS,
        variational_step=min(VARIATIONAL_PAIRS, -(-len(kept) // VARIATIONAL_STEPS)),
    )
    return SentencePairs(table, kept, bitext), known


def _joined(known: tuple[str, ...], words: Iterable[str]) -> tuple[str, ...]:
    """The vocabulary with new words at its end."""
    return tuple(dict.fromkeys((*known, *words)))


def _lowered(side: Side) -> Side:
    """The side in small letters; each word is looked at once."""
    words = [word.lower() for word in side.words]
    distinct = {word: v for v, word in enumerate(dict.fromkeys(words))}
    numbers = np.array([distinct[word] for word in words], dtype=np.int32)
    return Side(_renumbered(side.numbers, numbers), side.offsets, tuple(distinct))


def _renumbered(numbers: Array, new: Array) -> Array:
    """(m,) new numbers of words; in a file if the old ones are."""
    if not isinstance(numbers, np.memmap):
        return new[numbers]
    column = GrowingColumn(np.int32)
    for lo in range(0, len(numbers), PIECE):
        column.add(new[numbers[lo : lo + PIECE]])
    return column.whole()


def _numbered(side: Side, names: tuple[str, ...], first: int, kept: Array) -> tuple[Array, Array]:
    """Words of the kept pairs by their place in the vocabulary, from `first`, and offsets."""
    ids = {name: first + v for v, name in enumerate(names)}
    unknown = first + len(names)
    new = np.array([ids.get(word, unknown) for word in side.words], dtype=np.int32)
    if len(kept) == len(side.offsets) - 1:
        return _renumbered(side.numbers, new), side.offsets
    begins, ends = side.offsets[kept], side.offsets[kept + 1]
    if not isinstance(side.numbers, np.memmap):
        at, offsets = span_rows(begins, ends)
        return new[side.numbers[at]], offsets
    offsets = span_offsets(begins, ends)
    column, piece_ends = GrowingColumn(np.int32), np.arange(PIECE, offsets[-1], PIECE)
    cuts = np.unique([0, *np.searchsorted(offsets, piece_ends), len(kept)])
    for lo, hi in pairwise(cuts.tolist()):
        at, _ = span_rows(begins[lo:hi], ends[lo:hi])
        column.add(new[side.numbers[at]])
    return column.whole(), offsets


def _usable(bitext: Bitext, max_length: int, warns: bool) -> Array:
    """(S,) pairs with words on both sides, and not too many."""
    ours, theirs = bitext.source.lengths, bitext.target.lengths
    longest, shortest = np.maximum(ours, theirs), np.minimum(ours, theirs)
    empty, long = np.flatnonzero(shortest == 0), np.flatnonzero(longest > max_length)
    for found, what in (
        (empty, "without words on one side"),
        (long, f"with more than max_length={max_length} words on a side"),
    ):
        if warns and len(found):
            shown = ", ".join(bitext.place(int(s)) for s in found[:3])
            more = ", ..." if len(found) > 3 else ""
            warnings.warn(
                f"{len(found):,} of {bitext.n_pairs:,} pairs of {bitext.name} {what} are left out: "
                f"{shown}{more}",
                DataWarning,
                stacklevel=6,
            )
    return np.flatnonzero((shortest > 0) & (longest <= max_length))
