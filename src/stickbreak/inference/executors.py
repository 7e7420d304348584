"""Workers: threads over lanes, or the workers of a `stickbreak.workers` context.

Results come in the order of the jobs. BLAS is limited to one thread meanwhile.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from numbers import Real
from typing import Any

from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL, BasePool, call_loaded

from .blas import BLAS
from .remote import RemotePool, current_place

__all__ = ["count_workers", "workers"]


def count_workers(n_jobs: int | None) -> int:
    """Threads for n_jobs: None is 1, -1 is every available processor, -2 all but one.

    Available are the processors that this process may use.
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Real) or n_jobs == 0 or n_jobs % 1 != 0:
        raise ValueError(f"n_jobs must be a whole number other than 0; got {n_jobs!r}")
    if n_jobs > 0:
        return int(n_jobs)
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, available + 1 + int(n_jobs))


def _share_out(
    executor: Executor, n_helpers: int, call: Callable[[Any], Any], jobs: Iterable[Any]
) -> list[Any]:
    """call(job) of every job, in order.

    The calling thread works too: if it only waited, it would be woken for every result.
    """
    jobs = list(jobs)
    results, numbers, failed = [None] * len(jobs), itertools.count(), threading.Event()

    def work() -> None:
        while not failed.is_set() and (i := next(numbers)) < len(jobs):
            try:
                results[i] = call(jobs[i])
            except BaseException:
                failed.set()  # stops the other threads
                raise

    helpers = [executor.submit(work) for _ in range(min(n_helpers, len(jobs) - 1))]
    try:
        work()
    except BaseException:
        failed.set()  # an interrupt may come between two jobs
        raise
    finally:
        # A helper that has not begun has nothing left to do.
        waited_for = [helper for helper in helpers if not helper.cancel()]
        wait(waited_for)
    for helper in waited_for:
        helper.result()  # raises the helper's exception, if any
    return results


class ThreadPool(BasePool):
    """Jobs shared out among the calling thread and `n_helpers` of an executor."""

    def __init__(self, executor: Executor, n_helpers: int) -> None:
        self._executor, self._n_helpers = executor, n_helpers

    def map(self, call: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterable[Any]:
        """call(job) of every job, in order, when all are done."""
        return _share_out(self._executor, self._n_helpers, partial(call_loaded, call), jobs)


@contextmanager
def workers(n_jobs: int | None = None) -> Iterator[Pool]:
    """A pool of n_jobs threads; within `stickbreak.workers`, of the workers given there.

    A number of jobs then limits the tasks that are under way.
    """
    count, place = count_workers(n_jobs), current_place()
    with BLAS:
        if place is not None:
            yield RemotePool(place, None if n_jobs is None else count)
        elif count == 1:
            yield SERIAL
        else:
            with ThreadPoolExecutor(count - 1, thread_name_prefix="stickbreak") as executor:
                yield ThreadPool(executor, count - 1)
