"""The examples run, warn of nothing, and leave what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the examples draw; pip install stickbreak[plot]")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROMISES = {
    "demo.py": ("demo.png", "predictions agree"),
    "plot_clusters.py": ("plot_clusters.png", "components without rows cost nothing"),
    "from_scikit_learn.py": (None, "held-out score"),
}
MAX_LINES = 80


def run_example(name: str, folder: Path) -> str:
    """What an example prints, run in a folder of its own. One BLAS thread: the tests themselves run side by side."""
    sources = os.pathsep.join(p for p in (str(EXAMPLES.parent / "src"), os.environ.get("PYTHONPATH")) if p)
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = {**os.environ, **one_thread, "MPLBACKEND": "Agg", "PYTHONPATH": sources, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(EXAMPLES / name)],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PROMISES)
def test_example_runs_and_leaves_what_it_promises(name: str, tmp_path: Path) -> None:
    picture, words = PROMISES[name]
    printed = run_example(name, tmp_path)
    assert words in " ".join(printed.split())
    assert [p.name for p in tmp_path.iterdir()] == ([] if picture is None else [picture])


def test_every_example_is_short_and_is_run() -> None:
    found = sorted(EXAMPLES.glob("*.py"))
    assert {p.name for p in found} == set(PROMISES)
    assert max(len(p.read_text(encoding="utf-8").splitlines()) for p in found) < MAX_LINES
