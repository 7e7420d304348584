"""Work per row of mixtures: softmax over components, best component, tables of symbols.

Tables are component-major, (K, n): the inner loop runs over rows, so that sums over components
vectorize without reassociation.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import inline, kernel
from .vectors import at_least, fma, larger, times_power

__all__ = [
    "LARGE",
    "best_rows",
    "copy_line",
    "dirichlet_multinomial",
    "gather_symbols",
    "log_factorials",
    "log_gamma_rises",
    "log_rising",
    "merge_entropy",
    "pairing",
    "poisson_predictive",
    "scatter_symbols",
    "softmax_rows",
]

LARGE = 1e3  # from here on a difference of log gammas is one of Stirling's series
LOWEST = -708.0  # exp of a smaller number is not a normal number
# 1.5 * 2**52: adding it rounds a double to the nearest integer, which lands in its low bits
ROUND = 6755399441055744.0


@inline
def exp_fast(x):
    """exp(x) for x <= 0, relative error 1e-14; x is a float, or eight of them.

    Zero from -708 down (so for -inf), NaN for NaN.
    """
    c = larger(LOWEST, x)  # in this order, so that NaN stays NaN
    t = fma(c, 1.4426950408889634, ROUND)
    n = t - ROUND
    r = fma(n, -1.42860682030941723212e-6, fma(n, -6.93145751953125e-1, c))
    r2 = r * r
    r4 = r2 * r2
    low = fma(r2, fma(r, 1 / 6, 0.5), 1.0 + r)  # three parts that do not wait for each other
    mid = fma(r2, fma(r, 1 / 5040, 1 / 720), fma(r, 1 / 120, 1 / 24))
    high = fma(r2, fma(r, 1 / 39916800, 1 / 3628800), fma(r, 1 / 362880, 1 / 40320))
    return at_least(LOWEST, x, 0.0, times_power(fma(r4, fma(r4, high, mid), low), t))


@inline
def copy_line(source, out):
    """Out (n,) = source. Numba's own assignment of arrays takes seconds to compile."""
    for i in range(out.shape[0]):
        out[i] = source[i]


@kernel
def softmax_rows(logits, log_share, repeats):
    """In place: logits (K, n) become softmax(logits + log_share) over K, times repeats (n,).

    Returns the sum of repeats * log_z.
    """
    K, n = logits.shape
    top = np.full(n, -np.inf)
    total = np.zeros(n)
    for k in range(K):
        row, shift = logits[k], log_share[k]
        for i in range(n):
            value = row[i] + shift
            row[i] = value
            top[i] = value if value > top[i] else top[i]
    for k in range(K):
        row = logits[k]
        for i in range(n):
            e = exp_fast(row[i] - top[i])
            row[i] = e
            total[i] += e
    log_z = 0.0
    for i in range(n):
        log_z += repeats[i] * (top[i] + math.log(total[i]))
        total[i] = repeats[i] / total[i]
    for k in range(K):
        row = logits[k]
        for i in range(n):
            row[i] *= total[i]
    return log_z


@kernel
def merge_entropy(shares, pairs, out):
    """Out (M,) += change of -sum s log s when lines a and b of shares (K, n) are added.

    pairs (M, 2) : the lines (a, b).
    """
    for p in range(pairs.shape[0]):
        first, second = shares[pairs[p, 0]], shares[pairs[p, 1]]
        change = 0.0
        for i in range(first.shape[0]):
            a, b = first[i], second[i]
            if a > 0.0 and b > 0.0:
                change += a * math.log(a / (a + b)) + b * math.log(b / (a + b))
        out[p] += change


@kernel
def best_rows(logits, log_share, out_best, out_value):
    """Best component of each row and its value: argmax over K of logits (K, n) + log_share.

    Ties go to the lowest index.
    """
    K, n = logits.shape
    for i in range(n):
        out_value[i] = -np.inf
        out_best[i] = 0
    for k in range(K):
        row, shift = logits[k], log_share[k]
        for i in range(n):
            value = row[i] + shift
            if value > out_value[i] or value != value:  # NaN wins and stays
                out_value[i] = value
                out_best[i] = k


@kernel
def pairing(log_weights, counts):
    """Sum of log_weights * counts over two (n, K) tables; a zero count cancels a weight of -inf."""
    total = 0.0
    for i in range(counts.shape[0]):
        for k in range(counts.shape[1]):
            if counts[i, k] != 0.0:
                total += log_weights[i, k] * counts[i, k]
    return total


@kernel
def gather_symbols(log_table, symbols, out):
    """Out (n, K) = sum over columns of log_table (V, K)[symbols (n, D)].

    Symbol -1 is missing and adds nothing.
    """
    n, D = symbols.shape
    K = log_table.shape[1]
    for i in range(n):
        for k in range(K):
            out[i, k] = 0.0
        for d in range(D):
            v = symbols[i, d]
            if v >= 0:
                for k in range(K):
                    out[i, k] += log_table[v, k]


@kernel
def scatter_symbols(symbols, shares, out_table, out_totals):
    """out_table (V, K)[symbol] += shares (n, K); out_totals (D, K)[column] likewise.

    Symbol -1 is missing.
    """
    n, D = symbols.shape
    K = shares.shape[1]
    for i in range(n):
        for d in range(D):
            v = symbols[i, d]
            if v >= 0:
                for k in range(K):
                    out_table[v, k] += shares[i, k]
                    out_totals[d, k] += shares[i, k]


@kernel
def log_factorials(values, bounds, out):
    """Out (n,) += sum of lgamma(value + 1) over values[bounds[i]:bounds[i + 1]].

    0 and 1 cost nothing.
    """
    for i in range(out.shape[0]):
        for j in range(bounds[i], bounds[i + 1]):
            if not values[j] <= 1.0:  # true for NaN, which must propagate
                out[i] += math.lgamma(values[j] + 1.0)


@inline
def log_rising(a, x):
    """lgamma(a + x) - lgamma(a) - x log(a).

    For large a, by a difference of Stirling series, which loses no digits.
    """
    if a < LARGE:
        return math.lgamma(a + x) - math.lgamma(a) - x * math.log(a)
    b = a + x
    series = (1.0 / b - 1.0 / a) / 12.0 - (1.0 / (b * b * b) - 1.0 / (a * a * a)) / 360.0
    return (b - 0.5) * math.log1p(x / a) - x + series


@kernel
def log_gamma_rises(a, x, out):
    """Out (n,) = lgamma(a + x) - lgamma(a) for a (n,) > 0 and x (n,) >= 0."""
    for i in range(out.shape[0]):
        out[i] = x[i] * math.log(a[i]) + log_rising(a[i], x[i])


@kernel
def dirichlet_multinomial(indptr, indices, data, alpha, total, out):
    """Add to out (n, K) the log probability of CSR rows, without their coefficients.

    alpha (V, K), total (K,) its sum. sum_v [log rising(alpha_v, x_v)] - log rising(total, sum of
    x), with leading terms x_v log(alpha_v / total).
    """
    K = alpha.shape[1]
    log_total = np.log(total)
    for i in range(out.shape[0]):
        tokens = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            x, row = data[j], alpha[indices[j]]
            tokens += x
            if x == 1.0:
                for k in range(K):
                    out[i, k] += math.log(row[k]) - log_total[k]
            else:
                for k in range(K):
                    out[i, k] += x * (math.log(row[k]) - log_total[k]) + log_rising(row[k], x)
        for k in range(K):
            out[i, k] -= log_rising(total[k], tokens)


@kernel
def poisson_predictive(rows, shape, rate, out):
    """Log negative binomial of rows (n, D), summed over columns, into out (n, K), without log x!.

    shape, rate (K, D): log rising(shape, x) + shape log(rate / (rate + 1)) - x log(rate + 1).
    """
    n, D = rows.shape
    K = shape.shape[0]
    log_go = np.empty(D)
    for k in range(K):
        log_none = 0.0  # log probability of no event in any column
        for d in range(D):
            log_none -= shape[k, d] * math.log1p(1.0 / rate[k, d])
            log_go[d] = math.log(shape[k, d]) - math.log(rate[k, d] + 1.0)
        for i in range(n):
            value = log_none
            for d in range(D):
                x = rows[i, d]
                value += x * log_go[d] + log_rising(shape[k, d], x)
            out[i, k] = value
