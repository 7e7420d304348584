"""Bars: documents of one topic each, from a fixed number of components and from one."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

import stickbreak as sb
from stickbreak.initialize import from_plusplus, from_random

from .fits import Fit, Setting
from .frame import Experiment, Row, save_picture, seeds, span
from .toys import bars, draw_documents

SIZES = (5, 10, 20, 40)
MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
DOCUMENTS, WORDS = 100, 200
STARTS = {"random documents": from_random, "Bregman k-means++": from_plusplus}


def follow(seed: int) -> tuple[dict[str, Fit], np.ndarray]:
    """All fits of one seed's documents, and their topics."""
    X, truth = draw_documents(bars(), DOCUMENTS, WORDS, seed)
    setting = Setting.make(X, sb.Multinomial(concentration=0.1), 1.0)
    engine = sb.BatchVB(max_iter=200, tol=1e-7)
    found = {
        f"{name}, K={size}": setting.fit(engine, setting.start(size, seed, starter), seed)
        for size in SIZES
        for name, starter in STARTS.items()
    }
    found["moves from K=1"] = setting.fit(
        sb.BatchVB(max_iter=200, tol=1e-7, moves=MOVES), setting.start(1, seed), seed
    )
    return found, truth


def draw(fit: Fit) -> str:
    """Expected words of each component."""
    from matplotlib import pyplot as plt

    words = fit.result.model.family.describe(fit.result.counts)["probability"]
    figure, panels = plt.subplots(
        1, len(words), figsize=(1.1 * len(words), 1.5), squeeze=False, layout="constrained"
    )
    for panel, image, size in zip(panels.flat, words, fit.counts, strict=True):
        panel.imshow(image.reshape(30, 30), cmap="gray_r")
        panel.set_title(f"{size:.0f}", fontsize=8)
        panel.set(xticks=[], yticks=[])
    return save_picture(figure, "bars")


def run() -> Experiment:
    """Ten seeds, where the publication has 25."""
    fits: dict[str, list[Fit]] = {}
    agreement: dict[str, list[float]] = {}
    for seed in seeds(10):
        found, truth = follow(seed)
        X, _ = draw_documents(bars(), DOCUMENTS, WORDS, seed)
        for name, fit in found.items():
            fits.setdefault(name, []).append(fit)
            agreement.setdefault(name, []).append(
                adjusted_rand_score(truth, fit.shares(X).argmax(1))
            )
    published = {
        "K=40": "no component empties; the bound lies half-way between those of K=10 and K=5",
        "K=10": "the best bound",
    }
    rows = [
        Row(
            name,
            f"bound {span(f.result.bound for f in runs)}, spread "
            f"{np.std([f.result.bound for f in runs]):.0f}; "
            f"components {span(f.n_effective for f in runs)}; adjusted Rand index "
            f"{np.mean(agreement[name]):.3f}",
            published.get(name.split(", ")[-1], ""),
        )
        for name, runs in fits.items()
    ]
    setting = (
        f"{DOCUMENTS} documents of {WORDS} words over 30 x 30, one of ten bars each (five lie, "
        "five stand; words of the "
        f"bar ten times "
        "likelier); Dirichlet process of multinomials, concentration 1, Dirichlet 0.1 a word. The "
        "publication says neither how "
        "many words a "
        "document has nor its prior. Variational Bayes on all documents from K components, "
        f"{len(fits['moves from K=1'])} seeds."
    )
    return Experiment("Bars", setting, rows, "", draw(fits["moves from K=1"][0]))
