"""From documents as users pass them (counts, words, bags, files) to counts and a vocabulary."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Corpus, Documents, DocumentShards, is_sparse, read_corpus
from stickbreak.errors import DataWarning, quoted
from stickbreak.families.multinomial import check_counts
from stickbreak.progress import Phase

from .frame_columns import frame_kind
from .schema import Given, Rows, Schema
from .table_rows import check_weights, validate

__all__ = ["count_documents", "open_documents", "read_documents"]

NO_WORDS = "the documents have no words"


def read_documents(
    given: Given, schema: Schema | None, *, grows: bool = False
) -> tuple[Documents, Schema]:
    """Checked documents and their vocabulary, learned if None.

    grows : add new words that have names to the vocabulary; else leave them out, with one warning.
    """
    if isinstance(given.X, DocumentShards):
        return _read_shards(given.X, given, schema)
    counts, found = count_documents(given, schema, grows=grows)
    times = None if given.sample_weight is None else check_weights(given.sample_weight, counts)
    return Documents.from_counts(counts, times), found


def _read_shards(
    X: DocumentShards, given: Given, schema: Schema | None
) -> tuple[Documents, Schema]:
    """Documents of files that workers read: words must be numbered as those of the fit."""
    if given.sample_weight is not None:
        raise ValueError("sample_weight= is not for shards of documents: repeat documents instead")
    if schema is None:
        return X.documents, Schema(X.n_words, X.words)
    schema.require_width(X.n_words, given.owner)
    if X.words is not None and schema.names is not None and X.words != schema.names:
        raise ValueError(
            "the shards have words in another order, or others, than the model was fitted to"
        )
    return X.documents, schema


def open_documents(
    X: Rows, words: Sequence[str] | None = None, n_words: int | None = None, verbose: int = 0
) -> Rows:
    """Read a path as a corpus; anything else is returned unchanged."""
    if not isinstance(X, str | Path):
        return X
    with Phase(f"reading {X}", bool(verbose)) as phase:
        return read_corpus(X, words=words, n_words=n_words, report=phase.update)


def count_documents(
    given: Given, schema: Schema | None, *, grows: bool = False
) -> tuple[Any, Schema]:
    """(S, V) counts as CSR, checked, and their vocabulary; see `read_documents`."""
    if isinstance(given.X, DocumentShards):
        raise ValueError(
            "shards of documents have no counts in memory: give their files one by one "
            "(read_corpus), or use transform or score_samples"
        )
    n_words = None if schema is None else schema.n_features
    X: Any = open_documents(given.X, None, n_words, given.verbose)
    kind = _kind_of_list(X)
    if kind == "words":
        counts, found = _count_words(X, schema, grows)
    elif kind == "bags":
        counts, found = _count_bags(X, schema)
    elif isinstance(X, Corpus):
        counts, found = _count_corpus(X, schema, grows, given.owner)
    else:
        counts, found = _check_matrix(X, schema, given.owner)
    try:
        check_counts(counts)
    except ValueError as error:
        # scikit-learn's estimator checks look for these words
        prefix = "Negative values in data: " if "negative" in str(error) else ""
        raise ValueError(f"{prefix}{error}") from None
    return counts, found


def _kind_of_list(X: Any) -> str | None:
    """`words` for a list of lists of words, `bags` for a list of [(id, count), ...]; else None."""
    if not isinstance(X, list | tuple) or not len(X):
        return None
    for at, document in enumerate(X):
        if isinstance(document, str):
            raise ValueError(
                f"document {at} is a text, {document[:30]!r}: give the words of each document, "
                "for instance [text.lower().split() for text in texts], or the counts that "
                "sklearn's CountVectorizer makes"
            )
    is_list = [isinstance(document, list | tuple) for document in X]
    first = next((d[0] for d, listed in zip(X, is_list, strict=True) if listed and len(d)), None)
    if isinstance(first, str):
        return "words"
    return "bags" if isinstance(first, tuple) or (first is None and all(is_list)) else None


def _count_words(X: Sequence[Any], schema: Schema | None, grows: bool) -> tuple[Any, Schema]:
    from sklearn.feature_extraction.text import CountVectorizer

    for i, document in enumerate(X):
        if not isinstance(document, list | tuple) or not all(
            isinstance(word, str) for word in document
        ):
            raise ValueError(f"document {i} is not a list of words as the others are")
    if schema is None:
        made = CountVectorizer(analyzer=_as_they_are)
        try:
            counts = made.fit_transform(X)
        except ValueError:
            raise ValueError(NO_WORDS) from None
        words = tuple(made.get_feature_names_out())
        return counts, Schema(len(words), words)
    found = _add_words(chain.from_iterable(X), schema, grows)
    made = CountVectorizer(analyzer=_as_they_are, vocabulary=_ids_of(found))
    return made.transform(X), found


def _as_they_are(words: Sequence[str]) -> Sequence[str]:
    return words


def _ids_of(schema: Schema) -> dict[str, int]:
    return {str(word): i for i, word in enumerate(schema.names or ())}


def _add_words(words: Iterable[str], schema: Schema, grows: bool) -> Schema:
    """The vocabulary; with new words if it grows, else with one warning that they are left out."""
    if schema.names is None:
        raise ValueError(
            "the model was fitted to numbered words; give counts, or bags [(id, "
            "count), ...], with the same numbers"
        )
    new = sorted(set(words).difference(schema.names))
    if new and grows:
        return schema.with_names(new)
    if new:
        shown = ", ".join(map(quoted, new[:3])) + (", ..." if len(new) > 3 else "")
        warnings.warn(
            f"{len(new)} words are not in the vocabulary and are left out: {shown}",
            DataWarning,
            stacklevel=7,
        )
    return schema


def _count_corpus(
    corpus: Corpus, schema: Schema | None, grows: bool, owner: str
) -> tuple[Any, Schema]:
    """Counts of a corpus. If it has words, they are matched by name, in any order."""
    counts, words = corpus.counts, None if corpus.words is None else tuple(corpus.words)
    if schema is None or words is None or words == schema.names:
        if counts.shape[1] == 0:
            raise ValueError(NO_WORDS)
        if schema is not None:
            schema.require_width(counts.shape[1], owner)
        return counts, schema or Schema(counts.shape[1], words)
    found = _add_words(words, schema, grows)
    own, entries = _ids_of(found), sparse.coo_array(counts)
    renamed = np.array([own.get(word, -1) for word in words])[entries.coords[1]]
    is_known = renamed >= 0
    parts: Any = entries.data[is_known], (entries.coords[0][is_known], renamed[is_known])
    return sparse.csr_array(parts, shape=(counts.shape[0], found.n_features)), found


def _count_bags(X: Sequence[Any], schema: Schema | None) -> tuple[Any, Schema]:
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
    found = schema or Schema(int(ids.max(initial=-1)) + 1)
    beyond = np.flatnonzero(ids >= found.n_features)
    if len(beyond):
        document = int(np.searchsorted(offsets, beyond[0], side="right")) - 1
        raise ValueError(
            f"document {document} has word {int(ids[beyond[0]])}, but the model knows "
            f"{found.n_features} words, from 0"
        )
    if found.n_features == 0:
        raise ValueError(NO_WORDS)
    parts: Any = pairs[:, 1], ids.astype(np.int64), offsets
    return sparse.csr_array(parts, shape=(len(X), found.n_features)), found


def _check_matrix(X: Any, schema: Schema | None, owner: str) -> tuple[Any, Schema]:
    """Counts of a matrix, an array or a data frame whose columns are words."""
    is_table = is_sparse(X) or hasattr(X, "__array__") or isinstance(X, list | tuple)
    if frame_kind(X) is None and not is_table:
        raise ValueError(
            "documents are counts (S, V), lists of words or bags, or a file; got a "
            f"{type(X).__name__}"
        )
    is_named = schema is not None and schema.names is not None
    # scikit-learn would warn that X has no names
    if is_named and frame_kind(X) is None and (is_sparse(X) or np.ndim(X) == 2):
        assert schema is not None
        schema.require_width(int((X if hasattr(X, "shape") else np.asarray(X)).shape[1]), owner)
        values = X.data if is_sparse(X) else np.asarray(X)
        if not np.isfinite(values).all():
            raise ValueError(f"counts must be finite; X holds {values[~np.isfinite(values)][0]}")
        return sparse.csr_array(X if is_sparse(X) else values, dtype=float), schema
    found, names = validate(X, schema, owner, True)
    return sparse.csr_array(found), schema or Schema(int(found.shape[1]), names)
