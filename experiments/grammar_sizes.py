"""How many categories: grammars of five categories, generated, and what `HDPPCFG` finds of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, is_quick, seeds

N_SEEDS, N_SENTENCES, LONGEST, LAPS, TRUNCATION = 5, 300, 10, 60, 12
# sentence -> noun phrase, verb phrase; with three kinds of words: determiners, nouns, verbs
SENTENCE, NOUNS, VERBS, NOUN, VERB = range(5)
SPLITS = {SENTENCE: (NOUNS, VERBS), NOUNS: (NOUN, NOUNS), VERBS: (VERB, NOUNS)}
N_WORDS = 4  # of each category that emits


def draw(rng: np.random.Generator) -> list[int]:
    """Words of one sentence of at most LONGEST words."""
    while True:
        todo, words = [SENTENCE], []
        while todo and len(words) + len(todo) <= LONGEST:
            z = todo.pop()
            splits = z == SENTENCE or (z in SPLITS and rng.random() < 0.6)
            if splits:
                todo += SPLITS[z][::-1]
            else:
                words.append(int(N_WORDS * (z - 1) + rng.integers(N_WORDS)))
        if not todo:
            return words


def fit(words: list[Any], seed: int, root: str, moves: Any) -> sb.HDPPCFG:
    """One fit, with or without moves."""
    model = sb.HDPPCFG(
        TRUNCATION, root=root, random_state=seed,
        inference=sb.BatchVB(max_iter=LAPS, moves=moves),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(words)


def run() -> Experiment:
    """Categories in use under each root, without moves and with deletes and merges."""
    rows = []
    late = [sb.Merge(start="settled"), sb.Delete(start="settled")]
    for name, root, moves in (
        ("Beta root, no moves", "beta", None),
        ("point root, no moves", "point", None),
        ("Beta root, merges and deletes", "beta", late),
    ):
        used = []
        for seed in seeds(N_SEEDS):
            rng = np.random.default_rng(seed)
            words = [np.array(draw(rng)) for _ in range(60 if is_quick() else N_SENTENCES)]
            model = fit(words, seed, root, moves)
            used.append(model.n_covering(0.99))
        right = sum(n == 5 for n in used)
        rows.append(Row(name, f"{', '.join(map(str, used))}; five in {right} of {len(used)}"))
    return Experiment(
        "Number of categories of generated grammars",
        f"{N_SENTENCES} sentences of at most {LONGEST} words of a grammar of five categories with "
        f"{N_WORDS} words each (noun and verb phrases split with probability 0.6); `HDPPCFG`, "
        f"truncation {TRUNCATION}, {LAPS} laps of `BatchVB` from collapsed sweeps, default "
        "concentrations. "
        f"Categories that cover 99 % of all nodes, seeds 0 to {N_SEEDS - 1}.",
        rows,
        "In three of five data sets a sixth category keeps a few percent of the nodes, under "
        "either root, and with merges and deletes too.",
    )
