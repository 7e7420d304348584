"""Filtering one row after the other: the state of a filter is (state, age of its segment).

log_ages (K, D) : log p(state, age m = 1, ..., D | rows so far); a segment of age m has had m rows.
Segments are taken to begin with the first row, and to last on after the last one.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .smooth import scan_forward
from .tables import segment_tables

__all__ = ["filter_step", "log_ages", "remaining", "survival"]


def survival(log_duration):
    """(K, D) log sum over all lengths from each one on."""
    return np.logaddexp.accumulate(log_duration[:, ::-1], axis=1)[:, ::-1]


def filter_step(log_ages, evidence, log_start, log_transition, log_duration):
    """One more row, O(K D + K^2), in logs. Returns log_ages (K, D) and log p(row | rows before).

    log_ages : the result for the row before, None for the first row. evidence (K,).
    """
    tails = survival(log_duration)
    out = np.full(log_duration.shape, -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        if log_ages is None:
            begun = log_start
        else:
            dies = np.where(tails > -np.inf, log_duration - tails, -np.inf)
            ended = np.logaddexp.reduce(log_ages + dies, axis=1)
            steps = np.array(log_transition)
            np.fill_diagonal(steps, -np.inf)
            begun = np.logaddexp.reduce(ended[:, None] + steps, axis=0)
            goes_on = np.where(tails[:, 1:] > -np.inf, tails[:, 1:] - tails[:, :-1], -np.inf)
            out[:, 1:] = log_ages[:, :-1] + goes_on
        out[:, 0] = begun + tails[:, 0]
        out += np.asarray(evidence)[:, None]
        log_step = float(np.logaddexp.reduce(out, axis=None))
        return (out - log_step if log_step > -np.inf else out), log_step


def log_ages(evidence_t, log_start, log_transition, log_duration, offsets, is_free=None):
    """(S, K, D) log p(state, age | all rows) of every sequence, -inf beyond its rows."""
    (K, D), n = log_duration.shape, evidence_t.shape[1]
    tables = segment_tables(log_start, log_transition, log_duration, int(np.diff(offsets).max()))
    is_free = np.ones(n, dtype=np.bool_) if is_free is None else is_free
    rows, ahead, _ = scan_forward(evidence_t, tables, offsets, is_free)
    out = np.full((len(offsets) - 1, K, D), -np.inf)
    for s, (lo, hi) in enumerate(pairwise(offsets)):
        T, at = hi - lo, slice(lo + s, hi + s)
        m = min(T, D)
        kept = (ahead.begun[at] - ahead.total[at])[T - m :][::-1, :K] + ahead.total[hi + s, :K]
        barred = np.logical_or.accumulate(rows[lo:hi][T - m :][::-1, :K] == -np.inf, axis=0)
        out[s, :, :m] = np.where(barred, -np.inf, kept + tables.log_last[:m, :K]).T
        out[s] -= np.logaddexp.reduce(out[s], axis=None)
    return out


def remaining(log_ages, log_duration):
    """(K, D) p(state, rows still to come in its segment = 0, ..., D - 1)."""
    K, D = log_duration.shape
    tails, ages, out = survival(log_duration), np.exp(log_ages), np.zeros((K, D))
    for m in range(1, D + 1):  # ages without weight cost nothing
        alive = (ages[:, m - 1] > 0) & (tails[:, m - 1] > -np.inf)
        shares = np.exp(log_duration[alive, m - 1 :] - tails[alive, m - 1 : m])
        out[alive, : D - m + 1] += ages[alive, m - 1 : m] * shares
    return out
