"""A compiled collapsed sweep plugs in as a structure's method and a rule: the engine does not know
it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from doubles.cases import CASES
from doubles.data import begin, random_seed, random_start
from doubles.sweep import ExcludeOwn

import stickbreak
from stickbreak.inference import (
    LogMean,
    Memoized,
    MemoizedVB,
    MonitorStopping,
    SpillingMemory,
    read_checkpoint,
    run,
    workers,
)
from stickbreak.inference.loop import step
from stickbreak.kernels.compile import cache_folder
from stickbreak.stats import Merge, Permute, Tally

CHAINS = ["chain", "chain-own-vocabulary", "chain-gaussian"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Collapsed(MemoizedVB):
    """Collapsed inference as an engine: another rule, the same accumulator."""

    n_lanes: int = 1

    def rule(self):
        return ExcludeOwn(self.n_lanes)

    def stopping(self):
        return MonitorStopping(self.tol, patience=self.max_iter)


def plain_sweep(model, counts, batch, own):
    """One lap through the contract: a unit's counts out, predictive potentials, infer,
    counts in.
    """
    new = []
    for u in range(batch.n_spans):
        counts = counts if own is None else counts - own[u]
        potentials = model.potentials(
            counts, model.start_params(counts.size(model.axis)), LogMean()
        )
        new.append(model.local_step(potentials, batch.part(u, u + 1).alone())[0])
        counts = counts + new[-1]
    return new


def added(parts):
    total = Tally(parts[0])
    for part in parts[1:]:
        total.add(part)
    return total.summary()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CHAINS)
def test_compiled_sweep_equals_the_plain_loop(name):
    model, batch = CASES[name].model, CASES[name].data.batches(1)[0]
    params, warm, own = model.start_params(4), None, None
    counts = random_seed(model, [batch], 4).restrict(batch.symbols)
    for _ in range(3):
        expected = plain_sweep(model, counts, batch, own)
        found, warm = ExcludeOwn().visit(model, counts, params, batch, warm, (), map)
        total = added(expected)
        for field in found:
            np.testing.assert_allclose(found[field], total[field], rtol=0, atol=1e-8, err_msg=field)
        assert found.log_z == pytest.approx(total.log_z, abs=1e-8)
        assert found.n_units == batch.n_units
        np.testing.assert_allclose(
            warm["pairs"], [part["transition"] for part in expected], atol=1e-8
        )
        counts, own = found, expected


def test_sweep_of_moments_about_anchors_equals_the_plain_loop():
    """A Gaussian whose components have reference points of their own."""
    model, batch = CASES["chain-gaussian"].model, CASES["chain-gaussian"].data.whole()
    counts = random_seed(model, [batch], 3)
    counts = stickbreak.stats.Reanchor("anchor", np.array([[0.5, -0.3], [0.0, 0.0], [2.0, 1.0]]))(
        counts
    )
    expected = added(plain_sweep(model, counts, batch, None))
    found, _ = ExcludeOwn().visit(model, counts, model.start_params(3), batch, None, (), map)
    np.testing.assert_allclose(found["moments"], expected["moments"], atol=1e-8)
    np.testing.assert_array_equal(found["anchor"], counts["anchor"])


@pytest.mark.covering
@pytest.mark.parametrize("n_batches", [1, 4])
@pytest.mark.parametrize("name", CHAINS)
def test_collapsed_engine_improves_the_predictive(name, n_batches):
    case = CASES[name]
    start = random_start(case.model, case.data.batches(n_batches), 4, seed=1)
    result = run(case.model, Collapsed(n_batches=n_batches, max_iter=12, tol=0.0), case.data, start)
    assert result.trace.log_z[-1] > result.trace.log_z[1]
    assert np.isnan(result.trace.bound).all()
    assert result.counts["transition"].sum() + result.counts["initial"].sum() == pytest.approx(
        len(case.data.rows), rel=1e-9
    )


@pytest.mark.parametrize("name", CHAINS)
def test_workers_do_not_change_a_bit(name):
    case, results = CASES[name], []
    for n_jobs in (1, 2):
        with workers(n_jobs) as pool:
            start = random_start(case.model, case.data.batches(2), 4)
            results.append(
                run(
                    case.model,
                    Collapsed(n_batches=2, n_lanes=3, max_iter=3),
                    case.data,
                    start,
                    pool=pool,
                )
            )
    for field in results[0].counts:
        np.testing.assert_array_equal(results[0].counts[field], results[1].counts[field])
    assert (results[0].trace.log_z == results[1].trace.log_z).all()


def laps(model, state, batches, n_laps):
    for _ in range(n_laps):
        for batch in batches:
            step(model, ExcludeOwn(), Memoized(), state, batch)
        Memoized().end_lap(state)


@pytest.mark.parametrize("name", CHAINS)
def test_own_counts_follow_the_edits(name):
    """Own counts of units are warm starts: after a merge and an order they still add up to the
    batch's and to the total.
    """
    case = CASES[name]
    batches = case.data.batches(3)
    state = begin(case.model, batches, 4)
    laps(case.model, state, batches, 2)
    state.edit(Merge("state", 1, 3))
    state.edit(Permute("state", (2, 0, 1)))
    pairs = np.zeros((3, 3))
    for batch in batches:
        visit = state.recall(batch)
        np.testing.assert_allclose(
            visit.warm["pairs"].sum(0), visit.summary["transition"], atol=1e-10
        )
        np.testing.assert_allclose(
            visit.warm["rows"][batch.offsets[:-1]].sum(0), visit.summary["initial"], atol=1e-10
        )
        pairs += visit.warm["pairs"].sum(0)
    np.testing.assert_allclose(state.total.view()["transition"], pairs, atol=1e-10)
    laps(case.model, state, batches, 2)
    found = state.total.view()
    assert found["transition"].sum() + found["initial"].sum() == pytest.approx(
        len(case.data.rows), rel=1e-9
    )


@pytest.mark.parametrize("name", CHAINS)
def test_spilled_own_counts_change_no_bit(name, tmp_path):
    case, totals = CASES[name], []
    batches = case.data.batches(3)
    for memory in (None, SpillingMemory(1, tmp_path)):
        state = begin(case.model, batches, 4)
        state.memory = state.memory if memory is None else memory
        laps(case.model, state, batches, 3)
        totals.append(state.total.snapshot())
    assert memory.n_spilled == 3
    for field in totals[0]:
        np.testing.assert_array_equal(totals[0][field], totals[1][field])


def test_checkpoint_keeps_own_counts(tmp_path):
    case = CASES["chain"]
    start = lambda: random_start(case.model, case.data.batches(3), 4)
    engine = Collapsed(n_batches=3, max_iter=3, checkpoint=tmp_path / "fit", checkpoint_every=0.0)
    run(case.model, engine, case.data, start())
    _, snapshot = read_checkpoint(tmp_path / "fit")
    longer = replace(engine, max_iter=5, checkpoint=None)
    again, whole = (
        run(case.model, longer, case.data, snapshot),
        run(case.model, longer, case.data, start()),
    )
    for field in whole.counts:
        np.testing.assert_array_equal(whole.counts[field], again.counts[field])


PROCESS = """
from doubles.cases import CASES
from doubles.data import random_seed
from doubles.sweep import ExcludeOwn, sweep_chain
for name in ("chain", "chain-gaussian"):
    model, batch = CASES[name].model, CASES[name].data.whole()
    counts = random_seed(model, [batch], 4)
    ExcludeOwn().visit(model, counts, model.start_params(4), batch, None, (), map)
found = sweep_chain.stats
print(sum(found.cache_hits.values()), sum(found.cache_misses.values()))
"""


def run_process():
    """Hits and misses of the sweep in the on-disk cache, as a new process finds it."""
    paths = [str(Path(stickbreak.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "NUMBA_CACHE_DIR": str(cache_folder()),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], env=environment, capture_output=True, text=True, check=True
    )
    return tuple(int(number) for number in done.stdout.split())


@pytest.mark.slow
def test_second_process_finds_the_sweep_on_disk():
    files = lambda: sorted(path.name for path in cache_folder().rglob("sweep.sweep_chain*.nb?"))
    assert sum(run_process()) == 2  # one signature for each family: compiled, or found
    before = files()
    assert len(before) >= 3  # an index and two compiled signatures
    assert run_process() == (2, 0)
    assert files() == before
