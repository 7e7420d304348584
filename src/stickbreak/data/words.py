"""Columns of words in files: their categories, and the number of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .limits import MAX_CELL

__all__ = ["Codes", "WordsError", "order_words", "read_number"]

MISSING = frozenset({"", "na", "nan"})
TRUTH = {"false": False, "true": True}
MAX_SHOWN = 8  # most categories that an error lists


class WordsError(ValueError):
    """A column that should hold numbers holds words.

    column : its position in the file. columns : positions of all columns that were asked for.
    names : of all columns of the file; None without names
    """

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column
        self.columns: list[int] = []
        self.names: tuple[str, ...] | None = None


class Codes:
    """Numbers of the categories of one column, found by what a file says."""

    def __init__(self, categories: Sequence[Any]) -> None:
        self.categories = list(categories)
        self._texts: dict[str, float] = {}
        self._numbers: dict[float, float] = {}
        for code, value in enumerate(self.categories):
            self._texts[str(value)] = float(code)
            if isinstance(value, bool):
                self._texts[str(value).lower()] = self._texts[str(value).upper()] = float(code)
            elif isinstance(value, int | float):
                self._numbers[float(value)] = float(code)

    def find(self, cell: str) -> float | None:
        """The number of a cell, NaN if it is missing; None for a word that is no category."""
        found = self._texts.get(cell)
        if found is not None:
            return found
        number = read_number(cell)
        if number is None:
            return None
        return number if np.isnan(number) else self._numbers.get(number)

    def show(self) -> str:
        """The first of the categories, for messages."""
        more = ", ..." if len(self.categories) > MAX_SHOWN else ""
        return ", ".join(map(repr, self.categories[:MAX_SHOWN])) + more


def order_words(cells: Iterable[str]) -> list[Any] | None:
    """The categories of a column with these distinct cells, as a data frame would have them.

    None for a column of numbers, [False, True] for one of truth values, else words in their order.
    """
    words = {cell for cell in cells if cell.lower() not in MISSING}
    if all(read_number(word) is not None for word in words):
        return None
    if all(word.lower() in TRUTH for word in words):
        return [False, True]
    return sorted(words)


def read_number(cell: str) -> float | None:
    """The number in a cell, NaN if missing; None for anything else or too many characters."""
    if cell.lower() in MISSING:
        return np.nan
    if len(cell) > MAX_CELL or not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None
