"""Starts from posteriors of every unit: random ones, or those that collapsed sweeps lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Documents
from stickbreak.inference import Callback, CollapsedVB, Start, count_own, run
from stickbreak.protocols import Array, Pool

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_collapsed", "from_local"]


def from_local(
    model: Model,
    data: Documents,
    n_components: int,
    rng: np.random.Generator,
    *,
    legal: Array | None = None,
    pool: Pool = map,
) -> Start:
    """Random posteriors of all units, and their counts."""
    batch, params = data.whole(), model.start_params(n_components, legal)
    own = model.structure.random_own(batch, n_components, model.axis, rng)
    return Start(count_own(model, params, batch, own, pool), params, warm=own)


def from_collapsed(
    model: Model,
    data: Documents,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_sweeps: int,
    legal: Array | None = None,
    pool: Pool = map,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Where collapsed sweeps from random posteriors end."""
    start = from_local(model, data, n_components, rng, legal=legal, pool=pool)
    engine = CollapsedVB(max_iter=n_sweeps, callbacks=callbacks)
    found = run(replace(model, learns=False), engine, data, start, pool=pool)
    return Start(found.counts, found.params)
