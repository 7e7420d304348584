"""A fit of a `.npy` file that is never held in memory: anonymous memory and rows per second."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .child import run_python
from .report import Report, Row

N_ROWS, N_FEATURES, N_COMPONENTS = 4_000_000, 16, 20
MOST_MEGABYTES, MOST_GROWTH = 450, 1.05
CHUNK = 200_000
NOTE = """\
`RssAnon`, sampled every 20 ms in a process of its own; pages of the mapped file are not counted.
MB are 2**20 bytes. The CPU time holds the pass for default priors and the start too."""

CODE = """
import json, sys, time
import stickbreak as sb
from benchmarks.anonymous import AnonymousPeak

model = sb.Mixture(int(sys.argv[2]), inference=sb.MemoizedVB(max_iter=2), random_state=0)
with AnonymousPeak() as memory:
    cpu, wall = time.process_time(), time.perf_counter()
    model.fit(sys.argv[1])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps({"before": memory.before, "peak": memory.peak, "cpu": cpu, "wall": wall,
    "bound": model.lower_bound_}))
"""


def write_rows(path: Path, n_rows: int) -> None:
    """Rows of 40 clusters, written piece by piece."""
    rng = np.random.default_rng(0)
    centers = rng.normal(0.0, 2.0, (40, N_FEATURES))
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_rows, N_FEATURES))
    for lo in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - lo)
        out[lo : lo + size] = (
            rng.standard_normal((size, N_FEATURES)) + centers[rng.integers(40, size=size)]
        )
    out.flush()


def measure_fit(n_rows: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stickbreak-bench-") as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, n_rows)
        return run_python(CODE, str(path), str(N_COMPONENTS))


def run(quick: bool = False) -> Report:
    title = f"On disk: N x {N_FEATURES} float64, K={N_COMPONENTS}, MemoizedVB, two laps"
    if not sys.platform.startswith("linux"):
        return Report(
            title,
            [],
            ("Skipped: anonymous memory is read from /proc, which this system does not have.",),
        )
    sizes = [N_ROWS // 10, N_ROWS // 5] if quick else [N_ROWS, 2 * N_ROWS]
    found = [measure_fit(n) for n in sizes]
    first, second = (f["peak"] for f in found)
    rows = []
    for n, f in zip(sizes, found, strict=True):
        what = f"N={n}: peak anonymous memory ({f['before']:.0f} MB after imports)"
        rows.append(
            Row(
                what,
                f"{f['peak']:.0f} MB",
                target=f"under {MOST_MEGABYTES} MB",
                met=f["peak"] < MOST_MEGABYTES,
            )
        )
        rows.append(
            Row(
                f"N={n}: rows and laps per CPU second, all included",
                f"{2 * n / f['cpu'] / 1e6:.2f} million",
            )
        )
    growth, target = second / first, f"at most {MOST_GROWTH}x"
    rows.append(
        Row(
            "memory at twice the rows",
            f"{second:.0f} MB",
            f"{first:.0f} MB",
            f"{growth:.3f}x",
            target,
            growth <= MOST_GROWTH,
        )
    )
    return Report(title, rows, (NOTE,), peer="at half the rows")
