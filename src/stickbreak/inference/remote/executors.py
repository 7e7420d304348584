"""Any `concurrent.futures.Executor` as a place for tasks, made again when it breaks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any

from stickbreak.errors import StickbreakWarning, WorkersLostError

from .packing import Parcel
from .processors import Processors
from .tasks import (
    Host,
    Packed,
    Task,
    Told,
    describe_host,
    longest_first,
    run_described,
    run_jobs,
    run_total,
)

__all__ = ["ExecutorPlace"]

MOST_DEATHS = 3  # workers that one task may end
UNDER_WAY = 4  # tasks for each worker that are sent before the first result


class ExecutorPlace:
    """Workers of an executor.

    make : a function that makes the executor, and again when its workers have died; it is then
        shut down at the end. None if the executor is the user's
    """

    def __init__(
        self,
        executor: Executor | None,
        make: Callable[[], Executor] | None = None,
        *,
        lanes: int | None = None,
        holds_memory: bool = True,
        scratch: str = "",
    ) -> None:
        self.lanes, self._make = lanes, make
        self._host: Host = describe_host(holds_memory)._replace(scratch=scratch)
        self._processors = Processors(self._host.processor)
        self._executor: Executor = executor if executor is not None else self._made()

    @property
    def n_workers(self) -> int:
        """The executor's processes or threads; 1 if it does not tell."""
        return int(getattr(self._executor, "_max_workers", 1))

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of processors of the workers and of this process."""
        return self._processors.kinds

    def run_jobs(
        self, packed: Packed, tasks: Sequence[Task], limit: int | None, told: Told | None
    ) -> list[bytes]:
        """The results of all jobs, task by task."""
        return self._run(run_jobs, packed, tasks, limit, told)

    def run_totals(
        self, packed: Packed, tasks: Sequence[Task], limit: int | None, told: Told | None
    ) -> list[Parcel]:
        """The sum of each task."""
        return self._run(run_total, packed, tasks, limit, told)

    def close(self) -> None:
        """Shut down what was made here."""
        if self._make is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def _made(self) -> Executor:
        assert self._make is not None
        made = self._make()
        if not isinstance(made, Executor):
            raise ValueError(
                f"the function given to workers made {type(made).__name__}; it must make a "
                "concurrent.futures.Executor"
            )
        return made

    def _run(
        self,
        act: Callable[..., Any],
        packed: Packed,
        tasks: Sequence[Task],
        limit: int | None,
        told: Told | None,
    ) -> list[Any]:
        """Run tasks. After a death the rest runs one by one, which tells the task to blame."""
        found: dict[int, Any] = {}
        deaths = 0
        most = limit or UNDER_WAY * self.n_workers
        while len(found) < len(tasks):
            left = [i for i in range(len(tasks)) if i not in found]
            try:
                self._send(act, packed, tasks, left, 1 if deaths else most, found, told)
            except BrokenExecutor as error:
                now = [i for i in left if i not in found]
                deaths = deaths + 1 if deaths and now == left else 1
                self._mend(error, tasks[now[0]], deaths)
        return [found[i] for i in range(len(tasks))]

    def _send(
        self,
        act: Callable[..., Any],
        packed: Packed,
        tasks: Sequence[Task],
        left: list[int],
        most: int,
        found: dict[int, Any],
        told: Told | None,
    ) -> None:
        """Run the tasks `left`, at most `most` at a time; nothing is left under way."""
        waiting = [left[i] for i in reversed(longest_first([tasks[i] for i in left]))]
        running: dict[Future[Any], int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    i = waiting.pop()
                    running[self._submit(act, packed, tasks[i].jobs)] = i
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    processor, found[running.pop(future)] = future.result()
                    self._processors.see([processor])
                if told is not None:
                    told(len(found), len(tasks))
        finally:
            wait([future for future in running if not future.cancel()])

    def _submit(self, act: Callable[..., Any], packed: Packed, jobs: bytes) -> Future[Any]:
        try:
            return self._executor.submit(run_described, act, packed, jobs, self._host)
        except BrokenExecutor:
            raise
        except RuntimeError as error:
            raise ValueError(
                f"the executor given to workers takes no tasks ({error}): make a new one"
            ) from None

    def _mend(self, error: BrokenExecutor, task: Task, deaths: int) -> None:
        if deaths >= MOST_DEATHS:
            raise WorkersLostError(
                f"{deaths} workers ended, one after another, at the task of {task.name}: does it "
                "fit their memory?"
            ) from error
        if self._make is None:
            raise WorkersLostError(
                f"a worker process ended ({error}), and an executor does not start another: give "
                "workers a function that makes the executor, such as "
                "lambda: ProcessPoolExecutor(4)"
            ) from error
        if deaths == 1:
            message = f"a worker process ended; new ones go on with the task of {task.name}"
            warnings.warn(message, StickbreakWarning, stacklevel=2)
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._made()


def is_shut_down(executor: Any) -> bool:
    """Whether an executor takes no tasks any more, as far as it tells."""
    return bool(
        getattr(executor, "_shutdown", False) or getattr(executor, "_shutdown_thread", False)
    )
