"""Ranges of rows of shards by reference are the rows themselves."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stickbreak as sb
from stickbreak.data import Batch, Sequences, Table, picked_rows
from stickbreak.data.picked_rows import PickedRows

SIZES = [7, 1, 5, 12]
ROWS = np.arange(2.0 * sum(SIZES)).reshape(-1, 2)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("shards")
    write(folder)
    return sb.open_shards(str(folder / "*.npy")).rows


def write(folder: Path) -> None:
    for i, part in enumerate(np.split(ROWS, np.cumsum(SIZES)[:-1])):
        np.save(folder / f"part{i}.npy", part)


CHOSEN = st.sets(st.integers(0, len(ROWS) - 1), min_size=1)
LAW = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine
)


@LAW
@given(CHOSEN, st.integers(0, len(ROWS)), st.integers(0, len(ROWS)))
def test_picked_rows_and_their_slices_are_those_of_the_table(
    shards: Any, chosen: set[int], lo: int, hi: int
) -> None:
    at = np.array(sorted(chosen))
    picked = PickedRows.at(shards, at)
    assert picked.shape == (len(at), 2)
    np.testing.assert_array_equal(np.asarray(picked), ROWS[at])
    lo, hi = sorted((min(lo, len(at)), min(hi, len(at))))
    part = picked[lo:hi]
    if hi > lo:
        np.testing.assert_array_equal(part.load(), ROWS[at[lo:hi]])
        np.testing.assert_array_equal(part[0:1].load(), ROWS[at[lo : lo + 1]])
    assert len(part) == hi - lo


@LAW
@given(CHOSEN)
def test_lanes_of_picked_rows_lie_within_one_file(shards: Any, chosen: set[int]) -> None:
    at = np.array(sorted(chosen))
    lanes = Batch(0, PickedRows.at(shards, at)).lanes()
    owner = np.searchsorted(np.cumsum(SIZES), at, "right")
    assert sum(lane.n_rows for lane in lanes) == len(at)
    for lane in lanes:
        own = owner[lane.row_at : lane.row_at + lane.n_rows]
        assert len(set(own.tolist())) == 1
        assert len(lane.rows.files) == 1


def test_lanes_by_work_end_with_files(shards: Any) -> None:
    batch = Batch(0, shards, np.array([0, 3, 7, 8, 10, 13, 25]))
    work = np.array([0.5, 9.0, 2.0, 3.0, 4.0, 1.0])
    assert [lane.n_rows for lane in batch.lanes(work=work)] == SIZES


def test_many_rows_are_taken_by_reference_and_few_are_read(
    shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picked_rows, "FEW_ROWS", 5)
    sequences = Sequences(shards, offsets=np.array([0, 7, 8, 13, 25]))
    for data, few, many in (
        (Table(shards), np.arange(4), np.arange(2, 20, 3)),
        (sequences, np.array([1]), np.array([0, 2])),
    ):
        assert not data.take(few).is_by_reference
        batch = data.take(many)
        assert batch.is_by_reference
        inside = np.arange(2, 20, 3) if data is not sequences else np.r_[0:7, 8:13]
        np.testing.assert_array_equal(batch.loaded().rows, ROWS[inside])
        assert len(pickle.dumps(batch.lanes()[0])) < 1_500
