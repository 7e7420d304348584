"""Coherence of topics: whether their words occur in the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.reading import Given, Rows, Schema, count_documents
from stickbreak.stats import Array

__all__ = ["npmi_coherence"]


def npmi_coherence(
    topics: Sequence[Sequence[Any]], documents: Rows, *, words: Sequence[str] | None = None
) -> Array:
    """Coherence of each topic: mean normalized pointwise mutual information of pairs of its words.

    Parameters
    ----------
    topics : the words of each topic, at least two, as `top_words` gives them: names, or numbers
        where the documents have no names.
    documents : the corpus of reference, in any form that topic models are fitted to. Held-out
        documents or an encyclopedia say more than those of the fit.
    words : (V,) names of the columns, where documents are counts without names.

    Returns
    -------
    (K,) between -1 (no two words share a document) and 1 (they occur together only).

    Notes
    -----
    For two words, log(p_ij / (p_i p_j)) / -log p_ij, where p is the share of documents that have
    the word, or both. It is -1 for words that are never together, such as words that the corpus
    lacks, and 0 for words that all documents have.  [Bou09]

    Examples
    --------
    >>> import stickbreak as sb
    >>> documents = [["cat", "dog"], ["cat", "dog", "fur"], ["salt", "pan"], ["pan", "cat"]]
    >>> sb.metrics.npmi_coherence([["cat", "dog"], ["cat", "salt"]], documents).round(2).tolist()
    [0.42, -1.0]
    """
    schema = None if words is None else Schema(len(words), tuple(words))
    counts, found = count_documents(Given(documents, owner="the list of words"), schema)
    present = sparse.csc_array(counts)
    present.data = (present.data > 0).astype(float)
    known = None if found.names is None else {word: v for v, word in enumerate(found.names)}
    columns = [_columns(k, topic, known, found.n_features) for k, topic in enumerate(topics)]
    if not any((part >= 0).any() for part in columns):
        raise ValueError("the documents have none of the topics' words; are they of one corpus?")
    return np.array([_coherence(present, part) for part in columns])


def _columns(k: int, topic: Any, known: dict[str, int] | None, n_words: int) -> Array:
    """Column of each word of a topic, -1 for words that the documents lack."""
    if isinstance(topic, str) or not hasattr(topic, "__len__") or len(topic) < 2:
        raise ValueError(f"topic {k} must be a list of at least two words; got {topic!r}")
    listed = list(topic)
    if len(set(listed)) < len(listed):
        twice = next(word for word in listed if listed.count(word) > 1)
        raise ValueError(f"topic {k} has the word {twice!r} twice")
    if known is not None:
        wrong = [word for word in listed if not isinstance(word, str)]
        if wrong:
            raise ValueError(f"topic {k} has {wrong[0]!r}, but the documents have words by name")
        return np.array([known.get(word, -1) for word in listed])
    for word in listed:
        if not isinstance(word, Integral) or not 0 <= int(word) < n_words:
            raise ValueError(
                f"topic {k} has {word!r}, but the documents have words by number, 0 to "
                f"{n_words - 1}; give the names as words=..."
            )
    return np.array(listed, dtype=np.int64)


def _coherence(present: Any, columns: Array) -> float:
    """Mean over the pairs of columns. present (S, V) : 1 where a document has the word"""
    n_documents, kept = present.shape[0], np.flatnonzero(columns >= 0)
    together = np.zeros((len(columns),) * 2)
    own = present[:, columns[kept]]
    together[np.ix_(kept, kept)] = (own.T @ own).toarray()
    return mean_npmi(together / n_documents)


def mean_npmi(share: Array) -> float:
    """Mean over pairs of words. share (n, n) : of the documents, those that have both words"""
    first, second = np.triu_indices(len(share), 1)
    both, alone = share[first, second], np.diagonal(share)
    scores = np.full(len(both), -1.0)
    scores[both == 1.0] = 0.0
    at = (both > 0) & (both < 1)
    pmi = np.log(both[at]) - np.log(alone[first[at]] * alone[second[at]])
    scores[at] = pmi / -np.log(both[at])
    return float(scores.mean())
