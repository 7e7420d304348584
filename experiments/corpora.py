"""Corpora of the topic experiments, split as for the peers' figures, and their score by document
completion.
"""

from __future__ import annotations

import gzip
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import stickbreak as sb

from .frame import data_folder, is_quick

__all__ = ["Split", "completion", "read_ap", "read_bars", "read_news"]


class Split(NamedTuple):
    """Training counts (S, V); test documents with their numbers in the whole corpus; words, where
    there are any.
    """

    train: sparse.csr_array
    test: list[tuple[int, np.ndarray, np.ndarray]]
    words: tuple[str, ...] | None


def _split(
    counts: Any, train: np.ndarray, test: np.ndarray, words: tuple[str, ...] | None = None
) -> Split:
    counts = sparse.csr_array(counts)
    counts.sort_indices()
    if is_quick():
        train, test = train[::5], test[::5]
    rows = [(int(d), slice(counts.indptr[d], counts.indptr[d + 1])) for d in test]
    return Split(counts[train], [(d, counts.indices[at], counts.data[at]) for d, at in rows], words)


def read_bars() -> Split:
    """1,000 documents of 12 x 12 images, every tenth held out."""
    with np.load(
        data_folder() / "topics" / "bars" / "bars_many_per_doc.npz", allow_pickle=False
    ) as found:
        parts: Any = (
            found["word_count"].astype(float),
            found["word_id"].astype(int),
            found["doc_range"].astype(int),
        )
        counts = sparse.csr_array(parts, shape=(len(found["doc_range"]) - 1, 144))
    at = np.arange(counts.shape[0])
    return _split(counts, at[at % 10 != 9], at[at % 10 == 9])


def read_ap() -> Split:
    """Associated Press, 2,246 documents, every tenth held out."""
    folder = data_folder() / "topics" / "ap"
    found = sb.read_corpus(folder / "ap.dat.gz", words=folder / "vocab.txt")
    at = np.arange(found.n_documents)
    return _split(found.counts, at[at % 10 != 9], at[at % 10 == 9], found.words)


def read_news() -> Split:
    """20 newsgroups: every fourth training message, every twentieth test message."""
    folder = data_folder() / "topics" / "20news"
    found = sb.read_corpus(folder / "docs.ldac.gz", words=folder / "vocab.txt")
    with gzip.open(folder / "docs.tsv.gz", "rt") as lines:
        part = np.array([line.split("\t")[0] for line in lines])
    part = part[-found.n_documents :]  # after a header, if there is one
    at = np.arange(found.n_documents)
    return _split(
        found.counts,
        at[(part == "train") & (at % 4 == 0)],
        at[(part == "test") & (at % 20 == 0)],
        found.words,
    )


def completion(model: Any, split: Split) -> tuple[float, float]:
    """Mean log probability of the held-out words of the test documents, as `score` defines it.

    Under two priors of the shares: 0.1 for each topic, and ten times the topics' shares in
    training. Documents are dealt by their numbers in the whole corpus, as for the peers' figures.
    """
    numbers, n_words = [d for d, _, _ in split.test], model.n_features_in_
    symbols, values = (np.concatenate(part) for part in list(zip(*split.test, strict=True))[1:])
    offsets = np.r_[0, np.cumsum([len(words) for _, words, _ in split.test])]
    parts: Any = values, symbols, offsets
    counts = sparse.csr_array(parts, shape=(len(numbers), n_words))
    shares = model.counts_ / model.counts_.sum()
    plain, shared = (
        sb.metrics.document_completion(
            model.topic_word_, model.counts_, counts, prior=prior, numbers=numbers
        )
        for prior in (0.1, 10.0 * shares)
    )
    return plain, shared
