"""Attacks on the command line: damaged files through `stickbreak`, counted by how they end.

A good end is an answer, or one line on stderr with exit code 2. A crash of the process, ten seconds
of work, a traceback, or a gigabyte of memory is a bug; its number makes the file again.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LONGEST = 10.0  # seconds that a process works on one file and all its commands
PATIENCE = 120.0  # seconds until it must have answered, however busy the machine is
LONGEST_LINE = 1000
MOST_BYTES = 1 << 30
WARM_UP = 300.0  # seconds: kernels may have to be compiled
BAD = ("crash", "hang", "traceback", "memory", "odd")


@dataclass(frozen=True)
class Attack:
    """A file, and the commands that read it, which run until one refuses."""

    name: str
    payload: bytes
    commands: tuple[tuple[str, ...], ...]


# writes what commands need into a folder; returns good files, and the attack of each number
Maker = Callable[[Path], tuple[list[Attack], Callable[[int], Attack]]]


@dataclass
class Report:
    """How attacks ended, and what went wrong: (number, end, what was said)."""

    ends: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str, str]] = field(default_factory=list)

    @property
    def n_bad(self) -> int:
        return len(self.bad)

    def add(self, number: int, end: str, said: str) -> None:
        self.ends[end] += 1
        if end in BAD:
            self.bad.append((number, end, said))


class Worker:
    """A process in a copy of the folder; started again after a bad end.

    A new process reads the good files first: it has kernels to load, which takes a while.
    """

    def __init__(self, folder: Path, home: Path, good: list[Attack]) -> None:
        self.folder = Path(shutil.copytree(folder, tempfile.mkdtemp(dir=home) + "/files"))
        self.good = good
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> subprocess.Popen[str]:
        source = os.pathsep.join(p for p in sys.path if p)
        with (self.folder.parent / "stderr").open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-W", "ignore", str(HERE / "worker.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": source},
                text=True,
            )
        for attack in self.good:
            end, said = self._ask(self.process, attack, WARM_UP)
            if end != "answered":
                raise AssertionError(f"a good file, {attack.name}, ended as {end}: {said}")
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def run(self, attack: Attack) -> tuple[str, str]:
        """How the attack ended, and what was said."""
        end, said = self._ask(self.process or self.start(), attack, PATIENCE)
        if end in ("crash", "hang", "memory"):
            self.stop()
            said += (self.folder.parent / "stderr").read_text()[-2000:]
        return end, said

    def _ask(
        self, process: subprocess.Popen[str], attack: Attack, longest: float
    ) -> tuple[str, str]:
        (self.folder / attack.name).write_bytes(attack.payload)
        assert process.stdin is not None
        process.stdin.write(json.dumps(attack.commands) + "\n")
        process.stdin.flush()
        return self._wait(process, longest)

    def _wait(self, process: subprocess.Popen[str], longest: float) -> tuple[str, str]:
        assert process.stdout is not None
        until = time.monotonic() + longest
        while time.monotonic() < until:
            if select.select([process.stdout], [], [], 0.1)[0]:
                line = process.stdout.readline()
                if not line:
                    return "crash", f"exit code {process.wait()} "
                return _judge(json.loads(line))
            if _resident(process.pid) > MOST_BYTES:
                return "memory", ""
        return "hang", f"no answer in {longest} s "


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:  # it has ended, or there is no such file here
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _judge(answer: dict[str, Any]) -> tuple[str, str]:
    ends = answer["ends"]
    last = ends[-1]
    unit = 1 if sys.platform == "darwin" else 1024
    if last["traceback"]:
        return "traceback", last["traceback"]
    if answer["peak"] * unit > MOST_BYTES:
        return "memory", f"{answer['peak'] * unit >> 20} MB"
    if answer["seconds"] > LONGEST:
        return "hang", f"{answer['seconds']:.1f} s of work"
    said = last["error"].splitlines()
    lines = [line for line in said if not line.startswith("stickbreak: warning: ")]
    is_ours = all(line.startswith("stickbreak: ") and len(line) <= LONGEST_LINE for line in said)
    if not is_ours or last["code"] not in (0, 2) or (last["code"] == 2 and len(lines) != 1):
        return "odd", f"exit code {last['code']}: {last['error']}"
    if last["code"] == 0:
        return "answered", ""
    return ("refused" if len(ends) == 1 else "refused later"), lines[0]


def run_campaign(
    make: Maker,
    numbers: Iterable[int],
    n_workers: int = 1,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Attack with every number. Good files must be answered first."""
    report, queue = Report(), _Shared(numbers)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = home / "good"
        folder.mkdir()
        good, attack_of = make(folder)
        crew = [stack.enter_context(Worker(folder, home, good)) for _ in range(n_workers)]

        def work(worker: Worker) -> None:
            for number in queue:
                end, said = worker.run(attack_of(number))
                report.add(number, end, said)
                if say is not None and end in BAD:
                    say(f"{number}: {end} {said[-600:]}")
                elif say is not None and report.ends.total() % 1000 == 0:
                    say(str(dict(report.ends)))

        with ThreadPoolExecutor(n_workers) as pool:
            list(pool.map(work, crew))
    return report


class _Shared:
    """An iterator that several threads may use."""

    def __init__(self, inner: Iterable[int]) -> None:
        self._inner, self._lock = iter(inner), threading.Lock()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._inner)
