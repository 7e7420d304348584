"""What many workers would give: a model of costs beside measured laps."""

from __future__ import annotations

import importlib.util
import math
import os

from benchmarks import scale_model

from .frame import Experiment, MissingDataError, Row, is_quick

PUBLISHED = {"173 chains, K=100, the longest 2.4 times the mean": "25x on 64 cores (one machine)"}


def run() -> Experiment:
    """Parts, laps on one and two workers, and the table for 8 to 100."""
    if importlib.util.find_spec("distributed") is None:
        raise MissingDataError("install the extra dask")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    found = scale_model.run(quick=is_quick())
    rows = []
    for row in found.rows:
        ours = row.ours
        if row.peer != "-":  # a measured lap beside that of the model
            ours = f"{row.ours}, model {row.peer} ({row.ratio})"
        if row.target != "-":
            met = {None: "", True: ": yes", False: ": **no**"}[row.met]
            ours += f"; asked: {row.target}{met}"
        rows.append(Row(row.what, ours, PUBLISHED.get(row.what, "")))
    return Experiment(
        "Many workers",
        "A lap's costs are measured on loopback (2,000,000 x 16 rows, K=20, one and two workers "
        "of one thread) and put together for hosts on a network of 10 Gb/s. Nothing beyond two "
        "workers was measured.",
        rows,
        f"{' '.join(found.notes)} Load average at the start: {load:.1f}; above that number of "
        "processors the clock tells nothing.",
    )
