"""Documents that use a few components each, which they keep from visit to visit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.sparse_documents import N_LIKELY, find_likely, infer_sparse_documents
from stickbreak.protocols import Array, Potentials
from stickbreak.stats import SparseShares

from .evidence import word_evidence

__all__ = ["SparseFound", "settle_sparse"]


class SparseFound(NamedTuple):
    """Documents at their fixed points.

    shares : of the words, for documents that are not lost
    log_z (S,) : the words' log normalizers, summed in each document; -inf for a lost one
    own (S,) : what each document adds to the bound besides
    log_share (width + 1,) : sum of E[log pi], the rest last
    """

    shares: SparseShares
    log_z: Array
    own: Array
    log_share: Array


def settle_sparse(
    potentials: Potentials,
    block: Batch,
    limit: int,
    counts: Array,
    *,
    max_steps: int,
    tol: float,
    n_exchanges: int,
) -> SparseFound:
    """The fixed point of every document within `limit` components; counts (S, K) in and out."""
    assert block.offsets is not None
    table, index, top = word_evidence(potentials, block)
    n_units, K, width = block.n_spans, len(potentials["pseudo"]), table.shape[1]
    pseudo = np.ones(width)
    pseudo[:K] = potentials["pseudo"]
    times = np.ones(n_units) if block.times is None else block.times
    repeats, found, log_share = (
        block.repeats_or_ones(), np.empty((n_units, 4)), np.zeros(width + 1)
    )  # fmt: skip
    values = np.zeros((block.n_rows, limit))
    which = np.zeros((block.n_rows, limit), dtype=np.int64)
    infer_sparse_documents(
        table, index, *_likely(potentials, table, K), repeats, block.offsets, times, pseudo,
        potentials["rest"], K, max_steps, tol, n_exchanges, counts, values, which, log_share, found,
    )  # fmt: skip
    units = np.repeat(np.arange(n_units), np.diff(block.offsets))
    log_z = found[:, 0] + np.bincount(units, repeats * top[index], n_units)
    return SparseFound(SparseShares(values, which, K), log_z, found[:, 1], log_share)


def _likely(potentials: Potentials, table: Array, n_components: int) -> tuple[Array, Array]:
    """(M, T) most probable components of each line, and their entries; of the scores' own table
    they are kept with the scores.
    """
    linear = potentials.scores.symbol_table
    if linear is not None and linear[0] is table:
        kept = potentials.scores.likely_components
        assert kept is not None
        return kept
    shape = len(table), min(N_LIKELY, n_components)
    out, peaks = np.empty(shape, dtype=np.int64), np.empty(shape)
    find_likely(table, n_components, out, peaks)
    return out, peaks
