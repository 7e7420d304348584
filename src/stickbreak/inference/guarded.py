"""Stochastic collapsed inference of long sequences: fixed blocks that see each other's edges.

Each block is inferred under the posterior predictive of everything seen. The last posteriors of the
rows next to it, its guards, stand in for its neighbors' states [W16, 3.8; WB15]. Steps between
blocks are not counted; those within are scaled up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Pool, Watch
from stickbreak.stats import Field, Fields, Summary

from .rules import InWindows, LogMean
from .unit_sweeps import KeptShares

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .engine import Data
    from .state import Start

__all__ = ["GuardedLogMean", "WindowLogMean"]

KEPT = np.float32


@dataclass(frozen=True)
class WindowLogMean(InWindows, LogMean):
    """Posterior predictive, for windows of sequences that begin anywhere."""


@dataclass(frozen=True)
class GuardedLogMean(LogMean):
    """Posterior predictive, for blocks between the edges of their neighbors.

    length : rows of a block
    is_divided : whether the left guard has probabilities of steps; if not, counts, as published
    """

    length: int
    is_divided: bool = True

    def keeps(self, model: Model, batch: Batch, n_components: int) -> Fields | None:
        """Posteriors of the first and the last row of every block: unknown."""
        blocks = batch if batch.windows is not None else batch.in_blocks(self.length)
        edges = np.full((blocks.n_spans, 2, n_components), 1.0 / n_components, KEPT)
        return Fields({"edges": Field(("unit", None, model.axis))}, {"edges": edges})

    def begin(self, model: Model, data: Data, start: Start, pool: Pool) -> Start:
        """The start, with the edges of all blocks: those of its chains, or unknown ones."""
        batch = data.whole()
        kept = self.keeps(model, batch, start.seed.size(model.axis))
        assert kept is not None
        rows = None if start.warm is None else start.warm.arrays.get("rows")
        if rows is not None:
            offsets = batch.in_blocks(self.length).offsets
            assert offsets is not None
            _keep(kept["edges"], rows[offsets[:-1]], rows[offsets[1:] - 1])
        return replace(start, warm=kept)

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """Counts of some blocks, and their new edges; of a stream, those of whole sequences."""
        if batch.windows is None:
            return super().visit(model, counts, params, batch, None, watches, pool)
        assert warm is not None
        number, edges, K = batch.windows.number, warm["edges"], counts.size(model.axis)
        assert number is not None
        before = edges[number - 1, 1].astype(float)  # what the first one finds is not used
        if not self.is_divided:
            before *= model.prior.row_totals(counts, params)
        after = edges[(number + 1) % len(edges), 0].astype(float)
        batch = replace(batch, windows=batch.windows._replace(edges=(before, after)))
        watch = KeptShares(np.empty((batch.n_rows, K)))
        potentials = self.potentials(model, counts, params)
        found, _ = model.local_step(potentials, batch, None, (*watches, watch))
        own, offsets = Fields(warm.layout, {"edges": edges[number]}), batch.offsets
        assert offsets is not None
        first, last = offsets[:-1], offsets[1:] - 1
        _keep(own["edges"], watch.shares[first], watch.shares[last])
        sides = {name: side for name, side in found.sides.items() if name != watch.name}
        return replace(found, local_bound=0.0, sides=sides), own


def _keep(edges: Array, first: Array, last: Array) -> None:
    """Edges (S, 2, K) = weights (S, K) that sum to one; blocks that do not count keep theirs."""
    for i, weights in enumerate((first, last)):
        totals = weights.sum(1, keepdims=True)
        is_used = totals[:, 0] > 0
        edges[is_used, i] = (weights / np.where(totals > 0, totals, 1.0))[is_used]
