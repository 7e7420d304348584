"""Held-out scores of topic models: document completion, as published comparisons define it.

Of each document a fifth of the distinct words is held out, with all their occurrences. The others
give its shares of the topics, and the held-out words are scored by them. Nothing but the topics and
their shares in training is taken from the model, so that numbers of any two models, and of other
tools, may be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.data import Batch, Documents
from stickbreak.inference import workers
from stickbreak.kernels.documents import infer_documents
from stickbreak.kernels.vectors import EIGHT
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Schema, read_documents
from stickbreak.stats import Array

__all__ = ["Topics", "document_completion", "score_completion"]

DOCUMENT_PRIOR = 0.1  # prior count of each topic in a document, whatever the model's own is
HELD_OUT = 0.2  # of the distinct words of a document
FEWEST_WORDS = 5  # documents with fewer distinct words are left out,
FEWEST_OF_FEW = 2  # unless no document can have as many: then those with fewer than two are
LEAST = 1e-12  # smallest probability of a word
MAX_STEPS, TOL = 100, 1e-4  # of the shares: steps, and the mean change of counts that ends them
PART = 256  # documents of one job
MASS_TOLERANCE = 1e-3  # of a topic's probabilities: tools that round to single precision pass


class Topics(NamedTuple):
    """Topics that hold words. words (V, K) : probabilities, floored. shares (K,) : in training."""

    words: Array
    shares: Array

    @classmethod
    def of(cls, topic_word: Array, counts: Array) -> Topics:
        """From topics (K, V) and their expected words (K,); empty topics are left out."""
        used = counts > 0
        words = np.ascontiguousarray(np.maximum(topic_word[used], LEAST).T)
        return cls(words, counts[used] / counts[used].sum())


class Halves(NamedTuple):
    """Words of some documents: known ones, and those to score.

    symbols, repeats (n,) and offsets (S + 1,) of the known ones; held, times (m,) : the words to
    score and their occurrences; owners (m,) : their documents.
    """

    symbols: Array
    repeats: Array
    offsets: Array
    held: Array
    times: Array
    owners: Array


def document_completion(
    topic_word: ArrayLike,
    weights: ArrayLike,
    documents: Rows,
    *,
    words: Sequence[str] | None = None,
    prior: ArrayLike = DOCUMENT_PRIOR,
    numbers: Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> float:
    """Mean log probability of held-out words under topics of any tool, in nats.

    `score` of topic models is this for their own topics. Of each document with five distinct words
    or more, a random fifth of them is held out with all their occurrences. The others give its
    shares of the topics, and the held-out ones are scored: log sum_k share_k topic_word_kw.

    Parameters
    ----------
    topic_word : (K, V) probabilities of the words in each topic.
    weights : (K,) size of each topic in training, in words or as a share. Shares of a document
        begin there; topics of size zero are left out.
    documents : held-out documents, in any form that topic models are fitted to.
    words : (V,) names of the words, for documents that are given by name.
    prior : count of each topic in a document, or one for all.
    numbers : (S,) seeds of the documents' splits, numpy.random.RandomState(number); default: their
        positions.
    n_jobs : threads, as in the estimators.

    Examples
    --------
    >>> import stickbreak as sb
    >>> words = ["cat", "dog", "fur", "salt", "soup", "pan"]
    >>> topics = [[0.3, 0.3, 0.3, 0.05, 0.03, 0.02], [0.02, 0.03, 0.05, 0.3, 0.3, 0.3]]
    >>> documents = [["cat", "dog", "fur", "cat", "pan", "salt"]]
    >>> round(sb.metrics.document_completion(topics, [1, 1], documents, words=words), 3)
    -1.547
    """
    table, sizes = _checked_topics(topic_word, weights)
    V = table.shape[1]
    pseudo = _checked_prior(prior, sizes > 0)
    if words is not None and len(words) != V:
        raise ValueError(f"words has {len(words)} names but topic_word has {V} columns")
    schema = Schema(V, None if words is None else tuple(words))
    found = read_documents(Given(documents, owner="topic_word"), schema)[0]
    if numbers is not None and len(numbers) != found.n_spans:
        raise ValueError(f"numbers has {len(numbers)} seeds for {found.n_spans} documents")
    with workers(n_jobs) as pool:
        return score_completion(found, Topics.of(table, sizes), pool, prior=pseudo, numbers=numbers)


def _checked_topics(topic_word: ArrayLike, weights: ArrayLike) -> tuple[Array, Array]:
    table, sizes = np.asarray(topic_word, dtype=float), np.asarray(weights, dtype=float)
    if table.ndim != 2 or sizes.shape != table.shape[:1] or not table.size:
        raise ValueError(
            f"topic_word has shape {table.shape} and weights {sizes.shape}; give (K, V) and (K,)"
        )
    masses = table.sum(1)
    # `not all(right)` and not `any(wrong)`: comparisons with NaN are false
    if not (table >= 0).all() or not (np.abs(masses - 1.0) <= MASS_TOLERANCE).all():
        k = int(np.argmax(~((np.abs(masses - 1.0) <= MASS_TOLERANCE) & (table >= 0).all(1))))
        raise ValueError(
            f"topic {k} of topic_word has a sum of {masses[k]:g} and a smallest entry of "
            f"{table[k].min():g}; probabilities are not negative and sum to 1: divide each topic "
            "by its sum"
        )
    if not (np.isfinite(sizes) & (sizes >= 0)).all() or not sizes.any():
        raise ValueError(
            f"weights must not be negative, and some must be positive; got {sizes.tolist()}"
        )
    return table, sizes


def _checked_prior(prior: ArrayLike, used: Array) -> Array:
    """Prior counts of the topics that are used (K,)."""
    found = np.asarray(prior, dtype=float)
    if found.shape not in ((), used.shape):
        raise ValueError(f"prior has shape {found.shape}; give one number, or {used.shape}")
    counts = np.broadcast_to(found, used.shape)[used]
    if not ((counts > 0) & np.isfinite(counts)).all():
        raise ValueError(f"prior must be a positive count of each topic; got {found.tolist()}")
    return counts


def score_completion(
    documents: Documents,
    topics: Topics,
    pool: Pool,
    *,
    prior: Array | float = DOCUMENT_PRIOR,
    numbers: Sequence[int] | None = None,
) -> float:
    """Mean log probability of the held-out words of the documents, in nats.

    Parameters
    ----------
    documents : words of a document in the order of their ids.
    prior : counts of the topics in a document, (K,) or one for all.
    numbers : (S,) seeds of the documents' random splits; default: their positions.
    """
    chosen = range(documents.n_spans) if numbers is None else numbers
    fewest = FEWEST_WORDS if len(topics.words) >= FEWEST_WORDS else FEWEST_OF_FEW
    jobs = _parts(documents, chosen, fewest)
    pseudo = np.broadcast_to(np.asarray(prior, dtype=float), topics.shares.shape)
    table = _padded(topics.words / topics.words.max(1, keepdims=True))
    where = pool if documents.whole().is_by_reference else pool.here
    parts = list(where.map(partial(_score_part, topics, table, pseudo), jobs))
    total, weight = np.sum(parts, axis=0) if parts else (0.0, 0.0)
    if weight == 0:
        raise ValueError(
            f"no document has {fewest} distinct words, most of them to learn its topics from "
            "and some to score"
        )
    return float(total / weight)


def _parts(
    documents: Documents, numbers: Sequence[int], fewest: int
) -> Iterator[tuple[Batch, Array, list[int]]]:
    """Documents with `fewest` words or more, PART at a time: a batch, which of it, their seeds."""
    assert documents.offsets is not None
    whole, at = documents.whole(), np.flatnonzero(np.diff(documents.offsets) >= fewest)
    for lo in range(0, len(at), PART):
        own = at[lo : lo + PART]
        part = whole.part(int(own[0]), int(own[-1]) + 1).alone()
        yield part, own - own[0], [int(numbers[s]) for s in own]


def _score_part(
    topics: Topics, table: Array, pseudo: Array, job: tuple[Batch, Array, list[int]]
) -> tuple[float, float]:
    return _score(_deal(*job), topics, table, pseudo)


def _deal(documents: Batch, at: Array, numbers: Sequence[int]) -> Halves:
    """Known and held-out words of the documents at positions `at`."""
    assert documents.offsets is not None
    assert documents.repeats is not None
    known, held = [], []
    for s, number in zip(at, numbers, strict=True):
        lo, hi = documents.offsets[s], documents.offsets[s + 1]
        # numpy's old generator, whose numbers never change: the split of the published figures
        order = lo + np.random.RandomState(number).permutation(int(hi - lo))
        n_held = max(1, round(HELD_OUT * len(order)))
        held.append(order[:n_held])
        known.append(order[n_held:])
    first, second = np.concatenate(known), np.concatenate(held)
    symbols, repeats = documents.rows[:, 0], documents.repeats
    return Halves(
        np.ascontiguousarray(symbols[first], dtype=np.int64),
        np.ascontiguousarray(repeats[first]),
        np.r_[0, np.cumsum([len(part) for part in known])],
        symbols[second],
        repeats[second],
        np.repeat(np.arange(len(held)), [len(part) for part in held]),
    )


def _score(half: Halves, topics: Topics, table: Array, pseudo: Array) -> tuple[float, float]:
    """Sum of the log probabilities of held-out words, and their number."""
    shares = _shares(half, topics, table, pseudo)
    found = np.einsum("nk,nk->n", shares[half.owners], topics.words[half.held])
    return float(half.times @ np.log(found)), float(half.times.sum())


def _shares(half: Halves, topics: Topics, table: Array, pseudo: Array) -> Array:
    """(S, K) posterior mean shares from the known words, begun at the shares of training."""
    K, width, n = len(pseudo), table.shape[1], len(half.offsets) - 1
    lengths = np.add.reduceat(half.repeats, half.offsets[:-1])
    counts = _padded(lengths[:, None] * topics.shares)
    prior = np.ones(width)  # components beyond K, which have no words
    prior[:K] = pseudo
    weights, scale, found = np.empty((n, width)), np.empty(len(half.symbols)), np.empty((n, 4))
    infer_documents(
        table, half.symbols, half.repeats, half.offsets, np.ones(n), prior, 0.0, K, MAX_STEPS,
        TOL, np.zeros(2), counts, weights, scale, np.zeros(width + 1), found,
    )  # fmt: skip
    assert np.isfinite(found[:, 0]).all()  # LEAST keeps sums far from underflow
    theta = counts[:, :K] + pseudo
    return np.asarray(theta / theta.sum(1, keepdims=True))


def _padded(values: Any) -> Array:
    """Values (n, K) with columns of zeros up to a multiple of eight."""
    width = -(-values.shape[1] // EIGHT) * EIGHT
    return np.ascontiguousarray(np.pad(values, ((0, 0), (0, width - values.shape[1]))))
