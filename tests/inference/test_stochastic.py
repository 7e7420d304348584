"""Stochastic variational Bayes: steps, domains, unbiased batches, rates, bound of the result."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fitting import MODELS, blob_model, blobs, evidence, fit, random_start, slack, start_from
from registers import FAMILIES, FamilyCase

from stickbreak.data import Table
from stickbreak.inference import BatchVB, MeanLog, PowerDecay, Stochastic, StochasticVB, step
from stickbreak.initialize import from_previous
from stickbreak.stats import Tally

every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())


@pytest.mark.covering
@every_family
@pytest.mark.parametrize("allocation", list(MODELS))
def test_rate_one_on_all_rows_is_a_step_of_variational_bayes(
    case: FamilyCase, allocation: str
) -> None:
    model, n = MODELS[allocation](case.family, 1.0), case.rows.shape[0]
    engine = StochasticVB(batch_size=n, kappa=0.0, delay=0.0, max_iter=3, tol=0.0, reorder=False)
    stochastic = fit(model, engine, case.rows, 3)
    batch = fit(model, BatchVB(max_iter=3, tol=0.0, reorder=False), case.rows, 3)
    for name, array in batch.counts.arrays.items():
        np.testing.assert_allclose(
            stochastic.counts[name], array, rtol=1e-11, atol=1e-11, err_msg=name
        )
    # The bound of those globals is that of the next local step: between this lap's and the next.
    following = fit(model, BatchVB(max_iter=4, tol=0.0, reorder=False), case.rows, 3).bound
    assert batch.bound - slack(batch.bound) <= stochastic.bound <= following + slack(batch.bound)


@pytest.mark.covering
@every_family
@pytest.mark.parametrize(
    ("kappa", "delay"), [(0.0, 0.0), (0.5, 0.0), (0.6, 10.0), (1.0, 0.0), (1.0, 1000.0)]
)
def test_globals_stay_in_their_domain(case: FamilyCase, kappa: float, delay: float) -> None:
    """Any rate in (0, 1], batches of one and of seven rows: finite scores, no negative counts, a
    proper posterior.
    """
    model, n = MODELS["dp"](case.family, 1.0), case.rows.shape[0]
    for batch_size in (1, 7):
        engine = StochasticVB(batch_size=batch_size, kappa=kappa, delay=delay, max_iter=2, tol=0.0)
        found = fit(model, engine, case.rows, 4, seed=batch_size)
        assert (found.counts["share"] >= 0).all()
        assert found.counts["share"].sum() == pytest.approx(n, rel=1e-10)
        assert np.isfinite(found.bound)
        for rule in (case.family.mean_log, case.family.log_mean, case.family.mode):
            assert np.isfinite(rule(found.counts).evidence(case.family.prepare(case.rows))).all()
        for name, value in case.family.describe(found.counts).items():
            assert np.isfinite(value).all(), name
            if name == "covariance":
                assert np.linalg.eigvalsh(value).min() > 0


@every_family
def test_amplified_batches_average_to_the_full_statistics(case: FamilyCase) -> None:
    """Over every batch of one lap, weighted by their sizes: unbiased because rows are drawn
    uniformly.
    """
    model, table = MODELS["finite"](case.family, 1.0), Table(case.rows)
    start = random_start(model, table, 3)
    potentials = lambda batch: model.potentials(
        start.seed.restrict(batch.symbols), start.params, MeanLog()
    )
    full = model.local_step(potentials(table.whole()), table.whole())[0]
    plan = StochasticVB(batch_size=5).plan(table)
    mean = Tally(model.zeros(3))
    for lap in range(4):
        for batch in plan.lap(11, lap):
            new = model.local_step(potentials(batch), batch)[0]
            mean.add(new.scale(table.n_units / new.n_units / (4 * plan.n_batches)))
    for name, array in full.arrays.items():
        np.testing.assert_allclose(mean.view()[name], array, rtol=1e-11, atol=1e-11, err_msg=name)


def test_the_first_visit_sees_a_small_seed_as_it_is() -> None:
    """A few rows that were scaled to the data would be known for certain, and batch inference would
    begin elsewhere.
    """
    rows = blobs(60, 1)
    model, table = blob_model(rows), Table(rows)
    few = random_start(model, table, 3)
    few = replace(few, seed=few.seed.scale(0.05))
    engine = StochasticVB(batch_size=60, kappa=0.0, delay=0.0, max_iter=1, reorder=False)
    found, batch = (
        fit(model, each, table, few) for each in (engine, BatchVB(max_iter=1, reorder=False))
    )
    np.testing.assert_allclose(
        found.counts["moments"], batch.counts["moments"], rtol=1e-11, atol=1e-11
    )
    careful = fit(
        model,
        StochasticVB(batch_size=60, kappa=0.0, first_rate=0.25, max_iter=1, reorder=False),
        table,
        few,
    )
    expected = (
        0.75 * few.seed.scale(60.0 / few.seed.n_units)["moments"] + 0.25 * batch.counts["moments"]
    )
    np.testing.assert_allclose(careful.counts["moments"], expected, rtol=1e-11, atol=1e-11)


def test_each_lap_draws_every_row_once_and_anew() -> None:
    rows = np.arange(103.0)[:, None]
    plan = StochasticVB(batch_size=10).plan(Table(rows))
    first, second = ([b.rows.ravel().tolist() for b in plan.lap(0, lap)] for lap in (0, 1))
    assert len(first) == plan.n_batches == 10
    assert {len(part) for part in first} == {10, 11}
    assert sorted(row for part in first for row in part) == rows.ravel().tolist()
    assert first != second
    assert first == [b.rows.ravel().tolist() for b in plan.lap(0, 0)]


def test_schedule() -> None:
    assert PowerDecay(kappa=0.9, delay=10.0).rate(1) == pytest.approx(11**-0.9, rel=1e-15)
    assert PowerDecay(kappa=0.6, delay=10.0).rate(5) == pytest.approx(15**-0.6, rel=1e-15)
    assert PowerDecay(kappa=1.0, delay=0.0).rate(1) == 1.0
    published = PowerDecay(kappa=0.5, delay=1.0)  # (1 + m) ** -0.5
    assert [published.rate(m) for m in (1, 99)] == pytest.approx([0.5**0.5, 0.1], rel=1e-15)
    for schedule in (PowerDecay(), PowerDecay(1.0, 40.0, 1.0), PowerDecay(0.6, 10.0, 0.3)):
        rates = [schedule.rate(t) for t in range(1, 100)]
        assert all(0 < later < earlier <= 1 for earlier, later in pairwise(rates))


def test_schedule_from_a_first_step_of_a_given_size() -> None:
    held = PowerDecay(kappa=1.0, delay=40.0, first=1.0)
    assert [held.rate(t) for t in (1, 42)] == pytest.approx([1.0, 0.5], rel=1e-15)
    plain, same = PowerDecay(0.7, 5.0), PowerDecay(0.7, 5.0, first=6.0**-0.7)
    assert [same.rate(t) for t in (1, 3, 90)] == pytest.approx(
        [plain.rate(t) for t in (1, 3, 90)], rel=1e-14
    )


def test_a_step_uses_the_rate_of_its_number() -> None:
    rows = blobs(40, 1)
    model, table = blob_model(rows), Table(rows)
    start = random_start(model, table, 3)
    accumulator = Stochastic(40.0, 40.0, PowerDecay(0.7, 2.0))
    state = accumulator.begin(start, (0, 1, 2), 4)
    for t, batch in enumerate(StochasticVB(batch_size=10).plan(table).lap(0, 0), start=1):
        before = {name: array.copy() for name, array in state.total.view().arrays.items()}
        new = step(model, MeanLog(), accumulator, state, batch)
        rate = (2.0 + t) ** -0.7
        expected = (1 - rate) * before["moments"] + rate * 40.0 / new.n_units * new["moments"]
        np.testing.assert_allclose(state.total.view()["moments"], expected, rtol=1e-13, atol=1e-12)


def test_batches_in_which_no_row_counts_do_no_harm() -> None:
    rows, weights = blobs(40, 1), np.where(np.arange(40) % 2, 0.0, 1.0)
    model, table = blob_model(rows), Table(rows, repeats=weights)
    found = fit(model, StochasticVB(batch_size=1, max_iter=2, tol=0.0), table, 3)
    assert np.isfinite(found.bound)
    # Rows are drawn whatever their weight, and scaled by their number: unbiased, so 20 on average,
    # with the noise of single rows.
    assert 10.0 < found.counts["share"].sum() < 40.0


def test_a_first_step_of_size_one_forgets_the_start() -> None:
    rows = blobs(60, 1)
    model, table = blob_model(rows), Table(rows)
    engine = StochasticVB(batch_size=20, first_rate=1.0)
    accumulator, batch = engine.accumulator(table), next(iter(engine.plan(table).lap(0, 0)))
    state = accumulator.begin(random_start(model, table, 3), (0, 1, 2), 3)
    new = step(model, MeanLog(), accumulator, state, batch)
    np.testing.assert_allclose(state.total.view()["moments"], 3.0 * new["moments"], rtol=1e-13)


@pytest.mark.parametrize(
    "settings",
    [
        {"kappa": 2.0},
        {"kappa": -0.1},
        {"delay": -1.0},
        {"batch_size": 0},
        {"first_rate": 0.0},
        {"first_rate": 1.5},
        {"first_rate": "1"},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    rows = blobs(20, 1)
    with pytest.raises(ValueError, match=next(iter(settings))):
        fit(blob_model(rows), StochasticVB(**settings), rows, 2)


# ---- the bound of the result ---------------------------------------------------------------------
@pytest.mark.covering
@every_family
@pytest.mark.parametrize("allocation", list(MODELS))
def test_final_bound_is_never_above_the_evidence(case: FamilyCase, allocation: str) -> None:
    table = Table(case.rows[:5])
    model = MODELS[allocation](case.family, 1.0)
    exact = evidence(case.oracle, table.rows, allocation, 2)
    for seed in range(4):
        engine = StochasticVB(batch_size=2, max_iter=1 + 5 * seed, tol=0.0)
        assert fit(
            model, engine, table, random_start(model, table, 2, seed), seed=seed
        ).bound <= exact + slack(exact)


@every_family
def test_final_bound_is_below_that_of_one_more_batch_lap(case: FamilyCase) -> None:
    """A lap of batch VB from the same globals maximizes over shares and then over globals: it can
    only be higher.
    """
    model, table = MODELS["dp"](case.family, 1.0), Table(case.rows)
    for seed in range(3):
        found = fit(
            model,
            StochasticVB(batch_size=6, max_iter=4, tol=0.0),
            table,
            random_start(model, table, 3, seed),
            seed=seed,
        )
        start = from_previous(found.counts, found.params, found.ids, table.n_units)
        better = fit(model, BatchVB(max_iter=1), table, start).bound
        assert found.bound <= better + slack(better)


@pytest.mark.slow
@pytest.mark.parametrize("allocation", list(MODELS))
def test_final_bound_comes_near_that_of_batch_and_not_above_it(allocation: str) -> None:
    rows = blobs(2000, 8, spread=12.0)
    model, table = blob_model(rows, allocation), Table(rows)
    labels = ((rows[:, None] - rows[None, [0, 1, 2]]) ** 2).sum(-1).argmin(1)
    start = start_from(model, table, 0.9 * np.eye(3)[labels] + 0.1 / 3)
    batch = fit(model, BatchVB(max_iter=100, tol=0.0), table, start).bound
    stochastic = fit(
        model, StochasticVB(batch_size=100, kappa=0.9, max_iter=30, tol=0.0), table, start
    ).bound
    assert stochastic <= batch + slack(batch)
    # the last rate is 1/250: noise of a few thousandths of a nat per row
    assert stochastic >= batch - 0.005 * len(rows)


def test_there_is_no_bound_on_the_way() -> None:
    rows = blobs(100, 1)
    found = fit(
        blob_model(rows),
        StochasticVB(batch_size=10, max_iter=3, tol=0.0, trace_visits=True),
        rows,
        3,
    )
    assert np.isnan(found.trace.bound).all()
    assert found.trace.visits == []
    assert np.isfinite(found.trace.log_z).all()
