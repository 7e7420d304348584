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
def cluster(n: int = 2, *, apart: bool = False, **options: Any) -> Iterator[Any]:
    """A client of a dask cluster on loopback, without a dashboard.

    apart : workers are processes of their own, with nannies
    """
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    where = {"host": "127.0.0.1"} if apart else {}
    quiet = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    options = {"threads_per_worker": 1, **quiet, **where, **options}
    with (
        distributed.LocalCluster(n_workers=n, processes=apart, **options) as made,
        distributed.Client(made) as client,
    ):
        yield client
