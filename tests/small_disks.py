"""Disks that are full soon, for tests of temporary files.

A fixture is imported by the test files that use it.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

Filling = Callable[[], AbstractContextManager[None]]

SIZE = 1 << 16  # bytes: the file systems of tests hold a multiple of pages of 4 KiB


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[Path]:
    """A file system in memory of `size` bytes; skips the test where none may be mounted."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(params=["mounted", "limited"])
def small_disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Filling]:
    """Within `with small_disk():` temporary files find 64 KiB of space."""
    folder = tmp_path / "small"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with mounted(folder, SIZE) if request.param == "mounted" else contextlib.nullcontext():
        yield contextlib.nullcontext if request.param == "mounted" else lambda: limited(SIZE)
