"""What users pass as documents: counts, lists of words, bags of gensim, files; and the vocabulary
that goes with them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Corpus, Documents, is_sparse, read_corpus
from stickbreak.errors import DataWarning
from stickbreak.families.multinomial import check_counts
from stickbreak.stats import Array

from .frames import frame_kind
from .progress import Phase
from .tables import Given, check_weights

__all__ = ["count_documents", "halves", "make_documents"]


def make_documents(estimator: Any, given: Given, *, reset: bool, grows: bool = False) -> Documents:
    """Documents, checked. `reset` learns the vocabulary from them; `grows` adds new words that have
    names to it.
    """
    counts = count_documents(estimator, given.X, reset=reset, grows=grows)
    times = None if given.sample_weight is None else check_weights(given.sample_weight, counts)
    return Documents.from_counts(counts, times)


def count_documents(estimator: Any, X: Any, *, reset: bool, grows: bool = False) -> Any:
    """(S, V) counts of whatever users pass as documents, as CSR and checked, with the vocabulary of
    the fit.
    """
    if isinstance(X, str | Path):
        with Phase(f"reading {X}", bool(estimator.verbose)) as phase:
            X = read_corpus(
                X, n_words=None if reset else estimator.n_features_in_, report=phase.update
            )
    kind = _kind_of_list(X)
    if kind == "words":
        counts = _count_words(estimator, X, reset, grows)
    elif kind == "bags":
        counts = _count_bags(estimator, X, reset)
    elif isinstance(X, Corpus):
        counts = _count_corpus(estimator, X, reset, grows)
    else:
        counts = _check_matrix(estimator, X, reset)
    try:
        check_counts(counts)
    except ValueError as error:
        # the words that scikit-learn's checks look for
        raise ValueError(f"Negative values in data: {error}") from None
    return counts


def _kind_of_list(X: Any) -> str | None:
    """Whether X is a list of lists of words, or of bags [(id, count), ...]; None for a table."""
    if not isinstance(X, list | tuple) or not len(X):
        return None
    if any(isinstance(document, str) for document in X):
        at = next(i for i, document in enumerate(X) if isinstance(document, str))
        raise ValueError(
            f"document {at} is a text, {X[at][:30]!r}: give the words of each document, for "
            "instance "
            "[text.lower().split() for text in texts], or the counts that sklearn's "
            "CountVectorizer makes"
        )
    first = next(
        (document[0] for document in X if isinstance(document, list | tuple) and len(document)),
        None,
    )
    if isinstance(first, str):
        return "words"
    if isinstance(first, tuple) or (
        first is None and all(isinstance(document, list | tuple) for document in X)
    ):
        return "bags"
    return None


def _count_words(estimator: Any, X: Sequence[Any], reset: bool, grows: bool) -> Any:
    """(S, V) counts of lists of words. New words are dropped, with one warning, unless the
    vocabulary grows.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    _require_words(X)
    if reset:
        made = CountVectorizer(analyzer=_as_they_are)
        try:
            counts = made.fit_transform(X)
        except ValueError:
            raise ValueError("the documents have no words") from None
        words = made.get_feature_names_out()
        _set_width(estimator, len(words), words, True)
        return counts
    return CountVectorizer(
        analyzer=_as_they_are, vocabulary=_own_ids(estimator, chain.from_iterable(X), grows)
    ).transform(X)


def _own_ids(estimator: Any, words: Iterable[str], grows: bool) -> dict[str, int]:
    """Ids of the vocabulary, to which new words are added if it grows; else one warning says that
    they are left out.
    """
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        raise ValueError(
            "the model was fitted to numbered words; give counts, or bags [(id, "
            "count), ...], with the same numbers"
        )
    own = {str(word): i for i, word in enumerate(known)}
    new = sorted(set(words).difference(own))
    if new and grows:
        own |= {word: len(own) + i for i, word in enumerate(new)}
        estimator._grow_vocabulary(new)
    elif new:
        shown = ", ".join(map(repr, new[:3])) + (", ..." if len(new) > 3 else "")
        warnings.warn(
            f"{len(new)} words are not in the vocabulary and are left out: {shown}",
            DataWarning,
            stacklevel=6,
        )
    return own


def _count_corpus(estimator: Any, corpus: Corpus, reset: bool, grows: bool) -> Any:
    """(S, V) counts of a corpus. One with words is read by their names, in whatever order it has
    them.
    """
    counts, words = corpus.counts, corpus.words
    known = getattr(estimator, "feature_names_in_", None)
    if reset or words is None or (known is not None and list(words) == list(known)):
        if counts.shape[1] == 0:
            raise ValueError("the documents have no words")
        _set_width(estimator, counts.shape[1], words, reset)
        return counts
    own = _own_ids(estimator, words, grows)
    entries = sparse.coo_array(counts)
    renamed = np.array([own.get(word, -1) for word in words])[entries.coords[1]]
    is_known = renamed >= 0
    parts: Any = entries.data[is_known], (entries.coords[0][is_known], renamed[is_known])
    return sparse.csr_array(parts, shape=(counts.shape[0], int(estimator.n_features_in_)))


def _as_they_are(words: Sequence[str]) -> Sequence[str]:
    return words


def _require_words(X: Sequence[Any]) -> None:
    for i, document in enumerate(X):
        if not isinstance(document, list | tuple) or not all(
            isinstance(word, str) for word in document
        ):
            raise ValueError(f"document {i} is not a list of words as the others are")


def _count_bags(estimator: Any, X: Sequence[Any], reset: bool) -> Any:
    """(S, V) counts of bags [(id, count), ...]."""
    try:
        pairs = np.array(list(chain.from_iterable(X)), dtype=float).reshape(-1, 2)
    except (TypeError, ValueError):
        raise ValueError(
            "a bag is a list of pairs (id of a word, count); some document holds something else"
        ) from None
    ids = pairs[:, 0]
    bad = np.flatnonzero((ids < 0) | (ids != np.floor(ids)))
    if len(bad):
        raise ValueError(f"a bag names word {ids[bad[0]]:g}; ids are whole numbers from 0")
    offsets = np.r_[0, np.cumsum([len(document) for document in X])]
    width = int(ids.max(initial=-1)) + 1 if reset else int(estimator.n_features_in_)
    beyond = np.flatnonzero(ids >= width)
    if len(beyond):
        document = int(np.searchsorted(offsets, beyond[0], side="right")) - 1
        raise ValueError(
            f"document {document} has word {int(ids[beyond[0]])}, but the model knows "
            f"{width} words, from 0"
        )
    if width == 0:
        raise ValueError("the documents have no words")
    _set_width(estimator, width, None, reset)
    parts: Any = pairs[:, 1], ids.astype(np.int64), offsets
    return sparse.csr_array(parts, shape=(len(X), width))


def _check_matrix(estimator: Any, X: Any, reset: bool) -> Any:
    """Counts (S, V) as CSR: of a matrix, an array or a data frame whose columns are words.
    Complaints are scikit-learn's.
    """
    from sklearn.utils.validation import validate_data

    if (
        frame_kind(X) is None
        and not is_sparse(X)
        and not hasattr(X, "__array__")
        and not isinstance(X, list | tuple)
    ):
        raise ValueError(
            "documents are counts (S, V), lists of words or bags, or a file; got a "
            f"{type(X).__name__}"
        )
    is_named = not reset and hasattr(estimator, "feature_names_in_")
    # scikit-learn would warn that it has no names
    if is_named and frame_kind(X) is None and (is_sparse(X) or np.ndim(X) == 2):
        _set_width(estimator, X.shape[1] if hasattr(X, "shape") else np.shape(X)[1], None, False)
        return sparse.csr_array(_finite(X), dtype=float)
    found = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
    )
    return sparse.csr_array(found)


def _finite(X: Any) -> Any:
    values = X.data if is_sparse(X) else np.asarray(X)
    if not np.isfinite(values).all():
        raise ValueError(f"counts must be finite; X holds {values[~np.isfinite(values)][0]}")
    return X if is_sparse(X) else values


def _set_width(estimator: Any, width: int, words: Any, reset: bool) -> None:
    """Learn, or compare, the number of words and what they are."""
    if reset:
        estimator.n_features_in_ = int(width)
        estimator.__dict__.pop("feature_names_in_", None)
        if words is not None:
            estimator.feature_names_in_ = np.array(list(words), dtype=object)
        return
    if width != estimator.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )


def halves(documents: Documents, n_symbols: int, seed: int = 0) -> tuple[Any, Any]:
    """Occurrences of words dealt out at random to two matrices (S, V); what a count has beyond a
    whole number goes to either.
    """
    rng = np.random.default_rng(seed)
    assert documents.repeats is not None
    symbols: Array = documents.rows[:, 0]
    whole = np.floor(documents.repeats)
    second = rng.binomial(whole.astype(np.int64), 0.5) + (documents.repeats - whole) * rng.integers(
        2, size=len(whole)
    )
    made = []
    for values in (documents.repeats - second, second):
        parts: Any = values, symbols, documents.offsets
        made.append(sparse.csr_array(parts, shape=(documents.n_spans, n_symbols)))
    return made[0], made[1]
