"""Fits that are killed in the middle of a trial; run by test_killed_trials.py in a process of its
own.

killed_trials.py FOLDER COUNT NAME    kill COUNT fits; prints {"undisturbed", "bounds"} as JSON

A killed fit is a fork of the process. It ends itself with SIGKILL at a random moment of a trial,
from another thread, and counts only if the trial was still going on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from tests.inference.killed_spills import words

LONG = 0.003  # seconds of a trial that is worth interrupting
EVERY = (sb.Birth(min_misfit=0), sb.Merge(), sb.Delete())


def courses() -> list[np.ndarray]:
    """Sequences in the plane that stay in one of four states for ten rows."""
    rng, means = np.random.default_rng(3), np.array([(0, 0), (5, 0), (0, 5), (5, 5)])
    paths = [np.repeat(rng.integers(0, 4, 12), 10) for _ in range(20)]
    return [means[path] + rng.standard_normal((len(path), 2)) for path in paths]


CASES = {"states": (sb.HDPHMM, "blocks", courses), "topics": (sb.HDPTopicModel, "documents", words)}


class Trials(sb.Callback):
    """When each trial began, and how long it took."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.took: list[float] = []

    def on_trial(self, kind: str, ids: tuple[int, ...], n_components: int) -> None:
        self.end()
        self.began.append(time.perf_counter())

    def on_step(self, info: object) -> None:
        self.end()

    def end(self) -> None:
        if len(self.took) < len(self.began):
            self.took.append(time.perf_counter() - self.began[-1])

    def on_end(self) -> None:
        self.end()


class Dying(Trials):
    """SIGKILL some seconds after a trial began; `log` tells where the fit was."""

    def __init__(self, trial: int, wait: float, log: Path) -> None:
        super().__init__()
        self.trial, self.wait, self.log = trial, wait, log

    def on_trial(self, kind: str, ids: tuple[int, ...], n_components: int) -> None:
        super().on_trial(kind, ids, n_components)
        if len(self.began) == self.trial + 1:
            self.log.write_text("trial")
            threading.Timer(self.wait, os.kill, (os.getpid(), signal.SIGKILL)).start()

    def end(self) -> None:
        if len(self.took) == self.trial < len(self.began):
            self.log.write_text("after")
        super().end()


def fit(name: str, checkpoint: Path | None, callback: sb.Callback) -> Any:
    cls, init, make = CASES[name]
    engine = sb.MemoizedVB(
        n_batches=3, max_iter=60, moves=EVERY, checkpoint=checkpoint, checkpoint_every=0.0,
        callbacks=(callback,),
    )  # fmt: skip
    return cls(1, inference=engine, init=init, random_state=5).fit(make())


def is_killed(name: str, checkpoint: Path, trial: int, wait: float, log: Path) -> bool:
    """Whether a fit ended in the middle of the trial."""
    pid = os.fork()
    if pid == 0:
        try:
            fit(name, checkpoint, Dying(trial, wait, log))
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WIFSIGNALED(status) and log.read_text() == "trial"


def kill_many(folder: Path, count: int, name: str) -> dict[str, Any]:
    """Trials at random among those that take long."""
    fit(name, None, Trials())  # loads the kernels
    trials = Trials()
    undisturbed = fit(name, None, trials)
    records = [record for record in undisturbed.trace_.moves if record.n_passes]
    assert any(record.is_accepted for record in records), "no trial was accepted"
    long = [at for at, seconds in enumerate(trials.took) if seconds > LONG]
    rng, bounds, n_tries = np.random.default_rng(20), [], 0
    while len(bounds) < count:
        n_tries += 1
        assert n_tries < 10 * count, f"{len(bounds)} of {n_tries} fits died in a trial"
        checkpoint, trial = folder / f"{name}-{n_tries}", int(rng.choice(long))
        wait = float(rng.random() * 0.8 * trials.took[trial])
        if is_killed(name, checkpoint, trial, wait, folder / "log"):
            model = sb.resume(checkpoint, CASES[name][2]())
            bounds.append([float(bound) for bound in model.trace_.bound])
    return {"undisturbed": [float(bound) for bound in undisturbed.trace_.bound], "bounds": bounds}


def main() -> None:
    warnings.simplefilter("ignore", sb.StickbreakWarning)
    folder, count, name = sys.argv[1:]
    sys.stdout.write(json.dumps(kill_many(Path(folder), int(count), name)))


if __name__ == "__main__":
    main()
