"""Jobs about whole files, which are read by workers where there are some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["FILE_RUNNER", "over_files"]

Found = TypeVar("Found")

# runs a function of a path for all of some paths; None for here
FILE_RUNNER: ContextVar[Callable[[Callable[[str], Any], Sequence[str]], list[Any]] | None] = (
    ContextVar("stickbreak_file_runner", default=None)
)


def over_files(call: Callable[[str], Found], paths: Sequence[str]) -> list[Found]:
    """call(path) of each path, in order."""
    run = FILE_RUNNER.get()
    return [call(path) for path in paths] if run is None else run(call, paths)
