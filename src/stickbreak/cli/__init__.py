"""The `stickbreak` command: fit, predict, score, show, resume, warmup.

Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from .run import main

__all__ = ["main"]
