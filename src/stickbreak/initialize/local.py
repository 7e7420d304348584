"""Starts from posteriors of every unit: random ones, or those that collapsed sweeps lead to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Table, is_on_disk
from stickbreak.inference import (
    Callback,
    CollapsedVB,
    ExcludeOwn,
    Result,
    Start,
    count_own,
    run,
)
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL

if TYPE_CHECKING:
    from stickbreak.models import Model

MOST_SHARES = 1 << 27  # kept by the words of a collapsed start: half a gigabyte
MOST_DISK_SHARES = 1 << 24  # the same of documents on disk

__all__ = ["from_collapsed", "from_local", "require_whole_run", "sweep_on"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Unmeasured(CollapsedVB):
    """Sweeps without the bound, which a start does not need; an interrupted one is no start."""

    def rule(self) -> ExcludeOwn:
        """Predictives given all other units."""
        return ExcludeOwn(is_measured=False, keeps_last=False)


def from_local(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    legal: Array | None = None,
    pool: Pool = SERIAL,
) -> Start:
    """Random posteriors of all units, and their counts: a start for every engine.

    Engines that keep other values of units, or none, begin with the counts alone.
    """
    batch, params = data.whole(), model.start_params(n_components, legal)
    own = model.structure.random_own(batch, n_components, model.axis, rng, legal)
    return Start(count_own(model, params, batch, own, pool), params, warm=own)


def from_collapsed(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_sweeps: int,
    legal: Array | None = None,
    pool: Pool = SERIAL,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Where collapsed sweeps from random posteriors end, for counts and units alike.

    Units keep a number for each row and component: of many documents, a sample is swept, and its
    counts are scaled to all.
    """
    n_units, n_spans = data.n_units, data.n_spans
    most = MOST_DISK_SHARES if is_on_disk(data.rows) else MOST_SHARES
    data = data.some(most // n_components, rng)
    start = from_local(model, data, n_components, rng, legal=legal, pool=pool)
    start = sweep_on(model, data, start, n_sweeps, pool, callbacks)
    seed = start.seed.scale(n_units / data.n_units)
    return replace(start, seed=seed, warm=start.warm if data.n_spans == n_spans else None)


def sweep_on(
    model: Model,
    data: Table,
    start: Start,
    n_sweeps: int,
    pool: Pool,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Where collapsed sweeps from a start end."""
    engine = _Unmeasured(max_iter=n_sweeps, callbacks=callbacks)
    fixed = replace(model, learns=False, prior=model.prior.held())
    found = run(fixed, engine, data, start, pool=pool)
    require_whole_run(found)
    own = found.warm()
    warm = None if own is None else model.structure.warm_of(data.whole(), own, model.axis)
    return Start(found.counts, found.params, warm=warm)


def require_whole_run(found: Result) -> None:
    """Raise what ended a start early, Ctrl-C for one: what is left of it is no fit."""
    if found.ended_by is not None:
        raise found.ended_by
