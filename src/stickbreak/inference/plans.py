"""Which batches a lap visits, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from stickbreak.data import Batch, Sequences
from stickbreak.stats import Fields

from .engine import Data
from .random_streams import ORDER

__all__ = ["FixedBatches", "FixedWindows", "RandomBatches", "RandomWindows"]


@dataclass(frozen=True)
class FixedBatches:
    """The same batches each lap, in a random order that depends on seed and lap only."""

    batches: list[Batch]
    shuffle: bool = True

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return len(self.batches)

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All batches once."""
        if not self.shuffle or len(self.batches) == 1:
            return iter(self.batches)
        order = np.random.default_rng([seed, ORDER, lap]).permutation(len(self.batches))
        return (self.batches[i] for i in order)

    def fixed(self) -> list[Batch]:
        """All of them."""
        return self.batches

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Cut the values of all units into those of each batch."""
        if warm is None:
            return {}
        found: dict[int, Fields] = {}
        ends: dict[str, int] = {}
        for b in self.batches:
            sizes = {axis: part.stop - part.start for axis, part in b.cut.items()}
            begins = {axis: ends.get(axis, 0) for axis in sizes}
            ends = {axis: begins[axis] + size for axis, size in sizes.items()}
            found[b.id] = warm.cut(**{axis: slice(begins[axis], ends[axis]) for axis in sizes})
        return found


@dataclass(frozen=True)
class RandomBatches:
    """Units drawn without replacement: each lap is a fresh permutation, cut into batches."""

    data: Data
    batch_size: int

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""
        return max(1, round(self.data.n_spans / self.batch_size))

    def fixed(self) -> list[Batch]:
        """None: they are drawn."""
        return []

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Nothing: no batch is seen twice."""
        return {}

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All units once."""
        order = np.random.default_rng([seed, ORDER, lap]).permutation(self.data.n_spans)
        for i, part in enumerate(np.array_split(order, self.n_batches)):
            yield self.data.take(part, i)


@dataclass(frozen=True)
class RandomWindows:
    """Windows of sequences, drawn without replacement.

    Each lap cuts the sequences anew and distributes the pieces among batches.
    """

    data: Sequences
    length: int
    batch_size: int
    buffer: int
    edge_tol: float | None

    @property
    def n_batches(self) -> int:
        """Batches of a lap; approximate, because cuts at the ends of sequences vary."""
        return max(1, round(self.data.n_rows / (self.length * self.batch_size)))

    def fixed(self) -> list[Batch]:
        """None: they are drawn."""
        return []

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Nothing: no batch is seen twice."""
        return {}

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All rows once."""
        rng = np.random.default_rng([seed, ORDER, lap])
        bounds = self.data.cut_windows(self.length, rng)
        is_whole = len(bounds) == self.data.n_spans
        of_all = {
            "n_windows": len(bounds),
            "pair_share": 1.0 if is_whole else 1.0 - 1.0 / self.length,
            "edge_tol": self.edge_tol,
        }
        for i, part in enumerate(
            np.array_split(rng.permutation(len(bounds)), min(self.n_batches, len(bounds)))
        ):
            yield self.data.take_windows(bounds[part], self.buffer, i, **of_all)


@dataclass(frozen=True)
class FixedWindows:
    """Blocks of sequences, the same in every lap, drawn without replacement.

    What blocks keep is kept as values of one batch, number 0, that holds all of them.
    """

    data: Sequences
    length: int
    batch_size: int

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""
        return max(1, round(self._all().n_spans / self.batch_size))

    def _all(self) -> Batch:
        return self.data.whole().in_blocks(self.length)

    def fixed(self) -> list[Batch]:
        """One batch that holds all blocks."""
        return [self._all()]

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """All values, as those of the one batch."""
        return {} if warm is None else {0: warm}

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All blocks once."""
        blocks = self._all()
        assert blocks.offsets is not None
        assert blocks.windows is not None
        n, n_pairs = blocks.n_spans, blocks.n_rows - self.data.n_spans
        share = (blocks.n_rows - n) / n_pairs if n_pairs else 1.0
        bounds = np.column_stack([blocks.offsets[:-1], blocks.offsets[1:]])
        is_last = np.r_[blocks.windows.is_first[1:], True]
        order = np.random.default_rng([seed, ORDER, lap]).permutation(n)
        for part in np.array_split(order, self.n_batches):
            number = np.sort(part)
            batch = self.data.take_windows(bounds[number], 0, n_windows=n, pair_share=share)
            assert batch.windows is not None
            windows = batch.windows._replace(number=number, is_last=is_last[number])
            yield replace(batch, windows=windows)
