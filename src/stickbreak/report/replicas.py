"""Some of the data, and draws from the fitted model of the same size: what checks compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stickbreak.protocols import Array

__all__ = ["Replica", "largest_gap", "stays_of"]


@dataclass(frozen=True)
class Replica:
    """Rows, and what the model says of them.

    rows : (n, D) numbers, or None where they cannot be compared column by column
    labels, scores : (n,) components and log predictive densities of the rows
    paths : of sequences, states of each
    """

    rows: Array | None
    labels: Array
    scores: Array
    paths: Sequence[Array] = ()


def stays_of(path: Array) -> tuple[Array, Array]:
    """States of the stays of one sequence, and how long each lasted."""
    cuts = np.flatnonzero(np.diff(path)) + 1
    edges = np.concatenate([[0], cuts, [len(path)]])
    lengths = np.array([b - a for a, b in pairwise(edges.tolist())], dtype=np.int64)
    return np.asarray(path)[edges[:-1]], lengths


def largest_gap(values: Array, pool: Array) -> float:
    """Kolmogorov-Smirnov distance between values and sorted draws."""
    values = np.sort(values[np.isfinite(values)])
    if not len(values) or not len(pool):
        return 0.0
    places = np.unique(values)
    below = np.searchsorted(values, places, "right") / len(values)
    before = np.searchsorted(values, places, "left") / len(values)
    high = np.abs(below - np.searchsorted(pool, places, "right") / len(pool))
    low = np.abs(before - np.searchsorted(pool, places, "left") / len(pool))
    return float(max(high.max(), low.max()))
