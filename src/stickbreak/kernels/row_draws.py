"""Collapsed Gibbs sampling of rows: the component of a row given the components of all others.

As `row_sweeps.py`, with one component for each row in the place of shares.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .draws import GOLDEN, choose_powered, uniform_of
from .live import score_without, tally
from .row_sweeps import FRESH, find_nodes, log_mean_shares

__all__ = ["draw_rows"]


@kernel
def draw_rows(
    live, prior, share, rows, repeats, sets, legal, states, is_part, seeds, power, out_live,
    out_share,
):  # fmt: skip
    """Every row once, in order. Returns the sum of leave-one-out log predictives.

    live, share (K,) : counts of all data, of which the states are part if `is_part`; they then
        change with every row, else they stay as they are
    repeats (n,) : rows of 0 are passed over
    states (n,) : components, replaced. seeds (n,) : of each row. power : of the probabilities
    sets, legal, out_live, out_share : as in `sweep_rows`
    """
    K, log_z, nodes = share.shape[0], 0.0, np.zeros(3, dtype=np.int64)
    gone, left, weights, evidence = np.zeros(K), np.empty(K), np.empty(K), np.empty(K)
    step = np.zeros((1, K))
    for n in range(states.shape[0]):
        if repeats[n] == 0.0:
            continue
        old = states[n]
        for k in range(K):
            gone[k] = 1.0 if is_part and k == old else 0.0
            left[k] = max(share[k] - gone[k], 0.0)
        if prior.concentration.shape[0] > 1 and n % FRESH == 0:
            find_nodes(prior, left, left.sum(), nodes)
        log_mean_shares(prior, left, nodes, weights)
        score_without(live, rows, n, gone, evidence)
        top, total = -math.inf, 0.0
        for k in range(K):
            weights[k] += evidence[k]
            if sets.shape[0] > 0 and legal[sets[n], k] == 0.0:
                weights[k] = -math.inf
            top = max(top, weights[k])
        for k in range(K):
            weights[k] = math.exp(weights[k] - top)
            total += weights[k]
        log_z += top + math.log(total)
        new = choose_powered(weights, total, power, uniform_of(seeds[n] + GOLDEN))
        states[n] = new
        if is_part and new != old:
            step[0, old], step[0, new] = -1.0, 1.0
            share[old] -= 1.0
            share[new] += 1.0
            tally(live, rows, n, n + 1, step, 1.0)
            step[0, old] = 0.0
        step[0, new] = 1.0
        out_share[new] += 1.0
        tally(out_live, rows, n, n + 1, step, 1.0)
        step[0, new] = 0.0
    return log_z
