"""What `stickbreak.workers` refuses, and what Ctrl-C leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import cluster, left_behind, processes

import stickbreak as sb
from stickbreak.data import batches
from stickbreak.errors import NumericalError, ShardError
from stickbreak.inference.remote import dask_cluster, executors, pool, tasks
from stickbreak.models import lanes

RNG = np.random.default_rng(0)
X = np.repeat([[-4.0, 0.0], [4.0, 1.0]], 300, axis=0) + RNG.standard_normal((600, 2))

pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


@pytest.fixture(autouse=True)
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LANE_ROWS", 60)


def fit() -> Any:
    engine = sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
    return sb.Mixture(2, random_state=0, inference=engine).fit(X)


def enter(where: Any, **options: Any) -> None:
    with sb.workers(where, **options):
        pass


def test_what_is_no_place_is_refused() -> None:
    for bad, message in (
        (4, "n_jobs=4"),
        ("tcp://host:8786", "got str"),
        (None, "got NoneType"),
        (lambda: 3, "made int"),
    ):
        with pytest.raises(ValueError, match=message):
            enter(bad)
    for size in (0, 3, True):
        with pytest.raises(ValueError, match="power of two"):
            enter(ThreadPoolExecutor(1), lanes=size)


def test_folders_that_cannot_take_what_units_keep_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "ORDERED_ROWS", 100)
    with pytest.raises(ValueError, match=r"scratch='.*gone' is no folder"):
        enter(ThreadPoolExecutor(1), scratch=tmp_path / "gone")
    (tmp_path / "here").mkdir()
    words = RNG.poisson(0.6, (200, 20)) + np.eye(200, 20, dtype=int)
    told = r"scratch='.*here' cannot be written by process \d+ on .* \(No such file"
    with ThreadPoolExecutor(1) as executor, sb.workers(executor, scratch=tmp_path / "here"):
        (tmp_path / "here").rmdir()
        with pytest.raises(ValueError, match=told):
            sb.LatentDirichletAllocation(2, init="local", random_state=0).fit(words)


def test_an_executor_that_is_shut_down_is_refused() -> None:
    with ThreadPoolExecutor(1) as executor:
        pass
    with pytest.raises(ValueError, match="shut down"):
        enter(executor)


def test_an_executor_that_is_shut_down_later_is_refused_too() -> None:
    executor = ThreadPoolExecutor(1)
    with sb.workers(executor):
        executor.shutdown()
        with pytest.raises(ValueError, match="takes no tasks"):
            fit()


def test_an_executor_of_the_user_is_left_open_and_one_made_here_is_not() -> None:
    made = []
    with ThreadPoolExecutor(1) as executor:
        enter(executor)
        assert executor.submit(int).result() == 0
    enter(lambda: made.append(ThreadPoolExecutor(1)) or made[0])
    assert executors.is_shut_down(made[0])


def test_clients_that_cannot_work_are_refused() -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with cluster(1) as client:
        pass
    with pytest.raises(ValueError, match="the dask client is closed"):
        enter(client)
    with cluster(0) as client, pytest.raises(ValueError, match="no workers"):
        enter(client)

    async def within_a_loop() -> None:
        ports = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
        how = {"n_workers": 1, "processes": False, **ports}
        async with (
            distributed.LocalCluster(asynchronous=True, **how) as made,
            distributed.Client(made, asynchronous=True) as client,
        ):
            enter(client)

    with pytest.raises(ValueError, match="event loop"):
        asyncio.run(within_a_loop())


def test_a_worker_with_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    host = tasks.describe_host()
    other = host._replace(versions=(("stickbreak", "0.0"), *host.versions[1:]))
    monkeypatch.setattr(executors, "describe_host", lambda holds_memory: other)
    message = r"worker process \d+ on .* has stickbreak .*; the fit has stickbreak 0\.0"
    with sb.workers(lambda: ThreadPoolExecutor(1)), pytest.raises(ValueError, match=message):
        fit()


def test_a_worker_of_the_cluster_with_another_version_is_named() -> None:
    with cluster(1) as client, pytest.MonkeyPatch.context() as patch:
        host = tasks.describe_host()
        other = host._replace(versions=(("stickbreak", "0.0"), *host.versions[1:]))
        answers = iter([{"tcp://there": ""}, {"tcp://there": other}])
        patch.setattr(client, "run", lambda act, **how: next(answers))
        message = "worker tcp://there has stickbreak 0.0, numpy .*; this process has stickbreak"
        with pytest.raises(ValueError, match=message):
            enter(client)


def test_processors_of_another_kind_are_told_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    other = tasks.describe_host()._replace(processor="of another kind")
    with sb.workers(lambda: ThreadPoolExecutor(1)):
        assert len(fit().trace_.processors) == 1
    assert fit().trace_.processors == ()
    monkeypatch.setattr(executors, "describe_host", lambda holds_memory: other)
    told = pytest.warns(sb.StickbreakWarning, match=r"processors of 2 kinds \(.*of another kind")
    with sb.workers(lambda: ThreadPoolExecutor(1)), told:
        assert "of another kind" in fit().trace_.processors


def test_processors_of_workers_that_join_later_are_compared() -> None:
    other = tasks.describe_host()._replace(processor="of another kind")
    with cluster(1) as client, sb.workers(client), pytest.MonkeyPatch.context() as patch:
        assert len(fit().trace_.processors) == 1
        client.cluster.scale(2)
        client.wait_for_workers(2)
        patch.setattr(dask_cluster.DaskPlace, "_hosts", lambda self: {"late": other})
        told = pytest.warns(sb.StickbreakWarning, match=r"processors of 2 kinds")
        with told:
            assert "of another kind" in fit().trace_.processors


def test_files_that_workers_do_not_see_are_named_before_any_lap(tmp_path: Path) -> None:
    for i in range(2):
        np.save(tmp_path / f"rows{i}.npy", X[300 * i : 300 * i + 300])
    shards = sb.open_shards(str(tmp_path / "*.npy"))
    laps: list[int] = []

    class Count(sb.Callback):
        def on_step(self, info: Any) -> None:
            laps.append(info.lap)

    engine = sb.MemoizedVB(n_batches=2, callbacks=[Count()])
    model = sb.Mixture(2, random_state=0, inference=engine)
    (tmp_path / "rows1.npy").rename(tmp_path / "elsewhere.npy")
    told = r"rows1\.npy cannot be read by process \d+ on .*: put it where all workers see it"
    with processes(1) as executor, sb.workers(executor), pytest.raises(ShardError, match=told):
        model.fit(shards)
    assert not laps


def test_errors_of_tasks_are_those_of_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(log_z: float, potentials: Any) -> None:
        raise NumericalError(f"{threading.current_thread() is threading.main_thread()}")

    monkeypatch.setattr(lanes, "require_finite", refuse)
    with pytest.raises(NumericalError, match="True"):
        fit()
    there = pytest.raises(NumericalError, match="False")
    with sb.workers(lambda: ThreadPoolExecutor(2)), there:
        fit()


def test_blocks_nest_and_end() -> None:
    found = fit().lower_bound_
    with sb.workers(lambda: ThreadPoolExecutor(1)):
        with sb.workers(lambda: ThreadPoolExecutor(2)):
            assert fit().lower_bound_ == found
        assert fit().lower_bound_ == found
    from stickbreak.inference.remote import current_place

    assert current_place() is None


def test_a_number_of_jobs_limits_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, lock = [0], [0], threading.Lock()
    run = tasks.run_total

    def watched(*given: Any) -> bytes:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        found = run(*given)
        with lock:
            now[0] -= 1
        return found

    monkeypatch.setattr(executors, "run_total", watched)
    engine = sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
    with sb.workers(lambda: ThreadPoolExecutor(4), lanes=1):
        sb.Mixture(2, random_state=0, inference=engine, n_jobs=2).fit(X)
    assert most[0] == 2


@pytest.mark.parametrize("kind", ["threads", "dask"])
def test_callbacks_are_told_of_tasks_within_a_visit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    class Count(sb.Callback):
        def on_tasks(self, n_done: int, n_tasks: int) -> None:
            seen.append((n_done, n_tasks))

    monkeypatch.setattr(dask_cluster, "LOOK", 0.001)
    engine = sb.MemoizedVB(n_batches=2, max_iter=2, tol=0, callbacks=[Count()])
    make = ThreadPoolExecutor if kind == "threads" else cluster
    with make(1) as place, sb.workers(place, lanes=1):
        sb.Mixture(2, random_state=0, inference=engine).fit(X)
    assert {n_tasks for _, n_tasks in seen} == {5}
    assert all(0 <= n_done <= n_tasks for n_done, n_tasks in seen)


class Slow:
    """A call that lasts."""

    def __init__(self, call: Any) -> None:
        self.call, self.func = call, call.func

    def __call__(self, job: Any) -> Any:
        time.sleep(0.2)
        return self.call(job)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_interrupts_leave_nothing_behind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="needs the extra dask")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    of = tasks.Packed.of
    # a process that a shell has begun in the background ignores SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Interrupt(sb.Callback):
        def on_lap(self, record: Any) -> None:
            if record.lap == 1:
                monkeypatch.setattr(pool.Packed, "of", lambda call: of(Slow(call)))
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    engine = sb.MemoizedVB(n_batches=2, max_iter=20, tol=0, callbacks=[Interrupt()])
    model = sb.Mixture(2, random_state=0, inference=engine)
    with processes(1) if kind == "processes" else cluster(1) as place:
        with sb.workers(place, lanes=1), pytest.raises(KeyboardInterrupt):
            model.fit(X)
        monkeypatch.setattr(pool.Packed, "of", of)
        assert 1 <= len(model.trace_.laps) < 20
        if kind == "dask":
            assert not client_holds(place)
        else:
            assert not place._pending_work_items
        with sb.workers(place):
            assert model.predict(X).shape == (600,)
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    signal.signal(signal.SIGINT, before)


def client_holds(client: Any) -> bool:
    return bool(client.futures) or any(client.has_what().values())


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs Linux")
def test_clusters_of_tests_listen_on_loopback_only() -> None:
    with cluster(2) as client:
        own = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
        inodes = {name.rpartition(":[")[2].rstrip("]") for name in own if "socket:[" in name}
        rows = [
            line.split()
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        ]
        addresses = {row[1] for row in rows if row[3] == "0A" and row[9] in inodes}
        assert client.status == "running"
    assert addresses, "no port is open: the test looks at the wrong place"
    assert {address.split(":")[0] for address in addresses} == {"0100007F"}


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs Linux")
def test_what_outlives_its_test_is_seen() -> None:
    """By the check at the end of all tests."""
    assert not left_behind()
    with processes(1) as executor:
        executor.submit(int).result()
        assert [what.split()[0] for what in left_behind(0)] == ["process"]
    with cluster(1):
        kinds = {what.split()[0] for what in left_behind(0)}
        assert kinds == {"Scheduler", "Worker", "Client"}
    assert not left_behind()
