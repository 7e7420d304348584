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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Documents, Table, batches, measure
from stickbreak.families import Gaussian
from stickbreak.inference import workers
from stickbreak.inference.remote import dask_cluster
from stickbreak.inference.remote.packing import pack_total
from stickbreak.inference.remote.pool import group_size
from stickbreak.inference.remote.tasks import add_totals
from stickbreak.models import finite_hmm
from stickbreak.stats import SYMBOL, Field, Summary

from .laps import Laps, clusters, walks
from .report import Report, Row
from .scale_out import N_COLUMNS, N_COMPONENTS, cpu_of, some_workers, write_shards

WORKERS = (1, 8, 16, 32, 64, 100)
N_ROWS = 2_000_000
N_SMALL = 10  # laps of hardly any rows
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
    add : of a worker for each byte of a sum that it is given and adds to its own
    pair : of the driver and the scheduler for each task that adds two sums
    bandwidth : bytes a second between two hosts
    """

    row: float
    task: float
    begin: float
    visit: float
    add: float = 5e-10
    pair: float = 0.0
    bandwidth: float = NETWORK


@dataclass(frozen=True)
class Work:
    """A lap.

    lanes : rows of each lane of a batch
    n_batches : batches like this
    sent, received : bytes of potentials, and of one sum of counts
    has_tree : whether workers add their counts pair by pair, as they do if potentials are large;
        else the driver adds all
    held : part of `received` that the sum of so many rows is; the rest is zero and stays at home
    """

    lanes: np.ndarray
    n_batches: int = 1
    sent: float = 0.0
    received: float = 0.0
    has_tree: bool = True
    held: Callable[[float], float] = lambda rows: 1.0


def lap(costs: Costs, work: Work, n_workers: int) -> float:
    """Seconds of a lap."""
    size = group_size(len(work.lanes), n_workers)
    rows = [float(work.lanes[lo : lo + size].sum()) for lo in range(0, len(work.lanes), size)]
    # tasks begin while the driver still sends others, and asks for sums of pairs
    spent = makespan([costs.begin + costs.row * n for n in rows], n_workers, costs.task)
    if work.has_tree:
        spent = max(spent, len(rows) * costs.task + (len(rows) - 1) * costs.pair)
    steps = math.ceil(math.log2(n_workers)) if n_workers > 1 else 0
    is_far = n_workers > 1
    # a broadcast doubles the holders of a chunk at each step, while other chunks are under way
    chunks = max(1, math.ceil(work.sent / dask_cluster.CHUNK))
    out = is_far * (steps + chunks) * (LATENCY + work.sent / chunks / costs.bandwidth)
    sums = _sums(rows, steps) if work.has_tree else rows
    # the driver asks for all sums at once
    waits = LATENCY * (len(sums) if work.has_tree else 1)
    moved = sum(work.received * work.held(n) for n in sums)
    back = is_far * (waits + moved * (1.0 / costs.bandwidth + costs.add))
    return work.n_batches * (costs.visit + out + spent + back)


def _sums(rows: list[float], steps: int) -> list[float]:
    """Rows of the sums that are waited for, from those of tasks to that which the driver gets."""
    return [min(max(rows) * 2.0**level, sum(rows)) for level in range(steps)] + [sum(rows)]


def words_held(n_words: int, rows: float) -> float:
    """Part of a vocabulary with Zipf's law in so many entries of documents.

    Three words of text make about two entries, in documents of 400.
    """
    weights = 1.0 / np.arange(1, n_words + 1)
    return float(-np.expm1(-1.5 * rows * weights / weights.sum()).mean())


def makespan(seconds: list[float], n_workers: int, each: float = 0.0) -> float:
    """Seconds until all tasks are done, the longest begun first; one is sent `each` seconds."""
    ends = [0.0] * n_workers
    for i, task in enumerate(sorted(seconds, reverse=True), 1):
        heapq.heappush(ends, max(heapq.heappop(ends), i * each) + task)
    return max(ends)


def speedup(costs: Costs, work: Work, n_workers: int) -> float:
    """How many times faster than one worker here, which has no tasks and no network."""
    alone = work.n_batches * (costs.row * float(work.lanes.sum()) + costs.visit)
    return alone / lap(costs, work, n_workers)


def genome() -> np.ndarray:
    """(173,) lengths of chains, 15.4 million rows together, of a log-normal law."""
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
        serial = least(fits[1], 2 if quick else 3)[1]
        for n_workers in (1, 2):
            with some_workers(n_workers) as client, sb.workers(client):
                costs, more = measured_costs(n_rows, serial, small, family, client)
                rows += more if n_workers == 1 else []
                for n_batches, laps in fits.items():
                    rows += check(costs, laps, client, n_batches, quick)
                with workers_adding():
                    rows += check(costs, fits[1], client, 1, quick, has_tree=True)
    costs = replace(costs, add=sum_cost())
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


def least(laps: Laps, rounds: int, client: Any = None) -> tuple[float, float]:
    """Seconds of the fastest of some laps by the clock, and the least CPU of all processes."""
    clock, used = [], []
    for _ in range(rounds):
        before = (cpu_of(client) if client else 0.0) + time.process_time()
        began = time.perf_counter()
        laps.lap()
        clock.append(time.perf_counter() - began)
        used.append((cpu_of(client) if client else 0.0) + time.process_time() - before)
    return min(clock), min(used)


def measured_costs(
    n_rows: int, serial: float, small: Any, family: Any, client: Any
) -> tuple[Costs, list[Row]]:
    """Visits of hardly any rows in few and in many tasks tell what tasks and visits cost.

    All by CPU, which others on the machine disturb least. serial : CPU of a lap without workers
    """
    few, many = (small_visits(small, family, client, lanes) for lanes in (16, 1))
    task, begin = (max(0.0, (more - less) / 60) for more, less in zip(many, few, strict=True))
    with workers_adding():
        added = [small_visits(small, family, client, lanes)[0] for lanes in (16, 1)]
    pair = max(0.0, (added[1] - added[0]) / 60 - task)
    costs = Costs(serial / n_rows, task, begin, max(0.0, few[0] - 4 * task), pair=pair)
    told = [
        Row("a row of data, one batch, serial", f"{1e9 * costs.row:.0f} ns"),
        Row("each task of a visit, the driver", f"{1e3 * costs.task:.1f} ms"),
        Row("each task of a visit, its worker", f"{1e3 * costs.begin:.1f} ms"),
        Row("each sum of two tasks on a worker, the driver", f"{1e3 * costs.pair:.1f} ms"),
        Row("each visit besides", f"{1e3 * costs.visit:.0f} ms"),
    ]
    return costs, told


def small_visits(small: Any, family: Any, client: Any, lanes: int) -> tuple[float, float]:
    """CPU seconds of a visit of 64 small lanes, of the driver and of the workers."""
    with sb.workers(client, lanes=lanes), workers() as pool:
        laps = Laps(Table(small.rows), N_COMPONENTS, 1, family=family)
        laps.pool = pool
        laps.lap()
        before, began = cpu_of(client), time.process_time()
        for _ in range(N_SMALL):
            laps.lap()
        own = time.process_time() - began
        return own / N_SMALL, (cpu_of(client) - before) / N_SMALL


@contextmanager
def workers_adding() -> Iterator[None]:
    """Within it workers add up small counts too, as they do large ones."""
    before = dask_cluster.LARGE
    dask_cluster.LARGE = 0
    try:
        yield
    finally:
        dask_cluster.LARGE = before


def check(
    costs: Costs, laps: Laps, client: Any, n_batches: int, quick: bool, *, has_tree: bool = False
) -> list[Row]:
    """A lap on the workers beside its prediction: by the clock, and the CPU of all processes."""
    n_workers = len(client.nthreads())
    with workers() as pool:
        laps.pool = pool
        laps.lap()
        clock, used = least(laps, 1 if quick else 3, client)
    lanes = np.array([lane.n_rows for lane in laps.batches[0].lanes()], dtype=float)
    work = Work(lanes, n_batches, has_tree=has_tree)
    near = replace(costs, bandwidth=math.inf)
    n_tasks = -(-len(lanes) // group_size(len(lanes), n_workers))
    told = n_batches * (costs.visit + n_tasks * (costs.task + costs.begin))
    told += costs.row * lanes.sum() * n_batches + has_tree * (n_tasks - 1) * costs.pair
    where = f"{n_workers} worker{'s' * (n_workers > 1)}, {n_batches} batch{'es' * (n_batches > 1)}"
    where += ", sums on the workers" * has_tree
    return [
        _beside(f"{where}: a lap by the clock, and the model's", clock, lap(near, work, n_workers)),
        _beside(f"{where}: CPU of a lap, and the model's", used, told),
    ]


def _beside(what: str, found: float, told: float) -> Row:
    off = told / found - 1.0
    times = f"{found:.2f} s", f"{told:.2f} s", f"{off:+.0%}", f"within {WITHIN:.0%}"
    return Row(what, *times, abs(off) <= WITHIN)


def sum_cost() -> float:
    """CPU seconds of a byte of counts (100, 50,000) that is added to others, unpacked and packed.

    Of words that all occur, as in the sums of many tasks.
    """
    layout = {"word": Field(("topic", SYMBOL))}
    parts = [pack_total(Summary(layout, {"word": np.ones((100, 50_000))}), []) for _ in range(2)]
    times = []
    for _ in range(5):
        began = time.process_time()
        add_totals(*parts)
        times.append(time.process_time() - began)
    return min(times) / 40e6


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
    topics = Work(documents, sent=counted, received=counted, held=partial(words_held, 50_000))
    cases: dict[str, tuple[Costs, Work, tuple[float, float] | None]] = {
        "1e9 x 16 rows, K=100": (replace(costs, row=row_100), Work(lanes, sent=2.4e6,
                                 received=2.4e6), (50.0, math.inf)),
        "the same in batches of 64 lanes": (
            replace(costs, row=row_100),
            Work(lanes[:64], round(len(lanes) / 64), 2.4e6, 2.4e6), None),
        "the same, 16 lanes at most": (
            replace(costs, row=row_100),
            Work(np.full(16, lanes.sum() / 16), sent=2.4e6, received=2.4e6), None),
        "173 chains, K=100, the longest 2.4 times the mean": (
            replace(costs, row=step),
            Work(genome(), sent=1e5, received=1e5, has_tree=False), (40.0, math.inf)),
        "topics, one batch, tree": (replace(costs, row=entry), topics, (36.0, 64.0)),
        "topics, one batch, the driver adds": (
            replace(costs, row=entry), replace(topics, has_tree=False), (10.0, 20.0)),
        "topics, eight batches, tree": (
            replace(costs, row=entry),
            replace(topics, lanes=documents[: len(documents) // 8], n_batches=8), (15.0, 31.0)),
    }  # fmt: skip
    rows = [
        Row("an entry of documents, 100 topics", f"{1e6 * entry:.2f} us"),
        Row("a row of chains, 100 states", f"{1e6 * step:.2f} us"),
        Row("adding 40 MB of counts on a worker", f"{40e9 * costs.add:.0f} ms"),
    ]
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
