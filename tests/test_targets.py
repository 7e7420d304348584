"""Where files are written: regular files and new names only, whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from cli.running import command, write_csv  # noqa: F401

import stickbreak as sb
from stickbreak.targets import check_target, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="needs pipes and links")
X = np.random.default_rng(0).normal(size=(30, 2))


def write(path: Path, text: bytes = b"new") -> None:
    with replacing(path) as file:
        file.write(text)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """What is there already, and is no file."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to a pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "to itself").symlink_to(tmp_path / "to itself")
    return {name: tmp_path / name for name in ("folder", "pipe", "to a pipe", "to itself")}


@posix
@pytest.mark.parametrize("name", ["folder", "pipe", "to a pipe", "to itself"])
def test_only_files_are_replaced(name: str, places: dict[str, Path]) -> None:
    path, before = places[name], {p: p.lstat().st_ino for p in places.values()}
    model = sb.Mixture(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match=f"{name} (is a (folder|pipe)|cannot be written)"):
        model.save(path)
    engine = sb.MemoizedVB(checkpoint=path)
    with pytest.raises(ValueError, match=rf"checkpoint=.*{name}"):
        sb.Mixture(2, inference=engine).fit(X)
    assert {p: p.lstat().st_ino for p in places.values()} == before
    assert set(places["folder"].parent.iterdir()) == set(places.values())


@posix
def test_a_device_is_refused(tmp_path: Path) -> None:
    """Only asked, never written: a mistake here would cost the machine its device."""
    (tmp_path / "link").symlink_to(os.devnull)
    for path in (Path(os.devnull), tmp_path / "link"):
        with pytest.raises(ValueError, match=f"{path.name} is a device"):
            check_target(path)


@posix
def test_the_command_line_refuses_them_too(places: dict[str, Path], command: Any) -> None:  # noqa: F811
    data = write_csv(places["folder"].parent / "rows.csv", X)
    for name, path in places.items():
        done = command("fit", "mixture", data, "--n-components", 2, "--out", path)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert name in done.err
        done = command("fit", "mixture", data, "--n-components", 2, "--checkpoint", path)
        assert (done.code, done.err.count("\n")) == (2, 1)
    assert places["pipe"].is_fifo()


@posix
def test_a_link_to_a_file_is_written_through(tmp_path: Path) -> None:
    """The link stays, and what it names is replaced; a link to nothing makes the file."""
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to(target)
    for text in (b"first", b"second"):
        write(link, text)
        assert link.is_symlink()
        assert target.read_bytes() == text
    assert check_target(link) == target.resolve()
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["file"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of a file that was just being opened
def test_ctrl_c_at_any_line_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """One interrupt at each line that `replacing` runs, from the first to the last."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = replacing.__wrapped__.__code__  # type: ignore[attr-defined]
    at = 0
    while True:
        at += 1
        lines = 0

        def interrupt(frame: FrameType, event: str, _: Any, stop: int = at) -> Any:
            nonlocal lines
            if frame.f_code is not code:
                return None
            if event == "line":
                lines += 1
                if lines == stop:
                    raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            write(path)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert [p.name for p in tmp_path.iterdir()] == ["file"], f"line {at}"
        assert path.read_bytes() in (b"old", b"new")
        if lines < at:
            break
    assert at > 10
    assert path.read_bytes() == b"new"
