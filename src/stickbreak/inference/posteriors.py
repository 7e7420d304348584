"""Posteriors of all units, as far as trials need them.

A trial infers the units again that hold something of what it changes. All others keep their
posteriors, with zeros for newborns, and their counts are part of the trial's total. These are what
is left when the counts of the touched units, inferred once more as they were, are taken away.

Units that were inferred under the same potentials are a layer. An accepted trial makes a layer of
the units that it touched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stickbreak.data import Batch
from stickbreak.protocols import Array, Pool
from stickbreak.stats import NOTHING, Edit, Fields, Regroup, Summary, Tally, join

from .rules import MeanLog

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .engine import Data

__all__ = ["Inferred", "Layer", "Outcome", "OwnCounts", "Part", "Posteriors", "infer"]

RULE = MeanLog()
LEAST_ROWS = 20_000  # of a batch of a trial, whatever those of the fit are


@dataclass(frozen=True)
class Inferred:
    """Some units after a pass: their counts, the values that they keep, and what they hold.

    held (units, K) : rows of each component, sparse
    """

    counts: Summary
    warm: Fields | None
    held: Any


def infer(
    model: Model,
    total: Summary,
    params: Fields,
    batches: Sequence[Batch],
    warm: Fields | None,
    pool: Pool,
) -> Inferred:
    """All units of some batches under the potentials of `total`; warm : values to start from."""
    sums, kept, held, at = Tally(total.empty()), [], [], 0
    shared = None  # potentials of batches that hold all symbols
    for batch in batches:
        own = None if warm is None else warm.cut(unit=slice(at, at + batch.n_spans))
        at += batch.n_spans
        if batch.symbols is not None:
            potentials = RULE.potentials(model, total.restrict(batch.symbols), params)
        else:
            shared = potentials = shared or RULE.potentials(model, total, params)
        found, values = model.held_step(potentials, batch, own, pool)
        RULE.check(found)
        assert values is not None
        sums.add(found)
        held.append(sparse.csr_array(np.where(values["held"] > NOTHING, values["held"], 0.0)))
        layout = {name: field for name, field in values.layout.items() if name != "held"}
        if layout:
            kept.append(Fields(layout, {name: values[name] for name in layout}))
    if not held:
        return Inferred(sums.summary(), None, sparse.csc_array((0, total.size(model.axis))))
    holds = sparse.csc_array(sparse.vstack(held))
    return Inferred(sums.summary(), join(kept) if kept else None, holds)


@dataclass(frozen=True)
class Layer:
    """Units that were inferred under the same potentials.

    Units leave it, and components change, with every trial. Sums are brought up to date at once;
    values of units, as large as the data, only when they are asked for.

    units (S,) : their numbers in the data, sorted
    total, params : what the potentials were made of
    first : values that all units of the pass started from; None if cold
    found : what the pass found in all its units
    tables : the prior's potentials of these units now, see `BaseStructure.regroup`
    counts : of these units now, the edits done
    at (S,) : their places among the units of the pass; None for all
    edits, hows : what has happened to the components since, in counts and in values
    """

    units: Array
    total: Summary
    params: Fields
    first: Fields | None
    found: Inferred
    tables: Mapping[str, Any]
    counts: Summary
    at: Array | None = None
    edits: tuple[Edit, ...] = ()
    hows: tuple[Regroup, ...] = ()

    @property
    def start(self) -> Fields | None:
        """Values that the units started from; None if cold."""
        return self.start_of(slice(None))

    def start_of(self, at: Any) -> Fields | None:
        """The same of the units at some positions."""
        return _some(self.first, at if self.at is None else self.at[at])

    def warm(self) -> Fields | None:
        """Values that the units have now; None if they keep none."""
        warm = _some(self.found.warm, slice(None) if self.at is None else self.at)
        for how in self.hows:
            warm = None if warm is None else how(warm)
        return warm

    def holding(self, slots: Sequence[int], least: float) -> Array:
        """Sorted positions of the units that hold more than `least` rows of some components."""
        held = self.found.held @ self._sources(slots)
        there = np.unique(held.indices[held.data > least])
        if self.at is None:
            return there
        at = np.searchsorted(self.at, there)
        is_left = np.take(self.at, at, mode="clip") == there if len(self.at) else at < 0
        return np.asarray(at[is_left])

    def _sources(self, slots: Sequence[int]) -> Any:
        """(K of the pass, len(slots)) ones where components now hold those of the pass."""
        sizes = self.found.held.shape[1], *(len(how.sources) for how in self.hows)
        found = sparse.eye_array(sizes[-1], format="csc")[:, list(slots)]
        for how, size in zip(reversed(self.hows), sizes[-2::-1], strict=True):
            found = _selection(how, size) @ found
        return found

    def keeping(self, at: Array, counts: Summary) -> Layer:
        """The units at some positions, which have these counts."""
        where = at if self.at is None else self.at[at]
        return replace(self, units=self.units[at], at=where, counts=counts)

    def edited(self, edit: Edit, how: Regroup, tables: Mapping[str, Any]) -> Layer:
        """The layer after a change of the components."""
        edits, hows = (*self.edits, edit), (*self.hows, how)
        return replace(self, counts=edit(self.counts), tables=tables, edits=edits, hows=hows)

    def again(self, before: Layer, model: Model, edit: Edit, tables: Mapping[str, Any]) -> Layer:
        """The same change of the layer `before`, with another edit of the prior's counts."""
        layout, counts = model.prior.fields(model.axis), before.counts
        own = edit(replace(counts, layout=layout, arrays={n: counts[n] for n in layout}))
        arrays = {**self.counts.arrays, **own.arrays}
        changed = replace(self.counts, arrays=arrays, local_bound=own.local_bound)
        return replace(self, counts=changed, edits=(*before.edits, edit), tables=tables)


def _some(values: Fields | None, at: Any) -> Fields | None:
    """Values of the units at some positions; all of them are not copied."""
    if values is None or (isinstance(at, slice) and at == slice(None)):
        return values
    return values.permute("unit", at)


def _selection(how: Regroup, size: int) -> Any:
    """(K, new K) ones where a new component takes an old one."""
    pairs = [(old, new) for new, source in enumerate(how.sources) for old in source]
    old, new = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return sparse.csc_array((np.ones(len(old)), (old, new)), shape=(size, len(how.sources)))


@dataclass(frozen=True)
class Part:
    """The units that a trial touches, and the layers of all others.

    units, batches : the touched ones
    how : what happens to the components; None if all units are touched
    n_again : units that were inferred once more to tell the counts of both apart
    """

    units: Array
    batches: Sequence[Batch]
    layers: tuple[Layer, ...] = ()
    how: Regroup | None = None
    n_again: int = 0

    def others(
        self, model: Model, params: Fields, like: Summary, known: tuple[Layer, ...] = ()
    ) -> tuple[Layer, ...]:
        """The others' layers after the change, for a trial with these parameters and counts.

        known : the same for other parameters; of these, the prior's counts change only
        """
        if self.how is None:
            return ()
        tables, edited = _tables(model, like, params), []
        for at, layer in enumerate(self.layers):
            found = model.structure.regroup(layer.tables, tables, self.how)
            assert found is not None
            if known:
                edited.append(known[at].again(layer, model, *found))
            else:
                edited.append(layer.edited(found[0], self.how, found[1]))
        return tuple(edited)

    def some(self, share: float, among: Posteriors, rng: np.random.Generator) -> Part:
        """A random part of the touched units."""
        size = max(1, round(share * len(self.units)))
        units = np.sort(rng.choice(self.units, size, replace=False))
        return replace(self, units=units, batches=among.take(units))


def _tables(model: Model, total: Summary, params: Fields) -> Mapping[str, Any]:
    return model.prior.potentials(total, params, RULE)


@dataclass(frozen=True)
class Posteriors:
    """Posteriors of all units, in layers."""

    model: Model
    data: Data
    batches: Sequence[Batch]
    pool: Pool
    layers: tuple[Layer, ...]

    @classmethod
    def at(
        cls,
        model: Model,
        data: Data,
        batches: Sequence[Batch],
        pool: Pool,
        total: Summary,
        params: Fields,
        warm: Fields | None,
    ) -> Posteriors:
        """One pass over all units, which continue from `warm`."""
        total = replace(total, sides={})
        none = cls(model, data, batches, pool, ())
        found = infer(model, total, params, none.everything().batches, warm, pool)
        return replace(
            none, layers=(none.layer(np.arange(data.n_spans), total, params, warm, found),)
        )

    def layer(
        self, units: Array, total: Summary, params: Fields, start: Fields | None, found: Inferred
    ) -> Layer:
        """The layer of some units after a pass."""
        tables = _tables(self.model, total, params)
        return Layer(units, total, params, start, found, tables, found.counts)

    @property
    def counts(self) -> Summary:
        """Of all units."""
        sums = Tally(self.layers[0].counts)
        for layer in self.layers[1:]:
            sums.add(layer.counts)
        return sums.summary()

    def warm(self) -> Fields | None:
        """Values of all units, in the order of the data; None if they keep none."""
        kept = [warm for warm in (layer.warm() for layer in self.layers) if warm is not None]
        if not kept:
            return None
        order = np.argsort(np.concatenate([layer.units for layer in self.layers]))
        return _some(join(kept), order)

    def touched(self, slots: Sequence[int], least: float) -> Array:
        """Sorted units that hold more than `least` rows of one of some components."""
        return np.sort(
            np.concatenate([layer.units[layer.holding(slots, least)] for layer in self.layers])
        )

    def take(self, units: Array) -> list[Batch]:
        """Some units in batches of about the usual size, or larger if that is small."""
        share = len(units) / self.data.n_spans
        count = -(-len(units) * len(self.batches) // self.data.n_spans)
        count = min(count, math.ceil(share * self.data.n_rows / LEAST_ROWS))
        if len(units) == self.data.n_spans:
            return [self.data.whole()] if count == 1 else list(self.batches)
        return [self.data.pick(part, i) for i, part in enumerate(np.array_split(units, count))]

    def part(self, how: Regroup, least: float) -> Part:
        """The units that a change touches, and what is left of all layers without them."""
        touched, left, n_again = [], [], 0
        for layer in self.layers:
            at = layer.holding(how.taken, least)
            is_left = np.full(len(layer.units), True)
            is_left[at] = False
            rest = np.flatnonzero(is_left)
            touched.append(layer.units[at])
            n_again += min(len(at), len(rest))
            if len(rest) < len(at):
                counts = self._counts_of(layer, rest) if len(rest) else None
            else:
                counts = layer.counts - self._counts_of(layer, at) if len(at) else None
            if counts is not None:
                left.append(layer.keeping(rest, counts))
            elif len(rest):
                left.append(layer)
        units = np.sort(np.concatenate(touched))
        batches = self.take(units) if len(units) else []
        return Part(units, batches, tuple(left), how, n_again)

    def counts_of(self, units: Array) -> Summary:
        """Of some units."""
        sums = Tally(self.layers[0].counts.empty())
        for layer in self.layers:
            at = np.flatnonzero(np.isin(layer.units, units))
            if len(at):
                sums.add(self._counts_of(layer, at))
        return sums.summary()

    def _counts_of(self, layer: Layer, at: Array) -> Summary:
        """Counts of some units of a layer: inferred as they were, then edited as they were."""
        batches, start = self.take(layer.units[at]), layer.start_of(at)
        counts = infer(self.model, layer.total, layer.params, batches, start, self.pool).counts
        for edit in layer.edits:
            counts = edit(counts)
        return counts

    def everything(self) -> Part:
        """All units."""
        units = np.arange(self.data.n_spans)
        return Part(units, self.take(units))


@dataclass(frozen=True)
class OwnCounts:
    """Own counts of all units, which collapsed sweeps continue from; there are no layers."""

    own: Fields | None
    layers: tuple[Layer, ...] = ()

    def warm(self) -> Fields | None:
        """The own counts."""
        return self.own


@dataclass(frozen=True)
class Outcome:
    """A trial that ended above the bound it had to beat. The fit continues from it.

    posteriors : of all units, kept or found by the trial
    """

    counts: Summary
    params: Fields
    ids: tuple[int, ...]
    next_id: int
    bound: float
    posteriors: Posteriors | OwnCounts
