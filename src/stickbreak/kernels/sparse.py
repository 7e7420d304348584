"""Sparse rows, which use few components each: their selection, softmax and statistics.

Selections are row-major, values (n, L) and index (n, L), because work goes one row at a time. A
place without a component has index -1 and value -inf during selection, index 0 and share 0 later.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .vectors import prefetch

__all__ = [
    "add_sparse",
    "add_sparse_full",
    "choose_sparse",
    "dot_sparse",
    "dot_sparse_full",
    "gather_sparse",
    "merge_entropy_sparse",
    "multiply_sparse",
    "scatter_sparse_counts",
    "scatter_sparse_symbols",
    "softmax_sparse",
    "transpose",
]

LOWEST = -708.0  # exp of a smaller number is not a normal number
# partial sums in `dot_sparse`, so that its loop vectorizes without reassociation
SLOTS = 64
TILE = 8  # doubles in a cache line
AHEAD = 8  # rows before it is needed that a line of a large table is asked for


@kernel
def replace_worst(values, index, size, value, k):
    """Replace the root of a heap of `size` entries, the worst one, by component k with `value`.

    Of equal values the later one is worse.
    """
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        other = child + 1
        if other < size and (
            values[other] < values[child]
            or (values[other] == values[child] and index[other] > index[child])
        ):
            child = other
        if not (values[child] < value or (values[child] == value and index[child] > k)):
            break
        values[at], index[at] = values[child], index[child]
        at = child
    values[at], index[at] = value, k


@kernel
def choose_sparse(logits, log_share, limits, out_values, out_index):
    """The limits[i] <= L largest of logits (K, n)[:, i] + log_share (K,), unsorted.

    Of equal values the first is taken. out_values (n, L), out_index (n, L). Returns the number of
    NaNs seen. Reads each number once and keeps a heap for those that enter: O(K) per row.
    """
    K, n = logits.shape
    worst = np.full(n, -np.inf)
    n_nan = 0
    for i in range(n):
        for a in range(out_values.shape[1]):
            out_values[i, a] = -np.inf
            out_index[i, a] = -1
    for k in range(K):
        row, shift = logits[k], log_share[k]
        for i in range(n):
            value = row[i] + shift
            if not value <= worst[i]:
                if value != value:
                    n_nan += 1
                    continue
                replace_worst(out_values[i], out_index[i], limits[i], value, k)
                worst[i] = out_values[i, 0]
    return n_nan


@kernel
def softmax_sparse(values, index, repeats):
    """In place: values (n, L) become softmax times repeats (n,), 0 for no component.

    Returns the sum of repeats * log_z.
    """
    log_z = 0.0
    for i in range(values.shape[0]):
        row = values[i]
        top, total = -np.inf, 0.0
        for a in range(row.shape[0]):
            top = max(top, row[a])
        for a in range(row.shape[0]):
            away = row[a] - top
            row[a] = math.exp(away) if away >= LOWEST else 0.0
            total += row[a]
        log_z += repeats[i] * (top + math.log(total))
        for a in range(row.shape[0]):
            row[a] *= repeats[i] / total
            if index[i, a] < 0:
                index[i, a] = 0
    return log_z


@kernel
def transpose(source, out):
    """Out (n, P) = source (P, n) transposed, in tiles that suit any cache."""
    n, width = out.shape
    for p in range(0, width, TILE):
        for i in range(0, n, TILE):
            for row in range(i, min(i + TILE, n)):
                target = out[row]
                for column in range(p, min(p + TILE, width)):
                    target[column] = source[column, row]


@kernel
def full_row(features, i, n_features, out):
    """Out (P,) = [1, z, z_a z_b for a <= b] of row i, where z = features[1 : 1 + n_features, i].

    features (P, n). Computing the products is cheaper than reading them.
    """
    z = out[1 : 1 + n_features]
    out[0] = 1.0
    for d in range(n_features):
        z[d] = features[1 + d, i]
    p = 1 + n_features
    for a in range(n_features):
        first, second, target = z[a], z[a:], out[p : p + n_features - a]
        for b in range(n_features - a):
            target[b] = first * second[b]
        p += n_features - a


@kernel
def add_row(row, values, index, out):
    """Out (K, P)[index (L,)] += values (L,) * row (P,)."""
    for a in range(values.shape[0]):
        share = values[a]
        if share != 0.0:
            target = out[index[a]]
            for p in range(row.shape[0]):
                target[p] += share * row[p]


@kernel
def add_sparse(table, values, index, out):
    """Out (K, P)[index[i, a]] += values[i, a] * table[i]; table (n, P), values and index (n, L)."""
    for i in range(values.shape[0]):
        add_row(table[i], values[i], index[i], out)


@kernel
def add_sparse_full(features, n_features, values, index, out):
    """Like `add_sparse`, for rows that are full quadratic features (P, n) of n_features columns."""
    row = np.empty(out.shape[1])
    for i in range(values.shape[0]):
        full_row(features, i, n_features, row)
        add_row(row, values[i], index[i], out)


@kernel
def dot_row(row, coefficients, index, sums, out):
    """Out (M,) = row (P,) . coefficients (K, P)[index (M,)]; -inf where the index is -1.

    sums (SLOTS,) : scratch.
    """
    width = row.shape[0]
    for m in range(index.shape[0]):
        if index[m] < 0:
            out[m] = -np.inf
            continue
        weights = coefficients[index[m]]
        for j in range(SLOTS):
            sums[j] = 0.0
        for p in range(0, width - SLOTS + 1, SLOTS):
            first, second = row[p : p + SLOTS], weights[p : p + SLOTS]
            for j in range(SLOTS):
                sums[j] += first[j] * second[j]
        total = 0.0
        for p in range(width - width % SLOTS, width):
            total += row[p] * weights[p]
        for j in range(SLOTS if width >= SLOTS else 0):
            total += sums[j]
        out[m] = total


@kernel
def dot_sparse(table, coefficients, index, out):
    """Out (n, M)[i, m] = table (n, P)[i] . coefficients (K, P)[index[i, m]].

    -inf where the index is -1.
    """
    sums = np.empty(SLOTS)
    for i in range(index.shape[0]):
        dot_row(table[i], coefficients, index[i], sums, out[i])


@kernel
def dot_sparse_full(features, n_features, coefficients, index, out):
    """Like `dot_sparse`, for rows that are full quadratic features (P, n) of n_features columns."""
    row, sums = np.empty(coefficients.shape[1]), np.empty(SLOTS)
    for i in range(index.shape[0]):
        full_row(features, i, n_features, row)
        dot_row(row, coefficients, index[i], sums, out[i])


@kernel
def gather_sparse(log_table, symbols, index, out):
    """Out (n, M) = sum over columns of log_table (V, K)[symbols (n, D), index (n, M)].

    Symbol -1 adds nothing; index -1 gives -inf.
    """
    for i in range(index.shape[0]):
        for m in range(index.shape[1]):
            k = index[i, m]
            total = 0.0 if k >= 0 else -np.inf
            for d in range(symbols.shape[1]):
                if k >= 0 and symbols[i, d] >= 0:
                    total += log_table[symbols[i, d], k]
            out[i, m] = total


@kernel
def multiply_sparse(indptr, indices, data, log_table, index, out):
    """Out (n, M) = CSR rows times the columns index (n, M) of log_table (V, K).

    -inf where the index is -1.
    """
    for i in range(index.shape[0]):
        for m in range(index.shape[1]):
            k = index[i, m]
            total = 0.0 if k >= 0 else -np.inf
            if k >= 0:
                for j in range(indptr[i], indptr[i + 1]):
                    total += data[j] * log_table[indices[j], k]
            out[i, m] = total


@kernel
def scatter_sparse_symbols(symbols, values, index, out_table, out_totals):
    """out_table (V, K)[symbol, index] += values; out_totals (D, K)[column, index] likewise.

    symbols (n, D), -1 is missing.
    """
    n, K = symbols.shape[0], out_table.shape[1]
    for i in range(n):
        if i + AHEAD < n:
            later = max(symbols[i + AHEAD, 0], 0) * K
            for a in range(values.shape[1]):
                prefetch(out_table, later + index[i + AHEAD, a])
        for d in range(symbols.shape[1]):
            v = symbols[i, d]
            if v >= 0:
                for a in range(values.shape[1]):
                    out_table[v, index[i, a]] += values[i, a]
                    out_totals[d, index[i, a]] += values[i, a]


@kernel
def scatter_sparse_counts(indptr, indices, data, values, index, out):
    """Out (V, K)[symbol, index] += count * values, for the counts of CSR rows."""
    for i in range(values.shape[0]):
        for j in range(indptr[i], indptr[i + 1]):
            target, count = out[indices[j]], data[j]
            for a in range(values.shape[1]):
                target[index[i, a]] += count * values[i, a]


@kernel
def merge_entropy_sparse(values, index, starts, partners, places, out):
    """Out (M,) += change of -sum s log s when two components are merged, for watched pairs.

    starts (K + 1,) into partners and places: component k is watched with the higher components
    partners[starts[k] : starts[k + 1]]; these are the pairs `places` of out.
    """
    for i in range(values.shape[0]):
        for s in range(values.shape[1]):
            a = values[i, s]
            for t in range(values.shape[1] if a > 0.0 else 0):
                b, low, high = values[i, t], index[i, s], index[i, t]
                if b > 0.0 and low < high:
                    for e in range(starts[low], starts[low + 1]):
                        if partners[e] == high:
                            out[places[e]] += a * math.log(a / (a + b)) + b * math.log(b / (a + b))
