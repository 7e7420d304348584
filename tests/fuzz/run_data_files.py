"""Drives damaged data files through the command line, in a worker that lives long.

    python tests/fuzz/run_data_files.py --count 3000

Each command must end with code 0, or 2 and lines that begin with "stickbreak:"; within ten seconds;
in a process of at most 1 GB. A worker that hangs, dies or grows is ended and replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

LONGEST, LARGEST = 10.0, 1 << 30  # seconds, bytes
WARM_TOPICS = ["score", "topics.stickbreak", "sound.ldac"]


def attempt(argv: list[str]) -> dict[str, Any]:
    """What a command does: its code, the kind of an error that came through, its complaint."""
    from stickbreak import progress
    from stickbreak.cli.run import run

    progress.PAUSE = 1e9  # what a slow machine says of its progress is no trouble
    out, err, trouble, code, began = io.StringIO(), io.StringIO(), "", -1, time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with warnings.catch_warnings():
                code = run(argv)
        except BaseException as error:  # noqa: BLE001
            trouble = f"{type(error).__name__}: {error}"
    lines = err.getvalue().splitlines()
    if code not in (0, 2):
        trouble = trouble or f"code {code}"
    elif any(not line.startswith("stickbreak: ") for line in lines):
        trouble = f"said {next(line for line in lines if not line.startswith('stickbreak: '))!r}"
    elif code == 2 and not lines:
        trouble = "refused without a word"
    elif any(len(line) > 1000 for line in lines):
        trouble = f"complained at length: {max(lines, key=len)[:200]}"
    return {
        "code": code,
        "trouble": trouble,
        "seconds": time.process_time() - began,  # of this process, however busy the machine is
        "line": lines[-1][:300] if lines else "",
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def serve() -> None:
    """The worker: a command on each line of stdin, its outcome on each line of stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(attempt(json.loads(line))) + "\n")
        answers.flush()


class Worker:
    """A process that runs commands in a folder."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, __file__, "--serve"]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    @classmethod
    def warm(cls, folder: Path) -> Worker:
        """A worker that has imported everything and loaded its kernels."""
        made = cls(folder)
        for argv in (["fit", "mixture", "sound.csv", "--columns", "a,b", "-q"], WARM_TOPICS):
            found = made.ask(argv, 120.0)
            assert found["code"] == 0, found
        return made

    def _listen(self) -> None:
        """Keep the pipe of stderr empty; its end tells why a worker died."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = [*self._said[-20:], line.strip()]

    def ask(self, argv: list[str], patience: float = LONGEST) -> dict[str, Any]:
        """The outcome; a worker that does not answer in time is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(patience, self._process.kill)
        began = time.monotonic()
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(argv) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if line:
            return dict(json.loads(line))
        code, seconds = self._process.wait(), time.monotonic() - began
        kind = "hung" if seconds >= patience else f"died with code {code}: {' '.join(self._said)}"
        return {"code": -1, "trouble": kind[:600], "seconds": seconds, "bytes": 0, "line": ""}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def drive(folder: Path, seed: int, count: int) -> tuple[Counter[str], list[str], float, int]:
    """Outcomes, troubles with their causes, the longest time and the largest memory."""
    from fuzz.data_files import mutants

    outcomes: Counter[str] = Counter()
    troubles, longest, largest = [], 0.0, 0
    worker = None
    try:
        for argv, what in mutants(folder, seed, count):
            worker = worker or Worker.warm(folder)
            found = worker.ask(argv)
            if not found["trouble"] and found["bytes"] > LARGEST:
                found["trouble"] = f"took {found['bytes'] >> 20} MB"
            if found["trouble"]:
                troubles.append(f"{what}: {' '.join(argv)}: {found['trouble']}")
                worker.close()
                worker = None
            outcomes["trouble" if found["trouble"] else str(found["code"])] += 1
            longest, largest = max(longest, found["seconds"]), max(largest, found["bytes"])
    finally:
        if worker is not None:
            worker.close()
    return outcomes, troubles, longest, largest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        outcomes, troubles, longest, largest = drive(Path(folder), options.seed, options.count)
    facts = (
        f"{outcomes['0']} read, {outcomes['2']} refused, {len(troubles)} troubles; "
        f"longest {longest:.1f} s, largest {largest >> 20} MB"
    )
    sys.stdout.write("\n".join([*troubles, facts, ""]))
    sys.exit(bool(troubles))


if __name__ == "__main__":
    main()
