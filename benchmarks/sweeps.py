"""A collapsed sweep over documents (CVB0) against a pass of a collapsed Gibbs sampler."""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from experiments.corpora import read_ap
from experiments.frame import MissingDataError
from stickbreak.data import Documents
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn
from stickbreak.initialize import from_local
from stickbreak.kernels.collapsed import sweep_documents
from stickbreak.kernels.tables import aligned, padded
from stickbreak.kernels.vectors import EIGHT
from stickbreak.models import lda
from stickbreak.stats import SERIAL

from .documents import Corpus
from .report import Report, Row, fastest, milliseconds

PRIOR, WARM_UP = 0.1, 20
TARGETS = {50: 1.1, 100: 0.9}
NOTE = """\
{what}. One thread, both at the {warm}th pass or later. A sweep is the compiled loop over all words,
in order, which takes out one occurrence, weighs the topics and puts the counts back; the peer's
pass draws a topic for every token. The bound is not measured unless a row says so. A visit is what
an engine does for a sweep: copies of the counts for each of its lanes, the sweep, new counts."""


def our_sweep(counts: sparse.csr_array, K: int, *, is_measured: bool) -> Callable[[], object]:
    """The loop alone, on counts that it goes on changing."""
    (n, V), width = counts.shape, -(-K // EIGHT) * EIGHT
    index, offsets = counts.indices.astype(np.int64), counts.indptr.astype(np.int64)
    own = np.random.default_rng(0).standard_exponential((len(index), K), dtype=np.float32)
    own /= own.sum(1, keepdims=True)
    table = np.zeros((V, K))
    for k in range(K):
        table[:, k] = np.bincount(index, counts.data * own[:, k], V)
    table, out = padded(table, width), aligned((n, width))
    given = table, table.sum(0), PRIOR, PRIOR * V, index, counts.data, offsets, np.ones(n)
    prior = padded(np.full(K, PRIOR), width), 0.0, np.zeros(0, dtype=np.int64), np.ones((1, width))
    return lambda: sweep_documents(*given, *prior, own, True, is_measured, table, out)


def our_visit(counts: sparse.csr_array, K: int) -> Callable[[], object]:
    """A visit of an engine that does not measure, as in the start of a fit."""
    model = lda(Categorical(PRIOR, n_symbols=(counts.shape[1],)), PRIOR)
    data = Documents.from_counts(counts)
    start = from_local(model, data, K, np.random.default_rng(0))
    rule, batch, state = ExcludeOwn(is_measured=False, keeps_last=False), data.whole(), [start.seed]

    def visit() -> None:
        state[0], _ = rule.visit(model, state[0], start.params, batch, start.warm, (), SERIAL)

    return visit


def peer_pass(counts: sparse.csr_array, K: int) -> Callable[[], object] | None:
    """A pass of tomotopy's sampler; None if it is not installed."""
    try:
        import tomotopy
    except ImportError:
        return None
    model: Any = tomotopy.LDAModel(k=K, alpha=PRIOR, eta=PRIOR, seed=1)
    for lo, hi in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        words = np.repeat(counts.indices[lo:hi], counts.data[lo:hi].astype(int))
        if len(words):
            model.add_doc([str(word) for word in words])

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.train(1, workers=1)

    return step


def rows_of(counts: sparse.csr_array, K: int, *, quick: bool) -> list[Row]:
    """The sweep, the sweep with the bound, and the visit, each against the peer's pass."""
    tokens = counts.sum()
    ours = {
        "sweep": our_sweep(counts, K, is_measured=False),
        "sweep with the bound": our_sweep(counts, K, is_measured=True),
        "visit": our_visit(counts, K),
    }
    peer = peer_pass(counts, K)
    runs = [*ours.values(), *([] if peer is None else [peer])]
    fastest(*runs, rounds=2 if quick else WARM_UP)
    found = fastest(*runs, rounds=2 if quick else 25)
    rows = []
    for name, seconds in zip(ours, found, strict=False):
        figures = [f"{milliseconds(seconds)}, {tokens / seconds / 1e6:.1f} million tokens a second"]
        target, met = f"{TARGETS[K]}x" if name == "sweep" else "-", None
        if peer is None:
            figures += ["not installed", "-"]
        else:
            ratio = found[-1] / seconds
            figures += [milliseconds(found[-1]), f"{ratio:.2f}x"]
            met = None if quick or name != "sweep" else ratio >= TARGETS[K]
        rows.append(Row(f"{name}, K={K}", *figures, target, met))
    return rows


def run(quick: bool = False) -> Report:
    what = "Documents drawn from topics, see Documents"
    counts = Corpus(50, 200 if quick else 2000).counts
    try:
        counts = counts if quick else read_ap().train
        what = what if quick else f"AP: {counts.shape[0]:,} documents, {counts.sum():,.0f} tokens"
    except MissingDataError:
        pass  # those drawn from topics serve too
    rows = [row for K in TARGETS for row in rows_of(counts, K, quick=quick)]
    try:
        peer = f"tomotopy {importlib.metadata.version('tomotopy')}; one thread"
    except importlib.metadata.PackageNotFoundError:
        peer = "tomotopy"
    return Report("Collapsed sweeps", rows, (NOTE.format(what=what, warm=WARM_UP),), peer=peer)
