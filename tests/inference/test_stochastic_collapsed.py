"""Stochastic collapsed inference: predictive potentials, with the steps of stochastic inference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Documents, Sequences, Table, measure
from stickbreak.families import Categorical
from stickbreak.inference import IncludeOwn, StochasticCollapsedVB, run
from stickbreak.initialize import from_local
from stickbreak.models import finite_hmm, finite_mixture, lda

RNG = np.random.default_rng(0)
SYMBOLS = RNG.integers(0, 6, (60, 1))
CASES = {
    "mixture": (finite_mixture, Table(SYMBOLS)),
    "hmm": (finite_hmm, Sequences(SYMBOLS, offsets=np.arange(0, 61, 10))),
    "lda": (lda, Documents.from_counts(RNG.integers(0, 3, (12, 6)))),
}


def begun(name: str):
    make, data = CASES[name]
    model = make(Categorical(0.3).resolve(measure(data)))
    return model, data, from_local(model, data, 3, np.random.default_rng(1))


@pytest.mark.parametrize("name", ["mixture", "hmm"])
def test_a_whole_step_is_the_local_step_under_the_predictive(name):
    """Rate one, all data in a batch: counts are those of the plain local step."""
    model, data, start = begun(name)
    engine = StochasticCollapsedVB(batch_size=data.n_spans, kappa=0.0, delay=0.0, max_iter=3, tol=0)
    found, counts = run(model, engine, data, start), start.seed
    for _ in range(3):
        potentials = model.potentials(counts, start.params, IncludeOwn())
        counts = model.local_step(potentials, data.whole(), None)[0]
    for field in counts.arrays:
        np.testing.assert_allclose(found.counts[field], counts[field], rtol=1e-9, atol=1e-12)


def test_documents_are_swept_under_fixed_topics():
    """Rate one: zero-order sweeps of each document from no counts, topics as they were."""
    model, data, start = begun("lda")
    engine = StochasticCollapsedVB(batch_size=data.n_spans, kappa=0.0, delay=0.0, max_iter=1, tol=0)
    found = run(model, engine, data, start)
    table, expected = start.seed["emission"] + 0.3, np.zeros((6, 3))
    topics, pseudo = table / table.sum(0), model.prior.pseudo(start.params, 3).topics
    for s in range(data.n_spans):
        at = range(data.offsets[s], data.offsets[s + 1])
        shares = np.zeros((len(at), 3), dtype=np.float32)
        for _ in range(model.structure.n_sweeps):
            for i, n in enumerate(at):
                mine = sum(data.repeats[m] * shares[j] for j, m in enumerate(at)) - shares[i]
                weight = (np.maximum(mine, 0.0) + pseudo) * topics[data.rows[n, 0]]
                shares[i] = weight / weight.sum()
        for i, n in enumerate(at):
            expected[data.rows[n, 0]] += data.repeats[n] * shares[i]
    np.testing.assert_allclose(found.counts["emission"], expected, rtol=2e-4)  # float32 shares


def test_threads_and_seeds():
    docs = np.random.default_rng(2).integers(0, 3, (80, 20))
    fits = [
        sb.LatentDirichletAllocation(
            3, inference="stochastic-collapsed", random_state=0, n_jobs=n, tol=0.1
        ).fit(docs)
        for n in (1, 2)
    ]
    assert fits[0].lower_bound_ == fits[1].lower_bound_
    np.testing.assert_array_equal(fits[0].topic_word_, fits[1].topic_word_)


def test_clear_topics_are_found():
    pets, cooking = ["cat", "dog", "cat", "dog", "fur"], ["salt", "pan", "salt", "pan", "soup"]
    model = sb.LatentDirichletAllocation(
        2, inference="stochastic-collapsed", random_state=0, max_iter=30
    ).fit([pets, cooking] * 40)
    assert sorted(map(sorted, model.top_words(2))) == [["cat", "dog"], ["pan", "salt"]]


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
@pytest.mark.parametrize("cut", [{}, {"granularity": "subsequence", "subchain_length": 10}])
def test_fits_of_gaussians_are_saved_and_resumed(cut, tmp_path):
    """No sum of counts tells what predictives of Gaussians pay, and files hold no NaN."""
    path, rows = tmp_path / "fit.checkpoint", np.random.default_rng(0).normal(size=(240, 2))
    data = [rows[:120], rows[120:]]

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 3:
                raise KeyboardInterrupt

    engine = sb.StochasticCollapsedVB(batch_size=1, max_iter=6, tol=0, **cut)
    model = sb.HMM(2, inference=engine, random_state=0).fit(data)
    model.save(tmp_path / "model.stickbreak")
    assert sb.load(tmp_path / "model.stickbreak").score(data) == model.score(data)
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0, callbacks=(Stop(),))
    with pytest.raises(KeyboardInterrupt):
        sb.HMM(2, inference=saving, random_state=0).fit(data)
    assert sb.resume(path, data).lower_bound_ == model.lower_bound_
