"""Documents: mixtures of multinomials for KOS and BBC news, from one component."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import stickbreak as sb

from .fits import Fit, Setting
from .frame import Experiment, Row, data_folder, hold_out, save_picture, seeds, span

MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
SIZES = (25, 100)


def read_kos() -> sparse.csr_array:
    """Word counts (3,430, 6,906)."""
    with gzip.open(data_folder() / "topics" / "kos" / "docword.kos.txt.gz", "rt") as lines:
        n_rows, n_words, _ = (int(next(lines)) for _ in range(3))
        row, word, count = np.loadtxt(lines, dtype=np.int64).T
    return sparse.csr_array((count.astype(float), (row - 1, word - 1)), shape=(n_rows, n_words))


def read_bbc(name: str = "bbc_news") -> tuple[sparse.csr_array, np.ndarray, list[str]]:
    """Word counts (2,225, 2,949), the section of each document, and the words.

    name : "dblp" for short texts on papers in the same form
    """
    folder = data_folder() / "topics" / name
    words = (folder / "vocabulary.txt").read_text().split()
    at = {word: i for i, word in enumerate(words)}
    with gzip.open(folder / "corpus.tsv.gz", "rt") as lines:
        texts, _, sections = zip(*(line.rstrip("\n").split("\t") for line in lines), strict=True)
    pairs = np.array(
        [(i, at[word]) for i, text in enumerate(texts) for word in text.split() if word in at]
    )
    counts = sparse.coo_array(
        (np.ones(len(pairs)), pairs.T), shape=(len(texts), len(words))
    ).tocsr()
    counts.sum_duplicates()
    return counts, np.unique(np.array(sections), return_inverse=True)[1], words


def follow(train: Any, seed: int) -> dict[str, Fit]:
    """Moves from one component, and fixed numbers of components."""
    setting = Setting.make(train, sb.Multinomial(concentration=0.1), 1.0)
    engine = sb.MemoizedVB(n_batches=1, max_iter=200, tol=1e-6)
    found = {f"K={size}": setting.fit(engine, setting.start(size, seed), seed) for size in SIZES}
    moving = sb.MemoizedVB(n_batches=1, moves=MOVES, max_iter=200, tol=1e-6)
    return {"moves from K=1": setting.fit(moving, setting.start(1, seed), seed), **found}


def rows_of(name: str, X: Any, sections: np.ndarray | None) -> tuple[list[Row], Fit]:
    """The figures of one collection, and the best fit by moves."""
    train, test = hold_out(X)
    fits: dict[str, list[Fit]] = {}
    for seed in seeds(3):
        for method, fit in follow(train, seed).items():
            fits.setdefault(method, []).append(fit)
    tokens = test.sum() / test.shape[0]
    rows = []
    for method, runs in fits.items():
        ours = (
            f"bound {span(f.result.bound for f in runs)}; components "
            f"{span(f.n_effective for f in runs)}; held-out log "
            f"predictive per word "
            f"{span((f.score(test) / tokens for f in runs), 4)}; "
            f"{span((f.seconds for f in runs), 0)} CPU s"
        )
        if sections is not None:
            known = hold_out(sections)[0]
            ours += (
                "; adjusted Rand index with the sections "
                f"{span((adjusted_rand_score(known, best(f, train)) for f in runs), 2)}"
            )
        rows.append(Row(f"{name}, {method}", ours))
    return rows, max(fits["moves from K=1"], key=lambda fit: fit.result.bound)


def best(fit: Fit, rows: Any) -> np.ndarray:
    """(n,) best component of each document."""
    return fit.shares(rows).argmax(1)


def draw(fit: Fit, words: list[str], overall: np.ndarray) -> str:
    """The words that stand out in the largest components of BBC news."""
    from matplotlib import pyplot as plt

    probability = fit.result.model.family.describe(fit.result.counts)["probability"][:8]
    standing_out = probability * np.log(probability / overall)
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    axes.set_axis_off()
    for k, row in enumerate(standing_out):
        text = f"{fit.counts[k]:5.0f} documents: " + ", ".join(
            words[v] for v in np.argsort(-row)[:9]
        )
        axes.text(0, 1 - k / 8, text, va="top", family="monospace", fontsize=9)
    return save_picture(figure, "documents")


def run() -> Experiment:
    """Three seeds of each."""
    kos, _ = rows_of("KOS", read_kos(), None)
    counts, sections, words = read_bbc()
    bbc, fit = rows_of("BBC news", counts, sections)
    overall = (np.asarray(counts.sum(0)).ravel() + 0.1) / (counts.sum() + 0.1 * len(words))
    setting = (
        "Dirichlet process of multinomials, concentration 1, Dirichlet 0.1 a word; every tenth "
        "document held out; one batch, "
        "five seeds. "
        "In the same way the publication clustered 1,392 articles of NIPS, "
        "which are not at hand: there the "
        "best bound has 300 to 400 "
        "components and none empties."
    )
    return Experiment("Documents", setting, kos + bbc, "", draw(fit, words, overall))
