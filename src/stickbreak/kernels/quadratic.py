"""Quadratic features of rows, feature-major (P, n), so that judging and collecting are one matrix product each."""

from __future__ import annotations

from .compile import kernel

__all__ = ["diagonal_features", "full_features", "shifted_features", "standardize"]


@kernel
def standardize(rows, center, inverse_scale, out):
    """Out (P, n): out[0] = 1, out[1 + d] = (rows[:, d] - center[d]) * inverse_scale[d]; rows (n, D)."""
    n, D = rows.shape
    for i in range(n):
        out[0, i] = 1.0
    for d in range(D):
        target, c, s = out[1 + d], center[d], inverse_scale[d]
        for i in range(n):
            target[i] = (rows[i, d] - c) * s


@kernel
def full_features(out, n_features):
    """Fill out[1 + D:] with the products z_a z_b, a <= b, of the rows that `standardize` left in out[1:1 + D]."""
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
def shifted_features(features, shift, n_features, out):
    """out[0] = 1, out[1 + d] = features[1 + d] - shift[d]: the rows as seen from another reference point."""
    n = out.shape[1]
    for i in range(n):
        out[0, i] = 1.0
    for d in range(n_features):
        source, target, c = features[1 + d], out[1 + d], shift[d]
        for i in range(n):
            target[i] = source[i] - c
