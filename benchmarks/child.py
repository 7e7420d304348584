"""Fresh Python processes: for imports, and for memory that nothing else has touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def run_python(code: str, *arguments: str) -> Any:
    """What the code printed last, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"a benchmark's process ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])
