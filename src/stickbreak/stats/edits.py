"""Structural edits as values: merge, remove, insert, permute and others.

An edit is applied at once to the total and the parameters, kept in a log, and replayed later on
remembered Summaries. Each acts on any Fields (totals, remembered Summaries, warm starts,
parameters) through axis names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from .fields import Fields, Filler

__all__ = [
    "NOTHING",
    "AddSide",
    "Compose",
    "Edit",
    "EditLog",
    "Fold",
    "Forget",
    "Insert",
    "Merge",
    "Permute",
    "Regroup",
    "Remove",
    "Within",
    "adopt",
]

F = TypeVar("F", bound=Fields)
NOTHING = 1e-12  # rows of a component that count as none: they fold into another at no cost


class Edit(Protocol):
    """A structural change."""

    def __call__(self, fields: F) -> F:
        """The edited Fields."""

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        """Permanent component ids after the edit; new components take ids starting at `fresh`."""


@dataclass(frozen=True)
class Merge:
    """Fold slot `drop` into slot `keep` (keep < drop).

    pair : index of the pair in the "merge" side. earlier : pairs merged before it in this lap.
    """

    axis: str
    keep: int
    drop: int
    pair: int = 0
    earlier: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.keep < self.drop:
            raise ValueError(
                f"merge keeps the lower slot: keep={self.keep} must be below drop={self.drop}"
            )

    def __call__(self, fields: F) -> F:
        return fields.merge(self.axis, self.keep, self.drop).take_merge_terms(
            self.keep, self.pair, self.earlier
        )

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        """The id of the older component survives."""
        kept = list(ids)
        kept[self.keep] = min(ids[self.keep], ids[self.drop])
        return tuple(i for at, i in enumerate(kept) if at != self.drop)


@dataclass(frozen=True)
class Remove:
    """Drop one slot that is empty, or whose mass has been moved elsewhere."""

    axis: str
    index: int

    def __call__(self, fields: F) -> F:
        return fields.remove(self.axis, self.index)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return tuple(i for at, i in enumerate(ids) if at != self.index)


@dataclass(frozen=True)
class Fold:
    """Add the rest of `drop` to `keep`, and remove the slot: rows that no proposal redistributed.

    Unlike a merge it needs no terms: the proposal has put the change of the local bound into its
    side.
    """

    axis: str
    keep: int
    drop: int

    def __call__(self, fields: F) -> F:
        return fields.merge(self.axis, self.keep, self.drop)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return tuple(i for at, i in enumerate(ids) if at != self.drop)


@dataclass(frozen=True)
class Insert:
    """Append `count` slots.

    fill : values that declared constants cannot give because they depend on the batch (see
        LinearFiller).
    """

    axis: str
    count: int
    fill: Mapping[str, Filler] = field(default_factory=dict)
    bound_per_unit: float = 0.0  # what empty slots add to the local bound, per unit

    def __call__(self, fields: F) -> F:
        known = {name: filler for name, filler in self.fill.items() if name in fields}
        return fields.insert(self.axis, self.count, known).add_bound(self.bound_per_unit)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return ids + tuple(range(fresh, fresh + self.count))


@dataclass(frozen=True)
class Permute:
    """Put slots in another order."""

    axis: str
    order: tuple[int, ...]

    def __call__(self, fields: F) -> F:
        return fields.permute(self.axis, self.order)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return tuple(ids[i] for i in self.order)


@dataclass(frozen=True)
class Regroup:
    """Slots made of others, for units that hold nothing of what comes and goes.

    sources : for every new slot the old ones that it takes, the first of them being what it is
        about; none for a slot that begins empty. Every old slot is in one of them
    taken : the old slots that are divided, joined or dropped
    """

    axis: str
    sources: tuple[tuple[int, ...], ...]
    taken: tuple[int, ...]

    def __call__(self, fields: F) -> F:
        alive = sorted(k for source in self.sources for k in source)
        for keep, *others in filter(None, self.sources):
            for drop in others:
                fields = fields.merge(self.axis, alive.index(keep), alive.index(drop))
                alive.remove(drop)
        fresh = iter(range(len(alive), len(self.sources)))
        order = [alive.index(s[0]) if s else next(fresh) for s in self.sources]
        return fields.insert(self.axis, len(self.sources) - len(alive)).permute(self.axis, order)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        names = iter(range(fresh, fresh + len(self.sources)))
        return tuple(ids[s[0]] if s else next(names) for s in self.sources)

    @property
    def free(self) -> tuple[int, ...]:
        """New slots of which the units hold nothing."""
        gone = set(self.taken)
        return tuple(i for i, source in enumerate(self.sources) if gone.issuperset(source))


@dataclass(frozen=True)
class AddSide:
    """Add the side `name` at the positions `slots`: mass that a birth or delete moved."""

    axis: str
    slots: tuple[int, ...]
    name: str

    def __call__(self, fields: F) -> F:
        return fields.add_side(self.axis, self.slots, self.name)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return ids


@dataclass(frozen=True)
class Forget:
    """Drop all sides: this lap's proposals have been decided."""

    def __call__(self, fields: F) -> F:
        return fields.forget()

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return ids


@dataclass(frozen=True)
class Compose:
    """Several edits as one."""

    edits: tuple[Edit, ...]

    def __call__(self, fields: F) -> F:
        for edit in self.edits:
            fields = edit(fields)
        return fields

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        for edit in self.edits:
            ids = edit.rename(ids, max((fresh, *(i + 1 for i in ids))))
        return ids


@dataclass(frozen=True)
class Within:
    """An edit of the values under `prefix`, written for names without it.

    The number of slots stays the same.
    """

    prefix: str
    edit: Edit

    def __call__(self, fields: F) -> F:
        strip: Callable[[str], str] = lambda name: name.removeprefix(self.prefix)
        layout = {
            strip(n): f.renamed(strip)
            for n, f in fields.layout.items()
            if n.startswith(self.prefix)
        }
        edited = self.edit(Fields(layout, {n: fields[self.prefix + n] for n in layout}))
        return replace(
            fields, arrays={**fields.arrays, **{self.prefix + n: edited[n] for n in layout}}
        )

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return self.edit.rename(ids, fresh)


def adopt(
    axis: str,
    size: int,
    target: int,
    count: int,
    side: str,
    fill: Mapping[str, Filler] | None = None,
) -> Compose:
    """Birth: append `count` newborns to `size` slots, add the side, and drop the empty target.

    The side covers (target, newborns).
    """
    slots = (target, *range(size, size + count))
    return Compose(
        (Insert(axis, count, fill or {}), AddSide(axis, slots, side), Remove(axis, target))
    )


@dataclass(frozen=True)
class EditLog:
    """All edits so far.

    A remembered Summary is stored with the length of the log; later edits are replayed on it.
    """

    edits: tuple[Edit, ...] = ()
    dropped: int = 0  # number of edits that no remembered Summary needs any more

    def __len__(self) -> int:
        return self.dropped + len(self.edits)

    def then(self, edit: Edit) -> EditLog:
        """The log with one more edit."""
        return EditLog((*self.edits, edit), self.dropped)

    def trim(self, before: int) -> EditLog:
        """The log without the first `before` edits, which no remembered Summary needs."""
        surplus = max(0, before - self.dropped)
        return EditLog(self.edits[surplus:], self.dropped + surplus)

    def replay(self, fields: F, since: int) -> F:
        """Fields that had seen the first `since` edits, brought up to date."""
        if since < self.dropped:
            raise ValueError(f"edits {since} to {self.dropped} have been dropped")
        for edit in self.edits[since - self.dropped :]:
            fields = edit(fields)
        return fields
