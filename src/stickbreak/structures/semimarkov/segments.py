"""Segments of labeled rows: successive rows of one state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stickbreak.protocols import Array, Out

__all__ = ["Segments", "count_segments", "segments_of"]


class Segments(NamedTuple):
    """Segments in the order of their rows: arrays (m,) of whole numbers.

    unit : the sequence; begin, end : rows, counted from the first one of all sequences
    state : -1 for rows without a label
    is_first, is_last : whether a sequence begins or ends here
    """

    unit: Array
    begin: Array
    end: Array
    state: Array
    is_first: Array
    is_last: Array


def segments_of(labels: Array, offsets: Array) -> Segments:
    """The segments of labels (n,) of stacked sequences: all rows are in one."""
    n = int(offsets[-1])
    changes = np.ones(n, dtype=bool)
    changes[1:] = labels[1:] != labels[:-1]
    changes[offsets[:-1]] = True
    begin = np.flatnonzero(changes)
    end = np.r_[begin[1:], n]
    unit = np.searchsorted(offsets, begin, side="right") - 1
    ends = begin == offsets[unit], end == offsets[unit + 1]
    return Segments(unit, begin, end, np.asarray(labels)[begin], *ends)


def count_segments(found: Segments, lengths: Array, weights: Array, out: Out) -> None:
    """Add starts, steps and rows of segments, and lengths (m,) where they are above zero.

    weights (units,) : of each sequence
    """
    weight, known = weights[found.unit], found.state >= 0
    first = found.is_first & known
    np.add.at(out["start"], found.state[first], weight[first])
    np.add.at(out["rows"], found.state[known], (weight * (found.end - found.begin))[known])
    steps = np.flatnonzero(~found.is_last)
    steps = steps[known[steps] & known[steps + 1]]
    at = found.state[steps], found.state[steps + 1]
    np.add.at(out["transition"], at, weight[steps])
    counted = known & (lengths > 0)
    if "duration" in out:
        where = found.state[counted], lengths[counted] - 1
        np.add.at(out["duration"], where, weight[counted])
