"""How often the choice among candidates differs from the choice among all components: watched on some rows of every lap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Local, Potentials, Rule
from stickbreak.stats import Field, Summary

__all__ = ["CandidateWatch", "count_missed"]

NAME = "candidates"
FIELDS = {name: Field(()) for name in ("checked", "missed")}


@dataclass(frozen=True)
class CandidateWatch:
    """Counts the rows that were checked, and those among them that should use other components."""

    name: str = NAME

    def at(self, model: Any, counts: Summary, batch: Batch, rule: Rule) -> CandidateWatch:
        """The same for every visit."""
        return self

    def empty_side(self, model: Any, potentials: Potentials) -> Summary:
        """Nothing checked."""
        return Summary(FIELDS, {name: np.zeros(()) for name in FIELDS})

    def observe(self, model: Any, potentials: Potentials, block: Batch, raw: Batch, local: Local, side: Summary) -> Summary:
        """Add a block's numbers."""
        found = model.structure.n_missed(model, potentials, raw, local)
        return replace(side, arrays={n: side[n] + number for n, number in zip(FIELDS, found, strict=True)})


def count_missed(visit: Summary) -> tuple[float, float]:
    """Rows of a visit that were checked and missed; zeros where nobody watched."""
    side = visit.sides.get(NAME)
    return (0.0, 0.0) if side is None else (float(side["checked"]), float(side["missed"]))
