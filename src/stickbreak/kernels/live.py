"""Live counts: rows leave and join them one by one, inside compiled sweeps.

A family keeps its counts, with its prior, as a NamedTuple of arrays (`BaseFamily.live`), and reads
rows in a form of its own (`live_rows`). Functions are chosen by the NamedTuple's type; the kinds
are in the files `live_*.py`. The rows of a unit are lo..hi, and what leaves the counts is own.
"""

from __future__ import annotations

import numpy as np

from .compile import by_type, kernel

__all__ = ["score", "score_without", "tally"]


@by_type
def score_without(live, rows, n, own, out):
    """Log predictive of row n given the counts less own (K,) times the row, into out (K,).

    The counts stay as they are.
    """


@by_type
def tally(live, rows, lo, hi, shares, sign):
    """Add sign * shares (hi - lo, K) times the rows lo..hi to the counts."""


@kernel
def score(live, rows, lo, hi, out):
    """Log predictive of each row lo..hi given the counts, into out (hi - lo, K)."""
    none = np.zeros(out.shape[1])
    for t in range(lo, hi):
        score_without(live, rows, t, none, out[t - lo])
