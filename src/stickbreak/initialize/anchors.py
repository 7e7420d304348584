"""A start of topics from anchor words: words that are as good as only in one topic.

If every topic has such a word, the words that an anchor occurs with are those of its topic. Rows of
the table Q of co-occurrences, scaled to sum to one, are then mixtures of the anchors' rows, the
corners of the set of all rows; the weights of a word's mixture say how it is shared among topics
[AGHMMSWZ13]. The table is never made: its rows are projected at random to a few hundred columns,
which keeps their distances, and the weights are found there by least squares (RecoverL2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stickbreak.data import Documents
from stickbreak.inference import Start
from stickbreak.protocols import Array

from .documents import SAMPLE_WORDS, word_counts

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["choose_anchors", "co_occurrences", "from_anchors", "mixture_weights"]

N_COLUMNS = 512  # of the projection; distances of rows are kept to about 6 %
# Of an anchor, a part of the documents, and a number: rows of rarer words are mostly noise.
LEAST_SHARE, LEAST_DOCUMENTS = 0.005, 5
STEP = 4096  # documents whose projections are held at a time
N_STEPS, ENOUGH = 100, 1e-4  # of least squares
KEPT = 1e-3  # share of all topics alike, so that no topic lacks a word that a document has


def from_anchors(
    model: Model, data: Documents, n_components: int, rng: np.random.Generator
) -> Start:
    """Start from the topics that anchor words give, on a sample of large corpora."""
    batch = data.sample(SAMPLE_WORDS, rng)
    V = model.family.n_symbols[0]  # type: ignore[attr-defined]
    counts = word_counts(batch, V)
    if batch.times is not None:
        counts = counts[batch.times > 0]
    rows, weights = co_occurrences(counts, rng)
    n_documents = np.asarray((counts > 0).sum(0)).ravel()
    least = max(LEAST_DOCUMENTS, LEAST_SHARE * counts.shape[0])
    possible = np.flatnonzero((n_documents >= least) & (weights > 0))
    if len(possible) < n_components:
        raise ValueError(
            f"init='anchors' needs a word for each of {n_components} topics that at least "
            f"{least:.0f} documents have; there are {len(possible)}: use fewer topics, or another "
            "init"
        )
    anchors = possible[choose_anchors(rows[possible], n_components)]
    shares = mixture_weights(rows, rows[anchors])
    shares = (1.0 - KEPT) * shares + KEPT * shares[weights > 0].mean(0)
    table = np.asarray(counts.sum(0)).ravel()[:, None] * shares  # (V, K) expected words
    table *= data.n_observations / table.sum()
    empty, sizes = model.zeros(n_components), table.sum(0)
    arrays = {
        **empty.arrays, "emission": table, "emission_total": sizes[None],
        **model.prior.of_sizes(sizes),
    }  # fmt: skip
    seed = replace(empty, arrays=arrays, n_units=data.n_units)
    return Start(seed, model.start_params(n_components))


def co_occurrences(
    counts: Any, rng: np.random.Generator, n_columns: int = N_COLUMNS
) -> tuple[Array, Array]:
    """Projected rows (V, d) of the table of co-occurrences, each scaled to a sum of one, and sums.

    Q is the mean over documents of the probability of each pair of words when two are drawn without
    replacement: of a document with counts c and n words, (c c' - diag(c)) / (n (n - 1)). With
    columns for all words, the rows are not projected. Words without company have rows of zeros.

    counts (S, V) : CSR
    """
    V = counts.shape[1]
    n = np.asarray(counts.sum(1)).ravel()
    counts = counts[n >= 2]
    n = n[n >= 2]
    scaled = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(n * (n - 1.0))) @ counts)
    project = np.eye(V)
    if n_columns < V:
        project = rng.choice([-1.0, 1.0], (V, n_columns)) / np.sqrt(n_columns)
    rows = np.zeros((V, project.shape[1]))
    for lo in range(0, counts.shape[0], STEP):
        part = scaled[lo : lo + STEP]
        rows += part.T @ (part @ project)
    own = np.asarray((sparse.diags_array(1.0 / (n * (n - 1.0))) @ counts).sum(0)).ravel()
    rows -= own[:, None] * project
    # row sums of Q: each document gives c (n - 1) / (n (n - 1))
    weights = np.asarray((sparse.diags_array(1.0 / n) @ counts).sum(0)).ravel()
    return rows / np.where(weights > 0, weights, 1.0)[:, None], weights / max(len(n), 1)


def choose_anchors(rows: Array, n_anchors: int) -> Array:
    """(K,) rows that are far from the span of those chosen before: corners of their convex hull.

    The first is the one furthest from the mean; then the others are measured from it.
    """
    left = rows - rows.mean(0)
    first = int((left**2).sum(1).argmax())
    chosen, left = [first], rows - rows[first]
    for _ in range(1, n_anchors):
        distance = (left**2).sum(1)
        distance[chosen] = -1.0
        chosen.append(int(distance.argmax()))
        direction = left[chosen[-1]]
        length = float(np.sqrt(direction @ direction))
        if length > 0:
            direction = direction / length
            left = left - np.outer(left @ direction, direction)
    return np.array(chosen)


def mixture_weights(rows: Array, corners: Array) -> Array:
    """Weights (V, K), positive with a sum of one, whose mixtures of corners (K, d) are near rows.

    Least squares by accelerated projected gradients, all rows at once.
    """
    gram, target = corners @ corners.T, rows @ corners.T
    slope = float(np.linalg.eigvalsh(gram)[-1])
    K = len(corners)
    found = np.full((len(rows), K), 1.0 / K)
    ahead, momentum = found, 1.0
    for _ in range(N_STEPS):
        new = on_simplex(ahead - (ahead @ gram - target) / max(slope, 1e-300))
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / following * (new - found)
        change, found, momentum = float(np.abs(new - found).max(initial=0.0)), new, following
        if change < ENOUGH:
            break
    return found


def on_simplex(points: Array) -> Array:
    """The nearest (n, K) points with entries of at least zero that sum to one."""
    ordered = -np.sort(-points, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    n_kept = (ordered > excess).sum(1)
    level = np.take_along_axis(excess, n_kept[:, None] - 1, axis=1)
    return np.maximum(points - level, 0.0)
