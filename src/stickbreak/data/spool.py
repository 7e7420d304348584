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

__all__ = ["require_room", "scratch", "spool", "spool_folder"]

Array = npt.NDArray[Any]

ZEROS = 1 << 20  # bytes written at once
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
        if not is_full(error):
            raise
        raise ValueError(
            f"no space left for a temporary table in {spool_folder()}: set TMPDIR "
            "to a folder with more"
        ) from None


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
