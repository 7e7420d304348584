"""A column of ids by its runs: what is held is one id for each run of rows that share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Runs", "find_runs", "join_runs"]

Array = npt.NDArray[Any]


class Runs(NamedTuple):
    """ids: that of each run, None where it is missing; starts (S,): the first row of each; n_rows:
    rows in all.
    """

    ids: list[Any]
    starts: Array
    n_rows: int

    def with_ids(self, ids: list[Any]) -> Runs:
        """The same runs under other names; neighbours that are now equal are one."""
        kept = [i for i, value in enumerate(ids) if i == 0 or value != ids[i - 1]]
        return Runs([ids[i] for i in kept], self.starts[kept], self.n_rows)


def find_runs(ids: Array) -> Runs:
    """Runs of equal ids (n,); None and what does not equal itself (NaN) are missing."""
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
    is_same = value == value  # pandas answers with its own NA, which is no truth value
    return value is not None and isinstance(is_same, bool | np.bool_) and bool(is_same)


def join_runs(parts: Iterable[Runs]) -> Runs:
    """Parts of a column, one after another; a run that goes on in the next part is one."""
    ids: list[Any] = []
    starts: list[Array] = [np.zeros(0, dtype=np.int64)]
    n_rows = 0
    for part in parts:
        goes_on = bool(ids) and bool(part.ids) and ids[-1] == part.ids[0]
        ids += part.ids[goes_on:]
        starts.append(n_rows + part.starts[goes_on:])
        n_rows += part.n_rows
    return Runs(ids, np.concatenate(starts), n_rows)
