"""Prepared rows of which some lack entries, and what families do with NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.data import is_sparse
from stickbreak.protocols import Array

__all__ = ["Incomplete", "column_counts", "features_of", "fill_missing", "find_missing"]


@dataclass(frozen=True)
class Incomplete:
    """Prepared rows of which some lack entries.

    features : 0 where an entry is missing.
    missing (D, n) : 1 where an entry is missing, else 0.
    """

    features: Array
    missing: Array


def features_of(rows: Array | Incomplete) -> tuple[Array, Array | None]:
    """Features of prepared rows, and where entries are missing (None if rows are complete)."""
    return (rows.features, rows.missing) if isinstance(rows, Incomplete) else (rows, None)


def find_missing(rows: Any) -> Array | None:
    """(n, D) where the user's rows are NaN; None if they are complete."""
    if is_sparse(rows) or np.asarray(rows).dtype.kind != "f":
        return None
    missing = np.isnan(rows)
    return missing if missing.any() else None


def column_counts(rows: Array, missing: Array) -> Array:
    """Number of rows seen by each column: (K, D), or (K, 1) if nothing is missing, which is faster.

    rows (K,) : number of rows of each component. missing (K, D) : how many of them lack the column.
    """
    return np.maximum(rows[:, None] - missing, 0.0) if missing.any() else rows[:, None]


def fill_missing(rows: Any, values: Array) -> Array:
    """Rows (n, D) with NaN replaced by values (n, D)."""
    return np.where(np.isnan(rows), values, rows)
