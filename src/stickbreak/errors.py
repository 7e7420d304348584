"""Errors and warnings of our own: each names the value and the remedy."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConvergenceWarning",
    "DataWarning",
    "ModelFileError",
    "NumericalError",
    "StickbreakWarning",
    "in_one_line",
]


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
