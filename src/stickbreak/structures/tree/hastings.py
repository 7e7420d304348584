"""Trees drawn whole, given those of all other sentences: see `kernels/tree/hastings.py`."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.tree.hastings import Trees, draw_sentences
from stickbreak.kernels.tree.sweeps import Symbols
from stickbreak.protocols import Array, SweptLane
from stickbreak.stats import Field, Fields

from ..labels import read_states, require_single
from ..tree_units import require_swept
from .collapsed import SweptTree, tree_counts, tree_prior, tree_units

__all__ = ["DrawnTree"]


class DrawnTree(SweptTree):
    """The part of a grammar that collapsed Gibbs sampling needs: a tree of every sentence.

    It is kept by rows, as whole numbers: `state`, one more than the category above each word, and
    `node`, see `Trees`. `accepted` of a sentence is 1 if its last proposal was, 0 if not, and -1
    before the first.
    """

    drawn_granularity = "sentence"

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No trees yet."""
        layout = {
            "state": Field(("row",)),
            "node": Field(("row", None)),
            "accepted": Field(("unit",), nonnegative=False),
        }
        n, n_units = batch.n_rows, batch.n_spans
        arrays = {
            "state": np.zeros(n, dtype=np.int64),
            "node": np.zeros((n, 3), dtype=np.int64),
            "accepted": np.full(n_units, -1, dtype=np.int64),
        }
        return Fields(layout, arrays)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """With seeds, a tree for every sentence given all others; else as sentences are swept."""
        batch, how = lane.batch, lane.how
        if how.seeds is None:
            return super().sweep(lane)
        require_single(batch)
        words = np.ascontiguousarray(batch.rows[:, 0], dtype=np.int64)
        K = len(lane.tables["root"])
        units = tree_units(batch, words, lane.legal, len(lane.live.totals))
        log_z = np.zeros(1)
        trees = _read_trees(lane, units.is_used, K)
        outs = Symbols(*lane.out_live), tree_counts(lane.out)
        bad = draw_sentences(
            Symbols(*lane.live), tree_counts(lane.tables), tree_prior(lane.pseudo), units, trees,
            how.is_part, how.seeds, how.power, lane.own["accepted"], *outs, log_z,
        )  # fmt: skip
        require_swept(bad, batch)
        rows = np.repeat(units.is_used, np.diff(np.asarray(batch.offsets)))
        lane.own["state"][rows] = trees.states[rows] + 1
        return float(log_z[0]), 0.0


def _read_trees(lane: SweptLane, is_used: Array, n_components: int) -> Trees:
    """Trees of the lane's sentences; checked, for they may come from a file."""
    offsets = np.asarray(lane.batch.offsets)
    sizes, rows = np.diff(offsets), np.repeat(is_used, np.diff(offsets))
    states = read_states(lane.own, rows, lane.how.is_part, n_components)
    nodes = lane.own["node"]
    if lane.how.is_part:
        place = np.arange(len(rows)) - np.repeat(offsets[:-1], sizes)
        begin, end, category = nodes[rows & (place > 0)].T
        place, n = place[rows & (place > 0)], np.repeat(sizes, sizes)[rows & (place > 0)]
        spans = (begin >= 0) & (begin < place) & (place < end) & (end <= n)
        if not (spans & (category >= 0) & (category < n_components)).all():
            raise NumericalError("sentences have trees that cannot be theirs")
    return Trees(np.ascontiguousarray(states), nodes)
