"""Tables that live in temporary files without a name: nothing is left of them, even after
SIGKILL.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, MutableMapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_COLUMNS", "Shelf", "require_room", "scratch", "spool", "spool_folder"]

Array = npt.NDArray[Any]

MAX_COLUMNS = 1 << 20  # of a file: one row must fit a piece
LARGE_FILES = "/var/tmp"  # on disk, where /tmp is often a part of memory


def spool_folder() -> str:
    """Where temporary tables go: the folder that TMPDIR (TEMP, TMP) names, else /var/tmp if there
    is one, else the system's.
    """
    if any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")) or not os.access(
        LARGE_FILES, os.W_OK
    ):
        return tempfile.gettempdir()
    return LARGE_FILES


def require_room(n_bytes: int, what: str) -> None:
    """A clear error before the disk is full, not after."""
    free = shutil.disk_usage(spool_folder()).free
    if n_bytes > free:
        raise ValueError(
            f"{what} needs {n_bytes:,} bytes of temporary space, {spool_folder()} has {free:,}: "
            "set TMPDIR to a folder with more"
        )


def spool(pieces: Iterable[Array], n_columns: int) -> Array:
    """Pieces (n, D), written one after another as float64 and mapped as one read-only table."""
    with tempfile.TemporaryFile(prefix="stickbreak-", dir=spool_folder()) as file:
        n_rows = 0
        try:
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype=np.float64).data)
                n_rows += len(piece)
            file.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ValueError(
                f"no space left for a temporary table in {spool_folder()}: set TMPDIR "
                "to a folder with more"
            ) from None
        return _mapped(file, "r", (n_rows, n_columns), np.float64)


def scratch(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros in a temporary file: memory that can be written back to disk."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    require_room(size, f"an array of shape {shape}")
    with tempfile.TemporaryFile(prefix="stickbreak-", dir=spool_folder()) as file:
        file.truncate(size)
        return _mapped(file, "r+", shape, dtype)


class Shelf(MutableMapping[str, Array]):
    """Arrays by name: in memory up to a limit in bytes, the others in a temporary file, read when
    they are asked for.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0
        self._held: dict[str, Array] = {}
        self._stored: dict[str, tuple[int, tuple[int, ...], np.dtype[Any]]] = {}
        self._file: IO[bytes] | None = None

    def __setitem__(self, name: str, array: Array) -> None:
        if self._used + array.nbytes <= self._limit:
            self._used += array.nbytes
            self._held[name] = array
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="stickbreak-", dir=spool_folder())  # noqa: SIM115  # it lives as long as this
            weakref.finalize(self, self._file.close)
        self._stored[name] = (self._file.seek(0, os.SEEK_END), array.shape, array.dtype)
        self._file.write(np.ascontiguousarray(array).tobytes())

    def __getitem__(self, name: str) -> Array:
        if name not in self._stored:
            return self._held[name]
        assert self._file is not None
        offset, shape, dtype = self._stored[name]
        self._file.seek(offset)
        size = math.prod(shape) * dtype.itemsize
        return np.frombuffer(self._file.read(size), dtype).reshape(shape)

    def __delitem__(self, name: str) -> None:
        if self._stored.pop(name, None) is None:
            del self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._held, *self._stored])

    def __len__(self) -> int:
        return len(self._held) + len(self._stored)


def _mapped(file: IO[bytes], mode: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """The mapping keeps the file alive after it is closed."""
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(file, dtype=dtype, mode=mode, shape=shape)
