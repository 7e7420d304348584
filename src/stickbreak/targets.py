"""Files are replaced completely or not at all: written under another name, flushed, renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from stickbreak.errors import in_one_line

__all__ = ["check_target", "replacing"]


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces `path` if all goes well.

    It has a temporary name in the same folder; then fsync and rename.
    """
    path = check_target(path)
    # named before it is made: Ctrl-C at any moment after that removes it
    name = str(path.with_name(f".{path.name}.{secrets.token_hex(8)}"))
    try:
        with open(name, "xb", opener=_open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def check_target(path: str | Path) -> Path:
    """The file that `replacing` would write: `path`, or what it links to.

    Only a regular file is replaced. A device, a pipe or a folder would be lost, not written to.
    """
    path = Path(path)
    try:
        target = path.resolve()
        mode = target.stat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {target.parent}") from None
        return target
    except (OSError, RuntimeError) as error:  # a circle of links, a folder that may not be read
        raise ValueError(f"{path} cannot be written: {in_one_line(error)}") from None
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"{path} is {_kind_of(mode)}, and only a file can be replaced: give the name of a file"
        )
    return target


def _kind_of(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _open_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _umask() -> int:
    """The mask of new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, on systems where folders can be opened (not Windows)."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # some file systems refuse; the file itself is safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
