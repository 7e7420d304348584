"""News of the Associated Press: topics by variational Bayes, with a fixed number and with as many
as the bound likes.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import stickbreak as sb

from .corpora import Split, completion, read_ap
from .frame import Experiment, Row, assert_rises, save_picture, seeds, span

SIZE, LAPS = 50, 100
MOVES = (sb.Birth(), sb.Merge(), sb.Delete())


def plan() -> dict[str, Any]:
    """What is fitted, by name."""
    engine, moving = (
        sb.MemoizedVB(n_batches=5, max_iter=LAPS, moves=None),
        sb.MemoizedVB(n_batches=5, max_iter=LAPS, moves=MOVES),
    )
    shrinking = sb.MemoizedVB(n_batches=5, max_iter=LAPS, moves=MOVES[1:])
    lda = partial(sb.LatentDirichletAllocation, SIZE, init="documents")
    hdp = partial(sb.HDPTopicModel, init="documents")
    return {
        "LDA, K=50": lda(inference=engine),
        "LDA, K=50, restarts": lda(inference=engine, restarts=10),
        "LDA, K=50, stochastic, 8 passes": lda(inference=sb.StochasticVB(max_iter=8)),
        "HDP, K=50": hdp(SIZE, inference=engine),
        "HDP, merges and deletes from 50": hdp(SIZE, inference=shrinking),
        "HDP, births, merges and deletes from 1": hdp(1, inference=moving),
    }


PEERS = {
    "LDA, K=50": "scikit-learn, batch, 25 passes: -8.035 / -8.040, 17 CPU s; bnpy, 12 laps: loss "
    "8.2459, 9.7 CPU s; "
    "collapsed Gibbs (tomotopy, 500 sweeps): -7.861 / -7.859, 15 CPU s",
    "LDA, K=50, stochastic, 8 passes": "scikit-learn, online: -8.076 / -8.095, 6.9 CPU s; gensim: "
    "-8.082 / -8.100, 7.1 CPU s",
    "HDP, merges and deletes from 50": "bnpy, merges, 12 laps: 41 topics, loss 8.2510, -8.065 / "
    "-8.062, 29 CPU s",
    "HDP, births, merges and deletes from 1": "tomotopy, collapsed Gibbs: 18 topics, -8.097 / "
    "-8.109, 23 CPU s",
}


def fit(model: Any, split: Split) -> tuple[Any, float]:
    """The fitted model and its CPU seconds; a whole-data bound must never drop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        began = time.process_time()
        model.fit(split.train)
        seconds = time.process_time() - began
    if isinstance(model.inference, sb.MemoizedVB):
        assert_rises(model.trace_.bound)
    return model, seconds


def row(name: str, fits: list[tuple[Any, float]], split: Split, peer: str) -> Row:
    models, n_words = [model for model, _ in fits], split.train.sum()
    scores = np.array([completion(model, split) for model in models])
    large = span((model.counts_ >= 0.01 * n_words).sum() for model in models)
    return Row(
        name,
        f"loss {span((-model.lower_bound_ / n_words for model in models), 4)}; topics "
        f"{span(m.n_components_ for m in models)}, "
        f"with 1 % of the words {large}; held-out {span(scores[:, 0], 3)} / "
        f"{span(scores[:, 1], 3)}; "
        f"laps {span(model.n_iter_ for model in models)}; CPU s "
        f"{span((seconds for _, seconds in fits), 1)}",
        "",
        peer,
    )


def follow(split: Split, seed: int) -> dict[str, tuple[Any, float]]:
    return {name: fit(model.set_params(random_state=seed), split) for name, model in plan().items()}


def draw(model: Any, words: tuple[str, ...] | None, name: str) -> str:
    """The ten best words of the twelve largest topics."""
    from matplotlib import pyplot as plt

    names = np.array(words, dtype=object)
    lists, sizes = model.top_words(10), np.sort(model.weights_)[::-1]
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.axis("off")
    for i, (found, size) in enumerate(zip(lists[:12], sizes, strict=False)):
        text = "\n".join([f"{size:.1%}", *map(str, names[found])])
        axes.text(
            (i % 6) / 6, 1.0 - 0.52 * (i // 6), text, va="top", fontsize=8, transform=axes.transAxes
        )
    return save_picture(figure, name)


def run() -> Experiment:
    """Two seeds."""
    split = read_ap()
    runs = [follow(split, seed) for seed in seeds(2)]
    rows = [row(name, [run[name] for run in runs], split, PEERS.get(name, "")) for name in runs[0]]
    setting = (
        f"{split.train.shape[0]:,} documents, {split.train.sum():,.0f} words, "
        f"V={split.train.shape[1]:,}; {len(split.test)} "
        "held out, a fifth of the distinct words of each scored (with prior counts of 0.1 / 10 "
        "times the shares of training). "
        "LDA: 0.1 for topics and words; HDP: concentration 0.5, top 10, words 0.1; 5 batches, at "
        f"most {LAPS} laps, "
        f"{len(runs)} seeds. Loss is minus the bound of a word. Seconds of peers are of another "
        "machine; side by side: Topic models and peers."
    )
    best = max(
        (run["HDP, births, merges and deletes from 1"][0] for run in runs),
        key=lambda model: model.lower_bound_,
    )
    return Experiment("Topics of news", setting, rows, "", draw(best, split.words, "ap_topics"))
