"""A model of what a lap costs on many workers: measured parts, checked at one and two workers.

A visit sends potentials, runs tasks (the longest first), adds counts, and updates the globals. The
parts are measured on loopback; networks are an assumption that the table names. Needs the extra
dask. Times are by the clock where the machine is idle, and by CPU in any case.
"""

from __future__ import annotations

import heapq
import math
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Documents, Table, batches, measure
from stickbreak.families import Gaussian
from stickbreak.inference import workers
from stickbreak.inference.remote.pool import _group_size
from stickbreak.models import finite_hmm

from .laps import Laps, clusters, walks
from .report import Report, Row
from .scale_out import N_COLUMNS, N_COMPONENTS, some_workers, write_shards

WORKERS = (1, 8, 16, 32, 64, 100)
N_ROWS = 2_000_000
WITHIN = 0.25  # of the measured laps
NETWORK = 10e9 / 8  # bytes a second of a link of 10 Gb/s
LATENCY = 1e-3  # seconds of a step of a broadcast, or of a sum


@dataclass(frozen=True)
class Costs:
    """Seconds, measured.

    row : of a row of data on a worker
    task : of the driver and the scheduler for each task, one after another
    begin : of a worker for each task, besides its rows
    visit : of the driver for each visit, with the globals
    add : of adding one byte of counts to another sum
    bandwidth : bytes a second between two hosts
    """

    row: float
    task: float
    begin: float
    visit: float
    add: float = 1.2e-10
    bandwidth: float = NETWORK


@dataclass(frozen=True)
class Work:
    """A lap.

    lanes : rows of each lane of a batch
    n_batches : batches like this
    sent, received : bytes of potentials, and of one sum of counts
    has_tree : whether workers add their counts pair by pair; else the driver adds all
    """

    lanes: np.ndarray
    n_batches: int = 1
    sent: float = 0.0
    received: float = 0.0
    has_tree: bool = True


def lap(costs: Costs, work: Work, n_workers: int) -> float:
    """Seconds of a lap."""
    size = _group_size(len(work.lanes), n_workers)
    rows = [float(work.lanes[lo : lo + size].sum()) for lo in range(0, len(work.lanes), size)]
    spent = makespan([costs.begin + costs.row * n for n in rows], n_workers)
    steps = math.ceil(math.log2(n_workers)) if n_workers > 1 else 0
    is_far = n_workers > 1
    # a broadcast doubles the holders at each step
    out = is_far * (steps + 1) * (LATENCY + work.sent / costs.bandwidth)
    one = work.received / costs.bandwidth + work.received * costs.add
    back = (steps + 1 if work.has_tree else len(rows)) * (LATENCY + one) * is_far
    driver = costs.visit + costs.task * len(rows)
    return work.n_batches * (driver + out + spent + back)


def makespan(seconds: list[float], n_workers: int) -> float:
    """Seconds until all tasks are done, the longest begun first."""
    ends = [0.0] * n_workers
    for task in sorted(seconds, reverse=True):
        heapq.heappush(ends, heapq.heappop(ends) + task)
    return max(ends)


def speedup(costs: Costs, work: Work, n_workers: int) -> float:
    """How many times faster than one worker here, which has no tasks and no network."""
    alone = work.n_batches * (costs.row * float(work.lanes.sum()) + costs.visit)
    return alone / lap(costs, work, n_workers)


def genome() -> np.ndarray:
    """(173,) lengths of chains, 15.4 million rows together, of a log-normal law of spread 0.5."""
    drawn = np.random.default_rng(0).lognormal(0.0, 0.5, 173)
    return np.round(15_400_000 * drawn / drawn.sum())


# ---------------------------------------------------------------------------------- measuring


def run(quick: bool = False) -> Report:
    """The parts, the laps that they predict, and the table."""
    n_rows = 160_000 if quick else N_ROWS
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        shards = sb.open_shards(write_shards(Path(folder), n_rows))
        small = write_small(Path(folder) / "small")
        family = Gaussian().resolve(measure(Table(shards.rows)))
        fits = {n: Laps(Table(shards.rows), N_COMPONENTS, n, family=family) for n in (1, 4)}
        serial = least_clock(fits[1], 2 if quick else 3)
        for n_workers in (1, 2):
            with some_workers(n_workers) as client, sb.workers(client):
                costs, more = measured_costs(n_rows, serial, small, family, client)
                rows += more if n_workers == 1 else []
                for n_batches, laps in fits.items():
                    rows.append(check(costs, laps, n_rows, n_workers, n_batches, quick))
    rows += table(costs, topic_cost(quick), chain_cost(quick))
    notes = (
        "Rows of the table are predictions for hosts on a network of 10 Gb/s, one thread each; "
        "nothing beyond two workers was measured.",
        f"Processors: {os.cpu_count()}. A prediction for two workers needs two idle ones.",
    )
    judged = [replace(row, met=None) for row in rows] if quick else rows
    return Report("A model of the costs of many workers", judged, notes)


def write_small(folder: Path) -> Any:
    """64 shards of 100 rows, whose visits cost what tasks cost."""
    folder.mkdir()
    X = clusters(6400, N_COLUMNS, N_COMPONENTS)
    for i in range(64):
        np.save(folder / f"few{i:02}.npy", X[100 * i : 100 * i + 100])
    return sb.open_shards(str(folder / "*.npy"))


def least_clock(laps: Laps, rounds: int) -> float:
    """Seconds of the fastest of some laps, by the clock."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        laps.lap()
        found.append(time.perf_counter() - began)
    return min(found)


def measured_costs(
    n_rows: int, serial: float, small: Any, family: Any, client: Any
) -> tuple[Costs, list[Row]]:
    """Visits of hardly any rows in few and in many tasks tell what tasks and visits cost.

    The rows of a lap cost on a worker what the CPU of one says.
    """
    clock, own = {}, {}
    for lanes in (16, 1):
        with sb.workers(client, lanes=lanes), workers() as pool:
            laps = Laps(Table(small.rows), N_COMPONENTS, 1, family=family)
            laps.pool = pool
            laps.lap()
            began = time.process_time()
            clock[64 // lanes] = least_clock(laps, 5)
            own[64 // lanes] = (time.process_time() - began) / 5
    n_workers = len(client.nthreads())
    task = max(0.0, (own[64] - own[4]) / 60)
    begin = n_workers * max(0.0, (clock[64] - clock[4]) / 60 - task)
    visit = max(0.0, clock[4] - 4 * task - 4 * begin / n_workers)
    costs = Costs(serial / n_rows, task, begin, visit)
    told = [
        Row("a row of data, one batch, serial", f"{1e9 * costs.row:.0f} ns"),
        Row("each task of a visit, the driver", f"{1e3 * costs.task:.1f} ms"),
        Row("each task of a visit, its worker", f"{1e3 * costs.begin:.1f} ms"),
        Row("each visit besides", f"{1e3 * costs.visit:.0f} ms"),
    ]
    return costs, told


def check(
    costs: Costs, laps: Laps, n_rows: int, n_workers: int, n_batches: int, quick: bool
) -> Row:
    """A lap on the workers beside its prediction."""
    with workers() as pool:
        laps.pool = pool
        laps.lap()
        found = least_clock(laps, 1 if quick else 3)
    lanes = np.array([lane.n_rows for lane in laps.batches[0].lanes()], dtype=float)
    near = replace(costs, bandwidth=math.inf)
    told = lap(near, Work(lanes, n_batches), n_workers)
    off = told / found - 1.0
    return Row(
        f"{n_workers} worker{'s' * (n_workers > 1)}, {n_batches} "
        f"batch{'es' * (n_batches > 1)}: a lap, and the model's",
        f"{found:.2f} s",
        f"{told:.2f} s",
        f"{off:+.0%}",
        f"within {WITHIN:.0%}",
        abs(off) <= WITHIN,
    )


def topic_cost(quick: bool) -> float:
    """CPU seconds of an entry of documents with 100 topics, one sweep after another as in laps."""
    rng = np.random.default_rng(0)
    n_documents, n_words, n_topics = (120, 2000, 100) if quick else (200, 5000, 100)
    weights = 1.0 / np.arange(1, n_words + 1)
    counts = rng.multinomial(300, weights / weights.sum(), n_documents)
    engine = sb.BatchVB(max_iter=3, tol=0.0, moves=None)
    model = sb.LatentDirichletAllocation(n_topics, init="local", random_state=0, inference=engine)
    with_warnings_off(model, counts)
    began = time.process_time()
    with_warnings_off(model, counts)
    return (time.process_time() - began) / 4 / Documents.from_counts(counts).n_rows


def chain_cost(quick: bool) -> float:
    """CPU seconds of a row of chains with 100 states."""
    data = walks(10_000 if quick else 100_000, 1000, 10)
    family = Gaussian().resolve(measure(data))
    laps = Laps(data, 100, 1, family=family, make=finite_hmm)
    began = time.process_time()
    laps.lap()
    return (time.process_time() - began) / data.n_rows


def with_warnings_off(model: Any, counts: np.ndarray) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        model.fit(counts)


def table(costs: Costs, entry: float, step: float) -> list[Row]:
    """Times as fast as one worker, for 8 to 100.

    entry, step : seconds of an entry of documents with 100 topics, of a row of chains with 100
        states
    """
    row_100 = costs.row * 100 / N_COMPONENTS  # 100 components
    lanes = np.full(1_000_000_000 // batches.SHARD_LANE_ROWS, float(batches.SHARD_LANE_ROWS))
    words, counted = 70e6, 8.0 * 100 * 50_000
    documents = np.full(round(words / batches.SHARD_LANE_ROWS), float(batches.SHARD_LANE_ROWS))
    topics = Work(documents, sent=counted, received=counted)
    cases: dict[str, tuple[Costs, Work, tuple[float, float] | None]] = {
        "1e9 x 16 rows, K=100": (replace(costs, row=row_100), Work(lanes, sent=2.4e6,
                                 received=2.4e6), (50.0, math.inf)),
        "the same in batches of 64 lanes": (
            replace(costs, row=row_100),
            Work(lanes[:64], round(len(lanes) / 64), 2.4e6, 2.4e6), None),
        "the same, 16 lanes at most": (
            replace(costs, row=row_100),
            Work(np.full(16, lanes.sum() / 16), sent=2.4e6, received=2.4e6), None),
        "173 chains, K=100": (
            replace(costs, row=step),
            Work(genome(), sent=1e5, received=1e5), (40.0, math.inf)),
        "topics, one batch, tree": (replace(costs, row=entry), topics, (36.0, 64.0)),
        "topics, one batch, the driver adds": (
            replace(costs, row=entry), replace(topics, has_tree=False), (10.0, 20.0)),
        "topics, eight batches, tree": (
            replace(costs, row=entry),
            replace(topics, lanes=documents[: len(documents) // 8], n_batches=8), (15.0, 31.0)),
    }  # fmt: skip
    rows = []
    for what, (own, work, wanted) in cases.items():
        times = {n: speedup(own, work, n) for n in WORKERS}
        shown = ", ".join(f"{n}: {times[n]:.1f}x" for n in WORKERS[1:])
        at = times[64]
        if wanted is None:
            rows.append(Row(what, shown))
            continue
        low, high = wanted
        target = f"{low:g}x or more at 64" if math.isinf(high) else f"{low:g}-{high:g}x at 64"
        rows.append(Row(what, shown, target=target, met=low <= at <= high))
    return rows
