"""A table of rows, in memory or on disk, as the engines see it."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .batches import SHARD_LANE_ROWS, Batch
from .picked_rows import is_by_reference, pick_rows
from .shard_rows import shard_digests

__all__ = ["Steps", "Table", "compact", "is_on_disk", "is_sparse"]

Array = npt.NDArray[Any]

# default rows of a batch: large enough to hide the overhead of a visit, small enough for frequent
# updates
BATCH_ROWS = 20_000
SHARD_BATCH_LANES = 64  # lanes of a batch of shards: as many workers have work at a visit
STEP_ROWS = 1024  # default rows of a step of stochastic inference
HASH_BYTES = 1 << 28  # up to this size data are hashed whole, larger ones at evenly spaced places


def is_sparse(rows: Any) -> bool:
    """Whether rows are a scipy sparse matrix or array."""
    return bool(sparse.issparse(rows))


def is_on_disk(rows: Any) -> bool:
    """Whether an array is backed by a memory map, or read where it is used."""
    while rows is not None:
        if isinstance(rows, np.memmap | mmap.mmap) or is_by_reference(rows):
            return True
        rows = getattr(rows, "base", None)
    return False


class Steps(NamedTuple):
    """Steps of stochastic inference: units of each, and step sizes as in `inference.PowerDecay`."""

    size: int
    kappa: float = 0.6
    delay: float = 10.0
    first: float | None = None


@dataclass(frozen=True)
class Table:
    """Rows with their repeats and legal sets. rows (n, D), in memory or memory-mapped, or CSR."""

    rows: Any
    repeats: Array | None = None
    sets: Array | None = None

    unit_name: ClassVar[str] = "rows"

    @property
    def n_rows(self) -> int:
        """Number of rows, repeats not counted."""
        return int(self.rows.shape[0])

    @property
    def n_spans(self) -> int:
        """Number of units, repeats not counted; each row is one."""
        return self.n_rows

    @property
    def n_units(self) -> float:
        """Number of rows, repeats counted."""
        return self.n_observations

    @property
    def n_observations(self) -> float:
        """Number of rows, repeats counted; bounds and tolerances are per observation."""
        return float(self.n_rows) if self.repeats is None else float(self.repeats.sum())

    @property
    def batch_rows(self) -> int:
        """Rows of a batch, unless users say how many: of shards, enough for many workers."""
        return SHARD_BATCH_LANES * SHARD_LANE_ROWS if is_by_reference(self.rows) else BATCH_ROWS

    @property
    def step_size(self) -> int:
        """Default number of units in a step of stochastic inference."""
        return STEP_ROWS

    @property
    def steps(self) -> Steps:
        """Default steps of stochastic variational Bayes."""
        return Steps(self.step_size)

    def some(self, size: int, rng: np.random.Generator) -> Table:
        """Random units of about `size` rows in total that can stand for all; else all of them."""
        return self

    def whole(self) -> Batch:
        """All rows as one batch."""
        return Batch(0, self.rows, repeats=self.repeats, sets=self.sets)

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        """Contiguous batches of nearly equal size; "auto" aims at `batch_rows` rows each."""
        if n_batches == "auto":
            n_batches = max(1, round(self.n_rows / self.batch_rows))
        count = min(int(n_batches), self.n_rows)
        cuts = np.linspace(0, self.n_rows, count + 1).astype(int)
        whole = self.whole()
        parts = [whole.part(int(lo), int(hi)).alone() for lo, hi in pairwise(cuts)]
        return [compact(replace(part, id=i)) for i, part in enumerate(parts)]

    def in_order(self) -> Iterator[Batch]:
        """The batches one by one, for answers about their rows."""
        return iter(self.batches())

    def parts(self) -> list[Table]:
        """The batches as separate tables."""
        return [Table(batch.rows, batch.repeats, batch.sets) for batch in self.batches()]

    def take(self, indices: Array, id: int = 0) -> Batch:
        """The rows `indices`, in the order of the table."""
        at = np.sort(indices)
        repeats = None if self.repeats is None else self.repeats[at]
        return compact(
            Batch(
                id,
                pick_rows(self.rows, at),
                repeats=repeats,
                sets=None if self.sets is None else self.sets[at],
            )
        )

    def pick(self, indices: Array, id: int = 0) -> Batch:
        """As `take`, for units that are inferred lane by lane and may be most of them."""
        return self.take(indices, id)

    def some_of(self, units: Array, size: int, rng: np.random.Generator) -> Batch:
        """Random ones of some units, of about `size` rows at most."""
        return self.take(units if len(units) <= size else rng.choice(units, size, replace=False))

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """At most `size` rows with positive weight, drawn without replacement.

        Rows with a legal set of their own are well represented.
        """
        possible = None if self.repeats is None else np.flatnonzero(self.repeats > 0)
        n = self.n_rows if possible is None else len(possible)
        if n <= size:
            return self.take(np.arange(n) if possible is None else possible)
        drawn = rng.choice(n, size, replace=False)
        drawn = drawn if possible is None else possible[drawn]
        return self.take(
            drawn
            if self.sets is None
            else np.union1d(drawn[: size // 2], self._of_sets(size // 2, rng))
        )

    def some_rows(self, size: int, rng: np.random.Generator) -> Table:
        """At most `size` rows, drawn without replacement from those that count, as a table in
        memory.
        """
        if self.n_rows <= size and not is_on_disk(self.rows):
            return self
        at = np.arange(self.n_rows) if self.repeats is None else np.flatnonzero(self.repeats)
        if len(at) > size:
            at = np.sort(rng.choice(at, size, replace=False))
        repeats = None if self.repeats is None else self.repeats[at]
        rows: Any = self.rows[at]
        return Table(rows if is_sparse(rows) else np.array(rows), repeats)

    def _of_sets(self, size: int, rng: np.random.Generator) -> Array:
        """Up to `size` rows, spread evenly over the sets other than 0 (which allows all)."""
        assert self.sets is not None
        found = []
        counts = np.ones(self.n_rows) if self.repeats is None else self.repeats
        names = np.unique(self.sets[self.sets != 0])
        for name in names:
            rows = np.flatnonzero((self.sets == name) & (counts > 0))
            found.append(
                rng.choice(rows, min(len(rows), max(1, size // len(names))), replace=False)
            )
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def identity(self) -> dict[str, Any]:
        """The fingerprint, "data"; and "shards", which tell where it differs from another."""
        return {"data": self.fingerprint(), "shards": shard_digests(self.rows)}

    def fingerprint(self) -> str:
        """A digest that identifies these data; large tables are read at evenly spaced places."""
        digest = hashlib.blake2b(f"{self.rows.shape}{self.rows.dtype}".encode(), digest_size=16)
        for part in (self.repeats, self.sets):
            is_here = isinstance(part, np.ndarray)  # counts of shards are in the digests of these
            digest.update(np.ascontiguousarray(part).tobytes() if is_here else b"none")
        if is_by_reference(self.rows):
            digest.update(self.rows.fingerprint().encode())
            return digest.hexdigest()
        stored = (
            2 * self.rows.nnz // max(1, self.n_rows)
            if is_sparse(self.rows)
            else int(self.rows.shape[1])
        )
        row_bytes = max(1, self.rows.dtype.itemsize * stored)
        size = max(1, HASH_BYTES // 16 // row_bytes)
        starts = np.arange(0, self.n_rows, size)
        if len(starts) > 16 and self.n_rows * row_bytes > HASH_BYTES:
            starts = starts[np.linspace(0, len(starts) - 1, 16).astype(int)]
        for lo in starts:
            part = self.rows[lo : lo + size]
            if is_sparse(part):
                for piece in (part.indptr, part.indices, part.data):
                    digest.update(np.ascontiguousarray(piece).tobytes())
            else:
                digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


def compact(batch: Batch) -> Batch:
    """A sparse batch with its own vocabulary, so that its counts and potentials are small."""
    if not is_sparse(batch.rows) or batch.symbols is not None:
        return batch
    symbols = np.unique(batch.rows.indices)
    if 2 * len(symbols) > batch.rows.shape[1]:
        return batch  # most symbols occur: renumbering them would not pay
    renamed = np.searchsorted(symbols, batch.rows.indices)
    rows: Any = sparse.csr_array(
        (batch.rows.data, renamed, batch.rows.indptr), shape=(batch.rows.shape[0], len(symbols))
    )
    return replace(batch, rows=rows, symbols=symbols)
