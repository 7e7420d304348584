"""Tables in unnamed temporary files, which leave nothing behind, even after SIGKILL."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .room import (
    is_full,
    open_temporary,
    require_memory,
    require_room,
    spool_folder,
    warn_full,
    write_all,
)

__all__ = ["GrowingColumn", "require_room", "scratch", "spool", "spool_folder"]

Array = npt.NDArray[Any]

ZEROS = 1 << 20  # bytes written at once
HELD = 1 << 26  # bytes that a growing column holds in memory
UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)  # file systems that cannot set blocks aside


def spool(pieces: Iterable[Array], n_columns: int) -> Array:
    """Pieces (n, D), written as float64 one after another and mapped as one read-only table."""
    n_rows = 0
    try:
        with open_temporary() as file:
            for piece in pieces:
                write_all(file, np.ascontiguousarray(piece, dtype=np.float64))
                n_rows += len(piece)
            return _mapped(file, "r", (n_rows, n_columns), np.float64)
    except OSError as error:
        raise _no_space(error) from None


def _no_space(error: OSError) -> Exception:
    """A full disk in words; any other error as it is."""
    if not is_full(error):
        return error
    return ValueError(
        f"no space left for a temporary table in {spool_folder()}: set TMPDIR to a folder with more"
    )


def scratch(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros in a temporary file: memory that the system can write back to disk.

    Its space is taken now: a page that finds no space later would end the process (SIGBUS). Where
    the disk is full the array is in memory, with a warning.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    try:
        with open_temporary() as file:
            _fill(file, size)
            return _mapped(file, "r+", shape, dtype)
    except OSError as error:
        what = f"temporary arrays of {size:,} bytes"
        require_memory(size, what, error)
        warn_full(what, error)
        return np.zeros(shape, dtype)


def _fill(file: IO[bytes], size: int) -> None:
    """Zeros whose blocks are taken, or an OSError."""
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in UNABLE:
                raise
    for lo in range(0, size, ZEROS):
        write_all(file, bytes(min(ZEROS, size - lo)))


def _mapped(file: IO[bytes], mode: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Map a file; the mapping keeps it alive after it is closed."""
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(file, dtype=dtype, mode=mode, shape=shape)


class GrowingColumn:
    """A column of numbers that grows: in memory, or in a temporary file once it is large.

    held : bytes in memory; default 64 MB
    """

    def __init__(self, dtype: Any, held: int | None = None) -> None:
        self._dtype, self._n_rows, self._n_bytes = np.dtype(dtype), 0, 0
        self._held = HELD if held is None else held
        self._pieces: list[Array] = []
        self._file: IO[bytes] | None = None

    def add(self, piece: Array) -> None:
        """Put numbers (n,) at the end."""
        self._pieces.append(np.ascontiguousarray(piece, dtype=self._dtype))
        self._n_rows += len(piece)
        self._n_bytes += self._pieces[-1].nbytes
        if self._n_bytes > self._held:
            self._flush()

    def whole(self) -> Array:
        """(n,) all numbers; read-only if they are in a file."""
        if self._file is None:
            return np.concatenate([np.zeros(0, self._dtype), *self._pieces])
        self._flush()
        with self._file as file:
            return _mapped(file, "r", (self._n_rows,), self._dtype)

    def _flush(self) -> None:
        """Write what is held to the file."""
        try:
            if self._file is None:
                self._file = open_temporary()
            for piece in self._pieces:
                write_all(self._file, piece)
        except OSError as error:
            raise _no_space(error) from None
        self._pieces, self._n_bytes = [], 0
