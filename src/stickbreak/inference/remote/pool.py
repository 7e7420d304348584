"""A pool whose jobs run on the workers of a place, several successive lanes in one task."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from stickbreak.data import Batch
from stickbreak.data.held_shards import Span, held_spans
from stickbreak.stats import SERIAL, BasePool, Fields, Summary, gather

from .packing import Parcel, unpack_total
from .tasks import Packed, Task, Told, dumps

__all__ = ["Place", "RemotePool"]

TASKS_EACH = 2  # tasks for each worker in a visit, so that a slow one does not hold up the others
WORTH = 0.9  # of the lanes of the slowest worker: twice as many tasks must leave less than this


class Place(Protocol):
    """Where tasks run."""

    @property
    def lanes(self) -> int | None:
        """Lanes of a task, a power of two; None to choose by the number of workers."""

    @property
    def n_workers(self) -> int:
        """Tasks that can run at a time, now."""

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of processors that tasks have run on, or may, and that of this process."""

    def run_jobs(
        self, packed: Packed, tasks: Sequence[Task], limit: int | None, told: Told | None
    ) -> list[bytes]:
        """The results of all jobs, task by task.

        limit : tasks that are under way at most
        told : is told now and then how many are done
        """

    def run_totals(
        self, packed: Packed, tasks: Sequence[Task], limit: int | None, told: Told | None
    ) -> list[Parcel]:
        """Sums of neighboring tasks: of each, or of aligned groups of them."""


class RemotePool(BasePool):
    """Jobs in tasks of 2^g lanes, aligned, so that `gather`'s tree goes through tasks."""

    def __init__(self, place: Place, limit: int | None = None, told: Told | None = None) -> None:
        self._place, self._limit, self._told = place, limit, told

    def telling(self, told: Told) -> RemotePool:
        """The same pool, which tells how many of a visit's tasks are done, and of how many."""
        return RemotePool(self._place, self._limit, told)

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of the workers' processors, and that of this process."""
        return self._place.processors

    @property
    def here(self) -> BasePool:
        """The driver, without threads: its workers have the rest of the machine."""
        return SERIAL

    def map(self, call: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterable[Any]:
        """call(job) of every job, in the order of the jobs."""
        every = list(jobs)
        if not _is_worth(every):
            return self.here.map(call, every)
        found = self._place.run_jobs(*self._asked(call, every))
        return [result for part in found for result in pickle.loads(part)]

    def total(
        self, call: Callable[[Any], tuple[Summary, Fields | None]], jobs: Iterable[Any]
    ) -> tuple[Summary, list[Fields]]:
        """The sum of the Summaries of all jobs, added up in part where they were made."""
        every = list(jobs)
        if not _is_worth(every):
            return self.here.total(call, every)
        found = self._place.run_totals(*self._asked(call, every))
        totals, kept = zip(*map(unpack_total, found), strict=True)
        return gather(totals), [own.owned() for part in kept for own in part]

    def _asked(
        self, call: Callable[[Any], Any], jobs: list[Any]
    ) -> tuple[Packed, list[Task], int | None, Told | None]:
        return Packed.of(call), list(self._tasks(jobs)), self._limit, self._told

    def _tasks(self, jobs: list[Any]) -> Iterator[Task]:
        size = self._place.lanes or group_size(len(jobs), self._place.n_workers)
        needs = [_needs_of(job) for job in jobs]
        while size > 1 and not _is_aligned(needs, size):
            size //= 2
        for lo in range(0, len(jobs), size):
            some = jobs[lo : lo + size]
            n_rows = sum(batch.n_rows for batch in map(_batch_of, some) if batch is not None)
            yield Task(dumps(some), _name(some), _join_spans(needs[lo : lo + size]), n_rows)


def group_size(n_jobs: int, n_workers: int) -> int:
    """Lanes of a task: the largest power of two that leaves every worker some tasks.

    Half of it, if workers would otherwise wait long for those who run one task more.
    """
    most = max(1, n_jobs // (TASKS_EACH * max(1, n_workers)))
    size = 1 << (most.bit_length() - 1)
    half = max(1, size // 2)
    lanes_of_slowest = [n * -(-n_jobs // (n * max(1, n_workers))) for n in (size, half)]
    return half if lanes_of_slowest[1] < WORTH * lanes_of_slowest[0] else size


def _batch_of(job: Any) -> Batch | None:
    """What a job reads: it is a lane, or begins with one."""
    first = job[0] if isinstance(job, tuple) and job else job
    return first if isinstance(first, Batch) else None


def _needs_of(job: Any) -> list[Span]:
    batch = _batch_of(job)
    return [] if batch is None else held_spans(batch.rows)


def _is_aligned(needs: list[list[Span]], size: int) -> bool:
    """Whether groups of so many jobs need one partition each: work goes to where that is."""
    for lo in range(0, len(needs), size):
        if len({span.shard.key for spans in needs[lo : lo + size] for span in spans}) > 1:
            return False
    return True


def _join_spans(needs: list[list[Span]]) -> tuple[Span, ...]:
    """What several jobs need of each partition, from the first row to the last."""
    found: dict[str, Span] = {}
    for span in (span for spans in needs for span in spans):
        old = found.get(span.shard.key, span)
        found[span.shard.key] = Span(span.shard, min(old.begin, span.begin), max(old.end, span.end))
    return tuple(found.values())


def _is_worth(jobs: list[Any]) -> bool:
    """Whether jobs are worth sending: a single one of rows that are here is not."""
    return len(jobs) > 1 or any(b is not None and b.is_by_reference for b in map(_batch_of, jobs))


def _name(jobs: list[Any]) -> str:
    """What messages call some jobs."""
    batches = [batch for batch in map(_batch_of, jobs) if batch is not None]
    if not batches:
        return f"{len(jobs)} jobs"
    files = [file.path for b in batches if b.is_by_reference for file in b.rows.files]
    where = f"batch {batches[0].id}" if not files else ", ".join(dict.fromkeys(files))
    return f"{sum(batch.n_rows for batch in batches):,} rows of {where}"
