"""Errors and warnings of the library; each names the value and the remedy."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = [
    "DAMAGE",
    "CheckpointError",
    "ConvergenceWarning",
    "DataWarning",
    "ImpossibleError",
    "ModelFileError",
    "NoRoomError",
    "NumericalError",
    "ShardError",
    "StickbreakWarning",
    "WorkersLostError",
    "columns_named",
    "in_one_line",
    "quoted",
    "rows_named",
    "shards_named",
]

# What values that make no sense raise while something is built from them.
DAMAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
    NotImplementedError,
)

_COLUMN = re.compile(r"\bcolumn (\d+)\b")
_ROW = re.compile(r"\brow (\d+)\b")


def in_one_line(error: BaseException) -> str:
    """The start of an error's message, which may quote values or a file at length."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def quoted(word: str, most: int = 40) -> str:
    """A word of the data in quotes, for messages: the start of a long one."""
    return repr(word if len(word) <= most else word[:most] + "...")


class StickbreakWarning(UserWarning):
    """Base of every warning that the library gives."""


class ConvergenceWarning(StickbreakWarning):
    """The fit stopped at `max_iter` before the bound settled."""


class DataWarning(StickbreakWarning):
    """The data can be fitted but hold a surprise: a constant column, fewer rows than components."""


class NumericalError(ValueError):
    """A number that must be finite is not."""


class ImpossibleError(NumericalError):
    """The data have no probability under the model."""


class ModelFileError(ValueError):
    """A model file is damaged, foreign, or from a later version."""


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged, or belongs to other data or settings."""


class NoRoomError(OSError, ValueError):
    """Neither the temporary folder nor memory has room for what a fit must keep."""


class ShardError(ValueError):
    """A file of rows is missing, damaged, or not the one that was opened.

    reader : name and number of the process that could not read it
    """

    def __init__(self, message: str, reader: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.reader = reader


class WorkersLostError(RuntimeError):
    """The workers of a fit are gone for good; its checkpoint resumes on any others, or on none."""


@contextmanager
def columns_named(names: Sequence[Any] | None) -> Iterator[None]:
    """Replace "column 2" in errors raised within by the third of `names`; None changes nothing."""
    try:
        yield
    except ValueError as error:
        if names is None or len(error.args) != 1:
            raise
        known = lambda found: (
            f"column {names[int(found[1])]!r}" if int(found[1]) < len(names) else found[0]
        )
        error.args = (_COLUMN.sub(known, str(error.args[0]), count=1),)
        raise


@contextmanager
def rows_named(offsets: Any) -> Iterator[None]:
    """Replace "row 17" in errors raised within by a row of a sequence; None changes nothing.

    offsets : (S + 1,) sequence s owns rows offsets[s] to offsets[s + 1].
    """
    try:
        yield
    except ValueError as error:
        if offsets is None or len(error.args) != 1:
            raise
        error.args = (
            _ROW.sub(lambda found: _name_row(int(found[1]), offsets), str(error.args[0]), count=1),
        )
        raise


@contextmanager
def shards_named(starts: Sequence[int], names: Sequence[str]) -> Iterator[None]:
    """Replace "row 17" in errors raised within by a row of a shard.

    starts : the first row of each shard. names : what messages call them
    """
    try:
        yield
    except ValueError as error:
        if len(error.args) != 1:
            raise

        def named(found: re.Match[str]) -> str:
            row = int(found[1])
            i = max(bisect_right(starts, row) - 1, 0)
            return f"shard {names[i]}, row {row - starts[i]}"

        error.args = (_ROW.sub(named, str(error.args[0]), count=1),)
        raise


def _name_row(row: int, offsets: Any) -> str:
    s = bisect_right(offsets, row) - 1
    return f"sequence {s}, row {row - offsets[s]}"
