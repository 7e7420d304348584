"""Collapsed starts of topics: a sample of many documents, a ladder that looks for the number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.families import Categorical
from stickbreak.inference import run
from stickbreak.initialize import from_collapsed, from_ladder, ladder, local
from stickbreak.models import hdp_topics

V, TRUE = 40, 5


def documents(n: int = 120, length: int = 40, seed: int = 0) -> np.ndarray:
    """Counts (n, V) of documents of two topics each; each topic has eight words of its own."""
    rng = np.random.default_rng(seed)
    topics = np.repeat(np.eye(TRUE), V // TRUE, axis=1) * (TRUE / V)
    shares = np.array([rng.permutation([0.7, 0.3] + [0.0] * (TRUE - 2)) for _ in range(n)])
    return rng.multinomial(length, shares @ topics)


def model_and_data():
    family = replace(Categorical(0.1), n_symbols=(V,))
    return hdp_topics(family, concentration=0.5), Documents.from_counts(documents())


def test_some_documents_are_whole_and_words_keep_their_numbers():
    counts = documents()
    some = Documents.from_counts(counts).some(300, np.random.default_rng(0))
    assert 250 < some.n_rows <= 300
    for s in range(some.n_spans):
        at = slice(some.offsets[s], some.offsets[s + 1])
        bag = np.zeros(V)
        bag[some.rows[at, 0]] = some.repeats[at]
        assert (counts == bag).all(1).any()
    everything = Documents.from_counts(counts)
    assert everything.some(10**9, np.random.default_rng(0)) is everything


def test_a_sample_is_swept_where_shares_would_not_fit(monkeypatch):
    model, data = model_and_data()
    monkeypatch.setattr(local, "MOST_SHARES", 400 * TRUE)
    start = from_collapsed(model, data, TRUE, np.random.default_rng(0), n_sweeps=30)
    # documents of the sample stand for all: 40 words each
    assert start.seed["emission"].sum() == pytest.approx(120 * 40, rel=1e-5)  # float32 shares
    assert start.seed.n_units == pytest.approx(120)


def test_the_ladder_climbs_until_the_bound_falls_and_takes_the_best_rung(monkeypatch):
    model, data = model_and_data()
    best, seen = 11, []

    def measure(model, data, start, pool, callbacks):
        seen.append(start.seed.size(model.axis))
        return -abs(np.log(seen[-1] / best)), start

    monkeypatch.setattr(ladder, "_measure", measure)
    found = from_ladder(model, data, 100, np.random.default_rng(0), n_sweeps=1)
    assert seen == [32, 16, 8, 4]
    assert found.seed.size(model.axis) == 8
    seen.clear()
    best = 1
    assert from_ladder(model, data, 100, np.random.default_rng(0), n_sweeps=1).seed.size(
        model.axis
    ) == 1  # fmt: skip
    seen.clear()
    best = 1000
    found = from_ladder(model, data, 20, np.random.default_rng(0), n_sweeps=1)
    assert found.seed.size(model.axis) == 20 == max(seen)  # never more than asked for


def test_a_fit_goes_on_from_the_rung_that_was_chosen():
    model, data = model_and_data()
    told = {}
    start = from_ladder(
        model, data, 50, np.random.default_rng(3), n_sweeps=5, report=told.setdefault
    )
    assert start.warm is not None  # documents too
    engine = sb.BatchVB(max_iter=1, moves=None)
    after = run(model, engine, data, start)
    assert after.bound >= told[start.seed.size(model.axis)]


@pytest.mark.slow
def test_rungs_are_reported_and_repeat():
    model, data = model_and_data()
    told = {}
    for _ in range(2):
        start = from_ladder(
            model, data, 50, np.random.default_rng(3), n_sweeps=20, report=told.setdefault
        )
        top = max(told.values())
        equal = [n for n, bound in told.items() if bound >= top - ladder.EQUAL * abs(top)]
        assert start.seed.size(model.axis) == max(equal)


def test_of_equal_rungs_the_largest_is_taken(monkeypatch):
    model, data = model_and_data()
    bounds = {16: -1010.0, 32: -1000.0, 64: -1001.9}

    def measure(model, data, start, pool, callbacks):
        return bounds[start.seed.size(model.axis)], start

    monkeypatch.setattr(ladder, "_measure", measure)
    found = from_ladder(model, data, 100, np.random.default_rng(0), n_sweeps=1)
    assert found.seed.size(model.axis) == 64  # 0.19 % below the best
    bounds[64] = -1003.0
    found = from_ladder(model, data, 100, np.random.default_rng(0), n_sweeps=1)
    assert found.seed.size(model.axis) == 32


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")  # two laps
def test_starts_show_progress(capsys, monkeypatch):
    monkeypatch.setattr("stickbreak.progress.PAUSE", 0.0)
    X = documents()
    sb.HDPTopicModel(random_state=0, verbose=1, max_iter=2).fit(X)
    assert "looking for a start: " in capsys.readouterr().err
    sb.LatentDirichletAllocation(3, random_state=0, verbose=1, max_iter=2).fit(X)
    assert "looking for a start: " in capsys.readouterr().err


@pytest.mark.slow
def test_topics_are_found_from_a_ladder():
    found = sb.HDPTopicModel(init="collapsed", random_state=0).fit(documents())
    assert found.n_components_ == TRUE
    tops = {
        frozenset(np.argsort(-topic)[: V // TRUE] // (V // TRUE)) for topic in found.topic_word_
    }
    assert tops == {frozenset([k]) for k in range(TRUE)}
