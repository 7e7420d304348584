"""A column of ids as runs: one id is held for each run of rows that share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Runs", "find_runs", "join_runs"]

Array = npt.NDArray[Any]


class Runs(NamedTuple):
    """Runs of equal ids.

    ids : one per run, None if missing. starts (S,) : first row of each run. n_rows : total rows.
    """

    ids: list[Any]
    starts: Array
    n_rows: int

    def with_ids(self, ids: list[Any]) -> Runs:
        """The same runs with other ids; neighbors that are now equal become one run."""
        kept = [i for i, value in enumerate(ids) if i == 0 or value != ids[i - 1]]
        return Runs([ids[i] for i in kept], self.starts[kept], self.n_rows)


def find_runs(ids: Array) -> Runs:
    """Runs of equal ids (n,). None, and values that do not equal themselves (NaN), are missing."""
    if ids.dtype.kind in "fO":
        ids = np.array(
            [value if _is_there(value) else None for value in ids.tolist()], dtype=object
        )
    starts = (
        np.r_[0, np.flatnonzero(ids[1:] != ids[:-1]) + 1]
        if len(ids)
        else np.zeros(0, dtype=np.int64)
    )
    return Runs(ids[starts].tolist(), starts, len(ids))


def _is_there(value: Any) -> bool:
    is_same = value == value  # pandas returns its own NA, which has no truth value
    return value is not None and isinstance(is_same, bool | np.bool_) and bool(is_same)


def join_runs(parts: Iterable[Runs]) -> Runs:
    """Join parts of a column; a run that continues in the next part stays one run."""
    ids: list[Any] = []
    starts: list[Array] = [np.zeros(0, dtype=np.int64)]
    n_rows = 0
    for part in parts:
        goes_on = bool(ids) and bool(part.ids) and ids[-1] == part.ids[0]
        ids += part.ids[goes_on:]
        starts.append(n_rows + part.starts[goes_on:])
        n_rows += part.n_rows
    return Runs(ids, np.concatenate(starts), n_rows)
