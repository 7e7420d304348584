"""Starts compared by variational Bayes that goes on from each, until all but the best are out of
hope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stickbreak.data import Table, is_on_disk
from stickbreak.inference import BatchVB, Result, Start, run
from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL

from .local import require_whole_run

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["LAPS", "TOL", "race"]

LAPS, TOL = 100, 1e-4  # until a start has settled
ROUND = 10  # laps after which starts are compared
# A start ends that needs more than so many times what the gains of its last laps add up to, if they
# go on to shrink at the same ratio.
PATIENCE = 5.0


def race(
    model: Model,
    table: Table,
    makers: Sequence[Callable[[], Start]],
    pool: Pool,
    *,
    settles: bool,
) -> list[Result]:
    """Where some starts lead. Those end early that are out of hope.

    They are compared after every few laps, so the result does not depend on which is faster.

    settles : whether the best goes on until it has settled, when it is the only one left
    """
    fits = _settle_all(model, table, min(ROUND, LAPS), makers, pool)
    n_laps = ROUND
    while n_laps < LAPS:
        best = max(fit.bound for fit in fits)
        goes_on = [_may_reach(fit, best, LAPS - n_laps) for fit in fits]
        leads = [fit.bound == best for fit in fits]
        if not any(on and (settles or not first) for on, first in zip(goes_on, leads, strict=True)):
            break
        laps = min(ROUND, LAPS - n_laps)
        again = [partial(_as_start, fit) for fit, on in zip(fits, goes_on, strict=True) if on]
        later = iter(_settle_all(model, table, laps, again, pool))
        fits = [next(later) if on else fit for fit, on in zip(fits, goes_on, strict=True)]
        n_laps += laps
    return fits


def _may_reach(fit: Result, best: float, n_left: int) -> bool:
    """Whether a fit that has not converged could end above a bound, by its last three laps."""
    if fit.is_converged:
        return False
    first, second, last = fit.trace.bound[-3:]
    closed, before, n = last - second, second - first, float(n_left)
    if 0.0 <= closed < before:
        n = min(n, PATIENCE * closed / (before - closed))
    return bool(best - last <= closed * n)


def _as_start(fit: Result) -> Start:
    return Start(fit.counts, fit.params)


def _settle_all(
    model: Model, table: Table, n_laps: int, makers: Sequence[Callable[[], Start]], pool: Pool
) -> list[Result]:
    """Side by side in threads here; of rows on disk one after another, wherever these are read."""
    if is_on_disk(table.rows):
        return [_settle(model, table, n_laps, make, pool) for make in makers]
    return list(pool.here.map(partial(_settle, model, table, n_laps), makers))


def _settle(
    model: Model, table: Table, n_laps: int, make: Callable[[], Start], pool: Pool = SERIAL
) -> Result:
    """Laps of variational Bayes from a start."""
    engine = BatchVB(moves=None, max_iter=n_laps, tol=TOL)
    found = run(model, engine, table, make(), pool=pool)
    require_whole_run(found)
    return found
