"""Collapsed variational inference: each unit is inferred from the counts of all others.

Parameters are integrated out, and a unit's own counts are removed before its potentials, the
posterior predictives, are made. Structures with a compiled sweep do so word by word, row by row or
sequence by sequence, and keep each unit's own counts; for others the unit is the batch. With draws
in the place of expectations, the same sweeps are a collapsed Gibbs sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Array, Pool, Sweep, SweptLane, Watch
from stickbreak.stats import SERIAL, Fields, Summary, Tally

from .rules import BaseRule, LogMean
from .unit_sweeps import sweep_units

if TYPE_CHECKING:
    from stickbreak.models import Model, ModelPotentials

    from .engine import Data
    from .state import Start

__all__ = ["ExcludeOwn", "IncludeOwn", "count_own", "own_given_others"]

# Each lane copies the counts and does not see what others change. Copies for two lanes, and sums of
# what they changed, took a third of the time of 270,000 words. Shards, which are for many workers,
# may have more than MAX_LANES.
SWEEP_ROWS, MAX_LANES = 1 << 18, 8
CHUNK = 1 << 12  # rows of posteriors that are compared at a time


@dataclass(frozen=True)
class ExcludeOwn(BaseRule):
    """Posterior predictive given all other units.

    Its bound is the variational one at the posteriors found: valid, but not what sweeps maximize,
    so it may fall. `log_z` of a lap is the sum of leave-one-out log predictives.

    is_measured : whether the bound is wanted
    keeps_last : whether the own counts of the last visit survive this one, as a fit needs that can
        be interrupted and keeps its result; if not, they are not copied
    n_sweeps : of one visit
    """

    granularity: str = "auto"
    is_measured: bool = True
    keeps_last: bool = True
    n_sweeps: int = 1
    block: int = 1
    subchain_length: int = 100
    guards: str = "messages"

    continues = is_predictive = True
    monitor = "leave-one-out log predictive"

    @property
    def objective(self) -> str:
        """The bound on the log evidence, unless it is not wanted."""
        return "bound" if self.is_measured else ""

    def pick(self, table: Any) -> Callable[..., Any]:
        """`log_mean` of a family or table."""
        return table.log_mean

    def potentials(self, model: Model, counts: Summary, params: Fields) -> ModelPotentials:
        """Predictives; what they pay each row is paired row by row where sums do not tell it."""
        found = super().potentials(model, counts, params)
        is_linear = np.isfinite(found.scores.pair(found.empty.arrays))
        return found if is_linear else replace(found, pairs_rows=True)

    def keeps(self, model: Model, batch: Batch, n_components: int) -> Fields | None:
        """Own counts of every unit, for structures that sweep."""
        if not self.sweeps(model):
            return super().keeps(model, batch, n_components)
        granularity = self._granularity(model)
        return model.structure.own_counts(batch, n_components, model.axis, granularity)

    def begin(self, model: Model, data: Data, start: Start, pool: Pool) -> Start:
        """The start, with own counts of this granularity."""
        usual = replace(self, granularity="auto") if self.sweeps(model) else self
        start = BaseRule.begin(usual, model, data, start, pool)
        granularity = self._granularity(model) if self.sweeps(model) else ""
        if start.warm is None or granularity == model.structure.granularities[0]:
            return start
        batch = self.units(data.whole())
        own = model.structure.own_of(batch, start.warm, model.axis, granularity)
        K = start.seed.size(model.axis)
        counts = self.count(model, start.params, batch, own, pool, K)
        return replace(start, seed=counts, warm=own)

    def others(self, model: Model, counts: Summary, old: Summary | None) -> Summary:
        """The counts without the batch's own; sweeps remove them unit by unit instead."""
        return counts if old is None or self.sweeps(model) else counts - old

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """Counts of one batch. A lane sees its own changes at once, those of others afterwards."""
        if not self.sweeps(model):
            return super().visit(model, counts, params, batch, warm, watches, pool)
        how = self._how(model, batch, warm is not None)
        own = warm.copy() if warm is not None and self.keeps_last else warm
        if own is None:
            own = self.keeps(model, batch, counts.size(model.axis))
            assert own is not None
        found = _sweep(model, counts, params, batch, own, how, pool)
        for _ in range(self.n_sweeps - 1):
            now = self._how(model, batch, True)
            found = _sweep(model, counts + found, params, batch, own, now, pool)
        self.check(found)
        return found, own

    def seen_once(self, model: Model) -> ExcludeOwn:
        """The rule with all the sweeps of a unit in its one visit, given what was seen before."""
        return replace(self, n_sweeps=model.structure.n_sweeps)

    def moved(self, model: Model, old: Fields | None, new: Fields | None) -> float | None:
        """Half the change of the rows' posteriors, where sweeps may linger."""
        if not model.structure.lingers or not self.sweeps(model):
            return super().moved(model, old, new)
        assert new is not None
        if old is None:
            return float(len(new["rows"]))
        return _distance(old["rows"], new["rows"])

    def _how(self, model: Model, batch: Batch, is_part: bool) -> Sweep:
        """How a batch is swept."""
        return Sweep(
            self._granularity(model),
            is_part,
            is_measured=self.is_measured,
            block=self.block,
            guards=self.guards,
        )

    def count(
        self,
        model: Model,
        params: Fields,
        batch: Batch,
        own: Fields,
        pool: Pool,
        n_components: int | None = None,
    ) -> Summary:
        """Counts of a batch whose units have these own counts.

        n_components : if these do not tell it
        """
        n = model.n_held(own) if n_components is None else n_components
        empty = model.zeros(n).restrict(batch.symbols)
        how = Sweep(self._granularity(model), is_part=False, moves=False)
        return _sweep(model, empty, params, batch, own, how, pool)

    def units(self, batch: Batch) -> Batch:
        """The batch, with what is inferred at a time as its units."""
        if self.granularity != "subsequence":
            return batch
        return batch.in_blocks(self.subchain_length)

    def sweeps(self, model: Model) -> bool:
        """Whether single units are excluded; if not, whole batches."""
        return self.granularity != "batch" and (model.sweeps or model.structure.loops)

    def _granularity(self, model: Model) -> str:
        """The structure's own, unless one is asked for."""
        return model.structure.granularities[0] if self.granularity == "auto" else self.granularity

    def check(self, found: Summary) -> None:
        """Raise NumericalError if the predictives or the local bound are not finite."""
        super().check(found)
        if not math.isfinite(found.log_z):
            raise NumericalError(
                f"the log predictive is {found.log_z} (not a number, or a row without a legal "
                "component); check the data's scale and the family's prior"
            )

    def learn(self, model: Model, total: Summary) -> Model:
        """The model with a learned base of symbols, which sweeps count for."""
        return model.learn(total) if model.family.learns_collapsed else model

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The variational bound at the posteriors of the sweep."""
        return float(model.bound(total, params)) if self.is_measured else None


@dataclass(frozen=True)
class IncludeOwn(LogMean):
    """Posterior predictive given all units, those of the batch included: stochastic inference.

    Units with values of their own, like a document's shares, are swept some times from a cold start
    while the counts stay as they are.
    """

    is_predictive = True

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """Counts of one batch after its sweeps, or after the local step if one is enough."""
        n_sweeps = model.structure.n_sweeps
        if not model.sweeps or n_sweeps == 1:
            return super().visit(model, counts, params, batch, warm, watches, pool)
        granularity = model.structure.granularities[0]
        own = model.structure.own_counts(batch, counts.size(model.axis), model.axis)
        how = Sweep(granularity, is_part=False, is_measured=False)
        for _ in range(n_sweeps):
            found = _sweep(model, counts, params, batch, own, how, pool)
        return found, None


def _sweep(
    model: Model,
    counts: Summary,
    params: Fields,
    batch: Batch,
    own: Fields,
    how: Sweep,
    pool: Pool = SERIAL,
) -> Summary:
    """Counts of a batch after one sweep; its units' own counts are changed in place."""
    # neighbors among windows see each other
    most = batch.n_rows if batch.is_by_reference else MAX_LANES
    parts = [batch] if batch.windows is not None else model.lanes(batch, SWEEP_ROWS, most)
    is_known = how.is_part and counts.n_units == batch.n_units  # no other batch has counts
    if is_known and how.seeds is None and model.sweeps and model.structure.sweeps_in_place:
        how = how._replace(in_place=True)
    jobs = [(lane.alone(), own.cut(**lane.cut), how.cut(lane)) for lane in parts]
    job = _sweep_lane if model.sweeps else partial(sweep_units, ExcludeOwn())
    found = list(pool.map(partial(job, model, counts, params), jobs))
    is_whole = len(jobs) == 1 and found[0][0].index is counts.index  # nothing to add up
    if is_whole:
        total = Tally.taking(found[0][0])
    else:
        total = Tally.taking(_before(model, counts) if how.in_place else counts.empty())
        for summary, _ in found:
            total.add(summary)
    for (_, mine, _), (_, swept) in zip(jobs, found, strict=True):
        for name, array in swept.arrays.items():
            if array is not mine[name]:  # it comes from another process
                mine[name][...] = array
    if how.in_place:
        for name in model.family.fields(model.axis):
            np.maximum(total.view()[name], 0.0, out=total.view()[name])  # differences are rounded
    return total.summary()


def _before(model: Model, counts: Summary) -> Summary:
    """What lanes change by their sweeps: the family's counts. All others are collected anew."""
    kept = {name: np.array(counts[name]) for name in model.family.fields(model.axis)}
    empty = counts.empty()
    return replace(empty, arrays={**empty.arrays, **kept})


def _sweep_lane(
    model: Model,
    counts: Summary,
    params: Fields,
    job: tuple[Batch, Fields, Sweep],
) -> tuple[Summary, Fields]:
    """One lane, on its own copy of the counts. Its units' own counts are changed in place.

    The family's counts are those of the lane; of one of several lanes that sweep in place, by how
    much they change.
    """
    lane, own, how = job
    lane = lane.with_rows(model.family.live_rows(lane.rows))
    symbols = None if counts.index is not None else model.family.own_symbols(lane.rows, counts)
    if symbols is not None:  # copies of a large table would take as long as the sweep
        place = np.full(symbols[-1] + 2, -1) if len(symbols) else np.array([-1])
        place[symbols] = np.arange(len(symbols))  # the last entry, -1, is for missing ones
        counts, lane = counts.restrict(symbols), lane.with_rows(place[lane.rows])
    K, family, live = counts.size(model.axis), model.family, model.family.live(counts)
    names = model.prior.fields(model.axis)
    tables = {name: counts[name].copy() for name in names}
    out = {name: np.zeros_like(counts[name]) for name in names}
    fresh = live if how.in_place else family.live_sums(counts.empty())
    legal = params["legal"] if "legal" in params.arrays else None
    pseudo = model.prior.pseudo(params, K)
    log_z, local_bound = model.structure.sweep(
        SweptLane(lane, how, legal, own, live, tables, pseudo, fresh, out)
    )
    swept = family.settle(fresh, K)
    if family.learns_collapsed:
        used = lane.repeats_or_ones() > 0
        swept |= family.absences(np.where(used[:, None], lane.rows, -1), own["rows"], K)
    if how.in_place and (symbols is not None or lane.n_units != counts.n_units):
        for name, array in swept.items():
            array -= counts[name]
    found = replace(counts, arrays={**out, **swept}, local_bound=local_bound, log_z=log_z, sides={})
    return replace(found, n_units=lane.n_units), own


def own_given_others(
    model: Model, counts: Summary, params: Fields, batch: Batch, pool: Pool
) -> Fields:
    """Own counts of units that nothing is remembered of, as if given all others.

    What they have in the counts is taken to be what these say of them; without it they are inferred
    once more.
    """
    rule = ExcludeOwn(is_measured=False, keeps_last=False)
    own: Fields | None = None
    for _ in range(2):
        _, own = rule.visit(model, counts, params, batch, own, (), pool)
    assert own is not None
    return own


def _distance(old: Array, new: Array) -> float:
    """Sum over rows of the total variation distance of their posteriors (n, K)."""
    parts = range(0, len(new), CHUNK)
    sums = [np.abs(new[lo : lo + CHUNK] - old[lo : lo + CHUNK]).sum(dtype=float) for lo in parts]
    return 0.5 * float(sum(sums))


def count_own(
    model: Model,
    params: Fields,
    batch: Batch,
    own: Fields,
    pool: Pool,
    n_components: int | None = None,
) -> Summary:
    """Counts of a batch whose units have these own counts, of the structure's usual kind."""
    return ExcludeOwn().count(model, params, batch, own, pool, n_components)
