"""Arrays that wait in an unnamed temporary file, and stay in memory where the disk is full."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .room import open_temporary, require_memory, warn_full, write_all

__all__ = ["Shelf", "Spill", "Spilled"]

Array = npt.NDArray[Any]

PAGE = 1 << 16  # bytes; the unused end of an array's last page is a hole, which takes no space


@dataclass(frozen=True)
class Spilled:
    """Where an array is: pages of the file, or in memory if they are None.

    held : the array that could not be written
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pages: tuple[int, ...] | None
    held: Array | None = None


class Spill:
    """Arrays in one temporary file; pages of arrays that are dropped are used again.

    The file has no name, only this process can read it, and nothing is left of it when the process
    ends, even by SIGKILL. An array that cannot be written stays in memory, with one warning; if
    memory is short as well, that is a NoRoomError.

    what : name of the arrays in messages
    folder : where the file is; by default `spool_folder()`
    """

    def __init__(self, what: str, folder: str | Path | None = None) -> None:
        self._what, self._folder = what, folder
        self._file: IO[bytes] | None = None  # made when it is needed
        self._free: list[int] = []
        self._n_pages = 0
        self._has_warned = False

    def put(self, array: Array) -> Spilled:
        """Store an array. It must not change afterwards."""
        array = np.asarray(array, order="C")  # not ascontiguousarray, which gives a scalar an axis
        pages = self._take(-(-array.nbytes // PAGE))
        try:
            self._write(array, pages)
        except OSError as error:
            self._free += reversed(pages)  # the first of them have space now: take them first
            require_memory(array.nbytes, self._what, error, self._folder)
            found = Spilled(array.shape, array.dtype, None, array)
            if not self._has_warned:
                self._has_warned = True
                warn_full(self._what, error, self._folder)
            return found
        return Spilled(array.shape, array.dtype, tuple(pages))

    def get(self, spilled: Spilled) -> Array:
        """The array, read from the file; nobody else holds it."""
        if spilled.pages is None:
            assert spilled.held is not None
            return spilled.held
        array = np.empty(spilled.shape, spilled.dtype)
        payload = _bytes_of(array)
        for i, page in enumerate(spilled.pages):
            assert self._file is not None
            self._file.seek(page * PAGE)
            _read_into(self._file, payload[i * PAGE : (i + 1) * PAGE])
        return array

    def drop(self, spilled: Spilled) -> None:
        """Let others have the space of an array."""
        self._free += spilled.pages or ()

    def _take(self, count: int) -> list[int]:
        """Free pages, and new ones behind the last."""
        cut = max(0, len(self._free) - count)
        pages, self._free = self._free[cut:], self._free[:cut]
        fresh = range(self._n_pages, self._n_pages + count - len(pages))
        self._n_pages = fresh.stop
        return [*pages, *fresh]

    def _write(self, array: Array, pages: list[int]) -> None:
        if self._file is None:
            self._file = open_temporary(self._folder)  # it lives as long as this object
            weakref.finalize(self, self._file.close)
        payload = _bytes_of(array)
        for i, page in enumerate(pages):
            self._file.seek(page * PAGE)
            write_all(self._file, payload[i * PAGE : (i + 1) * PAGE])


class Shelf(MutableMapping[str, Array]):
    """Arrays by name: in memory up to a limit in bytes, the rest in a temporary file.

    Arrays in the file are read when requested.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0
        self._held: dict[str, Array] = {}
        self._stored: dict[str, Spilled] = {}
        self._spill = Spill("arrays of a checkpoint")

    def __setitem__(self, name: str, array: Array) -> None:
        if name in self:
            del self[name]
        if self._used + array.nbytes <= self._limit:
            self._used += array.nbytes
            self._held[name] = array
        else:
            self._stored[name] = self._spill.put(array)

    def __getitem__(self, name: str) -> Array:
        if name not in self._stored:
            return self._held[name]
        return self._spill.get(self._stored[name])

    def __delitem__(self, name: str) -> None:
        if name in self._stored:
            self._spill.drop(self._stored.pop(name))
        else:
            self._used -= self._held.pop(name).nbytes

    def __contains__(self, name: object) -> bool:
        return name in self._held or name in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter([*self._held, *self._stored])

    def __len__(self) -> int:
        return len(self._held) + len(self._stored)


def _read_into(file: IO[bytes], payload: Any) -> None:
    raw: Any = file  # unbuffered
    while len(payload):
        count = raw.readinto(payload)
        if not count:
            raise OSError("a temporary file has lost its end")
        payload = payload[count:]


def _bytes_of(array: Array) -> memoryview:
    """The memory of a contiguous array, without a copy."""
    return array.reshape(math.prod(array.shape)).view(np.uint8).data
