"""Slow NumPy twins of the compiled kernels: arrays in, new arrays out, one row at a time."""

from __future__ import annotations

import csv
import io
from math import lgamma

import numpy as np
from scipy.special import gammaln, logsumexp

Array = np.ndarray


def softmax_rows(logits: Array, log_share: Array, repeats: Array) -> tuple[float, Array]:
    """(sum of repeats * log_z, shares (K, n)) of logits (K, n)."""
    log_z, shares = 0.0, np.empty_like(logits)
    for i in range(logits.shape[1]):
        weights = logits[:, i] + log_share
        row = logsumexp(weights)
        shares[:, i] = repeats[i] * np.exp(weights - row)
        log_z += repeats[i] * row
    return float(log_z), shares


def best_rows(logits: Array, log_share: Array) -> tuple[Array, Array]:
    """First best component of each row, and its value."""
    table = logits + log_share[:, None]
    return table.argmax(axis=0), table.max(axis=0)


def pairing(log_weights: Array, counts: Array) -> float:
    """Sum of log_weights * counts with 0 * -inf = 0."""
    return float(
        sum(w * c for w, c in zip(log_weights.ravel(), counts.ravel(), strict=True) if c != 0)
    )


def gather_symbols(log_table: Array, symbols: Array) -> Array:
    """(n, K) sums of table rows."""
    out = np.zeros((len(symbols), log_table.shape[1]))
    for i, row in enumerate(symbols):
        for v in row[row >= 0]:
            out[i] += log_table[v]
    return out


def scatter_symbols(symbols: Array, shares: Array, n_symbols: int) -> tuple[Array, Array]:
    """Tables (V, K) and totals (D, K)."""
    table, totals = (
        np.zeros((n_symbols, shares.shape[1])),
        np.zeros((symbols.shape[1], shares.shape[1])),
    )
    for d in range(symbols.shape[1]):
        seen = symbols[:, d] >= 0
        np.add.at(table, symbols[seen, d], shares[seen])
        totals[d] = shares[seen].sum(0)
    return table, totals


def log_factorials(matrix: Array) -> Array:
    """(n,) sum of log x!."""
    return np.array([sum(lgamma(x + 1) for x in row) for row in matrix])


def dirichlet_multinomial(matrix: Array, alpha: Array) -> Array:
    """(n, K) log probability of count rows without their multinomial coefficients."""
    rising = np.array([[np.sum(gammaln(a + x) - gammaln(a)) for a in alpha.T] for x in matrix])
    total, tokens = alpha.sum(0), matrix.sum(1)[:, None]
    return rising - gammaln(total + tokens) + gammaln(total)


def poisson_predictive(rows: Array, shape: Array, rate: Array) -> Array:
    """(n, K) log negative binomial without - log x!."""
    out = np.empty((len(rows), len(rate)))
    for i, x in enumerate(rows):
        for k, (a, b) in enumerate(zip(shape, rate, strict=True)):
            out[i, k] = np.sum(
                gammaln(a + x) - gammaln(a) + a * np.log(b / (b + 1)) - x * np.log(b + 1)
            )
    return out


def standardized(rows: Array, center: Array, scale: Array) -> Array:
    """(1 + D, n): ones, then standardized columns."""
    return np.vstack([np.ones(len(rows)), ((rows - center) / scale).T])


def full_features(rows: Array, center: Array, scale: Array) -> Array:
    """[1, z, z_a z_b for a <= b] as columns."""
    head = standardized(rows, center, scale)
    D = rows.shape[1]
    products = [head[1 + a] * head[1 + b] for a in range(D) for b in range(a, D)]
    return np.vstack([head, *products])


def diagonal_features(rows: Array, center: Array, scale: Array) -> Array:
    """[1, z, z**2] as columns."""
    head = standardized(rows, center, scale)
    return np.vstack([head, head[1:] ** 2])


def parse_records(text: bytes, separator: str, wanted: list[int]) -> list[list[float]]:
    """Rows of the wanted columns by the standard library: blank lines skipped, empty cells and NA
    and NaN missing.
    """
    rows = []
    for cells in csv.reader(io.StringIO(text.decode(), newline="\n"), delimiter=separator):
        if len(cells) > 1 or any(cell.strip() for cell in cells):
            words = [cells[i].strip() for i in wanted]
            rows.append(
                [
                    float("nan") if word.lower() in ("", "na", "nan") else float(word)
                    for word in words
                ]
            )
    return rows
