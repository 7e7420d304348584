"""Collapsed sweeps of dependency trees: what sentences keep, and their counts without each other's.

Own counts, of each word: `heads` (n, max_length + 1), the posterior of its head; and `choice`
(n, 2, 2, 2), its decisions to stop or go on. They are float32: what is added is what was kept, so
that what leaves is what was added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.dependency.sentences import Tables
from stickbreak.kernels.dependency.sweeps import (
    Own,
    PriorCounts,
    count_sentences,
    guess_trees,
    sweep_sentences,
)
from stickbreak.protocols import Array, SweptLane
from stickbreak.stats import Field, Fields

from ..base import BaseStructure
from ..tree_units import require_swept, unit_times

__all__ = ["SweptDependency", "dependency_tables", "known_heads"]

KEPT = np.float32


class SweptDependency(BaseStructure):
    """The part of dependency trees that collapsed inference needs."""

    granularities = ("sentence",)
    max_length: int

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Posterior heads and decisions of every word; none yet."""
        n, width = batch.n_rows, self.max_length + 1
        layout = {"heads": Field(("row", None)), "choice": Field(("row", None, None, None))}
        return Fields(
            layout, {"heads": np.zeros((n, width), KEPT), "choice": np.zeros((n, 2, 2, 2), KEPT)}
        )

    def guess_own(
        self, batch: Batch, n_components: int, axis: str, rng: np.random.Generator, jitter: float
    ) -> Fields:
        """Harmonic guesses: near words are heads rather than far ones."""
        own = self.own_counts(batch, n_components, axis)
        guess_trees(batch.offsets, known_heads(batch), Own(own["heads"], own["choice"]))
        assert batch.offsets is not None
        is_used = np.repeat(unit_times(batch) > 0, np.diff(batch.offsets))
        for array in own.arrays.values():
            array *= rng.uniform(1.0 - jitter, 1.0 + jitter, array.shape)
            array[~is_used] = 0.0
        return own

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every sentence once, given all others. Its part of the bound is its tree's entropy."""
        batch, how, found = lane.batch, lane.how, np.zeros(2)
        out, own = dependency_tables(lane.out), Own(lane.own["heads"], lane.own["choice"])
        is_used = unit_times(batch) > 0
        if not how.moves:
            count_sentences(batch.rows, batch.offsets, is_used, own, out)
            return 0.0, 0.0
        tables = dependency_tables(lane.tables)
        prior = PriorCounts(*(float(table.pseudo.flat[0]) for table in lane.pseudo.values()))
        bad = sweep_sentences(
            tables, tables.attach.sum(-1), prior, batch.rows, batch.offsets, known_heads(batch),
            is_used, own, how.block, how.is_part, how.is_measured, out, found,
        )  # fmt: skip
        require_swept(bad, batch)
        return float(found[0]), float(found[1])


def known_heads(batch: Batch) -> Array:
    """(n,) known heads, -1 for unknown; (0,) if there are none."""
    if batch.companion is None:
        return np.zeros(0, dtype=np.int64)
    return np.ascontiguousarray(batch.companion.rows, dtype=np.int64)


def dependency_tables(arrays: Any) -> Tables:
    """Counts or weights of roots, stops and arcs, as kernels have them."""
    return Tables(arrays["root"], arrays["stop"], arrays["attach"])
