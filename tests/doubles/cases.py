"""A register of models made of doubles, with data that suit them: a new record is run by every test
of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from contributed.coin import Coin
from contributed.uniform import Uniform
from contributed.von_mises import VonMises

from docs.skeletons.family import Exponential
from docs.skeletons.prior import FlatShares
from docs.skeletons.structure import Alone
from stickbreak.data import Companion, Sequences, Table, measure
from stickbreak.families import Categorical, Gaussian
from stickbreak.models import Model, finite_grammar

from . import alignment, annotation, chain, document
from .data import Ragged

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A model, data and a number of components to start with."""

    model: Model
    data: Ragged | Sequences
    n_components: int


def lengths_to_offsets(lengths: Any) -> Array:
    return np.r_[0, np.cumsum(lengths)].astype(np.int64)


def symbols(lengths: Any, n_symbols: int, seed: int, noise: float = 0.2) -> tuple[Array, Array]:
    """Rows (n, 1) of sticky symbols, some missing, and offsets."""
    rng, offsets = np.random.default_rng(seed), lengths_to_offsets(lengths)
    n, state = offsets[-1], (rng.random(offsets[-1]) < 0.3).cumsum() % 3
    rows = np.where(
        rng.random(n) < 1.0 - noise,
        2 * state + rng.integers(0, 2, n),
        rng.integers(0, n_symbols, n),
    )
    rows = np.minimum(rows, n_symbols - 1)
    rows[rng.random(n) < 0.05] = -1
    rows[0] = n_symbols - 1
    return rows[:, None], offsets


def vectors(lengths: Any, seed: int) -> tuple[Array, Array]:
    """Rows (n, 2) around three sticky centers, and offsets."""
    rng, offsets = np.random.default_rng(seed), lengths_to_offsets(lengths)
    state = (rng.random(offsets[-1]) < 0.3).cumsum() % 3
    centers = np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 5.0]])
    return centers[state] + rng.normal(size=(offsets[-1], 2)) @ np.array(
        [[1.0, 0.4], [0.0, 0.6]]
    ), offsets


def documents(n_units: int, n_symbols: int, seed: int) -> Ragged:
    """Word types of each unit with their numbers of occurrences, from three topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_symbols, 0.1), 3)
    tables = [
        rng.multinomial(rng.integers(8, 25), rng.dirichlet(np.full(3, 0.4)) @ topics)
        for _ in range(n_units)
    ]
    rows = np.concatenate([np.flatnonzero(t) for t in tables])
    repeats = np.concatenate([t[t > 0] for t in tables]).astype(float)
    return Ragged(rows[:, None], lengths_to_offsets([(t > 0).sum() for t in tables]), repeats)


def bitext(lengths: Any, n_words: int, seed: int) -> Sequences:
    """Target words (n, 1) of pairs, most of them translations: source word w of n_words, NULL
    among them, gives w - 1.
    """
    rng, offsets = np.random.default_rng(seed), lengths_to_offsets(lengths)
    sizes = rng.integers(1, 5, len(lengths))
    ends = lengths_to_offsets(sizes)
    source = rng.integers(1, n_words, ends[-1])
    at = np.repeat(ends[:-1], lengths) + rng.integers(0, np.repeat(sizes, lengths))
    is_noise = rng.random(offsets[-1]) < 0.2
    rows = np.where(is_noise, rng.integers(0, n_words, len(at)), source[at] - 1)
    return Sequences(rows[:, None], offsets=offsets, companion=Companion(source, ends))


def skeletons(lengths: Any, n_symbols: int, seed: int, noise: float = 0.2) -> Sequences:
    """Words (n, 1) under random trees: three subtypes, with their own words, tag, and children."""
    rng, offsets = np.random.default_rng(seed), lengths_to_offsets(lengths)
    rows, sides = [], []

    def grow(n: int, subtype: int, words: list[Any], inner: list[Any], size: int) -> int:
        if n == 1:
            word = 2 * subtype + rng.integers(2)
            rows.append(rng.integers(n_symbols) if rng.random() < noise else word)
            words.append((int(subtype > 0), -1, -1))
            return len(words) - 1
        cut, label = int(rng.integers(1, n)), int(rng.integers(2))
        left = grow(cut, (subtype + label) % 3, words, inner, size)
        right = grow(n - cut, (subtype + 1) % 3, words, inner, size)
        inner.append((label, left, right))
        return size + len(inner) - 1

    for n in lengths:
        words, inner = [], []
        grow(int(n), int(rng.integers(2)), words, inner, int(n))
        sides.append(np.array(words + inner, dtype=np.int64))
    companion = Companion(
        np.concatenate(sides), lengths_to_offsets([len(nodes) for nodes in sides])
    )
    return Sequences(np.array(rows)[:, None], offsets=offsets, companion=companion)


def resolved(family: Any, rows: Array) -> Any:
    return family.resolve(measure(Table(rows)))


def _cases() -> dict[str, Case]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 12, 24)
    rows, offsets = symbols(lengths, 7, 1)
    words, word_offsets = symbols(rng.integers(1, 7, 20), 5, 2)
    points, point_offsets = vectors(lengths, 4)
    bags = documents(20, 12, 5)
    waits = np.random.default_rng(8).exponential([[1.0, 20.0], [30.0, 0.5]], (30, 2, 2))
    waits = waits.reshape(60, 2)
    symbol_chain = Model(
        chain.Chain(),
        resolved(Categorical(0.3, n_symbols=(7,)), rows),
        chain.ChainRows(),
        "state",
    )
    point_chain = Model(
        chain.Chain(),
        resolved(Gaussian(mean_strength=0.1), points),
        chain.ChainRows(0.7),
        "state",
    )
    topics = resolved(Categorical(0.2, n_symbols=(12,)), bags.rows)
    categories = resolved(Categorical(0.4, n_symbols=(5,)), words)
    pairs = bitext(rng.integers(1, 6, 30), 6, 6)
    trees = skeletons(rng.integers(1, 8, 24), 6, 7)
    translations = resolved(Categorical(0.3, n_symbols=(6,)), pairs.rows)
    subtypes = resolved(Categorical(0.4, n_symbols=(6,)), trees.rows)
    return {
        "chain": Case(symbol_chain, Ragged(rows, offsets), 4),
        "chain-own-vocabulary": Case(symbol_chain, Ragged(rows, offsets, own_vocabulary=True), 4),
        "chain-gaussian": Case(point_chain, Ragged(points, point_offsets), 4),
        "document": Case(
            Model(document.Document(), topics, document.FiniteTopics(1.5), "topic"), bags, 4
        ),
        "document-rest": Case(
            Model(document.Document(), topics, document.RestTopics(1.5), "topic"), bags, 4
        ),
        # Not "symbol": that is the name of the axis over a vocabulary, which `restrict` and compact
        # batches cut.
        "tree": Case(
            finite_grammar(categories, concentration=0.5),
            Ragged(words, word_offsets),
            3,
        ),
        "alignment": Case(
            Model(alignment.Alignment(), translations, alignment.NullOrWord(), "word"), pairs, 6
        ),
        "annotation": Case(
            Model(annotation.Annotation(), subtypes, annotation.AnnotationRows(), "subtype"),
            trees,
            3,
        ),
        # as contributors would add theirs: plain parts, which declare what they can do
        "skeleton": Case(
            Model(Alone(), resolved(Exponential(), waits), FlatShares(), "kind"),
            Ragged(waits, np.arange(len(waits) + 1)),
            3,
        ),
        "coin": Case(
            Model(Coin(), resolved(VonMises(4.0), points), Uniform(), "face"),
            Ragged(points, point_offsets),
            3,
        ),
    }


def _moving() -> dict[str, Case]:
    """Data of several components that are easy to tell apart: moves should find some of them."""
    rng = np.random.default_rng(9)
    ends = lengths_to_offsets(rng.integers(2, 6, 24))
    is_verb = (np.arange(ends[-1]) - np.repeat(ends[:-1], np.diff(ends))) % 2
    words = (2 * is_verb + rng.integers(0, 2, ends[-1]))[:, None]
    return {
        "tree": replace(CASES["tree"], data=Ragged(words, ends)),
        **{name: CASES[name] for name in ("document-rest", "annotation")},
    }


CASES = _cases()
# The library has chains and documents, and the engines are tested on those.
NOT_BUILT = [name for name in CASES if not name.startswith(("chain", "document"))]
MOVING = _moving()
