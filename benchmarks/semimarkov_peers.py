"""A hidden Markov model of dynamax with a state for every stage of negative binomial lengths."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import numpy as np
from dynamax.hidden_markov_model import hmm_smoother
from scipy.special import gammaln

from .semimarkov import data

jax.config.update("jax_enable_x64", True)
P = 0.8  # of staying in a stage, as in `semimarkov`
T, COUNT = 2000, 4


def expanded(K: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    """Start (K r,) and transition (K r, K r) of the chain with a state for every stage."""
    m = np.arange(r)  # stages to go after the present one
    ways = gammaln(r) - gammaln(m + 1) - gammaln(r - m)
    entry = np.exp(ways + m * np.log(P) + (r - 1 - m) * np.log1p(-P))
    inside = P * np.eye(r) + (1 - P) * np.eye(r, k=-1)
    steps = (1 - np.eye(K)) / max(K - 1, 1)
    leave = np.zeros(r)
    leave[0] = 1 - P
    table = np.kron(np.eye(K), inside) + np.kron(steps, np.outer(leave, entry))
    return np.kron(np.full(K, 1 / K), entry), table


def peer_job(K: int, r: int):
    """Dynamax's smoother of all sequences at once, compiled before."""
    evidence = data(K, T, COUNT)[0].T.reshape(COUNT, T, K)
    start, table = map(jax.numpy.asarray, expanded(K, r))
    rows = jax.numpy.asarray(np.repeat(evidence, r, axis=2))

    @jax.jit
    def smooth(rows):
        found = jax.vmap(lambda each: hmm_smoother(start, table, each))(rows)
        return found.marginal_loglik, found.smoothed_probs.reshape(COUNT, T, K, r).sum(3)

    return lambda: jax.block_until_ready(smooth(rows))
