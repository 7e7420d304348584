"""What a benchmark gives back, how it is timed, and how it is written down."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class Row:
    """One line of a table. met is None where nothing was promised, or where this run
    cannot tell.
    """

    what: str
    ours: str
    peer: str = "-"
    ratio: str = "-"
    target: str = "-"
    met: bool | None = None

    def markdown(self) -> str:
        met = {None: "-", True: "yes", False: "**no**"}[self.met]
        return (
            "| "
            + " | ".join([self.what, self.ours, self.peer, self.ratio, self.target, met])
            + " |"
        )


@dataclass(frozen=True)
class Report:
    """A table with its remarks. ours, peer, ratio: what these columns hold here."""

    title: str
    rows: list[Row]
    notes: tuple[str, ...] = ()
    ours: str = "ours"
    peer: str = "peer"
    ratio: str = "ratio"

    def markdown(self) -> str:
        head = ["what", self.ours, self.peer, self.ratio, "target", "met"]
        lines = [f"## {self.title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += [row.markdown() for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines)


def fastest(
    *functions: Callable[[], object], rounds: int, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Least seconds of each function; one call of each in every round, so that a change of clock
    speed meets all of them.
    """
    best = [np.inf] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            began = clock()
            function()
            best[i] = min(best[i], clock() - began)
    return best


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.2f} ms"


def matrix_peak(rounds: int = 5, size: int = 1000) -> float:
    """Flop per second of a large matrix product on one thread: the most that the laps below could
    reach.
    """
    a = np.random.default_rng(0).random((size, size))
    out = np.empty_like(a)
    return 2.0 * size**3 / fastest(lambda: np.matmul(a, a, out=out), rounds=rounds)[0]


def load() -> str:
    """Jobs that were running or waiting on average over the last minute, where the system
    says so.
    """
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def machine() -> str:
    """What the figures depend on; nothing that names a host or a user."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    parts = [
        _processor(),
        f"{cores} cores",
        platform.system(),
        f"Python {platform.python_version()}",
        versions,
    ]
    return ", ".join(parts) + f"; {datetime.now(UTC):%Y-%m-%d}"


def _processor() -> str:
    source = Path("/proc/cpuinfo")
    if source.exists():
        for line in source.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
