"""Tables in several files: the same rows as one table, read only where they are used."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Table, batches, shard_rows
from stickbreak.errors import ShardError

RNG = np.random.default_rng(0)
MEANS = np.array([[-4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
X = MEANS[RNG.integers(0, 3, 800)] + RNG.standard_normal((800, 2))
LENGTHS = np.full(16, 50)
NAMES = [f"s{i:02}" for i in range(16)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(4):
        np.save(tmp_path / f"rows{i}.npy", X[200 * i : 200 * i + 200])
        np.save(tmp_path / f"lengths{i}.npy", LENGTHS[:4])
    return tmp_path


def write_parquet(folder: Path, ids: list[str] | None = None) -> str:
    polars = pytest.importorskip("polars")
    who = np.repeat(NAMES, 50) if ids is None else np.array(ids)
    for i in range(4):
        at = slice(200 * i, 200 * i + 200)
        frame = polars.DataFrame({"x": X[at, 0], "y": X[at, 1], "who": who[at]})
        frame.write_parquet(folder / f"rows{i}.parquet")
    return str(folder / "rows*.parquet")


def test_slices_are_references_and_read_the_same_rows(folder: Path) -> None:
    rows = sb.open_shards(str(folder / "rows*.npy")).rows
    assert rows.shape == X.shape
    for lo, hi in [(0, 800), (0, 200), (150, 450), (200, 400), (399, 401), (640, 800), (5, 5)]:
        part = rows[lo:hi]
        np.testing.assert_array_equal(part.load(), X[lo:hi])
        np.testing.assert_array_equal(part[3:][1:].load(), X[lo:hi][3:][1:])
    at = RNG.integers(0, 800, 50)
    np.testing.assert_array_equal(rows[at], X[at])
    np.testing.assert_array_equal(rows[100:700][at % 600], X[100:700][at % 600])
    np.testing.assert_array_equal(rows[7], X[7])
    np.testing.assert_array_equal(rows[X[:, 0] > 0], X[X[:, 0] > 0])
    np.testing.assert_array_equal(rows[::7, 1], X[::7, 1])
    np.testing.assert_array_equal(rows[:, 1], X[:, 1])


def test_a_slice_names_only_its_own_files_when_it_travels(folder: Path) -> None:
    rows = sb.open_shards(str(folder / "rows*.npy")).rows
    sent = pickle.dumps(rows[250:300])
    assert len(sent) < 1000
    assert [Path(file.path).name for file in pickle.loads(sent).files] == ["rows1.npy"]


@pytest.mark.parametrize("lane_rows", [30, 50, 130, 1000])
def test_lanes_never_cross_a_file(folder: Path, monkeypatch, lane_rows: int) -> None:
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", lane_rows)
    table = Table(sb.open_shards(str(folder / "rows*.npy")).rows)
    lanes = [lane for batch in table.batches(3) for lane in batch.lanes()]
    assert all(len(lane.rows.files) == 1 for lane in lanes)
    np.testing.assert_array_equal(np.concatenate([lane.rows.load() for lane in lanes]), X)
    if lane_rows < 50:
        assert len(lanes) > batches.MAX_LANES


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
def test_the_bits_are_those_of_a_table_in_memory(folder: Path, monkeypatch, kind: str) -> None:
    for name in ("LANE_ROWS", "ORDERED_ROWS", "SHARD_LANE_ROWS"):
        monkeypatch.setattr(batches, name, 50)
    monkeypatch.setattr(batches, "LANE_UNITS", 1)
    if kind == "npy":
        lengths = str(folder / "lengths*.npy")
        table = sb.open_shards(str(folder / "rows*.npy"), lengths=lengths)
    else:
        table = sb.open_shards(write_parquet(folder), sequence_id="who")
    np.testing.assert_array_equal(table.lengths, LENGTHS)

    def found(rows):
        engine = sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
        mixture = sb.Mixture(3, random_state=0, inference=engine).fit(rows)
        chain = sb.HMM(3, random_state=0, inference=engine).fit(rows, lengths=LENGTHS)
        return mixture, chain, mixture.predict_proba(rows), chain.predict(rows, lengths=LENGTHS)

    (one, two, *here), (three, four, *there) = found(X), found(table)
    assert one.lower_bound_ == three.lower_bound_
    assert two.lower_bound_ == four.lower_bound_
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_moved_folder_is_the_same_data(folder: Path, tmp_path: Path) -> None:
    before = Table(sb.open_shards(str(folder / "rows*.npy")).rows).fingerprint()
    (tmp_path / "other").mkdir()
    for i in range(4):
        shutil.copy(folder / f"rows{i}.npy", tmp_path / "other" / f"part{i}.npy")
    moved = sb.open_shards(str(tmp_path / "other" / "*.npy")).rows
    assert Table(moved).fingerprint() == before
    np.save(tmp_path / "other" / "part2.npy", X[400:600] + 1.0)
    changed = sb.open_shards(str(tmp_path / "other" / "*.npy")).rows
    assert Table(changed).fingerprint() != before


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
def test_a_shard_that_changed_since_the_checkpoint_is_named(folder: Path) -> None:
    saved = {"checkpoint": folder / "fit.ckpt", "checkpoint_every": 0.0}
    engine = sb.MemoizedVB(n_batches=2, max_iter=2, tol=0, **saved)
    model = sb.Mixture(3, random_state=0, inference=engine)
    model.fit(sb.open_shards(str(folder / "rows*.npy")))
    (folder / "rows1.npy").rename(folder / "rows1b.npy")
    model.resume(sb.open_shards(str(folder / "rows*.npy")))  # the same rows
    np.save(folder / "rows2.npy", X[400:600] + 1.0)
    with pytest.raises(sb.CheckpointError, match=r"\(shard rows2\.npy has changed since\)"):
        model.resume(sb.open_shards(str(folder / "rows*.npy")))
    (folder / "rows2.npy").unlink()
    with pytest.raises(sb.CheckpointError, match=r"\(4 shards; now there are 3\)"):
        model.resume(sb.open_shards(str(folder / "rows*.npy")))


@pytest.mark.parametrize("how", ["missing", "truncated", "changed"])
def test_a_file_that_is_not_the_one_that_was_opened_is_refused(folder: Path, how: str) -> None:
    table = sb.open_shards(str(folder / "rows*.npy"))
    path = folder / "rows2.npy"
    shard_rows._OPEN.clear()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        os.truncate(path, 1000)
    else:
        np.save(path, X[400:600] + 1.0)
    message = {
        "missing": "cannot be read by process",
        "truncated": r"has 1,000 bytes .* it had 3,328",
        "changed": "has other contents",
    }
    with pytest.raises(ShardError, match=rf"shard .*rows2\.npy {message[how]}"):
        sb.Mixture(2, random_state=0).fit(table)


def test_what_makes_no_table_is_refused_by_name(folder: Path) -> None:
    every = [folder / f"rows{i}.npy" for i in range(4)]

    def refuses(message: str, files=every, error=ValueError, **options) -> None:
        with pytest.raises(error, match=message):
            sb.open_shards(files, **options)

    refuses("no file matches", str(folder / "none*.npy"))
    refuses("empty list", [])
    refuses(r"rows1\.npy twice", [every[0], every[1], folder / "." / "rows1.npy"])
    os.link(folder / "rows1.npy", folder / "linked.npy")
    refuses(r"linked\.npy twice", [every[1], folder / "linked.npy"])
    (folder / "linked.npy").unlink()
    refuses(r"rows0\.csv: expected a file of kind", [folder / "rows0.csv"])
    refuses("have no names", columns=["x"], error=ShardError)
    refuses("2 files for 4 shards", lengths=[folder / "lengths0.npy", folder / "lengths1.npy"])
    refuses("say the same", lengths="a", sequence_id="b")
    refuses("cannot be read", [*every, folder / "gone.npy"], ShardError)
    np.save(folder / "lengths3.npy", [50, 51])
    refuses(r"lengths3\.npy adds up to 101", lengths=str(folder / "lengths*.npy"), error=ShardError)
    for name, bad, message in (
        ("wide", np.zeros((3, 3)), r"wide\.npy has columns 3; .*rows0\.npy: 2"),
        ("single", X[:5].astype(np.float32), "float32"),
        ("empty", np.zeros((0, 2)), r"empty\.npy"),
        ("objects", np.array([[1, "a"]], dtype=object), r"objects\.npy"),
    ):
        np.save(folder / f"{name}.npy", bad, allow_pickle=name == "objects")
        refuses(message, [*every, folder / f"{name}.npy"], ShardError)
    os.truncate(every[3], 500)
    refuses(r"rows3\.npy cannot be opened: .* bytes", error=ShardError)


def test_a_sequence_lies_within_one_file(folder: Path) -> None:
    ids = np.repeat(NAMES, 50).astype("U9")
    ids[150:250] = "long"
    pattern = write_parquet(folder, ids.tolist())
    with pytest.raises(ShardError, match=r"'long' is in .*rows0\.parquet and again in .*rows1"):
        sb.open_shards(pattern, sequence_id="who")
    assert sb.open_shards(pattern, columns=["x", "y"]).rows.shape == (800, 2)
    with pytest.raises(ShardError, match="no column 'z'"):
        sb.open_shards(pattern, columns=["z"])
