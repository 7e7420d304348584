"""Trees whose symbols have hidden subtypes: a unit is a sentence, a component a subtype.

Fits are to given trees, which come as the companion of the batch, and shares of rows are those of
the subtypes of tags. Sentences without trees are parsed by charts over the listed rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.annotation.best import pick_skeletons
from stickbreak.kernels.annotation.draws import draw_skeletons
from stickbreak.kernels.annotation.skeletons import AnnotatedTables, infer_skeletons
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from ..tree_units import require_trees, unit_times
from .collapsed import exponentials, given_trees, has_underflown, tables_of
from .parsing import ParsedAnnotation

__all__ = ["Annotation"]

BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Annotation(ParsedAnnotation):
    """q(subtypes) of every given tree, H^3 a node.

    listing : the rules
    prune : posterior of a span's symbol, without subtypes, up to which charts leave it out
    """

    names_components = has_trees = has_best = draws = True
    n_uniforms = 3

    def unit_work(self, batch: Batch) -> Array | None:
        """(units,) the words of given trees; n^3 where trees are sought."""
        if batch.companion is not None:
            return None
        assert batch.offsets is not None
        n = np.diff(batch.offsets).astype(float)
        return 16.0 * n + n**3

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Expected counts by inside and outside sums over the given trees."""
        times = unit_times(block)
        log_z, rows = _infer(potentials, block, times, tables_of(out))
        require_trees(log_z, block)
        return Local(float(times @ log_z), np.asfortranarray(rows))

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """Counts of the best subtypes of every given tree."""
        times, found = unit_times(block), np.empty(block.n_spans)
        rows = np.zeros((block.n_rows, potentials["root"].shape[1]))
        pick_skeletons(
            tables_of(potentials), given_trees(block), block.offsets, times, tables_of(out), rows,
            found,
        )  # fmt: skip
        require_trees(found, block)
        return Local(float(times @ found), np.asfortranarray(rows))

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """Counts of drawn subtypes of every given tree; uniforms (n, 3)."""
        times, found = unit_times(block), np.empty(block.n_spans)
        rows = np.zeros((block.n_rows, potentials["root"].shape[1]))
        draw_skeletons(
            tables_of(potentials), given_trees(block), block.offsets, times,
            np.ascontiguousarray(uniforms), tables_of(out), rows, found,
        )  # fmt: skip
        require_trees(found, block)
        return Local(float(times @ found), np.asfortranarray(rows))

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) subtype of each tag, drawn given the trees."""
        once, uniforms = replace(block, repeats=None), rng.random((block.n_rows, self.n_uniforms))
        unused = dict(potentials.empty.empty().arrays)
        return np.asarray(self.infer_drawn(potentials, once, uniforms, unused).shares).argmax(1)

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) subtype of each tag in the best annotation of given trees."""
        once = replace(block, repeats=None)
        found = self.infer_best(potentials, once, None, dict(potentials.empty.empty().arrays))
        return np.asarray(found.shares).argmax(1)

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) logs of the sums over subtypes of given trees; else over all trees that pruning
        leaves.
        """
        if block.companion is None:
            return super().log_evidence(potentials, block)
        unused = tables_of(potentials.empty.empty().arrays)
        return _infer(potentials, block, np.ones(block.n_spans), unused)[0]

    def block_rows(self, width: int) -> int:
        """Many: tables of weights, made once a block, are larger than what rows take."""
        return BLOCK_ROWS

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Subtypes of tags say nothing of those of other nodes: rules that emit words only."""
        known = labels >= 0
        rules = given_trees(block)[known, 0]
        np.add.at(out["word_rule"], (rules, labels[known]), block.repeats_or_ones()[known])


def _infer(
    potentials: Potentials, block: Batch, times: Array, out: AnnotatedTables
) -> tuple[Array, Array]:
    """Log Z (units,) of given trees and posteriors (n, H) of tags, times how often they count."""
    log_z, logs = np.empty(block.n_spans), tables_of(potentials)
    rows = np.zeros((block.n_rows, logs.root.shape[1]))
    weights, nodes = exponentials(logs), given_trees(block)
    is_lossy = has_underflown(weights, logs)
    infer_skeletons(weights, logs, is_lossy, nodes, block.offsets, times, out, rows, log_z)
    return log_z, rows
