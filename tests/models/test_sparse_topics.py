"""Topic models whose documents use a few topics each: bounds, moves, engines, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from topics import MODELS, corpus, make_model, plain_bound, random_start

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.errors import StickbreakWarning
from stickbreak.inference import BatchVB, MeanLog, MemoizedVB, StochasticVB, run
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.moves.merge import MergeWatch
from stickbreak.stats import Merge as MergeEdit

K, L = 6, 3


def made(kind: str) -> tuple:
    return make_model(kind), Documents.from_counts(corpus(0))


@pytest.mark.parametrize("kind", MODELS)
def test_bound_is_that_of_all_shares(kind):
    model, documents = made(kind)
    few, start = model.sparse(L), random_start(model, K)
    potentials = few.potentials(start.seed, start.params, MeanLog())
    counts, warm = few.local_step(potentials, documents.whole())
    params = few.global_step(counts, start.params)
    shares = few.shares(potentials, documents.whole())
    assert (np.count_nonzero(warm["counts"], axis=1) <= L).all()
    old = few.prior.pseudo(start.params, K)
    before = np.append(old.topics, old.rest) if old.rest else old.topics
    plain = plain_bound(few, documents, shares, before, params)
    assert few.bound(counts, params) == pytest.approx(plain, abs=1e-7)
    np.testing.assert_allclose(counts["share"], documents.repeats @ shares)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops(kind, n_batches):
    model, documents = made(kind)
    engine = MemoizedVB(n_batches=n_batches, max_iter=20, tol=0, max_active=L)
    found = run(model, engine, documents, random_start(model, K))
    bounds = [lap.bound for lap in found.trace if lap.bound is not None]
    assert np.diff(bounds).min() >= -1e-9
    assert (np.count_nonzero(found.warm()["counts"], axis=1) <= L).all()
    assert 0.0 <= found.trace[-1].disagreement < 0.5


def test_as_many_as_there_are_is_the_dense_step():
    model, documents = made("lda")
    start = random_start(model, K)
    few, dense = (
        run(model, BatchVB(max_iter=3, tol=0, max_active=n), documents, start) for n in (K, None)
    )
    assert few.trace[0].log_z == dense.trace[0].log_z


@pytest.mark.parametrize("kind", MODELS)
def test_merges_are_what_the_watch_said(kind):
    model, documents = made(kind)
    few, start, keep, drop = model.sparse(L), random_start(model, K), 1, 3
    potentials = few.potentials(start.seed, start.params, MeanLog())
    watch, edit = MergeWatch(np.array([(keep, drop)])), MergeEdit(few.axis, keep, drop, 0, ())
    counts, _ = few.local_step(potentials, documents.whole(), None, [watch])
    merged, params = edit(counts), edit(start.params)
    shares = few.shares(potentials, documents.whole())
    shares[:, keep] += shares[:, drop]
    old = few.prior.pseudo(start.params, K)
    before = np.array(old.topics)
    before[keep] += before[drop]
    before = np.delete(before, drop)
    before = np.append(before, old.rest) if old.rest else before
    plain = plain_bound(few, documents, np.delete(shares, drop, axis=1), before, params)
    assert few.bound(merged, params) == pytest.approx(plain, abs=1e-7)


@pytest.mark.few(1)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops_with_births_merges_and_deletes(n_batches):
    documents = Documents.from_counts(
        corpus(2, n_documents=80, n_symbols=30, n_topics=5, tokens=50)
    )
    model, moves = make_model("hdp", 30), (Birth(), Merge(), Delete())
    engine = MemoizedVB(n_batches=n_batches, max_iter=40, moves=moves, max_active=2)
    found = run(model, engine, documents, random_start(model, 1, 30))
    bounds = [lap.bound for lap in found.trace if lap.bound is not None]
    assert np.diff(bounds).min() >= -1e-9 * abs(bounds[-1])
    assert len(found.ids) > 2


def test_exchanges_raise_the_bound():
    """Documents that begin with wrong topics leave them."""
    model, documents = made("lda")
    start = random_start(model, K)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    rng = np.random.default_rng(0)
    _, warm = model.local_step(potentials, documents.whole())
    wrong = np.where(rng.random(warm["counts"].shape) < 0.3, warm["counts"], 0.0)
    log_z = {}
    for exchanges in (0, 1):
        few = model.sparse(2)
        few = replace(few, structure=replace(few.structure, exchanges=exchanges))
        kept = replace(warm, arrays={"counts": wrong.copy()})
        for _ in range(6):
            counts, kept = few.local_step(potentials, documents.whole(), kept)
        log_z[exchanges] = counts.local_bound + potentials.pair(counts.arrays)
    assert log_z[1] > log_z[0] + 1.0


def test_steps_of_stochastic_inference_are_limited_too():
    model, documents = made("hdp")
    engine = StochasticVB(batch_size=10, max_iter=3, max_active=L)
    found = run(model, engine, documents, random_start(model, K))
    assert np.isfinite(found.bound)


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
def test_words_that_the_kept_topics_cannot_have_are_done_in_logs():
    counts = np.zeros((6, 6))
    counts[::2, :3], counts[1::2, 3:], counts[2] = 5, 5, 1
    seeds = {0: [0], 1: [1], 2: [2], 3: [3], 4: [4], 5: [5]}
    engine = BatchVB(max_active=2, max_iter=5, tol=0.0)
    model = sb.LatentDirichletAllocation(6, seeds=seeds, inference=engine, random_state=0)
    assert np.isfinite(model.fit(counts).lower_bound_)
    assert np.diff(model.trace_.bound).min() >= -1e-9


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
def test_one_topic_a_document_is_warned_of_and_candidates_are_refused():
    X = corpus(0)
    with pytest.warns(StickbreakWarning, match="max_active=1 gives each document a single topic"):
        sb.LatentDirichletAllocation(4, inference=BatchVB(max_active=1, max_iter=2)).fit(X)
    engine = BatchVB(max_active=2, candidates=4)
    with pytest.raises(ValueError, match="candidates=4 is not for Document"):
        sb.LatentDirichletAllocation(4, inference=engine).fit(X)
