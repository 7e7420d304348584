"""Runs a command, and turns errors into one line and an exit code."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import typer

from stickbreak.errors import StickbreakWarning

from .commands import app
from .options import Stopped

__all__ = ["main", "run"]

USAGE, INTERRUPTED = 2, 130
_CommandProblem: Any = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException"
)  # typer's own, or click's


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command `stickbreak`: exit code 0, 2 after an error (a line on stderr), 130 on Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # column names may have characters that this terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    handler = _Stderr()
    logger = logging.getLogger("stickbreak")
    logger.addHandler(handler)
    level = logger.level
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", StickbreakWarning)
            warnings.showwarning = _show_warning  # without the place in the code
            found = _command().main(list(arguments), prog_name="stickbreak", standalone_mode=False)
            return found if isinstance(found, int) else 0
    except _CommandProblem as problem:
        message = problem.format_message()
        if message.startswith("Usage:"):  # called without a command: print the help page
            sys.stderr.write(f"{message}\n")
            return USAGE
        return _complain(message)
    except Stopped as stop:
        if isinstance(stop.cause, BrokenPipeError):
            return _leave_pipe()
        return _complain(str(stop) or "interrupted; nothing was written", INTERRUPTED)
    except (ValueError, OSError, MemoryError) as error:
        return _complain(_words(error))
    except typer.Exit as leave:
        return leave.exit_code
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@cache
def _command() -> Any:
    """All commands, made from their signatures; that takes longer than most of them."""
    return typer.main.get_command(app)


def _words(error: BaseException) -> str:
    """The message of an error, with the file it is about."""
    if isinstance(error, OSError) and error.strerror is not None:
        return (
            f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
        )
    return str(error) or type(error).__name__


def _complain(message: str, code: int = USAGE) -> int:
    """Print one line to stderr."""
    sys.stderr.write(f"stickbreak: {' '.join(message.split())}\n")
    return code


def _show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    _complain(f"warning: {message}")


def _leave_pipe() -> int:
    """Leave quietly: the reader of our output has closed the pipe."""
    # so that closing stdout raises no error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _Stderr(logging.Handler):
    """Log lines to the current stderr, which a live line may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        sys.stderr.write(f"{self.format(record)}\n")
