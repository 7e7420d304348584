"""Checkpoints: resuming continues bit for bit, damaged files say so, and a killed process loses
nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fitting import (
    MODELS,
    StopAt,
    StoppedError,
    assert_same_fit,
    blob_model,
    blobs,
    fit,
    random_start,
)
from moving import CASES as MOVING_CASES
from registers import FAMILIES

import stickbreak as sb
from stickbreak import families
from stickbreak.data import Table
from stickbreak.errors import CheckpointError, ModelFileError
from stickbreak.inference import EM, BatchVB, HardEM, MemoizedVB, StochasticVB, read_checkpoint, run
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.persist import read_file, write_file
from stickbreak.priors import GammaPrior

ROWS = blobs(60, 3)
MODEL = blob_model(ROWS)
ENGINES = {
    "memoized": MemoizedVB(n_batches=5, max_iter=6, tol=0.0, trace_visits=True),
    "fixed-order": MemoizedVB(
        n_batches=5, max_iter=6, tol=0.0, shuffle=False, reorder=False, trace_visits=True
    ),
    "spilled": MemoizedVB(n_batches=5, max_iter=6, tol=0.0, memory_limit=0, trace_visits=True),
    "batch": BatchVB(max_iter=6, tol=0.0, trace_visits=True),
    "stochastic": StochasticVB(batch_size=12, max_iter=6, tol=0.0),
    "em": EM(max_iter=6, tol=0.0),
    "hard-em": HardEM(max_iter=6, tol=0.0),
}
every_engine = pytest.mark.parametrize("name", ENGINES)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of checkpoints are written here, none of which need outlive the test."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def with_settings(engine: Any, **settings: Any) -> Any:
    return type(engine)(**{**engine.get_params(deep=False), **settings})


def stop_and_resume(
    model: Any, engine: Any, table: Table, start: Any, path: Path, step: int
) -> Any:
    """Die at a visit, read the file, go on."""
    saved = with_settings(engine, checkpoint=path, checkpoint_every=0.0)
    with pytest.raises(StoppedError):
        run(model, with_settings(saved, callbacks=(StopAt(step),)), table, start, seed=7)
    _, snapshot = read_checkpoint(path)
    assert snapshot.state.n_steps == step - 1
    return run(model, saved, table, snapshot, seed=7)


@pytest.mark.few(2)
@every_engine
def test_resuming_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    """Wherever it stopped: in the first lap, in the middle of one, at its end."""
    engine, table = ENGINES[name], Table(ROWS)
    start = random_start(MODEL, table, 4)
    undisturbed = run(MODEL, engine, table, start, seed=7)
    steps = (
        range(2, undisturbed.n_steps + 1)
        if undisturbed.n_steps < 10
        else (2, 4, 6, 7, 11, 14, 22, 30)
    )
    for step in steps:
        resumed = stop_and_resume(MODEL, engine, table, start, tmp_path / "fit.checkpoint", step)
        assert_same_fit(resumed, undisturbed)
    assert os.listdir(tmp_path) == ["fit.checkpoint"]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    case = FAMILIES[name]
    model, table = MODELS["dp"](case.family, 1.0), Table(case.rows)
    start = random_start(model, table, 3)
    undisturbed = run(model, ENGINES["memoized"], table, start, seed=7)
    for step in (4, 8, 16):
        assert_same_fit(
            stop_and_resume(model, ENGINES["memoized"], table, start, tmp_path / "c", step),
            undisturbed,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "multinomial_sparse", "poisson"])
def test_learned_priors_resume_bit_for_bit(name: str, tmp_path: Path) -> None:
    """Hyperparameters of the family and the concentration, from the middle of a lap and from its
    end.
    """
    case = FAMILIES[name]
    model, table = MODELS["dp"](case.family, GammaPrior(), learns=True), Table(case.rows)
    start = random_start(model, table, 3)
    undisturbed = run(model, ENGINES["memoized"], table, start, seed=7)
    learned = undisturbed.model.learned()
    assert any((learned[n] != model.learned()[n]).any() for n in learned)
    for step in (7, 11, 16):
        resumed = stop_and_resume(model, ENGINES["memoized"], table, start, tmp_path / "c", step)
        assert_same_fit(resumed, undisturbed)
        for n in learned:
            np.testing.assert_array_equal(resumed.model.learned()[n], learned[n])


# ---- moves ---------------------------------------------------------------------------------------
ALL_MOVES = (Birth(n_newborn=4, n_passes=10), Merge(), Delete(n_passes=10))
MOVING = {
    "three": MemoizedVB(n_batches=3, max_iter=5, tol=0.0, moves=ALL_MOVES, trace_visits=True),
    "spilled": MemoizedVB(
        n_batches=3, max_iter=5, tol=0.0, moves=ALL_MOVES, memory_limit=0, trace_visits=True
    ),
    "settles": MemoizedVB(n_batches=2, max_iter=30, tol=1e-3, moves=ALL_MOVES, trace_visits=True),
}


def assert_same_moves(a: Any, b: Any) -> None:
    assert_same_fit(a, b)
    assert a.trace.moves == b.trace.moves
    assert a.next_id == b.next_id


def stop_moves_and_resume(
    model: Any, engine: Any, table: Table, start: Any, path: Path, step: int
) -> tuple[Any, int]:
    """The resumed fit, and how many proposals were under way when it stopped."""
    saved = with_settings(engine, checkpoint=path, checkpoint_every=0.0)
    with pytest.raises(StoppedError):
        run(model, with_settings(saved, callbacks=(StopAt(step),)), table, start, seed=7)
    _, snapshot = read_checkpoint(path)
    assert snapshot.saved_moves is not None
    return run(model, engine, table, snapshot, seed=7), len(snapshot.saved_moves[0]["proposals"])


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "n_components"), [("three", 1), ("spilled", 6), ("settles", 6)])
def test_moves_resume_bit_for_bit(name: str, n_components: int, tmp_path: Path) -> None:
    """Births from one component, merges and deletes from six; wherever it stopped, proposals under
    way included.
    """
    rows = blobs(150, 3, spread=8.0)
    model, table, engine = blob_model(rows), Table(rows), MOVING[name]
    start = random_start(model, table, n_components)
    undisturbed = run(model, engine, table, start, seed=7)
    assert any(record.is_accepted for record in undisturbed.trace.moves)
    pending = 0
    for step in (2, 5, 8) if n_components == 1 else (4, 8):
        if step <= undisturbed.n_steps:
            resumed, under_way = stop_moves_and_resume(
                model, engine, table, start, tmp_path / "c", step
            )
            assert_same_moves(resumed, undisturbed)
            pending += under_way
    assert pending > 0


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["multinomial_wide", "gaussian_far", "product"])
def test_moves_of_every_kind_of_field_resume_bit_for_bit(name: str, tmp_path: Path) -> None:
    """Vocabularies of their own, reference points, several members."""
    case = MOVING_CASES[name]
    model, table = (
        MODELS["dp"](case.family, GammaPrior(), learns=name != "product"),
        Table(case.rows),
    )
    start = random_start(model, table, 4)
    engine = MemoizedVB(n_batches=3, max_iter=4, tol=0.0, moves=ALL_MOVES)
    undisturbed = run(model, engine, table, start, seed=7)
    pending = 0
    for step in (5, 9):
        resumed, under_way = stop_moves_and_resume(
            model, engine, table, start, tmp_path / "c", step
        )
        assert_same_moves(resumed, undisturbed)
        pending += under_way
    assert pending > 0


def test_moves_that_are_stopped_again_and_again_end_the_same(tmp_path: Path) -> None:
    rows = blobs(150, 3, spread=8.0)
    model, table, engine, path = blob_model(rows), Table(rows), MOVING["three"], tmp_path / "c"
    start = random_start(model, table, 1)
    undisturbed = run(model, engine, table, start, seed=7)
    begin: Any = start
    for step in (2, 5, 6, 8, 11, 15):
        saved = with_settings(
            engine, checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(step),)
        )
        with pytest.raises(StoppedError):
            run(model, saved, table, begin, seed=7)
        begin = read_checkpoint(path)[1]
    assert_same_moves(run(model, engine, table, begin, seed=7), undisturbed)


def test_moves_in_a_checkpoint_that_are_garbled_are_said(tmp_path: Path) -> None:
    rows = blobs(150, 3, spread=8.0)
    model, table, path = blob_model(rows), Table(rows), tmp_path / "c"
    engine = with_settings(
        MOVING["three"], checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(6),)
    )
    with pytest.raises(StoppedError):
        run(model, engine, table, random_start(model, table, 1), seed=7)
    header, arrays = read_file(path, "checkpoint")
    assert header["moves"]["proposals"]
    kind, proposal = header["moves"]["proposals"][0]
    engine = with_settings(engine, callbacks=())
    for bad in (
        [["split", proposal]],
        [[kind, {}]],
        [[kind, {**proposal, "slots": ["a"]}]],
        [[kind, {**proposal, "counts": None}]],
        [[kind]],
        [5],
    ):
        write_file(
            path, "checkpoint", {**header, "moves": {**header["moves"], "proposals": bad}}, arrays
        )
        with pytest.raises((CheckpointError, ModelFileError)):
            run(model, engine, table, read_checkpoint(path)[1], seed=7)
    write_file(path, "checkpoint", header, arrays)
    # an engine without moves does not know what to do with them
    with pytest.raises(CheckpointError, match="moves"):
        run(model, with_settings(engine, moves=()), table, read_checkpoint(path)[1], seed=7)


def test_a_checkpoint_with_another_prior_to_learn_is_refused(tmp_path: Path) -> None:
    path, table = tmp_path / "c", Table(ROWS)
    learning = replace(MODEL, learns=True)
    engine = with_settings(ENGINES["memoized"], checkpoint=path, checkpoint_every=0.0)
    run(learning, engine, table, random_start(learning, table, 3), seed=7)
    for other in (MODEL, replace(learning, family=FAMILIES["diagonal"].family)):
        with pytest.raises(CheckpointError, match="learned hyperparameters"):
            run(other, engine, table, read_checkpoint(path)[1], seed=7)
    header, arrays = read_file(path, "checkpoint")
    write_file(
        path, "checkpoint", header, {**dict(arrays.items()), "learned/mean": np.full(2, np.nan)}
    )
    with pytest.raises(CheckpointError, match="learned hyperparameters"):
        run(learning, engine, table, read_checkpoint(path)[1], seed=7)


@pytest.mark.slow
def test_resuming_follows_reference_points_and_legal_sets(tmp_path: Path) -> None:
    rows = blobs(60, 4, spread=1e6)
    model = blob_model(rows, family=families.Gaussian(covariance=1.0))
    labels = np.where(np.arange(60) % 5 == 0, np.arange(60) % 3, -1)
    table = Table(rows, repeats=1.0 + np.arange(60) % 2, sets=labels + 1)
    start = random_start(model, table, 4, 0, np.concatenate([np.ones((1, 4)), np.eye(4)[:3]]))
    undisturbed = run(model, ENGINES["memoized"], table, start, seed=7)
    assert (undisturbed.counts["anchor"] != 0).any()
    for step in (2, 7, 13, 21):
        assert_same_fit(
            stop_and_resume(model, ENGINES["memoized"], table, start, tmp_path / "c", step),
            undisturbed,
        )


def test_a_fit_that_is_stopped_again_and_again_ends_the_same(tmp_path: Path) -> None:
    engine, table, path = ENGINES["memoized"], Table(ROWS), tmp_path / "c"
    start = random_start(MODEL, table, 4)
    undisturbed = run(MODEL, engine, table, start, seed=7)
    begin: Any = start
    for step in (3, 4, 9, 10, 17, 28):
        saved = with_settings(
            engine, checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(step),)
        )
        with pytest.raises(StoppedError):
            run(MODEL, saved, table, begin, seed=7)
        begin = read_checkpoint(path)[1]
    assert_same_fit(run(MODEL, engine, table, begin, seed=7), undisturbed)


def test_resuming_a_finished_fit_changes_nothing(tmp_path: Path) -> None:
    path, table = tmp_path / "c", Table(ROWS)
    for engine in (
        MemoizedVB(n_batches=3, max_iter=200, tol=1e-3),
        MemoizedVB(n_batches=3, max_iter=4, tol=0.0),
    ):
        saved = with_settings(engine, checkpoint=path, checkpoint_every=0.0)
        found = run(MODEL, saved, table, random_start(MODEL, table, 3), seed=7)
        assert_same_fit(run(MODEL, saved, table, read_checkpoint(path)[1], seed=7), found)


def test_nothing_is_written_before_it_is_due(tmp_path: Path) -> None:
    fit(
        MODEL,
        MemoizedVB(
            n_batches=5, max_iter=3, tol=0.0, checkpoint=tmp_path / "c", checkpoint_every=3600.0
        ),
        ROWS,
        3,
    )
    assert list(tmp_path.iterdir()) == []


# ---- files that are not what they should be ------------------------------------------------------
@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of the third visit, with its settings."""
    path, table = tmp_path / "fit.checkpoint", Table(ROWS)
    engine = with_settings(
        ENGINES["memoized"], checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(4),)
    )
    with pytest.raises(StoppedError):
        run(
            MODEL,
            engine,
            table,
            random_start(MODEL, table, 3),
            seed=7,
            settings={"data": "abc", "seed": 7},
        )
    return path


def test_settings_are_kept_and_compared(saved: Path) -> None:
    assert read_checkpoint(saved)[0] == {"data": "abc", "seed": 7}
    assert read_checkpoint(saved, {"data": "abc"})[1].state.n_steps == 3
    with pytest.raises(CheckpointError, match="written for other data"):
        read_checkpoint(saved, {"data": "other"})
    with pytest.raises(CheckpointError, match="colour"):
        read_checkpoint(saved, {"colour": "red"})


def test_a_missing_file_or_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        read_checkpoint(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no such folder"):
        fit(MODEL, MemoizedVB(checkpoint=tmp_path / "no" / "c"), ROWS, 2)


@pytest.mark.parametrize("keep", [0, 5, 8, 100, 0.5, 0.9, -1])
def test_a_truncated_file_is_said(saved: Path, keep: float) -> None:
    payload = saved.read_bytes()
    saved.write_bytes(payload[: keep if isinstance(keep, int) else int(keep * len(payload))])
    with pytest.raises(ModelFileError, match=r"damaged|foreign|not a stickbreak file"):
        read_checkpoint(saved)


@pytest.mark.parametrize(
    "payload",
    [
        b"not a checkpoint at all",
        b"\x93NUMPY" + bytes(200),
        b"\xff" * 500,
        b"\x02" + bytes(7) + b"{}",
    ],
)
def test_a_foreign_file_is_said(saved: Path, payload: bytes) -> None:
    saved.write_bytes(payload)
    with pytest.raises(ModelFileError, match=r"damaged|foreign|not a stickbreak file"):
        read_checkpoint(saved)


def test_a_file_of_another_kind_is_said(saved: Path) -> None:
    header, arrays = read_file(saved, "checkpoint")
    write_file(saved, "model", header, arrays)
    with pytest.raises(ModelFileError, match="'model' file; expected a 'checkpoint' file"):
        read_checkpoint(saved)


def test_a_file_of_a_later_version_is_said(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header, arrays = read_file(saved, "checkpoint")
    monkeypatch.setattr("stickbreak.persist.FORMAT_VERSION", 99)
    write_file(saved, "checkpoint", header, arrays)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="version '99'"):
        read_checkpoint(saved)


def test_a_header_that_lacks_or_garbles_an_entry_is_said(saved: Path) -> None:
    header, arrays = read_file(saved, "checkpoint")
    for name in header:
        for bad in ("missing", "text", 5, [1], {"a": 1}):
            broken = json.loads(json.dumps(header))
            if bad == "missing":
                del broken[name]
            else:
                broken[name] = bad
            write_file(saved, "checkpoint", broken, arrays)
            if bad == 5 and isinstance(header[name], int):
                continue  # a whole number where one belongs
            if (name == "settings" and isinstance(bad, dict)) or (
                name in ("ids", "settled") and isinstance(bad, list)
            ):
                continue  # the right kind of value
            with pytest.raises((ModelFileError, CheckpointError)):
                read_checkpoint(saved)


def test_a_file_without_one_of_its_arrays_is_said(saved: Path) -> None:
    header, arrays = read_file(saved, "checkpoint")
    for name in arrays:
        write_file(saved, "checkpoint", header, {n: a for n, a in arrays.items() if n != name})
        with pytest.raises(ModelFileError, match=r"damaged|lacks"):
            read_checkpoint(saved)


# ---- killed processes ----------------------------------------------------------------------------
KILLER = Path(__file__).parent / "killed_fits.py"


def run_kills(folder: Path, *arguments: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, str(KILLER), str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


posix = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL and fork")


@pytest.mark.slow  # `test_topics.py` has killed fits in every run
@posix
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(pytest.param(name, 10, marks=pytest.mark.slow) for name in ("DPMixture", "Mixture")),
        ("moves", 2),
        pytest.param("moves", 10, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_gives_the_same_bound(name: str, count: int, tmp_path: Path) -> None:
    """SIGKILL at random moments after the first checkpoint for each estimator; forks of one
    process, to be quick.
    """
    found = run_kills(tmp_path, "fork", str(count), name)
    assert found["killed"] == count
    assert found["bounds"] == [found["undisturbed"]] * count


@posix
@pytest.mark.slow
@pytest.mark.parametrize("name", ["DPMixture", "moves"])
def test_killed_and_resumed_in_fresh_processes_gives_the_same_bound(
    name: str, tmp_path: Path
) -> None:
    """SIGKILL at twenty random moments after the first checkpoint; every killed fit is a fresh
    process.
    """
    found = run_kills(tmp_path, "spawn", "20", name)
    assert found["killed"] == 20
    assert found["bounds"] == [found["undisturbed"]] * 20


@pytest.mark.slow
def test_a_checkpoint_larger_than_its_shelf_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays beyond the limit wait in a temporary file while the checkpoint is written, and are
    read one visit at a time.
    """
    X = np.random.default_rng(0).normal(size=(300, 3))
    payloads = []
    for limit in (1 << 26, 1000, 0):
        monkeypatch.setattr("stickbreak.inference.checkpoints.SHELF_BYTES", limit)
        path = tmp_path / f"{limit}.checkpoint"
        engine = sb.MemoizedVB(
            n_batches=6,
            max_iter=4,
            tol=0.0,
            checkpoint=path,
            checkpoint_every=0.0,
            memory_limit=500,
            moves=None,
        )
        with pytest.warns(sb.ConvergenceWarning):
            whole = sb.DPMixture(3, inference=engine, random_state=0).fit(X)
        header, arrays = read_file(path, "checkpoint")
        header.pop("trace")  # it has the clock in it
        payloads.append((header, {name: arrays[name].tolist() for name in arrays}))
        with pytest.warns(sb.ConvergenceWarning):
            assert sb.resume(path, X).lower_bound_ == whole.lower_bound_
    assert payloads[0] == payloads[1] == payloads[2]
