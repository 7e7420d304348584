"""A start with many components, where variational Bayes has settled: the better of two.

k-means in the prior's metric sees round clusters, and misses those that are stretched. Rows chosen
by k-means++ in the family's own metric, and a few noisy passes from there, find stretched ones, but
may leave two round ones together. Neither is always the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Sequences, Table
from stickbreak.inference import BaseMove, BatchVB, Result, Start, StochasticVB, run
from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL

from .local import require_whole_run
from .plusplus import from_plusplus

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_settled", "from_settled_part"]

_Job = tuple[Callable[[np.random.Generator], Start], np.random.Generator]

MOST_ROWS = 5_000  # of more, a sample settles
MOST_ORDERED = 20_000  # the same of sequences, if there are at least twice as many
N_COARSE = 10  # passes of k-means
N_NOISY, NOISY_ROWS = 3, 256  # stochastic passes, rows of a step
LAPS, TOL = 100, 1e-4  # until a start has settled
ROUND = 10  # laps after which starts are compared
# A start ends that needs more than so many times what the gains of its last laps add up to, if they
# go on to shrink at the same ratio.
PATIENCE = 5.0


def from_settled(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    moves: Sequence[BaseMove],
    pool: Pool = SERIAL,
) -> Start:
    """The better of two starts, settled on at most 5,000 rows, without superfluous components.

    moves : what follows there: merges
    """
    table = replace(data.some_rows(MOST_ROWS, rng), sets=None)
    fixed = replace(model, learns=False)
    n = max(1, min(n_components, table.n_rows))
    starts = [partial(_coarse, fixed, table, n), partial(_noisy, fixed, table, n)]
    found = _race(fixed, table, list(zip(starts, rng.spawn(2), strict=True)), pool.here)
    engine = BatchVB(moves=tuple(moves), max_iter=LAPS, tol=TOL)
    found = run(fixed, engine, table, _in_use(fixed, found), pool=pool.here)
    require_whole_run(found)
    start = _in_use(fixed, found)
    return replace(start, seed=start.seed.scale(data.n_units / table.n_units))


def from_settled_part(
    model: Model,
    data: Sequences,
    make: Callable[[Sequences], Start],
    rng: np.random.Generator,
    *,
    moves: Sequence[BaseMove],
    pool: Pool = SERIAL,
) -> Start:
    """A start that has settled on some of many sequences, without superfluous components.

    Merges that laps over all rows would watch are made there. What few rows do not show is left to
    births. Small data begin as `make` says.

    make : the start, of all sequences or some
    moves : what follows there: merges
    """
    if data.n_rows < 2 * MOST_ORDERED:
        return make(data)
    batch = data.sample(MOST_ORDERED, rng)
    some = Sequences(batch.rows, batch.repeats, offsets=batch.offsets)
    engine = BatchVB(moves=tuple(moves), max_iter=LAPS, tol=TOL)
    fixed = replace(model, learns=False)
    found = run(fixed, engine, some, make(some), pool=pool.here)
    require_whole_run(found)
    start = _in_use(fixed, found)
    return replace(start, seed=start.seed.scale(data.n_units / some.n_units))


def _in_use(model: Model, found: Result) -> Start:
    """The components that hold a row; the others would be merged at a loss, or stay."""
    sizes = np.asarray(model.prior.sizes(found.counts))
    keep = np.flatnonzero(sizes >= min(1.0, sizes.max())).tolist()
    return Start(found.counts.permute(model.axis, keep), found.params.permute(model.axis, keep))


def _race(model: Model, table: Table, jobs: Sequence[_Job], pool: Pool) -> Result:
    """The best of some starts, settled. The others end as soon as they are out of hope.

    They are compared after every few laps, so the result does not depend on which is faster.
    """
    makers = [partial(make, rng) for make, rng in jobs]
    fits = list(pool.map(partial(_settle, model, table, min(ROUND, LAPS)), makers))
    n_laps = ROUND
    while n_laps < LAPS:
        best = max(fit.bound for fit in fits)
        goes_on = [_may_reach(fit, best, LAPS - n_laps) for fit in fits]
        if not any(goes_on):
            break
        laps = min(ROUND, LAPS - n_laps)
        again = [partial(_as_start, fit) for fit, on in zip(fits, goes_on, strict=True) if on]
        later = iter(list(pool.map(partial(_settle, model, table, laps), again)))
        fits = [next(later) if on else fit for fit, on in zip(fits, goes_on, strict=True)]
        n_laps += laps
    return max(fits, key=lambda fit: fit.bound)


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


def _settle(model: Model, table: Table, n_laps: int, make: Callable[[], Start]) -> Result:
    """Laps of variational Bayes from a start."""
    found = run(model, BatchVB(moves=None, max_iter=n_laps, tol=TOL), table, make())
    require_whole_run(found)
    return found


def _coarse(model: Model, table: Table, n_components: int, rng: np.random.Generator) -> Start:
    if model.family.coarse() is model.family:
        return from_plusplus(model, table, n_components, rng)
    return from_plusplus(model, table, n_components, rng, n_passes=0, n_coarse=N_COARSE)


def _noisy(model: Model, table: Table, n_components: int, rng: np.random.Generator) -> Start:
    start = from_plusplus(model, table, n_components, rng, n_passes=0)
    engine = StochasticVB(batch_size=min(NOISY_ROWS, table.n_rows), max_iter=N_NOISY)
    found = run(model, engine, table, start, seed=int(rng.integers(2**31)))
    require_whole_run(found)
    return Start(found.counts, found.params)
