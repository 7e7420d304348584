"""Chains for the tests of chain kernels: potentials, stacked sequences, and their oracles one
sequence at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from oracles import chain as brute

Array = np.ndarray
INF = np.inf
# Sums of at most some thousand terms; exp_fast adds 1e-14 a row.
CLOSE = 1e-11


class Case(NamedTuple):
    """Arguments of the kernels: evidence_t (K, n), log_start (K,), log_transition (K, K), offsets
    (S + 1,).
    """

    evidence_t: Array
    log_start: Array
    log_transition: Array
    offsets: Array

    def sequences(self) -> list[Array]:
        """Evidence (T, K) of each."""
        return [self.evidence_t[:, a:b].T for a, b in pairwise(self.offsets)]

    def oracle(self, weights: Array | None = None) -> tuple[Array, Array, Array, Array]:
        """log_z (S,), weighted shares (K, n), start and transition counts."""
        K = len(self.log_start)
        log_z, shares, start, transition = [], [], np.zeros(K), np.zeros((K, K))
        for s, evidence in enumerate(self.sequences()):
            value, states, steps = brute.smooth(evidence, self.log_start, self.log_transition)
            weight = 1.0 if weights is None else weights[s]
            log_z.append(value)
            shares.append(weight * states.T)
            start += weight * states[0]
            transition += weight * steps.sum(0)
        return np.array(log_z), np.concatenate(shares, axis=1), start, transition


def make_case(
    K: int,
    lengths: Array | list[int],
    seed: int,
    spread: float = 2.0,
    zeros: float = 0.0,
    masks: float = 0.0,
) -> Case:
    """Random potentials of any scale. zeros: share of forbidden steps, masks: of forbidden states;
    one path stays possible.
    """
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    n = int(offsets[-1])
    evidence = rng.normal(rng.normal(0, 30), spread, (K, n))
    start, transition = rng.normal(1.0, 1.0, K), rng.normal(-2.0, 1.0, (K, K))
    true = rng.integers(K, size=n)
    forbidden, masked = rng.random((K, K)) < zeros, rng.random((K, n)) < masks
    forbidden[true[:-1], true[1:]] = False
    masked[true, np.arange(n)] = False
    transition[forbidden], evidence[masked] = -INF, -INF
    return Case(evidence, start, transition, offsets)


def gap_case(gap: float = 900.0) -> Case:
    """Rows whose best state lies `gap` nats above the only one that the chain can be in; the second
    sequence is harmless.
    """
    evidence = np.zeros((3, 9))
    evidence[0, 1], evidence[2, 3] = gap, gap / 2
    evidence[:, 7] = [-gap, -3 * gap, -gap - 1.0]
    start = np.array([-INF, 0.0, 0.1])
    # the first state is never entered
    transition = np.array([[0.0, -1.0, -INF], [-INF, -0.5, -1.0], [-INF, -2.0, -0.1]])
    return Case(evidence, start, transition, np.array([0, 5, 9]))
