"""Any structure with its posterior replaced by the best single labelling: hard EM and Bregman
k-means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Potentials
from stickbreak.stats import Fields

from .wrapped import Wrapped

__all__ = ["BestOnly"]


@dataclass(frozen=True)
class BestOnly(Wrapped):
    """Wraps a structure; `infer` takes its best labelling. The entropy of the labels is then zero
    by itself.
    """

    def infer(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        """Best labelling of every unit."""
        return self.inner.infer_best(potentials, block, warm, out)

    infer_best = infer

    def infer_pieces(
        self,
        model: Any,
        potentials: Potentials,
        raw: Batch,
        warm: Fields | None,
        n_rows: int,
        out: dict[str, Array],
    ) -> Iterable[tuple[Batch, Batch, Local]]:
        """Best labelling of one unit that is too long to hold."""
        return self.inner.infer_best_pieces(model, potentials, raw, n_rows, out)

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """The best labelling of every unit, which need not be the best component of every row."""
        return self.inner.best(potentials, block)
