"""Sequences of rows, one after another, as the engines see them: units are whole sequences."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .batches import Batch, Companion, Windows, span_offsets, span_rows
from .picked_rows import PickedRows, are_many, pick_rows
from .table import Steps, Table

__all__ = ["Sequences", "span_rows"]

Array = npt.NDArray[Any]

BATCH_UNITS = 64
# average rows per sequence from which copying sequence by sequence is faster than row by row
LONG = 32
# default size of a step of stochastic inference: whichever limit is reached first
STEP_SEQUENCES, STEP_ROWS = 64, 8192
# steps of at least 8 sequences with 8,192 rows are taken to show all that there is
LARGE_SEQUENCES, LARGE_ROWS = 8, 32_768


def join_spans(values: Array, spans: list[tuple[int, int]]) -> Array:
    """Values of the spans, one after another; a single span is not copied."""
    parts = [values[begin:end] for begin, end in spans]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Sequences(Table):
    """Stacked rows (n, D); sequence s owns rows offsets[s]:offsets[s + 1], at least one.

    repeats (n,) : how often each sequence counts; the same for all rows of a sequence.
    companion : a second table for the same sequences, or None
    step_sequences : most sequences of a stochastic step, unless the engine says
    variational_step : sequences of a step of variational Bayes, if these should be others
    """

    offsets: Array | None = None
    companion: Companion | None = field(default=None, kw_only=True)
    step_sequences: int = field(default=STEP_SEQUENCES, kw_only=True)
    variational_step: int | None = field(default=None, kw_only=True)

    unit_name = "sequences"

    def __post_init__(self) -> None:
        assert self.offsets is not None
        if self.companion is not None and len(self.companion.offsets) != len(self.offsets):
            raise ValueError(
                f"the companion has {len(self.companion.offsets) - 1} units but there are "
                f"{self.n_spans}"
            )

    @property
    def n_spans(self) -> int:
        """Number of sequences, repeats not counted."""
        assert self.offsets is not None
        return len(self.offsets) - 1

    @property
    def n_units(self) -> float:
        """Number of sequences."""
        return float(self.n_spans)

    @property
    def step_size(self) -> int:
        """Default number of sequences in a stochastic step: 64, or fewer with about 8,192 rows.

        Larger steps tell little more; it is their number that a pass needs. Data whose model is
        large beside a step ask for more (`step_sequences`).
        """
        most = self.step_sequences * STEP_ROWS // STEP_SEQUENCES
        return max(1, min(self.step_sequences, round(most * self.n_spans / self.n_rows)))

    @property
    def steps(self) -> Steps:
        """Large ones where each sees many sequences and rows; careful ones elsewhere."""
        if self.variational_step is not None:
            return Steps(self.variational_step)
        mean = self.n_rows / self.n_spans
        size = min(STEP_SEQUENCES, round(LARGE_ROWS / mean))
        is_large = size >= LARGE_SEQUENCES and size * mean >= STEP_ROWS
        return Steps(size, 1.0, 80.0, 1.0) if is_large else super().steps

    def whole(self) -> Batch:
        """All sequences as one batch."""
        return Batch(0, self.rows, self.offsets, self.repeats, self.sets, companion=self.companion)

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Contiguous batches of whole sequences with nearly equal numbers of rows.

        "auto": about 20,000 rows and at least 64 sequences each, which are inferred side by side.
        """
        if n_batches == "auto":
            n_batches = max(
                1, min(round(self.n_rows / self.batch_rows), self.n_spans // BATCH_UNITS)
            )
        count = min(int(n_batches), self.n_spans)
        return [replace(part.alone(), id=i) for i, part in enumerate(self.whole().lanes(count))]

    def parts(self) -> list[Table]:
        """The batches as separate tables of sequences."""
        return [
            Sequences(b.rows, b.repeats, b.sets, b.offsets, companion=b.companion)
            for b in self.batches()
        ]

    def take(self, indices: Array, id: int = 0) -> Batch:
        """The sequences `indices`, in their order."""
        assert self.offsets is not None
        chosen = np.sort(indices)
        begins, ends = self.offsets[chosen], self.offsets[chosen + 1]
        values = self.rows, self.repeats, self.sets
        rows: Any
        repeats: Any = self.repeats
        if isinstance(self.rows, np.ndarray) and (ends - begins).sum() >= LONG * len(chosen):
            spans, offsets = (
                list(zip(begins.tolist(), ends.tolist(), strict=True)),
                span_offsets(begins, ends),
            )
            rows, repeats, sets = (None if v is None else join_spans(v, spans) for v in values)
        elif are_many(self.rows, int((ends - begins).sum())) and self._has_only_shards:
            offsets = span_offsets(begins, ends)
            rows = PickedRows.between(self.rows, begins, ends)
            repeats, sets = None if repeats is None else repeats.pick(rows), None
        else:
            at, offsets = span_rows(begins, ends)
            rows = pick_rows(self.rows, at)
            repeats, sets = (None if v is None else v[at] for v in values[1:])
        return Batch(id, rows, offsets, repeats, sets, companion=self._companion_of(chosen))

    @property
    def _has_only_shards(self) -> bool:
        """Whether nothing in memory belongs to the rows."""
        return self.sets is None and not isinstance(self.repeats, np.ndarray)

    def _companion_of(self, units: Array) -> Companion | None:
        """The companion of some sequences, one after another."""
        return None if self.companion is None else self.companion.take(units)

    def some_of(self, units: Array, size: int, rng: np.random.Generator) -> Batch:
        """Random ones of some sequences, of about `size` rows at most."""
        assert self.offsets is not None
        order = rng.permutation(units)
        reached = np.cumsum(np.diff(self.offsets)[order])
        return self.take(order[: max(1, int(np.searchsorted(reached, size, side="right")))])

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Random sequences with positive weight, at most `size` rows in total.

        Of a longer sequence, a window is taken; all of it if it has a companion, which cannot be
        cut.
        """
        assert self.offsets is not None
        counts = np.ones(self.n_spans) if self.repeats is None else self.repeats[self.offsets[:-1]]
        order = (
            rng.permutation(np.flatnonzero(counts > 0)) if counts.any() else np.arange(self.n_spans)
        )
        if self.n_rows <= size:
            return self.take(order)
        reached = np.cumsum(np.diff(self.offsets)[order])
        n_whole = int(np.searchsorted(reached, size, side="right"))
        if n_whole or self.companion is not None:
            return self.take(order[: max(1, n_whole)])
        unit = self.whole().part(int(order[0]), int(order[0]) + 1)
        begin = int(rng.integers(unit.n_rows - size + 1))
        return unit.rows_between(begin, begin + size).alone().loaded()

    def cut_windows(self, length: int, rng: np.random.Generator) -> Array:
        """(W, 2) begin and end of windows that cover every row once, cut every `length` rows.

        The first cut of a sequence falls after 1 to `length` rows, so that every pair of neighbors
        is cut with the same probability 1 / length. If no sequence is longer than `length`, all
        stay whole.
        """
        assert self.offsets is not None
        bounds, lengths = self.offsets, np.diff(self.offsets)
        if lengths.max() > length:
            shifts = rng.integers(1, length + 1, self.n_spans)
            cuts = [
                np.arange(a + o, b, length)
                for a, b, o in zip(self.offsets[:-1], self.offsets[1:], shifts, strict=True)
            ]
            bounds = np.unique(np.concatenate([self.offsets, *cuts]))
        return np.column_stack([bounds[:-1], bounds[1:]])

    def take_windows(self, bounds: Array, buffer: int, id: int = 0, **of_all: Any) -> Batch:
        """Windows (m, 2) of rows as units, with up to `buffer` uncounted rows on both sides.

        of_all : see Windows.
        """
        assert self.offsets is not None
        begins, ends = bounds[np.argsort(bounds[:, 0])].T
        unit = np.searchsorted(self.offsets, begins, side="right") - 1
        low, high = (
            np.maximum(self.offsets[unit], begins - buffer),
            np.minimum(self.offsets[unit + 1], ends + buffer),
        )
        at, offsets = span_rows(low, high)
        counts = (at >= np.repeat(begins, high - low)) & (at < np.repeat(ends, high - low))
        repeats = counts * (1.0 if self.repeats is None else self.repeats[at])
        windows = Windows(
            begins - low, high - ends, low == self.offsets[unit], n_sequences=self.n_spans, **of_all
        )
        return Batch(
            id,
            pick_rows(self.rows, at),
            offsets,
            repeats,
            None if self.sets is None else self.sets[at],
            windows=windows,
            companion=self._companion_of(unit),
        )

    def fingerprint(self) -> str:
        """A digest that identifies these data."""
        assert self.offsets is not None
        ends = np.ascontiguousarray(self.offsets, dtype=np.int64).tobytes()
        if self.companion is not None:
            rows = self.companion.rows.reshape(-1, math.prod(self.companion.rows.shape[1:]))
            ends += np.ascontiguousarray(self.companion.offsets, dtype=np.int64).tobytes()
            ends += Table(rows).fingerprint().encode()
        return hashlib.blake2b(super().fingerprint().encode() + ends, digest_size=16).hexdigest()
