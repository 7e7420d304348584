"""Compiled kernels on disk: numba's cache, with a digest at the end of each of its files.

Numba unpickles and runs whatever it finds there. A file that a full disk cut short, or that lost a
bit, would be a traceback in pickle, or a crash in the middle of a fit.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["CheckedCache"]

DIGEST_BYTES = 16


class _DamagedError(Exception):
    """A file of the cache is not what was written."""


def _digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest()


class _CheckedFile(IndexDataCacheFile):
    """Index and data files, each followed by its digest, which unpickling does not read."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            whole = io.BytesIO()
            yield whole
            file.write(whole.getvalue() + _digest(whole.getvalue()))

    def _load_index(self) -> Any:
        self._check(self._index_path)
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        self._check(self._data_path(name))
        return super()._load_data(name)

    @staticmethod
    def _check(path: str) -> None:
        try:
            whole = Path(path).read_bytes()
        except OSError:  # numba knows what to do without the file
            return
        if whole[-DIGEST_BYTES:] != _digest(whole[:-DIGEST_BYTES]):
            raise _DamagedError(path)


class CheckedCache(FunctionCache):
    """The cache of one kernel. If a file of it is damaged, it is begun anew."""

    kind = "checked"

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        # names of our own: files without a digest are never mistaken for damaged ones
        self._cache_file = _CheckedFile(
            self._cache_path,
            f"{self._impl.filename_base}.{self.kind}",
            self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel; None if it must be compiled."""
        try:
            return super().load_overload(sig, target_context)
        except _DamagedError as error:
            warnings.warn(
                f"a file of compiled kernels is damaged, and is made anew: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            self.flush()
            return None
