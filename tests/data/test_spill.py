"""Arrays in temporary files: what comes back, what space they take, what happens when it ends."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disks import SIZE, Filling, mounted, small_disk  # noqa: F401

import stickbreak as sb
from stickbreak.data import Shelf, Spill, is_on_disk, room, scratch, spill, spool


def seen_files(monkeypatch: pytest.MonkeyPatch) -> list[os.stat_result]:
    """What is known of each temporary table when it is mapped."""
    seen, mapped = [], spool._mapped

    def look(file: Any, *arguments: Any) -> Any:
        seen.append(os.fstat(file.fileno()))
        return mapped(file, *arguments)

    monkeypatch.setattr(spool, "_mapped", look)
    return seen


# ---- spilled arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1000, spill.PAGE // 8, spill.PAGE // 8 + 1, 30_000])
def test_arrays_come_back_bit_for_bit(size: int) -> None:
    kept, rng = Spill("arrays"), np.random.default_rng(size)
    arrays = [
        rng.normal(size=size),
        rng.integers(0, 9, (3, size)).astype(np.int32),
        np.asfortranarray(rng.normal(size=(size, 2))),
        np.array(3.5),
        rng.random(size) < 0.5,
    ]
    places = [kept.put(array) for array in arrays]
    for place, array in zip(places, arrays, strict=True):
        found = kept.get(place)
        assert found.dtype == array.dtype
        assert found.flags.writeable
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, array)


def test_space_of_dropped_arrays_is_used_again() -> None:
    """Sizes change, as those of counts do with the number of components."""
    kept, rng, places = Spill("arrays"), np.random.default_rng(0), {}
    for _ in range(400):
        i = int(rng.integers(6))
        if i in places:
            kept.drop(places[i][0])
        array = rng.normal(size=int(rng.integers(1, 40_000)))
        places[i] = kept.put(array), array
    for place, array in places.values():
        np.testing.assert_array_equal(kept.get(place), array)
    # six arrays of at most five pages each, and never one more
    assert os.fstat(kept._file.fileno()).st_size <= 6 * 5 * spill.PAGE


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_temporary_files_have_no_name_and_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    seen = seen_files(monkeypatch)
    array, before = scratch((100,), float), os.umask(0)
    try:
        kept = Spill("arrays")
        kept.put(np.zeros(10))
    finally:
        os.umask(before)
    seen.append(os.fstat(kept._file.fileno()))
    assert [stat.S_IMODE(found.st_mode) for found in seen] == [0o600, 0o600]
    assert {found.st_dev for found in seen} == {tmp_path.stat().st_dev}
    assert list(tmp_path.iterdir()) == []
    assert is_on_disk(array)


def test_a_shelf_replaces_and_forgets() -> None:
    shelf = Shelf(100)
    for size in (5, 50, 3, 60):
        shelf["a"], shelf["b"] = np.full(size, 1.0), np.full(size, 2.0)
        assert [len(shelf[name]) for name in shelf] == [size, size]
    del shelf["a"]
    assert list(shelf) == ["b"]
    assert "a" not in shelf


# ---- full disks ----------------------------------------------------------------------------------


def test_an_array_that_cannot_be_written_stays_in_memory(small_disk: Filling) -> None:  # noqa: F811
    kept, arrays = Spill("numbers"), [np.full(SIZE // 24, float(i)) for i in range(6)]
    with small_disk(), pytest.warns(sb.StickbreakWarning, match="so numbers stay in memory") as w:
        places = [kept.put(array) for array in arrays]
    assert len(w) == 1
    assert "set TMPDIR" in str(w[0].message)
    assert {place.pages is None for place in places} == {True, False}
    for place, array in zip(places, arrays, strict=True):
        np.testing.assert_array_equal(kept.get(place), array)


def test_what_fits_neither_disk_nor_memory_is_a_clear_error(
    small_disk: Filling,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "available_memory", lambda: 1e6)
    kept, array = Spill("numbers"), np.zeros(100_000)
    with small_disk(), pytest.raises(sb.NoRoomError, match="800,000 bytes are too many") as caught:
        kept.put(array)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ValueError)
    assert "set TMPDIR" in str(caught.value)
    np.testing.assert_array_equal(kept.get(kept.put(np.arange(9))), np.arange(9))


def test_arrays_stay_in_memory_where_no_folder_can_be_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.setattr(tempfile, "gettempdir", find_none)
    kept = Spill("numbers")
    with pytest.warns(sb.StickbreakWarning, match="every temporary folder fails .No usable"):
        place = kept.put(np.arange(9))
    np.testing.assert_array_equal(kept.get(place), np.arange(9))


def test_scratch_on_a_full_disk_is_in_memory(small_disk: Filling) -> None:  # noqa: F811
    with small_disk(), pytest.warns(sb.StickbreakWarning, match="stay in memory") as caught:
        array = scratch((SIZE,), float)
    assert len(caught) == 1
    assert not is_on_disk(array)
    assert array.shape == (SIZE,)
    assert not array.any()


@pytest.mark.skipif(os.name != "posix", reason="counts blocks")
@pytest.mark.parametrize("how", ["set aside", "refused", "not known"])
def test_scratch_takes_its_space_when_it_is_made(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without a block would be a SIGBUS when it is written to."""

    def refuse(*_arguments: int) -> None:
        raise OSError(95, "Operation not supported")

    if how == "refused":
        monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    elif how == "not known":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    seen = seen_files(monkeypatch)
    array = scratch((300_000,), float)
    assert seen[0].st_size == array.nbytes
    assert seen[0].st_blocks * 512 >= array.nbytes


FILLING = """
import sys
import numpy as np, stickbreak as sb
model = sb.Mixture(3, init="k-means||", inference=sb.MemoizedVB(max_iter=1), random_state=0)
print(model.fit(sys.argv[1]).lower_bound_.hex())
"""


@pytest.mark.slow
def test_k_means_on_a_full_disk_is_no_sigbus(tmp_path: Path) -> None:
    """Each of its two arrays fits the disk, and both together do not."""
    path, rows = tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(60_000, 2))
    np.save(path, rows)
    with mounted(tmp_path / "small", 600_000) as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FILLING, str(path)],
            env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode != -signal.SIGBUS
    assert done.returncode == 0, done.stderr
    model = sb.Mixture(3, init="k-means||", inference=sb.MemoizedVB(max_iter=1), random_state=0)
    with pytest.warns(sb.ConvergenceWarning):
        assert model.fit(path).lower_bound_.hex() == done.stdout.strip()


@pytest.mark.parametrize("n_rows", [50, 100_000])
def test_a_table_that_fills_the_disk_is_a_clear_error(
    n_rows: int,
    small_disk: Filling,  # noqa: F811
) -> None:
    """Pieces smaller than a buffer too: its end must not be written again by `close`."""
    with small_disk(), pytest.raises(ValueError, match="no space left for a temporary table"):
        spool.spool((np.zeros((n_rows, 2)) for _ in range(200)), 2)


# ---- memory --------------------------------------------------------------------------------------


def test_available_memory_obeys_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = room.available_memory()
    assert whole > 0
    own = tmp_path / "a" / "b"
    own.mkdir(parents=True)
    for folder, limit in ((own, "max"), (own.parent, "5000000")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("4000000\n")
        (folder / "memory.stat").write_text("anon 3\nactive_file 200\ninactive_file 1000\n")
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    read = Path.read_text
    names = {
        "/proc/self/cgroup": "1:name=x:/z\n0::/a/b\n",
        "/proc/meminfo": "MemAvailable: 9999 kB",
    }
    monkeypatch.setattr(Path, "read_text", lambda path: names.get(str(path)) or read(path))
    assert room.available_memory() == 1_001_200.0
    names["/proc/self/cgroup"] = "1:name=x:/z\n"
    assert room.available_memory() == 9999 * 1024.0
