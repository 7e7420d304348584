"""Documents: the local step against scikit-learn's with the same rule to stop, laps against its
passes, two threads against one.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.decomposition._lda import _update_doc_distribution

from stickbreak.data import Documents
from stickbreak.families import Categorical
from stickbreak.inference import workers
from stickbreak.initialize import from_documents
from stickbreak.kernels.documents import infer_documents
from stickbreak.kernels.vectors import EIGHT
from stickbreak.models import hdp_topics, lda

from .laps import Laps
from .report import Report, Row, fastest, milliseconds
from .threads import TARGET as THREADS_TARGET
from .threads import idle_note, is_idle, others

N_DOCUMENTS, N_WORDS, TOKENS = 2000, 10_000, 200
MAX_STEPS, TOL, PRIOR = 100, 1e-3, 0.1
TARGET = 2.2
NOTE = f"""\
{{n}} documents of {TOKENS} words on average, V={N_WORDS}, drawn from topics. Local step: fixed
points of all documents from the same start (every topic alike), until counts change by {TOL} on
average or {MAX_STEPS} steps. The peer is scikit-learn {{version}}, one thread; it gives neither
E[log pi] nor bounds. A lap is local step, statistics, global step and bound of `BatchVB`, from the
third lap on; a pass of the peer is its EM step, from the third on, without the bound; it begins
documents at random."""


class Corpus:
    """Documents drawn from K topics, and both ways to their local step."""

    def __init__(
        self, n_topics: int, n_documents: int, seed: int = 0, sharing: float = 0.1
    ) -> None:
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(N_WORDS, 0.05), n_topics)
        shares = rng.dirichlet(np.full(n_topics, sharing), n_documents)
        lengths = rng.poisson(TOKENS, n_documents)
        rows = [
            rng.multinomial(n, share @ topics) for n, share in zip(lengths, shares, strict=True)
        ]
        self.counts = sparse.csr_array(np.array(rows, dtype=float))
        self.K, self.width = n_topics, -(-n_topics // EIGHT) * EIGHT
        linear = topics.T + 1e-6
        self.table = np.zeros((N_WORDS, self.width))
        self.table[:, :n_topics] = linear / linear.max(1, keepdims=True)
        self.peer_table = np.ascontiguousarray(self.table[:, :n_topics].T)
        self.index, self.offsets = (
            self.counts.indices.astype(np.int64),
            self.counts.indptr.astype(np.int64),
        )
        self.peer_counts = sparse.csr_matrix(self.counts)

    def ours(self) -> np.ndarray:
        n_documents, n = self.counts.shape[0], len(self.index)
        pseudo = np.where(np.arange(self.width) < self.K, PRIOR, 1.0)
        counts = np.zeros((n_documents, self.width))
        counts[:, : self.K] = 1.0 - PRIOR  # so that theta is 1, as the peer begins
        weights, scale, found = (
            np.empty((n_documents, self.width)),
            np.empty(n),
            np.empty((n_documents, 4)),
        )
        log_share = np.zeros(self.width + 1)
        infer_documents(
            self.table, self.index, self.counts.data, self.offsets, np.ones(n_documents), pseudo,
            0.0, self.K, MAX_STEPS, TOL,
            np.zeros(2), counts, weights, scale, log_share, found,
        )  # fmt: skip
        return counts[:, : self.K] + PRIOR

    def peer(self) -> np.ndarray:
        return np.asarray(
            _update_doc_distribution(
                self.peer_counts, self.peer_table, PRIOR, MAX_STEPS, TOL, False, None
            )[0]
        )

    def peer_lap(self) -> Callable[[], object]:
        """A pass of the peer over all documents, from the third on."""
        model = LatentDirichletAllocation(
            self.K, doc_topic_prior=PRIOR, topic_word_prior=PRIOR, max_iter=2, random_state=0
        )
        model.fit(self.peer_counts)
        return lambda: model._em_step(
            self.peer_counts, total_samples=self.counts.shape[0], batch_update=True
        )


def run(quick: bool = False) -> Report:
    used, rows, n = others(), [], N_DOCUMENTS // 10 if quick else N_DOCUMENTS
    rounds = 2 if quick else 5
    for K in (10, 50, 100):
        corpus = Corpus(K, n)
        apart = np.median(np.abs(corpus.ours() - corpus.peer()).max(1))
        assert apart < 0.1, f"both must find the same shares; they are {apart} apart"
        ours, peer = fastest(corpus.ours, corpus.peer, rounds=rounds)
        met = None if quick else peer / ours >= TARGET
        rows.append(
            Row(
                f"local step, K={K}",
                milliseconds(ours),
                milliseconds(peer),
                f"{peer / ours:.1f}x",
                f"{TARGET}x",
                met,
            )
        )
    corpus = Corpus(50, n)
    documents, family = (
        Documents.from_counts(corpus.counts),
        Categorical(PRIOR, n_symbols=(N_WORDS,)),
    )
    peer_lap = corpus.peer_lap()
    for name, make in (("LDA", lda), ("HDP", hdp_topics)):
        model = make(family, PRIOR)
        start = from_documents(model, documents, 50, np.random.default_rng(0))
        laps = Laps(documents, 50, family=family, make=lambda _, model=model: model, start=start)
        ours, peer = fastest(laps.lap, peer_lap, rounds=rounds)
        rows.append(
            Row(f"lap, {name}, K=50", milliseconds(ours), milliseconds(peer), f"{peer / ours:.1f}x")
        )
        with workers(1) as one, workers(2) as two:

            def lap_with(pool, laps=laps) -> None:
                laps.pool = pool
                laps.lap()

            pair = (lambda two=two: lap_with(two), lambda one=one: lap_with(one))
            shared, alone = fastest(*pair, rounds=rounds, clock=time.perf_counter)
        met = alone / shared >= THREADS_TARGET if is_idle(used) and not quick else None
        figures = (
            milliseconds(shared),
            milliseconds(alone),
            f"{alone / shared:.2f}x",
            f"{THREADS_TARGET}x",
        )
        rows.append(Row(f"two threads, lap, {name}, K=50: wall clock", *figures, met))
    note = NOTE.format(n=n, version=importlib.metadata.version("scikit-learn"))
    return Report("Documents", rows, (note, idle_note(used)), peer="scikit-learn; one thread")
