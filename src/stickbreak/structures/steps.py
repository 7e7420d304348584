"""Local steps: which posterior of its units a visit takes. A model holds one of these values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Local, Out, Potentials
from stickbreak.stats import Field, Fields

if TYPE_CHECKING:
    from .base import BaseStructure

__all__ = ["Best", "Drawn", "Expected", "LocalStep"]


@dataclass(frozen=True)
class Expected:
    """The posterior itself: variational Bayes, EM."""

    def start(self, structure: BaseStructure, batch: Batch, n: int, axis: str) -> Fields | None:
        """Values per unit to start from, for n components."""
        return structure.cold_start(batch, n, axis)

    def infer(
        self,
        structure: BaseStructure,
        potentials: Potentials,
        block: Batch,
        warm: Fields | None,
        out: Out,
    ) -> Local:
        """Infer the units of a prepared block; adds the prior's counts to `out`."""
        return structure.infer(potentials, block, warm, out)


@dataclass(frozen=True)
class Best(Expected):
    """The best single labelling, whose entropy is zero: hard EM, Bregman k-means."""

    def infer(
        self,
        structure: BaseStructure,
        potentials: Potentials,
        block: Batch,
        warm: Fields | None,
        out: Out,
    ) -> Local:
        """As `Expected.infer`, for the best labelling of every unit."""
        return structure.infer_best(potentials, block, warm, out)


@dataclass(frozen=True, eq=False)
class Drawn(Expected):
    """One labelling drawn from the posterior: Gibbs sampling.

    Its random numbers, one a row, are made before the batch is cut into lanes and travel as warm
    starts do. So the draws are the same for any number of workers.
    """

    rng: np.random.Generator

    def start(self, structure: BaseStructure, batch: Batch, n: int, axis: str) -> Fields:
        """Uniform numbers (n,) in [0, 1)."""
        uniforms = self.rng.random(batch.n_rows)
        return Fields({"uniform": Field(("row",))}, {"uniform": uniforms})

    def infer(
        self,
        structure: BaseStructure,
        potentials: Potentials,
        block: Batch,
        warm: Fields | None,
        out: Out,
    ) -> Local:
        """As `Expected.infer`, for one drawn labelling of every unit."""
        return structure.infer_drawn(potentials, block, self.uniforms(block, warm), out)

    def uniforms(self, block: Batch, warm: Fields | None) -> np.ndarray:
        """Random numbers of a block's rows. Copies of a row would need labels of their own."""
        assert warm is not None
        repeats = block.repeats_or_ones()
        bad = np.flatnonzero((repeats != 0) & (repeats != 1))
        if len(bad):
            raise ValueError(
                "Gibbs draws one label for each row, so weights must be 0 or 1; got "
                f"{repeats[bad[0]]:g}: repeat such rows or sequences instead, or use a "
                "variational engine such as BatchVB"
            )
        return warm["uniform"]


LocalStep = Expected | Best | Drawn
