"""Births, merges and deletes find the number of components of every double, whatever it is made
of.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles.cases import CASES, MOVING
from doubles.data import random_start

from stickbreak.inference import BatchVB, Callback, MemoizedVB, read_checkpoint, run, workers
from stickbreak.moves import Birth, Delete, Merge

ALL = (Birth(), Merge(), Delete())


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Tables are tiny: threads of BLAS would only wait for each other."""
    with workers(1):
        yield


def engine(n_batches, moves):
    return MemoizedVB(
        n_batches=n_batches, max_iter=200, tol=1e-4, moves=list(moves), trace_visits=True
    )


def start_of(case, n_batches, n_components):
    return random_start(case.model, case.data.batches(n_batches), n_components)


def fit(name, n_batches, n_components, moves):
    case = MOVING[name]
    result = run(
        case.model, engine(n_batches, moves), case.data, start_of(case, n_batches, n_components)
    )
    bounds = np.array(result.trace.visits)
    drop = (bounds[:-1] - bounds[1:]) / np.maximum(1.0, np.abs(bounds[:-1]))
    assert drop.max() <= 1e-10
    assert result.is_converged
    accepted = [record for record in result.trace.moves if record.is_accepted]
    assert all(record.gain > -1e-10 * abs(result.bound) for record in accepted)
    return result, {record.kind for record in accepted}


@pytest.mark.slow
@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("name", ["tree", "annotation"])
def test_births_divide_a_single_component(name, n_batches):
    result, kinds = fit(name, n_batches, 1, ALL)
    assert "birth" in kinds
    assert len(result.ids) > 1
    # ids of components that are gone are not used again
    assert max(result.ids) >= len(result.ids) - 1


@pytest.mark.slow
@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("kind", [Merge, Delete])
@pytest.mark.parametrize("name", ["tree", "annotation"])
def test_merges_and_deletes_each_remove_what_is_too_many(name, kind, n_batches):
    result, kinds = fit(name, n_batches, 4, [kind()])
    assert kinds == {kind.kind}
    assert len(result.ids) < 4
    assert set(result.ids) < set(range(4))


@pytest.mark.slow
def test_all_moves_together_begin_with_too_many():
    result, kinds = fit("document-rest", 3, 6, ALL)
    assert kinds
    assert 1 < len(result.ids) < 6


@pytest.mark.slow
def test_a_tried_merge_keeps_the_elder_id():
    case = MOVING["annotation"]
    start = replace(start_of(case, 1, 4), ids=(9, 7, 5, 3))
    result = run(case.model, engine(1, [Merge()]), case.data, start)
    for record in result.trace.moves:
        assert record.children == ((min(record.parents),) if record.is_accepted else ())
    assert len(result.ids) < 4


class StopAt(Callback):
    def __init__(self, lap: int) -> None:
        self.lap = lap

    def on_lap(self, record):
        if record.lap == self.lap:
            raise KeyboardInterrupt


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "n_jobs"), [("document", 1), ("annotation", 2)])
def test_a_fit_with_moves_resumes_bit_for_bit(name, n_jobs, tmp_path):
    """Stopped before and after the birth: what was tried is in the checkpoint."""
    case = CASES[name]
    given = case.model, replace(engine(3, ALL), max_iter=4), case.data
    whole = run(*given, start_of(case, 3, 1))
    (birth, *_) = [record for record in whole.trace.moves if record.is_accepted]
    for lap in (birth.lap - 1, birth.lap):
        path = tmp_path / f"{lap}"
        stopped = replace(given[1], checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(lap),))
        run(case.model, stopped, case.data, start_of(case, 3, 1))
        with workers(n_jobs) as pool:
            again = run(*given, read_checkpoint(path)[1], pool=pool)
        assert again.ids == whole.ids
        assert again.trace.visits == whole.trace.visits
        assert all((again.counts[n] == whole.counts[n]).all() for n in whole.counts)


@pytest.mark.parametrize("move", ALL, ids=lambda move: move.kind)
def test_components_that_the_data_name_refuse_moves(move):
    case = CASES["alignment"]
    with pytest.raises(
        ValueError, match=r"components of Alignment are named by the data.*moves=None"
    ):
        run(case.model, BatchVB(moves=[move]), case.data, start_of(case, 1, 6))
    with pytest.raises(ValueError, match="max_active=2 is not for Alignment"):
        run(case.model, BatchVB(max_active=2), case.data, start_of(case, 1, 6))
