"""Collapsed sweeps of strings: what they keep, and their counts without each other's.

Expectations: `segments` (n, L, C), how often a segment of a name begins at a letter, by its length,
`templates` (units, T) and `repeats` (units, Q, 2), in float32. Draws: `mark` (n,), one more than
the slot of a segment where one begins, else 0; and `accepted`, as for trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch, Template, parse_templates
from stickbreak.errors import NumericalError
from stickbreak.kernels.templates.charts import Slots
from stickbreak.kernels.templates.sweeps import (
    SegmentOwn,
    SlotCounts,
    SlotPrior,
    Strings,
    count_strings,
    draw_strings,
    random_strings,
    sweep_strings,
)
from stickbreak.protocols import Array, Out, SweptLane
from stickbreak.stats import Field, Fields

from ..base import BaseStructure
from ..labels import require_single
from ..tree_units import require_swept, unit_times

__all__ = ["SweptTemplates", "segment_ids", "slots_of"]

KEPT = np.float32


class SweptTemplates(BaseStructure):
    """The part of template grammars that collapsed inference needs."""

    granularities = ("sentence",)
    drawn_granularity = "sentence"
    templates: str
    max_segment: int

    @property
    def _parsed(self) -> Template:
        return parse_templates(self.templates)

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Segments, templates and repetitions of every string; none yet."""
        n, n_units, slots = batch.n_rows, batch.n_spans, self._parsed
        layout = {
            "segments": Field(("row", None, axis)),
            "templates": Field(("unit", None)),
            "repeats": Field(("unit", None, None)),
        }
        arrays = {
            "segments": np.zeros((n, self.max_segment, n_components), KEPT),
            "templates": np.zeros((n_units, slots.n_templates), KEPT),
            "repeats": np.zeros((n_units, len(slots.name), 2), KEPT),
        }
        return Fields(layout, arrays)

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No segmentations yet."""
        layout = {"mark": Field(("row",)), "accepted": Field(("unit",), nonnegative=False)}
        arrays = {
            "mark": np.zeros(batch.n_rows, dtype=np.int64),
            "accepted": np.full(batch.n_spans, -1, dtype=np.int64),
        }
        return Fields(layout, arrays)

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Segmentations of every string under random weights."""
        own = self.own_counts(batch, n_components, axis)
        seeds = rng.integers(0, 1 << 64, batch.n_spans, dtype=np.uint64)
        slots = self._parsed
        random_strings(slots_of(slots), slots.repeats, _strings(batch), seeds, _own(own))
        return own

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every string once, given all others; with seeds, a segmentation is drawn."""
        batch, how, found = lane.batch, lane.how, np.zeros(2)
        units, out, slots = _strings(batch), _counts(lane.out), slots_of(self._parsed)
        counts, prior = _counts(lane.tables), _prior(lane.pseudo)
        if how.seeds is not None:
            require_single(batch)
            marks = lane.own["mark"]
            if how.is_part:
                _check_marks(marks, units, len(slots.name))
            bad = draw_strings(
                slots, counts, prior, units, marks, how.is_part, how.seeds, how.power,
                lane.own["accepted"], out, found,
            )  # fmt: skip
        elif not how.moves:
            count_strings(units, _own(lane.own), out)
            return 0.0, 0.0
        else:
            bad = sweep_strings(
                slots, counts, prior, units, _own(lane.own), how.block, how.is_part,
                how.is_measured, out, found,
            )  # fmt: skip
        require_swept(bad, batch)
        return float(found[0]), float(found[1])


def segment_ids(batch: Batch) -> Array:
    """(n, L) substring that begins at each letter, by length."""
    assert batch.companion is not None
    return np.ascontiguousarray(batch.companion.rows, dtype=np.int64)


def slots_of(slots: Template) -> Slots:
    """Slots, as kernels have them."""
    return Slots(slots.name, slots.template, slots.is_first, slots.is_last)


def _strings(batch: Batch) -> Strings:
    assert batch.offsets is not None
    return Strings(segment_ids(batch), batch.offsets, unit_times(batch) > 0)


def _own(own: Fields) -> SegmentOwn:
    return SegmentOwn(own["segments"], own["templates"], own["repeats"])


def _counts(arrays: Out) -> SlotCounts:
    segment = arrays["segment"]
    totals, absent = segment.sum(1), arrays["log_absent"]
    return SlotCounts(arrays["template"], arrays["repeat"], segment, totals, absent)


def _prior(tables: Any) -> SlotPrior:
    repeat, segment = tables["repeat"].pseudo, tables["segment"]
    line = np.ascontiguousarray(segment.pseudo[0])
    total = float(line.sum()) + float(segment.rest or 0.0)
    return SlotPrior(tables["template"].pseudo, repeat, line, total, repeat[:, 0] > 0)


def _check_marks(marks: Array, units: Strings, n_slots: int) -> None:
    """Raise NumericalError for segmentations that cannot be: they may come from a file."""
    used = np.repeat(units.is_used, np.diff(units.offsets))
    begins = np.flatnonzero((marks > 0) & used)
    first = units.offsets[:-1][units.is_used]
    is_known = bool((marks[first] > 0).all() and (marks >= 0).all() and (marks <= n_slots).all())
    if is_known:
        ends = np.repeat(units.offsets[1:], np.diff(units.offsets))[begins]
        lengths = np.minimum(np.append(begins[1:], len(marks)), ends) - begins
        is_known = bool((lengths <= units.ids.shape[1]).all())
        is_known = is_known and bool((units.ids[begins, lengths - 1] >= 0).all())
    if not is_known:
        raise NumericalError("strings have segments that cannot be theirs")
