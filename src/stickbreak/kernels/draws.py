"""Random numbers and labels inside kernels.

Each row has a seed of its own, from which splitmix64 counts: the draws of a row depend on its seed
alone, so any worker may make them. (Kernels that draw import from here; a change here needs a new
cache.)
"""

from __future__ import annotations

import numpy as np

from .compile import kernel

__all__ = ["GOLDEN", "choose", "choose_powered", "uniform_of"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # step of the counter, odd
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
SCALE = 2.0**-53


@kernel
def uniform_of(state):
    """A number in [0, 1) from a counter, uint64. The next one is that of state + GOLDEN."""
    z = (state ^ (state >> SHIFTS[0])) * FIRST
    z = (z ^ (z >> SHIFTS[1])) * SECOND
    z = z ^ (z >> SHIFTS[2])
    return np.float64(z >> SHIFTS[3]) * SCALE


@kernel
def choose(weights, uniform):
    """The first index whose cumulative weight exceeds uniform * sum; never one without weight."""
    total = 0.0
    for k in range(weights.shape[0]):
        total += weights[k]
    goal, reached, last = uniform * total, 0.0, 0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            last = k
            reached += weights[k]
            if reached > goal:
                break
    return last


@kernel
def choose_powered(weights, total, power, uniform):
    """`choose` by (weights / total) ** power; weights are overwritten."""
    if power != 1.0:
        for k in range(weights.shape[0]):
            weights[k] = (weights[k] / total) ** power
    return choose(weights, uniform)
