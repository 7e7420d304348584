"""What a merge move wants collected during a lap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Local
from stickbreak.stats import Field, Summary


@dataclass(frozen=True)
class MergeWatch:
    """For each of the pairs (M, 2): the change of the local bound, corrections for two at once,
    merged values of tracked fields.
    """

    pairs: tuple[tuple[int, int], ...]
    name: str = "merge"

    def at(self, model: Any, counts: Summary, batch: Batch, rule: Any) -> MergeWatch:
        return self

    def empty_side(self, model: Any, potentials: Any) -> Summary:
        tracked = [n for n, f in model.layout().items() if f.merge == "tracked"]
        layout = {n: Field(("pair",), nonnegative=False) for n in ("gain", *tracked)}
        layout["cross"] = Field(("pair", "pair"), nonnegative=False)
        return Summary(
            layout, {n: np.zeros((len(self.pairs),) * len(f.axes)) for n, f in layout.items()}
        )

    def observe(
        self, model: Any, potentials: Any, block: Batch, raw: Batch, local: Local, side: Summary
    ) -> Summary:
        model.structure.merge_terms(
            potentials, block, local, np.array(self.pairs), dict(side.arrays)
        )
        return side
