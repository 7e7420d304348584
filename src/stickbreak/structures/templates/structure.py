"""Segmentations of strings: a unit is a string, a row a letter, a component a name of slots.

The substrings that begin at each letter come as the companion of the batch, ids (n, max_segment) by
length, -1 for none. Labels of rows cannot tell where segments begin: `parse` gives marks (n,), one
more than the slot of a segment where one begins, else 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.kernels.templates.charts import SlotWeights
from stickbreak.kernels.templates.strings import (
    count_marks,
    infer_strings,
    pick_strings,
    sum_strings,
)
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from ..tree_units import ParsedUnits, require_trees, unit_times
from .collapsed import SweptTemplates, segment_ids, slots_of

__all__ = ["SlotTemplates"]


@dataclass(frozen=True)
class SlotTemplates(ParsedUnits, SweptTemplates):
    """q(segments) of every string, by sums over where segments begin and end.

    templates : see `parse_templates`; max_segment : most letters of a segment
    """

    templates: str = "Word+"
    max_segment: int = 10

    names_components = True
    n_uniforms = 3

    def unit_work(self, batch: Batch) -> Array:
        """(units,) letters times lengths."""
        assert batch.offsets is not None
        return np.diff(batch.offsets) * float(self.max_segment)

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Expected counts by sums before and after every letter."""
        return self._infer(potentials, block, out, np.zeros(0))

    def _infer(self, potentials: Potentials, block: Batch, out: Out, begins: Array) -> Local:
        times, log_z = unit_times(block), np.empty(block.n_spans)
        rows = np.zeros((block.n_rows, len(potentials["segment"])))
        infer_strings(
            *self._weights(potentials), *_strings(block), times, *_tables(out), rows, begins, log_z
        )
        require_trees(log_z, block)
        return Local(float(times @ log_z), np.asfortranarray(rows))

    def _weights(self, potentials: Potentials) -> tuple[object, SlotWeights, Array]:
        repeat = np.ascontiguousarray(potentials["repeat"].T)
        w = SlotWeights(np.ascontiguousarray(potentials["template"]), repeat[0], repeat[1])
        return slots_of(self._parsed), w, np.ascontiguousarray(potentials["segment"])

    # ------------------------------------------------------------------------------ segments

    def parse(
        self, potentials: Potentials, block: Batch, uniforms: Array | None = None
    ) -> tuple[Companion, Array]:
        """Marks (n,) of the best segmentations, or of drawn ones, and the logs of their weights."""
        marks, log_z = np.zeros(block.n_rows, dtype=np.int64), np.empty(block.n_spans)
        drawn = np.zeros((0, 3)) if uniforms is None else np.ascontiguousarray(uniforms)
        pick_strings(*self._weights(potentials), *_strings(block), drawn, marks, log_z)
        require_trees(log_z, block)
        assert block.offsets is not None
        return Companion(marks, block.offsets), log_z

    def tree_shares(self, potentials: Potentials, block: Batch) -> Companion:
        """(n,) probability that a segment begins at each letter."""
        assert block.offsets is not None
        begins = np.zeros(block.n_rows)
        self._infer(potentials, block, dict(potentials.empty.empty().arrays), begins)
        return Companion(begins, block.offsets)

    def count_trees(self, trees: Companion, block: Batch, out: Out) -> None:
        """Add the counts of given segmentations, marks (n,)."""
        ids, offsets = _strings(block)
        marks = np.ascontiguousarray(trees.rows, dtype=np.int64)
        count_marks(slots_of(self._parsed), marks, ids, offsets, unit_times(block), *_tables(out))

    # ------------------------------------------------------------------------------ labels, scores

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Nothing: names above letters do not tell where segments begin."""

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) logs of the sums over all segmentations."""
        log_z = np.empty(block.n_spans)
        sum_strings(*self._weights(potentials), *_strings(block), log_z)
        return log_z

    def labels_in(self, trees: Companion, block: Batch) -> Array:
        """(n,) name above each letter."""
        begins = np.flatnonzero(trees.rows)
        slots = np.repeat(trees.rows[begins] - 1, np.diff(np.append(begins, len(trees.rows))))
        return np.asarray(self._parsed.name[slots])

    def n_labels(self, potentials: Potentials) -> int:
        """The number of names."""
        return len(potentials["segment"])


def _strings(block: Batch) -> tuple[Array, Array]:
    assert block.offsets is not None
    return segment_ids(block), block.offsets


def _tables(out: Out) -> tuple[Array, Array, Array, Array]:
    return out["template"], out["repeat"], out["segment"], out["log_absent"]
