"""Potentials of a model: the prior's tables and the family's Scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from stickbreak.families.base import BaseScores
from stickbreak.kernels.rows import pairing
from stickbreak.protocols import Array
from stickbreak.stats import Summary

__all__ = ["ModelPotentials"]


@dataclass(frozen=True)
class ModelPotentials:
    """Log potentials of one step: the prior's tables by name, and the family's Scores.

    empty : zeros of the shape that a visit fills
    pairs_rows : whether scores are paired with shares row by row, because they are not linear in
        the counts
    """

    tables: Mapping[str, Any]
    scores: BaseScores
    empty: Summary
    log_legal: Array | None = None
    pairs_rows: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.tables[name]

    def pair_tables(self, counts: Mapping[str, Array]) -> float:
        """<potentials, counts> of the prior's tables."""
        return sum(
            float(pairing(np.ravel(w)[None], np.ravel(counts[n])[None]))
            for n, w in self.tables.items()
            if n in counts
        )

    def pair(self, counts: Mapping[str, Array]) -> float:
        """<potentials, counts> from the sums; also valid for completed entries."""
        return self.pair_tables(counts) + self.scores.pair(counts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles `empty` as shapes: zeros would travel to every worker at every visit."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "empty"}
        known, shapes = {}, {}
        for name, array in self.empty.arrays.items():
            if self.empty.layout[name].additive:
                shapes[name] = array.shape, array.dtype
            else:
                known[name] = array
        return _unpack, (values, replace(self.empty, arrays=known), tuple(self.empty), shapes)


def _unpack(
    values: dict[str, Any], rest: Summary, names: tuple[str, ...], shapes: dict[str, Any]
) -> ModelPotentials:
    arrays = {n: np.zeros(*shapes[n]) if n in shapes else rest[n] for n in names}
    return ModelPotentials(**values, empty=replace(rest, arrays=arrays))
