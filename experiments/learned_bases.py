"""Held-out words of the treebank: a finite hidden Markov model, and an HDP with learned
concentrations and a learned base of words.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, seeds, span
from .tagged import read_treebank

STATES, SWEEPS, N_TRAIN, N_TEST, N_SEEDS = 45, 100, 1000, 300, 2


def encode(
    train: list[list[str]], test: list[list[str]]
) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Words as numbers; those seen once or never in training are one word. Also how many."""
    counts = Counter(word for sentence in train for word in sentence)
    known = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n > 1), 1)}
    number = lambda part: [np.array([[known.get(w, 0)] for w in s]) for s in part]
    return number(train), number(test), len(known) + 1


def plan(n_words: int, n_states: int, n_sweeps: int) -> dict[str, Any]:
    """Models by name, from the same kind of start."""
    common = {
        "family": sb.Categorical(0.1, n_words),
        "inference": sb.CollapsedVB(max_iter=n_sweeps, tol=0.0),
        "init": "local",
    }
    hdp = {"root": "tables", "concentration": 5.0, "top_concentration": 10.0, **common}
    return {
        "finite, prior counts 0.1": sb.HMM(
            n_states, concentration=0.1, start_concentration=0.1, **common
        ),
        "HDP, learned concentrations": sb.HDPHMM(n_states, **hdp),
        "HDP, learned concentrations and base": sb.HDPHMM(n_states, learn_prior=True, **hdp),
    }


def compare(
    train: list[np.ndarray],
    test: list[np.ndarray],
    n_words: int,
    n_states: int = STATES,
    n_sweeps: int = SWEEPS,
) -> list[Row]:
    """Held-out nats a word."""
    rows = []
    for name, model in plan(n_words, n_states, n_sweeps).items():
        scores, used, times = [], [], []
        for seed in seeds(N_SEEDS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sb.StickbreakWarning)
                began = time.process_time()
                model.set_params(random_state=seed).fit(train)
            times.append(time.process_time() - began)
            scores.append(model.score(test))
            used.append(model.n_covering(0.99))
        learned = ""
        if name.endswith("base"):
            learned = f"; strength {model.family_.strength:.0f} of {0.1 * n_words:.0f}"
        figures = (
            f"{span(scores, 3)} nats a word; {span(used)} states{learned}; CPU s {span(times, 1)}"
        )
        published = "" if name.startswith("finite") else "above the finite one (figure only)"
        rows.append(Row(name, figures, published))
    return rows


def run() -> Experiment:
    """The treebank sample."""
    words = [[word for word, _ in sentence] for sentence in read_treebank()]
    train, test, n_words = encode(words[:N_TRAIN], words[N_TRAIN : N_TRAIN + N_TEST])
    setting = (
        f"Treebank sample, the first {N_TRAIN:,} sentences, the next {N_TEST} held out; words seen "
        f"once or never in training are one word ({n_words:,} in all). {STATES} states, random "
        f"chains, {SWEEPS} collapsed sweeps (published: 200 on more sentences), {N_SEEDS} seeds, "
        "smallest and largest. Concentrations begin at 5 and 10, of which the first is the most."
    )
    return Experiment(
        "Learned concentrations and base", setting, compare(train, test, n_words), FOUND
    )


FOUND = (
    "The published order: the HDP with learned concentrations is above the finite model (by 0.01), "
    "and with a learned base above both (by 0.03). One grid point of the finite model's prior."
)
