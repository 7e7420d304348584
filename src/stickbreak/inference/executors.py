"""Workers: threads over lanes, results in the order of the jobs, BLAS held to one thread meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Real
from typing import Any

import threadpoolctl

from stickbreak.protocols import Pool

__all__ = ["count_workers", "workers"]


class _BlasLimit:
    """Holds BLAS to one thread while anybody needs it. Shared and counted, so that overlapping users restore it once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def acquire(self) -> None:
        with self._lock:
            if self._users == 0:
                _take_control()
                self._limit = threadpoolctl.ThreadpoolController().limit(limits=1, user_api="blas")
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _take_control()
                self._limit.restore_original_limits()
                _take_control()
                self._limit = None


def _take_control() -> None:
    """Later releases of threadpoolctl let only the first thread that set a limit change OpenBLAS; ours may be any."""
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_BLAS = _BlasLimit()


def count_workers(n_jobs: int | None) -> int:
    """Threads for n_jobs: None is 1, -1 is every processor that this process may use, -2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Real) or n_jobs == 0 or n_jobs % 1 != 0:
        raise ValueError(f"n_jobs must be a whole number other than 0; got {n_jobs!r}")
    if n_jobs > 0:
        return int(n_jobs)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, available + 1 + int(n_jobs))


@contextmanager
def workers(n_jobs: int | None = None) -> Iterator[Pool]:
    """A `map` whose jobs run on n_jobs threads and whose results come in order."""
    count = count_workers(n_jobs)
    _BLAS.acquire()
    try:
        if count == 1:
            yield map
        else:
            with ThreadPoolExecutor(count, thread_name_prefix="stickbreak") as executor:
                yield executor.map
    finally:
        _BLAS.release()
