"""Inverses of matrices that change by one vector at a time, and moments of rows.

What live counts of Gaussians with full covariance share, see `live_gaussian.py`.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel

__all__ = [
    "ILL",
    "LEAST_LEFT",
    "add_moments",
    "add_vector",
    "form_of",
    "invert",
    "spread_of",
]

LEAST_LEFT = 1e-6  # of a determinant; beyond it, or its inverse, sums are made anew from moments
# Ratio of a matrix's largest to its smallest extent from which on its inverse has too few digits;
# such components are made anew for every row.
ILL = 1e10


@kernel
def invert(matrix, out):
    """Inverse of a symmetric matrix (D, D), which is overwritten, into out; its log determinant.

    NaN if it is not positive definite.
    """
    D, log_det = matrix.shape[0], 0.0
    for j in range(D):  # upper factor U, matrix = U'U
        if not matrix[j, j] > 0.0:
            return math.nan
        root = math.sqrt(matrix[j, j])
        log_det += 2.0 * math.log(root)
        source = matrix[j]
        for i in range(j, D):
            source[i] /= root
        for i in range(j + 1, D):
            scale, target = source[i], matrix[i]
            for t in range(i, D):
                target[t] -= scale * source[t]
    solved = np.zeros((D, D))  # inverse of U', lower
    for t in range(D):
        target = solved[t]
        target[t] = 1.0
        for i in range(t):
            scale, source = matrix[i, t], solved[i]
            for j in range(i + 1):
                target[j] -= scale * source[j]
        for j in range(t + 1):
            target[j] /= matrix[t, t]
    out[:] = 0.0
    for t in range(D):
        source = solved[t]
        for i in range(t + 1):
            scale, target = source[i], out[i]
            for j in range(t + 1):
                target[j] += scale * source[j]
    return log_det


@kernel
def spread_of(matrix, inverse):
    """Product of the traces of a matrix and its inverse: how far its extents are apart."""
    D, extent, narrow = matrix.shape[0], 0.0, 0.0
    for i in range(D):
        extent += matrix[i, i]
        narrow += inverse[i, i]
    return extent * narrow


@kernel
def form_of(inverse, d, out):
    """Out (D,) = inverse d; returns d' inverse d."""
    D, form = d.shape[0], 0.0
    out[:] = 0.0
    for j in range(D):
        scale, source = d[j], inverse[j]
        for i in range(D):
            out[i] += scale * source[i]
    for i in range(D):
        form += d[i] * out[i]
    return form


@kernel
def add_vector(inverse, d, b, work):
    """The inverse of a matrix becomes that of matrix + b d d'; the factor of its determinant.

    Nothing changes, and the factor is 0, if it is too small or too large for the inverse.
    """
    factor = 1.0 + b * form_of(inverse, d, work)
    if not LEAST_LEFT <= factor <= 1.0 / LEAST_LEFT:
        return 0.0
    b /= factor
    for i in range(d.shape[0]):
        scale, target = b * work[i], inverse[i]
        for j in range(d.shape[0]):
            target[j] -= scale * work[j]
    return factor


@kernel
def add_moments(moments, anchor, z, w):
    """Weight w of a row z (D,) joins moments (P,) about an anchor."""
    D = z.shape[0]
    moments[0] += w
    p = 1 + D
    for i in range(D):
        away = w * (z[i] - anchor[i])
        moments[1 + i] += away
        for j in range(i, D):
            moments[p + j - i] += away * (z[j] - anchor[j])
        p += D - i
