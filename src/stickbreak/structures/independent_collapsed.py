"""Collapsed sweeps of mixtures: the shares of every row, given all other rows.

The counts of a sweep have the same fields as those of a local step. The local part of the bound is
the entropy of the shares, so the bound at the sweep's shares is the variational one; sweeps do not
maximize it, and it may fall. With seeds, rows have a label each, which they keep.
"""

from __future__ import annotations

import numpy as np

from stickbreak.kernels.row_draws import draw_rows
from stickbreak.kernels.row_sweeps import sweep_rows
from stickbreak.protocols import SweptLane

from .labels import read_states, require_single

__all__ = ["sweep_table"]


def sweep_table(lane: SweptLane) -> tuple[float, float]:
    """See `BaseStructure.sweep`; own: shares (n, K) of the rows, float32, or their labels."""
    batch, how, own, legal = lane.batch, lane.how, lane.own, lane.legal
    repeats, K = batch.repeats_or_ones(), len(lane.out["share"])
    sets, allowed = np.zeros(0, dtype=np.int64), np.ones((1, K))
    if batch.sets is not None and legal is not None:
        sets, allowed = np.asarray(batch.sets, dtype=np.int64), np.ascontiguousarray(legal)
    given = lane.live, lane.pseudo, lane.tables["share"], batch.rows, repeats, sets, allowed
    outs = lane.out_live, lane.out["share"]
    if how.seeds is None:
        flags = how.is_part, how.moves, how.is_measured
        found = sweep_rows(*given, own["shares"], *flags, *outs)
        return float(found[0]), float(found[1])
    require_single(batch)
    states = read_states(own, repeats > 0, how.is_part, K)
    log_z = draw_rows(*given, states, how.is_part, how.seeds, how.power, *outs)
    own["state"][...] = states + 1
    return float(log_z), 0.0
