"""Fits whose rows use a few components each: what must hold for every family, engine and kind of
row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fitting import (
    MODELS,
    StopAt,
    StoppedError,
    assert_never_drops,
    assert_same_fit,
    blob_model,
    blobs,
    evidence,
    fit,
    random_start,
    slack,
    start_from,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import sparse as brute
from registers import FAMILIES, FamilyCase

from stickbreak import families
from stickbreak.data import Batch, Table
from stickbreak.errors import NumericalError
from stickbreak.families.base import BaseScores
from stickbreak.inference import BatchVB, MeanLog, MemoizedVB, StochasticVB, read_checkpoint, run
from stickbreak.models import Model
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.stats import SparseShares
from stickbreak.structures import BaseStructure, Independent

every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
both = pytest.mark.parametrize("allocation", list(MODELS))
SAME = 1e-12


def with_missing(case: FamilyCase) -> np.ndarray | None:
    """The rows with a fifth of the entries missing; None for families that know no such entries."""
    if case.family.missing not in ("exact", "completed", "mixed"):
        return None
    rows = np.array(case.dense, dtype=float)
    rows[np.random.default_rng(3).random(rows.shape) < 0.2] = np.nan
    return rows


def prepared(
    model: Model, rows: Any, K: int, seed: int = 0, **settings: Any
) -> tuple[Any, Batch, dict[str, Any]]:
    """Potentials of random counts, a prepared block, and zeros to count into."""
    batch = Table(rows, **settings).whole()
    start = random_start(model, Table(rows), K, seed)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    return (
        potentials,
        batch.with_rows(model.family.prepare(batch.rows)),
        dict(potentials.empty.empty().arrays),
    )


def count(model: Model, potentials: Any, block: Batch, out: dict[str, Any], max_active: int) -> Any:
    """Local result of the limited step, also where the limit is no limit; counts go to `out`."""
    local = Independent(max_active)._infer_sparse(potentials, block, out)
    potentials.scores.collect(block.rows, local.shares, out)
    return local


# ---- one local step ------------------------------------------------------------------------------
@every_family
def test_all_components_give_the_dense_step(case: FamilyCase) -> None:
    model, K = MODELS["dp"](case.family, 1.0), 5
    for rows in (case.rows, with_missing(case)):
        if rows is None:
            continue
        repeats = np.random.default_rng(1).integers(0, 3, rows.shape[0]).astype(float)
        potentials, block, out = prepared(model, rows, K, repeats=repeats)
        local, dense = (
            count(model, potentials, block, out, K),
            dict(potentials.empty.empty().arrays),
        )
        expected = Independent().infer(potentials, block, None, dense)
        potentials.scores.collect(block.rows, expected.shares, dense)
        assert local.log_z == pytest.approx(expected.log_z, rel=SAME)
        np.testing.assert_allclose(np.asarray(local.shares), expected.shares, rtol=0, atol=SAME)
        for name, array in dense.items():
            np.testing.assert_allclose(
                out[name],
                array,
                rtol=SAME,
                atol=SAME * np.abs(array).max(initial=1.0),
                err_msg=name,
            )


@every_family
@pytest.mark.parametrize("max_active", [1, 3])
def test_counts_are_those_of_the_dense_table(case: FamilyCase, max_active: int) -> None:
    model = MODELS["dp"](case.family, 1.0)
    for rows in (case.rows, with_missing(case)):
        if rows is None:
            continue
        potentials, block, out = prepared(model, rows, 6)
        shares = count(model, potentials, block, out, max_active).shares
        assert shares.values.shape == (rows.shape[0], max_active)
        dense = dict(potentials.empty.empty().arrays)
        potentials.scores.collect(block.rows, np.asarray(shares), dense)
        dense["share"] += np.asarray(shares).sum(0)
        for name, array in dense.items():
            np.testing.assert_allclose(
                out[name],
                array,
                rtol=SAME,
                atol=SAME * np.abs(array).max(initial=1.0),
                err_msg=name,
            )


def far_clusters() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of four groups, three of them so far from the centre that they get reference
    points of their own.
    """
    labels = np.repeat(np.arange(4), 10)
    centers = np.array([[1e6, 0.0], [0.0, 3e6], [-2e6, -2e6], [-2e6, -2e6 + 4.0]])
    return centers[labels] + np.random.default_rng(0).normal(size=(40, 2)), labels


def test_moments_about_anchors() -> None:
    """Components with reference points of their own, some rows of each."""
    rows, labels = far_clusters()
    for family in (families.Gaussian(covariance=1.0), families.DiagonalGaussian(variance=1.0)):
        model = blob_model(rows, family=family)
        start = start_from(model, Table(rows), np.eye(4)[labels])
        counts = start.seed
        for edit in model.upkeep(counts):
            counts = edit(counts)
        assert (counts["anchor"] != 0).any()
        potentials = model.potentials(counts, start.params, MeanLog())
        block = Table(rows).whole().with_rows(model.family.prepare(rows))
        out, dense = (dict(potentials.empty.empty().arrays) for _ in range(2))
        shares = count(model, potentials, block, out, 2).shares
        potentials.scores.collect(block.rows, np.asarray(shares), dense)
        np.testing.assert_allclose(out["moments"], dense["moments"], rtol=1e-11, atol=1e-11)


@pytest.mark.few(4)
@every_family
@settings(max_examples=5, deadline=None, derandomize=True)
@given(K=st.integers(2, 7), max_active=st.integers(1, 6), seed=st.integers(0, 1000))
def test_log_z_is_that_of_the_best_set_of_components(
    case: FamilyCase, K: int, max_active: int, seed: int
) -> None:
    model = MODELS["finite"](case.family, 1.0)
    potentials, block, out = prepared(model, case.rows[:4], K, seed)
    local = Independent(max_active).infer(potentials, block, None, out)
    weights = potentials.scores.evidence(block.rows) + potentials["share"]
    assert local.log_z == pytest.approx(
        sum(brute.best_subset(row, max_active) for row in weights), rel=SAME
    )


@every_family
def test_more_components_never_lower_the_step(case: FamilyCase) -> None:
    model = MODELS["dp"](case.family, 1.0)
    potentials, block, out = prepared(model, case.rows, 6)
    found = [Independent(L).infer(potentials, block, None, out).log_z for L in range(1, 8)]
    assert_never_drops(found)
    assert found[-1] == found[-2] == Independent().infer(potentials, block, None, out).log_z


@every_family
def test_one_component_is_the_best_labelling(case: FamilyCase) -> None:
    model = MODELS["dp"](case.family, 1.0)
    batch = Table(case.rows).whole()
    start = random_start(model, Table(case.rows), 5)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    one, best = (m.local_step(potentials, batch)[0] for m in (model.sparse(1), model.best_only()))
    np.testing.assert_array_equal(
        model.sparse(1).shares(potentials, batch).argmax(1), model.decode(potentials, batch)
    )
    assert one.log_z == pytest.approx(best.log_z, rel=SAME)
    for name, array in best.arrays.items():
        np.testing.assert_allclose(
            one[name], array, rtol=SAME, atol=SAME * np.abs(array).max(initial=1.0), err_msg=name
        )


def test_equal_components_share_a_row_in_any_choice() -> None:
    """Four components with the same counts: which two a row uses does not matter, and they are the
    first.
    """
    rows = blobs(20, 1)
    model = blob_model(rows, "finite")
    start = start_from(model, Table(rows), np.full((20, 4), 0.25))
    potentials = model.potentials(start.seed, start.params, MeanLog())
    shares = model.sparse(2).shares(potentials, Table(rows).whole())
    np.testing.assert_allclose(shares, np.tile([0.5, 0.5, 0.0, 0.0], (20, 1)), rtol=1e-12)


# ---- fits ----------------------------------------------------------------------------------------
@pytest.mark.few(2)
@every_family
@both
@pytest.mark.parametrize("max_active", [1, 2])
def test_bound_never_drops(case: FamilyCase, allocation: str, max_active: int) -> None:
    """For a fixed limit, at any visit once every batch has been seen."""
    model = MODELS[allocation](case.family, 1.0)
    engine = MemoizedVB(n_batches=3, max_iter=8, tol=0.0, trace_visits=True, max_active=max_active)
    for rows in (case.rows, with_missing(case)):
        if rows is not None:
            trace = fit(model, engine, rows, 5).trace
            assert_never_drops(trace.visits)
            assert_never_drops(trace.bound)


@pytest.mark.few(1)
@pytest.mark.parametrize("max_active", [1, 2, 3])
@pytest.mark.parametrize("engine", [BatchVB, MemoizedVB])
def test_bound_never_drops_with_moves(max_active: int, engine: Any) -> None:
    rng = np.random.default_rng(4)
    rows = np.array([[6.0 * (k % 3), 6.0 * (k // 3)] for k in range(6)])[
        rng.integers(0, 6, 400)
    ] + rng.normal(size=(400, 2))
    moves = (Birth(), Merge(), Delete())
    batches = {"n_batches": 3} if engine is MemoizedVB else {}
    found = fit(
        blob_model(rows),
        engine(max_iter=25, tol=1e-6, moves=moves, max_active=max_active, **batches),
        rows,
        1,
    )
    assert_never_drops(found.trace.bound)
    assert {record.kind for record in found.trace.moves if record.is_accepted} >= {"birth"}
    assert len(found.ids) == 6


@pytest.mark.few(1)
@pytest.mark.parametrize(("allocation", "n_components"), [("finite", 3), ("dp", 4)])
@pytest.mark.parametrize(
    "limits", [{"max_active": 1}, {"max_active": 2}, {"max_active": 2, "candidates": 2}]
)
def test_bound_never_above_the_evidence(
    allocation: str, n_components: int, limits: dict[str, int]
) -> None:
    case = FAMILIES["gaussian"]
    table, model = Table(case.rows[:5]), MODELS[allocation](case.family, 1.0)
    exact = evidence(case.oracle, table.rows, allocation, n_components)
    dense = fit(model, BatchVB(max_iter=15, tol=0.0), table, n_components)
    found = fit(model, BatchVB(max_iter=15, tol=0.0, **limits), table, n_components)
    assert found.bound <= exact + slack(exact)
    assert np.isfinite(dense.bound)


@pytest.mark.covering
@every_family
@pytest.mark.parametrize("limits", [{"max_active": 2}, {"max_active": 2, "candidates": 3}])
def test_weight_two_equals_two_rows(case: FamilyCase, limits: dict[str, int]) -> None:
    model, n = MODELS["dp"](case.family, 1.0), case.rows.shape[0]
    often = np.where(np.arange(n) % 3 == 0, 2, np.arange(n) % 3 - 1)  # 2, 0, 1, ...
    engine = BatchVB(max_iter=4, tol=0.0, **limits)
    shares = np.random.default_rng(1).dirichlet(np.ones(4), n)
    weighted, repeated = (
        Table(case.rows, repeats=often.astype(float)),
        Table(case.rows[np.repeat(np.arange(n), often)]),
    )
    a = fit(model, engine, weighted, start_from(model, weighted, shares))
    b = fit(model, engine, repeated, start_from(model, repeated, np.repeat(shares, often, axis=0)))
    np.testing.assert_allclose(a.trace.bound, b.trace.bound, rtol=1e-10)
    assert a.counts.n_units == b.counts.n_units


@pytest.mark.covering
@every_family
@pytest.mark.parametrize("limits", [{"max_active": 3}, {"max_active": 2, "candidates": 3}])
def test_labelled_rows_have_fewer_components_than_they_may_use(
    case: FamilyCase, limits: dict[str, int]
) -> None:
    n = case.rows.shape[0]
    labels = np.where(np.arange(n) % 3 == 0, np.arange(n) // 3 % 3, -1)
    legal = np.concatenate([np.ones((1, 5)), np.eye(5)[:3]])
    table, model = Table(case.rows, sets=labels + 1), MODELS["dp"](case.family, 1.0)
    engine = MemoizedVB(n_batches=2, max_iter=6, tol=0.0, trace_visits=True, **limits)
    found = fit(model, engine, table, random_start(model, table, 5, 2, legal))
    limited = engine.adapt(model)
    shares = limited.shares(model.potentials(found.counts, found.params, MeanLog()), table.whole())
    known = np.flatnonzero(labels >= 0)
    np.testing.assert_array_equal(shares[known, [found.ids.index(c) for c in labels[known]]], 1.0)
    assert np.count_nonzero(shares, axis=1).max() <= limits["max_active"]
    assert_never_drops(found.trace.visits)


def test_a_row_without_a_legal_component_is_an_error() -> None:
    rows = blobs(12, 0)
    model = blob_model(rows)
    table = Table(rows, sets=np.array([0] * 11 + [1]))
    start = random_start(model, table, 4, 0, np.array([[1.0] * 4, [0.0] * 4]))
    for limits in ({"max_active": 2}, {"max_active": 2, "candidates": 3}):
        with pytest.raises(NumericalError, match="legal"):
            fit(model, BatchVB(max_iter=2, **limits), table, start)


# ---- candidates ----------------------------------------------------------------------------------
@every_family
def test_candidates_find_what_all_components_give(case: FamilyCase) -> None:
    """Two components of eight, among five that single precision calls the best: nothing is missed
    here.
    """
    model = MODELS["dp"](case.family, 1.0)
    for rows in (case.rows, with_missing(case)):
        if rows is None:
            continue
        exact, quick = (
            fit(model, BatchVB(max_iter=5, tol=0.0, max_active=2, candidates=candidates), rows, 8)
            for candidates in (None, 5)
        )
        np.testing.assert_allclose(quick.trace.bound, exact.trace.bound, rtol=1e-10)
        np.testing.assert_array_equal(quick.trace.disagreement, 0.0)
        assert np.isnan(exact.trace.disagreement).all()


@every_family
def test_candidates_are_judged_exactly(case: FamilyCase) -> None:
    model, rng = MODELS["finite"](case.family, 1.0), np.random.default_rng(0)
    for rows in (case.rows, with_missing(case)):
        if rows is None:
            continue
        potentials, block, _ = prepared(model, rows, 6)
        evidence = potentials.scores.evidence(block.rows)
        index = np.array(
            [rng.choice(6, 3, replace=False) for _ in range(len(evidence))], dtype=np.int32
        )
        index[2, 1] = -1
        found = potentials.scores.evidence_at(block.rows, index)
        expected = np.take_along_axis(evidence, np.maximum(index, 0), axis=1)
        expected[2, 1] = -np.inf
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
        rough = potentials.scores.rough(block.rows)
        assert rough.T.flags.c_contiguous
        apart = (rough - rough[:, :1]) - (evidence - evidence[:, :1])
        # digits of single precision
        np.testing.assert_allclose(apart, 0.0, atol=1e-4 * max(1.0, np.abs(evidence).max()))


def test_far_components_are_candidates_too() -> None:
    """Judged directly: their quadratic features say nothing in single precision."""
    rows, labels = far_clusters()
    for family in (families.Gaussian(covariance=1.0), families.DiagonalGaussian(variance=1.0)):
        model = blob_model(rows, family=family)
        start = start_from(model, Table(rows), np.eye(4)[labels])
        exact, quick = (
            fit(
                model,
                MemoizedVB(n_batches=2, max_iter=4, tol=0.0, max_active=1, candidates=candidates),
                rows,
                start,
            )
            for candidates in (None, 2)
        )
        np.testing.assert_allclose(quick.trace.bound, exact.trace.bound, rtol=1e-10)
        np.testing.assert_array_equal(quick.trace.disagreement, 0.0)


@dataclass(frozen=True)
class Misjudging:
    """Scores whose rough judgement is that of other components."""

    inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def evidence(self, rows: Any) -> Any:
        return self.inner.evidence(rows)

    def collect(self, rows: Any, shares: Any, out: Any) -> None:
        self.inner.collect(rows, shares, out)

    def pair(self, counts: Any) -> float:
        return self.inner.pair(counts)

    def rough(self, rows: Any) -> Any:
        return np.asfortranarray(np.roll(self.inner.rough(rows), 1, axis=1))

    def evidence_at(self, rows: Any, index: Any) -> Any:
        return self.inner.evidence_at(rows, index)


@dataclass(frozen=True)
class MisjudgingFamily:
    """A family with such scores."""

    inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def mean_log(self, counts: Any) -> Misjudging:
        return Misjudging(self.inner.mean_log(counts))


@pytest.mark.parametrize(
    "engine", [BatchVB(max_iter=4), MemoizedVB(n_batches=3, max_iter=4),
    StochasticVB(batch_size=40, max_iter=4)],
    ids=["batch", "memoized", "stochastic"],
)  # fmt: skip
def test_a_wrong_choice_is_noticed_and_still_gives_a_bound(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stickbreak.inference.sparsity.CHECKED", 1.0)
    rows = blobs(200, 2, spread=6.0)
    model = blob_model(rows)
    start = random_start(model, Table(rows), 6)
    wrong = replace(model, family=MisjudgingFamily(model.family))
    limited = type(engine)(**{**engine.get_params(deep=False), "max_active": 1, "candidates": 2})
    found, right = fit(wrong, limited, rows, start), fit(model, limited, rows, start)
    assert found.trace.disagreement[0] > 0.2
    np.testing.assert_array_equal(right.trace.disagreement, 0.0)
    assert np.isfinite(found.bound)
    potentials = wrong.potentials(start.seed, start.params, MeanLog())
    chosen, best = (
        wrong.sparse(1, candidates).local_step(potentials, Table(rows).whole())[0]
        for candidates in (2, None)
    )
    assert chosen.log_z < best.log_z


def test_candidates_of_a_family_without_rough_evidence_are_found_by_the_exact_one() -> None:
    rows = blobs(30, 2)
    model = blob_model(rows)

    class Plain(BaseScores):
        def __init__(self, inner: Any) -> None:
            self.evidence, self.collect, self.pair = inner.evidence, inner.collect, inner.pair

    class PlainFamily(MisjudgingFamily):
        def mean_log(self, counts: Any) -> Any:
            return Plain(self.inner.mean_log(counts))

    plain = replace(model, family=PlainFamily(model.family))
    exact = fit(plain, BatchVB(max_iter=3, max_active=2), rows, 5).bound
    found = fit(plain, BatchVB(max_iter=3, max_active=2, candidates=3), rows, 5).bound
    assert found == pytest.approx(exact, rel=1e-12)


def test_a_structure_without_a_sparse_form_is_refused() -> None:
    model = replace(blob_model(blobs(30, 2)), structure=BaseStructure())
    assert model.sparse(None).structure is model.structure
    with pytest.raises(ValueError, match="max_active=2 is not for BaseStructure; use None"):
        model.sparse(2)


# ---- the same bits -------------------------------------------------------------------------------
LIMITED = {
    "batch": BatchVB(max_iter=4, tol=0.0, max_active=2, trace_visits=True),
    "memoized": MemoizedVB(
        n_batches=3, max_iter=4, tol=0.0, max_active=2, candidates=4, trace_visits=True
    ),
    "stochastic": StochasticVB(batch_size=100, max_iter=3, tol=0.0, max_active=2, candidates=4),
    "moves": MemoizedVB(
        n_batches=2,
        max_iter=4,
        tol=0.0,
        max_active=2,
        candidates=3,
        moves=(Birth(n_passes=3), Merge()),
    ),
}


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stickbreak.data.batches.LANE_ROWS", 40)
    rows = blobs(400, 5)
    for engine in LIMITED.values():
        assert_same_fit(
            fit(blob_model(rows), engine, rows, 6, n_jobs=1),
            fit(blob_model(rows), engine, rows, 6, n_jobs=3),
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LIMITED)
def test_resuming_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    rows, path = blobs(300, 6), tmp_path / "fit.checkpoint"
    model, table, engine = blob_model(rows), Table(rows), LIMITED[name]
    start = random_start(model, table, 5)
    whole = run(model, engine, table, start, seed=7)
    saved = type(engine)(
        **{**engine.get_params(deep=False), "checkpoint": path, "checkpoint_every": 0.0}
    )
    for step in (3, 6):
        if step > whole.n_steps:
            continue
        dying = type(engine)(**{**saved.get_params(deep=False), "callbacks": (StopAt(step),)})
        with pytest.raises(StoppedError):
            run(model, dying, table, start, seed=7)
        resumed = run(model, saved, table, read_checkpoint(path)[1], seed=7)
        assert_same_fit(resumed, whole)
        np.testing.assert_array_equal(resumed.trace.disagreement, whole.trace.disagreement)


def test_the_fitted_model_knows_no_limit() -> None:
    rows = blobs(60, 3)
    found = fit(blob_model(rows), BatchVB(max_iter=3, max_active=1), rows, 4)
    assert found.model.structure == Independent()


# ---- stochastic ----------------------------------------------------------------------------------
def test_stochastic_with_rate_one_on_all_data_is_a_batch_step() -> None:
    rows = blobs(80, 7)
    model = blob_model(rows)
    start = random_start(model, Table(rows), 5)
    batch = fit(model, BatchVB(max_iter=3, tol=0.0, reorder=False, max_active=2), rows, start)
    stochastic = fit(
        model,
        StochasticVB(batch_size=80, kappa=0.0, max_iter=3, tol=0.0, reorder=False, max_active=2),
        rows,
        start,
    )
    for name, array in batch.counts.arrays.items():
        np.testing.assert_allclose(
            stochastic.counts[name], array, rtol=1e-9, atol=1e-9, err_msg=name
        )


def test_the_bound_of_a_stochastic_fit_is_that_of_limited_rows() -> None:
    rows = blobs(80, 7, spread=1.0)
    model = blob_model(rows)
    engine = StochasticVB(batch_size=40, max_iter=3, tol=0.0, max_active=1)
    found = fit(model, engine, rows, 5)
    potentials = model.potentials(found.counts, found.params, MeanLog())
    bounds = [
        model.bound_at(
            found.counts, found.params, potentials, m.local_step(potentials, Table(rows).whole())[0]
        )
        for m in (model.sparse(1), model)
    ]
    assert found.bound == pytest.approx(bounds[0], rel=1e-12)
    assert bounds[0] < bounds[1]


def test_shares_of_a_local_step_are_small() -> None:
    rows = blobs(50, 8)
    model = blob_model(rows)
    potentials, block, out = prepared(model, rows, 6)
    shares = Independent(2).infer(potentials, block, None, out).shares
    assert isinstance(shares, SparseShares)
    assert shares.values.shape == (50, 2)
    assert shares.index.dtype == np.int32
