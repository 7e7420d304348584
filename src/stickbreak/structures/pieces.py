"""One sequence that is too long to hold, a piece at a time."""

from __future__ import annotations

from typing import Any

from stickbreak.data import Batch
from stickbreak.protocols import Array, Potentials

from .independent import judge

__all__ = ["Pieces"]


class Pieces:
    """`raw`, one sequence as the user gave it, n_rows at a time: evidence when it is asked for,
    never held together.

    bounds : where pieces begin, and the end. piece, prepared : the one looked at last, as given and
        as the family reads it.
    """

    def __init__(self, model: Any, potentials: Potentials, raw: Batch, n_rows: int) -> None:
        self.bounds = [*range(0, raw.n_rows, n_rows), raw.n_rows]
        self._model, self._potentials, self._raw = model, potentials, raw

    def evidence(self, begin: int, end: int) -> Array:
        """(K, end - begin) of some rows."""
        self.piece = self._raw.rows_between(begin, end)
        self.prepared = self.piece.with_rows(self._model.family.prepare(self.piece.rows))
        return judge(self._potentials, self.prepared).T
