"""Fits on workers of others: the same bits as here, whatever the workers and their tasks."""

from __future__ import annotations

import gc
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import cluster, processes

import stickbreak as sb
from stickbreak.data import Sequences, batches
from stickbreak.inference import collapsed, executors, workers
from stickbreak.inference.remote import dask_cluster, pool, tasks
from stickbreak.stats import stored_fields

RNG = np.random.default_rng(0)
MEANS = np.array([[-4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
X = MEANS[RNG.integers(0, 3, 700)] + RNG.standard_normal((700, 2))
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
WEIGHTS = RNG.random(700)
LABELS = np.where(RNG.random(700) < 0.1, RNG.integers(0, 3, 700), -1)
WORDS = RNG.poisson(0.6, (80, 30)) + np.eye(80, 30, dtype=int)
LENGTHS = [50] * 14
SYMBOLS = RNG.integers(0, 4, (700, 2))
SENTENCES = [[f"w{i}" for i in RNG.integers(0, 6, RNG.integers(3, 8))] for _ in range(60)]
PAIRS = [(" ".join(words), " ".join(words[::-1])) for words in SENTENCES]

pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


def settings(**more: Any) -> dict[str, Any]:
    return {"random_state": 0, "max_iter": 4, "tol": 0.0, **more}


CASES: dict[str, Callable[[], Any]] = {
    "mixture": lambda: sb.Mixture(3, **settings()).fit(X),
    "missing": lambda: sb.Mixture(3, **settings()).fit(GAPS),
    "weights": lambda: sb.Mixture(3, **settings(family="diagonal")).fit(X, sample_weight=WEIGHTS),
    "moves": lambda: sb.DPMixture(8, **settings(max_iter=8)).fit(X),
    "births": lambda: sb.DPMixture(
        2, init="k-means++", random_state=0, inference=sb.MemoizedVB(n_batches=2, max_iter=8, tol=0)
    ).fit(X),
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
    "topics": lambda: sb.LatentDirichletAllocation(4, **settings(init="local")).fit(WORDS),
    "topics in batches": lambda: sb.LatentDirichletAllocation(
        4, init="local", random_state=0, inference=sb.MemoizedVB(n_batches=2, max_iter=4, tol=0)
    ).fit(WORDS),
    "topics with moves": lambda: sb.HDPTopicModel(
        4, init="local", random_state=0, inference=sb.MemoizedVB(n_batches=2, max_iter=4, tol=0)
    ).fit(WORDS[:40]),
    "collapsed blocks": lambda: sb.Mixture(
        3, random_state=0, inference=sb.CollapsedVB(max_iter=2, tol=0, block=100)
    ).fit(X[:300]),
    "labels": lambda: sb.Mixture(3, **settings()).fit(X, labels=LABELS),
    "patches": lambda: sb.HMM(3, **settings()).fit(GAPS, lengths=LENGTHS),
    "windows": lambda: sb.HMM(
        3, random_state=0, inference=sb.SubchainVB(max_iter=2)
    ).fit(X, lengths=LENGTHS),
    "HardEM": lambda: sb.Mixture(3, random_state=0, inference=sb.HardEM(max_iter=3)).fit(X),
    "CollapsedGibbs": lambda: sb.Mixture(
        3, family="categorical", random_state=0, inference=sb.CollapsedGibbs(max_iter=3)
    ).fit(SYMBOLS),
    "links": lambda: sb.HMMAligner(random_state=0).fit(PAIRS),
    "trees": lambda: sb.PCFG(3, init="local", **settings()).fit(SENTENCES),
    "heads": lambda: sb.DMV(**settings()).fit(SENTENCES),
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
    laps = [(lap.bound, lap.log_z) for lap in model.trace_.laps]
    moves = [replace(move, seconds=0.0) for move in model.trace_.moves]
    return counts, repr(laps), repr(moves), repr(fitted.counts.local_bound)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", CASES)
def test_processes_find_the_same_bits(name: str, two_processes: Any) -> None:
    here = found_here(name)
    with sb.workers(two_processes):
        assert contents(CASES[name]()) == here


@pytest.mark.few(5)
@pytest.mark.parametrize("name", CASES)
def test_a_dask_cluster_finds_the_same_bits(name: str, client: Any) -> None:
    here = found_here(name)
    with sb.workers(client):
        assert contents(CASES[name]()) == here
    assert not client.futures


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["memoized", "topics in batches", "chain"])
def test_sums_of_large_counts_are_taken_on_the_workers(
    name: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, sent = found_here(name), []
    map_ = client.map
    monkeypatch.setattr(client, "map", lambda *a, **k: sent.extend(k["key"]) or map_(*a, **k))
    monkeypatch.setattr(dask_cluster, "SMALL", 0)
    monkeypatch.setattr(dask_cluster, "LARGE", 0)
    monkeypatch.setattr(dask_cluster, "CHUNK", 1000)
    with sb.workers(client, lanes=1):
        assert contents(CASES[name]()) == here
    assert any(key.startswith("add-") for key in sent)
    assert not client.futures


def test_all_workers_hold_what_their_tasks_need(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # dask would give all tasks to the one worker that holds the potentials
    held: list[int] = []
    map_ = client.map

    def watched(act: Any, *given: Any, **how: Any) -> Any:
        held.extend(len(where) for where in client.who_has(given[-1][0]).values())
        return map_(act, *given, **how)

    monkeypatch.setattr(client, "map", watched)
    monkeypatch.setattr(dask_cluster, "SMALL", 0)
    client.amm.stop()  # every two seconds it drops copies that no task has asked for yet
    try:
        with sb.workers(client, lanes=1):
            CASES["mixture"]()
    finally:
        client.amm.start()
    assert set(held) == {len(client.nthreads())}


@pytest.mark.few(4)
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("name", CASES)
def test_the_size_of_tasks_leaves_the_bits_alone(name: str, lanes: int) -> None:
    here = found_here(name)
    with sb.workers(lambda: ThreadPoolExecutor(3), lanes=lanes):
        assert contents(CASES[name]()) == here


@pytest.mark.few(3)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_the_number_of_workers_leaves_the_bits_alone(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = found_here(name)
    with sb.workers(lambda: ThreadPoolExecutor(n)):
        assert contents(CASES[name]()) == here
    monkeypatch.setattr(executors, "count_workers", lambda n_jobs: n)  # of this machine
    assert contents(CASES[name]()) == here


def test_joblib_names_the_cluster_too(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    joblib = pytest.importorskip("joblib")
    here, sent = found_here("mixture"), []
    map_ = client.map
    monkeypatch.setattr(client, "map", lambda *a, **k: sent.extend(k["key"]) or map_(*a, **k))
    with joblib.parallel_config("dask"):
        assert contents(CASES["mixture"]()) == here
    assert {key.split("-")[0] for key in sent} == {"infer", "decode"}


def test_moves_and_trials_are_among_what_was_compared() -> None:
    accepted = {
        kind
        for name in ("moves", "births", "chain with trials")
        for kind in re.findall(r"kind='(\w+)'(?:(?!kind).)*?is_accepted=True", found_here(name)[2])
    }
    assert {"birth", "merge", "delete"} <= accepted
    assert "is_accepted=True" in found_here("chain with trials")[2]


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


def test_workers_may_join_and_retire(monkeypatch: pytest.MonkeyPatch) -> None:
    here = found_here("memoized")

    class ComeAndGo(sb.Callback):
        def on_lap(self, record: Any) -> None:
            if record.lap == 1:
                client.cluster.scale(3)
                client.wait_for_workers(3)
            elif record.lap == 2:
                client.retire_workers(list(client.nthreads())[:1])

    engine = sb.MemoizedVB(n_batches=2, max_iter=3, tol=0, callbacks=[ComeAndGo()])
    with cluster(2) as client, sb.workers(client):
        assert contents(sb.Mixture(3, random_state=0, inference=engine).fit(X)) == here


def test_mapped_rows_and_streams_are_the_same_too(two_processes: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)

    def found() -> Any:
        mapped = sb.Mixture(3, **settings()).fit(tmp_path / "rows.npy")
        stream = sb.Mixture(3, random_state=0)
        for part in np.array_split(X, 2):
            stream.partial_fit(part)
        return contents(mapped), contents(stream)

    here = found()
    with sb.workers(two_processes):
        assert found() == here


def test_shards_are_read_by_workers_and_never_travel(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 40)
    for i in range(5):
        np.save(tmp_path / f"rows{i}.npy", X[140 * i : 140 * i + 140])
    fit = lambda: contents(sb.Mixture(3, **settings()).fit(sb.open_shards(str(tmp_path / "*.npy"))))
    here, sizes = fit(), []
    dumps = pool.dumps
    monkeypatch.setattr(
        pool, "dumps", lambda jobs: sizes.append(len(found := dumps(jobs))) or found
    )
    with sb.workers(client, lanes=1):
        assert fit() == here
    assert max(sizes) < 1_500  # bytes: a name, a digest and where the lane is


def test_parquet_read_by_processes_is_as_npy_read_here(
    two_processes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 40)
    for i in range(5):
        part = X[140 * i : 140 * i + 140]
        np.save(tmp_path / f"rows{i}.npy", part)
        polars.DataFrame(part, schema=["a", "b"]).write_parquet(tmp_path / f"rows{i}.parquet")
    engine = sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
    model = sb.Mixture(3, random_state=0, inference=engine)
    here = contents(model.fit(sb.open_shards(str(tmp_path / "*.npy"))))
    with sb.workers(two_processes):
        assert contents(model.fit(sb.open_shards(str(tmp_path / "*.parquet")))) == here


BEGUN: list[int] = []


def note_rows(lane: Any) -> int:
    BEGUN.append(lane.n_rows)
    return int(lane.n_rows)


def test_the_longest_tasks_begin_first_and_results_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "dumps", pickle.dumps)
    monkeypatch.setattr(tasks, "dumps", pickle.dumps)
    every = Sequences(X, offsets=np.array([0, 10, 30, 330, 350, 700])).whole()
    lanes = [every.part(i, i + 1) for i in range(5)]
    BEGUN.clear()
    with sb.workers(lambda: ThreadPoolExecutor(1), lanes=1), workers(1) as place:
        assert list(place.map(note_rows, lanes)) == [10, 20, 300, 20, 350]
    assert BEGUN == [350, 300, 20, 20, 10]


@pytest.mark.slow
def test_what_documents_keep_stays_in_the_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_processes: Any
) -> None:
    """Workers write and read it; the driver keeps names, and edits of components to replay."""
    read: list[int] = []
    written: list[int] = []
    load, owned = stored_fields.StoredArrays.load, stored_fields.StoredFields.owned
    monkeypatch.setattr(
        stored_fields.StoredFields, "owned", lambda self: written.append(1) or owned(self)
    )
    monkeypatch.setattr(
        stored_fields.StoredArrays, "load", lambda self: read.append(1) or load(self)
    )
    for name in ("topics", "topics in batches", "topics with moves"):
        here = found_here(name)
        with sb.workers(two_processes, scratch=tmp_path):
            model = CASES[name]()
            assert contents(model) == here
        assert written
        assert not read
        del model
        gc.collect()
        assert not list(tmp_path.iterdir())
        written.clear()
