"""Live counts of mixed columns: those of one member and of the rest, see `live.py`.

Three members are a pair whose rest is a pair. Rows are pairs too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compile import kernel
from .live import score_without, tally

__all__ = ["LivePair"]


class LivePair(NamedTuple):
    """Live counts of a member, and those of the members after it; or the rows that they read."""

    first: Any
    rest: Any


@score_without.of(LivePair)
@kernel
def score_pair(live, rows, n, own, out):
    """Sum of the members' log predictives."""
    more = np.empty(out.shape[0])
    score_without(live.first, rows.first, n, own, out)
    score_without(live.rest, rows.rest, n, own, more)
    for k in range(out.shape[0]):
        out[k] += more[k]


@tally.of(LivePair)
@kernel
def tally_pair(live, rows, lo, hi, shares, sign):
    """The statistics of every member."""
    tally(live.first, rows.first, lo, hi, shares, sign)
    tally(live.rest, rows.rest, lo, hi, shares, sign)
