"""Places for tasks in tests: processes and clusters on loopback, which end with their test."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest


def processes(n: int = 2) -> ProcessPoolExecutor:
    """Worker processes that begin from nothing, as they do on other systems."""
    return ProcessPoolExecutor(n, multiprocessing.get_context("spawn"))


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
        distributed.LocalCluster(n_workers=n, processes=apart, **options) as made,
        distributed.Client(made, set_as_default=is_current) as client,
    ):
        yield client
