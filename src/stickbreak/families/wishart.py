"""Wishart priors of precisions: what Gaussians with full covariance share.

A precision is Wishart(dof, inverse scale B), and the expected covariance is B / (dof - D - 1). A
posterior is given by dof (K,), a lower Cholesky factor of B (K, D, D) and log det B (K,).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import digamma

from stickbreak.errors import DataWarning
from stickbreak.protocols import Array, Counts
from stickbreak.stats import log_gamma_rise

from . import learning
from .moments import EMPTY

__all__ = [
    "check_largest_dof", "covariances", "draw_deviations", "draw_factors", "expected_log_det",
    "expected_precision", "gaussian_divergence", "learn_covariance", "log_partition_rise",
    "prior_dof", "prior_matrix", "spiked_divergence", "spiked_divergences", "warn_of_width",
    "whiten",
]  # fmt: skip

WIDE = 10  # columns, from which on few rows are worth a warning


MOST_DOF = 1e6  # the bound has a term dof / 2 log det, whose rounding grows with it


def prior_matrix(name: str, value: Any, default: Array) -> Array:
    """Prior covariance (D, D) from a number, variances (D,), a matrix, or the default variances."""
    matrix = np.asarray(default if value is None else value, dtype=float)
    D = len(default)
    if matrix.ndim < 2:
        if matrix.ndim == 1 and len(matrix) != D:
            raise ValueError(f"{name} has {len(matrix)} entries but the data have {D} columns")
        matrix = np.diag(np.broadcast_to(matrix, D))
    if matrix.shape != (D, D):
        raise ValueError(f"{name} has shape {matrix.shape} but the data have {D} columns")
    if not np.isfinite(matrix).all() or not _is_positive_definite(matrix):
        raise ValueError(f"{name} must be symmetric and positive definite")
    return matrix


def _is_positive_definite(matrix: Array) -> bool:
    """Whether a matrix is, and is symmetric; columns may be of any scale."""
    variance = np.diag(matrix)
    if not (variance > 0).all():
        return False
    width = np.sqrt(variance)
    correlation = matrix / width[:, None] / width
    return np.allclose(correlation, correlation.T) and np.linalg.eigvalsh(correlation)[0] > 0


def prior_dof(value: Any, default: float, n_columns: int, what: str = "columns") -> float:
    """Degrees of freedom, above n_columns + 1: the precision has a finite expected inverse."""
    dof = default if value is None else float(value)
    if not dof > n_columns + 1:
        raise ValueError(
            f"dof must be above the number of {what} plus one ({n_columns + 1}); got {dof}"
        )
    check_largest_dof(dof)
    return dof


def warn_of_width(n_columns: int, n_rows: float) -> None:
    """Warn of full covariances that have more numbers than there are rows."""
    size = n_columns * (n_columns + 3) // 2
    if n_columns >= WIDE and n_rows < size:
        warnings.warn(
            f"{n_rows:,.0f} rows for means and full covariances of {n_columns} columns, {size:,} "
            'numbers a component: small components will be missed. Use family="diagonal", or fewer '
            "columns (their principal components, say)",
            DataWarning,
            stacklevel=2,
        )


def check_largest_dof(dof: float) -> None:
    """Raise ValueError for so many degrees of freedom that rounding drowns the data's part."""
    if not dof <= MOST_DOF:
        raise ValueError(
            f"dof must be at most {MOST_DOF:g}; got {dof:g}: for variances that are known use "
            "FixedVarianceGaussian"
        )


def log_partition_rise(
    prior_dof: float, prior_log_det: float, rows: Array, log_det: Array, n_features: int
) -> Array:
    """(K,) log normalizer of Wishart(prior_dof + rows) minus that of the prior."""
    D, half = n_features, 0.5 * rows
    rise = log_gamma_rise(0.5 * (prior_dof - np.arange(D)), half[:, None]).sum(1)
    away = 0.5 * prior_dof * (log_det - prior_log_det)
    return np.asarray(rise + half * (D * np.log(2.0) - log_det) - away)


def expected_precision(dof: Array, factor: Array) -> Array:
    """(K, D, D) dof * inverse(factor factor'): the mean of Wishart posteriors."""
    inverse = np.linalg.inv(factor)
    return dof[:, None, None] * (inverse.transpose(0, 2, 1) @ inverse)


def expected_log_det(dof: Array, log_det: Array, n_features: int) -> Array:
    """(K,) E[log det precision]."""
    D = n_features
    return np.asarray(
        digamma(0.5 * (dof[:, None] - np.arange(D))).sum(1) + D * np.log(2.0) - log_det
    )


def covariances(factor: Array, rows: Array, scale: Array) -> Array:
    """(K, D, D) factor factor' / rows in the user's units; rows (K,), scale (D,)."""
    scatter = factor @ factor.transpose(0, 2, 1)
    return np.asarray(scatter / rows[:, None, None] * np.outer(scale, scale))


def draw_factors(dof: Array, factor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Lower factors F (K, D, D) of drawn covariances F F', and their log determinants (K,).

    The precisions, inverses of F F', are Wishart(dof, inverse scale factor factor').

    precision = factor^-T U U' factor^-1, where U is upper triangular with standard normals above a
    diagonal of square roots of chi squares: the triangular form of a standard Wishart, with columns
    taken from the last to the first. Then F = factor U^-T is lower triangular.
    """
    K, D = factor.shape[:2]
    upper = np.triu(rng.standard_normal((K, D, D)), 1)
    squares = rng.chisquare(dof[:, None] - np.arange(D)[::-1])
    upper[:, np.arange(D), np.arange(D)] = np.sqrt(squares)
    log_det = 2.0 * np.log(np.einsum("kdd->kd", factor)).sum(1) - np.log(squares).sum(1)
    return factor @ np.linalg.inv(upper).transpose(0, 2, 1), log_det


def draw_deviations(factor: Array, rng: np.random.Generator) -> Array:
    """(K, D) one normal vector for each component, with covariance factor factor'."""
    return np.asarray((factor @ rng.standard_normal((*factor.shape[:2], 1)))[:, :, 0])


def learn_covariance(family: Any, counts: Counts, scale: Array) -> Any:
    """A family with Wishart prior and a better prior covariance.

    First EM steps, B = dof K inverse(sum E[precision]), then the scale of B.

    EM alone is slow when components have few rows: their posteriors follow the prior and hold it
    back, mostly in its scale. No variance falls below `NARROWEST` times that of its column, because
    a component without variance would take B to zero.

    scale (D,) : units of the frame of `family._expected_precision`.
    """
    frame, worth = np.outer(scale, scale), family.dof - len(scale) - 1.0
    floor = min(learning.NARROWEST, float(np.linalg.eigvalsh(family.covariance / frame)[0]))
    for _ in range(learning.EM_STEPS):
        precision, rows = family._expected_precision(counts)
        seen = rows > EMPTY
        if not seen.any():
            return family
        values, axes = np.linalg.eigh(
            family.dof * seen.sum() / worth * np.linalg.inv(precision[seen].sum(0))
        )
        covariance = (axes * np.maximum(values, floor)) @ axes.T * frame
        family = learning.keep_better(family, replace(family, covariance=covariance), counts)
    lowest = floor / float(np.linalg.eigvalsh(family.covariance / frame)[0])
    scaled = lambda x: replace(family, covariance=x * family.covariance)
    return learning.learn_number(family, counts, scaled, 1.0, max(lowest, 0.1), 10.0)


# -------------------------------------------------------------------------------------- divergences


def whiten(scatter: Array, away: Array) -> Array:
    """Columns of away (D, n), in coordinates where the scatter (D, D) is the identity."""
    from scipy.linalg import solve_triangular  # slow to import, and few models need it

    factor = np.linalg.cholesky(scatter)
    return np.asarray(solve_triangular(factor, away, lower=True, check_finite=False))


def gaussian_divergence(
    mean_a: Array, covariance_a: Array, mean_b: Array, covariance_b: Array
) -> Array:
    """(J, K) KL(N(mean_a, covariance_a) || N(mean_b, covariance_b))."""
    precision = np.linalg.inv(covariance_b)
    away = mean_a[:, None, :] - mean_b[None, :, :]
    squared = np.einsum("jkd,kde,jke->jk", away, precision, away)
    trace = np.einsum("kde,jed->jk", precision, covariance_a)
    log_ratio = (
        np.linalg.slogdet(covariance_b)[1][None, :] - np.linalg.slogdet(covariance_a)[1][:, None]
    )
    return 0.5 * (trace + squared - mean_a.shape[1] + log_ratio)


def spiked_divergence(white: Array, index: int, spike: float) -> Array:
    """(n,) (tr(M) - logdet(M) - D) / 2, where M = (I + s y_j y_j')^-1 (I + s y_n y_n').

    white : whitened rows y (D, n). spike : s. index : j.
    """
    sizes, inner = (white**2).sum(0), white[:, index] @ white
    size = sizes[index]
    shrink = spike / (1.0 + spike * size)
    trace = spike * sizes - shrink * size - shrink * spike * inner**2
    return 0.5 * (trace + np.log1p(spike * size) - np.log1p(spike * sizes))


def spiked_divergences(white: Array, indices: Array, spike: float, weight: float) -> Array:
    """(m, n) spiked_divergence from rows `indices`, plus weight / 2 * d' (I + s y_j y_j')^-1 d.

    Here d = y - y_j. With h = y'y_j and c = s / (1 + s |y_j|^2) this is a quadratic in h, so it
    takes one matrix product and few passes over (m, n).
    """
    sizes, inner = (white**2).sum(0), white[:, indices].T @ white
    size = sizes[indices][:, None]
    shrink = spike / (1.0 + spike * size)
    own = 0.5 * ((spike + weight) * sizes - np.log1p(spike * sizes))
    theirs = 0.5 * (np.log1p(spike * size) - shrink * size + weight * size * (1.0 - shrink * size))
    out: Array = -0.5 * shrink * (spike + weight) * inner
    out -= weight * (1.0 - shrink * size)
    out *= inner
    out += own
    out += theirs
    return np.maximum(out, 0.0, out=out)
