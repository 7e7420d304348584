"""What structures of trees share: counts and labels of one tree of each sentence, how often a
sentence counts, and sentences without a tree.
"""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.errors import NumericalError
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from .base import BaseStructure
from .evidence import one_hot

__all__ = ["ParsedUnits", "require_swept", "require_trees", "unit_times"]


class ParsedUnits(BaseStructure):
    """Units whose hidden part is a tree that `parse` finds or draws."""

    has_best = draws = has_trees = True

    def labels_in(self, trees: Companion, block: Batch) -> Array:
        """(n,) component of each row in given trees."""
        raise NotImplementedError

    def n_labels(self, potentials: Potentials) -> int:
        """How many components rows may have."""
        return len(potentials["root"])

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """Counts of the best tree of every unit."""
        return self._infer_one(potentials, block, None, out)

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """Counts of a drawn tree of every unit."""
        return self._infer_one(potentials, block, uniforms, out)

    def _infer_one(
        self, potentials: Potentials, block: Batch, uniforms: Array | None, out: Out
    ) -> Local:
        trees, log_z = self.parse(potentials, block, uniforms)
        self.count_trees(trees, block, out)
        shares = one_hot(self.labels_in(trees, block), self.n_labels(potentials), block)
        return Local(float(unit_times(block) @ log_z), shares)

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) component of each row in the best tree."""
        return self.labels_in(self.parse(potentials, block)[0], block)

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) component of each row in a drawn tree."""
        m = self.n_uniforms
        uniforms = rng.random(block.n_rows if m == 1 else (block.n_rows, m))
        return self.labels_in(self.parse(potentials, block, uniforms)[0], block)


def unit_times(block: Batch) -> Array:
    """(units,) how often each sentence counts: as its first row."""
    assert block.offsets is not None
    if block.repeats is None:
        return np.ones(block.n_spans)
    return np.ascontiguousarray(block.repeats[block.offsets[:-1]], dtype=float)


def require_trees(log_z: Array, block: Batch) -> None:
    """Raise NumericalError if a sentence has no possible tree."""
    bad = np.flatnonzero(~np.isfinite(log_z))
    if len(bad):
        why = "is not a number" if np.isnan(log_z[bad[0]]) else "is zero: no tree covers it"
        raise NumericalError(
            f"the likelihood of sentence {block.unit_at + bad[0]} {why}; check its labels and "
            "known brackets or heads, or leave it out"
        )


def require_swept(bad: int, batch: Batch) -> None:
    """Raise NumericalError if a sweep has come to a sentence without a tree, and not to -1."""
    if bad >= 0:
        require_trees(np.array([-np.inf]), batch.part(bad, bad + 1))
