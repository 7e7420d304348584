"""Sequences by ids of their rows: an array, or a column of a data frame or file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.data import FileTable, Runs, find_runs, open_table, read_names, read_runs
from stickbreak.families.base import BaseFamily
from stickbreak.stats import Array

from .frame_columns import frame_kind
from .schema import Schema
from .table_rows import open_words

__all__ = ["offsets_of_runs", "split_ids"]


def split_ids(
    X: Any, sequence_id: ArrayLike | None, family: BaseFamily, schema: Schema | None
) -> tuple[Any, Runs | None]:
    """Rows without their column of ids, and the runs of the ids.

    family, schema : of the columns of the fit, to select from a file; None for all.
    """
    if not isinstance(sequence_id, str):
        return X, None if sequence_id is None else _runs(sequence_id)
    if isinstance(X, str | Path):
        runs = read_runs(X, sequence_id)
        others = [name for name in read_names(X) or () if name != sequence_id]
        names = None if schema is None else schema.names
        columns = others if names is None else list(names)
        return open_words(partial(open_table, X, columns=columns), family, schema), runs
    if isinstance(X, FileTable):
        raise ValueError(
            f"give the path {X.path} itself with sequence_id={sequence_id!r}, not an opened table"
        )
    if frame_kind(X) is None:
        raise ValueError(
            f"sequence_id={sequence_id!r} names a column, but X is neither a data "
            "frame nor a file; give the ids (n,)"
        )
    if sequence_id not in list(X.columns):
        known = ", ".join(map(repr, list(X.columns)[:8]))
        raise ValueError(
            f"the data frame has no column {sequence_id!r}, which sequence_id names; "
            f"it has the columns {known}"
        )
    rest = X.drop(columns=sequence_id) if frame_kind(X) == "pandas" else X.drop(sequence_id)
    return rest, _runs(X[sequence_id])


def _runs(ids: ArrayLike) -> Runs:
    found = np.asarray(ids)
    if found.ndim != 1:
        raise ValueError(f"sequence_id has shape {found.shape}; give an id for each row")
    return find_runs(found)


def offsets_of_runs(runs: Runs, n_rows: int | None = None) -> Array:
    """(S + 1,) where sequences begin and end. Rows of a sequence must be contiguous.

    n_rows : required number of rows.
    """
    if n_rows is not None and runs.n_rows != n_rows:
        raise ValueError(
            f"sequence_id has shape ({runs.n_rows},) but X has {n_rows} rows; give an "
            "id for each row"
        )
    seen = set()
    for value, start in zip(runs.ids, runs.starts.tolist(), strict=True):
        if value is None:
            raise ValueError(f"row {start} has no sequence_id")
        if value in seen:
            raise ValueError(
                f"sequence_id {value!r} begins again at row {start}; the rows of a sequence must "
                "stand together, "
                "in order: sort them"
            )
        seen.add(value)
    return np.r_[runs.starts, runs.n_rows].astype(np.int64)
