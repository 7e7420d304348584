"""Fits that spill to a small disk, killed with SIGKILL and resumed; run by test_full_disk.py.

killed_spills.py FOLDER DISK COUNT NAME...    kill COUNT fits of each kind; prints a line of JSON
for each: {"name", "killed", "same", "laps", "left", "undisturbed"}
killed_spills.py FOLDER fit NAME CHECKPOINT   the fit that is killed

FOLDER keeps checkpoints; DISK is a small file system, of which temporary files take what there is.
Two threads; every killed fit is a fresh process. "left" are the names found on the disk while no
fit was running.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.inference import checkpoints, read_checkpoint
from stickbreak.persist import read_file
from tests.inference.killed_fits import Slow, kill_when_due

LAPS = 8


def rows() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=(2000, 12)) + 3 * rng.normal(size=(6, 12))[rng.integers(0, 6, 2000)]


def words() -> np.ndarray:
    rng = np.random.default_rng(5)
    topics = rng.dirichlet(np.full(200, 0.1), 6)
    return np.array(
        [rng.multinomial(60, rng.dirichlet(np.full(6, 0.3)) @ topics) for _ in range(300)]
    )


def sentences() -> list[list[str]]:
    rng = np.random.default_rng(7)
    return [[f"w{w}" for w in rng.integers(0, 12, rng.integers(2, 9))] for _ in range(120)]


SEQUENCES = {"lengths": [40] * 50}
Make = Callable[..., Any]
CLASSES: dict[str, tuple[Make, Callable[[], Any], Mapping[str, Any]]] = {
    "mixture": (partial(sb.Mixture, 30), rows, {}),
    "hmm": (partial(sb.HMM, 30), rows, SEQUENCES),
    "hdp-hmm": (partial(sb.HDPHMM, 30), rows, SEQUENCES),
    "hsmm": (partial(sb.HSMM, 8, max_duration=10), rows, SEQUENCES),
    "stages": (partial(sb.HDPHSMM, 8, duration_inference="embedded"), rows, SEQUENCES),
    "drawn-segments": (
        partial(sb.HSMM, 8, duration_inference="sampled", n_samples=3), rows, SEQUENCES,
    ),
    "topics": (partial(sb.LatentDirichletAllocation, 40), words, {}),
    "pcfg": (partial(sb.PCFG, 6), sentences, {}),
    "dmv": (sb.DMV, sentences, {}),
}  # fmt: skip
ENGINES: dict[str, Make] = {
    "batch": sb.BatchVB,
    "memoized": partial(sb.MemoizedVB, n_batches=10, memory_limit=0),
    "collapsed": partial(sb.CollapsedVB, n_batches=5, memory_limit=0),
}
REFUSED = ("collapsed-drawn-segments",)
NAMES = [f"{e}-{name}" for e in ENGINES for name in CLASSES if f"{e}-{name}" not in REFUSED]


def data_of(name: str) -> tuple[Any, Mapping[str, Any]]:
    _, make, given = CLASSES[name.split("-", 1)[1]]
    return make(), given


def fit(name: str, checkpoint: Path | None, *callbacks: sb.Callback) -> Any:
    engine, kind = name.split("-", 1)
    common = {
        "max_iter": LAPS, "tol": 0.0, "checkpoint": checkpoint, "checkpoint_every": 0.0,
        "callbacks": callbacks,
    }  # fmt: skip
    X, given = data_of(name)
    model = CLASSES[kind][0](inference=ENGINES[engine](**common), n_jobs=2, random_state=5)
    return model.fit(X, **given)


def bits_of(model: Any, folder: Path) -> str:
    """A digest of everything that a fit found: its file, without the clock."""
    path = folder / "model.stickbreak"
    model.save(path)
    arrays = read_file(path, "model")[1]
    digest = hashlib.blake2b(model.lower_bound_.hex().encode())
    for at in sorted(arrays):
        digest.update(f"{at}{arrays[at].shape}".encode() + arrays[at].tobytes())
    digest.update(str([(lap.bound, lap.n_components) for lap in model.trace_]).encode())
    return digest.hexdigest()


def kill_fit(name: str, checkpoint: Path, wait: float) -> bool:
    child = subprocess.Popen(
        [sys.executable, __file__, str(checkpoint.parent), "fit", name, str(checkpoint)]
    )
    killed = kill_when_due(child.pid, lambda: child.poll() is None, checkpoint, wait)
    child.wait()
    return killed


def kill_many(folder: Path, disk: Path, count: int, name: str) -> dict[str, Any]:
    """Moments are spread over the time that an undisturbed fit takes after its first checkpoint."""
    X, given = data_of(name)
    undisturbed = bits_of(fit(name, None), folder)
    began = time.monotonic()
    assert bits_of(fit(name, folder / f"{name}-timed", Slow()), folder) == undisturbed
    duration = time.monotonic() - began
    rng, laps, same, left = np.random.default_rng(20), [], 0, set()
    while len(laps) < count:
        checkpoint = folder / f"{name}-{len(laps)}"
        if not kill_fit(name, checkpoint, float(rng.random() * 0.8 * duration)):
            checkpoint.unlink()  # it was faster than the clock said: try another moment
            continue
        left |= set(os.listdir(disk))
        laps.append(len(read_checkpoint(checkpoint)[1].trace))
        same += bits_of(sb.resume(checkpoint, X, **given), folder) == undisturbed
    return {
        "name": name, "killed": count, "same": same, "laps": laps, "left": sorted(left),
        "undisturbed": undisturbed,
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore", sb.StickbreakWarning)
    checkpoints.SHELF_BYTES = 1 << 16  # so that checkpoints need the disk, too
    folder, what, *rest = sys.argv[1:]
    if what == "fit":
        fit(rest[0], Path(rest[1]), Slow())
        return
    for name in rest[1:] or NAMES:
        found = kill_many(Path(folder), Path(what), int(rest[0]), name)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
