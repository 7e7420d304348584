"""A start that looks for the number of components: collapsed sweeps with 16, 32, 64, ... of them.

Each rung is the start that a fit with its number would have, after a few laps of variational Bayes,
whose bound compares the rungs. So the fit goes on from the rung that is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Documents
from stickbreak.inference import BatchVB, Callback, Start, run
from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL

from .local import from_collapsed, require_whole_run

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["N_RUNGS", "RUNG_LAPS", "from_ladder"]

FIRST = 16  # components of the first rung
RUNG_LAPS = 8
N_RUNGS = 5  # as many as a ladder often has
# Two starts of one number differ by as much (AP, 64 topics: 0.2 %), and after so few laps the rungs
# with more components are further from where they end: of those that are equal but for it, the
# largest.
EQUAL = 2e-3


def from_ladder(
    model: Model,
    data: Documents,
    most: int,
    rng: np.random.Generator,
    *,
    n_sweeps: int,
    pool: Pool = SERIAL,
    report: Callable[[int, float], None] | None = None,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Where collapsed sweeps and some laps end, with as many components as the bound likes best.

    most : number of components
    n_sweeps : of each rung
    report : called with each rung's number of components and its bound
    callbacks : of every sweep and lap
    """
    seed, bounds, starts = int(rng.integers(2**31)), dict[int, float](), dict[int, Start]()

    def bound_of(n: int) -> float:
        n = max(1, min(n, most))
        if n not in bounds:
            rng = np.random.default_rng([seed, n])
            start = from_collapsed(
                model, data, n, rng, n_sweeps=n_sweeps, pool=pool, callbacks=callbacks
            )
            bounds[n], starts[n] = _measure(model, data, start, pool, callbacks)
            if report is not None:
                report(n, bounds[n])
        return bounds[n]

    n = FIRST
    while bound_of(2 * n) > bound_of(n) and 2 * n < most:
        n *= 2
    while n > 1 and bound_of(n // 2) > bound_of(n):
        n //= 2
    top = max(bounds.values())
    return starts[max(n for n, bound in bounds.items() if bound >= top - EQUAL * abs(top))]


def _measure(
    model: Model, data: Documents, start: Start, pool: Pool, callbacks: tuple[Callback, ...]
) -> tuple[float, Start]:
    """The bound after some laps, and where they end."""
    engine = BatchVB(max_iter=RUNG_LAPS, moves=None, callbacks=callbacks)
    found = run(model, engine, data, start, pool=pool)
    require_whole_run(found)
    return found.bound, Start(found.counts, found.params, warm=found.warm())
