"""Starts from clusters of whole units (documents), by the sums of their rows.

Where a family has no such sums, clusters of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stickbreak.data import Batch, Documents, Table
from stickbreak.inference import Start
from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL

from .plusplus import from_plusplus

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["SMOOTHING", "from_documents", "word_counts"]

SAMPLE_WORDS = 2_000_000  # distinct words of documents that a start looks at
# prior count of a word while documents are compared: small ones make every rare word a cluster
SMOOTHING = 1.0


def from_documents(
    model: Model,
    data: Documents,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_passes: int = 2,
    pool: Pool = SERIAL,
) -> Start:
    """Start from clusters: Bregman k-means++ and n_passes of Bregman k-means, of the units' sums.

    What a component counts are the words of a cluster of documents. E[log pi] is not known yet.
    """
    batch, grouped = data.sample(SAMPLE_WORDS, rng), model.family.grouped(SMOOTHING)
    mixture = model.finite_mixture(grouped)
    if grouped is None:
        table = Table(batch.rows, batch.repeats)
    else:
        table = Table(word_counts(batch, grouped.n_columns), batch.times)
    seed = from_plusplus(mixture, table, n_components, rng, n_passes=n_passes, pool=pool).seed
    if grouped is None:
        found = {name: seed[name] for name in model.family.fields(model.axis)}
        sizes = mixture.prior.sizes(seed)
    else:
        found, sizes = model.family.from_grouped(seed)
    empty = model.zeros(n_components)
    arrays = {**empty.arrays, **found, **model.prior.of_sizes(np.array(sizes, dtype=float))}
    return Start(
        replace(empty, arrays=arrays, n_units=data.n_units), model.start_params(n_components)
    )


def word_counts(batch: Batch, n_symbols: int) -> Any:
    """(S, V) counts of words in documents."""
    symbols = batch.rows[:, 0] if batch.symbols is None else batch.symbols[batch.rows[:, 0]]
    parts: Any = batch.repeats_or_ones(), symbols, batch.offsets
    return sparse.csr_array(parts, shape=(batch.n_spans, n_symbols))
