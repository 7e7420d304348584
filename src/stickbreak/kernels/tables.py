"""Dirichlet tables: digamma and log gamma of counts, and counts of words in documents."""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .gamma import digamma_fast, log_gamma_fast
from .rows import LARGE, exp_fast, log_rising
from .vectors import EIGHT, fill, fma, larger, load, store

__all__ = ["aligned", "digamma_table", "linear_rows", "log_gamma_columns", "scatter_words"]


@kernel
def digamma_table(counts, shift, out):
    """Out (V, K) = digamma(counts (V, K) + shift) for numbers above zero."""
    source, target, n = counts.reshape(-1), out.reshape(-1), counts.size
    for i in range(0, n - n % EIGHT, EIGHT):
        store(target, i, digamma_fast(load(source, i) + shift))
    for i in range(n - n % EIGHT, n):
        target[i] = digamma_fast(source[i] + shift)


@kernel
def log_gamma_columns(counts, shift, out):
    """Out (K,) = sum over lines of log Gamma(counts (V, K) + shift) - log Gamma(shift)."""
    V, K = counts.shape
    out[:] = 0.0
    if shift >= LARGE:  # the difference would lose digits
        log_shift = math.log(shift)
        for v in range(V):
            for k in range(K):
                out[k] += counts[v, k] * log_shift + log_rising(shift, counts[v, k])
        return
    least = log_gamma_fast(shift)
    for v in range(V):
        for k in range(0, K - K % EIGHT, EIGHT):
            store(out, k, load(out, k) + (log_gamma_fast(load(counts, v * K + k) + shift) - least))
        for k in range(K - K % EIGHT, K):
            out[k] += log_gamma_fast(counts[v, k] + shift) - least


@kernel
def linear_rows(logs, out, out_top):
    """Out (n, width) = exp(logs (n, K) - out_top (n,)), zero beyond K.

    out_top is the largest entry of each line. A line of -inf becomes zero.
    """
    n, K = logs.shape
    width = out.shape[1]
    for i in range(n):
        row, most, top = i * K, K - K % EIGHT, -np.inf
        best = fill(-np.inf)
        for k in range(0, most, EIGHT):
            best = larger(load(logs, row + k), best)
        store(out, i * width, best)
        for k in range(EIGHT if most > 0 else 0):
            top = max(top, out[i, k])
        for k in range(most, K):
            top = max(top, logs[i, k])
        out_top[i] = top
        shift = top if top > -np.inf else 0.0
        for k in range(0, most, EIGHT):
            store(out, i * width + k, exp_fast(load(logs, row + k) - shift))
        for k in range(most, K):
            out[i, k] = exp_fast(logs[i, k] - shift)
        for k in range(K, width):
            out[i, k] = 0.0


@kernel
def scatter_words(table, index, offsets, weights, scale, symbols, out):
    """Out (V, K)[symbols (n,)] += shares of words.

    Shares are scale (n,) * table (M, width)[index (n,)] * weights (S, width) of the word's unit.
    """
    K, width = out.shape[1], table.shape[1]
    most = K - K % EIGHT
    for s in range(offsets.shape[0] - 1):
        own = s * width
        for n in range(offsets[s], offsets[s + 1]):
            row, to, share = index[n] * width, symbols[n] * K, fill(scale[n])
            for k in range(0, most, EIGHT):
                store(
                    out,
                    to + k,
                    fma(load(table, row + k) * load(weights, own + k), share, load(out, to + k)),
                )
            for k in range(most, K):
                out[symbols[n], k] += scale[n] * table[index[n], k] * weights[s, k]


def padded(array, width):
    """A copy of array (..., K) as (..., width), zeros after K, on whole cache lines."""
    K = np.shape(array)[-1]
    out = aligned((*np.shape(array)[:-1], width))
    out[..., :K] = array
    out[..., K:] = 0.0
    return out


def aligned(shape):
    """An array of doubles, not set, that begins where a cache line does.

    A line whose width is a multiple of eight then begins so too, and no vector is in two lines of
    the cache: an eighth of the time of a sweep.
    """
    held = np.empty(math.prod(shape) + EIGHT)
    first = -held.ctypes.data % (EIGHT * held.itemsize) // held.itemsize
    return held[first : first + math.prod(shape)].reshape(shape)
