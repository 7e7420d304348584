"""`with stickbreak.workers(...)`: where the fits of a block run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from numbers import Real
from typing import Any

from stickbreak.data.file_jobs import FILE_RUNNER
from stickbreak.data.held_shards import held_spans

from .dask_cluster import DaskPlace
from .executors import ExecutorPlace, is_shut_down
from .partitions import Partition
from .pool import Place, RemotePool

__all__ = ["current_place", "place_beside", "placed", "workers"]

_PLACE: ContextVar[Place | None] = ContextVar("stickbreak_place", default=None)


@contextmanager
def workers(
    where: Any,
    *,
    lanes: int | None = None,
    holds_memory: bool = True,
    scratch: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Run the fits and answers of a block on the workers of a cluster or an executor.

    What a fit finds does not depend on it, down to the last bit, on processors of one kind.
    Potentials travel to the workers and counts come back; rows stay where they are if the data are
    shards (`open_shards`), and travel with each visit if they are arrays in memory.

    Whoever reaches a dask scheduler can run code as you: see the page "More than one machine".

    Parameters
    ----------
    where : a `dask.distributed.Client`, a `concurrent.futures.Executor`, or a function that makes
        an executor. Of a function, the executor is made again if its workers die, and shut down at
        the end.
    lanes : lanes of a task, a power of two; default: by the number of workers.
    holds_memory : have worker processes keep the memory that they free for their next task (Linux).
    scratch : a folder that all workers and this process see, for what units keep from visit to
        visit (documents: a number for each topic). Workers then write and read it there, and it
        does not travel. The files go with the model.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 1, (10_000, 2)) for m in (-5, 5)])
    >>> with sb.workers(lambda: ThreadPoolExecutor(2)):
    ...     there = sb.Mixture(2, random_state=0).fit(X)
    >>> here = sb.Mixture(2, random_state=0).fit(X)
    >>> there.lower_bound_ == here.lower_bound_
    True
    """
    if lanes is not None and (isinstance(lanes, bool) or lanes < 1 or lanes & (lanes - 1)):
        raise ValueError(f"lanes must be a power of two, such as 4; got {lanes!r}")
    if scratch is not None and not os.path.isdir(scratch):
        raise ValueError(f"scratch={os.fspath(scratch)!r} is no folder")
    how = {
        "lanes": lanes,
        "holds_memory": holds_memory,
        "scratch": "" if scratch is None else os.path.abspath(scratch),
    }
    with ExitStack() as stack, placed(_place_of(where, how, stack)):
        yield


def current_place() -> Place | None:
    """Where fits run now: the workers of the innermost block, or of joblib's; None for here."""
    place = _PLACE.get()
    return _place_of_joblib() if place is None else place


@contextmanager
def placed(place: Place | None) -> Iterator[None]:
    """Run what follows at a place; None changes nothing."""
    if place is None:
        yield
        return
    token, before = _PLACE.set(place), FILE_RUNNER.set(partial(_over_files, place))
    try:
        yield
    finally:
        _PLACE.reset(token)
        FILE_RUNNER.reset(before)


def _over_files(place: Place, call: Callable[[str], Any], paths: Sequence[str]) -> list[Any]:
    return list(RemotePool(place).map(call, paths))


def place_beside(rows: Any) -> Place | None:
    """The cluster that holds partitions of rows; None for other rows, or if a place was chosen."""
    holders = [span.shard.holder for span in held_spans(rows)[:1]]
    if not holders or not isinstance(holders[0], Partition) or current_place() is not None:
        return None
    return DaskPlace(holders[0].client)


def _place_of(where: Any, how: dict[str, Any], stack: ExitStack) -> Place:
    if isinstance(where, Real):
        raise ValueError(
            f"workers takes a dask Client, an executor, or a function that makes one; for threads "
            f"of this machine give the model n_jobs={where}"
        )
    if isinstance(where, Executor):
        if is_shut_down(where):
            raise ValueError("the executor given to workers is shut down: make a new one")
        return ExecutorPlace(where, **how)
    if _is_client(where):
        return DaskPlace(where, **how)
    if isinstance(where, Callable):  # type: ignore[arg-type]
        place = ExecutorPlace(None, where, **how)
        stack.callback(place.close)
        return place
    raise ValueError(
        "workers takes a dask.distributed.Client, a concurrent.futures.Executor, or a function "
        f"that makes an executor; got {type(where).__name__}"
    )


def _is_client(where: Any) -> bool:
    """Whether it is a dask Client; nobody has one without having imported dask.distributed."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(where, distributed.Client)


def _place_of_joblib() -> Place | None:
    """The cluster of `joblib.parallel_config("dask")`, if one is active."""
    joblib = sys.modules.get("joblib")
    if joblib is None or "distributed" not in sys.modules:
        return None
    backend = joblib.parallel.get_active_backend()[0]
    client = getattr(backend, "client", None)
    if not _is_client(client):
        return None
    return DaskPlace(client)
