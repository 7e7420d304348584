"""Brackets from tags alone: grammars with hidden categories on short sentences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import stickbreak as sb

from .dependencies import spread
from .frame import Experiment, Row, is_quick, seeds
from .treebanks import branching, read_constituents, split_further

N_SEEDS, LAPS, K = 10, 40, 10


def flat_prior(engine: Any, alpha: float, seed: int, init: str = "local") -> sb.PCFG:
    """`PCFG` with the same prior count for all tables."""
    return sb.PCFG(
        K, family=sb.Categorical(alpha), concentration=alpha, kind_concentration=alpha,
        root_concentration=alpha, inference=engine, init=init, random_state=seed,
    )  # fmt: skip


def hierarchical(engine: Any, root: str, seed: int, init: str = "local") -> sb.HDPPCFG:
    """`HDPPCFG` with its default concentrations."""
    family = sb.Categorical(0.1)
    return sb.HDPPCFG(K, family=family, inference=engine, root=root, init=init, random_state=seed)


def scored(trees: list[Any], name: str, make: Callable[[int], Any]) -> Row:
    """Fits of all seeds: F1 and bound; of roots, how many categories are in use."""
    tags, f1, bounds, used = [tree.tags for tree in trees], [], [], []
    for seed in seeds(N_SEEDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # laps are given
            model = make(seed).fit(tags)
        f1.append(100 * sb.metrics.span_scores(trees, model.parse(tags)).f1)
        bounds.append(model.lower_bound_)
        used.append(model.n_covering(0.99))
    text = f"{spread(f1)}; bound {spread(bounds)}"
    if name.startswith("HDPPCFG"):
        text += f"; {min(used)} to {max(used)} categories cover 99 %"
    return Row(name, text)


def run() -> Experiment:
    """PCFG of ten categories, variational and collapsed, beside what needs no model."""
    trees = read_constituents(10)
    rng, rows = np.random.default_rng(0), []
    for side, published in (("right", "61.7"), ("left", "28.7"), ("random", "")):
        guess = [branching(tree, side, rng) for tree in trees]
        f1 = 100 * sb.metrics.span_scores(trees, guess).f1
        rows.append(Row(f"{side} branching", f"{f1:.2f}", published))
    most = 100 * sb.metrics.span_scores(trees, [split_further(tree) for tree in trees]).f1
    rows.append(Row("true trees, split until binary", f"{most:.2f}", "88.1"))
    laps = 5 if is_quick() else LAPS
    engines = {
        "batch": sb.BatchVB(max_iter=laps, tol=0.0, moves=None),
        "collapsed": sb.CollapsedVB(max_iter=laps, tol=0.0),
    }
    for init in ("local", "right-branching"):
        after = "" if init == "local" else ", right-branching start"
        for alpha in (0.1, 0.01):
            for name, engine in engines.items():
                make: Callable[[int], Any] = partial(flat_prior, engine, alpha, init=init)
                rows.append(scored(trees, f"alpha {alpha:g}, {name}{after}", make))
        for root, name in (("beta", "batch"), ("tables", "collapsed")):
            make = partial(hierarchical, engines[name], root, init=init)
            rows.append(scored(trees, f"HDPPCFG, root {root}, {name}{after}", make))
    n_scored = sum(len(tree.words) > 1 for tree in trees)
    return Experiment(
        "Grammar induction: unlabelled brackets of WSJ10",
        "Sentences of up to 10 words of the treebank without punctuation and traces "
        f"({len(trees)}, of which {n_scored} of two words and more are scored), tags as words, "
        f"`PCFG` of {K} categories, {LAPS} laps from local starts unless said, mean (sd) of "
        f"{N_SEEDS} seeds: "
        "percent F1 of spans of two words and more, that of the whole sentence included; alpha is "
        "the prior count of every table. Published: branching on all of WSJ10.",
        rows,
        "None of these grammars is a parser. From local starts trees that always branch to the "
        "right are far better; what the rows show is how the engines compare from equal starts. "
        "From such trees collapsed sweeps go on to better ones, under a bound hundreds of nats "
        "above that of local starts; variational Bayes stays where it begins.",
    )
