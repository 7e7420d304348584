"""Benchmarks run, and say what they compare; their figures are taken elsewhere, on an idle
machine.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import chain_laps, laps, scale_model, table_sweeps, threads
from benchmarks.run import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_has_a_module(name):
    assert importlib.util.find_spec(f"benchmarks.{name}") is not None


def test_laps_of_chains_are_reported(monkeypatch):
    monkeypatch.setattr(chain_laps, "N_ROWS", 20_000)
    monkeypatch.setattr(chain_laps, "MORE_ROWS", 40_000)
    monkeypatch.setattr(chain_laps, "CASES", [(3, 50), (4, 100)])
    report = chain_laps.run(quick=True)
    assert [row.what for row in report.rows[:2]] == [
        "2000 rows in sequences of 50, K=3",
        "2000 rows in sequences of 100, K=4",
    ]
    # cases; and for each two sizes and two models, by wall clock and by CPU time
    assert len(report.rows) == 2 + 2 * 2 * 2 * 2
    for row in report.rows:
        assert float(row.ratio.removesuffix("x")) > 0
        assert row.met is None  # a quick run judges nothing
    assert {row.target for row in report.rows} == {"at most 1.2x", "1.5x", "-"}
    assert (
        "| 2000 rows in sequences of 50, K=3, HDP-HMM: wall clock of a lap |" in report.markdown()
    )


@pytest.mark.parametrize("name", chain_laps.MODELS)
def test_laps_of_chains_are_those_of_a_fit(name):
    """The bound rises, and is that of the engine after as many laps."""
    found = chain_laps.make_laps(3, 50, 1000)[name]
    for _ in range(3):
        found.lap()
    bounds = found.bounds[1:]  # in the first lap the seed stands in for the total
    assert all(after >= before - 1e-10 * abs(before) for before, after in pairwise(bounds))
    assert found.state.counts["transition"].sum() == pytest.approx(20 * 49)
    assert np.isfinite(bounds).all()


@pytest.mark.slow  # compiles sweeps of chains
def test_sweeps_with_and_without_table_counts_are_compared(monkeypatch):
    monkeypatch.setattr(table_sweeps, "CASES", [(3, 20)])
    (row,) = table_sweeps.run(quick=True).rows
    assert row.what == "2000 symbols in sequences of 20, K=3"
    assert float(row.ratio.removesuffix("x")) > 0
    assert row.met is None
    assert row.target == "at most 2x"


def test_walks_stay_ten_rows_on_average():
    data = laps.walks(20_000, 1000, 5)
    assert data.n_spans == 20
    assert data.rows.shape == (20_000, 2)
    # two standard normals differ by less, two centers by more
    near = np.linalg.norm(np.diff(data.rows, axis=0), axis=1) < 4.0
    assert 0.85 < near.mean() < 0.98


def test_threads_are_not_judged_on_a_busy_machine():
    speeds = threads.Speeds(2.0, 1.0, 2.0, 2.0)
    assert speeds.rows("case", False)[0].met is None
    assert speeds.rows("case", True)[0].met is True
    assert not threads.is_idle(None)
    assert not threads.is_idle(0.5)
    assert "unknown share" in threads.idle_note(None)


def test_what_others_use_is_a_share():
    used = threads.others(0.05)
    assert used is None or 0.0 <= used <= 1.0


def test_a_lap_of_equal_lanes_costs_its_rounds_and_what_travels():
    costs = scale_model.Costs(row=1e-6, task=1e-3, begin=2e-3, visit=0.1, bandwidth=math.inf)
    lanes = np.full(64, 65_536.0)
    one = scale_model.Work(lanes)
    assert scale_model.lap(costs, one, 1) == pytest.approx(
        0.1 + 64 * 0.065536 + 2 * 0.002 + 0.001, rel=1e-3
    )  # two tasks on one worker
    free = scale_model.Costs(row=1e-6, task=0.0, begin=0.0, visit=0.0, bandwidth=math.inf)
    assert scale_model.speedup(free, one, 64) == pytest.approx(64, rel=0.2)  # latencies
    capped = scale_model.Work(np.full(16, 4 * 65_536.0))
    assert scale_model.speedup(free, capped, 64) < 16
    far = scale_model.Costs(row=1e-6, task=0.0, begin=0.0, visit=0.0)
    tree = scale_model.Work(lanes, received=4e7)
    alone = scale_model.Work(lanes, received=4e7, has_tree=False)
    assert scale_model.lap(far, tree, 64) < scale_model.lap(far, alone, 64)
    # sums are asked for while tasks run: they cost nothing until there are too many
    told = replace(far, task=1e-3, pair=1e-3)
    assert scale_model.lap(told, tree, 2) == scale_model.lap(replace(told, pair=0.0), tree, 2)
    waited = scale_model.lap(replace(told, row=0.0), tree, 64)
    assert waited == pytest.approx(
        64e-3 + 63e-3 + scale_model.lap(replace(far, row=0.0), tree, 64), rel=1e-9
    )


def test_the_longest_tasks_first_leave_little_to_wait_for():
    assert scale_model.makespan([1.0, 1.0, 2.0], 2) == 2.0
    assert scale_model.makespan([3.0, 3.0, 2.0, 2.0, 2.0], 2) == 7.0
    assert scale_model.makespan([1.0] * 4, 4, each=1.0) == 5.0
    lengths = scale_model.genome()
    assert len(lengths) == 173
    assert lengths.sum() == pytest.approx(15_400_000, rel=1e-4)
    assert 2.3 < lengths.max() / lengths.mean() < 2.5
