"""Bars that documents mix: do fits with too many topics, or with one, end with the true ones?"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import stickbreak as sb

from .corpora import Split, completion, read_bars
from .frame import Experiment, Row, assert_rises, is_quick, save_picture, seeds, span
from .toys import bars, draw_mixed_documents

MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
DOCUMENTS, WORDS, ALIKE = 1000, 200, 0.9
PLAN = {
    "fixed 50": (50, ()), "fixed 100": (100, ()), "merges and deletes from 50": (50, MOVES[1:]),
    "merges and deletes from 100": (100, MOVES[1:]), "births, merges and deletes from 1": (1,
    MOVES),
}  # fmt: skip
DEFAULT = "the default: a ladder, births, merges and deletes"
PUBLISHED = {
    "fixed 50": "stuck with fragments of bars",
    "fixed 100": "stuck with fragments of bars",
    "merges and deletes from 50": "exactly 10 topics in a few laps",
    "merges and deletes from 100": "exactly 10 topics in a few laps",
}


class Found(NamedTuple):
    model: Any
    seconds: float


def fit_topics(
    counts: Any,
    size: int,
    moves: tuple[Any, ...],
    seed: int,
    max_iter: int = 200,
    n_batches: int = 5,
) -> Found:
    """An HDP of memoized batches; the bound must never drop."""
    engine = sb.MemoizedVB(n_batches=n_batches, max_iter=max_iter, moves=moves)
    model = sb.HDPTopicModel(size, inference=engine, init="documents", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        began = time.process_time()
        model.fit(counts)
    assert_rises(model.trace_.bound[model.trace_.bound == model.trace_.bound])
    return Found(model, time.process_time() - began)


def fit_default(counts: Any, seed: int) -> Found:
    """`HDPTopicModel()` untouched."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        began = time.process_time()
        model = sb.HDPTopicModel(random_state=seed).fit(counts)
    assert_rises(model.trace_.bound[model.trace_.bound == model.trace_.bound])
    return Found(model, time.process_time() - began)


def below(found: dict[str, list[Found]]) -> str:
    """How far the default ends below the best fit of the same documents."""
    best = [max(f.model.lower_bound_ for f in fits) for fits in zip(*found.values(), strict=True)]
    ours = [f.model.lower_bound_ for f in found[DEFAULT]]
    gaps = [own - most for own, most in zip(ours, best, strict=True)]
    return f"{np.mean(gaps):.0f} ({span(gaps)})"


def recovered(model: Any, topics: np.ndarray) -> int:
    """Bars whose words are, but for a tenth, the most probable ones of some topic."""
    of_bar = topics > topics.mean(1, keepdims=True)
    best = np.argsort(-model.topic_word_, axis=1)[:, : int(of_bar[0].sum())]
    shared = np.array([[bar[words].mean() for words in best] for bar in of_bar])
    return int((shared.max(1) >= ALIKE).sum())


def describe(found: list[Found], topics: np.ndarray, n_words: float) -> str:
    models = [f.model for f in found]
    used = span((model.counts_ >= 1).sum() for model in models)
    return (
        f"topics {span(model.n_components_ for model in models)}, with a word {used}; bars found "
        f"{span(recovered(model, topics) for model in models)} of 10; bound a word "
        f"{span((model.lower_bound_ / n_words for model in models), 4)}; laps "
        f"{span(model.n_iter_ for model in models)}; "
        f"CPU s {span((f.seconds for f in found), 1)}"
    )


def of_peers(split: Split) -> list[Row]:
    """The documents that the peers' figures are of."""
    n_words, plan = split.train.sum(), {"from 50": (50, MOVES[1:]), "from 1": (1, MOVES)}
    peers = {
        "from 50": "bnpy, merges: 9 topics, loss 4.6466, -4.5756 / -4.5915, 9.5 CPU s",
        "from 1": "bnpy, births and merges: 6 topics, loss 4.6453, -4.5779 / -4.5903, 33 CPU s",
    }
    rows = []
    for name, (size, moves) in plan.items():
        found = [fit_topics(split.train, size, moves, seed) for seed in seeds(5)]
        scores = np.array([completion(f.model, split) for f in found])
        text = (
            f"topics {span(f.model.n_components_ for f in found)}; "
            f"loss {span((-f.model.lower_bound_ / n_words for f in found), 4)}; "
            f"held-out {span(scores[:, 0], 4)} / {span(scores[:, 1], 4)}; CPU s "
            f"{span((f.seconds for f in found), 1)}"
        )
        rows.append(Row(f"12 x 12, 6 bars, moves {name}", text, "", peers[name]))
    return rows


def draw(model: Any) -> str:
    """Words of each topic, the largest first."""
    from matplotlib import pyplot as plt

    order = np.argsort(-model.counts_)
    figure, panels = plt.subplots(
        1, len(order), figsize=(1.1 * len(order), 1.5), squeeze=False, layout="constrained"
    )
    for panel, k in zip(panels.flat, order, strict=True):
        panel.imshow(model.topic_word_[k].reshape(30, 30), cmap="gray_r")
        panel.set_title(f"{model.counts_[k]:.0f}", fontsize=8)
        panel.set(xticks=[], yticks=[])
    return save_picture(figure, "topic_bars")


def run() -> Experiment:
    """Several seeds of the toy, then the peers' documents."""
    topics, found = bars(), {name: [] for name in (*PLAN, DEFAULT)}
    n_documents = DOCUMENTS // 5 if is_quick() else DOCUMENTS
    for seed in seeds(5):
        counts = sparse.csr_array(draw_mixed_documents(topics, n_documents, WORDS, seed))
        for name, (size, moves) in PLAN.items():
            found[name].append(fit_topics(counts, size, moves, seed))
        found[DEFAULT].append(fit_default(counts, seed))
    rows = [
        Row(name, describe(fits, topics, n_documents * WORDS), PUBLISHED.get(name, ""))
        for name, fits in found.items()
    ]
    rows.append(Row("the default: nats below the best of these fits, mean", below(found)))
    setting = (
        f"{n_documents} documents of {WORDS} words over 30 x 30, each a mixture of one to "
        "three of ten bars (five lie, five "
        "stand; a word of the bar ten times likelier, a choice of ours: the publication does not "
        "say). HDP, concentration 0.5, top "
        f"concentration 10, Dirichlet 0.1 a word; 5 batches; {len(seeds(5))} seeds. Then the "
        "documents of the peers' figures: loss "
        "is minus the bound of a word; held-out words are scored with 0.1 for each topic / with 10 "
        "times the shares of training."
    )
    best = max(found["births, merges and deletes from 1"], key=lambda f: f.model.lower_bound_)
    return Experiment(
        "Bars that documents mix", setting, rows + of_peers(read_bars()), "", draw(best.model)
    )
