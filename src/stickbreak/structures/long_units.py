"""One unit that is too long for memory, read in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stickbreak.data import Batch
from stickbreak.protocols import Array, Potentials

from .base import row_evidence

__all__ = ["LongUnit"]


class LongUnit:
    """A unit as given by the user, in pieces of n_rows. Evidence is computed on demand, not stored.

    bounds : first row of each piece, and the end
    piece, prepared : the last piece evaluated, as given and as prepared by the family
    """

    def __init__(
        self, prepare: Callable[[Any], Any], potentials: Potentials, raw: Batch, n_rows: int
    ) -> None:
        self.bounds = [*range(0, raw.n_rows, n_rows), raw.n_rows]
        self.potentials, self.raw, self._prepare = potentials, raw, prepare

    def evidence(self, begin: int, end: int) -> Array:
        """(K, end - begin) log evidence of some rows."""
        self.piece = self.raw.rows_between(begin, end)
        self.prepared = self.piece.with_rows(self._prepare(self.piece.rows))
        return row_evidence(self.potentials, self.prepared).T
