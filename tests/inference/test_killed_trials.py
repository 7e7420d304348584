"""Fits that are killed in the middle of a trial go on from their checkpoints with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLER = Path(__file__).parent / "killed_trials.py"
KILLS = int(os.environ.get("STICKBREAK_KILLS", "5"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL and fork")
@pytest.mark.parametrize("name", ["states", "topics"])
def test_killed_in_a_trial_and_resumed_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), str(KILLS), name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=120 * KILLS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bounds"] == [found["undisturbed"]] * KILLS
