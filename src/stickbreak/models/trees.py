"""Trees of the units of a batch, lane by lane: for structures that have them."""

from __future__ import annotations

from functools import partial

import numpy as np

from stickbreak.data import Batch, Companion, join_companions
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL

from .base import Model, ModelPotentials
from .lanes import prepared

__all__ = ["parse_units", "share_parts"]


def parse_units(
    model: Model,
    potentials: ModelPotentials,
    batch: Batch,
    pool: Pool = SERIAL,
    uniforms: Array | None = None,
) -> tuple[Companion, Array]:
    """Best tree of each unit, or a drawn one, and the log (units,) of its weight."""
    job = partial(_parse_lane, model, potentials, uniforms)
    found, values = zip(*pool.map(job, model.lanes(batch)), strict=True)
    return join_companions(found), np.concatenate(values)


def share_parts(
    model: Model, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL
) -> Companion:
    """Posterior of the parts that a tree of each unit may have."""
    job = partial(_share_lane, model, potentials)
    return join_companions(list(pool.map(job, model.lanes(batch))))


def _parse_lane(
    model: Model, potentials: ModelPotentials, uniforms: Array | None, lane: Batch
) -> tuple[Companion, Array]:
    found = []
    for raw, block in prepared(model, potentials, lane):
        drawn = None if uniforms is None else uniforms[raw.cut["row"]]
        found.append(model.structure.parse(potentials, block, drawn))
    trees, values = zip(*found, strict=True)
    return join_companions(trees), np.concatenate(values)


def _share_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Companion:
    blocks = prepared(model, potentials, lane)
    return join_companions([model.structure.tree_shares(potentials, block) for _, block in blocks])
