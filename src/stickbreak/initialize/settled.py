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
from .race import LAPS, TOL, race

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_settled", "from_settled_part"]

MOST_ROWS = 5_000  # of more, a sample settles
MOST_ORDERED = 20_000  # the same of sequences, if there are at least twice as many
N_COARSE = 10  # passes of k-means
N_NOISY, NOISY_ROWS = 3, 256  # stochastic passes, rows of a step


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
    makers = [partial(make, own) for make, own in zip(starts, rng.spawn(2), strict=True)]
    fits = race(fixed, table, makers, pool, settles=True)
    found = max(fits, key=lambda fit: fit.bound)
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
