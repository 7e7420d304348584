"""Little fits: a proposal takes shape on a few rows before it is tried on the whole data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stickbreak.data import Table, is_sparse
from stickbreak.inference import (
    BaseMove,
    BatchVB,
    Callback,
    CollapsedVB,
    Engine,
    LapRecord,
    Result,
    Start,
    run,
)
from stickbreak.inference.scene import Sample, Scene
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL, Fields, Summary

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = [
    "Goal",
    "absorber",
    "little_fit",
    "nearest",
    "overrated",
    "rows_of",
    "side_by_side",
    "thin",
]

WORTH = 0.1  # a row joins the little fit of components that hold at least this share of it


def side_by_side(parts: Sequence[Summary], axis: str) -> Summary:
    """All components of the parts in succession; fields without the axis come from the first."""
    arrays = {
        n: np.concatenate([part[n] for part in parts], axis=f.axes.index(axis))
        if axis in f.axes
        else parts[0][n]
        for n, f in parts[0].layout.items()
    }
    return replace(parts[0], arrays=arrays, sides={})


def nearest(scene: Scene, target: int, count: int) -> tuple[int, ...]:
    """Up to `count` components nearest to the target, by the divergence of their means."""
    free = [k for k in range(len(scene.ids)) if k != target and k not in scene.protected]
    if not free or count == 0:
        return ()
    if len(free) <= count:
        return tuple(free)
    apart = _divergence(scene, target)
    return tuple(sorted(free, key=lambda k: float(apart[k]))[:count])


def absorber(scene: Scene, target: int, among: Sequence[int]) -> int:
    """The component nearest to the target among some others."""
    apart = _divergence(scene, target)
    return min(among, key=lambda k: float(apart[k]))


def _divergence(scene: Scene, target: int) -> Array:
    """(K,) from the mean of the target to those of all components."""
    means = scene.model.family.smoothed_mean(scene.total)
    own = {n: a[target : target + 1] for n, a in means.items()}
    return np.asarray(scene.model.family.bregman(own, means)[0])


def rows_of(model: Model, sample: Sample, slots: Sequence[int]) -> Table | None:
    """Rows of a sample that belong to some components, weighted as in the whole data.

    None if there are fewer than two.
    """
    mass = sample.mass(slots)
    rows = np.flatnonzero(mass > WORTH * sample.batch.repeats_or_ones())
    if len(rows) < 2:
        return None
    found: Any = sample.batch.rows[rows]
    if is_sparse(found) and sample.batch.symbols is not None:  # a vocabulary of its own
        columns = sample.batch.symbols[found.indices]
        shape = (len(rows), model.family.n_columns)
        found = sparse.csr_array((found.data, columns, found.indptr), shape=shape)
    elif sample.batch.symbols is not None:
        found = np.where(found >= 0, sample.batch.symbols[found], found)
    return Table(found, mass[rows] * sample.scale)


def thin(table: Table, size: int, rng: np.random.Generator) -> tuple[Table, float]:
    """At most `size` rows that stand for all, and how many each of them stands for."""
    if table.n_rows <= size:
        return table, 1.0
    some, scale = table.some_rows(size, rng), table.n_rows / size
    assert some.repeats is not None
    return Table(some.rows, some.repeats * scale), scale


def overrated(model: Model, scale: float) -> float:
    """Nats by which a sample overrates each component.

    Its rows count `scale` times, and so does what fits by chance: half a nat for each number that
    describes a component, and each further copy of the sample.
    """
    zeros, fields = model.family.zeros(1), model.family.fields(model.axis)
    n_numbers = sum(zeros[name].size for name, declared in fields.items() if declared.additive)
    return 0.5 * max(scale - 1.0, 0.0) * n_numbers


class Goal(Callback):
    """Ends a little fit that will not reach a bound at its present rate.

    wanted : the bound to reach with n_free components; each further one must bring `price` more
    patience : factor on an extrapolation. If each pass closes less of the gap than the one before,
        at a constant ratio, all later passes together close closed ** 2 / (before - closed). A fit
        that needs more than `patience` times that is ended
    least_closed : part of the first pass's gap that the second has to close
    """

    def __init__(
        self,
        wanted: float = -np.inf,
        *,
        n_free: int = 0,
        price: float = 0.0,
        patience: float = np.inf,
        least_closed: float = 0.0,
    ) -> None:
        self.wanted, self.n_free, self.price, self.patience = wanted, n_free, price, patience
        self.least_closed = least_closed
        self.max_iter, self.last, self.closed = 0, -np.inf, np.inf

    def on_lap(self, record: LapRecord) -> None:
        """End the fit if there is no hope."""
        assert record.bound is not None
        if self.is_hopeless(record.lap, record.bound, record.n_components):
            raise StopIteration

    def is_hopeless(self, lap: int, bound: float, n_components: int) -> bool:
        """Compare the remaining gap with what the last pass closed."""
        reached = bound - self.price * max(0, n_components - self.n_free)
        gap, closed, before = self.wanted - reached, reached - self.last, self.closed
        self.last, self.closed = reached, closed
        if self.least_closed > 0.0 and lap == 2 and closed < self.least_closed * (gap + closed):
            return True
        n_left = float(self.max_iter - lap)
        if 0.0 <= closed < before < np.inf:
            n_left = min(n_left, self.patience * closed / (before - closed))
        return lap > 3 and gap > closed * n_left


def little_fit(
    model: Model,
    data: Any,
    counts: Summary,
    max_iter: int,
    *,
    goal: Goal | None = None,
    moves: Sequence[BaseMove] = (),
    params: Fields | None = None,
    own: Fields | None = None,
    reorder: bool = False,
    pool: Pool = SERIAL,
) -> Result:
    """The model fitted to some data from given counts.

    params : parameters to begin with; default: those of no counts
    own : own counts of units: the fit is then collapsed
    reorder : sort by bound; only if component identity is irrelevant
    pool : for data that are not few rows
    """
    goal = Goal() if goal is None else goal
    goal.max_iter = max_iter
    engine: Engine = BatchVB(moves=moves) if own is None else CollapsedVB()
    engine = replace(engine, max_iter=max_iter, tol=1e-5, reorder=reorder, callbacks=(goal,))
    start = Start(counts, params or model.start_params(counts.size(model.axis)), warm=own)
    found = run(replace(model, learns=False), engine, data, start, pool=pool)
    if found.ended_by is not None:  # it ends the fit that this one is a part of, too
        raise found.ended_by
    return found
