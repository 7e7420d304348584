"""Batches, lanes and blocks of units, cut by the data alone, never by the number of workers.

A batch is what one visit sees. A lane is the unit of parallel work and of ordered summation. A
block bounds memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .picked_rows import is_by_reference, load_rows

__all__ = [
    "LANE_ROWS",
    "MAX_LANES",
    "Batch",
    "Companion",
    "Windows",
    "join_companions",
    "span_offsets",
    "span_rows",
]

Array = npt.NDArray[Any]

LANE_ROWS = 8192  # smaller lanes do not pay: each costs about 0.1 ms of Python
# the same for sequences, whose lanes cost 0.3 ms, partly while other lanes wait
ORDERED_ROWS = 49_152
LANE_UNITS = 32  # sequences are inferred side by side, so a lane with few of them is slow
MAX_LANES = 16  # limits the number of useful workers in a batch
# Sequences of so many rows on average are inferred one by one, in pieces: each may be a lane.
LONG_ROWS, MAX_LONG_LANES = 32_768, 64
SHARD_LANE_ROWS = 65_536  # rows by reference, whose lanes may travel: each costs milliseconds then


def span_offsets(begins: Array, ends: Array) -> Array:
    """(S + 1,) offsets of the spans begins[s]:ends[s] when placed one after another."""
    offsets = np.zeros(len(begins) + 1, dtype=np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    return offsets


def span_rows(begins: Array, ends: Array) -> tuple[Array, Array]:
    """All positions in the spans begins[s]:ends[s], and offsets (S + 1,) of the spans in them."""
    offsets = span_offsets(begins, ends)
    return np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], ends - begins), offsets


class Windows(NamedTuple):
    """Units that are windows of longer sequences, with buffers around them.

    Rows in a buffer are read but do not count.

    lead, trail (S,) : buffer rows before and after each window
    is_first (S,) : whether the unit starts where its sequence starts
    n_windows, n_sequences : windows that all data were cut into, and sequences
    pair_share : average fraction of all pairs of neighboring rows that lie inside such windows
    edge_tol : use only as much of the buffers as is needed for the window's edges to change by less
        than this; None: use all
    number (S,) : which of all windows each is, if they are the same in every lap; None if not
    is_last (S,) : whether the unit ends where its sequence ends
    edges : weights (S, K) of the states before each window and of those after it, which stand in
        for buffers; None if there are none
    """

    lead: Array
    trail: Array
    is_first: Array
    n_windows: int
    n_sequences: int
    pair_share: float
    edge_tol: float | None = None
    number: Array | None = None
    is_last: Array | None = None
    edges: tuple[Array, Array] | None = None

    def part(self, lo: int, hi: int) -> Windows:
        """The windows of units lo:hi."""
        return self._replace(
            lead=self.lead[lo:hi],
            trail=self.trail[lo:hi],
            is_first=self.is_first[lo:hi],
            number=None if self.number is None else self.number[lo:hi],
            is_last=None if self.is_last is None else self.is_last[lo:hi],
            edges=None if self.edges is None else (self.edges[0][lo:hi], self.edges[1][lo:hi]),
        )

    @property
    def has_start(self) -> Array:
        """(S,) whether the window itself holds the first row of its sequence."""
        return self.is_first & (self.lead == 0)


class Companion(NamedTuple):
    """A second table for the same units; unit u owns rows offsets[u]:offsets[u + 1] of it.

    The other language of a bitext, the bracketing of a sentence. Only the structure reads it.

    rows (m, ...) : any array
    offsets (S + 1,) : starts at 0
    links : for bitexts, what a lexicon says of every row of a unit with each of its companion's
        rows, and with none; see `Lexicon.link`. None if it is looked up when it is needed
    link_offsets (S + 1,) : the links of each unit; starts at 0
    row_at, link_at : where this part starts inside the batch it was cut from
    """

    rows: Array
    offsets: Array
    links: Array | None = None
    link_offsets: Array | None = None
    row_at: int = 0
    link_at: int = 0

    def of(self, unit: int) -> Array:
        """The rows of one unit."""
        return self.rows[self.offsets[unit] : self.offsets[unit + 1]]

    def part(self, lo: int, hi: int) -> Companion:
        """The companion of units lo:hi, as a view."""
        a, b = int(self.offsets[lo]), int(self.offsets[hi])
        part = Companion(self.rows[a:b], self.offsets[lo : hi + 1] - a, row_at=self.row_at + a)
        if self.link_offsets is None:
            return part
        begin, end = int(self.link_offsets[lo]), int(self.link_offsets[hi])
        return part._replace(
            links=None if self.links is None else self.links[begin:end],
            link_offsets=self.link_offsets[lo : hi + 1] - begin,
            link_at=self.link_at + begin,
        )

    def linked(self, offsets: Array, links: Array | None = None) -> Companion:
        """The same with room for links: a row of a unit has one to each row here, and to none.

        offsets (S + 1,) : rows of the units, each of which has offsets[u + 1] - offsets[u]
        """
        sizes = (np.diff(self.offsets) + 1) * np.diff(offsets)
        return self._replace(links=links, link_offsets=np.r_[0, np.cumsum(sizes)])

    def take(self, units: Array) -> Companion:
        """The companion of some units, one after another."""
        at, offsets = span_rows(self.offsets[units], self.offsets[units + 1])
        taken = Companion(self.rows[at], offsets)
        if self.link_offsets is None:
            return taken
        at, offsets = span_rows(self.link_offsets[units], self.link_offsets[units + 1])
        links = None if self.links is None else self.links[at]
        return taken._replace(links=links, link_offsets=offsets)

    @property
    def cut(self) -> dict[str, slice]:
        """Slices of this part in the batch's warm-start fields."""
        slices = {"companion": slice(self.row_at, self.row_at + len(self.rows))}
        if self.link_offsets is not None:
            slices["link"] = slice(self.link_at, self.link_at + int(self.link_offsets[-1]))
        return slices


def join_companions(parts: Sequence[Companion]) -> Companion:
    """The companions of several batches, one after another."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    return Companion(np.concatenate([part.rows for part in parts]), np.r_[0, np.cumsum(sizes)])


@dataclass(frozen=True)
class Batch:
    """Some units; unit u owns rows offsets[u]:offsets[u + 1]. Without offsets each row is a unit.

    rows : (n, D) array or memory map, (n,) symbols, or a CSR matrix; in the user's units until a
        family prepares them
    repeats : (n,) how often each row counts; None for once
    sets : (n,) legal set of each row (index into the parameter "legal"; 0 allows every component),
        or None
    symbols : the batch's own vocabulary; rows are then positions in it. None for all symbols
    row_at, unit_at : where this part starts inside the batch it was cut from
    windows : facts about units that are windows of longer sequences; repeats are 0 in their buffers
    times : (S,) how often each unit counts, if repeats are those of rows (words of documents);
        None for once
    companion : a second table for the same units, or None
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
    companion: Companion | None = None

    def __post_init__(self) -> None:
        if self.n_rows < 0:
            object.__setattr__(self, "n_rows", int(self.rows.shape[0]))

    @property
    def n_spans(self) -> int:
        """Number of units, repeats not counted."""
        return self.n_rows if self.offsets is None else len(self.offsets) - 1

    @property
    def n_units(self) -> float:
        """Number of units; if units are rows, each counts as often as it repeats."""
        if self.times is not None:
            return float(self.times.sum())
        return self.n_observations if self.offsets is None else float(self.n_spans)

    @property
    def n_observations(self) -> float:
        """Number of rows; each counts as often as it repeats."""
        if self.times is not None and self.offsets is not None:
            return float(self.repeats_or_ones() @ np.repeat(self.times, np.diff(self.offsets)))
        return float(self.n_rows) if self.repeats is None else float(self.repeats.sum())

    @property
    def cut(self) -> dict[str, slice]:
        """Slices of this part in the batch's warm-start fields."""
        return {
            "row": slice(self.row_at, self.row_at + self.n_rows),
            "unit": slice(self.unit_at, self.unit_at + self.n_spans),
            **({} if self.companion is None else self.companion.cut),
        }

    @property
    def is_by_reference(self) -> bool:
        """Whether rows are read where they are used."""
        return is_by_reference(self.rows)

    def loaded(self) -> Batch:
        """The same part with its rows, and counts of words, in memory, or mapped."""
        if not self.is_by_reference:
            return self
        repeats = None if self.repeats is None else np.asarray(self.repeats)
        return self._with(rows=load_rows(self.rows), repeats=repeats)

    def repeats_or_ones(self) -> Array:
        """(n,) repeats, or ones if there are none."""
        return np.ones(self.n_rows) if self.repeats is None else self.repeats

    def alone(self) -> Batch:
        """The same part as a batch of its own."""
        companion = None if self.companion is None else self.companion._replace(row_at=0, link_at=0)
        return self._with(row_at=0, unit_at=0, companion=companion)

    def with_rows(self, rows: Any) -> Batch:
        """The same part with its rows in another form (prepared by a family)."""
        return self._with(rows=rows)

    def part(self, lo: int, hi: int) -> Batch:
        """Units lo:hi, as views where the rows allow it."""
        a, b = (lo, hi) if self.offsets is None else (int(self.offsets[lo]), int(self.offsets[hi]))
        return self._with(
            offsets=None if self.offsets is None else self.offsets[lo : hi + 1] - a,
            unit_at=self.unit_at + lo,
            windows=None if self.windows is None else self.windows.part(lo, hi),
            times=None if self.times is None else self.times[lo:hi],
            companion=None if self.companion is None else self.companion.part(lo, hi),
            **self._rows_at(a, b),
        )

    def rows_between(self, begin: int, end: int) -> Batch:
        """Rows begin:end of a batch that holds a single unit, with the whole of its companion."""
        cut = self._rows_at(begin, end)
        return self._with(offsets=np.array([0, end - begin]), windows=None, times=None, **cut)

    def in_blocks(self, length: int) -> Batch:
        """The same rows, with blocks of `length` rows of each unit (the last may be shorter) as
        units; `windows.is_first` marks those at the start of a unit.
        """
        assert self.offsets is not None
        starts, counts = self.offsets[:-1], -(-np.diff(self.offsets) // length)
        ends = np.r_[0, np.cumsum(counts)]
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
        bounds = np.r_[np.repeat(starts, counts) + length * within, self.n_rows]
        none = np.zeros(len(within), dtype=np.int64)
        windows = Windows(none, none, within == 0, len(within), self.n_spans, pair_share=1.0)
        return self._with(offsets=bounds, windows=windows, companion=None)

    def _rows_at(self, begin: int, end: int) -> dict[str, Any]:
        """Rows begin:end and what belongs to them."""
        return {
            "rows": self.rows[begin:end],
            "repeats": None if self.repeats is None else self.repeats[begin:end],
            "sets": None if self.sets is None else self.sets[begin:end],
            "row_at": self.row_at + begin,
            "n_rows": end - begin,
        }

    def _with(self, **changed: Any) -> Batch:
        """The batch with some values changed.

        Not by `replace`, which would take a tenth of the time of a small block.
        """
        part = object.__new__(Batch)
        part.__dict__.update(self.__dict__, **changed)
        return part

    def lanes(self, count: int | None = None, work: Array | None = None) -> list[Batch]:
        """Nearly equal parts; by default as many as pay for this number of rows.

        work (units,) : what each unit costs, in rows, if that is not their number
        """
        if work is not None:
            return self._lanes_by_work(count, work)
        if count is None and self.is_by_reference:
            return self._lanes_of_files()
        if count is None:
            count = min(MAX_LANES, max(1, self._n_lanes()))
            if self.offsets is not None and self.n_rows >= LONG_ROWS * max(1, self.n_spans):
                count = min(MAX_LONG_LANES, self.n_spans)
        return (
            [self] if count == 1 else self._cut_near(np.linspace(0, self.n_rows, count + 1)[1:-1])
        )

    def _lanes_of_files(self, done: Array | None = None) -> list[Batch]:
        """Nearly equal parts of each file, of about 65,536 rows, however many.

        done (units,) : work up to the end of each unit, in rows, if that is not their number
        """
        ends = np.r_[0, self.rows.cuts, self.n_rows]
        if done is not None:
            at = ends if self.offsets is None else np.searchsorted(self.offsets, ends)
            ends = np.r_[0, done][at]
        targets = [
            np.linspace(lo, hi, 1 + max(1, round((hi - lo) / SHARD_LANE_ROWS)))[1:]
            for lo, hi in pairwise(ends.tolist())
        ]
        inner = np.concatenate(targets)[:-1]
        return (
            self._cut_near(inner)
            if done is None
            else self._cut_at(np.searchsorted(done, inner, "right"))
        )

    def _n_lanes(self) -> int:
        if self.offsets is None:
            return self.n_rows // LANE_ROWS
        count = min(self.n_rows // ORDERED_ROWS, self.n_spans // LANE_UNITS)
        # with two workers, one would wait for the third lane
        return count - (count % 2 if count > 1 else 0)

    def _lanes_by_work(self, count: int | None, work: Array) -> list[Batch]:
        done = np.cumsum(work)
        if count is None and self.is_by_reference:
            return self._lanes_of_files(done)
        if count is None:
            count = min(MAX_LANES, max(1, int(done[-1]) // ORDERED_ROWS))
            count -= count % 2 if count > 1 else 0
        if count == 1:
            return [self]
        where = np.searchsorted(done, np.linspace(0, done[-1], count + 1)[1:-1])
        return self._cut_at(where)

    def blocks(self, max_rows: int) -> list[Batch]:
        """Parts of about max_rows rows; units are never split."""
        return (
            [self]
            if self.n_rows <= max_rows
            else self._cut_near(np.arange(max_rows, self.n_rows, max_rows))
        )

    def _cut_near(self, targets: Array) -> list[Batch]:
        where = (
            targets.astype(int) if self.offsets is None else np.searchsorted(self.offsets, targets)
        )
        return self._cut_at(where)

    def _cut_at(self, units: Array) -> list[Batch]:
        cuts = np.unique(np.r_[0, units, self.n_spans])
        return [self.part(int(lo), int(hi)) for lo, hi in pairwise(cuts)]
