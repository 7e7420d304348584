"""Collapsed sweeps of mixtures: the shares of every row, given all other rows.

The counts of a sweep have the same fields as those of a local step. The local part of the bound is
the entropy of the shares, so the bound at the sweep's shares is the variational one; sweeps do not
maximize it, and it may fall.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.row_sweeps import LiveShares, sweep_rows
from stickbreak.protocols import Array, Out, Sweep
from stickbreak.stats import Field, Fields

__all__ = ["no_shares", "random_shares", "sweep_table"]


def no_shares(n_rows: int, n_components: int, axis: str) -> Fields:
    """Shares (n, K), float32, none yet."""
    shares = np.zeros((n_rows, n_components), dtype=np.float32)
    return Fields({"shares": Field(("row", axis))}, {"shares": shares})


def random_shares(
    batch: Batch, n_components: int, axis: str, rng: np.random.Generator, legal: Array | None
) -> Fields:
    """Uniformly random shares (n, K), float32, of the components that a row may have."""
    shares = rng.standard_exponential((batch.n_rows, n_components), dtype=np.float32)
    if legal is not None and batch.sets is not None:
        shares *= np.asarray(legal)[batch.sets] > 0
    shares /= shares.sum(1, keepdims=True)
    return Fields(no_shares(0, n_components, axis).layout, {"shares": shares})


def sweep_table(
    live: Any,
    tables: Out,
    pseudo: LiveShares,
    lane: Batch,
    legal: Array | None,
    own: Fields,
    out_live: Any,
    out: Out,
    how: Sweep,
) -> tuple[float, float]:
    """See `BaseStructure.sweep`; own: shares (n, K) of the rows, float32."""
    shares = own["shares"]
    sets, allowed = np.zeros(0, dtype=np.int64), np.ones((1, shares.shape[1]))
    if lane.sets is not None and legal is not None:
        sets, allowed = np.asarray(lane.sets, dtype=np.int64), np.ascontiguousarray(legal)
    found = sweep_rows(
        live, pseudo, tables["share"], lane.rows, lane.repeats_or_ones(), sets, allowed, shares,
        how.is_part, how.moves, how.is_measured, out_live, out["share"],
    )  # fmt: skip
    return float(found[0]), float(found[1])
