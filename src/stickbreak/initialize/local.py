"""Starts from posteriors of every unit: random ones, or those that collapsed sweeps lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch, Table
from stickbreak.inference import Callback, CollapsedVB, Start, count_own, run
from stickbreak.protocols import Array, Pool
from stickbreak.stats import Fields

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_collapsed", "from_local"]


def from_local(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    legal: Array | None = None,
    pool: Pool = map,
) -> Start:
    """Random posteriors of all units, and their counts.

    legal (S, K) : which components the rows of each set may have; None for all
    """
    batch, params = data.whole(), model.start_params(n_components, legal)
    own = model.structure.random_own(batch, n_components, model.axis, rng)
    if legal is not None and batch.sets is not None:
        _leave_out(own, batch, np.asarray(legal))
    return Start(count_own(model, params, batch, own, pool), params, warm=own)


def from_collapsed(
    model: Model,
    data: Table,
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


def _leave_out(own: Fields, batch: Batch, legal: Array) -> None:
    """Take the components that a row may not have out of its shares (n, K), in place."""
    assert batch.sets is not None
    shares = own["shares"]
    shares *= legal[batch.sets] > 0
    shares /= shares.sum(1, keepdims=True)
