"""Any structure with its posterior replaced by one labelling drawn from it: Gibbs sampling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Potentials
from stickbreak.stats import Field, Fields

from .wrapped import Wrapped

__all__ = ["DrawOnly"]


@dataclass(frozen=True, eq=False)
class DrawOnly(Wrapped):
    """Wraps a structure; `infer` draws a labelling. Its random numbers, one a row, are made before
    the batch is cut into lanes.

    They travel as warm starts do, so that the draws are the same for any number of workers.
    """

    rng: np.random.Generator

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Uniform numbers (n,) in [0, 1)."""
        return Fields({"uniform": Field(("row",))}, {"uniform": self.rng.random(batch.n_rows)})

    def infer(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        """One labelling of every unit."""
        assert warm is not None
        _require_single(block)
        return self.inner.infer_drawn(potentials, block, warm["uniform"], out)

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
        """One labelling of a unit that is too long to hold."""
        assert warm is not None
        _require_single(raw)
        return self.inner.infer_drawn_pieces(model, potentials, raw, warm["uniform"], n_rows, out)


def _require_single(block: Batch) -> None:
    """Copies of a row have labels of their own: one draw cannot stand for several."""
    if block.repeats is None:
        return
    bad = np.flatnonzero((block.repeats != 0) & (block.repeats != 1))
    if len(bad):
        raise ValueError(
            "Gibbs draws one label for each row, so weights must be 0 or 1; got "
            f"{block.repeats[bad[0]]:g}: "
            "repeat such rows or sequences instead, or use a variational engine such as BatchVB"
        )
