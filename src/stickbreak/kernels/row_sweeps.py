"""Collapsed sweeps of rows: a row's component given the components of all other rows (CVB0).

Row n has shares r (K,). They leave the counts, and

    r_k  ~  E[share_k] p(row | component k),

both predictive given the counts that are left; then the counts change at once. Of a row that counts
c times, one occurrence leaves (all of it, if c < 1): the others have the same shares.

The prior's shares are those of a Dirichlet or of sticks. A concentration that is learned has its
posterior at evenly spaced nodes, as in `priors/concentration.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compile import kernel
from .live import score_without, tally
from .live_tables import log_rise
from .rows import exp_fast

__all__ = ["LiveShares", "log_mean_shares", "sweep_rows"]

DROP = 40.0  # nats below the best; nodes beyond are negligible
STRIDE = 16  # nodes per step of the coarse pass that finds them
# Every eighth node is enough: the posterior's log is smooth over a quarter of log c, and sums of
# smooth values over a grid converge faster than any power of its spacing. So are 48 over the whole
# width of a narrow one.
ENOUGH, LONGEST = 48, 8
FRESH = 64  # rows after which the nodes are found anew
LARGEST = 1e200  # products beyond are summed as logs


class LiveShares(NamedTuple):
    """Prior of the components' shares.

    is_sticks : sticks Beta(1, c), else Dirichlet(c / K)
    concentration, log_prior (J,) : c, or the values that it may have and their log probabilities
    """

    is_sticks: bool
    concentration: np.ndarray
    log_prior: np.ndarray


@kernel
def mean_shares(is_sticks, c, counts, total, out):
    """E[share] (K,) given counts (K,) and a concentration."""
    K, later, passed = counts.shape[0], total, 1.0
    for k in range(K):
        if is_sticks:
            later = max(later - counts[k], 0.0)
            stop, go = 1.0 + counts[k], c + later
            out[k] = passed * stop / (stop + go)
            passed *= go / (stop + go)
        else:
            out[k] = (counts[k] + c / K) / (total + c)


@kernel
def log_evidence(is_sticks, c, counts, total):
    """Log probability of the counts given a concentration, up to a term without it."""
    K, value, from_here, product = counts.shape[0], -log_rise(c, total), total, 1.0
    for k in range(K):
        if is_sticks:
            product *= 1.0 + from_here / c
            from_here = max(from_here - counts[k], 0.0)
            if product > LARGEST:
                value -= math.log(product)
                product = 1.0
        else:
            value += log_rise(c / K, counts[k])
    return value - math.log(product)


@kernel
def find_nodes(prior, counts, total, out):
    """Out (3,): first, last and step of the nodes where the posterior is not negligible."""
    n_nodes, best = prior.concentration.shape[0], -math.inf
    n_coarse = (n_nodes - 1) // STRIDE + 2
    values = np.empty(n_coarse)
    for i in range(n_coarse):
        j = min(i * STRIDE, n_nodes - 1)
        values[i] = prior.log_prior[j] + log_evidence(
            prior.is_sticks, prior.concentration[j], counts, total
        )
        best = max(best, values[i])
    out[0], out[1] = n_nodes, 0
    for i in range(n_coarse):
        if values[i] > best - DROP:
            out[0] = min(out[0], max(i - 1, 0) * STRIDE)
            out[1] = max(out[1], min((i + 1) * STRIDE, n_nodes - 1))
    # all mass to the left is on the first node, which stands for more than itself
    out[2] = 1 if out[0] == 0 else min(max((out[1] - out[0]) // ENOUGH, 1), LONGEST)


@kernel
def log_mean_shares(prior, counts, nodes, out):
    """Log E[share] (K,) given counts (K,); nodes as `find_nodes` found them."""
    K, total = counts.shape[0], counts.sum()
    if prior.concentration.shape[0] == 1:
        mean_shares(prior.is_sticks, prior.concentration[0], counts, total, out)
    else:
        mine, top, whole = np.empty(K), -math.inf, 0.0
        n_nodes = (nodes[1] - nodes[0]) // nodes[2] + 1
        weights = np.empty(n_nodes)
        for i in range(n_nodes):
            j = nodes[0] + i * nodes[2]
            weights[i] = prior.log_prior[j] + log_evidence(
                prior.is_sticks, prior.concentration[j], counts, total
            )
            top = max(top, weights[i])
        out[:] = 0.0
        for i in range(n_nodes):
            weight, c = math.exp(weights[i] - top), prior.concentration[nodes[0] + i * nodes[2]]
            mean_shares(prior.is_sticks, c, counts, total, mine)
            whole += weight
            for k in range(K):
                out[k] += weight * mine[k]
        for k in range(K):
            out[k] /= whole
    for k in range(K):
        out[k] = math.log(out[k])


@kernel
def soften(log_weights, own):
    """Softmax of log_weights (K,) into own (K,), float32, and back; returns the log normalizer."""
    K, top, total = own.shape[0], -math.inf, 0.0
    for k in range(K):
        top = max(top, log_weights[k])
    for k in range(K):
        log_weights[k] = exp_fast(log_weights[k] - top)
        total += log_weights[k]
    for k in range(K):
        own[k] = log_weights[k] / total
        log_weights[k] = own[k]
    return top + math.log(total)


@kernel
def sweep_rows(
    live, prior, share, rows, repeats, sets, legal, own, is_part, moves, is_measured,
    out_live, out_share,
):  # fmt: skip
    """Every row once, in order. Returns log predictives and entropy, summed.

    live, share (K,) : counts of all data, of which own are part if `is_part`; they then change with
        every row, else they stay as they are
    repeats (n,) : how often each row counts
    sets (n,), legal (M, K) : which components a row may have; sets (0,) for all
    own (n, K) : shares of the rows, float32; replaced if `moves`
    is_measured : whether the entropy is wanted; else it is 0
    out_live, out_share (K,) : += the counts of the rows' shares
    """
    K, log_z, entropy = own.shape[1], 0.0, 0.0
    gone, left, weights, evidence = np.zeros(K), np.empty(K), np.empty(K), np.empty(K)
    step, nodes = np.empty((1, K)), np.zeros(3, dtype=np.int64)
    for n in range(own.shape[0]):
        c, mine = repeats[n], own[n]
        if moves and c > 0.0:
            for k in range(K):
                gone[k] = min(c, 1.0) * mine[k] if is_part else 0.0
                left[k] = max(share[k] - gone[k], 0.0)
                step[0, k] = -c * mine[k]
            if prior.concentration.shape[0] > 1 and n % FRESH == 0:
                find_nodes(prior, left, left.sum(), nodes)
            log_mean_shares(prior, left, nodes, weights)
            score_without(live, rows, n, gone, evidence)
            for k in range(K):
                weights[k] += evidence[k]
                if sets.shape[0] > 0 and legal[sets[n], k] == 0.0:
                    weights[k] = -math.inf
            log_z += c * soften(weights, mine)
            if is_part:
                for k in range(K):
                    step[0, k] += c * mine[k]
                    share[k] += step[0, k]
                tally(live, rows, n, n + 1, step, 1.0)
        for k in range(K):
            step[0, k] = c * mine[k]
            out_share[k] += step[0, k]
            if is_measured and mine[k] > 0.0:
                entropy -= step[0, k] * math.log(np.float64(mine[k]))
        tally(out_live, rows, n, n + 1, step, 1.0)
    return log_z, entropy
