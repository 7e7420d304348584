"""Fits on workers of others: the same bits as here, whatever the workers and their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from places import cluster, processes

import stickbreak as sb
from stickbreak.data import batches
from stickbreak.inference import collapsed

RNG = np.random.default_rng(0)
MEANS = np.array([[-4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
X = MEANS[RNG.integers(0, 3, 700)] + RNG.standard_normal((700, 2))
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
WEIGHTS = RNG.random(700)
LABELS = np.where(RNG.random(700) < 0.1, "a", "")
WORDS = RNG.poisson(0.6, (80, 30)) + np.eye(80, 30, dtype=int)
LENGTHS = [50] * 14


def settings(**more: Any) -> dict[str, Any]:
    return {"random_state": 0, "max_iter": 4, "tol": 0.0, **more}


CASES: dict[str, Callable[[], Any]] = {
    "mixture": lambda: sb.Mixture(3, **settings()).fit(X),
    "missing": lambda: sb.Mixture(3, **settings()).fit(GAPS),
    "weights": lambda: sb.Mixture(3, **settings(family="diagonal")).fit(X, sample_weight=WEIGHTS),
    "moves": lambda: sb.DPMixture(8, **settings(max_iter=8)).fit(X),
    "memoized": lambda: sb.Mixture(
        3, random_state=0, inference=sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
    ).fit(X),
    "stochastic": lambda: sb.Mixture(
        3, random_state=0, inference=sb.StochasticVB(batch_size=300, max_iter=2)
    ).fit(X),
    "EM": lambda: sb.Mixture(3, random_state=0, inference=sb.EM(max_iter=3, tol=0)).fit(X),
    "Gibbs": lambda: sb.Mixture(3, random_state=0, inference=sb.Gibbs(max_iter=3)).fit(X),
    "collapsed": lambda: sb.Mixture(
        3, random_state=0, inference=sb.CollapsedVB(max_iter=3, tol=0)
    ).fit(X),
    "chain": lambda: sb.HMM(3, **settings()).fit(X, lengths=LENGTHS),
    "chain with trials": lambda: sb.HDPHMM(**settings(max_iter=8)).fit(X, lengths=LENGTHS),
    "segments": lambda: sb.HSMM(3, **settings(max_duration=8)).fit(X, lengths=LENGTHS),
    "topics": lambda: sb.LatentDirichletAllocation(4, **settings()).fit(WORDS),
    "topics in batches": lambda: sb.HDPTopicModel(
        random_state=0, inference=sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
    ).fit(WORDS[:40]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of a few rows, which are cut here, so that small data have many."""
    monkeypatch.setattr(batches, "LANE_ROWS", 40)
    monkeypatch.setattr(batches, "ORDERED_ROWS", 100)
    monkeypatch.setattr(batches, "LANE_UNITS", 2)
    monkeypatch.setattr(collapsed, "SWEEP_ROWS", 100)


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Any]:
    with processes(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as found:
        yield found


@cache
def found_here(name: str) -> tuple[Any, ...]:
    return contents(CASES[name]())


def contents(model: Any) -> tuple[Any, ...]:
    """What a fit found: counts, bounds and records of moves, all to the last bit."""
    fitted = model._require_fitted()
    counts = {name: fitted.counts[name].tobytes() for name in fitted.counts}
    laps = [lap.bound for lap in model.trace_.laps]
    moves = [replace(move, seconds=0.0) for move in model.trace_.moves]
    return counts, repr(laps), repr(moves), repr(fitted.counts.local_bound)


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES)
def test_processes_find_the_same_bits(name: str, two_processes: Any) -> None:
    here = found_here(name)
    with sb.workers(two_processes):
        assert contents(CASES[name]()) == here


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_dask_cluster_finds_the_same_bits(name: str, client: Any) -> None:
    here = found_here(name)
    with sb.workers(client):
        assert contents(CASES[name]()) == here
    assert not client.futures


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["moves", "topics in batches", "chain"])
def test_the_size_of_tasks_leaves_the_bits_alone(name: str, lanes: int) -> None:
    here = found_here(name)
    with sb.workers(lambda: ThreadPoolExecutor(3), lanes=lanes):
        assert contents(CASES[name]()) == here


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
def test_joblib_names_the_cluster_too(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    joblib = pytest.importorskip("joblib")
    here, sent = found_here("mixture"), []
    submit = client.submit
    monkeypatch.setattr(client, "submit", lambda *a, **k: sent.append(k["key"]) or submit(*a, **k))
    with joblib.parallel_config("dask"):
        assert contents(CASES["mixture"]()) == here
    assert {key.split("-")[0] for key in sent} == {"infer", "decode"}


def test_moves_and_trials_are_among_what_was_compared() -> None:
    for name in ("moves", "chain with trials"):
        assert "is_accepted=True" in found_here(name)[2], name


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
def test_answers_are_the_same(two_processes: Any) -> None:
    mixture = sb.Mixture(3, **settings()).fit(X)
    chain = sb.HMM(3, **settings()).fit(X, lengths=LENGTHS)
    topics = sb.LatentDirichletAllocation(4, **settings()).fit(WORDS)

    def answers() -> list[Any]:
        of_rows = mixture.predict(X), mixture.predict_proba(X), mixture.score_samples(X)
        of_chains = chain.predict(X, lengths=LENGTHS), chain.score_samples(X, lengths=LENGTHS)
        return [*of_rows, *of_chains, topics.transform(WORDS)]

    here = answers()
    with sb.workers(two_processes):
        there = answers()
    for one, two in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, two)


def test_few_rows_stay_here() -> None:
    """A single lane is not worth sending, and needs no worker."""
    with sb.workers(lambda: ThreadPoolExecutor(1)):
        found = sb.Mixture(2, random_state=0).fit(X[:30])
    assert found.lower_bound_ == sb.Mixture(2, random_state=0).fit(X[:30]).lower_bound_
