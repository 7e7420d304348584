"""Which sequence a row belongs to: ids of rows, or the column of a data frame or file that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.data import FileTable, open_table, read_names
from stickbreak.stats import Array

from .frames import frame_kind

__all__ = ["offsets_of_ids", "split_identity"]


def split_identity(X: Any, sequence_id: Any, names: Sequence[str] | None) -> tuple[Any, Any]:
    """The rows, and the ids of their sequences; a string names the column of X that holds them, which is left out of the rows.

    names : columns of the fit, by which a file's are found; None for all.
    """
    if not isinstance(sequence_id, str):
        return X, sequence_id
    if isinstance(X, str | Path):
        known = read_names(X)
        _require_column(sequence_id, known, str(X))
        wanted = [name for name in known or () if name != sequence_id] if names is None else [str(name) for name in names]
        ids = open_table(X, columns=[sequence_id]).rows[:, 0]
        return open_table(X, columns=wanted), np.array(ids)
    if isinstance(X, FileTable):
        _require_column(sequence_id, X.names, str(X.path))
        raise ValueError(f"give the path {X.path} itself with sequence_id={sequence_id!r}, not an opened table")
    if frame_kind(X) is None:
        raise ValueError(f"sequence_id={sequence_id!r} names a column, but X is neither a data frame nor a file; give the ids (n,)")
    _require_column(sequence_id, list(X.columns), "the data frame")
    if frame_kind(X) == "pandas":
        return X.drop(columns=sequence_id), X[sequence_id].to_numpy()
    return X.drop(sequence_id), X[sequence_id].to_numpy()


def _require_column(name: str, names: Sequence[str] | None, where: str) -> None:
    if names is None or name not in names:
        known = "no names of columns" if names is None else f"the columns {', '.join(map(repr, list(names)[:8]))}"
        raise ValueError(f"{where} has no column {name!r}, which sequence_id names; it has {known}")


def offsets_of_ids(sequence_id: Any, n_rows: int) -> Array:
    """(S + 1,) from the id of each row's sequence; the rows of a sequence must stand together."""
    ids = np.asarray(sequence_id)
    if ids.shape != (n_rows,):
        raise ValueError(f"sequence_id has shape {ids.shape} but X has {n_rows} rows; give an id for each row")
    missing = np.flatnonzero([value is None or value != value for value in ids.tolist()] if ids.dtype.kind in "fO" else [])
    if len(missing):
        raise ValueError(f"row {missing[0]} has no sequence_id")
    starts = np.r_[0, np.flatnonzero(ids[1:] != ids[:-1]) + 1]
    values, first = np.unique(ids[starts], return_index=True)
    if len(values) < len(starts):
        again = int(np.setdiff1d(np.arange(len(starts)), first)[0])
        raise ValueError(
            f"sequence_id {ids[starts[again]]!r} begins again at row {starts[again]}; the rows of a sequence must stand together, "
            "in order: sort them"
        )
    return np.r_[starts, n_rows].astype(np.int64)
