"""Brackets from tags alone: grammars with hidden categories on short sentences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import stickbreak as sb

from .dependencies import spread
from .frame import Experiment, Row, is_quick, seeds
from .treebanks import branching, read_constituents

N_SEEDS, LAPS, K = 10, 40, 10


def fit(tags: list[list[str]], engine: Any, alpha: float, seed: int) -> sb.PCFG:
    """One fit from a local start, with the same prior count for all tables."""
    model = sb.PCFG(
        K, family=sb.Categorical(alpha), concentration=alpha, kind_concentration=alpha,
        root_concentration=alpha, inference=engine, init="local", random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # laps are given
        return model.fit(tags)


def run() -> Experiment:
    """PCFG of ten categories, variational and collapsed, beside what needs no model."""
    trees = read_constituents(10)
    tags, rng, rows = [tree.tags for tree in trees], np.random.default_rng(0), []
    for side, published in (("right", "61.7"), ("left", "28.7"), ("random", "")):
        guess = [branching(tree, side, rng) for tree in trees]
        f1 = 100 * sb.metrics.span_scores(trees, guess).f1
        rows.append(Row(f"{side} branching", f"{f1:.2f}", published))
    laps = 5 if is_quick() else LAPS
    for alpha in (0.1, 0.01):
        for name, engine in (
            ("batch", sb.BatchVB(max_iter=laps, tol=0.0)),
            ("collapsed", sb.CollapsedVB(max_iter=laps, tol=0.0)),
        ):
            models = [fit(tags, engine, alpha, seed) for seed in seeds(N_SEEDS)]
            found = [100 * sb.metrics.span_scores(trees, m.parse(tags)).f1 for m in models]
            bounds = spread([m.lower_bound_ for m in models])
            rows.append(Row(f"alpha {alpha:g}, {name}", f"{spread(found)}; bound {bounds}"))
    n_scored = sum(len(tree.words) > 1 for tree in trees)
    return Experiment(
        "Grammar induction: unlabelled brackets of WSJ10",
        "Sentences of up to 10 words of the treebank without punctuation and traces "
        f"({len(trees)}, of which {n_scored} of two words and more are scored), tags as words, "
        f"`PCFG` of {K} categories, {LAPS} laps from local starts, mean (sd) of {N_SEEDS} seeds: "
        "percent F1 of spans of two words and more, that of the whole sentence included; alpha is "
        "the prior count of every table. Published: branching on all of WSJ10.",
        rows,
        "None of these grammars is a parser: trees that always branch to the right are far better. "
        "What the rows show is how the engines compare from equal starts.",
    )
