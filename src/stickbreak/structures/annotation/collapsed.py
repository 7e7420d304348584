"""Collapsed sweeps over given trees: what they keep, and their counts without each other's.

Own counts, by the words of a tree: `rows` (n, H), the subtype of each tag; `pairs` (n, H, H, H),
row i of binary node i - 1; `chains` (n, 2, H, H), of unary rules above words and above these nodes;
and `roots` (units, H). They are float32: what is added is what was kept. Where subtypes are drawn,
`subtype` (n, 4) is one more than the drawn ones, see `kernels/annotation/draws.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch, Listing
from stickbreak.errors import NumericalError
from stickbreak.kernels.annotation.draws import draw_annotations
from stickbreak.kernels.annotation.skeletons import AnnotatedTables
from stickbreak.kernels.annotation.sweeps import (
    SkeletonOwn,
    SkeletonUnits,
    count_skeletons,
    sweep_skeletons,
)
from stickbreak.protocols import Array, SweptLane
from stickbreak.stats import Field, Fields

from ..base import BaseStructure
from ..labels import require_single
from ..tree_units import require_swept, unit_times

__all__ = ["SweptAnnotation", "given_trees", "tables_of"]

KEPT = np.float32
NAMES = ("root", "binary_rule", "unary_rule", "word_rule")


class SweptAnnotation(BaseStructure):
    """The part of annotated trees that collapsed inference needs."""

    granularities = ("sentence",)
    drawn_granularity = "sentence"
    listing: Listing

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Subtypes of all nodes; none yet."""
        H, n = n_components, batch.n_rows
        layout = {
            "rows": Field(("row", axis)),
            "pairs": Field(("row", axis, axis, axis)),
            "chains": Field(("row", None, axis, axis)),
            "roots": Field(("unit", axis)),
        }
        sizes = {
            "rows": (n, H),
            "pairs": (n, H, H, H),
            "chains": (n, 2, H, H),
            "roots": (batch.n_spans, H),
        }
        return Fields(layout, {name: np.zeros(size, KEPT) for name, size in sizes.items()})

    def guess_own(
        self, batch: Batch, n_components: int, axis: str, rng: np.random.Generator, jitter: float
    ) -> Fields:
        """Subtypes shared out evenly, each entry of a rule times 1 - jitter to 1 + jitter."""
        H, found, own = n_components, self.listing, self.own_counts(batch, n_components, axis)
        nodes, is_used = given_trees(batch), unit_times(batch) > 0
        assert batch.offsets is not None

        def shares(n: int, *shape: int) -> Array:
            noise = rng.uniform(1.0 - jitter, 1.0 + jitter, (n, *shape))
            return np.asarray(noise / H ** len(shape), dtype=KEPT)

        is_first = np.zeros(batch.n_rows, dtype=bool)
        is_first[batch.offsets[:-1]] = True
        roots, pairs = shares(len(found.tops), H), shares(len(found.binary), H, H, H)
        chains = shares(len(found.unary), H, H)
        own["rows"][...] = shares(len(found.emits), H)[nodes[:, 0]]
        own["roots"][...] = roots[nodes[is_first, 2]]
        own["pairs"][~is_first] = pairs[nodes[~is_first, 2]]
        for side in range(2):
            rules = nodes[:, 1 + 2 * side]
            own["chains"][rules >= 0, side] = chains[rules[rules >= 0]]
        for name in ("rows", "pairs", "chains"):
            own[name][~np.repeat(is_used, np.diff(batch.offsets))] = 0.0
        own["roots"][~is_used] = 0.0
        return own

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No subtypes yet."""
        layout = {
            "subtype": Field(("row", None)),
            "accepted": Field(("unit",), nonnegative=False),
        }
        arrays = {
            "subtype": np.zeros((batch.n_rows, 4), dtype=np.int64),
            "accepted": np.full(batch.n_spans, -1, dtype=np.int64),
        }
        return Fields(layout, arrays)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every tree once, given all others. Its part of the bound is its entropy."""
        if lane.how.seeds is not None:
            return self._draw(lane)
        batch, how, found, groups = lane.batch, lane.how, np.zeros(2), lane.pseudo
        assert batch.offsets is not None
        units = SkeletonUnits(given_trees(batch), batch.offsets, unit_times(batch) > 0)
        own = SkeletonOwn(*(lane.own[name] for name in SkeletonOwn._fields))
        out, tables = tables_of(lane.out), tables_of(lane.tables)
        sums = np.zeros((len(groups.prior), own.rows.shape[1]))
        if not how.moves:
            count_skeletons(units, own, groups, out, sums)
            return 0.0, 0.0
        totals = _totals(tables, groups)
        bad = sweep_skeletons(
            tables, totals, groups, units, own, how.block, how.is_part, how.is_measured, out, sums,
            found,
        )  # fmt: skip
        require_swept(bad, batch)
        return float(found[0]), float(found[1])

    def _draw(self, lane: SweptLane) -> tuple[float, float]:
        """Subtypes of every tree, drawn given those of all others."""
        batch, how, log_z, groups = lane.batch, lane.how, np.zeros(1), lane.pseudo
        assert batch.offsets is not None
        require_single(batch)
        is_used = unit_times(batch) > 0
        units, counts = (
            SkeletonUnits(given_trees(batch), batch.offsets, is_used),
            tables_of(lane.tables),
        )
        totals, H = _totals(counts, groups), counts.root.shape[1]
        picked = lane.own["subtype"] - 1
        known = picked[np.repeat(is_used, np.diff(batch.offsets))]  # they may come from a file
        if how.is_part and not ((known >= 0) & (known < H)).all():
            raise NumericalError("nodes of trees have subtypes that are none")
        bad = draw_annotations(
            counts, totals, groups, units, picked, how.is_part, how.seeds, how.power,
            lane.own["accepted"], tables_of(lane.out), np.zeros_like(totals), log_z,
        )  # fmt: skip
        require_swept(bad, batch)
        lane.own["subtype"][...] = picked + 1
        return float(log_z[0]), 0.0


def _totals(counts: AnnotatedTables, groups: Any) -> Array:
    """(S, H) counts of all rules of each parent."""
    totals = np.zeros((len(groups.prior), counts.root.shape[1]))
    np.add.at(totals, groups.binary, counts.binary.sum((2, 3)))
    np.add.at(totals, groups.unary, counts.unary.sum(2))
    np.add.at(totals, groups.emit, counts.emit)
    return totals


def tables_of(arrays: Any) -> AnnotatedTables:
    """The prior's tables, by the names that kernels have for them."""
    return AnnotatedTables(*(np.ascontiguousarray(arrays[name]) for name in NAMES))


def exponentials(logs: AnnotatedTables) -> AnnotatedTables:
    """Weights of their logarithms."""
    return AnnotatedTables(*(np.exp(table) for table in logs))


def has_underflown(weights: AnnotatedTables, logs: AnnotatedTables) -> bool:
    """Whether some weight is zero only because it underflowed."""
    pairs = zip(weights, logs, strict=True)
    return any(bool(((table == 0.0) & (log > -np.inf)).any()) for table, log in pairs)


def given_trees(batch: Batch) -> Array:
    """Nodes (n, 6) of the trees, see `number_trees`."""
    if batch.companion is None:
        raise ValueError("subtypes are learned from given trees; sentences alone have none")
    return np.ascontiguousarray(batch.companion.rows, dtype=np.int64)
