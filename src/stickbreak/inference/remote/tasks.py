"""What runs on a worker: the jobs of some lanes in a row, and sums of what such tasks found.

Tasks and results travel as bytes that we pickle, so that arrays arrive as they left, whatever
carries them, and so that what a visit sends is known.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import signal
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from stickbreak._version import __version__
from stickbreak.data.held_shards import Span, given_rows
from stickbreak.protocols import Array
from stickbreak.stats import Fields, call_loaded, gather, join, split_off, store

from ..blas import BLAS
from .packing import Parcel, pack_total, unpack_total

__all__ = [
    "Host",
    "Packed",
    "Task",
    "Told",
    "add_totals",
    "describe_host",
    "longest_first",
    "run_described",
    "run_jobs",
    "run_total",
]

Held = tuple[tuple[str, int], ...]
Told = Callable[[int, int], None]  # tasks of a visit that are done, and all of them

# of functions whose own name says little to those who look at a dashboard
NAMES = {"held": "trial", "write": "answer"}
KEPT_CALLS = 4  # unpacked potentials that a worker holds: tasks of one visit share them
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
TRIM, MMAP = 1 << 30, 1 << 25  # bytes; the largest that glibc allows for maps


class Host(NamedTuple):
    """The process that sends tasks: workers must have these versions.

    holds_memory : whether workers keep freed memory instead of giving it back to the system
    scratch : folder to which workers write what units keep; empty if that travels
    """

    name: str
    process: int
    versions: tuple[tuple[str, str], ...]
    processor: str
    holds_memory: bool = True
    scratch: str = ""

    @property
    def is_here(self) -> bool:
        """Whether this is that process."""
        return (self.name, self.process) == (socket.gethostname(), os.getpid())


@cache
def _processor() -> str:
    """Kind of the processor: bits repeat on one kind."""
    try:
        with open("/proc/cpuinfo", encoding="utf8", errors="replace") as file:
            names = [line.split(":", 1)[1] for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{platform.machine()} {names[0].strip() if names else platform.processor()}".strip()


def describe_host(holds_memory: bool = True) -> Host:
    """The process that asks."""
    python = ".".join(map(str, sys.version_info[:2]))
    versions = (("stickbreak", __version__), ("numpy", np.__version__), ("Python", python))
    return Host(socket.gethostname(), os.getpid(), versions, _processor(), holds_memory)


class Packed(NamedTuple):
    """A call without its jobs (its model and potentials), pickled once for all tasks of a visit.

    name : what dashboards call its tasks: "infer", "trial", "measure", "seed", "decode"
    """

    key: str
    name: str
    data: bytes

    @classmethod
    def of(cls, call: Callable[[Any], Any]) -> Packed:
        """Pack a call. Classes and functions of a script are packed by value."""
        name = getattr(getattr(call, "func", call), "__name__", "task")
        plain = name.strip("_").removesuffix("_lane")
        return cls(uuid4().hex, NAMES.get(plain, plain), dumps(call))


@dataclass(frozen=True)
class Task:
    """Some successive jobs.

    name : for messages: the rows that they read
    needs : what they read of partitions that a cluster holds, each once
    n_rows : of their lanes: the longest tasks begin first
    """

    jobs: bytes
    name: str
    needs: tuple[Span, ...] = ()
    n_rows: int = 0


def longest_first(tasks: Sequence[Task]) -> list[int]:
    """Positions of tasks in the order in which they begin; that of their results is another."""
    return sorted(range(len(tasks)), key=lambda i: -tasks[i].n_rows)


def dumps(value: Any) -> bytes:
    """Pickled; what a script defines by value, where cloudpickle is installed (dask needs it)."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        return pickle.dumps(value, 5)
    return bytes(cloudpickle.dumps(value, protocol=5))


def run_described(
    act: Callable[[Packed, bytes, Host], Any], packed: Packed, jobs: bytes, host: Host
) -> tuple[str, Any]:
    """What `act` finds, after the kind of this worker's processor."""
    return _processor(), act(packed, jobs, host)


def run_jobs(
    packed: Packed,
    jobs: bytes,
    host: Host,
    held: Held = (),
    partitions: Sequence[Array] = (),
    chunks: Sequence[bytes] = (),
) -> bytes:
    """Results of some jobs, in order.

    held : keys of the partitions that follow, and which of their rows is the first
    chunks : of the call's data, if these travel by themselves
    """
    call = _prepare(packed, host, chunks)
    with BLAS, given_rows(_match(held, partitions)):
        return pickle.dumps([call_loaded(call, job) for job in pickle.loads(jobs)], 5)


def run_total(
    packed: Packed,
    jobs: bytes,
    host: Host,
    held: Held = (),
    partitions: Sequence[Array] = (),
    chunks: Sequence[bytes] = (),
) -> Parcel:
    """The sum of the Summaries of some jobs, and what their units keep; see `run_jobs`."""
    call = _prepare(packed, host, chunks)
    kept: list[Any] = []
    with BLAS, given_rows(_match(held, partitions)):
        total = gather(split_off((call_loaded(call, job) for job in pickle.loads(jobs)), kept))
    if kept and host.scratch:
        kept = [_store(join(kept), host.scratch)]
    return pack_total(total, kept)


def _store(values: Fields, folder: str) -> Fields:
    try:
        return store(values, folder)
    except OSError as error:
        raise ValueError(
            f"scratch={folder!r} cannot be written by process {os.getpid()} on "
            f"{socket.gethostname()} ({error.strerror}): name a folder that all workers see"
        ) from None


def _match(held: Held, partitions: Sequence[Array]) -> dict[str, tuple[int, Array]]:
    return {key: (begin, rows) for (key, begin), rows in zip(held, partitions, strict=True)}


def add_totals(left: Parcel, right: Parcel) -> Parcel:
    """The sum of two neighboring results of `run_total`."""
    (one, kept), (other, more) = unpack_total(left), unpack_total(right, reads_only=True)
    return pack_total(gather([one, other]), [*kept, *more])


# ---------------------------------------------------------------------------------- the process

_CALLS: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()
_LOCK = threading.Lock()


def _prepare(packed: Packed, host: Host, chunks: Sequence[bytes]) -> Callable[[Any], Any]:
    """The call, unpacked once in each process, when the process is fit for it."""
    mine = describe_host()
    if mine.versions != host.versions:
        ours, theirs = (", ".join(map(" ".join, each.versions)) for each in (host, mine))
        raise ValueError(
            f"worker process {mine.process} on {mine.name} has {theirs}; the fit has {ours}: "
            "install the same versions on all workers"
        )
    with _LOCK:
        if not host.is_here:
            _settle_in(host.holds_memory)
        if packed.key not in _CALLS:
            _CALLS[packed.key] = pickle.loads(b"".join(chunks) if chunks else packed.data)
            while len(_CALLS) > KEPT_CALLS:
                _CALLS.popitem(last=False)
        return _CALLS[packed.key]


@cache
def _settle_in(holds_memory: bool) -> None:
    """Once in each worker process: memory, and whose business Ctrl-C is.

    A terminal sends Ctrl-C to workers on the same machine, too: the fit ends in order, and its
    executor goes on. dask's nanny has glibc give every block back to the kernel, which must then
    find new pages for the next one.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if holds_memory and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(M_TRIM_THRESHOLD, TRIM)
            mallopt(M_MMAP_THRESHOLD, MMAP)
