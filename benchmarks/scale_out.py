"""A mixture on two worker processes of a dask cluster on loopback: CPU of a lap, cost of a visit.

CPU seconds, of all processes together; and the clock, which tells on an idle machine only, with two
threads beside it. Needs the extra dask.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.families import Gaussian
from stickbreak.inference import workers
from stickbreak.inference.remote import pool as pools
from stickbreak.inference.remote import tasks

from .laps import Laps
from .report import Report, Row

N_ROWS, N_COLUMNS, N_COMPONENTS, N_SHARDS = 4_000_000, 16, 20, 16
TARGETS = {1: 1.1, 4: 1.35}  # CPU of all workers over that of a serial lap
CLOCK_TARGETS = {1: 1.7, 4: 1.3}  # times as fast as serial laps, by the clock
VISIT_TARGET = 0.06  # CPU seconds of the driver in a visit


class Cost(NamedTuple):
    """CPU seconds of a lap, of the driver and of all workers; and seconds by the clock."""

    driver: float
    workers: float
    clock: float


def write_shards(folder: Path, n_rows: int) -> str:
    """Clusters around random means, in files of equal size."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.standard_normal((N_COMPONENTS, N_COLUMNS))
    for i in range(N_SHARDS):
        n = n_rows // N_SHARDS
        rows = means[rng.integers(0, N_COMPONENTS, n)] + rng.standard_normal((n, N_COLUMNS))
        np.save(folder / f"rows{i:02}.npy", rows)
    return str(folder / "rows*.npy")


@contextmanager
def some_workers(n: int = 2) -> Iterator[Any]:
    """A client of workers with one thread each, under dask's default nanny."""
    import distributed

    port = "127.0.0.1:0"
    how: dict[str, Any] = {"n_workers": n, "threads_per_worker": 1, "host": "127.0.0.1"}
    how |= {"dashboard_address": port, "worker_dashboard_address": port}
    with (
        distributed.LocalCluster(silence_logs=50, **how) as made,
        distributed.Client(made) as client,
    ):
        yield client


def cpu_of(client: Any) -> float:
    """CPU seconds of all worker processes so far."""
    return float(sum(client.run(time.process_time).values()))


def lap_cost(laps: Laps, client: Any | None, rounds: int) -> Cost:
    """The least of some laps."""
    found = []
    for _ in range(rounds):
        before, own = (cpu_of(client) if client else 0.0), time.process_time()
        began = time.perf_counter()
        laps.lap()
        clock, used = time.perf_counter() - began, time.process_time() - own
        found.append(Cost(used, (cpu_of(client) if client else 0.0) - before, clock))
    least = min(found, key=lambda cost: cost.driver + cost.workers)
    return least._replace(clock=min(cost.clock for cost in found))


class Sizes:
    """Bytes of what travels, by kind."""

    def __init__(self) -> None:
        self.potentials: list[int] = []
        self.arrays: list[int] = []  # bytes of the arrays among them
        self.tasks: list[int] = []

    def watch(self) -> Callable[[], None]:
        """Look at everything that is packed, until the result is called."""
        of, dumps = tasks.Packed.of, pools.dumps

        def packed(call: Any) -> Any:
            found = of(call)
            self.potentials.append(len(found.data))
            buffers: list[pickle.PickleBuffer] = []
            pickle.dumps(pickle.loads(found.data), 5, buffer_callback=buffers.append)
            self.arrays.append(sum(buffer.raw().nbytes for buffer in buffers))
            return found

        def dumped(jobs: Any) -> bytes:
            found = dumps(jobs)
            self.tasks.append(len(found))
            return found

        pools.Packed.of, pools.dumps = packed, dumped  # type: ignore[method-assign, assignment]

        def stop() -> None:
            pools.Packed.of, pools.dumps = of, dumps  # type: ignore[method-assign]

        return stop


def run(quick: bool = False) -> Report:
    """Serial laps and those of two workers, in one batch and in four."""
    n_rows, rounds = (160_000, 1) if quick else (N_ROWS, 5)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        table = Table(sb.open_shards(write_shards(Path(folder), n_rows)).rows)
        family = Gaussian().resolve(measure(table))
        fits = {n: Laps(table, N_COMPONENTS, n, family=family) for n in TARGETS}
        serial = {n: lap_cost(laps, None, rounds) for n, laps in fits.items()}
        for n, laps in fits.items():
            rows.append(Row(f"{n} batches, serial: CPU of a lap", f"{serial[n].driver:.2f} s"))
            with workers(2) as pool:
                laps.pool = pool
                threads = lap_cost(laps, None, rounds).clock
            rows.append(_by_clock(f"{n} batches, n_jobs=2", threads, serial[n].clock))
        for holds in (True, False):  # what a worker does with memory is set once in its life
            with some_workers() as client, sb.workers(client, holds_memory=holds):
                for n, laps in fits.items():
                    rows += _there(laps, client, holds, rounds if holds else 1, n, serial[n])
                if holds:
                    rows += _sizes(fits[1], n_rows)
    what = f"{n_rows:,} x {N_COLUMNS}, K={N_COMPONENTS}, {N_SHARDS} shards of .npy"
    notes = (
        "Ratios of workers are of the CPU of both together to that of a serial lap of the same "
        "run; they hold when the processor is shared, and say what idle cores would give at most.",
        f"Processors: {os.cpu_count()}.",
    )
    judged = [replace(row, met=None) for row in rows] if quick else rows
    return Report(f"Two worker processes: {what}", judged, notes)


def _there(
    laps: Laps, client: Any, holds: bool, rounds: int, n_batches: int, alone: Cost
) -> list[Row]:
    """Laps of a fit on the workers."""
    with workers() as pool:
        laps.pool = pool
        laps.lap()  # loads the library there, and opens the shards
        found = lap_cost(laps, client, rounds)
    serial = alone.driver
    ratio, target = found.workers / serial, TARGETS[n_batches]
    how = "" if holds else ", memory given back at once (holds_memory=False)"
    what = f"{n_batches} batches, two workers{how}: CPU of their lap"
    times = f"{found.workers:.2f} s", f"{serial:.2f} s", f"{ratio:.2f}x"
    if not holds:
        return [Row(what, *times)]
    visit = found.driver / n_batches
    return [
        Row(what, *times, f"{target}x", ratio <= target),
        _by_clock(
            f"{n_batches} batches, two workers",
            found.clock,
            alone.clock,
            CLOCK_TARGETS[n_batches],
        ),
        Row(
            f"{n_batches} batches: CPU of the driver in a visit",
            f"{1e3 * visit:.0f} ms",
            target=f"{1e3 * VISIT_TARGET:.0f} ms",
            met=visit <= VISIT_TARGET,
        ),
    ]


def _by_clock(what: str, found: float, serial: float, target: float | None = None) -> Row:
    times = serial / found
    wanted = "-" if target is None else f"{target}x"
    met = None if target is None else times >= target
    shown = f"{found:.2f} s", f"{serial:.2f} s", f"{times:.2f}x"
    return Row(f"{what}: a lap by the clock, and serial", *shown, wanted, met)


def _sizes(laps: Laps, n_rows: int) -> list[Row]:
    """What one lap sends."""
    sizes = Sizes()
    with workers() as pool:
        laps.pool = pool
        stop = sizes.watch()
        try:
            laps.lap()
        finally:
            stop()
    lane = 8 * N_COLUMNS * n_rows / len(laps.batches[0].lanes())
    share = max(sizes.tasks) / lane
    largest = f"{max(sizes.tasks):,}", f"{lane:,.0f}", f"{share:.2%}"
    return [
        Row("bytes of a task, and of the rows of one lane", *largest, "1%", share < 0.01),
        _packed(max(sizes.potentials), max(sizes.arrays)),
        Row("tasks of a visit", f"{len(sizes.tasks)}"),
    ]


def _packed(potentials: int, arrays: int) -> Row:
    ratio = potentials / arrays
    what = "bytes of potentials, packed, and of their arrays"
    return Row(what, f"{potentials:,}", f"{arrays:,}", f"{ratio:.3f}x", "1.1x", ratio <= 1.1)
