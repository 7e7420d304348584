"""The workers of a dask.distributed cluster as a place for tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

from stickbreak.data.held_shards import Span
from stickbreak.errors import ShardError, StickbreakWarning, WorkersLostError
from stickbreak.extras import require_extra

from .packing import Parcel
from .partitions import Partition, cut_rows
from .processors import Processors
from .tasks import (
    Host,
    Packed,
    Task,
    Told,
    add_totals,
    describe_host,
    longest_first,
    run_jobs,
    run_total,
)

__all__ = ["DaskPlace"]

SMALL = 1 << 16  # bytes that travel with each task; larger values are sent to a worker once
LARGE = 1 << 18  # bytes of potentials from which on workers add counts: below, more tasks cost more
CHUNK = 1 << 23  # bytes of potentials that are sent as one value: workers pass them on meanwhile
MOST_SENDS = 4  # times that potentials are sent when the workers that held them are lost
LOST = ("cancelled", "lost")
LOOK = 0.5  # seconds between two looks at how many tasks are done, if anybody is told

# of dask.distributed, which is imported by those who have a client
Client: TypeAlias = Any
Future: TypeAlias = Any


def _tell(told: Told, before: int, n_tasks: int, done: int) -> None:
    told(before + done, n_tasks)


def _first(pair: tuple[int, Future]) -> int:
    return pair[0]


def _import_probe() -> Callable[[], str]:
    """A function that travels by value: what keeps its worker from importing stickbreak, or ""."""

    def probe() -> str:
        import importlib

        try:
            importlib.import_module("stickbreak.inference.remote")
        except ImportError as error:
            return str(error)
        return ""

    return probe


class DaskPlace:
    """Workers of a dask cluster. They may come and go: dask runs the tasks of lost ones again."""

    def __init__(
        self,
        client: Client,
        *,
        lanes: int | None = None,
        holds_memory: bool = True,
        scratch: str = "",
    ) -> None:
        self._dask = require_extra("distributed", "dask", "a dask cluster")
        if client.asynchronous:
            raise ValueError(
                "the dask client belongs to an event loop (asynchronous=True), which a fit would "
                "block: give a Client of its own"
            )
        if client.status != "running":
            raise ValueError(
                f"the dask client is {client.status}: make a new Client to a running cluster"
            )
        self.lanes, self._client = lanes, client
        self._host: Host = describe_host(holds_memory)._replace(scratch=scratch)
        self._warned = False
        self._known: set[str] = set()  # addresses of workers whose processors were compared
        self._processors = Processors(self._host.processor)
        self._compare()

    @property
    def client(self) -> Client:
        """The user's client."""
        return self._client

    @property
    def n_workers(self) -> int:
        """Threads of all workers, now."""
        threads: dict[str, int] = self._safely(self._client.nthreads)
        if not self._known.issuperset(threads):
            self._processors.see(host.processor for host in self._hosts().values())
            self._known.update(threads)
        return max(1, sum(threads.values()))

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of processors of the workers and of this process."""
        return self._processors.kinds

    def run_jobs(
        self, packed: Packed, tasks: Sequence[Task], limit: int | None, told: Told | None
    ) -> list[bytes]:
        """The results of all jobs, task by task."""
        return self._insist(partial(self._visit, run_jobs, packed, tasks, limit, told, adds=False))

    def run_totals(
        self, packed: Packed, tasks: Sequence[Task], limit: int | None, told: Told | None
    ) -> list[Parcel]:
        """Sums of neighboring tasks: of all of them, if counts are large."""
        adds = len(packed.data) > LARGE
        return self._insist(partial(self._visit, run_total, packed, tasks, limit, told, adds=adds))

    def run_on_hosts(self, act: Callable[[], Any]) -> dict[str, Any]:
        """What `act` gives on each host, in one of its worker processes."""
        hosts = {host.name: address for address, host in self._hosts().items()}
        tasks = {
            name: self._client.submit(act, workers=[address], pure=False)
            for name, address in hosts.items()
        }
        found: dict[str, Any] = self._safely(partial(self._client.gather, tasks))
        return found

    def close(self) -> None:
        """The client is the user's."""

    # ------------------------------------------------------------------------------ start

    def _compare(self) -> None:
        """Versions and processors of all workers, compared with ours."""
        missing = self._safely(partial(self._client.run, _import_probe()))
        if not missing:
            raise ValueError("the dask cluster has no workers; wait for some: wait_for_workers(1)")
        for address, reason in missing.items():
            if reason:
                raise ValueError(
                    f"worker {address} cannot import stickbreak ({reason}): install it on all "
                    "workers"
                )
        found = self._hosts()
        for address, theirs in found.items():
            if theirs.versions != self._host.versions:
                one, two = (", ".join(map(" ".join, h.versions)) for h in (self._host, theirs))
                raise ValueError(
                    f"worker {address} has {two}; this process has {one}: install the same "
                    "versions on all workers"
                )
        self._known = set(found)
        self._processors.see(theirs.processor for theirs in found.values())

    def _hosts(self) -> dict[str, Host]:
        """The process behind each address."""
        found: dict[str, Host] = self._safely(partial(self._client.run, describe_host))
        return found

    # ------------------------------------------------------------------------------ a visit

    def _insist(self, act: Callable[[], list[Any] | None]) -> list[Any]:
        """A visit, again while what was sent gets lost with the workers that held it."""
        for _ in range(MOST_SENDS):
            found = self._safely(act)
            if found is not None:
                return found
            self._require_scheduler()
        raise WorkersLostError(
            f"potentials, or partitions of data, were lost {MOST_SENDS} times with the workers "
            "that held them"
        )

    def _safely(self, act: Callable[[], Any]) -> Any:
        """What `act` finds; a lost scheduler is a WorkersLostError."""
        try:
            with self._client.as_current():  # `wait` asks for dask's current client
                return act()
        except (OSError, self._dask.CancelledError) as error:
            what = str(error) or type(error).__name__
            raise WorkersLostError(f"lost the dask cluster: {what}") from error

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise WorkersLostError(
                f"lost the scheduler of the dask cluster at {self._client.scheduler.address}"
            )

    def _visit(
        self,
        act: Callable[..., Any],
        packed: Packed,
        tasks: Sequence[Task],
        limit: int | None,
        told: Told | None,
        *,
        adds: bool,
    ) -> list[Any] | None:
        """All tasks of a visit; None if what was sent to workers got lost.

        Nothing is left on the cluster, however it ends.
        """
        sent: list[Future] = []
        try:
            call = self._send_call(packed, sent)
            name = f"{packed.name}-{uuid4().hex[:12]}"
            window, results = limit or len(tasks), []
            ask = partial(self._submit, act, call, sent=sent)
            add = partial(self._add, sent=sent)
            for lo in range(0, len(tasks), window):
                tell = None if told is None else partial(_tell, told, lo, len(tasks))
                some = tasks[lo : lo + window]
                # of all tasks: workers add what is there while others are under way
                then = add if adds and len(some) == len(tasks) else None
                found = self._finish(ask, some, f"{name}-{lo}", tell, then)
                if found is None:
                    return None
                results += found
            if adds:
                results = add(results, f"{name}-all")
            return list(self._client.gather(results))
        except self._dask.CancelledError:
            # tasks that need what all its holders have taken with them are forgotten
            self._require_scheduler()
            return None
        finally:
            if self._client.status == "running":
                self._client.cancel(sent, force=True)

    def _send_call(self, packed: Packed, sent: list[Future]) -> tuple[Packed, list[Future]]:
        """A call, with its data if they are few; else without, and the chunks that hold them.

        Workers pass the chunks on to each other.
        """
        data = packed.data
        if len(data) <= SMALL:
            return packed, []
        parts = [data[lo : lo + CHUNK] for lo in range(0, len(data), CHUNK)]
        # to all: dask considers for a task only the workers that hold what it needs
        chunks = self._client.scatter(parts, hash=False, broadcast=True)
        sent.extend(chunks)
        return packed._replace(data=b""), chunks

    def _send(self, value: bytes, sent: list[Future]) -> Any:
        """A value as it is, if it is small; else once to a worker."""
        if len(value) <= SMALL:
            return value
        future = self._client.scatter(value, hash=False)
        sent.append(future)
        return future

    def _submit(
        self,
        act: Callable[..., Any],
        call: tuple[Packed, list[Future]],
        tasks: Sequence[Task],
        keys: Sequence[str],
        among: list[str] | None = None,
        *,
        sent: list[Future],
    ) -> list[Future]:
        """Ask for some tasks, to be begun in this order, in one message to the scheduler."""
        jobs, n = [self._send(task.jobs, sent) for task in tasks], len(tasks)
        fetched = [
            [self._fetch(span, len(task.needs) > 1, sent) for span in task.needs] for task in tasks
        ]
        held = [tuple((key, first) for key, first, _ in some) for some in fetched]
        partitions = [[rows for *_, rows in some] for some in fetched]
        packed, chunks = call
        every = [packed] * n, jobs, [self._host] * n, held, partitions, [chunks] * n
        found = self._client.map(act, *every, key=list(keys), pure=False, workers=among)
        sent.extend(found)
        return list(found)

    def _fetch(
        self, span: Span, is_one_of_several: bool, sent: list[Future]
    ) -> tuple[str, int, Future]:
        """The key of a partition, which of its rows is the first that a task has, and the rows.

        The whole of it, where it is, if the task needs no other; else what is needed travels.
        """
        holder = span.shard.holder
        if not isinstance(holder, Partition):
            raise ValueError(f"{span.shard.path} is not held by this cluster")
        if not is_one_of_several:
            return span.shard.key, 0, holder.future
        part = self._client.submit(cut_rows, holder.future, span.begin, span.end, pure=False)
        sent.append(part)
        return span.shard.key, span.begin, part

    def _finish(
        self,
        ask: Callable[..., list[Future]],
        tasks: Sequence[Task],
        name: str,
        tell: Callable[[int], None] | None,
        then: Callable[..., list[Future]] | None,
    ) -> list[Future] | None:
        """Some tasks, when all are done, or sums that `then` asks for; None if values got lost.

        What one worker cannot read is tried on the others.
        """
        order = longest_first(tasks)
        asked = ask([tasks[i] for i in order], [f"{name}-{i}" for i in order])
        found = [future for _, future in sorted(zip(order, asked, strict=True), key=_first)]
        refused: list[set[tuple[str, int]]] = [set() for _ in tasks]
        last = found if then is None else then(found, name)
        while True:
            self._wait(found, tell)
            if any(future.status in LOST for future in found):
                return None
            failed = [i for i, future in enumerate(found) if future.status == "error"]
            for i in failed:
                among = self._others(found[i], tasks[i], refused[i])
                [found[i]] = ask([tasks[i]], [f"{name}-{i}-{len(refused[i])}"], among)
            if not failed:
                return last
            last = found  # sums that were asked for need what has failed

    def _wait(self, found: list[Future], tell: Callable[[int], None] | None) -> None:
        """Wait until some tasks are done, and tell now and then how many are."""
        while True:
            try:
                self._dask.wait(found, timeout=None if tell is None else LOOK)
                return
            except TimeoutError:
                if tell is not None:
                    tell(sum(future.done() for future in found))

    def _others(self, future: Future, task: Task, refused: set[tuple[str, int]]) -> list[str]:
        """Workers that may read what some could not; raises whatever else a task raised."""
        error = future.exception()
        if isinstance(error, self._dask.scheduler.KilledWorker):
            raise WorkersLostError(
                f"several workers ended, one after another, at the task of {task.name}: does it "
                "fit their memory?"
            ) from error
        if not isinstance(error, ShardError) or error.reader is None:
            raise error
        refused.add(error.reader)
        hosts = self._hosts()
        among = [a for a, host in hosts.items() if (host.name, host.process) not in refused]
        if not among:
            raise error
        if not self._warned:
            self._warned = True
            message = f"{error}; other workers are asked"
            warnings.warn(message, StickbreakWarning, stacklevel=2)
        return among

    def _add(self, found: list[Future], name: str, *, sent: list[Future]) -> list[Future]:
        """One sum of all tasks, in the tree of `gather`, made on the workers."""
        level = 0
        while len(found) > 1:
            level += 1
            left, right = found[:-1:2], found[1::2]
            keys = [f"add-{name}-{level}-{i}" for i in range(len(right))]
            pairs = self._client.map(add_totals, left, right, key=keys)
            sent.extend(pairs)
            found = [*pairs, *found[2 * len(pairs) :]]
        return found
