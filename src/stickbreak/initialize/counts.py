"""Counts from labels, which turn every start into a seed for the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array
from stickbreak.stats import Summary, Tally

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["count_labels"]


def count_labels(
    model: Model, batch: Batch, labels: Array, n_components: int, like: Summary | None = None
) -> Summary:
    """Hard counts of a batch whose row i belongs to component labels[i]; -1 belongs to none.

    like : counts of as many components, whose reference points are kept, and which complete missing
        entries. Default: new reference points where they are needed, and the prior.
    """
    if like is not None:
        return _collect(model, batch, labels, like)
    total = Tally(_collect(model, batch, labels, model.zeros(n_components)))
    edits = model.upkeep(total.view())
    if edits:  # collect again, about better reference points
        empty = model.zeros(n_components)
        for edit in edits:
            empty = edit(empty)
        total = Tally(_collect(model, batch, labels, empty))
    return total.summary()


def _collect(model: Model, batch: Batch, labels: Array, like: Summary) -> Summary:
    n_components = like.size(model.axis)
    here = like.restrict(batch.symbols)
    empty, scores = here.empty(), model.family.mean_log(here)
    out = dict(empty.arrays)
    for block in model.blocks(batch, n_components):
        mine = labels[block.row_at : block.row_at + block.n_rows]
        known = np.flatnonzero(mine >= 0)
        shares = np.zeros((n_components, block.n_rows))
        shares[mine[known], known] = block.repeats_or_ones()[known]
        scores.collect(model.family.prepare(block.rows), shares.T, out)
        model.structure.count(mine, block, out)
    n_known = float(batch.repeats_or_ones()[labels >= 0].sum())
    # the units that these rows amount to
    n_units = batch.n_units * n_known / max(batch.n_observations, 1e-300)
    part = Summary(empty.layout, out, n_units=n_units, index=empty.index)
    return Tally(like.empty()).add(part).summary()
