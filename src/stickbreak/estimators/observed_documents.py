"""What a report says of topics and documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stickbreak.inference import workers
from stickbreak.metrics import npmi_coherence
from stickbreak.metrics.coherence import mean_npmi
from stickbreak.reading import Rows, count_documents, open_documents, unknown_in_documents
from stickbreak.stats import Array

from .reports import data_digest, group_shares

if TYPE_CHECKING:
    from stickbreak.report import Subject

    from .topic_fits import TopicEstimator

__all__ = ["observe_documents", "topic_values"]

N_WORDS, MOST_DOCUMENTS, MOST_TEXTS = 12, 5000, 24
RELEVANCE = 0.6
N_DRAWS, DRAW_DOCUMENTS, MOST_DRAWN = 39, 400, 60  # of topics, the largest


def topic_values(self: TopicEstimator, subject: Subject) -> Subject:
    """The subject with words of topics."""
    probability = self.topic_word_
    overall = np.log(np.maximum(subject.weights @ probability, 1e-300))
    log_p = np.log(np.maximum(probability, 1e-300))
    rank = RELEVANCE * log_p + (1 - RELEVANCE) * (log_p - overall)
    apart = {
        int(k): ", ".join(
            str(subject.columns[v]) for v in np.argsort(-rank[k], kind="stable")[:N_WORDS]
        )
        for k in subject.shown
    }
    more = {
        **subject.more,
        "topic_word": probability,
        "overall": overall,
        "apart": apart,
        "counted": "document",
        "smoothing": float(self.word_concentration),
    }
    return replace(subject, more=more)


def observe_documents(
    self: TopicEstimator, subject: Subject, X: Rows, by: Any, where: Any = None
) -> Subject:
    """The subject with shares of topics in documents, and coherence of topics."""
    from stickbreak.report import Observed

    fitted = self._require_fitted()
    X = open_documents(X, None, fitted.schema.n_features, self.verbose)
    counts = sparse.csr_array(count_documents(self._given(X), fitted.schema)[0])
    unknown = unknown_in_documents(X, fitted.schema)
    if counts.shape[0] == 0:
        raise ValueError("X has no documents; give at least one, or no X")
    documents, K = self._use(self._given(counts))[1], len(fitted.ids)
    with workers(self.n_jobs) as pool:
        potentials = self._with_legal(fitted, fitted.potentials())
        shares = fitted.model.unit_shares(potentials, documents.whole(), pool)
    labels, n_words = shares.argmax(1), int(counts.sum())
    topic_word = subject.more["topic_word"]
    top = [
        [int(v) for v in np.argsort(-topic_word[int(k)], kind="stable")[:8]] for k in subject.shown
    ]
    coherence, checked = np.full(K, np.nan), {}
    if counts.shape[1] >= 2:
        coherence[subject.shown] = npmi_coherence(top, counts)
        checked = _drawn_coherence(top[:MOST_DRAWN], counts, shares, topic_word)
    chosen = {int(k): np.argsort(-shares[:, k], kind="stable")[:4].tolist() for k in subject.shown}
    observed = Observed(
        n_rows=n_words,
        n_units=counts.shape[0],
        sizes=np.bincount(labels, minlength=K),
        shares=shares[:MOST_DOCUMENTS],
        coherence=coherence,
        n_topics_of_document=float((shares > 0.05).sum(1).mean()),
        groups=group_shares(subject, by, labels, "document"),
        n_unknown=unknown.n_words,
        n_unknown_places=unknown.n_places,
    )
    texts = {
        d: _first_words(counts, subject, d) for k in chosen for d in chosen[k]
    } if subject.shows_texts else {}  # fmt: skip
    held = "words with their weights"
    held += f"; the commonest words of {len(texts):,} documents (left out with texts=False)."
    more = {
        **subject.more,
        "documents": {k: [(d, float(shares[d, k])) for d in own] for k, own in chosen.items()}
        if subject.keeps != "none"
        else {},
        "texts": texts,
        "correlation": np.corrcoef(shares.T) if len(shares) > 2 and K > 1 else None,
        **checked,
        "unknown": "they are left out",
        "holds": held if texts else "words with their weights; no text of documents.",
    }
    digests = {
        **subject.digests,
        "data": data_digest([counts.data, counts.indices, counts.indptr]),
    }
    return replace(subject, observed=observed, more=more, digests=digests)


def _drawn_coherence(top: Any, counts: Any, shares: Array, topic_word: Array) -> dict[str, Array]:
    """Coherence of topics in some documents, and in draws of these from the model.

    Only whether a document has a word matters, so that is drawn, with the probability that a
    document of its length and shares has it.
    """
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(len(shares), min(len(shares), DRAW_DOCUMENTS), replace=False))
    if len(chosen) < 10:
        return {}
    words, inverse = np.unique(np.array(top), return_inverse=True)
    places: Any = inverse.reshape(np.array(top).shape).tolist()
    some = counts[chosen]
    sizes = np.asarray(some.sum(1)).ravel()
    each = np.minimum(shares[chosen] @ topic_word[:, words], 1.0)
    present = -np.expm1(sizes[:, None] * np.log1p(-np.minimum(each, 1 - 1e-12)))
    own = _coherences((some[:, words].toarray() > 0).astype(float), places)
    drawn = [
        _coherences((rng.random(present.shape) < present).astype(float), places)
        for _ in range(N_DRAWS)
    ]
    return {"coherence": own, "drawn_coherence": np.array(drawn)}


def _coherences(present: Array, places: list[list[int]]) -> Array:
    """(topics,) coherence. present (S, words) : 1 where a document has the word"""
    share = present.T @ present / len(present)
    return np.array([mean_npmi(share[np.ix_(own, own)]) for own in places])


def _first_words(counts: Any, subject: Subject, d: int) -> str:
    """The commonest words of a document, in the order of the vocabulary."""
    begin, end = counts.indptr[d], counts.indptr[d + 1]
    columns, amounts = counts.indices[begin:end], counts.data[begin:end]
    order = np.argsort(-amounts, kind="stable")[:MOST_TEXTS]
    return " ".join(str(subject.columns[v]) for v in columns[order])
