"""Remembered visits of each batch: in memory, or spilled to disk beyond a limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from stickbreak.data import Spill, Spilled
from stickbreak.stats import Array, EditLog, Fields, Summary

__all__ = ["Memory", "RamMemory", "SpillingMemory", "Visit"]


@dataclass(frozen=True)
class Visit:
    """One batch's counts and warm start, and how many edits they have seen."""

    summary: Summary
    warm: Fields | None
    version: int

    def catch_up(self, log: EditLog) -> Visit:
        """Replay the edits made since the visit."""
        if self.version == len(log):
            return self
        warm = None if self.warm is None else log.replay(self.warm, self.version)
        return Visit(log.replay(self.summary, self.version), warm, len(log))


class Memory(Protocol):
    """A store of visits by batch id."""

    def recall(self, batch_id: int) -> Visit | None:
        """The last visit of a batch, or None before the first."""

    def remember(self, batch_id: int, visit: Visit) -> None:
        """Replace the remembered visit of a batch."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class RamMemory:
    """Visits in a dictionary."""

    def __init__(self) -> None:
        self._visits: dict[int, Visit] = {}

    def recall(self, batch_id: int) -> Visit | None:
        """The last visit of a batch, or None before the first."""
        return self._visits.get(batch_id)

    def remember(self, batch_id: int, visit: Visit) -> None:
        """Replace the remembered visit of a batch."""
        self._visits[batch_id] = visit

    def __len__(self) -> int:
        return len(self._visits)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._visits))


@dataclass(frozen=True)
class _Kept:
    """A visit in memory, or one without its arrays and the places of those."""

    visit: Visit
    size: int
    places: Mapping[str, Spilled] | None = None

    @property
    def used(self) -> int:
        """Bytes in memory."""
        return self.size if self.places is None else 0


class SpillingMemory:
    """Visits in memory up to `limit` bytes; the rest in a temporary file (see `Spill`).

    folder : where the file is; by default that of all temporary files
    """

    def __init__(self, limit: int, folder: str | Path | None = None) -> None:
        self._limit = limit
        self._used = 0
        self._kept: dict[int, _Kept] = {}
        self._spill = Spill("counts of batches beyond memory_limit", folder)

    def recall(self, batch_id: int) -> Visit | None:
        """The last visit of a batch, read back from disk if it was spilled."""
        kept = self._kept.get(batch_id)
        if kept is None or kept.places is None:
            return None if kept is None else kept.visit
        arrays = {name: self._spill.get(place) for name, place in kept.places.items()}
        return _with_arrays(kept.visit, arrays)

    def remember(self, batch_id: int, visit: Visit) -> None:
        """Replace the remembered visit of a batch, in memory if there is room.

        The old one is kept until the new one is complete: nothing may leave half of it.
        """
        old = self._kept.get(batch_id)
        used = self._used - (0 if old is None else old.used)
        new = _Kept(visit, _size(visit))
        if used + new.size > self._limit:
            new = replace(new, visit=_without_arrays(visit), places=self._put(_arrays(visit)))
        self._kept[batch_id] = new
        self._used = used + new.used
        if old is not None and old.places is not None:
            self._drop(old.places)

    def _put(self, arrays: Mapping[str, Array]) -> dict[str, Spilled]:
        places: dict[str, Spilled] = {}
        try:
            for name, array in arrays.items():
                places[name] = self._spill.put(array)
        except OSError:
            self._drop(places)
            raise
        return places

    def _drop(self, places: Mapping[str, Spilled]) -> None:
        for place in places.values():
            self._spill.drop(place)

    @property
    def n_spilled(self) -> int:
        """Number of batches beyond the limit."""
        return sum(kept.places is not None for kept in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._kept))


def _arrays(visit: Visit) -> dict[str, Array]:
    """All arrays of a visit under flat names. Small sides (a few slots) are not spilled."""
    found = {f"summary/{n}": a for n, a in visit.summary.arrays.items()}
    if visit.warm is not None and not visit.warm.is_stored:
        found |= {f"warm/{n}": a for n, a in visit.warm.arrays.items()}
    return found


def _size(visit: Visit) -> int:
    return sum(a.nbytes for a in _arrays(visit).values())


def _without_arrays(visit: Visit) -> Visit:
    warm = visit.warm
    if warm is not None and not warm.is_stored:
        warm = replace(warm, arrays={})
    return replace(visit, summary=replace(visit.summary, arrays={}), warm=warm)


def _with_arrays(visit: Visit, arrays: dict[str, Array]) -> Visit:
    warm = visit.warm
    if warm is not None and not warm.is_stored:
        warm = replace(warm, arrays=_under("warm/", arrays))
    return replace(
        visit, summary=replace(visit.summary, arrays=_under("summary/", arrays)), warm=warm
    )


def _under(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
