"""Sums over all dependency trees of a sentence, and expected counts: linear domain, split heads.

A head h has a half to its left and one to its right. On each side it decides, before every
child, whether to stop; the decision depends on whether there is a child on that side already.
Charts, e the last word of a half (e <= h to the left, e >= h to the right), s = 0, 1 the side:

    half[h, e]     all children of one side as far as e
    push[s, h, e]  half times the decision to go on
    shut[s, h, e]  half times the decision to stop
    arc[h, a]      head h takes child a, and all words between them are done

A derivative of the sum is a chart of the same shape, and weight * derivative / sum is an expected
count. Sentences whose sum is too small for this domain are left to `logs.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel

__all__ = [
    "GO", "LEAST", "STOP", "Charts", "Posterior", "Weights", "differentiate", "infer_tree",
    "posterior_of", "sum_trees",
]  # fmt: skip

LEAST = 1e-200  # of a sum of scaled weights: what underflowed beside it does not matter
STOP, GO = 0, 1


class Weights(NamedTuple):
    """Of one sentence of n words: root (n,), attach (n, n) from head to child.

    choice (n, 2, 2, 2) : of a head, a side, whether it has a child there, and stop or go
    """

    root: np.ndarray
    attach: np.ndarray
    choice: np.ndarray


class Charts(NamedTuple):
    """See the module."""

    half: np.ndarray
    push: np.ndarray
    shut: np.ndarray
    arc: np.ndarray


class Posterior(NamedTuple):
    """Expected counts: head (n, n + 1) of each word, 0 the root; choice as in `Weights`."""

    head: np.ndarray
    choice: np.ndarray


@kernel
def scale_weights(w, n):
    """Divide the weights of every word as child and of its stops by the largest; returns the log.

    Every tree has one of each.
    """
    log_scale = 0.0
    for a in range(n):
        top = w.root[a]
        for h in range(n):
            if h != a:
                top = max(top, w.attach[h, a])
        if not top > 0.0:
            return -np.inf
        w.root[a] /= top
        for h in range(n):
            w.attach[h, a] /= top
        log_scale += np.log(top)
        for s in range(2):
            top = max(w.choice[a, s, 0, STOP], w.choice[a, s, 1, STOP])
            if not top > 0.0:
                return -np.inf
            w.choice[a, s, 0, STOP] /= top
            w.choice[a, s, 1, STOP] /= top
            log_scale += np.log(top)
    return log_scale


@kernel
def sum_trees(w, n, c):
    """Fill the charts of n words; returns the sum of all trees."""
    half, push, shut, arc = c.half, c.push, c.shut, c.arc
    for h in range(n):
        half[h, h] = 1.0
        for s in range(2):
            push[s, h, h] = w.choice[h, s, 0, GO]
            shut[s, h, h] = w.choice[h, s, 0, STOP]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            right, left = 0.0, 0.0
            for k in range(i, j):
                right += push[1, i, k] * shut[0, j, k + 1]
                left += shut[1, i, k] * push[0, j, k + 1]
            arc[i, j], arc[j, i] = right * w.attach[i, j], left * w.attach[j, i]
            right, left = 0.0, 0.0
            for k in range(i, j):
                right += arc[i, k + 1] * shut[1, k + 1, j]
                left += arc[j, k] * shut[0, k, i]
            half[i, j], half[j, i] = right, left
            push[1, i, j] = right * w.choice[i, 1, 1, GO]
            shut[1, i, j] = right * w.choice[i, 1, 1, STOP]
            push[0, j, i] = left * w.choice[j, 0, 1, GO]
            shut[0, j, i] = left * w.choice[j, 0, 1, STOP]
    total = 0.0
    for h in range(n):
        total += w.root[h] * shut[0, h, 0] * shut[1, h, n - 1]
    return total


@kernel
def differentiate(w, n, total, c, d):
    """Fill the derivatives d of log total with respect to the charts c."""
    for h in range(n):
        for e in range(n):
            d.arc[h, e] = 0.0
            for s in range(2):
                d.push[s, h, e] = d.shut[s, h, e] = 0.0
    for h in range(n):
        d.shut[0, h, 0] += w.root[h] * c.shut[1, h, n - 1] / total
        d.shut[1, h, n - 1] += w.root[h] * c.shut[0, h, 0] / total
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            right = d.shut[1, i, j] * w.choice[i, 1, 1, STOP]
            right += d.push[1, i, j] * w.choice[i, 1, 1, GO]
            left = d.shut[0, j, i] * w.choice[j, 0, 1, STOP]
            left += d.push[0, j, i] * w.choice[j, 0, 1, GO]
            for k in range(i, j):
                d.arc[i, k + 1] += right * c.shut[1, k + 1, j]
                d.shut[1, k + 1, j] += right * c.arc[i, k + 1]
                d.arc[j, k] += left * c.shut[0, k, i]
                d.shut[0, k, i] += left * c.arc[j, k]
            right, left = d.arc[i, j] * w.attach[i, j], d.arc[j, i] * w.attach[j, i]
            for k in range(i, j):
                d.push[1, i, k] += right * c.shut[0, j, k + 1]
                d.shut[0, j, k + 1] += right * c.push[1, i, k]
                d.shut[1, i, k] += left * c.push[0, j, k + 1]
                d.push[0, j, k + 1] += left * c.shut[1, i, k]


@kernel
def posterior_of(w, n, total, c, d, found):
    """Expected counts from charts and derivatives."""
    for a in range(n):
        found.head[a, 0] = w.root[a] * c.shut[0, a, 0] * c.shut[1, a, n - 1] / total
        for h in range(n):
            found.head[a, h + 1] = 0.0 if h == a else c.arc[h, a] * d.arc[h, a]
    for h in range(n):
        for s in range(2):
            first, last = (0, h) if s == 0 else (h + 1, n)
            go, stop = 0.0, 0.0
            for e in range(first, last):
                go += c.push[s, h, e] * d.push[s, h, e]
                stop += c.shut[s, h, e] * d.shut[s, h, e]
            found.choice[h, s, 0, GO] = c.push[s, h, h] * d.push[s, h, h]
            found.choice[h, s, 0, STOP] = c.shut[s, h, h] * d.shut[s, h, h]
            found.choice[h, s, 1, GO], found.choice[h, s, 1, STOP] = go, stop


@kernel
def infer_tree(w, n, c, d, found):
    """Expected counts of one sentence, whose weights are scaled in place.

    Returns the log of the sum, or NaN if that is too small here.
    """
    log_scale = scale_weights(w, n)
    if log_scale == -np.inf:
        return np.nan
    total = sum_trees(w, n, c)
    if not (total > LEAST and total < np.inf):
        return np.nan
    differentiate(w, n, total, c, d)
    posterior_of(w, n, total, c, d, found)
    return log_scale + np.log(total)
