"""Words of new data that the fit has not seen: how many, and how often they are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from stickbreak.data import Corpus

from .schema import Schema

__all__ = ["Unknown", "unknown_in_documents", "unknown_in_pairs", "unknown_in_sentences"]


class Unknown(NamedTuple):
    """Distinct words that are not known, and their places in the data."""

    n_words: int = 0
    n_places: int = 0


def unknown_in_documents(X: Any, schema: Schema) -> Unknown:
    """Of documents as lists of words, or of a corpus with words; others have numbers alone."""
    if schema.names is None:
        return Unknown()
    if isinstance(X, Corpus) and X.words is not None:
        return _counted(X.words, np.asarray(X.counts.sum(0)).ravel(), schema.names)
    if isinstance(X, list | tuple) and all(isinstance(part, list | tuple) for part in X):
        return unknown_in_sentences(X, schema.names)
    return Unknown()


def unknown_in_sentences(X: Iterable[Any], known: Collection[Any]) -> Unknown:
    """Of lists of words, or strings of letters; numbers are not words."""
    found = Counter(word for word in chain.from_iterable(X) if isinstance(word, str))
    return _counted(tuple(found), np.array(list(found.values())), known)


def unknown_in_pairs(bitext: Any, schema: Schema, lowercase: bool) -> Unknown:
    """Of both sides of sentence pairs."""
    found = []
    for side, known in ((bitext.source, schema.source_names), (bitext.target, schema.names)):
        words = [word.lower() for word in side.words] if lowercase else side.words
        times = np.bincount(side.numbers, minlength=len(words))
        found.append(_counted(words, times, known or ()))
    return Unknown(sum(one.n_words for one in found), sum(one.n_places for one in found))


def _counted(words: Sequence[Any], times: Any, known: Collection[Any]) -> Unknown:
    """Times : how often each word is there; one that is not there does not count."""
    names = frozenset(known)
    own = [(word, n) for word, n in zip(words, times, strict=True) if n > 0 and word not in names]
    return Unknown(len({word for word, _ in own}), round(sum(float(n) for _, n in own)))
