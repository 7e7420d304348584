"""Stages of negative binomial lengths against dynamax, which has no semi-Markov model.

    python -m benchmarks.semimarkov_peers

Its hidden Markov model with a state for every stage stands in: K r states, of which the K of a
stage have the same evidence, and a dense transition table. Both give the posterior of the K states
of all rows, given evidence, in one thread; minimum CPU time of some rounds in turn. Needs dynamax.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import numpy as np
from dynamax.hidden_markov_model import hmm_smoother
from scipy.special import gammaln

from .semimarkov import chain_job, data, exact_job, least, stage_job

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


def main() -> None:
    """Print rows per second, and check that both find the same."""
    print("K, r, rows/s: stages, exact (D = 500), chain of K states, dynamax with K r states")
    for K, r in ((10, 1), (10, 5), (10, 20), (50, 5)):
        jobs = stage_job(K, T, COUNT, r), exact_job(K, T, COUNT, 500), chain_job(K, T, COUNT)
        peer = peer_job(K, r)
        ours = jobs[0]()[0]
        gap = np.abs(np.asarray(peer()[0]) - ours).max()
        rates = [T * COUNT / seconds for seconds in least(*jobs, peer, rounds=5)]
        figures = " ".join(f"{rate:10.0f}" for rate in rates)
        print(f"  {K:3d} {r:3d} {figures}; log evidence differs by {gap:.1e}", flush=True)


if __name__ == "__main__":
    main()
