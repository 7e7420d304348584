"""Places for tasks in tests: processes and clusters on loopback, which end with their test."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest


def processes(n: int = 2) -> ProcessPoolExecutor:
    """Worker processes that begin from nothing, as they do on other systems."""
    return ProcessPoolExecutor(n, multiprocessing.get_context("spawn"))


@contextmanager
def leaving_no_process() -> Iterator[None]:
    """Raises AssertionError if processes that were started within are still there (Linux)."""
    before = set(_children())
    try:
        yield
    finally:
        left = _waited_for(lambda: sorted(set(_children()) - before))
        assert not left, f"processes {left} outlive their cluster"


def left_behind(seconds: float = 10) -> list[str]:
    """Worker processes of tests, and parts of dask clusters in this one, that do not end."""
    return _waited_for(lambda: [*_worker_processes(), *_parts_of_clusters()], seconds)


def _waited_for(look: Callable[[], list[Any]], seconds: float = 10) -> list[Any]:
    """What is still there when time is up."""
    wait = time.monotonic() + seconds
    while (left := look()) and time.monotonic() < wait:
        time.sleep(0.05)
    return left


def _worker_processes() -> list[str]:
    """Those of `processes`, and nannies' workers, begin as spawn_main; separate ones name dask."""
    marks = "spawn_main", "distributed.cli"
    commands = _children().items()
    return [f"process {i}: {c[:200]}" for i, c in commands if any(m in c for m in marks)]


def _parts_of_clusters() -> list[str]:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return []
    kinds = distributed.Scheduler, distributed.Worker, distributed.Nanny, distributed.Client
    parts = [part for kind in kinds for part in list(kind._instances)]
    ends = {"closed", "failed", "init", "undefined"}
    status = lambda part: getattr(part.status, "name", part.status)
    return [f"{type(p).__name__} ({status(p)})" for p in parts if status(p) not in ends]


@contextmanager
def _collecting() -> Iterator[None]:
    """Collect what a cluster leaves now: tornado may forget a socket, which would warn later."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _children() -> dict[int, str]:
    """Commands of processes that this one has started, without multiprocessing's tracker."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            command = (status.parent / "cmdline").read_text()
            if int(parent) == os.getpid() and state != "Z" and "resource_tracker" not in command:
                found[int(status.parent.name)] = command.replace("\0", " ")
    return found


@contextmanager
def cluster(
    n: int = 2, *, apart: bool = False, is_current: bool = True, **options: Any
) -> Iterator[Any]:
    """A client of a dask cluster on loopback, without a dashboard.

    apart : workers are processes of their own, with nannies
    is_current : whether it is dask's current client
    """
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    where = {"host": "127.0.0.1"} if apart else {}
    # ports are opened even without a dashboard
    ports = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    quiet = {**ports, "scheduler_kwargs": {"dashboard": False}}
    options = {"threads_per_worker": 1, **quiet, **where, **options}
    with (
        _collecting(),
        leaving_no_process(),
        distributed.LocalCluster(n_workers=n, processes=apart, **options) as made,
        distributed.Client(made, set_as_default=is_current) as client,
    ):
        yield client
