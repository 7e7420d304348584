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
from stickbreak.stats import Fields

__all__ = ["sweep_table"]


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
