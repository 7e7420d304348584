"""Labels that rows keep from one draw to the next."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields

__all__ = ["no_states", "read_states", "require_single"]


def no_states(n_rows: int) -> Fields:
    """State (n,): one more than the component of a row, 0 if it has none yet."""
    return Fields({"state": Field(("row",))}, {"state": np.zeros(n_rows, dtype=np.int64)})


def read_states(own: Fields, is_used: Array, is_part: bool, n_components: int) -> Array:
    """(n,) components of rows; -1 for none, which rows in use have before the first visit only."""
    states, first = own["state"] - 1, 0 if is_part else -1
    if ((states[is_used] < first) | (states[is_used] >= n_components)).any():
        raise NumericalError(f"rows have other components than the {n_components} that there are")
    return np.asarray(states)


def require_single(block: Batch) -> None:
    """Raise ValueError unless weights of rows are 0 or 1: a copy would need its own label."""
    repeats = block.repeats_or_ones()
    bad = repeats[(repeats != 0) & (repeats != 1)]
    if len(bad):
        raise ValueError(
            f"samplers draw one label for each row, so weights must be 0 or 1; got {bad[0]:g}: "
            "repeat such rows or sequences instead, or use a variational engine such as BatchVB"
        )
