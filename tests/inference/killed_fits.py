"""Fits that are killed with SIGKILL and resumed; run by test_checkpoints.py in a process of its
own.

killed_fits.py FOLDER fork|spawn COUNT NAME        kill COUNT fits; prints {"undisturbed", "bounds",
"killed", "laps"} as JSON killed_fits.py FOLDER fit NAME CHECKPOINT          the fit that is killed:
slow on purpose

NAME is Mixture, DPMixture (both without moves), or moves.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stickbreak as sb

LAPS, BATCHES, PAUSE = 8, 5, 0.002


class Slow(sb.Callback):
    """A visit takes long enough to be killed in."""

    def on_step(self, info: object) -> None:
        time.sleep(PAUSE)


def rows() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=(400, 2)) + 4 * rng.normal(size=(4, 2))[rng.integers(0, 4, 400)]


def fit(name: str, checkpoint: str | None, *callbacks: sb.Callback) -> float:
    engine = sb.MemoizedVB(
        n_batches=BATCHES,
        max_iter=LAPS,
        tol=0.0,
        moves=(sb.Birth(), sb.Merge(), sb.Delete()) if name == "moves" else (),
        checkpoint=checkpoint,
        checkpoint_every=0.0,
        callbacks=callbacks,
    )
    make = {"Mixture": sb.Mixture, "DPMixture": sb.DPMixture, "moves": sb.DPMixture}[name]
    n = 1 if name == "moves" else 6  # the default start would leave nothing to the moves
    model = make(n, inference=engine, init="k-means++", random_state=5).fit(rows())
    if name == "moves" and not any(record.is_accepted for record in model.trace_.moves):
        raise RuntimeError("no move was accepted")
    return float(model.lower_bound_)


def kill_when_due(pid: int, is_running: Callable[[], bool], checkpoint: Path, wait: float) -> bool:
    """SIGKILL, some time after the first checkpoint. Whether it was still running."""
    while not checkpoint.exists():
        if not is_running():
            raise RuntimeError("the fit ended without a checkpoint")
        time.sleep(0.0005)
    time.sleep(wait)
    if not is_running():
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def fork_fit(name: str, checkpoint: Path, wait: float) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            fit(name, str(checkpoint), Slow())
        finally:
            os._exit(0)
    running = lambda: os.waitpid(pid, os.WNOHANG) == (0, 0)
    killed = kill_when_due(pid, running, checkpoint, wait)
    if killed:
        os.waitpid(pid, 0)
    return killed


def spawn_fit(name: str, checkpoint: Path, wait: float) -> bool:
    child = subprocess.Popen(
        [sys.executable, __file__, str(checkpoint.parent), "fit", name, str(checkpoint)]
    )
    killed = kill_when_due(child.pid, lambda: child.poll() is None, checkpoint, wait)
    child.wait()
    return killed


def kill_many(folder: Path, how: str, count: int, name: str) -> dict[str, object]:
    """Moments are spread over the time that an undisturbed fit takes after its first checkpoint."""
    undisturbed = fit(name, None)
    began = time.monotonic()
    assert fit(name, str(folder / "timed"), Slow()) == undisturbed
    duration = time.monotonic() - began
    rng = np.random.default_rng(20)
    bounds, killed, laps = [], 0, []
    while killed < count:
        checkpoint = folder / f"fit-{len(bounds)}-{killed}"
        wait = float(rng.random() * 0.8 * duration)
        if not (fork_fit if how == "fork" else spawn_fit)(name, checkpoint, wait):
            checkpoint.unlink()  # it was faster than the clock said: try another moment
            continue
        killed += 1
        laps.append(len(sb.inference.read_checkpoint(checkpoint)[1].trace))
        bounds.append(float(sb.resume(checkpoint, rows()).lower_bound_))
    return {"undisturbed": undisturbed, "bounds": bounds, "killed": killed, "laps": laps}


def main() -> None:
    import stickbreak.inference  # noqa: F401

    warnings.simplefilter("ignore", sb.ConvergenceWarning)
    folder, what, *rest = sys.argv[1:]
    if what == "fit":
        fit(rest[0], rest[1], Slow())
    else:
        sys.stdout.write(json.dumps(kill_many(Path(folder), what, int(rest[0]), rest[1])))


if __name__ == "__main__":
    main()
