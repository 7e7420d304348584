"""Fits whose temporary files meet a full disk: the same bits, one warning, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disks import SIZE, Filling, mounted, small_disk  # noqa: F401

import stickbreak as sb
from stickbreak.data import room
from stickbreak.inference import MemoizedVB, read_checkpoint
from tests.inference.killed_spills import NAMES

KILLER = Path(__file__).parent / "killed_spills.py"
KILLS = int(os.environ.get("STICKBREAK_KILLS", "5"))  # of each kind
RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=(600, 6)) + 4 * RNG.normal(size=(4, 6))[RNG.integers(0, 4, 600)]
WORDS = RNG.multinomial(40, RNG.dirichlet(np.full(60, 0.1), 5)[RNG.integers(0, 5, 120)].squeeze())

Make = Callable[[Any], Any]
KINDS: dict[str, tuple[Make, Any, dict[str, Any]]] = {
    "mixture": (lambda engine: sb.Mixture(12, inference=engine, random_state=0), ROWS, {}),
    "hmm": (
        lambda engine: sb.HMM(12, inference=engine, random_state=0),
        ROWS,
        {"lengths": [50] * 12},
    ),
    "hdp-hmm": (
        lambda engine: sb.HDPHMM(12, inference=engine, random_state=0),
        ROWS,
        {"lengths": [50] * 12},
    ),
    "topics": (
        lambda engine: sb.LatentDirichletAllocation(24, inference=engine, random_state=0),
        WORDS,
        {},
    ),
}


def engine(**settings: Any) -> MemoizedVB:
    return MemoizedVB(**{"n_batches": 12, "max_iter": 4, "tol": 0.0, **settings})


def fitted(kind: str, inference: MemoizedVB) -> tuple[Any, list[str]]:
    """The model, and the warnings of its fit other than that of max_iter."""
    make, X, given = KINDS[kind]
    with pytest.warns(sb.StickbreakWarning) as caught:
        model = make(inference).fit(X, **given)
    return model, [str(w.message) for w in caught if w.category is sb.StickbreakWarning]


def assert_same(model: Any, other: Any) -> None:
    assert model.lower_bound_ == other.lower_bound_
    np.testing.assert_array_equal(model.counts_, other.counts_)
    np.testing.assert_array_equal(model.labels_, other.labels_)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_goes_on_in_memory_when_its_spill_fills_the_disk(
    kind: str,
    small_disk: Filling,  # noqa: F811
) -> None:
    plain, silent = fitted(kind, engine())
    with small_disk():
        spilled, said = fitted(kind, engine(memory_limit=0))
    assert silent == []
    assert len(said) == 1
    assert "so counts of batches beyond memory_limit stay in memory; set TMPDIR" in said[0]
    assert_same(spilled, plain)


def test_a_checkpoint_is_written_when_its_shelf_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain = tmp_path / "fit.checkpoint", fitted("mixture", engine())[0]
    monkeypatch.setattr("stickbreak.inference.checkpoints.SHELF_BYTES", 0)
    with mounted(tmp_path / "small", SIZE) as folder:
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        model, said = fitted("mixture", engine(checkpoint=path, checkpoint_every=0.0))
        assert {line.split(", so ")[1] for line in said} == {
            "arrays of a checkpoint stay in memory; set TMPDIR to a folder with more space"
        }
    assert_same(model, plain)
    assert read_checkpoint(path)[1].state.lap == 4
    with pytest.warns(sb.ConvergenceWarning):
        assert_same(sb.resume(path, ROWS), plain)


class TakeMemory(sb.Callback):
    """No memory is available after a lap, and after another one the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lap: int) -> None:
        self.monkeypatch, self.lap = monkeypatch, lap

    def on_lap(self, record: Any) -> None:
        if record.lap == self.lap:
            fail(self.monkeypatch)


def fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stickbreak.data.spill.write_all", write)
    monkeypatch.setattr(room, "available_memory", lambda: 0.0)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_without_disk_and_memory_a_fit_ends_with_what_it_has(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    two_laps, _ = fitted(kind, engine(max_iter=2))
    with monkeypatch.context() as patch:
        ended, said = fitted(kind, engine(memory_limit=0, callbacks=(TakeMemory(patch, 2),)))
    assert len(said) == 1
    assert said[0].startswith("the fit ended after lap 2, with what it has found: no room for ")
    assert ended.n_iter_ == 2
    assert not ended.converged_
    # the total is summed afresh from what is remembered, in another order
    assert ended.lower_bound_ == pytest.approx(two_laps.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(ended.counts_, two_laps.counts_, rtol=1e-9, atol=1e-9)
    ended.save(tmp_path / "model.stickbreak")
    assert sb.load(tmp_path / "model.stickbreak").lower_bound_ == ended.lower_bound_


def test_a_fit_that_finds_no_room_in_its_first_lap_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, X, _ = KINDS["mixture"]
    fail(monkeypatch)
    with pytest.raises(sb.NoRoomError, match=r"no room for counts of batches .*; set TMPDIR"):
        make(engine(memory_limit=0)).fit(X)


def test_a_checkpoint_without_disk_and_memory_does_not_cost_the_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain, _ = fitted("mixture", engine())
    monkeypatch.setattr("stickbreak.inference.checkpoints.SHELF_BYTES", 0)
    fail(monkeypatch)
    inference = engine(checkpoint=tmp_path / "fit.checkpoint", checkpoint_every=0.0)
    model, said = fitted("mixture", inference)
    assert {line.split(":")[0] for line in said} == {
        f"no checkpoint could be written to {tmp_path / 'fit.checkpoint'}"
    }
    assert_same(model, plain)


def test_starts_after_one_that_finds_no_room_are_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        inference = engine(memory_limit=0, callbacks=(TakeMemory(patch, 2),))
        with pytest.warns(sb.StickbreakWarning, match="ended after lap 2") as caught:
            model = sb.Mixture(3, n_init=3, inference=inference, random_state=0).fit(ROWS)
    assert len(caught) == 1
    assert model.n_iter_ == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_killed_on_a_small_disk_and_resumed_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    """SIGKILL at random moments after the first checkpoint, two threads."""
    with mounted(tmp_path / "small", 4 * SIZE) as disk:
        done = subprocess.run(
            [sys.executable, str(KILLER), str(tmp_path), str(disk), str(KILLS), name],
            env={**os.environ, "TMPDIR": str(disk), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=120 * KILLS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["killed"], found["same"], found["left"]) == (KILLS, KILLS, [])
