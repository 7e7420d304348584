"""`example`: the table of the README, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.persist import write_bytes

from .output import check_target, print_json, print_lines

__all__ = ["write_example"]

CLUSTERS = (((-4.0, 0.0), 0.8, 300), ((3.0, 3.0), 0.5, 200), ((3.0, -3.0), 1.2, 400))


def write_example(path: Path, sequences: bool, options: dict[str, Any]) -> None:
    """900 rows in two columns, of three groups; or 10 sequences of 90 rows, which stay in a group for a while."""
    check_target(path, (".csv",))
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(center, width, (size, 2)) for center, width, size in CLUSTERS])
    lines = ["x,y", *(f"{x!r},{y!r}" for x, y in rows.tolist())]
    if sequences:
        places, widths = (np.array([cluster[i] for cluster in CLUSTERS]) for i in (0, 1))
        states = np.cumsum(rng.random((10, 90)) < 0.08, axis=1) % len(CLUSTERS)
        rows = (places[states] + widths[states][..., None] * rng.normal(size=(10, 90, 2))).reshape(-1, 2)
        lines = ["sequence,x,y", *(f"{i // 90},{x!r},{y!r}" for i, (x, y) in enumerate(rows.tolist()))]
    write_bytes(path, ("\n".join(lines) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "n_rows": len(rows)})
    else:
        print_lines([f"{len(rows)} rows written to {path}"])
