"""How kernels are compiled: plain loops, no GIL, cached on disk in a folder that the user owns.

No fastmath: bits must repeat, and NaN and -inf must work. Sums over components are axpy loops,
which vectorize without reassociation. Kernels that call each other share a file, because the cache
does not see edits in other files.
"""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

__all__ = ["by_type", "cache_folder", "inline", "kernel", "operation"]

Function = TypeVar("Function", bound=Callable[..., Any])

_LOCK = threading.RLock()


def cache_folder() -> Path:
    """Folder of compiled kernels: `NUMBA_CACHE_DIR`, the user's cache folder, or a temporary one.

    Never next to the source: site-packages may be read-only.
    """
    from numba.core import config

    if config.CACHE_DIR:  # type: ignore[attr-defined]
        return Path(config.CACHE_DIR)  # type: ignore[attr-defined]
    try:
        folder = _user_cache() / "stickbreak" / "numba"
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # a user without a home
        return _temporary_folder()
    return folder if writable else _temporary_folder()


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _temporary_folder() -> Path:
    """A folder that only this user can write to: compiled code is loaded from it."""
    who = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    folder = Path(tempfile.gettempdir()) / f"stickbreak-numba-{who}"
    folder.mkdir(mode=0o700, exist_ok=True)
    is_ours = not hasattr(os, "getuid") or (
        folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o022
    )
    return (
        folder
        if is_ours and not folder.is_symlink()
        else Path(tempfile.mkdtemp(prefix="stickbreak-numba-"))
    )


def _survive_full_disk(kept: Any) -> None:
    """Let a kernel work that cannot be kept on disk: the next process compiles it again."""
    save = kept.save_overload

    def save_if_possible(signature: Any, compiled: Any) -> None:
        try:
            save(signature, compiled)
        except OSError as error:
            # numba writes the index first: it may name a file of older code by now
            Path(kept._cache_file._index_path).unlink(missing_ok=True)
            _warn_of_folder(str(cache_folder()), str(error.strerror))

    kept.save_overload = save_if_possible


@cache
def _warn_of_folder(folder: str, reason: str) -> None:
    warnings.warn(
        f"compiled kernels cannot be kept in {folder} ({reason}), so that every process compiles "
        "them again; make room there, or set NUMBA_CACHE_DIR to another folder",
        RuntimeWarning,
        stacklevel=3,
    )


class _Lazy:
    """A function that is compiled at its first call, so that imports cost no numba and no cache."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self.py_func, self._options = function, options
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            self.compile()
        return self._compiled(*arguments)

    def __getattr__(self, name: str) -> Any:
        """Statistics and signatures of the compiled function."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.compile(), name)

    def compile(self) -> Any:
        """The compiled function; others in the same file that it may call are compiled with it."""
        with _LOCK:
            if self._compiled is None:
                self._compiled = _compiled(self.py_func, self._options)
                names = self.py_func.__globals__
                for name, value in list(names.items()):
                    if isinstance(value, _Lazy):
                        names[name] = value.compile()
            return self._compiled


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    from numba.core import config

    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    from .parts import Kernel

    before = config.CACHE_DIR  # type: ignore[attr-defined]
    # read only while decorating, so that the user's own functions are not affected
    config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
    try:
        made = Kernel(function, **options)
        for kept in made.keep():
            _survive_full_disk(kept)
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]
    return made


def kernel(function: Function) -> Function:
    """Compile at the first call; the next process finds the result on disk."""
    return cast(Function, _Lazy(function, nogil=True))


def inline(function: Function) -> Function:
    """A small function that is copied into its callers, whatever the compiler thinks of it."""
    return cast(Function, _Lazy(function, nogil=True, forceinline=True))


def operation(emit: Callable[..., Any], gives: str = "same") -> Callable[[Function], Function]:
    """A function of vectors and floats: emit(code, *arguments) writes its instructions.

    The body says what they do. gives: "eight" numbers, "one", "none", or the "same": a vector if an
    argument is one.
    """

    def decorate(function: Function) -> Function:
        return cast(Function, _Operation(function, emit, gives))

    return decorate


class _Operation(_Lazy):
    """A function given by its instructions."""

    def __init__(self, function: Callable[..., Any], emit: Callable[..., Any], gives: str) -> None:
        super().__init__(function)
        self._emit, self._gives = emit, gives

    def __call__(self, *arguments: Any) -> Any:
        """Run the body, outside of kernels."""
        return self.py_func(*arguments)

    def compile(self) -> Any:
        with _LOCK:
            if self._compiled is None:
                from .emit import make_operation

                self._compiled = make_operation(self.py_func, self._emit, self._gives)
            return self._compiled


class _ByType(_Lazy):
    """A function whose body is chosen by the type of its first argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._bodies: dict[type, _Lazy] = {}

    def of(self, kind: type) -> Callable[[Function], Function]:
        """Decorator of the kernel that is the body for a kind of NamedTuple."""

        def decorate(body: Function) -> Function:
            self._bodies[kind] = cast(_Lazy, body)
            return body

        return decorate

    def __call__(self, first: Any, *others: Any) -> Any:
        return self._bodies[type(first)](first, *others)

    def compile(self) -> Any:
        with _LOCK:
            if self._compiled is None:
                from .parts import choose_by_type

                def pick(first: Any, *others: Any) -> Any:
                    return self(first, *others)

                choose_by_type(pick, self._bodies)
                pick.of = self.of  # type: ignore[attr-defined]
                self._compiled = pick
            return self._compiled


def by_type(function: Callable[..., Any]) -> _ByType:
    """A function for kernels to call; its body depends on the type of its first argument.

    That is a NamedTuple of arrays and numbers, and `function.of(Kind)` decorates the kernel for one
    kind. Kernels that took functions as arguments would never be found in the cache on disk.
    """
    return _ByType(function)
