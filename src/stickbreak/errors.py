"""Errors and warnings of our own: each names the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = [
    "CheckpointError",
    "ConvergenceWarning",
    "DataWarning",
    "ModelFileError",
    "NumericalError",
    "StickbreakWarning",
    "columns_named",
    "in_one_line",
]

_COLUMN = re.compile(r"\bcolumn (\d+)\b")


def in_one_line(error: BaseException) -> str:
    """The beginning of what an error says: it may quote values, or a file, at length."""
    return " ".join(str(error).split())[:400] or type(error).__name__


class StickbreakWarning(UserWarning):
    """Base of every warning that the library gives."""


class ConvergenceWarning(StickbreakWarning):
    """The fit stopped at `max_iter` before the bound settled."""


class DataWarning(StickbreakWarning):
    """The data can be fitted but hold a surprise: a constant column, fewer rows than components."""


class NumericalError(ValueError):
    """A number that must be finite is not."""


class ModelFileError(ValueError):
    """A model file is damaged, foreign, or from a later version."""


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged, or belongs to other data or settings."""


@contextmanager
def columns_named(names: Sequence[Any] | None) -> Iterator[None]:
    """Errors about "column 2" that are raised within speak of the third of `names`; None leaves them as they are."""
    try:
        yield
    except ValueError as error:
        if names is None or len(error.args) != 1:
            raise
        known = lambda found: f"column {names[int(found[1])]!r}" if int(found[1]) < len(names) else found[0]
        error.args = (_COLUMN.sub(known, str(error.args[0]), count=1),)
        raise
