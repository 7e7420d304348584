"""Room for temporary files: their folder, how they are written, memory where the disk is full."""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from stickbreak.errors import NoRoomError, StickbreakWarning

__all__ = [
    "available_memory", "is_full", "open_temporary", "require_memory", "require_room",
    "spool_folder", "warn_full", "write_all",
]  # fmt: skip

LARGE_FILES = "/var/tmp"  # on disk; /tmp is often held in memory
FULL = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG")}
GROUPS = Path("/sys/fs/cgroup")
REMEDY = "set TMPDIR to a folder with more space"


def spool_folder() -> str:
    """Folder for temporary files: TMPDIR (TEMP, TMP), else /var/tmp, else the system's default."""
    if any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")) or not os.access(
        LARGE_FILES, os.W_OK
    ):
        return tempfile.gettempdir()
    return LARGE_FILES


def open_temporary(folder: str | Path | None = None) -> IO[bytes]:
    """A file without a name: only this process can read it, and it ends with the process.

    Without a buffer, whose end would be written once more when a full file is closed.
    """
    return tempfile.TemporaryFile(prefix="stickbreak-", dir=folder or spool_folder(), buffering=0)


def write_all(file: IO[bytes], payload: Any) -> None:
    """Write to a file without a buffer, which may take a part at a time."""
    rest = np.frombuffer(payload, np.uint8)
    while len(rest):
        rest = rest[file.write(rest.data) :]


def is_full(error: OSError) -> bool:
    """Whether an error says that a disk, a quota or a file has reached its limit."""
    return error.errno in FULL


def require_room(n_bytes: int, what: str) -> None:
    """Raise a clear error before the disk is full, not after."""
    free = shutil.disk_usage(spool_folder()).free
    if n_bytes > free:
        raise ValueError(
            f"{what} needs {n_bytes:,} bytes of temporary space, {spool_folder()} has {free:,}: "
            "set TMPDIR to a folder with more"
        )


def require_memory(
    n_bytes: int, what: str, error: OSError, folder: str | Path | None = None
) -> None:
    """Raise NoRoomError if what could not be written to disk does not fit into memory either.

    Half of the available memory is left to the fit itself.
    """
    free = available_memory()
    if 2 * n_bytes > free:
        raise NoRoomError(
            f"no room for {what}: {_failure(error, folder)}, and {n_bytes:,} bytes are too many "
            f"for the {free:,.0f} of memory that are available; {REMEDY}"
        )


def warn_full(what: str, error: OSError, folder: str | Path | None = None) -> None:
    """Say that something stays in memory because the disk is full."""
    warnings.warn(
        f"{_failure(error, folder)}, so {what} stay in memory; {REMEDY}",
        StickbreakWarning,
        stacklevel=4,
    )


def _failure(error: OSError, folder: str | Path | None) -> str:
    try:
        where = f"the temporary folder {folder or spool_folder()}"
    except FileNotFoundError:  # Python finds no folder that it can write to
        where = "every temporary folder"
    return f"{where} fails ({error.strerror or error})"


def available_memory() -> float:
    """Bytes of memory that this process may still take; infinity where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    whole = [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min([math.inf, *whole, *_left_in_groups()])


def _left_in_groups() -> Iterator[float]:
    """What the limits of this process's control groups leave. Files in the cache can be dropped."""
    try:
        entries = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    own = next((entry[3:] for entry in entries if entry.startswith("0::")), None)
    if own is None:
        return
    below_root = PurePosixPath(own).relative_to("/")
    for group in (below_root, *below_root.parents):
        folder = GROUPS / group
        try:
            limit = (folder / "memory.max").read_text().strip()
            used = int((folder / "memory.current").read_text())
            known = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except OSError:  # the root has no limit
            continue
        if limit != "max":
            cached = sum(int(known.get(name, 0)) for name in ("active_file", "inactive_file"))
            yield float(int(limit) - used + cached)
