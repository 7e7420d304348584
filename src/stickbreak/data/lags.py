"""Rows that carry the rows before them, for autoregressive families."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stickbreak.parameters import require_whole

__all__ = ["lag_rows"]

Array = npt.NDArray[Any]


def lag_rows(rows: Any, offsets: Any = None, order: int = 1) -> tuple[Array, Array]:
    """Rows (x_t, x_{t-1}, ..., x_{t-order}) of sequences, as `AutoregressiveGaussian` reads them.

    The first `order` rows of every sequence are context only. A missing entry (NaN) is missing
    wherever its row occurs: as a value, and in the context of the next `order` rows.

    Parameters
    ----------
    rows : (n, D) sequences, one after another.
    offsets : (S + 1,) sequence s owns rows offsets[s] to offsets[s + 1]; default: one sequence.
    order : how many rows back the context reaches.

    Returns
    -------
    (m, D (1 + order)) rows, and offsets (S + 1,) of the sequences among them.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> X = np.array([[1.0], [2.0], [4.0], [7.0], [5.0]])
    >>> rows, offsets = sb.lag_rows(X, offsets=[0, 3, 5])
    >>> rows.tolist(), offsets.tolist()
    ([[2.0, 1.0], [4.0, 2.0], [5.0, 7.0]], [0, 2, 3])
    """
    require_whole(order=order)
    values = np.asarray(rows)
    if values.ndim != 2:
        raise ValueError(
            f"rows has shape {values.shape}; expected (n, D): a single column is rows[:, None]"
        )
    ends = _check_offsets(offsets, len(values))
    short = np.flatnonzero(np.diff(ends) <= order)
    if len(short):
        s = int(short[0])
        raise ValueError(
            f"sequence {s} has {ends[s + 1] - ends[s]} rows, but order={order} needs at least "
            f"{order + 1}: "
            "drop it or use a smaller order"
        )
    is_value = np.ones(len(values), dtype=bool)
    is_value[ends[:-1, None] + np.arange(order)] = False
    at = np.flatnonzero(is_value)
    lagged = np.concatenate([values[at - lag] for lag in range(order + 1)], axis=1)
    return lagged, ends - order * np.arange(len(ends))


def _check_offsets(offsets: Any, n_rows: int) -> Array:
    """Offsets as an array of whole numbers from 0 to n_rows, never decreasing."""
    ends = np.array([0, n_rows]) if offsets is None else np.asarray(offsets)
    is_whole = ends.ndim == 1 and len(ends) >= 2 and ends.dtype.kind in "iu"
    if (
        not is_whole
        or ends[0] != 0
        or ends[-1] != n_rows
        or (np.diff(ends.astype(np.int64)) < 0).any()
    ):
        raise ValueError(
            "offsets must be whole numbers that rise from 0 to the number of rows "
            f"({n_rows}); got {offsets!r}"
        )
    return ends.astype(np.int64)
