"""Workers that die, schedulers that are lost, shards that one worker does not see."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import cluster, processes

import stickbreak as sb
from stickbreak.data import batches
from stickbreak.errors import ShardError, WorkersLostError
from stickbreak.inference.remote import dask_cluster, pool, tasks

RNG = np.random.default_rng(0)
X = np.repeat([[-4.0, 0.0], [4.0, 1.0]], 300, axis=0) + RNG.standard_normal((600, 2))

pytestmark = [
    pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="kills processes by signals"),
]


class Trouble:
    """A call that ends its worker, or cannot read there, while a file says so.

    Whoever removes the file is the one in trouble, so that one file is for one task.
    """

    def __init__(self, call: Any, folder: str, how: str) -> None:
        self.call, self.folder, self.how, self.func = call, folder, how, call.func

    def __call__(self, job: Any) -> Any:
        for name in sorted(os.listdir(self.folder)):
            path = os.path.join(self.folder, name)
            if self.how == "blind":
                self.refuse(path)
            elif self.how == "always":
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                self.die(path)
        return self.call(job)

    def die(self, path: str) -> None:
        try:
            os.unlink(path)
        except OSError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def refuse(self, path: str) -> None:
        path, _, owner = path.partition(".owner")
        mine = f"{path}.owner{os.getpid()}"
        if not owner:
            with contextlib.suppress(OSError):
                os.rename(path, mine)
        if os.path.exists(mine):
            raise ShardError("shard rows7.npy cannot be read", tasks.describe_host()[:2])


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes the tasks of later fits troublesome: trouble(how, n)."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="needs the extra dask")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(batches, "LANE_ROWS", 60)
    folder = tmp_path / "trouble"
    folder.mkdir()

    def make(how: str = "once", n: int = 1) -> None:
        of = tasks.Packed.of
        wrapped = lambda call: of(Trouble(call, str(folder), how))
        monkeypatch.setattr(pool.Packed, "of", wrapped)
        for i in range(n):
            (folder / f"flag{i}").touch()

    yield make
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def fit(rows: Any = X) -> Any:
    return sb.Mixture(2, random_state=0, inference=engine()).fit(rows)


def engine(**more: Any) -> Any:
    return sb.MemoizedVB(n_batches=2, max_iter=4, tol=0, **more)


@functools.cache
def bound_here() -> float:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "LANE_ROWS", 60)
        return float(fit().lower_bound_)


def test_an_executor_that_breaks_is_made_again(trouble: Any) -> None:
    trouble()
    with sb.workers(processes), pytest.warns(sb.StickbreakWarning, match="a worker process ended"):
        assert fit().lower_bound_ == bound_here()


def test_an_executor_that_breaks_and_cannot_be_made_again_is_an_error(trouble: Any) -> None:
    trouble()
    lost = pytest.raises(WorkersLostError, match="give workers a function")
    with processes(1) as executor, sb.workers(executor), lost:
        fit()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["an executor", "dask"])
def test_a_task_that_ends_three_workers_names_its_shard(
    trouble: Any, where: str, tmp_path: Path
) -> None:
    shards = shards_in(tmp_path, tmp_path)
    trouble("always")
    lost = pytest.raises(WorkersLostError, match=r"workers ended.* rows of \S*rows\d\.npy")
    if where == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")  # fills dask.config
        dask = pytest.importorskip("dask")
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 2}),
            cluster(2, apart=True, silence_logs=50) as client,
            sb.workers(client, lanes=1),
            lost,
        ):
            fit(shards)
        return
    made: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        made.append(processes(1))
        return made[-1]

    told = pytest.warns(sb.StickbreakWarning, match="a worker process ended")
    with sb.workers(make, lanes=1), told, lost:
        fit(shards)
    assert len(made) == 3


def shards_in(folder: Path, seen_as: Path) -> Any:
    """Three files of the rows, by the name under which a process sees their folder."""
    for i in range(3):
        np.save(folder / f"rows{i}.npy", X[200 * i : 200 * i + 200])
    return sb.open_shards([str(seen_as / f"rows{i}.npy") for i in range(3)])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("n_blind", [1, 2])
def test_files_that_some_workers_do_not_see(
    n_blind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two workers. Each process finds the files in its working directory, if they are there.

    Sums that were asked for together with the tasks are asked for again.
    """
    send_all_once(monkeypatch)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 60)
    shards = shards_in(tmp_path, Path("/proc/self/cwd"))
    here = fit(shards).lower_bound_
    told = pytest.warns(sb.StickbreakWarning, match=r"rows\d\.npy cannot be read.* other workers")
    with cluster(2, apart=True, silence_logs=50) as client, sb.workers(client), told:
        client.run(os.chdir, str(tmp_path))
        blind = list(client.nthreads())[:n_blind]
        client.run(os.chdir, str(tmp_path / "elsewhere"), workers=blind)
        if n_blind == 1:
            assert fit(shards).lower_bound_ == here
        else:
            with pytest.raises(ShardError, match=r"rows\d\.npy cannot be read by process"):
                fit(shards)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["with the tasks", "once to each worker"])
@pytest.mark.parametrize("n", [1, 2])
def test_dask_runs_the_tasks_of_dead_workers_again(
    trouble: Any, n: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "once to each worker":
        send_all_once(monkeypatch)
    trouble(n=n)
    with cluster(2, apart=True, silence_logs=50) as client:
        with sb.workers(client):
            assert fit().lower_bound_ == bound_here()
        assert not client.futures


@pytest.mark.parametrize("n", [3, 4])
def test_lost_potentials_are_sent_four_times_at_most(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all workers that held them died during each visit."""
    monkeypatch.setattr(batches, "LANE_ROWS", 60)
    visits: list[int] = []

    def lose(self: Any, found: Any, tell: Any) -> None:
        visits.append(len(found))
        if len(visits) <= n:
            client.cancel(found, force=True)
        wait(self, found, tell)

    wait = dask_cluster.DaskPlace._wait
    with cluster(1) as client, sb.workers(client):
        model = sb.Mixture(2, random_state=0, inference=engine())
        monkeypatch.setattr(dask_cluster.DaskPlace, "_wait", lose)
        if n == 4:
            with pytest.raises(WorkersLostError, match="were lost 4 times"):
                model.fit(X)
            assert len(visits) == 4
        else:
            model.fit(X)
            assert len(visits) > 4
        assert not client.futures


def send_all_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send few bytes as many are sent: potentials in chunks, sums in a tree."""
    for name, value in (("SMALL", 0), ("LARGE", 0), ("CHUNK", 1000)):
        monkeypatch.setattr(dask_cluster, name, value)


@pytest.mark.slow
def test_a_shard_that_one_worker_cannot_read_goes_to_another(trouble: Any) -> None:
    trouble("blind")
    told = pytest.warns(sb.StickbreakWarning, match=r"rows7.* other workers are asked")
    with cluster(2, apart=True, silence_logs=50) as client, sb.workers(client), told:
        assert fit().lower_bound_ == bound_here()


@pytest.mark.slow
def test_a_shard_that_no_worker_can_read_is_an_error(trouble: Any) -> None:
    trouble("blind", 2)
    told = pytest.warns(sb.StickbreakWarning, match="other workers are asked")
    refused = pytest.raises(ShardError, match=r"rows7\.npy")
    with cluster(2, apart=True, silence_logs=50) as client, sb.workers(client), told, refused:
        fit()


@contextlib.contextmanager
def separate_cluster(folder: Path, *, without: str | None = None) -> Iterator[Any]:
    """A client of a scheduler that is a process of its own, with one worker.

    without : a module that the worker cannot import
    """
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    file = str(folder / "scheduler.json")
    common = ["--scheduler-file", file, "--no-dashboard", "--host", "127.0.0.1"]
    started = []
    try:
        for name, options in (("scheduler", ["--port", "0"]), ("worker", ["--no-nanny"])):
            hidden = without if name == "worker" else None
            code = f"import sys; sys.modules[{hidden!r}] = None; " if hidden else ""
            code += f"from distributed.cli.dask_{name} import main; main()"
            command = [sys.executable, "-c", code, *common, *options]
            quiet = subprocess.DEVNULL
            started.append(subprocess.Popen(command, stdout=quiet, stderr=quiet))
        with distributed.Client(scheduler_file=file, timeout=60) as client:
            client.wait_for_workers(1)
            yield client
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_worker_without_stickbreak_is_an_error_that_says_so(tmp_path: Path) -> None:
    with separate_cluster(tmp_path, without="stickbreak") as client:
        told = pytest.raises(
            ValueError, match=r"worker tcp://\S+ cannot import stickbreak \(.*install it on all"
        )
        with told, sb.workers(client):
            fit()


@pytest.mark.slow
def test_a_fit_whose_scheduler_is_lost_resumes_elsewhere(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(batches, "LANE_ROWS", 60)
    bound = bound_here()
    saved = {"checkpoint": tmp_path / "fit.ckpt", "checkpoint_every": 0.0}

    class KillScheduler(sb.Callback):
        killed = 0.0

        def on_lap(self, record: Any) -> None:
            if record.lap == 2:
                os.kill(client.run_on_scheduler(os.getpid), signal.SIGKILL)
                self.killed = time.monotonic()

    with separate_cluster(tmp_path) as client:
        killer = KillScheduler()
        model = sb.Mixture(2, random_state=0, inference=engine(callbacks=[killer], **saved))
        with sb.workers(client), pytest.raises(WorkersLostError, match="lost"):
            model.fit(X)
        seconds = time.monotonic() - killer.killed
        assert seconds < 10, seconds  # it does not wait for the scheduler's return
        assert len(model.trace_.laps) >= 2  # usable, as after Ctrl-C
        assert model.predict(X).shape == (600,)
    resumed = sb.Mixture(2, random_state=0, inference=engine(**saved)).resume(X)
    assert resumed.lower_bound_ == bound


DRIVER = """
import os, signal, sys, numpy as np, stickbreak as sb
from concurrent.futures import ProcessPoolExecutor
import multiprocessing

class Kill(sb.Callback):
    def on_lap(self, record):
        if record.lap == 2:
            os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    engine = sb.MemoizedVB(n_batches=2, max_iter=4, tol=0, checkpoint="fit.ckpt",
                           checkpoint_every=0.0, callbacks=[Kill()])
    spawn = multiprocessing.get_context("spawn")
    with sb.workers(ProcessPoolExecutor(1, spawn)):
        sb.Mixture(2, random_state=0, inference=engine).fit(sb.open_shards("rows*.npy"))
"""


@pytest.mark.slow
def test_a_fit_whose_driver_is_killed_resumes_elsewhere(tmp_path: Path, monkeypatch: Any) -> None:
    for i in range(3):
        np.save(tmp_path / f"rows{i}.npy", X[200 * i : 200 * i + 200])
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL
    monkeypatch.chdir(tmp_path)
    shards = sb.open_shards("rows*.npy")
    whole = sb.Mixture(2, random_state=0, inference=engine()).fit(shards).lower_bound_
    saved = {"checkpoint": tmp_path / "fit.ckpt", "checkpoint_every": 0.0}
    with sb.workers(processes):
        resumed = sb.Mixture(2, random_state=0, inference=engine(**saved)).resume(shards)
    assert resumed.lower_bound_ == whole
    assert len(resumed.trace_.laps) == 4
