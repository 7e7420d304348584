"""What birth and delete share: the mass of some components is dealt out anew among proposals, and
the difference is tracked.

q'(z = j) = mass * softmax(evidence of proposal j + log share), where mass is what the components
`taken` held of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Batch, Table
from stickbreak.inference import BatchVB, Callback, LapRecord, Result, Start, run
from stickbreak.inference.proposals import Proposal, Sample, Scene
from stickbreak.persist import pack_summary, unpack_summary
from stickbreak.protocols import Array, Local, Potentials, Rule, Scores
from stickbreak.stats import AddSide, Compose, Edit, Fields, Fold, Insert, Summary

__all__ = [
    "Redistribution",
    "RedistributionProposal",
    "little_fit",
    "nearest",
    "rows_of",
    "side_by_side",
]

WORTH = 0.1  # a row belongs to the little fits of components that hold at least this share of it


@dataclass(frozen=True)
class Redistribution:
    """Collects the difference over some slots: what proposals gain less what components lose.

    taken : positions that lose their mass; a birth takes from its targets, a delete from its target
        and all absorbers
    counts : counts of the J proposals, whose potentials deal the mass out
    log_share (J,) : their log shares, up to a constant
    first : the first slot that gains. Slots are (targets, newborns) for a birth, (target,
        absorbers) for a delete; targets that keep their rows of the past (a stream) are the first
        proposals
    folded : how many of the taken slots end in one with what is left of them
    """

    name: str
    taken: tuple[int, ...]
    counts: Summary
    log_share: Array
    first: int
    folded: int
    scores: Scores | None = field(default=None, repr=False)
    taken_scores: Scores | None = field(default=None, repr=False)

    def at(self, model: Any, counts: Summary, batch: Batch, rule: Rule) -> Redistribution:
        """With the potentials of the proposals and of the components that they replace."""
        judge = rule.pick(model.family)
        taken, proposed = (
            counts.permute(model.axis, list(self.taken)),
            self.counts.restrict(batch.symbols),
        )
        absorbers = list(range(self.first, len(self.taken)))
        if absorbers:  # what they lose and what they gain must be moments about the same points
            newborn = proposed.permute(model.axis, range(len(absorbers), proposed.size(model.axis)))
            proposed = (
                side_by_side([taken.permute(model.axis, absorbers), newborn], model.axis).empty()
                + proposed
            )
        return replace(self, counts=proposed, scores=judge(proposed), taken_scores=judge(taken))

    def empty_side(self, model: Any, potentials: Potentials) -> Summary:
        """Zeros over the axis "slot"; reference points of moments as they are."""
        empty = potentials.empty
        own = empty.permute(model.axis, list(self.taken[: self.first]))
        other = self.counts  # those of `at`: the batch's symbols only
        layout = {
            n: replace(f, axes=tuple("slot" if a == model.axis else a for a in f.axes))
            for n, f in empty.layout.items()
        }
        arrays = {}
        for n, f in empty.layout.items():
            along = f.axes.index(model.axis)
            both = np.concatenate([own[n], other[n]], axis=along)
            arrays[n] = np.zeros_like(both) if f.additive else both
        layout = {n: replace(f, nonnegative=False) for n, f in layout.items()}
        return Summary(layout, arrays, index=empty.index)

    def observe(
        self,
        model: Any,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Add a block's difference."""
        change = model.structure.redistribute(model, potentials, self, raw, local, side)
        return replace(side, local_bound=side.local_bound + change)


def side_by_side(parts: Sequence[Summary], axis: str) -> Summary:
    """The components of all, one after the other."""
    layout = parts[0].layout
    arrays = {
        n: np.concatenate([part[n] for part in parts], axis=f.axes.index(axis))
        for n, f in layout.items()
    }
    return replace(parts[0], arrays=arrays, sides={})


@dataclass(frozen=True)
class RedistributionProposal:
    """Slots: the targets of a birth; the target of a delete and its absorbers."""

    kind: str
    slots: tuple[int, ...]
    watch: Redistribution
    expected: float
    n_key: int = 1
    allowance: float = 0.0

    def pack(self, prefix: str, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
        """Plain values and arrays, for checkpoints."""
        watch = self.watch
        arrays[f"{prefix}/log_share"] = watch.log_share
        return {
            "slots": list(self.slots),
            "expected": self.expected,
            "name": watch.name,
            "first": watch.first,
            "folded": watch.folded,
            "counts": pack_summary(watch.counts, prefix, arrays),
        }

    @classmethod
    def unpack(
        cls, kind: str, saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]
    ) -> RedistributionProposal:
        """What `pack` left."""
        slots = tuple(int(k) for k in saved["slots"])
        counts = unpack_summary(saved["counts"], prefix, arrays)
        log_share = arrays[f"{prefix}/log_share"]
        watch = Redistribution(
            str(saved["name"]), slots, counts, log_share, int(saved["first"]), int(saved["folded"])
        )
        return cls(kind, slots, watch, float(saved["expected"]))

    def edit(
        self, axis: str, positions: tuple[int, ...], size: int, done: Sequence[Proposal]
    ) -> Edit:
        """Append newborns where there are any, add the difference, fold what is left of the targets
        into the first that gains.
        """
        if self.kind == "birth":
            old = 0 if self.watch.first else len(positions)
            newborn = self.watch.counts.permute(axis, range(old, len(self.watch.log_share)))
            slots = (*positions, *range(size, size + newborn.size(axis)))
            fill = {n: _Constant(newborn[n]) for n, f in newborn.layout.items() if not f.additive}
            grow: tuple[Edit, ...] = (
                Insert(axis, newborn.size(axis), {**fill, "legal": _FreeSets()}),
            )
        else:
            slots, grow = positions, ()
        keep, gone = slots[self.watch.first], sorted(slots[: self.watch.first], reverse=True)
        folds = []
        for drop in gone:  # from the last on, so that the others stay where they are
            folds.append(Fold(axis, keep, drop))
            keep -= drop < keep
        return Compose((*grow, AddSide(axis, slots, self.watch.name), *folds))


@dataclass(frozen=True)
class _Constant:
    """Fills new slots with given values."""

    values: Array

    def __call__(self, fields: Any) -> Array:
        return self.values


@dataclass(frozen=True)
class _FreeSets:
    """New components may be used by rows without a label, which are set 0."""

    def __call__(self, fields: Any) -> Array:
        return np.eye(len(fields["legal"]), 1)


# ---------------------------------------------------------------------------------------------- lit


def nearest(scene: Scene, target: int, count: int) -> tuple[int, ...]:
    """Up to `count` components whose distributions are nearest to the target's, by the divergence
    of their means.
    """
    free = [k for k in range(len(scene.ids)) if k != target and k not in scene.protected]
    if not free or count == 0:
        return ()
    if len(free) <= count:
        return tuple(free)
    means = scene.model.family.smoothed_mean(scene.total)
    apart = scene.model.family.bregman(
        {n: a[target : target + 1] for n, a in means.items()}, means
    )[0]
    return tuple(sorted(free, key=lambda k: float(apart[k]))[:count])


def rows_of(model: Any, sample: Sample, slots: Sequence[int]) -> Table | None:
    """Rows of a sample that belong to some components, repeated so that they weigh what those hold
    of the whole data.
    """
    mass = sample.mass(slots)
    rows = np.flatnonzero(mass > WORTH * sample.batch.repeats_or_ones())
    if len(rows) < 2:
        return None
    found = sample.batch.rows[rows]
    if sample.batch.symbols is not None:  # a sample may have a vocabulary of its own
        columns = sample.batch.symbols[found.indices]
        found = sparse.csr_array(
            (found.data, columns, found.indptr), shape=(len(rows), model.family.n_columns)
        )
    return Table(found, mass[rows] * sample.scale)


class _Hope(Callback):
    """Ends a little fit that will not reach a bound: at its present rate it would need more passes
    than there are.

    wanted : the bound to reach, with n_free components; each further one must bring `price` more.
    patience : if each pass closes less than the one before it, all that follow would close closed
        ** 2 / (before - closed) together, were the ratio of two to stay as it is; a fit that needs
        more than `patience` times that has no hope either
    """

    def __init__(
        self, wanted: float, max_iter: int, n_free: int, price: float, patience: float
    ) -> None:
        self.wanted, self.max_iter, self.n_free, self.price, self.patience = (
            wanted,
            max_iter,
            n_free,
            price,
            patience,
        )
        self.last, self.closed = -np.inf, np.inf

    def on_lap(self, record: LapRecord) -> None:
        """Looks at the gap and at what the last pass closed of it."""
        assert record.bound is not None
        reached = record.bound - self.price * max(0, record.n_components - self.n_free)
        gap, closed, before = self.wanted - reached, reached - self.last, self.closed
        self.last, self.closed = reached, closed
        n_left = float(self.max_iter - record.lap)
        if 0.0 <= closed < before < np.inf:
            n_left = min(n_left, self.patience * closed / (before - closed))
        if record.lap > 3 and gap > closed * n_left:
            raise StopIteration


def little_fit(
    model: Any,
    table: Any,
    counts: Summary,
    max_iter: int,
    *,
    wanted: float = -np.inf,
    n_free: int = 0,
    price: float = 0.0,
    moves: Sequence[Any] = (),
    reorder: bool = False,
    params: Fields | None = None,
    patience: float = np.inf,
) -> Result:
    """The model fitted to a few rows from given counts: proposals before the whole data see them.

    wanted : the bound that the proposal must reach to be of use, and `price` more for each
        component beyond n_free; a fit that has no hope of it ends early
    params : parameters to begin with; default: those of no counts
    patience : see _Hope
    reorder : components in the order that the bound likes best, for whom it does not matter which
        is which
    """
    n_components = counts.size(model.axis)
    callbacks = (_Hope(wanted, max_iter, n_free, price, patience),)
    engine = BatchVB(max_iter=max_iter, tol=1e-5, reorder=reorder, moves=moves, callbacks=callbacks)
    start = Start(counts, model.start_params(n_components) if params is None else params)
    return run(replace(model, learns=False), engine, table, start)
