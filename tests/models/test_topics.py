"""Topic models: bounds against plain sums and exact evidence, any engine, merges, labels, weights,
gaps of 900 nats.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp
from topics import MODELS, N_SYMBOLS, corpus, make_model, plain_bound, random_start

from stickbreak.data import Documents, Table, measure
from stickbreak.errors import StickbreakWarning
from stickbreak.families import Categorical, Gaussian
from stickbreak.inference import EM, BatchVB, MeanLog, MemoizedVB, StochasticVB, run, workers
from stickbreak.initialize import from_documents
from stickbreak.models import Model, lda
from stickbreak.moves import Birth, Delete
from stickbreak.moves import Merge as MergeMove
from stickbreak.moves.merge import MergeWatch
from stickbreak.priors import GammaPrior, HDPTopics
from stickbreak.stats import Merge
from stickbreak.structures import Document


def fitted(kind: str, engine=None, n_components: int = 4, seed: int = 0, **settings):
    documents = Documents.from_counts(corpus(seed))
    model = make_model(kind, **settings)
    return (
        model,
        documents,
        run(
            model,
            engine or BatchVB(max_iter=15, tol=0),
            documents,
            random_start(model, n_components),
        ),
    )


def test_documents_track_merges_alone():
    assert Document().tracks == {"merge"}


@pytest.mark.parametrize("kind", MODELS)
def test_bound_is_that_of_all_shares(kind):
    model, documents, found = fitted(kind, BatchVB(max_iter=3, tol=0))
    potentials = model.potentials(found.counts, found.params, MeanLog())
    counts, warm = model.local_step(potentials, documents.whole())
    params = model.global_step(counts, found.params)
    shares = model.shares(potentials, documents.whole())
    old = model.prior.pseudo(found.params, 4)
    before = np.append(old.topics, old.rest) if old.rest else old.topics
    assert model.bound(counts, params) == pytest.approx(
        plain_bound(model, documents, shares, before, params), abs=1e-7
    )
    np.testing.assert_allclose(shares.sum(1), 1.0)
    np.testing.assert_allclose(counts["share"], documents.repeats @ shares)
    np.testing.assert_allclose(warm["counts"].sum(1), corpus().sum(1))
    emission = np.zeros((N_SYMBOLS, 4))
    np.add.at(emission, documents.rows[:, 0], shares * documents.repeats[:, None])
    np.testing.assert_allclose(counts["emission"], emission, atol=1e-12)
    np.testing.assert_allclose(counts["emission_total"][0], emission.sum(0))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n_batches", [1, 5])
def test_bound_never_drops(kind, n_batches):
    _, _, found = fitted(kind, MemoizedVB(n_batches=n_batches, max_iter=20, tol=0))
    assert np.diff([lap.bound for lap in found.trace if lap.bound is not None]).min() >= -1e-9
    assert found.bound > found.trace[1].bound + 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops_with_births_merges_and_deletes(n_batches):
    """Documents begin afresh only while that raises the bound, and go on from those of a trial that
    was accepted.
    """
    documents = Documents.from_counts(
        corpus(2, n_documents=80, n_symbols=30, n_topics=5, tokens=50)
    )
    model = make_model("hdp", 30)
    engine = MemoizedVB(
        n_batches=n_batches, max_iter=60, moves=(Birth(), MergeMove(), Delete()), trace_visits=True
    )
    found = run(model, engine, documents, random_start(model, 1, 30))
    bounds = [lap.bound for lap in found.trace if lap.bound is not None]
    assert np.diff(bounds).min() >= -1e-9 * abs(bounds[-1])
    visits = np.array([bound for bound in found.trace.visits if bound is not None])
    assert np.diff(visits).min() >= -1e-9 * abs(bounds[-1])
    assert len(found.ids) > 2
    assert {record.kind for record in found.trace.moves if record.is_accepted} >= {"birth"}


def exact_evidence(counts: np.ndarray, model: Model, n_components: int) -> float:
    """log p(words) of LDA: the sum over all topics of all tokens."""
    words = [np.repeat(np.arange(len(row)), row) for row in counts]
    tokens, unit = np.concatenate(words), np.repeat(np.arange(len(counts)), [len(w) for w in words])
    a, b, V = float(model.prior.concentration), model.family.concentration, counts.shape[1]

    def log_share(n: np.ndarray, prior: float) -> float:
        total = n.sum(-1)
        rows = gammaln(n + prior).sum(-1) - gammaln(total + n.shape[-1] * prior)
        return float((rows - n.shape[-1] * gammaln(prior) + gammaln(n.shape[-1] * prior)).sum())

    values = []
    for z in product(range(n_components), repeat=len(tokens)):
        of_unit, of_topic = np.zeros((len(counts), n_components)), np.zeros((n_components, V))
        np.add.at(of_unit, (unit, z), 1)
        np.add.at(of_topic, (z, tokens), 1)
        values.append(log_share(of_unit, a) + log_share(of_topic, b))
    return float(logsumexp(values))


def test_bound_is_below_the_evidence():
    counts = np.array([[2, 1, 0], [0, 1, 2], [1, 0, 1]])
    model = make_model("lda", 3)
    exact = exact_evidence(counts, model, 2)
    bounds = [
        run(
            model,
            BatchVB(max_iter=50),
            Documents.from_counts(counts),
            random_start(model, 2, 3, seed),
        ).bound
        for seed in range(5)
    ]
    assert max(bounds) < exact
    # loose by the topics' symmetry and the documents' ties, not by more
    assert max(bounds) > exact - 5.0


def test_one_topic_is_exact():
    """With a single topic nothing is hidden: the bound is the evidence."""
    counts = corpus(n_documents=4, tokens=6)
    model = make_model("lda")
    found = run(model, BatchVB(max_iter=5), Documents.from_counts(counts), random_start(model, 1))
    total, a = counts.sum(0), 0.2
    exact = (
        gammaln(total + a).sum()
        - gammaln(total.sum() + N_SYMBOLS * a)
        - N_SYMBOLS * gammaln(a)
        + gammaln(N_SYMBOLS * a)
    )
    assert found.bound == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("kind", MODELS)
def test_any_number_of_threads_gives_the_same_bits(kind, monkeypatch):
    monkeypatch.setattr("stickbreak.data.batches.ORDERED_ROWS", 40)
    monkeypatch.setattr("stickbreak.data.batches.LANE_UNITS", 2)
    found = []
    for n_jobs in (1, 3):
        documents, model = Documents.from_counts(corpus(n_documents=60)), make_model(kind)
        with workers(n_jobs) as pool:
            found.append(
                run(
                    model,
                    MemoizedVB(n_batches=2, max_iter=6),
                    documents,
                    random_start(model, 4),
                    pool=pool,
                )
            )
    assert found[0].bound == found[1].bound
    np.testing.assert_array_equal(found[0].counts["emission"], found[1].counts["emission"])


@pytest.mark.parametrize("kind", MODELS)
def test_documents_that_count_twice_are_two(kind):
    counts, times = corpus(n_documents=6), np.array([2.0, 1.0, 1.0, 0.0, 1.0, 3.0])
    model = make_model(kind)
    weighted = Documents.from_counts(counts, times)
    repeated = Documents.from_counts(np.repeat(counts, times.astype(int), axis=0))
    found = [
        run(model, BatchVB(max_iter=10, tol=0), data, random_start(model, 3))
        for data in (weighted, repeated)
    ]
    assert found[0].bound == pytest.approx(found[1].bound, rel=1e-10)
    np.testing.assert_allclose(
        found[0].counts["emission"], found[1].counts["emission"], rtol=1e-7, atol=1e-9
    )
    assert weighted.n_observations == repeated.n_observations


@pytest.mark.parametrize("kind", MODELS)
def test_a_batch_has_its_own_vocabulary(kind):
    counts = np.zeros((6, 40), dtype=int)
    counts[:3, :15], counts[3:, 20:35] = corpus(0, 3, 15), corpus(1, 3, 15)
    documents, model = Documents.from_counts(counts), make_model(kind, 40)
    assert [len(batch.symbols) <= 15 for batch in documents.batches(2)] == [True, True]
    whole, parts = (
        run(
            model, MemoizedVB(n_batches=n, max_iter=1, tol=0), documents, random_start(model, 3, 40)
        )
        for n in (1, 2)
    )
    np.testing.assert_allclose(
        whole.counts["emission"], parts.counts["emission"], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pairs", [[(0, 2)], [(0, 2), (1, 3)]])
def test_merges_are_what_the_watch_said(kind, pairs):
    """Counts, E[log pi] and bound of documents relabelled by hand; several merges do not touch each
    other.
    """
    model, documents, found = fitted(kind, BatchVB(max_iter=4, tol=0), n_components=5)
    potentials = model.potentials(found.counts, found.params, MeanLog())
    ids = np.array(pairs)
    watch = MergeWatch(ids)
    counts, _ = model.local_step(potentials, documents.whole(), None, [watch])
    params, merged = found.params, counts
    for i, (keep, drop) in enumerate(pairs):
        shift = sum(d < drop for _, d in pairs[:i])
        edit = Merge(model.axis, keep, drop - shift, i, tuple(range(i)))
        merged, params = edit(merged), edit(params)
    shares = model.shares(potentials, documents.whole())
    kept = [k for k in range(5) if k not in ids[:, 1]]
    joined = shares[:, kept].copy()
    for keep, drop in pairs:
        joined[:, kept.index(keep)] += shares[:, drop]
    old = model.prior.pseudo(found.params, 5)
    before = old.topics[kept].copy()
    for keep, drop in pairs:
        before[kept.index(keep)] += old.topics[drop]
    before = np.append(before, old.rest) if old.rest else before
    assert model.bound(merged, params) == pytest.approx(
        plain_bound(model, documents, joined, before, params), abs=1e-7
    )


@pytest.mark.slow
def test_an_empty_topic_lowers_the_surrogate_and_raises_the_point_estimate():
    """The same documents, with 0 to 3 additional topics that no word uses."""
    model, documents, found = fitted(
        "hdp", BatchVB(max_iter=10, tol=0), n_components=3, top_concentration=10.0
    )
    values = {}
    for root in ("beta", "point"):
        with (
            pytest.warns(StickbreakWarning, match="cannot choose")
            if root == "point"
            else nullcontext()
        ):
            prior = HDPTopics(0.5, 10.0, root)
        own = replace(model, prior=prior)
        for extra in (0, 1, 2, 3):
            counts = found.counts.insert(model.axis, extra) if extra else found.counts
            params = found.params.insert(model.axis, extra) if extra else found.params
            values[root, extra] = _best_bound(own, counts, params, documents, extra)
    assert np.diff([values["beta", e] for e in range(4)]).max() < -1.0
    assert np.diff([values["point", e] for e in range(4)]).min() > 0.5


def _best_bound(model, counts, params, documents, extra) -> float:
    """Bound with E[log pi] of documents at their counts, and the root at its best, in turns."""
    K = counts.size(model.axis)
    shares = model.shares(model.potentials(counts, params, MeanLog()), documents.whole())
    if extra:
        shares = np.pad(shares[:, : K - extra], ((0, 0), (0, extra)))
        shares /= shares.sum(1, keepdims=True)
    of_unit = np.array(
        [
            documents.repeats[a:b] @ shares[a:b]
            for a, b in zip(documents.offsets, documents.offsets[1:], strict=False)
        ]
    )
    value = -np.inf
    for _ in range(60):
        pseudo = model.prior.pseudo(params, K)
        theta = np.column_stack([of_unit + pseudo.topics, np.full(len(of_unit), pseudo.rest)])
        log_share = digamma(theta) - digamma(theta.sum(1, keepdims=True))
        own = (
            gammaln(theta).sum()
            - gammaln(theta.sum(1)).sum()
            - (theta * log_share).sum()
            + (of_unit * log_share[:, :K]).sum()
        )
        arrays = {
            **counts.arrays,
            "log_share": log_share.sum(0)[:K],
            "log_rest": log_share.sum(0)[K],
        }
        total = replace(counts, arrays=arrays, n_units=float(len(of_unit)))
        params = model.global_step(total, params)
        value = model.prior.bound(total, params) + own
    return float(value)


def test_evidence_900_nats_apart():
    """Words that a topic can hardly have, in documents that have hardly anything of the topic that
    can.
    """
    model = lda(Categorical(1e-3, n_symbols=(4,)), 1e-3)
    table = np.array([[50.0, 0.0], [50.0, 0.0], [0.0, 50.0], [0.0, 50.0]])
    counts = model.zeros(2)
    counts = replace(
        counts, arrays={**counts.arrays, "emission": table, "emission_total": table.sum(0)[None]}
    )
    potentials = model.potentials(counts, model.start_params(2), MeanLog())
    assert np.ptp(potentials.scores.log_table, axis=1).min() > 900
    documents = Documents.from_counts(np.array([[5, 4, 0, 0], [3, 0, 2, 0], [0, 0, 1, 9]]))
    warm = model.structure.cold_start(documents.whole(), 2, model.axis)
    warm["counts"][...] = [[9.0, 0.0], [5.0, 0.0], [10.0, 0.0]]
    found, after = model.local_step(potentials, documents.whole(), warm)
    assert np.isfinite(found.log_z)
    assert np.isfinite(model.bound(found, model.start_params(2)))
    np.testing.assert_allclose(after["counts"].sum(1), [9, 5, 10])


def test_vectors_in_groups():
    """Any family: groups of rows that mix the same clusters."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 8.0], [8.0, 0.0], [-8.0, -8.0]])
    shares = rng.dirichlet(np.full(3, 0.5), 30)
    labels = np.concatenate([rng.choice(3, 20, p=p) for p in shares])
    rows = centers[labels] + rng.standard_normal((600, 2))
    documents = Documents(rows, None, None, np.arange(0, 601, 20))
    model = lda(Gaussian().resolve(measure(Table(rows))), 0.3)
    start = from_documents(model, documents, 3, np.random.default_rng(1))
    found = run(model, BatchVB(max_iter=30, tol=0), documents, start)
    assert np.diff([lap.bound for lap in found.trace if lap.bound is not None]).min() >= -1e-9
    best = model.decode(model.potentials(found.counts, found.params, MeanLog()), documents.whole())
    assert sum(len(np.unique(best[labels == k])) for k in range(3)) == 3


@pytest.mark.parametrize("kind", MODELS)
def test_stochastic_steps_and_em(kind):
    _, _, found = fitted(kind, StochasticVB(batch_size=5, max_iter=10))
    best = fitted(kind)[2].bound
    assert found.bound > best - 0.05 * abs(best)
    _, _, em = fitted(kind, EM(max_iter=15, tol=0))
    assert np.isfinite(em.bound)
    objective = [lap.bound for lap in em.trace if lap.bound is not None]
    assert np.diff(objective).min() >= -1e-8


def test_a_learned_concentration_is_near_the_true_one():
    rng = np.random.default_rng(3)
    topics, shares = rng.dirichlet(np.full(60, 0.05), 4), rng.dirichlet(np.full(4, 1.0), 300)
    counts = rng.multinomial(80, shares @ topics)
    model = lda(Categorical(0.05, n_symbols=(60,)), GammaPrior())
    found = run(
        model,
        BatchVB(max_iter=60, tol=0),
        Documents.from_counts(counts),
        random_start(model, 4, 60),
    )
    assert np.diff([lap.bound for lap in found.trace if lap.bound is not None]).min() >= -1e-8
    assert 0.4 < float(found.params["concentration"]) < 1.6
