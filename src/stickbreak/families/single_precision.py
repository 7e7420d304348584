"""Rough evidence in single precision, and exact evidence for chosen components.

Families with linear evidence share these functions. Rough evidence preselects the components that
are then evaluated exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.kernels.sparse import dot_sparse
from stickbreak.protocols import Array
from stickbreak.stats import rows_first

__all__ = ["evaluate_sparse", "multiply_roughly", "pick_sparse", "single"]


def single(values: Any) -> Any:
    """An array or CSR matrix in single precision; values that are too large become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def multiply_roughly(coefficients: Array, features: Array) -> Array:
    """(K, n) product of coefficients (K, P), already in single precision, and features (P, n)."""
    # A row with infinite terms is preselected by the rest, then evaluated exactly.
    with np.errstate(over="ignore", invalid="ignore"):
        return coefficients @ single(features)


def evaluate_sparse(coefficients: Array, features: Array, index: Array) -> Array:
    """(n, M) product of features (P, n) with coefficients (K, P) of components index (n, M).

    -inf where the index is -1.
    """
    out = np.empty(index.shape)
    dot_sparse(rows_first(features.T), coefficients, index, out)
    return out


def pick_sparse(evidence: Array, index: Array) -> Array:
    """(n, M) entries of evidence (n, K) at components index (n, M); -inf where the index is -1."""
    return np.where(index >= 0, np.take_along_axis(evidence, np.maximum(index, 0), axis=1), -np.inf)
