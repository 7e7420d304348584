"""Whether the rows of a component look Gaussian, and follow each other as if drawn anew."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from stickbreak.protocols import Array

from .missing import find_missing

__all__ = ["departure"]

LEAST_SHARE = 0.01  # rows with less of a component are left out
LEAST_ROWS = 8.0  # moments of fewer rows say nothing
# sqrt(n) times the distance that a sample of a Gaussian, standardized by its own mean and variance,
# exceeds as rarely as a normal variable exceeds three deviations
THREE_SIGMA = 1.13
CONSTANT = 1e-10  # deviation of a column, relative to its values, that is rounding
FLAT = 1e-12  # variance of an axis, relative to the largest, below which it is constant


def departure(
    rows: Array, shares: Array, followed: Array | None, *, is_diagonal: bool = False
) -> Array | None:
    """(K,) how far moments are from those known for a Gaussian; None if rows lack entries.

    In standard errors: a component that is Gaussian exceeds them as rarely as a normal variable,
    although the largest |z| of many moments is taken (`_of_many`).

    Skewness and kurtosis along the principal axes of a component's rows, the kurtosis of their
    distance from the mean [M70], and the distribution function along the axes. If rows have an
    order, products of successive rows and of their squares too: states that overlap differ in
    these. Zero for components of fewer than eight rows.

    rows (n, D), shares (n, K) : repeats included
    followed (m,) : rows whose successor is the next row; None if rows have no order
    is_diagonal : the axes are the columns, and correlations of columns count as well
    """
    if find_missing(rows) is not None:
        return None
    found = np.zeros(shares.shape[1])
    position = np.full(len(rows), -1)
    for k in range(shares.shape[1]):
        mine = np.flatnonzero(shares[:, k] > LEAST_SHARE)
        weights = shares[mine, k]
        if len(mine) == 0 or (n := weights.sum() ** 2 / (weights @ weights)) < LEAST_ROWS:
            continue
        weights = weights / weights.sum()
        scores = _standardized(np.asarray(rows[mine], dtype=float), weights, is_diagonal)
        D = scores.shape[1]
        found[k], n_moments = _of_moments(scores, weights, n), 3 * D + 1
        if is_diagonal:
            found[k] = max(found[k], _of_correlations(scores, weights, n))
            n_moments += D * (D - 1) // 2
        if followed is not None:
            position[mine] = np.arange(len(mine))
            found[k] = max(found[k], _of_order(scores, weights, position, followed))
            n_moments += 2 * D
            position[mine] = -1
        found[k] = _of_many(found[k], n_moments)
    return found


def _of_many(largest: float, count: int) -> float:
    """|z| that one normal variable exceeds as rarely as one of `count` exceeds the largest."""
    log_tail = log_ndtr(-largest) + np.log(count)
    return 0.0 if log_tail > -np.log(2.0) else float(-ndtri_exp(log_tail))


def _standardized(rows: Array, weights: Array, is_diagonal: bool) -> Array:
    """(n, A) coordinates of mean 0 and variance 1 along each axis that is not constant."""
    apart = rows - weights @ rows
    width = np.sqrt(weights @ apart**2)
    varies = width > CONSTANT * np.abs(rows).max(0)
    apart = apart[:, varies] / width[varies]
    if is_diagonal or apart.shape[1] == 0:
        return np.asarray(apart)
    variances, axes = np.linalg.eigh((apart * weights[:, None]).T @ apart)
    kept = variances > FLAT * variances[-1]
    return np.asarray(apart @ axes[:, kept] / np.sqrt(variances[kept]))


def _of_moments(scores: Array, weights: Array, n: float) -> float:
    """Of third and fourth moments; expectations are those of a sample of n rows."""
    D = scores.shape[1]
    if D == 0:
        return 0.0
    squares = scores * scores
    skewness = np.abs(weights @ (squares * scores)) / np.sqrt(6.0 / n)
    kurtosis = np.abs(weights @ squares**2 - 3.0 * (n - 1.0) / (n + 1.0)) / np.sqrt(24.0 / n)
    expected = D * (D + 2.0)
    distance = weights @ squares.sum(1) ** 2 - expected * (n - 1.0) / (n + 1.0)
    radial = abs(distance) / np.sqrt(8.0 * expected / n)
    return float(max(skewness.max(), kurtosis.max(), radial, _of_distribution(scores, weights, n)))


def _of_distribution(scores: Array, weights: Array, n: float) -> float:
    """Of the largest distance from the normal distribution function along an axis.

    Clusters far apart may have the moments of a Gaussian.
    """
    order = np.argsort(scores, axis=0)
    reached = np.cumsum(weights[order], axis=0) - 0.5 * weights[order]
    apart = np.abs(reached - ndtr(np.take_along_axis(scores, order, axis=0))).max()
    return float(apart * np.sqrt(n) * 3.0 / THREE_SIGMA)


def _of_correlations(scores: Array, weights: Array, n: float) -> float:
    products = (scores * weights[:, None]).T @ scores
    np.fill_diagonal(products, 0.0)
    return float(np.abs(products).max(initial=0.0) * np.sqrt(n))


def _of_order(scores: Array, weights: Array, position: Array, followed: Array) -> float:
    """Of products of successive rows that both belong to the component."""
    first, second = position[followed], position[followed + 1]
    both = (first >= 0) & (second >= 0)
    if not both.any() or scores.shape[1] == 0:
        return 0.0
    first, second = first[both], second[both]
    weight = np.sqrt(weights[first] * weights[second])
    n = weight.sum() ** 2 / (weight @ weight)
    if n < LEAST_ROWS:
        return 0.0
    weight = weight / weight.sum()
    here, there = scores[first], scores[second]
    products = np.abs(weight @ (here * there))
    squares = np.abs(weight @ ((here**2 - 1.0) * (there**2 - 1.0))) / 2.0
    return float(max(products.max(), squares.max()) * np.sqrt(n))
