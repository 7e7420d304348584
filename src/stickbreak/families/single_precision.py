"""Judging in single precision to find a row's candidates, and exactly those: what families with
linear evidence share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.kernels.sparse import dot_sparse
from stickbreak.protocols import Array
from stickbreak.stats import rows_first

__all__ = ["judge_sparse", "multiply_roughly", "pick_sparse", "single"]


def single(values: Any) -> Any:
    """Numbers, an array or a CSR matrix of them, in single precision; what is too large becomes
    infinite.
    """
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def multiply_roughly(coefficients: Array, features: Array) -> Array:
    """(K, n) product of coefficients (K, P), in single precision already, with features (P, n)."""
    # infinite terms: the row is chosen for by what is left, then judged exactly
    with np.errstate(over="ignore", invalid="ignore"):
        return coefficients @ single(features)


def judge_sparse(coefficients: Array, features: Array, index: Array) -> Array:
    """(n, M) products of coefficients (K, P) of the components index (n, M) with features (P, n);
    -inf where the index is -1.
    """
    out = np.empty(index.shape)
    dot_sparse(rows_first(features.T), coefficients, index, out)
    return out


def pick_sparse(evidence: Array, index: Array) -> Array:
    """(n, M) of evidence (n, K) at the components index (n, M); -inf where the index is -1."""
    return np.where(index >= 0, np.take_along_axis(evidence, np.maximum(index, 0), axis=1), -np.inf)
