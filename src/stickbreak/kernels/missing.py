"""Rows with missing entries under a Gaussian with full covariance: evidence and completion.

The missing part is integrated out for the evidence, or completed by its expectation. Rows (n, D)
are relative to the component's mean and sorted by missing columns: rows starts[p]:starts[p + 1]
have pattern p. columns (patterns, D)[p] lists the n_seen[p] columns present, then the missing ones.
A pattern is factorized once. P is the precision; o and m stand for the columns present and missing.
There are two ways to the same numbers:

by precision : U'U = P_mm by Cholesky, m**3 / 6 multiplications; for a well-conditioned P
by factor : the factor of the covariance with its missing rows moved to the end by rotations, which
    loses no digits if P is badly conditioned; about m D**2 multiplications
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel

__all__ = ["complete_by_factor", "complete_by_precision", "judge_by_factor", "judge_by_precision"]


@kernel
def factorize_missing(precision, missing, out):
    """Upper factor U of precision[missing][:, missing] = U'U, into out (m, m) or larger.

    Returns its log determinant.
    """
    m = missing.shape[0]
    log_det = 0.0
    for i in range(m):
        for j in range(i, m):
            out[i, j] = precision[missing[i], missing[j]]
    for j in range(m):
        root = math.sqrt(out[j, j])
        log_det += 2.0 * math.log(root)
        for i in range(j, m):
            out[j, i] /= root
        source = out[j]
        for i in range(j + 1, m):
            scale, target = source[i], out[i]
            for t in range(i, m):
                target[t] -= scale * source[t]
    return log_det


@kernel
def solve_lower(factor, m, out):
    """In place: out (m,) becomes y with U'y = out, where U = factor; returns y'y."""
    size = 0.0
    for j in range(m):
        y = out[j] / factor[j, j]
        out[j] = y
        size += y * y
        for i in range(j + 1, m):
            out[i] -= y * factor[j, i]
    return size


@kernel
def invert_transposed(factor, m, out):
    """Y = inverse of U' for the upper factor U (m, m), lower, into out; then inverse(U'U) = Y'Y."""
    for t in range(m):
        target = out[t]
        for j in range(m):
            target[j] = 0.0
        for i in range(t):
            scale, source = factor[i, t], out[i]
            for j in range(i + 1):
                target[j] -= scale * source[j]
        for j in range(t):
            target[j] /= factor[t, t]
        target[t] = 1.0 / factor[t, t]


@kernel
def multiply_transposed(inverse, m, out):
    """Y'Y of the lower triangular Y (m, m), into out."""
    for i in range(m):
        for j in range(m):
            out[i, j] = 0.0
    for t in range(m):
        source = inverse[t]
        for i in range(t + 1):
            scale, target = source[i], out[i]
            for j in range(t + 1):
                target[j] += scale * source[j]


@kernel
def judge_by_precision(away, pulled, columns, n_seen, starts, precision, out_form, out_log_det):
    """out_form (n,): a_o' (P_oo - P_om P_mm^-1 P_mo) a_o; out_log_det (patterns,): log det P_mm.

    away a (n, D), zero where missing; pulled (n, D) = away @ precision (D, D).
    """
    D = away.shape[1]
    factor, work = np.empty((D, D)), np.empty(D)
    for p in range(n_seen.shape[0]):
        missing = columns[p, n_seen[p] :]
        m = missing.shape[0]
        out_log_det[p] = factorize_missing(precision, missing, factor)
        for i in range(starts[p], starts[p + 1]):
            form = 0.0
            for d in range(D):
                form += away[i, d] * pulled[i, d]
            for j in range(m):
                work[j] = pulled[i, missing[j]]
            out_form[i] = form - solve_lower(factor, m, work)


@kernel
def complete_by_precision(pulled, columns, n_seen, starts, precision, shares, out_away, out_spread):
    """Missing entries of out_away (n, D) become their conditional mean -P_mm^-1 P_mo a_o.

    Rows with share 0 stay as they are. pulled (n, D) = away @ precision (D, D); shares (n,).
    out_spread (D, D) += sum of shares * conditional covariance P_mm^-1.
    """
    D = pulled.shape[1]
    factor, inverse, square = np.empty((D, D)), np.empty((D, D)), np.empty((D, D))
    work, mean = np.empty(D), np.empty(D)
    for p in range(n_seen.shape[0]):
        missing = columns[p, n_seen[p] :]
        m, total = missing.shape[0], 0.0
        for i in range(starts[p], starts[p + 1]):
            total += shares[i]
        if total == 0.0:
            continue
        factorize_missing(precision, missing, factor)
        invert_transposed(factor, m, inverse)
        for i in range(starts[p], starts[p + 1]):
            if shares[i] == 0.0:
                continue
            for j in range(m):
                work[j] = pulled[i, missing[j]]
                mean[j] = 0.0
            solve_lower(factor, m, work)
            for t in range(m):
                for j in range(t + 1):
                    mean[j] -= work[t] * inverse[t, j]
            for j in range(m):
                out_away[i, missing[j]] = mean[j]
        multiply_transposed(inverse, m, square)
        for i in range(m):
            for j in range(m):
                out_spread[missing[i], missing[j]] += total * square[i, j]


@kernel
def move_missing(factor, order, n_seen, out):
    """Lower factor of the covariance with reordered columns, transposed into out (D, D).

    Its entries are out[c, r] for c <= r. factor (D, D) lower; order (D,): columns present in
    ascending order, then missing ones in ascending order. Columns of the factor are rotated in
    pairs, which keeps factor @ factor', until it is lower again. Its diagonal may be negative.
    """
    D = order.shape[0]
    for r in range(D):
        for c in range(D):
            out[c, r] = factor[order[r], c] if c <= order[r] else 0.0
    for r in range(D):
        last = order[r] if r < n_seen else D - 1
        for c in range(last, r, -1):
            if out[c, r] == 0.0:
                continue
            length = math.hypot(out[c - 1, r], out[c, r])
            cosine, sine = out[c - 1, r] / length, out[c, r] / length
            left, right = out[c - 1], out[c]
            for q in range(r, D):
                a, b = left[q], right[q]
                left[q] = cosine * a + sine * b
                right[q] = cosine * b - sine * a
            right[r] = 0.0


@kernel
def regress(moved, away, order, n_seen, out):
    """Returns y'y for the entries present, where L_oo y = a_o.

    out[n_seen:] is minus the conditional mean of the missing entries, L_mo y.
    """
    D = order.shape[0]
    for r in range(D):
        out[r] = away[order[r]] if r < n_seen else 0.0
    size = 0.0
    for c in range(n_seen):
        y = out[c] / moved[c, c]
        size += y * y
        for r in range(c + 1, D):
            out[r] -= y * moved[c, r]
    return size


@kernel
def judge_by_factor(away, columns, n_seen, starts, factor, out_form, out_log_det):
    """Like `judge_by_precision`, from the lower factor (D, D) of the covariance inverse(P)."""
    D = away.shape[1]
    moved, work = np.empty((D, D)), np.empty(D)
    for p in range(n_seen.shape[0]):
        move_missing(factor, columns[p], n_seen[p], moved)
        out_log_det[p] = 0.0
        for r in range(n_seen[p], D):
            out_log_det[p] -= 2.0 * math.log(abs(moved[r, r]))
        for i in range(starts[p], starts[p + 1]):
            out_form[i] = regress(moved, away[i], columns[p], n_seen[p], work)


@kernel
def complete_by_factor(columns, n_seen, starts, factor, shares, out_away, out_spread):
    """Like `complete_by_precision`, from the lower factor (D, D) of the covariance."""
    D = factor.shape[0]
    moved, work = np.empty((D, D)), np.empty(D)
    for p in range(n_seen.shape[0]):
        order, total = columns[p], 0.0
        for i in range(starts[p], starts[p + 1]):
            total += shares[i]
        if total == 0.0:
            continue
        move_missing(factor, order, n_seen[p], moved)
        for i in range(starts[p], starts[p + 1]):
            if shares[i] != 0.0:
                regress(moved, out_away[i], order, n_seen[p], work)
                for r in range(n_seen[p], D):
                    out_away[i, order[r]] = -work[r]
        for r in range(n_seen[p], D):
            for q in range(n_seen[p], D):
                value = 0.0
                for c in range(n_seen[p], min(r, q) + 1):
                    value += moved[c, r] * moved[c, q]
                out_spread[order[r], order[q]] += total * value
