"""Quadratic features of rows, feature-major (P, n).

Evaluating rows and collecting statistics then take one matrix product each.
"""

from __future__ import annotations

import math

from .compile import kernel

__all__ = [
    "diagonal_features",
    "full_features",
    "shifted_features",
    "standardize",
    "standardized_diagonal",
    "standardized_full",
    "update_factors",
]


@kernel
def standardize(rows, center, inverse_scale, out):
    """Out (P, n): out[0] = 1, out[1 + d] = (rows[:, d] - center[d]) * inverse_scale[d].

    rows (n, D). Returns whether any value is NaN.
    """
    n, D = rows.shape
    n_missing = 0
    for i in range(n):
        out[0, i] = 1.0
    for d in range(D):
        target, c, s = out[1 + d], center[d], inverse_scale[d]
        for i in range(n):
            value = (rows[i, d] - c) * s
            target[i] = value
            n_missing += value != value
    return n_missing > 0


@kernel
def full_features(out, n_features):
    """Fill out[1 + D:] with the products z_a z_b, a <= b, of the rows z in out[1:1 + D].

    `standardize` writes z.
    """
    n = out.shape[1]
    p = 1 + n_features
    for a in range(n_features):
        first = out[1 + a]
        for b in range(a, n_features):
            second, target = out[1 + b], out[p]
            for i in range(n):
                target[i] = first[i] * second[i]
            p += 1


@kernel
def diagonal_features(out, n_features):
    """Fill out[1 + D:1 + 2 D] with squares."""
    n = out.shape[1]
    for d in range(n_features):
        source, target = out[1 + d], out[1 + n_features + d]
        for i in range(n):
            target[i] = source[i] * source[i]


@kernel
def standardized_full(rows, center, inverse_scale, out):
    """`standardize`, then `full_features`; returns whether any value is NaN."""
    is_incomplete = standardize(rows, center, inverse_scale, out)
    full_features(out, rows.shape[1])
    return is_incomplete


@kernel
def standardized_diagonal(rows, center, inverse_scale, out):
    """`standardize`, then `diagonal_features`; returns whether any value is NaN."""
    is_incomplete = standardize(rows, center, inverse_scale, out)
    diagonal_features(out, rows.shape[1])
    return is_incomplete


@kernel
def shifted_features(features, shift, n_features, out):
    """out[0] = 1, out[1 + d] = features[1 + d] - shift[d]: rows about another reference point."""
    n = out.shape[1]
    for i in range(n):
        out[0, i] = 1.0
    for d in range(n_features):
        source, target, c = features[1 + d], out[1 + d], shift[d]
        for i in range(n):
            target[i] = source[i] - c


@kernel
def update_factors(factors, vectors):
    """In place: lower Cholesky factors (K, D, D) of A become those of A + v v'.

    By Givens rotations; vectors v (K, D) are overwritten.
    """
    K, D = vectors.shape
    for k in range(K):
        factor, v = factors[k], vectors[k]
        for i in range(D):
            if v[i] == 0.0:
                continue
            r = math.hypot(factor[i, i], v[i])
            c, s = r / factor[i, i], v[i] / factor[i, i]
            factor[i, i] = r
            for j in range(i + 1, D):
                before = factor[j, i]
                factor[j, i] = (before + s * v[j]) / c
                # = c v - s factor, without a difference of large terms (c c - s s = 1)
                v[j] = (v[j] - s * before) / c
