"""BLAS on one thread while jobs run side by side."""

from __future__ import annotations

import sys
import threading
from typing import Any

import threadpoolctl

__all__ = ["BLAS"]


class BlasLimit:
    """Limits BLAS to one thread while anybody needs it.

    Shared and counted, so that overlapping users restore it once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None
        self._libraries: Any = None
        self._n_modules = 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        with self._lock:
            if self._users == 0:
                _take_control()
                self._limit = self._find_libraries().limit(limits=1, user_api="blas")
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _take_control()
                self._limit.restore_original_limits()
                _take_control()
                self._limit = None

    def _find_libraries(self) -> Any:
        """The libraries of this process, looked for again only if modules were imported since.

        The search reads all its memory maps: milliseconds, more than a small fit takes.
        """
        n_modules = len(sys.modules)
        if self._libraries is None or self._n_modules != n_modules:
            self._libraries = threadpoolctl.ThreadpoolController()
            self._n_modules = n_modules
        return self._libraries


def _take_control() -> None:
    """Let this thread change OpenBLAS's limit.

    Later releases of threadpoolctl reserve that for the first thread that set one; ours may be any.
    """
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


BLAS = BlasLimit()
