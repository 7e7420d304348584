"""Starts for documents: clusters of whole documents by words; for vectors, clusters of vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Batch, Documents, Table
from stickbreak.families import Categorical, Multinomial
from stickbreak.inference import Start
from stickbreak.models import finite_mixture
from stickbreak.protocols import Pool
from stickbreak.stats import Summary

from .plusplus import from_plusplus

__all__ = ["from_documents", "word_counts"]

SAMPLE_WORDS = 2_000_000  # distinct words (summed over documents) that a start reads
# prior count of a word when documents are compared: with a small one every rare word would be a
# cluster
SMOOTHING = 1.0


def from_documents(
    model: Any,
    data: Documents,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_passes: int = 2,
    pool: Pool = map,
) -> Start:
    """Start each component from the words of a cluster of documents.

    Bregman k-means++ and n_passes of Bregman k-means.
    """
    batch = data.sample(SAMPLE_WORDS, rng)
    if isinstance(model.family, Categorical):
        rows, n_symbols = word_counts(batch, model.family.n_symbols[0]), model.family.n_symbols[0]
        mixture = finite_mixture(Multinomial(max(SMOOTHING, model.family.concentration), n_symbols))
        table = Table(rows, batch.times)
    else:
        mixture, table = finite_mixture(model.family), Table(batch.rows, batch.repeats)
    found = from_plusplus(mixture, table, n_components, rng, n_passes=n_passes, pool=pool)
    return Start(_as_topics(model, found.seed, data), model.start_params(n_components))


def word_counts(batch: Batch, n_symbols: int) -> Any:
    """(S, V) counts of words in documents."""
    symbols = batch.rows[:, 0] if batch.symbols is None else batch.symbols[batch.rows[:, 0]]
    parts: Any = batch.repeats_or_ones(), symbols, batch.offsets
    return sparse.csr_array(parts, shape=(batch.n_spans, n_symbols))


def _as_topics(model: Any, seed: Summary, data: Documents) -> Summary:
    """The family's counts as those of a topic model; E[log pi] is still unknown."""
    empty = model.zeros(seed.size("component"))
    names = [name for name in model.family.fields(model.axis) if name in seed]
    arrays = {name: np.ascontiguousarray(seed[name]).reshape(empty[name].shape) for name in names}
    share = seed["emission_total"] if "emission_total" in seed else seed["share"]
    return replace(
        empty,
        arrays={**empty.arrays, **arrays, "share": np.array(share, dtype=float)},
        n_units=data.n_units,
    )
