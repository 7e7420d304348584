"""Checks, on some rows of every lap, how often rows use the wrong components."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Local, Potentials, Rule
from stickbreak.stats import Field, Summary

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["SparsityWatch", "count_missed"]

NAME = "candidates"
CHECKED = 1 / 64  # fraction of the rows; at a negligible cost
FIELDS = {name: Field(()) for name in ("checked", "missed")}


@dataclass(frozen=True)
class SparsityWatch:
    """Counts the checked rows, and those among them that should use other components.

    n_rows : checked rows of a lane, all in its first block: checking a few rows of every block
        would read all coefficients once for each block
    """

    name: str = NAME
    n_rows: int = 0

    def at(self, model: Model, counts: Summary, batch: Batch, rule: Rule) -> SparsityWatch:
        """The watch for one visit."""
        return replace(self, n_rows=max(1, round(batch.n_rows * CHECKED / len(batch.lanes()))))

    def empty_side(self, model: Model, potentials: Potentials) -> Summary:
        """Nothing checked."""
        return Summary(FIELDS, {name: np.zeros(()) for name in FIELDS})

    def observe(
        self,
        model: Model,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Add a block's numbers, if it is the first block of its lane."""
        if raw.row_at > 0:
            return side
        found = model.structure.n_missed(model.family.prepare, potentials, raw, local, self.n_rows)
        return replace(
            side,
            arrays={
                n: np.asarray(side[n] + number) for n, number in zip(FIELDS, found, strict=True)
            },
        )


def count_missed(visit: Summary) -> tuple[float, float]:
    """(checked, missed) rows of a visit; zeros if there was no watch."""
    side = visit.sides.get(NAME)
    return (0.0, 0.0) if side is None else (float(side["checked"]), float(side["missed"]))
