"""Dirichlet tables over symbols, shared by Categorical and Multinomial.

Counts are symbol-major, emission (V, K), so that a symbol's potentials are one contiguous read.
Totals over symbols are a field of their own, so that counts restricted to the symbols of a batch
still give their potentials.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from stickbreak.kernels.tables import digamma_table, log_gamma_columns
from stickbreak.protocols import Array
from stickbreak.stats import draw_log_dirichlet, log_gamma_rise

__all__ = [
    "draw_table",
    "log_mean_table",
    "log_mode_table",
    "log_mode_value",
    "log_partition_rise",
    "mean_log_table",
]


def log_partition_rise(table: Array, total: Array, concentration: float, n_symbols: int) -> Array:
    """(K,) log-partition of Dirichlet(concentration + table) minus that of the prior.

    table (V, K), total (K,).
    """
    base, found = n_symbols * concentration, np.empty(table.shape[1])
    log_gamma_columns(np.ascontiguousarray(table), float(concentration), found)
    return np.asarray(found - log_gamma_rise(base, total))


def mean_log_table(table: Array, total: Array, concentration: float, n_symbols: int) -> Array:
    """E[log probability]."""
    found = np.empty(table.shape)
    digamma_table(np.ascontiguousarray(table), float(concentration), found)
    found -= digamma(total + n_symbols * concentration)
    return found


def log_mean_table(table: Array, total: Array, concentration: float, n_symbols: int) -> Array:
    """Log E[probability]; also the mode in natural coordinates, which exists for every prior."""
    return np.log(table + concentration) - np.log(total + n_symbols * concentration)


log_mode_table = log_mean_table


def log_mode_value(table: Array, total: Array, concentration: float, n_symbols: int) -> Array:
    """(K,) sum over symbols of (count + concentration) * log probability at the mode."""
    return ((table + concentration) * log_mode_table(table, total, concentration, n_symbols)).sum(0)


def draw_table(
    table: Array, total: Array, concentration: float, n_symbols: int, rng: np.random.Generator
) -> Array:
    """Log probabilities drawn from Dirichlet(concentration + table).

    Symbols that a restricted table leaves out share the remaining probability.
    """
    n_others = n_symbols - len(table)
    others = (
        np.maximum(total - table.sum(0), 0.0) + n_others * concentration if n_others > 0 else None
    )
    return np.ascontiguousarray(draw_log_dirichlet((table + concentration).T, others, rng).T)
