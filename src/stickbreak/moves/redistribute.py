"""Redistribution, for birth and delete: the mass of some components goes to proposals.

q'(z = j) = mass * softmax(evidence of proposal j + log share), where mass is what the components
`taken` held of a row. A lap tracks the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stickbreak.data import Batch
from stickbreak.inference.checked_snapshots import check_array, check_fields
from stickbreak.inference.proposals import Proposal
from stickbreak.persist import pack_summary, unpack_summary
from stickbreak.protocols import Array, Local, Potentials, Rule, Watch
from stickbreak.stats import AddSide, Compose, Edit, Fold, Insert, Summary

from .little_fits import side_by_side

if TYPE_CHECKING:
    from stickbreak.families.base import BaseScores
    from stickbreak.models import Model

__all__ = ["Redistribution", "RedistributionProposal"]


@dataclass(frozen=True)
class Redistribution:
    """Collects the difference over some slots: gains of proposals minus losses of components.

    taken : positions that lose their mass; a birth takes from its targets, a delete from its target
        and all absorbers
    counts : counts of the J proposals, whose potentials divide the mass
    log_share (J,) : their log shares, up to a constant
    first : the first slot that gains. Slots are (targets, newborns) for a birth, and (target,
        absorbers) for a delete. In a stream, targets keep their earlier rows and are the first
        proposals
    folded : how many of the taken slots are folded into one, with what is left of them
    """

    name: str
    taken: tuple[int, ...]
    counts: Summary
    log_share: Array
    first: int
    folded: int
    scores: BaseScores | None = field(default=None, repr=False)
    taken_scores: BaseScores | None = field(default=None, repr=False)

    def at(self, model: Model, counts: Summary, batch: Batch, rule: Rule) -> Redistribution:
        """The watch with potentials of the proposals and of the components that they replace."""
        scores = rule.pick(model.family)
        taken, proposed = (
            counts.permute(model.axis, list(self.taken)),
            self.counts.restrict(batch.symbols),
        )
        absorbers = list(range(self.first, len(self.taken)))
        if absorbers:  # losses and gains must be moments about the same points
            newborn = proposed.permute(model.axis, range(len(absorbers), proposed.size(model.axis)))
            proposed = (
                side_by_side([taken.permute(model.axis, absorbers), newborn], model.axis).empty()
                + proposed
            )
        return replace(self, counts=proposed, scores=scores(proposed), taken_scores=scores(taken))

    def empty_side(self, model: Model, potentials: Potentials) -> Summary:
        """Zeros over the axis "slot", with the present reference points of moments."""
        empty = potentials.empty
        own = empty.permute(model.axis, list(self.taken[: self.first]))
        # the counts of `at`: the batch's symbols only
        both = side_by_side([own, self.counts], model.axis)
        layout = {}
        for n, f in empty.layout.items():
            axes = tuple("slot" if a == model.axis else a for a in f.axes)
            layout[n] = replace(f, axes=axes, nonnegative=False)
        return Summary(layout, both.empty().arrays, index=empty.index)

    def observe(
        self,
        model: Model,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Add a block's difference."""
        change = model.structure.redistribute(model, potentials, self, raw, local, side)
        return replace(side, local_bound=side.local_bound + change)


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
        """A proposal, as `pack` saved it."""
        slots = tuple(int(k) for k in saved["slots"])
        counts = unpack_summary(saved["counts"], prefix, arrays)
        log_share = arrays[f"{prefix}/log_share"]
        watch = Redistribution(
            str(saved["name"]), slots, counts, log_share, int(saved["first"]), int(saved["folded"])
        )
        return cls(kind, slots, watch, float(saved["expected"]))

    def check(self, shared: Watch, model: Model) -> None:
        """Raise ValueError unless proposals and slots fit the model and each other."""
        watch, is_birth = self.watch, self.kind == "birth"
        n_proposed = len(watch.log_share) if watch.log_share.ndim == 1 else 0
        first, folded = (len(self.slots), len(self.slots)) if is_birth else (1, 2)
        if (
            (watch.first, watch.folded) != (first, folded)
            or shared is not watch
            or n_proposed < 1
            or not (is_birth or n_proposed == len(self.slots) - 1)
        ):
            raise ValueError(f"a {self.kind} of {self.slots} with {n_proposed} proposals")
        check_array(watch.log_share, (n_proposed,), "log_share")
        check_fields(watch.counts, model.zeros(n_proposed), f"a {self.kind}")
        if watch.counts.index is not None or watch.counts.sides:
            raise ValueError(f"a {self.kind} with counts of some symbols")

    def edit(
        self, model: Model, positions: tuple[int, ...], size: int, done: Sequence[Proposal]
    ) -> Edit:
        """Append newborns if any, add the difference, fold the targets' remainder.

        The remainder goes to the first slot that gains.
        """
        axis = model.axis
        if self.kind == "birth":
            old = 0 if self.watch.first else len(positions)
            newborn = self.watch.counts.permute(axis, range(old, len(self.watch.log_share)))
            slots = (*positions, *range(size, size + newborn.size(axis)))
            fill = {n: _Constant(newborn[n]) for n, f in newborn.layout.items() if not f.additive}
            grow: tuple[Edit, ...] = (
                Insert(axis, newborn.size(axis), {**fill, **model.newborn_fillers()}),
            )
        else:
            slots, grow = positions, ()
        keep, gone = slots[self.watch.first], sorted(slots[: self.watch.first], reverse=True)
        folds = []
        for drop in gone:  # last first, so that the other positions stay valid
            folds.append(Fold(axis, keep, drop))
            keep -= drop < keep
        return Compose((*grow, AddSide(axis, slots, self.watch.name), *folds))


@dataclass(frozen=True)
class _Constant:
    """Fills new slots with given values."""

    values: Array

    def __call__(self, fields: Any) -> Array:
        return self.values
