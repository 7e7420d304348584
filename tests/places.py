"""Places for tasks in tests: processes and clusters on loopback, which end with their test."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
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
    before = _children()
    yield
    wait = time.monotonic() + 10
    while (left := _children() - before) and time.monotonic() < wait:
        time.sleep(0.05)
    assert not left, f"processes {sorted(left)} outlive their cluster"


@contextmanager
def _collecting() -> Iterator[None]:
    """Collect what a cluster leaves now: tornado may forget a socket, which would warn later."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _children() -> set[int]:
    """Processes that this one has started, but for the one that multiprocessing keeps."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            command = (status.parent / "cmdline").read_text()
            if int(parent) == os.getpid() and state != "Z" and "resource_tracker" not in command:
                found.add(int(status.parent.name))
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
