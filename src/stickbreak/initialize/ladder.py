"""A start that looks for the number of components: collapsed sweeps with 8, 16, 32, ... of them.

Each rung takes a few sweeps and a few laps of variational Bayes, whose bound compares the rungs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Documents
from stickbreak.inference import BatchVB, Callback, Start, run
from stickbreak.protocols import Pool

from .local import from_collapsed, require_whole_run

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["LADDER_LAPS", "from_ladder"]

FIRST = 8  # components of the first rung
RUNG_SWEEPS, RUNG_LAPS = 20, 8
LADDER_LAPS = 6 * (RUNG_SWEEPS + RUNG_LAPS)  # of six rungs, as many as a ladder often has
# Finished fits of one number differ by as much or more, and after so few laps the rungs with more
# components are further from where they end: of those that are equal but for it, the largest.
EQUAL = 5e-4


def from_ladder(
    model: Model,
    data: Documents,
    most: int,
    rng: np.random.Generator,
    *,
    n_sweeps: int,
    pool: Pool = map,
    report: Callable[[int, float], None] | None = None,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Where collapsed sweeps end, with as many components as the bound likes best.

    most : number of components
    n_sweeps : of the rung that is chosen
    report : called with each rung's number of components and its bound
    callbacks : of every sweep and lap
    """
    seed, bounds = int(rng.integers(2**31)), dict[int, float]()

    def bound_of(n: int) -> float:
        n = max(1, min(n, most))
        if n not in bounds:
            bounds[n] = _measure(model, data, n, np.random.default_rng([seed, n]), pool, callbacks)
            if report is not None:
                report(n, bounds[n])
        return bounds[n]

    n = FIRST
    while bound_of(2 * n) > bound_of(n) and 2 * n < most:
        n *= 2
    while n > 1 and bound_of(n // 2) > bound_of(n):
        n //= 2
    best = max(bounds, key=bounds.__getitem__)
    bound_of(round(0.75 * best))
    bound_of(round(1.5 * best))
    top = max(bounds.values())
    best = max(n for n, bound in bounds.items() if bound >= top - EQUAL * abs(top))
    rng = np.random.default_rng([seed, best])
    return from_collapsed(model, data, best, rng, n_sweeps=n_sweeps, pool=pool, callbacks=callbacks)


def _measure(
    model: Model,
    data: Documents,
    n: int,
    rng: np.random.Generator,
    pool: Pool,
    callbacks: tuple[Callback, ...],
) -> float:
    """The bound of n components after some sweeps and laps."""
    start = from_collapsed(
        model, data, n, rng, n_sweeps=RUNG_SWEEPS, pool=pool, callbacks=callbacks
    )
    found = run(
        model, BatchVB(max_iter=RUNG_LAPS, moves=None, callbacks=callbacks), data, start, pool=pool
    )
    require_whole_run(found)
    return found.bound
