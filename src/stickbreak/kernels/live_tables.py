"""Live counts of symbols, binary columns and counts of events: see `live.py`.

Differences that round to below zero are held there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .collapsed import LiveTable
from .compile import kernel
from .live import score_without, tally
from .rows import log_rising

__all__ = ["CountParts", "EventRows", "LiveBinary", "LiveColumns", "LiveCounts", "LiveEvents"]

TINY = 1e-250  # smaller products of probabilities are summed as logs
TOGETHER = 8  # columns whose probabilities are multiplied before a log is taken
FEW = 8.0  # events up to which a rising factorial is a product


class LiveColumns(NamedTuple):
    """Symbols of several columns: counts (V, K), totals (D, K); prior counts of one, and (D,)."""

    counts: np.ndarray
    totals: np.ndarray
    pseudo: float
    pseudo_totals: np.ndarray


class LiveBinary(NamedTuple):
    """Binary columns: ones, zeros, missing (D, K), rows (K,); prior counts on and off."""

    ones: np.ndarray
    zeros: np.ndarray
    missing: np.ndarray
    rows: np.ndarray
    on: float
    off: float


class LiveEvents(NamedTuple):
    """Counts of events: events, missing (D, K), rows, base, total (K,); prior shape (D,) and rate.

    total : of events and shapes. is_partial (1,) : 1 once an entry has been missing.
    """

    events: np.ndarray
    missing: np.ndarray
    rows: np.ndarray
    base: np.ndarray
    total: np.ndarray
    is_partial: np.ndarray
    shape: np.ndarray
    rate: float


class EventRows(NamedTuple):
    """values (n, D), NaN where missing; base (n,) : minus the sum of log x!."""

    values: np.ndarray
    base: np.ndarray


class LiveCounts(NamedTuple):
    """Rows of counts: counts (V, K), totals, rows, base (K,); prior counts of one and of all."""

    counts: np.ndarray
    totals: np.ndarray
    rows: np.ndarray
    base: np.ndarray
    pseudo: float
    pseudo_total: float


class CountParts(NamedTuple):
    """CSR rows, their tokens and log coefficients (n,); seen (n,) : 0 for a missing row."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    total: np.ndarray
    base: np.ndarray
    seen: np.ndarray


@kernel
def log_rise(a, x):
    """lgamma(a + x) - lgamma(a)."""
    if x <= FEW and x == math.floor(x):
        product = 1.0
        for i in range(int(x)):
            product *= a + i
        return math.log(product)
    return x * math.log(a) + log_rising(a, x)


# ------------------------------------------------------------------------------------------ symbols


@score_without.of(LiveTable)
@kernel
def score_symbol(live, rows, n, own, out):
    """A symbol of one column; rows (n, 1), -1 where missing."""
    v = rows[n, 0]
    for k in range(out.shape[0]):
        if v < 0:
            out[k] = 0.0
        else:
            out[k] = math.log(max(live.counts[v, k] - own[k], 0.0) + live.pseudo) - math.log(
                max(live.totals[k] - own[k], 0.0) + live.pseudo_total
            )


@tally.of(LiveTable)
@kernel
def tally_symbols(live, rows, lo, hi, shares, sign):
    """Symbols of one column."""
    for t in range(lo, hi):
        v = rows[t, 0]
        if v >= 0:
            for k in range(shares.shape[1]):
                live.counts[v, k] += sign * shares[t - lo, k]
                live.totals[k] += sign * shares[t - lo, k]


@score_without.of(LiveColumns)
@kernel
def score_symbols(live, rows, n, own, out):
    """Symbols of several columns; rows (n, D), -1 where missing."""
    D, K = live.totals.shape
    product = np.ones(K)
    out[:] = 0.0
    for first in range(0, D, TOGETHER):
        last = min(first + TOGETHER, D)
        for d in range(first, last):
            v = rows[n, d]
            if v >= 0:
                counts, totals, whole = live.counts[v], live.totals[d], live.pseudo_totals[d]
                for k in range(K):
                    product[k] *= (max(counts[k] - own[k], 0.0) + live.pseudo) / (
                        max(totals[k] - own[k], 0.0) + whole
                    )
        for k in range(K):
            if product[k] > TINY:
                out[k] += math.log(product[k])
            else:
                for d in range(first, last):
                    v = rows[n, d]
                    if v >= 0:
                        out[k] += math.log(max(live.counts[v, k] - own[k], 0.0) + live.pseudo)
                        out[k] -= math.log(
                            max(live.totals[d, k] - own[k], 0.0) + live.pseudo_totals[d]
                        )
            product[k] = 1.0


@tally.of(LiveColumns)
@kernel
def tally_columns(live, rows, lo, hi, shares, sign):
    """Symbols of several columns."""
    for t in range(lo, hi):
        for d in range(live.totals.shape[0]):
            v = rows[t, d]
            if v >= 0:
                for k in range(shares.shape[1]):
                    live.counts[v, k] += sign * shares[t - lo, k]
                    live.totals[d, k] += sign * shares[t - lo, k]


# ------------------------------------------------------------------------------------------- binary


@score_without.of(LiveBinary)
@kernel
def score_binary(live, rows, n, own, out):
    """Binary columns; rows (n, D), NaN where missing."""
    D, K = live.ones.shape
    product, both = np.ones(K), live.on + live.off
    out[:] = 0.0
    for first in range(0, D, TOGETHER):
        last = min(first + TOGETHER, D)
        for d in range(first, last):
            x = rows[n, d]
            if x == x:
                same, other = live.zeros[d], live.ones[d]
                pseudo = live.off
                if x > 0.0:
                    same, other, pseudo = other, same, live.on
                for k in range(K):
                    seen = max(same[k] - own[k], 0.0)
                    product[k] *= (seen + pseudo) / (seen + other[k] + both)
        for k in range(K):
            if product[k] > TINY:
                out[k] += math.log(product[k])
            else:
                for d in range(first, last):
                    x = rows[n, d]
                    if x == x:
                        same, other = live.zeros[d, k], live.ones[d, k]
                        pseudo = live.off
                        if x > 0.0:
                            same, other, pseudo = other, same, live.on
                        seen = max(same - own[k], 0.0)
                        out[k] += math.log(seen + pseudo) - math.log(seen + other + both)
            product[k] = 1.0


@tally.of(LiveBinary)
@kernel
def tally_binary(live, rows, lo, hi, shares, sign):
    """Binary columns."""
    D, K = live.ones.shape
    for t in range(lo, hi):
        for d in range(D):
            x = rows[t, d]
            target = live.missing[d]
            if x == x:
                target = live.ones[d] if x > 0.0 else live.zeros[d]
            for k in range(K):
                target[k] += sign * shares[t - lo, k]
        for k in range(K):
            live.rows[k] += sign * shares[t - lo, k]


# ------------------------------------------------------------------------------------------- events


@score_without.of(LiveEvents)
@kernel
def score_events(live, rows, n, own, out):
    """Negative binomial of every column."""
    D, K = live.events.shape
    x, n_events, n_lost = rows.values[n], 0.0, 0
    for d in range(D):
        if x[d] == x[d]:
            n_events += x[d]
        else:
            n_lost += 1
    for k in range(K):
        seen = max(live.rows[k] - own[k], 0.0)
        rate, value = live.rate + seen, rows.base[n]
        log_more = math.log(rate + 1.0)
        if live.is_partial[0] == 0.0 and n_lost == 0:
            value -= (live.total[k] - own[k] * n_events) * math.log1p(1.0 / rate)
        for d in range(D):
            if x[d] != x[d]:
                continue
            shape = live.shape[d] + max(live.events[d, k] - own[k] * x[d], 0.0)
            if live.is_partial[0] > 0.0 or n_lost > 0:
                rate = live.rate + max(seen - live.missing[d, k], 0.0)
                log_more = math.log(rate + 1.0)
                value -= shape * math.log1p(1.0 / rate)
            if x[d] > 0.0:
                value += log_rise(shape, x[d]) - x[d] * log_more
        out[k] = value


@tally.of(LiveEvents)
@kernel
def tally_events(live, rows, lo, hi, shares, sign):
    """Events of every column, rows and their constants."""
    D, K = live.events.shape
    for t in range(lo, hi):
        n_events = 0.0
        for d in range(D):
            x, target = rows.values[t, d], live.events[d]
            if x != x:
                x, target, live.is_partial[0] = 1.0, live.missing[d], 1.0
            else:
                n_events += x
            if x > 0.0:
                for k in range(K):
                    target[k] += sign * shares[t - lo, k] * x
        for k in range(K):
            r = sign * shares[t - lo, k]
            live.rows[k] += r
            live.base[k] += r * rows.base[t]
            live.total[k] += r * n_events


# ---------------------------------------------------------------------------------- rows of counts


@score_without.of(LiveCounts)
@kernel
def score_counts(live, rows, n, own, out):
    """Dirichlet-multinomial of a whole row."""
    for k in range(out.shape[0]):
        out[k] = rows.base[n] - log_rise(
            live.pseudo_total + max(live.totals[k] - own[k] * rows.total[n], 0.0), rows.total[n]
        )
    for j in range(rows.indptr[n], rows.indptr[n + 1]):
        x, counts = rows.data[j], live.counts[rows.indices[j]]
        for k in range(out.shape[0]):
            out[k] += log_rise(live.pseudo + max(counts[k] - own[k] * x, 0.0), x)


@tally.of(LiveCounts)
@kernel
def tally_counts(live, rows, lo, hi, shares, sign):
    """Tokens, rows and their constants."""
    for t in range(lo, hi):
        for j in range(rows.indptr[t], rows.indptr[t + 1]):
            x, target = rows.data[j], live.counts[rows.indices[j]]
            for k in range(shares.shape[1]):
                target[k] += sign * shares[t - lo, k] * x
        for k in range(shares.shape[1]):
            r = sign * shares[t - lo, k]
            live.totals[k] += r * rows.total[t]
            live.rows[k] += r * rows.seen[t]
            live.base[k] += r * rows.base[t]
