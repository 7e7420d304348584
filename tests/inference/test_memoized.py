"""Memoized variational Bayes: totals, bounds, order of batches, memory on disk, many batches."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fitting import (
    MODELS,
    assert_never_drops,
    assert_same_fit,
    blob_model,
    blobs,
    count_shares,
    dense,
    fit,
    random_start,
    start_from,
)  # fmt: skip
from oracles import conjugate, mixture
from registers import FAMILIES
from scipy import sparse

from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.inference import (
    BatchVB,
    Callback,
    Info,
    MeanLog,
    Memoized,
    MemoizedVB,
    RamMemory,
    SpillingMemory,
    State,
    Streaming,
    Visit,
    step,
)
from stickbreak.initialize import from_plusplus
from stickbreak.stats import Summary

# Statistics are sums of at most a few hundred terms of size <= 1e3, subtracted and added some tens
# of times.
DRIFT = 1e-9


def walk(
    model: Any, table: Table, start: Any, n_batches: int, laps: int
) -> Iterator[tuple[State, dict[int, np.ndarray], list]]:
    """Visit batches by hand; after each visit the state, and the responsibilities of every visited
    batch.
    """
    batches, rule, accumulator = table.batches(n_batches), MeanLog(), Memoized()
    K = start.seed.size(model.axis)
    state = accumulator.begin(start, tuple(range(K)), len(batches))
    stored: dict[int, np.ndarray] = {}
    for lap in range(laps):
        for i in np.random.default_rng([9, lap]).permutation(len(batches)):
            batch = batches[i]
            potentials = model.potentials(state.counts.restrict(batch.symbols), state.params, rule)
            stored[batch.id] = model.shares(potentials, batch)
            step(model, rule, accumulator, state, batch)
            yield state, stored, batches
        accumulator.end_lap(state)


def assert_close(found: Summary, expected: Summary) -> None:
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(found[name], array, rtol=DRIFT, atol=DRIFT, err_msg=name)
    assert found.local_bound == pytest.approx(expected.local_bound, rel=DRIFT, abs=DRIFT)
    assert found.n_units == pytest.approx(expected.n_units, rel=1e-12)


def sum_over(model: Any, K: int, parts: list[Summary]) -> Summary:
    total = model.zeros(K)
    for part in parts:
        total = total + part
    return total


@pytest.mark.parametrize("allocation", list(MODELS))
def test_one_batch_equals_full_iterations(allocation: str) -> None:
    """Iterate by iterate: the local step and global step of the textbook, by hand and by both
    engines.
    """
    rows = blobs(80, 3)
    model, table = blob_model(rows, allocation), Table(rows)
    start = random_start(model, table, 4)
    counts, bounds = start.seed, []
    for _ in range(10):
        counts = model.local_step(model.potentials(counts, start.params, MeanLog()), table.whole())[
            0
        ]
        bounds.append(model.bound(counts, start.params))
    for engine in (
        BatchVB(max_iter=10, tol=0.0, reorder=False),
        MemoizedVB(n_batches=1, max_iter=10, tol=0.0, reorder=False),
    ):
        found = fit(model, engine, table, start)
        np.testing.assert_array_equal(found.trace.bound, bounds)
        np.testing.assert_array_equal(found.counts["share"], counts["share"])


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name", ["gaussian", "diagonal", "multinomial", "multinomial_sparse", "poisson"]
)
def test_total_is_the_sum_of_memories_is_the_statistics_of_stored_shares(name: str) -> None:
    case, K = FAMILIES[name], 3
    model, table = MODELS["dp"](case.family, 1.0), Table(case.rows)
    for state, stored, batches in walk(model, table, random_start(model, table, K), 5, 6):
        memories = [state.memory.recall(i).summary for i in state.memory]
        assert_close(state.total.view(), sum_over(model, K, memories))
        recomputed = [count_shares(model, batches[i], stored[i]) for i in state.memory]
        assert_close(state.total.view(), sum_over(model, K, recomputed))
        for memory, again in zip(memories, recomputed, strict=True):
            assert_close(sum_over(model, K, [memory]), sum_over(model, K, [again]))


@pytest.mark.parametrize("name", ["gaussian", "categorical", "multinomial_sparse"])
@pytest.mark.parametrize("allocation", list(MODELS))
def test_bound_of_the_total_is_the_brute_force_bound(name: str, allocation: str) -> None:
    case, K = FAMILIES[name], 3
    model, table = MODELS[allocation](case.family, 1.0), Table(case.rows)
    oracle, X = mixture.ConjugateModel(case.oracle), dense(case.rows).astype(float)
    for visit, (state, stored, batches) in enumerate(
        walk(model, table, random_start(model, table, K), 4, 3)
    ):
        if visit % 3 or len(stored) < len(batches):  # the oracle is slow: every third visit
            continue
        r = np.concatenate([stored[i] for i in range(len(batches))])
        exact = mixture.bound_at_optimum(oracle, X, r, 1.0, allocation).total
        assert model.bound(state.total.view(), state.params) == pytest.approx(exact, rel=DRIFT)


@pytest.mark.parametrize("n_batches", [2, 5, 80])
def test_bound_never_drops_after_the_first_lap(n_batches: int) -> None:
    rows = blobs(400, 4)
    engine = MemoizedVB(n_batches=n_batches, max_iter=8, tol=0.0, trace_visits=True)
    found = fit(blob_model(rows), engine, rows, 6)
    assert len(found.trace.visits) == 7 * n_batches + 1
    assert_never_drops(found.trace.visits)
    assert found.n_steps == 8 * n_batches


@pytest.mark.parametrize("offset", [1e3, 1e5])
@pytest.mark.parametrize(
    "family",
    [families.Gaussian(covariance=1.0), families.DiagonalGaussian(variance=1.0)],
    ids=["full", "diagonal"],
)
def test_bound_never_drops_when_clusters_are_far_apart(offset: float, family: Any) -> None:
    """Components get reference points of their own on the way; remembered batches follow."""
    rows = blobs(300, 4, spread=offset) + 3 * offset
    model, table = blob_model(rows, family=family), Table(rows)
    engine = MemoizedVB(n_batches=4, max_iter=10, tol=0.0, trace_visits=True)
    found = fit(model, engine, table, random_start(model, table, 5))
    assert (found.counts["anchor"] != 0).any()
    assert_never_drops(found.trace.visits)


@pytest.mark.few(2)
@pytest.mark.parametrize("offset", [1e3, 1e5])
@pytest.mark.parametrize("n_batches", [1, 4])
def test_bound_is_right_when_the_seed_has_reference_points(offset: float, n_batches: int) -> None:
    """Two clusters far apart, found by seeding: the total describes its moments as the seed does,
    from lap 1 on.
    """
    labels = np.arange(80) % 2
    rows = (
        np.random.default_rng(0).normal(size=(80, 2))
        + offset * np.where(labels, 1.0, -1.0)[:, None]
    )
    model, table = blob_model(rows, "finite", families.Gaussian(covariance=1.0)), Table(rows)
    start = from_plusplus(model, table, 2, np.random.default_rng(0))
    assert (start.seed["anchor"] != 0).any()
    found = fit(
        model, MemoizedVB(n_batches=n_batches, max_iter=3, tol=0.0, trace_visits=True), table, start
    )
    center = rows.mean(0)
    oracle = conjugate.Gaussian(np.zeros(2), 0.01, 5.0, 2.0 * np.eye(2))
    r = np.eye(2)[labels]
    exact = mixture.bound_at_optimum(
        mixture.ConjugateModel(oracle), rows - center, r, 1.0, "finite"
    ).total
    # The prior's pull, 0.01 offset**2 along one direction, rounds the scatter of the other: 2e-8 of
    # 40 at the larger offset.
    np.testing.assert_allclose(found.trace.visits, exact, rtol=1e-9)
    assert_never_drops(found.trace.visits)


def test_streaming_one_batch_equals_one_lap_when_the_seed_has_reference_points() -> None:
    rows = blobs(80, 4, spread=1e4)
    model, table = blob_model(rows, family=families.Gaussian(covariance=1.0)), Table(rows)
    start = from_plusplus(model, table, 3, np.random.default_rng(0))
    assert (start.seed["anchor"] != 0).any()
    accumulator = Streaming()
    state = accumulator.begin(start, (0, 1, 2), 1)
    step(model, MeanLog(), accumulator, state, table.whole())
    batch = fit(model, BatchVB(max_iter=1, reorder=False), table, start)
    assert model.bound(state.total.view(), state.params) == pytest.approx(batch.bound, rel=1e-12)
    assert state.seed is None


@pytest.mark.slow
def test_final_bound_does_not_depend_on_the_order_of_batches() -> None:
    rows = blobs(300, 8, spread=12.0)
    model, table = blob_model(rows, "finite"), Table(rows)
    labels = ((rows[:, None] - rows[None, [0, 1, 2]]) ** 2).sum(-1).argmin(1)
    shares = 0.9 * np.eye(3)[labels] + 0.1 / 3
    start = start_from(model, table, shares)
    engine = MemoizedVB(n_batches=6, max_iter=25, tol=0.0)
    bounds = [fit(model, engine, table, start, seed=seed).bound for seed in range(5)]
    bounds.append(
        fit(model, MemoizedVB(n_batches=6, max_iter=25, tol=0.0, shuffle=False), table, start).bound
    )
    bounds.append(fit(model, BatchVB(max_iter=25, tol=0.0), table, start).bound)
    assert np.ptp(bounds) < 1e-6  # one optimum, reached to rounding of the trace


def test_first_lap_total_holds_the_visited_batches_only() -> None:
    """And the seed stands in for it: globals do not move until every batch has been seen."""
    rows = blobs(60, 3)
    model, table, K = blob_model(rows), Table(rows), 4
    start = random_start(model, table, K)
    seed_potentials = model.potentials(start.seed, start.params, MeanLog())
    for state, stored, batches in walk(model, table, start, 6, 1):
        visited = [count_shares(model, batches[i], stored[i]) for i in state.memory]
        assert_close(state.total.view(), sum_over(model, K, visited))
        assert state.total.view().n_units == sum(batches[i].n_units for i in stored)
        for i, shares in stored.items():
            np.testing.assert_array_equal(shares, model.shares(seed_potentials, batches[i]))
        assert (state.seed is None) == (len(stored) == 6)


def test_no_bound_before_every_batch_has_been_seen() -> None:
    seen: list[float | None] = []

    class Watch(Callback):
        def on_step(self, info: Info) -> None:
            seen.append(info.bound)

    rows = blobs(60, 3)
    fit(
        blob_model(rows),
        MemoizedVB(n_batches=4, max_iter=2, tol=0.0, trace_visits=True, callbacks=(Watch(),)),
        rows,
        3,
    )
    assert seen[:3] == [None, None, None]
    assert all(bound is not None for bound in seen[3:])


# ---- memory on disk ------------------------------------------------------------------------------
class Files(Callback):
    """Notes what is seen of temporary files after each visit: names, and open files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names, self.n_open = folder, set(), []

    def on_step(self, info: Info) -> None:
        self.names |= {path.name for path in self.folder.iterdir()}
        self.n_open.append(count_open(self.folder))


def count_open(folder: Path) -> int:
    """Files in a folder that this process holds open, with or without a name."""
    found = 0
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them
            found += os.readlink(handle).startswith(f"{folder}/")
    return found


linux = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at open files")


@pytest.mark.slow
@linux
@pytest.mark.parametrize("limit", [0, 500, 1500])
@pytest.mark.parametrize("name", ["gaussian", "multinomial_sparse"])
def test_spilled_memory_gives_the_same_fit_bit_for_bit(
    limit: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one file without a name, which goes away with the fit."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    case = FAMILIES[name]
    model = MODELS["dp"](case.family, 1.0)
    settings = {"n_batches": 8, "max_iter": 5, "tol": 0.0, "trace_visits": True}
    files = Files(tmp_path)
    spilled = fit(
        model, MemoizedVB(memory_limit=limit, callbacks=(files,), **settings), case.rows, 4
    )
    assert_same_fit(spilled, fit(model, MemoizedVB(**settings), case.rows, 4))
    assert files.names == set()
    assert files.n_open[-1] == 1
    if limit == 0:
        assert set(files.n_open) == {1}
    del spilled
    gc.collect()
    assert count_open(tmp_path) == 0


@pytest.mark.slow
@linux
def test_spilled_files_go_away_when_the_fit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    class Trip(Callback):
        def on_step(self, info: Info) -> None:
            if info.step == 7:
                assert count_open(tmp_path) == 1
                raise RuntimeError("tripped")

    rows = blobs(60, 3)
    with pytest.raises(RuntimeError, match="tripped"):
        fit(blob_model(rows), MemoizedVB(n_batches=4, memory_limit=0, callbacks=(Trip(),)), rows, 3)
    gc.collect()
    assert count_open(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_memories_give_back_what_they_were_given(tmp_path: Path) -> None:
    rows = blobs(60, 3)
    model, table = blob_model(rows), Table(rows)
    visits = [
        Visit(
            count_shares(model, b, np.full((b.n_rows, 3), 1 / 3)),
            model.start_params(3, np.eye(3)),
            i,
        )
        for i, b in enumerate(table.batches(5))
    ]
    size = sum(a.nbytes for a in visits[0].summary.arrays.values()) + 72
    memory, plain = SpillingMemory(2 * size, tmp_path), RamMemory()
    for turn in range(3):  # the second and third time over, batches that fit move back into memory
        for i in (3, 0, 4, 1, 2):
            memory.remember(i, visits[(i + turn) % 5])
            plain.remember(i, visits[(i + turn) % 5])
        assert memory.n_spilled == 3
        assert list(memory) == list(plain) == [0, 1, 2, 3, 4]
        for i in memory:
            a, b = memory.recall(i), plain.recall(i)
            assert (a.version, a.summary.local_bound, a.summary.n_units) == (
                b.version,
                b.summary.local_bound,
                b.summary.n_units,
            )
            for name in b.summary.arrays:
                np.testing.assert_array_equal(a.summary[name], b.summary[name])
            np.testing.assert_array_equal(a.warm["legal"], b.warm["legal"])
    assert memory.recall(77) is plain.recall(77) is None
    assert list(tmp_path.iterdir()) == []


# ---- sparse rows with a vocabulary of their own in each batch ------------------------------------
def test_compact_batches_give_the_same_bounds_as_dense_rows() -> None:
    rng = np.random.default_rng(6)
    topics = rng.dirichlet(np.full(400, 0.02), 4)
    rows = np.array([rng.multinomial(30, topics[i % 4]) for i in range(60)], dtype=float)
    wide, table = sparse.csr_array(rows), Table(rows)
    assert Table(wide).batches(10)[0].symbols is not None
    family = families.Multinomial(concentration=0.2).resolve(measure(table))
    model = MODELS["dp"](family, 1.0)
    start = random_start(model, table, 5)
    engine = MemoizedVB(n_batches=10, max_iter=6, tol=0.0, trace_visits=True)
    compact, plain = fit(model, engine, Table(wide), start), fit(model, engine, table, start)
    # the same sums, zeros left out
    np.testing.assert_allclose(compact.trace.visits, plain.trace.visits, rtol=1e-11)
    np.testing.assert_allclose(
        compact.counts["emission"], plain.counts["emission"], rtol=1e-9, atol=1e-9
    )
    assert_never_drops(compact.trace.visits)
