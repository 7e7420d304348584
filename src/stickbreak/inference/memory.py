"""Remembered visits of each batch: in memory, or spilled to disk beyond a limit."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from stickbreak.persist import read_arrays, write_arrays
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


class SpillingMemory:
    """Visits in memory up to `limit` bytes; the rest in a temporary folder.

    The folder is removed with this object.
    """

    def __init__(self, limit: int, folder: str | Path | None = None) -> None:
        self._limit = limit
        self._used = 0
        self._visits: dict[int, Visit] = {}
        self._spilled: dict[int, Visit] = {}  # without their arrays
        self._parent = folder
        self._folder: Path | None = None  # made when the first visit is spilled

    def recall(self, batch_id: int) -> Visit | None:
        """The last visit of a batch, read back from disk if it was spilled."""
        if batch_id in self._visits:
            return self._visits[batch_id]
        if batch_id not in self._spilled:
            return None
        arrays = read_arrays(self._path(batch_id))
        return _with_arrays(self._spilled[batch_id], arrays)

    def remember(self, batch_id: int, visit: Visit) -> None:
        """Replace the remembered visit of a batch, in memory if there is room."""
        if batch_id in self._visits:
            self._used -= _size(self._visits[batch_id])
        if self._used + _size(visit) <= self._limit:
            self._used += _size(visit)
            self._visits[batch_id] = visit
            if self._spilled.pop(batch_id, None) is not None:
                self._path(batch_id).unlink()
            return
        write_arrays(self._path(batch_id), _arrays(visit))
        self._visits.pop(batch_id, None)
        self._spilled[batch_id] = _without_arrays(visit)

    @property
    def n_spilled(self) -> int:
        """Number of batches on disk."""
        return len(self._spilled)

    def _path(self, batch_id: int) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stickbreak-", dir=self._parent))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / f"{batch_id}.safetensors"

    def __len__(self) -> int:
        return len(self._visits) + len(self._spilled)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self._visits, *self._spilled]))


def _arrays(visit: Visit) -> dict[str, Array]:
    """All arrays of a visit under flat names. Small sides (a few slots) are not spilled."""
    found = {f"summary/{n}": a for n, a in visit.summary.arrays.items()}
    if visit.warm is not None:
        found |= {f"warm/{n}": a for n, a in visit.warm.arrays.items()}
    # not ascontiguousarray, which gives a scalar an axis
    return {n: np.asarray(a, order="C") for n, a in found.items()}


def _size(visit: Visit) -> int:
    return sum(a.nbytes for a in _arrays(visit).values())


def _without_arrays(visit: Visit) -> Visit:
    warm = None if visit.warm is None else replace(visit.warm, arrays={})
    return replace(visit, summary=replace(visit.summary, arrays={}), warm=warm)


def _with_arrays(visit: Visit, arrays: dict[str, Array]) -> Visit:
    warm = None if visit.warm is None else replace(visit.warm, arrays=_under("warm/", arrays))
    return replace(
        visit, summary=replace(visit.summary, arrays=_under("summary/", arrays)), warm=warm
    )


def _under(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
