"""What the driver of a dask cluster holds in memory while workers fit shards, at two sizes.

The driver is a process of its own, with dask's scheduler in it, as `LocalCluster` has it; its two
workers are processes with nannies. Needs the extra dask.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from .child import run_python
from .report import Report, Row
from .scale_out import N_COLUMNS, N_COMPONENTS, N_ROWS, N_SHARDS, write_shards

MOST_MEGABYTES = 300
FITS = {
    "Mixture": f"sb.Mixture({N_COMPONENTS}, {{}})",
    "Mixture from k-means\\|\\|": f"sb.Mixture({N_COMPONENTS}, init='k-means||', {{}})",
    "DPMixture": f"sb.DPMixture({N_COMPONENTS}, {{}})",
}
HOW = "random_state=0, inference=sb.MemoizedVB(n_batches=4, max_iter=3, tol=0)"
NOTE = """\
`RssAnon` of the driver, sampled every 20 ms from before the cluster starts to the end of a fit of
three laps in four batches; pages of mapped files are not counted. MB are 2**20 bytes."""

CODE = """
import json, sys, warnings
import stickbreak as sb
from benchmarks.anonymous import AnonymousPeak
from benchmarks.scale_out import some_workers

if __name__ == "__main__":
    warnings.simplefilter("ignore", sb.StickbreakWarning)
    with AnonymousPeak() as memory, some_workers() as client, sb.workers(client):
        started = memory.peak
        model = eval(sys.argv[2]).fit(sb.open_shards(sys.argv[1]))
    print(json.dumps({"before": memory.before, "started": started, "peak": memory.peak,
        "bound": model.lower_bound_}))
"""


def measure_fits(n_rows: int) -> dict[str, dict[str, Any]]:
    """What each fit of so many rows held."""
    with tempfile.TemporaryDirectory(prefix="stickbreak-bench-") as folder:
        pattern = write_shards(Path(folder), n_rows)
        return {name: run_python(CODE, pattern, model.format(HOW)) for name, model in FITS.items()}


def run(quick: bool = False) -> Report:
    """Each fit at two sizes."""
    title = f"The driver's memory: N x {N_COLUMNS} in {N_SHARDS} shards, K={N_COMPONENTS}"
    if not sys.platform.startswith("linux"):
        told = "Skipped: anonymous memory is read from /proc, which this system does not have."
        return Report(title, [], (told,))
    few, many = (80_000, 160_000) if quick else (N_ROWS // 2, N_ROWS)
    half, whole = measure_fits(few), measure_fits(many)
    rows = []
    for name, found in whole.items():
        peak, less = found["peak"], half[name]["peak"]
        what = f"{name}, N={many:,} ({found['started']:.0f} MB with the cluster started)"
        megabytes = f"{peak:.0f} MB", f"{less:.0f} MB", f"{peak / less:.2f}x"
        rows.append(Row(what, *megabytes, f"under {MOST_MEGABYTES} MB", peak < MOST_MEGABYTES))
    return Report(title, rows, (NOTE,), peer="at half the rows")
