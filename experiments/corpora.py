"""Corpora of the topic experiments, split as for the peers' figures, and their score by document
completion.
"""

from __future__ import annotations

import gzip
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma

import stickbreak as sb

from .frame import data_folder, is_quick

__all__ = ["Split", "completion", "read_ap", "read_bars", "read_news"]

HELD_OUT = 0.2  # of the distinct words of a test document


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
    """Mean log probability of the held-out words of the test documents, by the procedure of the
    peers' figures.

    A fifth of the distinct words of a document is held out; the others give its shares under two
    priors of them: 0.1 for each topic, and ten times the topics' shares in training.
    """
    used = model.counts_ > 0
    phi, mean = (
        np.maximum(model.topic_word_[used], 1e-12),
        model.counts_[used] / model.counts_[used].sum(),
    )
    scores = []
    for prior in (np.full(len(mean), 0.1), 10.0 * mean):
        total = weight = 0.0
        for d, words, counts in split.test:
            if len(words) < 5:
                continue
            order = np.random.RandomState(d).permutation(len(words))
            n_out = max(1, round(HELD_OUT * len(words)))
            out, known = order[:n_out], order[n_out:]
            share = _shares(phi[:, words[known]].T, counts[known], prior, mean)
            total += float(counts[out] @ np.log(share @ phi[:, words[out]]))
            weight += float(counts[out].sum())
        scores.append(total / weight)
    return scores[0], scores[1]


def _shares(
    evidence: np.ndarray, counts: np.ndarray, prior: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """(K,) shares of a document with words of evidence (n, K)."""
    theta = prior + counts.sum() * mean
    for _ in range(100):
        r = np.exp(digamma(theta)) * evidence
        new = prior + counts @ (r / r.sum(1, keepdims=True))
        change, theta = np.abs(new - theta).mean(), new
        if change < 1e-4:
            break
    return theta / theta.sum()
