"""Fresh Python processes: for imports, and for memory that nothing else has touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def keeping_bytecode() -> dict[str, str]:
    """The environment of a process that keeps what it compiles of Python, as is usual."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run_python(code: str, *arguments: str) -> Any:
    """What the code printed last, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=keeping_bytecode(),
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"a benchmark's process ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])
