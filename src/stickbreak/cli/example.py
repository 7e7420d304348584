"""`example`: the table of the README, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.persist import write_bytes

from .output import check_target, print_json, print_lines

__all__ = ["write_example"]

CLUSTERS = (((-4.0, 0.0), 0.8, 300), ((3.0, 3.0), 0.5, 200), ((3.0, -3.0), 1.2, 400))


def write_example(path: Path, options: dict[str, Any]) -> None:
    """900 rows in two columns, of three groups."""
    check_target(path, (".csv",))
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(center, width, (size, 2)) for center, width, size in CLUSTERS])
    lines = ["x,y", *(f"{x!r},{y!r}" for x, y in rows.tolist())]
    write_bytes(path, ("\n".join(lines) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "n_rows": len(rows)})
    else:
        print_lines([f"{len(rows)} rows written to {path}"])
