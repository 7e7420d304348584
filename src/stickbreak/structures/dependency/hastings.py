"""Trees drawn whole, given those of all other sentences: see `kernels/dependency/hastings.py`."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.dependency.hastings import draw_sentences
from stickbreak.kernels.dependency.sweeps import PriorCounts
from stickbreak.protocols import Array, SweptLane
from stickbreak.stats import Field, Fields

from ..labels import require_single
from ..tree_units import require_swept, unit_times
from .collapsed import SweptDependency, dependency_tables, known_heads

__all__ = ["DrawnDependency"]


class DrawnDependency(SweptDependency):
    """The part of dependency trees that collapsed Gibbs sampling needs: a tree of every sentence.

    `head` of a word is one more than the number of its head, 0 before the first visit; `accepted`
    is as for constituents.
    """

    drawn_granularity = "sentence"

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No trees yet."""
        layout = {"head": Field(("row",)), "accepted": Field(("unit",), nonnegative=False)}
        arrays = {
            "head": np.zeros(batch.n_rows, dtype=np.int64),
            "accepted": np.full(batch.n_spans, -1, dtype=np.int64),
        }
        return Fields(layout, arrays)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """With seeds, a tree for every sentence given all others; else as sentences are swept."""
        batch, how, log_z = lane.batch, lane.how, np.zeros(1)
        if how.seeds is None:
            return super().sweep(lane)
        require_single(batch)
        is_used = unit_times(batch) > 0
        heads, tables = _read_heads(lane, is_used), dependency_tables(lane.tables)
        prior = PriorCounts(*(float(table.pseudo.flat[0]) for table in lane.pseudo.values()))
        bad = draw_sentences(
            tables, tables.attach.sum(-1), prior, batch.rows, batch.offsets, known_heads(batch),
            is_used, heads, how.is_part, how.seeds, how.power, lane.own["accepted"],
            dependency_tables(lane.out), log_z,
        )  # fmt: skip
        require_swept(bad, batch)
        lane.own["head"][...] = heads + 1
        return float(log_z[0]), 0.0


def _read_heads(lane: SweptLane, is_used: Array) -> Array:
    """(n,) heads of words, -1 for none; checked, for they may come from a file."""
    sizes = np.diff(np.asarray(lane.batch.offsets))
    heads, rows, n = lane.own["head"] - 1, np.repeat(is_used, sizes), np.repeat(sizes, sizes)
    if lane.how.is_part and not ((heads >= 0) & (heads <= n))[rows].all():
        raise NumericalError("words have heads that are not in their sentences")
    return np.asarray(heads)
