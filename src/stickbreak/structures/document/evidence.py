"""Evidence of the words of documents: a line of a table for each distinct word."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.tables import linear_rows
from stickbreak.kernels.vectors import EIGHT
from stickbreak.protocols import Array, Potentials

from ..base import row_evidence

__all__ = ["largest_or_zero", "word_evidence"]


def word_evidence(potentials: Potentials, block: Batch) -> tuple[Array, Array, Array]:
    """Linear evidence table (M, width), the table row of each word (n,), log scales (M,)."""
    linear = potentials.scores.symbol_table
    if linear is not None and block.rows.shape[1] == 1 and (block.rows >= 0).all():
        table, top = linear
        index = np.ascontiguousarray(block.rows[:, 0], dtype=np.int64)
        if block.sets is None or potentials.log_legal is None:
            return table, index, top
        return _with_limits(potentials, block, table, index, top)
    logs = np.ascontiguousarray(row_evidence(potentials, block))
    table, top = np.empty((len(logs), -(-logs.shape[1] // EIGHT) * EIGHT)), np.empty(len(logs))
    linear_rows(logs, table, top)
    return table, np.arange(len(logs)), np.where(np.isfinite(top), top, 0.0)


def _with_limits(
    potentials: Potentials, block: Batch, table: Array, index: Array, top: Array
) -> tuple[Array, Array, Array]:
    """The table with a further line for each word that is limited to some components.

    A word in two sets has two lines; most words have none.
    """
    assert block.sets is not None
    assert potentials.log_legal is not None
    n_sets, limited = len(potentials.log_legal), np.flatnonzero(block.sets > 0)
    codes = index[limited] * n_sets + block.sets[limited]
    pairs, first, which = np.unique(codes, return_index=True, return_inverse=True)
    logs = potentials.scores.evidence(block.rows[limited[first]])
    logs = np.ascontiguousarray(logs + potentials.log_legal[pairs % n_sets])
    lines, tops = np.empty((len(logs), table.shape[1])), np.empty(len(logs))
    linear_rows(logs, lines, tops)
    at = index.copy()
    at[limited] = len(table) + which.reshape(-1)
    tops = np.where(np.isfinite(tops), tops, 0.0)
    return np.concatenate([table, lines]), at, np.concatenate([top, tops])


def largest_or_zero(evidence: Array) -> Array:
    """(n,) largest of each line, 0 where that is not finite."""
    top = evidence.max(1)
    return np.where(np.isfinite(top), top, 0.0)
