"""Sequences for tests of estimators: for each family name, chains of three clear states, and the
states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from estimator_cases import _make

from stickbreak.metrics import one_to_one

Array = np.ndarray
N_STATES = 3


@dataclass(frozen=True)
class SequenceCase:
    """sequences: (T, D) each; states: (T,) each."""

    name: str
    sequences: list[Array]
    states: list[Array]

    @property
    def lengths(self) -> list[int]:
        return [len(s) for s in self.sequences]

    @property
    def stacked(self) -> Array:
        return np.concatenate(self.sequences)

    @property
    def ids(self) -> Array:
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def draw_states(length: int, rng: np.random.Generator, stay: float = 0.9) -> Array:
    """A path that stays with probability `stay`, and otherwise goes on to the next state."""
    return (rng.integers(N_STATES) + np.cumsum(rng.random(length) > stay)) % N_STATES


def autoregress(states: Array, rng: np.random.Generator) -> Array:
    """(T, 2) rotations by an angle that depends on the state, with noise."""
    x = np.empty((len(states), 2))
    x[0] = rng.normal(size=2)
    for t in range(1, len(states)):
        angle = (0.1, 1.5, 3.0)[states[t]]
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        x[t] = 0.97 * turn @ x[t - 1] + 0.2 * rng.normal(size=2)
    return x


def make_sequences(
    name: str, lengths: tuple[int, ...] = (60, 45, 1, 70, 33), seed: int = 3
) -> SequenceCase:
    """A case of a family; autoregressions need more than one row."""
    rng = np.random.default_rng(seed)
    if name == "autoregressive":
        lengths = tuple(max(length, 4) for length in lengths)
    states = [draw_states(length, rng) for length in lengths]
    make = (
        autoregress
        if name == "autoregressive"
        else lambda z, rng: np.asarray(_make(name, z, rng), dtype=float)
    )
    return SequenceCase(name, [make(z, rng) for z in states], states)


def agreement(found: list[Array], true: list[Array]) -> float:
    """Share of rows whose state is right, under the best one-to-one renaming of three states."""
    return one_to_one(true, found, greedy=False)
