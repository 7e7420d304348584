"""Units cut into batches, lanes and blocks by fixed rules: by the data alone, never by the number
of workers.

A batch is what one visit sees; a lane is the unit of parallel work and of ordered summation; a
block bounds memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LANE_ROWS", "MAX_LANES", "Batch", "Windows"]

Array = npt.NDArray[Any]

LANE_ROWS = 8192  # smaller lanes are not worth cutting: one costs about 0.1 ms of Python
# the same of sequences, whose lanes cost 0.3 ms, part of it while others wait
ORDERED_ROWS = 49_152
LANE_UNITS = 32  # sequences are inferred side by side: a lane of few is slow
MAX_LANES = 16  # caps the number of useful workers inside one batch


class Windows(NamedTuple):
    """Units that are windows of longer sequences, with rows around them that are looked at but do
    not count (buffers).

    lead, trail (S,) : buffer rows before and after each window
    is_first (S,) : whether the unit begins where its sequence does
    n_windows, n_sequences : windows that all data were cut into, and sequences
    pair_share : the part of all pairs of neighbouring rows that such windows hold on average
    edge_tol : use only as much of the buffers as it takes for the window's edges to change by less
        than this; None: all of them
    """

    lead: Array
    trail: Array
    is_first: Array
    n_windows: int
    n_sequences: int
    pair_share: float
    edge_tol: float | None = None

    def part(self, lo: int, hi: int) -> Windows:
        """Those of units lo..hi."""
        return self._replace(
            lead=self.lead[lo:hi], trail=self.trail[lo:hi], is_first=self.is_first[lo:hi]
        )

    @property
    def has_start(self) -> Array:
        """(S,) whether the window itself holds the first row of its sequence."""
        return self.is_first & (self.lead == 0)


@dataclass(frozen=True)
class Batch:
    """Some units. Unit u owns rows offsets[u]:offsets[u + 1]; every row is a unit when offsets is
    None.

    rows : (n, D) array or memory map, (n,) symbols, or a CSR matrix; in the user's units until a
        family prepares them
    repeats : (n,) how often each row counts, or None for once
    sets : (n,) which legal set restricts each row (index into the parameter "legal"; 0 allows every
        component), or None
    symbols : the batch's own vocabulary; rows then count positions in it. None for all symbols
    row_at, unit_at : where this part begins inside the batch it was cut from
    windows : what is known of units that are windows of longer sequences; repeats are then 0 in
        their buffers
    times : (S,) how often each unit counts, where repeats belong to its rows alone (words of
        documents); None for once
    """

    id: int
    rows: Any
    offsets: Array | None = None
    repeats: Array | None = None
    sets: Array | None = None
    symbols: Array | None = None
    row_at: int = 0
    unit_at: int = 0
    n_rows: int = -1
    windows: Windows | None = None
    times: Array | None = None

    def __post_init__(self) -> None:
        if self.n_rows < 0:
            object.__setattr__(self, "n_rows", int(self.rows.shape[0]))

    @property
    def n_spans(self) -> int:
        """Number of units, repeats not counted."""
        return self.n_rows if self.offsets is None else len(self.offsets) - 1

    @property
    def n_units(self) -> float:
        """Number of units; where these are rows, a repeated one counted as often as it repeats."""
        if self.times is not None:
            return float(self.times.sum())
        return self.n_observations if self.offsets is None else float(self.n_spans)

    @property
    def n_observations(self) -> float:
        """Number of rows, a repeated one counted as often as it repeats."""
        if self.times is not None and self.offsets is not None:
            return float(self.repeats_or_ones() @ np.repeat(self.times, np.diff(self.offsets)))
        return float(self.n_rows) if self.repeats is None else float(self.repeats.sum())

    @property
    def cut(self) -> dict[str, slice]:
        """Where warm-start fields of the batch keep this part."""
        return {
            "row": slice(self.row_at, self.row_at + self.n_rows),
            "unit": slice(self.unit_at, self.unit_at + self.n_spans),
        }

    def repeats_or_ones(self) -> Array:
        """(n,) repeats, ones when there are none."""
        return np.ones(self.n_rows) if self.repeats is None else self.repeats

    def alone(self) -> Batch:
        """The same part, as its own origin."""
        return self._with(
            self.rows,
            self.offsets,
            self.repeats,
            self.sets,
            0,
            0,
            self.n_rows,
            self.windows,
            self.times,
        )

    def with_rows(self, rows: Any) -> Batch:
        """The same part with its rows in another form (prepared by a family)."""
        at = self.row_at, self.unit_at, self.n_rows
        return self._with(
            rows, self.offsets, self.repeats, self.sets, *at, self.windows, self.times
        )

    def part(self, lo: int, hi: int) -> Batch:
        """Units lo..hi, as views where the rows allow it."""
        a, b = (lo, hi) if self.offsets is None else (int(self.offsets[lo]), int(self.offsets[hi]))
        offsets = None if self.offsets is None else self.offsets[lo : hi + 1] - a
        repeats = None if self.repeats is None else self.repeats[a:b]
        sets = None if self.sets is None else self.sets[a:b]
        windows = None if self.windows is None else self.windows.part(lo, hi)
        times = None if self.times is None else self.times[lo:hi]
        return self._with(
            self.rows[a:b],
            offsets,
            repeats,
            sets,
            self.row_at + a,
            self.unit_at + lo,
            b - a,
            windows,
            times,
        )

    def rows_between(self, begin: int, end: int) -> Batch:
        """Some rows of one unit, which the rest of it surrounds."""
        repeats = None if self.repeats is None else self.repeats[begin:end]
        sets = None if self.sets is None else self.sets[begin:end]
        offsets = np.array([0, end - begin])
        return self._with(
            self.rows[begin:end],
            offsets,
            repeats,
            sets,
            self.row_at + begin,
            self.unit_at,
            end - begin,
            None,
            None,
        )

    def _with(self, rows: Any, *rest: Any) -> Batch:
        """A part of this batch; spelled out because `replace` would be a tenth of a small block's
        time.
        """
        offsets, repeats, sets, row_at, unit_at, n_rows, windows, times = rest
        return Batch(
            self.id,
            rows,
            offsets,
            repeats,
            sets,
            self.symbols,
            row_at,
            unit_at,
            n_rows,
            windows,
            times,
        )

    def lanes(self, count: int | None = None) -> list[Batch]:
        """Nearly equal parts, as many as the rows are worth."""
        if count is None:
            count = self.n_rows // LANE_ROWS
            if self.offsets is not None:
                count = min(self.n_rows // ORDERED_ROWS, self.n_spans // LANE_UNITS)
                count -= count % 2 if count > 1 else 0  # two workers would wait for the third lane
            count = min(MAX_LANES, max(1, count))
        return (
            [self] if count == 1 else self._cut_near(np.linspace(0, self.n_rows, count + 1)[1:-1])
        )

    def blocks(self, max_rows: int) -> list[Batch]:
        """Parts of about max_rows rows, never splitting a unit."""
        return (
            [self]
            if self.n_rows <= max_rows
            else self._cut_near(np.arange(max_rows, self.n_rows, max_rows))
        )

    def _cut_near(self, targets: Array) -> list[Batch]:
        where = (
            targets.astype(int) if self.offsets is None else np.searchsorted(self.offsets, targets)
        )
        cuts = np.unique(np.r_[0, where, self.n_spans])
        return [self.part(int(lo), int(hi)) for lo, hi in pairwise(cuts)]
