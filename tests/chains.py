"""Small hidden Markov models for tests: sequences, models, starts, and the bound by its terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Sequences, measure
from stickbreak.families import Categorical, Gaussian
from stickbreak.inference import Start
from stickbreak.initialize import count_labels
from stickbreak.models import Model, finite_hmm, hdp_hmm

Array = np.ndarray
LENGTHS = (7, 1, 12, 5, 9, 2)
PRIORS = {
    "finite": lambda family: finite_hmm(family, concentration=0.7, start_concentration=0.9),
    "hdp": lambda family: hdp_hmm(
        family, concentration=0.5, start_concentration=2.0, top_concentration=3.0
    ),
    "sticky": lambda family: hdp_hmm(
        family, concentration=0.5, start_concentration=2.0, top_concentration=3.0, stickiness=5.0
    ),
}


def symbols(
    seed: int = 0, lengths: Any = LENGTHS, n_symbols: int = 4, weights: Array | None = None
) -> Sequences:
    """Sequences of one column of symbols that tend to repeat."""
    rng = np.random.default_rng(seed)
    parts = [np.repeat(rng.integers(n_symbols, size=n), 2)[:n] for n in lengths]
    offsets = np.r_[0, np.cumsum(lengths)]
    repeats = None if weights is None else np.repeat(np.asarray(weights, dtype=float), lengths)
    return Sequences(np.concatenate(parts)[:, None].astype(float), repeats, offsets=offsets)


def segments(
    seed: int = 0, n_states: int = 3, n_sequences: int = 6, length: int = 60, spread: float = 6.0
) -> tuple[Sequences, Array]:
    """Sequences in the plane that stay about 15 rows in each of a few far states, and
    their states.
    """
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(n_states) / n_states
    means = spread * np.c_[np.cos(angles), np.sin(angles)]
    states = []
    for _ in range(n_sequences):
        z = [int(rng.integers(n_states))]
        while len(z) < length:
            z.append(z[-1] if rng.random() < 14 / 15 else int(rng.integers(n_states)))
        states.append(z)
    truth = np.concatenate(states)
    rows = means[truth] + rng.normal(size=(len(truth), 2))
    return Sequences(rows, offsets=np.arange(n_sequences + 1) * length), truth


def symbol_model(prior: str, data: Sequences) -> Model:
    return PRIORS[prior](Categorical(concentration=0.6).locate(None, 1).resolve(measure(data)))


def gaussian_model(prior: str, data: Sequences) -> Model:
    return PRIORS[prior](Gaussian().locate(None, 2).resolve(measure(data)))


def random_labels_start(model: Model, data: Sequences, n_components: int, seed: int = 0) -> Start:
    """Counts of random labels."""
    labels = np.random.default_rng(seed).integers(n_components, size=data.n_rows)
    return Start(
        count_labels(model, data.whole(), labels, n_components), model.start_params(n_components)
    )
