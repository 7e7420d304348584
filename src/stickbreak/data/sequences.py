"""Sequences of rows, one after another, as the engines see them: units are whole sequences."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .batches import Batch
from .table import BATCH_ROWS, Table

__all__ = ["Sequences"]

Array = npt.NDArray[Any]

STEP_SEQUENCES = 64  # sequences of a step of stochastic inference when nobody says


@dataclass(frozen=True)
class Sequences(Table):
    """Stacked rows (n, D); sequence s owns rows offsets[s]:offsets[s + 1], at least one.

    repeats (n,) is the same for all rows of a sequence: a sequence counts as often as its weight says.
    """

    offsets: Array | None = None

    def __post_init__(self) -> None:
        assert self.offsets is not None

    @property
    def n_spans(self) -> int:
        """Sequences, repeats not counted."""
        assert self.offsets is not None
        return len(self.offsets) - 1

    @property
    def step_size(self) -> int:
        """Sequences of a step of stochastic inference when nobody says."""
        return STEP_SEQUENCES

    def whole(self) -> Batch:
        """Everything as one batch."""
        return Batch(0, self.rows, self.offsets, self.repeats, self.sets)

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Contiguous batches of whole sequences with nearly equal numbers of rows; "auto" aims at 20,000 rows each."""
        if n_batches == "auto":
            n_batches = max(1, round(self.n_rows / BATCH_ROWS))
        count = min(int(n_batches), self.n_spans)
        return [replace(part.alone(), id=i) for i, part in enumerate(self.whole().lanes(count))]

    def parts(self) -> list[Table]:
        """The batches, as sequences of their own."""
        return [Sequences(b.rows, b.repeats, b.sets, b.offsets) for b in self.batches()]

    def take(self, indices: Array, id: int = 0) -> Batch:
        """Some sequences, in their order."""
        assert self.offsets is not None
        chosen = np.sort(indices)
        begins, lengths = self.offsets[chosen], np.diff(self.offsets)[chosen]
        offsets = np.r_[0, np.cumsum(lengths)]
        at = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
        repeats, sets = (None if values is None else values[at] for values in (self.repeats, self.sets))
        return Batch(id, self.rows[at], offsets, repeats, sets)

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Random sequences that count, of about `size` rows in all, at least one."""
        assert self.offsets is not None
        counts = np.ones(self.n_spans) if self.repeats is None else self.repeats[self.offsets[:-1]]
        order = rng.permutation(np.flatnonzero(counts > 0)) if counts.any() else np.arange(self.n_spans)
        if self.n_rows <= size:
            return self.take(order)
        reached = np.cumsum(np.diff(self.offsets)[order])
        return self.take(order[: max(1, int(np.searchsorted(reached, size, side="right")))])

    def fingerprint(self) -> str:
        """A digest that tells these data from others."""
        assert self.offsets is not None
        ends = np.ascontiguousarray(self.offsets, dtype=np.int64).tobytes()
        return hashlib.blake2b(super().fingerprint().encode() + ends, digest_size=16).hexdigest()
