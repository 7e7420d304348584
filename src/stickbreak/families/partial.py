"""Rows with missing entries, for Gaussians with full covariance.

Given a component, the missing part z_m of a row has a local factor of its own. The best factor
q(z_m) is Gaussian with precision P_mm and mean m_m - P_mm^-1 P_mo (z_o - m_o), where P is the
matrix of the component's quadratic form, o the columns present and m the missing ones. The evidence
of the row is the integral over z_m; its statistics are expectations under q. Complete rows stay on
the path of matrix products; rows without any entry are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.kernels.missing import (
    complete_by_factor,
    complete_by_precision,
    judge_by_factor,
    judge_by_precision,
)
from stickbreak.protocols import Array
from stickbreak.stats import Shares, triangle

if TYPE_CHECKING:
    from .quadratic import FullForm

__all__ = ["PartialRows", "collect_partial", "divide_rows", "evaluate_partial", "expect_partial"]


@dataclass(frozen=True)
class PartialRows:
    """A block of n_rows prepared rows, some of which lack entries.

    features (P, c) : of the complete rows. complete (c,) : their positions in the block.
    z (n, D) : the partial rows, sorted by pattern, 0 where missing. places (n,) : their positions.
    seen (n, D) : 1 where z is present.
    n_missing (n,) : number of missing columns. log_scale (n,) : sum of the log scales of those.
    columns (patterns, D) : columns present, then missing ones. n_seen (patterns,) : how many are
        present. starts (patterns + 1,) : where each pattern starts in z.
    """

    n_rows: int
    complete: Array
    features: Array
    places: Array
    z: Array
    seen: Array
    n_missing: Array
    log_scale: Array
    columns: Array
    n_seen: Array
    starts: Array

    def join(self, complete: Array, partial: Array) -> Array:
        """(K, n_rows) values of complete and partial rows together; 0 for rows without entries."""
        out = np.zeros((len(complete), self.n_rows))
        out[:, self.complete] = complete
        out[:, self.places] = partial
        return out


def divide_rows(missing: Array, features: Array, log_scale: Array) -> PartialRows:
    """Divide a block into complete rows and partial rows sorted by missing columns.

    missing (n, D); features (P, n), NaN where missing; log_scale (D,).
    """
    D = missing.shape[1]
    lost = missing.sum(1)
    complete, partial = np.flatnonzero(lost == 0), np.flatnonzero((lost > 0) & (lost < D))
    packed = np.packbits(missing[partial], axis=1)
    order = np.lexsort(packed.T)
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    places = partial[order]
    hidden = missing[places]
    patterns = hidden[is_new]
    return PartialRows(
        n_rows=len(missing),
        complete=complete,
        features=features[:, complete],
        places=places,
        z=np.ascontiguousarray(np.where(hidden, 0.0, features[1 : 1 + D, places].T)),
        seen=1.0 - hidden,
        n_missing=lost[places],
        log_scale=hidden @ log_scale,
        columns=np.argsort(patterns, axis=1, kind="stable"),
        n_seen=D - patterns.sum(1),
        starts=np.append(np.flatnonzero(is_new), len(order)),
    )


def _away(form: FullForm, k: int, rows: PartialRows) -> Array:
    """(n, D) partial rows minus the mean of component k, 0 where missing."""
    return ((rows.z - form.anchor[k]) - form.mean[k]) * rows.seen


def _covariance_factor(form: FullForm, k: int) -> Array:
    return form.factor[k] / np.sqrt(form.weight[k])


def evaluate_partial(form: FullForm, rows: PartialRows) -> tuple[Array, Array]:
    """(K, n) form of the entries present, minimized over the rest; (K, n) log det P_mm."""
    K, n = len(form.mean), len(rows.z)
    if n == 0:
        return np.empty((K, 0)), np.empty((K, 0))
    found, log_det = np.empty((K, n)), np.empty((K, len(rows.n_seen)))
    for k in range(K):
        away = _away(form, k, rows)
        if form.is_ill[k]:
            judge_by_factor(
                away,
                rows.columns,
                rows.n_seen,
                rows.starts,
                _covariance_factor(form, k),
                found[k],
                log_det[k],
            )
        else:
            precision = form.precision[k]
            pulled = away @ precision
            judge_by_precision(
                away,
                pulled,
                rows.columns,
                rows.n_seen,
                rows.starts,
                precision,
                found[k],
                log_det[k],
            )
    return np.maximum(found, 0.0), np.repeat(log_det, np.diff(rows.starts), axis=1)


def _complete(form: FullForm, k: int, rows: PartialRows, shares: Array) -> tuple[Array, Array]:
    """Rows (n, D) about the anchor of component k, with missing entries as expected.

    Also the sum (D, D) of shares * covariance. shares (n,) : rows with share 0 are not completed.
    """
    away, spread = _away(form, k, rows), np.zeros((rows.z.shape[1], rows.z.shape[1]))
    if form.is_ill[k]:
        complete_by_factor(
            rows.columns,
            rows.n_seen,
            rows.starts,
            _covariance_factor(form, k),
            shares,
            away,
            spread,
        )
    else:
        precision = form.precision[k]
        pulled = away @ precision
        complete_by_precision(
            pulled, rows.columns, rows.n_seen, rows.starts, precision, shares, away, spread
        )
    return away + form.mean[k], spread


def collect_partial(form: FullForm, rows: PartialRows, shares: Shares, out: Array) -> None:
    """Add [1, E z, E z z'] of the partial rows about the anchors to out (K, P).

    shares (n_rows, K) : weights of the rows.
    """
    D = rows.z.shape[1]
    upper = triangle(D)
    for k in range(len(out)):
        mine = np.ascontiguousarray(shares[:, k][rows.places])
        if mine.any():
            z, spread = _complete(form, k, rows, mine)
            out[k, 0] += mine.sum()
            out[k, 1 : 1 + D] += mine @ z
            out[k, 1 + D :] += (z.T @ (z * mine[:, None]) + spread)[upper]


def expect_partial(form: FullForm, rows: PartialRows, shares: Array) -> Array:
    """(n, D) partial rows with missing entries as expected, averaged by shares (n_rows, K)."""
    out = np.zeros_like(rows.z)
    for k in range(len(form.mean)):
        mine = np.ascontiguousarray(shares[:, k][rows.places])
        if mine.any():
            out += mine[:, None] * (_complete(form, k, rows, mine)[0] + form.anchor[k])
    return out
