"""How kernels are compiled: plain loops, no GIL, cached on disk in a folder that the user owns.

No fastmath: bits must repeat, and NaN and -inf must work. Sums over components are axpy loops, which vectorize without
reassociation. Kernels that call each other share a file, because the cache does not see edits in another one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as _config

__all__ = ["cache_folder", "inline", "kernel"]

config: Any = _config  # its settings are made at run time
Function = TypeVar("Function", bound=Callable[..., Any])


def cache_folder() -> Path:
    """Where compiled kernels are kept: `NUMBA_CACHE_DIR` if set, else the user's cache folder, else a temporary one.

    Never beside the source: site-packages may be read-only.
    """
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    folder = _user_cache() / "stickbreak" / "numba"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return folder if writable else Path(tempfile.gettempdir()) / "stickbreak-numba"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def kernel(function: Function) -> Function:
    """Compile at the first call of each signature; found on disk by the next process."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())  # read while decorating only, so that the user's own functions are not moved
    try:
        compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
        return cast(Function, compiled)
    finally:
        config.CACHE_DIR = before


def inline(function: Function) -> Function:
    """A small function that is copied into its callers."""
    compiled: Any = numba.njit(inline="always", error_model="numpy")(function)
    return cast(Function, compiled)
