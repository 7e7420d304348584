"""What must hold for a mixture of any family: bounds, equalities, weights, legal sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops, evidence, fit, random_start, slack, start_from
from oracles import mixture
from registers import FAMILIES, FamilyCase

from stickbreak.data import Table
from stickbreak.inference import EM, BatchVB, HardEM, MeanLog, MemoizedVB

every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
both = pytest.mark.parametrize("allocation", list(MODELS))

# The same sums in another order: some hundred terms, relative to a bound of a few hundred nats.
SAME = 1e-10


def model_of(case: FamilyCase, allocation: str) -> Any:
    return MODELS[allocation](case.family, 1.0)


@pytest.mark.covering
@every_family
@both
@pytest.mark.parametrize("n_batches", [1, 3, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "reorder",
    [pytest.param(True, id="reorder"), pytest.param(False, id="fixed", marks=pytest.mark.slow)],
)
def test_bound_never_drops(
    case: FamilyCase, allocation: str, n_batches: int, reorder: bool
) -> None:
    """At any visit, once every batch has been seen; no moves."""
    model = model_of(case, allocation)
    engine = MemoizedVB(
        n_batches=n_batches, max_iter=12, tol=0.0, reorder=reorder, trace_visits=True
    )
    trace = fit(model, engine, case.rows, 4, seed=3).trace
    # the last visit of lap 1 is the first with a bound
    assert len(trace.visits) == 11 * n_batches + 1
    assert_never_drops(trace.visits)
    assert_never_drops(trace.bound)


@pytest.mark.covering
@every_family
@both
def test_batch_bound_never_drops(case: FamilyCase, allocation: str) -> None:
    found = fit(
        model_of(case, allocation), BatchVB(max_iter=30, tol=0.0, trace_visits=True), case.rows, 5
    )
    assert_never_drops(found.trace.visits)
    assert_never_drops(found.trace.bound)


@pytest.mark.covering
@every_family
@both
def test_one_memoized_batch_equals_batch(case: FamilyCase, allocation: str) -> None:
    model = model_of(case, allocation)
    batch = fit(model, BatchVB(max_iter=8, tol=0.0), case.rows, 4)
    memoized = fit(model, MemoizedVB(n_batches=1, max_iter=8, tol=0.0), case.rows, 4)
    np.testing.assert_allclose(memoized.trace.bound, batch.trace.bound, rtol=SAME)
    for name, array in batch.counts.arrays.items():
        np.testing.assert_allclose(memoized.counts[name], array, rtol=SAME, atol=SAME, err_msg=name)


@pytest.mark.few(6)
@every_family
@pytest.mark.parametrize(
    ("allocation", "n_components"),
    [
        ("finite", 1),
        ("finite", 2),
        ("dp", 1),
        ("dp", 2),
        pytest.param("dp", 4, marks=pytest.mark.slow),
    ],
)
def test_bound_never_above_the_evidence(
    case: FamilyCase, allocation: str, n_components: int
) -> None:
    """Five rows: 2^5 labelings, or Bell(5) = 52 partitions; several starts and engines."""
    table = Table(case.rows[:5])
    model = model_of(case, allocation)
    exact = evidence(case.oracle, table.rows, allocation, n_components)
    for seed in range(3):
        start = random_start(model, table, n_components, seed)
        batch = fit(model, BatchVB(max_iter=15, tol=0.0), table, start)
        memoized = fit(
            model, MemoizedVB(n_batches=3, max_iter=15, tol=0.0, trace_visits=True), table, start
        )
        highest = max(batch.trace.bound.max(), *memoized.trace.visits)
        assert highest <= exact + slack(exact)
    if n_components == 1 and allocation == "finite":
        # one labeling: the bound is tight
        assert batch.bound == pytest.approx(exact, abs=slack(exact))


@pytest.mark.covering
@every_family
@both
@pytest.mark.parametrize(
    "engine", [EM(max_iter=25, tol=0.0), HardEM(max_iter=25, tol=0.0)], ids=["em", "hard-em"]
)
def test_em_objective_never_drops(case: FamilyCase, allocation: str, engine: Any) -> None:
    for seed in range(3):
        model = model_of(case, allocation)
        start = random_start(model, Table(case.rows), 3, seed)
        assert_never_drops(fit(model, engine, case.rows, start).trace.bound)


@pytest.mark.covering
@every_family
@both
def test_em_without_reordering_never_drops(case: FamilyCase, allocation: str) -> None:
    found = fit(model_of(case, allocation), EM(max_iter=25, tol=0.0, reorder=False), case.rows, 4)
    assert_never_drops(found.trace.bound)


@pytest.mark.covering
@every_family
@both
@pytest.mark.parametrize("engine", [BatchVB(max_iter=6, tol=0.0), EM(max_iter=6, tol=0.0),
HardEM(max_iter=6, tol=0.0)],
                         ids=["batch", "em", "hard-em"])  # fmt: skip
def test_weight_two_equals_two_rows(case: FamilyCase, allocation: str, engine: Any) -> None:
    """A weight is a repeat count: bound, statistics and number of units."""
    model, n = model_of(case, allocation), case.rows.shape[0]
    often = np.where(np.arange(n) % 3 == 0, 2, 1)
    weighted = Table(case.rows, repeats=often.astype(float))
    shares = np.random.default_rng(1).dirichlet(np.ones(3), n)
    repeated = Table(case.rows[np.repeat(np.arange(n), often)])
    a = fit(model, engine, weighted, start_from(model, weighted, shares))
    b = fit(model, engine, repeated, start_from(model, repeated, np.repeat(shares, often, axis=0)))
    np.testing.assert_allclose(a.trace.bound, b.trace.bound, rtol=SAME)
    # six steps amplify rounding
    np.testing.assert_allclose(a.counts["share"], b.counts["share"], rtol=1e-8, atol=1e-8)
    assert a.counts.n_units == b.counts.n_units == often.sum()


@every_family
def test_weight_zero_equals_no_row(case: FamilyCase) -> None:
    model, n = model_of(case, "dp"), case.rows.shape[0]
    keep = np.arange(n) % 4 != 1
    shares = np.random.default_rng(1).dirichlet(np.ones(3), n)
    table = Table(case.rows, repeats=keep.astype(float))
    fewer = Table(case.rows[np.flatnonzero(keep)])
    engine = BatchVB(max_iter=6, tol=0.0)
    a = fit(model, engine, table, start_from(model, table, shares))
    b = fit(model, engine, fewer, start_from(model, fewer, shares[keep]))
    np.testing.assert_allclose(a.trace.bound, b.trace.bound, rtol=SAME)


def labelled(case: FamilyCase) -> tuple[Table, np.ndarray, np.ndarray]:
    """A table in which every third row is known to belong to component 0, 1 or 2 of four; set 0
    allows all.
    """
    n = case.rows.shape[0]
    labels = np.where(np.arange(n) % 3 == 0, np.arange(n) // 3 % 3, -1)
    legal = np.concatenate([np.ones((1, 4)), np.eye(4)[:3]])
    return Table(case.rows, sets=labels + 1), labels, legal


@pytest.mark.covering
@every_family
@both
@pytest.mark.parametrize("engine", [MemoizedVB(n_batches=3, max_iter=8, tol=0.0, trace_visits=True),
                                    BatchVB(max_iter=8, tol=0.0, trace_visits=True)],
                                    ids=["memoized", "batch"])  # fmt: skip
def test_labelled_rows_go_to_their_component(
    case: FamilyCase, allocation: str, engine: Any
) -> None:
    """Also when components are reordered: labels follow permanent ids."""
    table, labels, legal = labelled(case)
    model = model_of(case, allocation)
    found = fit(model, engine, table, random_start(model, table, 4, 2, legal))
    shares = model.shares(model.potentials(found.counts, found.params, MeanLog()), table.whole())
    known = np.flatnonzero(labels >= 0)
    place = np.array([found.ids.index(c) for c in labels[known]])
    np.testing.assert_array_equal(shares[known, place], 1.0)
    assert_never_drops(found.trace.visits)
    decoded = model.decode(model.potentials(found.counts, found.params, MeanLog()), table.whole())
    np.testing.assert_array_equal(decoded[known], place)


@every_family
def test_bound_with_sets_is_below_the_bound_of_a_set_that_allows_all(case: FamilyCase) -> None:
    """A labelled local step is a restricted maximization: never above the free one for the same
    globals.
    """
    table, _, legal = labelled(case)
    model = model_of(case, "finite")
    start = random_start(model, table, 4, 2, legal)
    log_z = [
        model.local_step(
            model.potentials(start.seed, model.start_params(4, sets), MeanLog()), table.whole()
        )[0].log_z
        for sets in (legal, np.ones_like(legal))
    ]
    free = replace(table, sets=None).whole()
    plain = model.local_step(model.potentials(start.seed, model.start_params(4), MeanLog()), free)[
        0
    ].log_z
    assert log_z[0] < log_z[1]
    assert log_z[1] == plain


@pytest.mark.covering
@every_family
@both
def test_labelled_bound_never_above_the_evidence_of_the_labels(
    case: FamilyCase, allocation: str
) -> None:
    """All rows labelled: the finite bound is exactly log p(x, z), and the sticks' is log p(x, z)
    with sticks integrated out.
    """
    n, K = 6, 2
    labels = np.array([0, 1, 0, 0, 1, 0])
    table = Table(case.rows[:n], sets=labels)
    model = model_of(case, allocation)
    found = fit(
        model, BatchVB(max_iter=3, tol=0.0), table, random_start(model, table, K, 0, np.eye(K))
    )
    X = case.dense[:n]
    data = sum(
        case.oracle.log_marginal(X[labels == k], np.ones((labels == k).sum())) for k in range(K)
    )
    exact = data + _log_probability(labels, allocation)
    assert found.bound == pytest.approx(exact, abs=slack(exact))


def _log_probability(labels: np.ndarray, allocation: str) -> float:
    """Log p(z), concentration 1, shares integrated out."""
    N = np.bincount(labels).astype(float)
    if allocation == "dp":
        return mixture.l_dp_closed_form(N, 1.0)
    prior = np.full(len(N), 1.0 / len(N))
    return mixture.log_dirichlet(prior + N) - mixture.log_dirichlet(prior)
