"""Tables in unnamed temporary files, which leave nothing behind, even after SIGKILL."""

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

MAX_COLUMNS = 1 << 20  # of a file: one row must fit into a piece
LARGE_FILES = "/var/tmp"  # on disk; /tmp is often held in memory


def spool_folder() -> str:
    """Folder for temporary tables: TMPDIR (TEMP, TMP), else /var/tmp, else the system's default."""
    if any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")) or not os.access(
        LARGE_FILES, os.W_OK
    ):
        return tempfile.gettempdir()
    return LARGE_FILES


def require_room(n_bytes: int, what: str) -> None:
    """Raise a clear error before the disk is full, not after."""
    free = shutil.disk_usage(spool_folder()).free
    if n_bytes > free:
        raise ValueError(
            f"{what} needs {n_bytes:,} bytes of temporary space, {spool_folder()} has {free:,}: "
            "set TMPDIR to a folder with more"
        )


def spool(pieces: Iterable[Array], n_columns: int) -> Array:
    """Pieces (n, D), written as float64 one after another and mapped as one read-only table."""
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
    """Zeros in a temporary file: memory that the system can write back to disk."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    require_room(size, f"an array of shape {shape}")
    with tempfile.TemporaryFile(prefix="stickbreak-", dir=spool_folder()) as file:
        file.truncate(size)
        return _mapped(file, "r+", shape, dtype)


class Shelf(MutableMapping[str, Array]):
    """Arrays by name: in memory up to a limit in bytes, the rest in a temporary file.

    Arrays in the file are read when requested.
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
            # not in a with statement: it lives as long as this object
            self._file = tempfile.TemporaryFile(prefix="stickbreak-", dir=spool_folder())  # noqa: SIM115
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
    """Map a file; the mapping keeps it alive after it is closed."""
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(file, dtype=dtype, mode=mode, shape=shape)
