"""What structures of trees share: how often a sentence counts, and sentences without a tree."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Array

__all__ = ["require_trees", "unit_times"]


def unit_times(block: Batch) -> Array:
    """(units,) how often each sentence counts: as its first row."""
    assert block.offsets is not None
    if block.repeats is None:
        return np.ones(block.n_spans)
    return np.ascontiguousarray(block.repeats[block.offsets[:-1]], dtype=float)


def require_trees(log_z: Array, block: Batch) -> None:
    """Raise NumericalError if a sentence has no possible tree."""
    bad = np.flatnonzero(~np.isfinite(log_z))
    if len(bad):
        why = "is not a number" if np.isnan(log_z[bad[0]]) else "is zero: no tree covers it"
        raise NumericalError(
            f"the likelihood of sentence {block.unit_at + bad[0]} {why}; check its labels and "
            "known brackets or heads, or leave it out"
        )
