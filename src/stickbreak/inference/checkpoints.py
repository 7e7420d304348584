"""Checkpoints: the whole state of a fit in one file. Resuming continues bit for bit.

A file identifies its data and settings; resuming with others is refused.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stickbreak.data import Shelf
from stickbreak.errors import CheckpointError, ModelFileError, StickbreakWarning
from stickbreak.persist import (
    pack_fields,
    pack_summary,
    read_file,
    unpack_fields,
    unpack_summary,
    write_file,
)
from stickbreak.stats import Array, EditLog, Fields, Tally

from .memory import Visit
from .state import State
from .trace import Trace

__all__ = ["Checkpointer", "Snapshot", "read_checkpoint"]

log = logging.getLogger(__name__)
# Arrays held in memory while a checkpoint is written; the others wait in a temporary file.
SHELF_BYTES = 1 << 26

NOTHING = Fields({}, {})


@dataclass(frozen=True)
class Snapshot:
    """State, history, visits of the lap in progress, learned hyperparameters, and pending moves.

    visits : (log_z, n_observations, rows checked, rows missed) of each
    """

    state: State
    trace: Trace
    visits: tuple[tuple[float, ...], ...] = ()
    learned: Fields = NOTHING
    moves: Callable[[MutableMapping[str, Array]], dict[str, Any]] | None = None
    saved_moves: tuple[dict[str, Any], Mapping[str, Array]] | None = None


@dataclass
class Checkpointer:
    """Saves a snapshot when `every` seconds have passed since the last one."""

    path: Path
    every: float
    settings: Mapping[str, Any]
    last: float

    @classmethod
    def make(cls, path: Any, every: float, settings: Mapping[str, Any]) -> Checkpointer | None:
        """None if no path is given. A missing folder is an error now, not in an hour."""
        if path is None:
            return None
        path = Path(path)
        if not path.parent.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r}: the folder {str(path.parent)!r} does not exist"
            )
        return cls(path, float(every), settings, time.monotonic())

    def save_if_due(self, snapshot: Snapshot) -> None:
        """Write the file, whole or not at all, if it is time."""
        if time.monotonic() - self.last < self.every:
            return
        self.last = time.monotonic()
        try:
            header, arrays = _pack(snapshot)
            write_file(self.path, "checkpoint", {"settings": dict(self.settings), **header}, arrays)
        except OSError as error:  # a full disk must not cost the fit; the last file is intact
            warnings.warn(
                f"no checkpoint could be written to {self.path}: {error}",
                StickbreakWarning,
                stacklevel=2,
            )
            return
        log.info(
            "checkpoint written to %s at lap %d, visit %d",
            self.path,
            snapshot.state.lap + 1,
            snapshot.state.position,
        )


def read_checkpoint(
    path: str | Path, settings: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], Snapshot]:
    """Settings and snapshot of a checkpoint. Given `settings` must equal those of the file."""
    if not Path(path).is_file():
        raise CheckpointError(
            f"there is no checkpoint at {path}: the fit was stopped before the first one was "
            "written, or wrote none"
        )
    header, arrays = read_file(path, "checkpoint")
    try:
        found = dict(header["settings"])
        found["seed"] = int(found.get("seed", 0))
        snapshot = _unpack(Path(path), header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: {error!r}") from None
    for name, value in (settings or {}).items():
        if name == "data" and found.get(name) != value:
            raise CheckpointError(
                f"{path} was written for other data: a fit resumes with its own "
                "rows, weights and labels only"
            )
        difference = _first_difference(name, found.get(name), value)
        if difference is not None:
            raise CheckpointError(
                f"{path} was written with {difference}; a fit resumes with its "
                "own data and settings only"
            )
    return found, snapshot


def _first_difference(name: str, theirs: Any, ours: Any) -> str | None:
    """The first difference of two nested settings, in words; None if they agree."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            found = _first_difference(
                key if key in theirs and key in ours else f"{name}.{key}",
                theirs.get(key),
                ours.get(key),
            )
            if found is not None:
                return found
        return None
    return None if theirs == ours else f"{name}={theirs!r}, this one has {ours!r}"


def _pack(snapshot: Snapshot) -> tuple[dict[str, Any], Mapping[str, Array]]:
    """JSON header and arrays. Remembered batches are updated, so no log of edits is needed."""
    state = snapshot.state
    arrays = Shelf(SHELF_BYTES)
    header: dict[str, Any] = {
        "trace": snapshot.trace.to_dict(),
        "visits": [list(v) for v in snapshot.visits],
        "ids": list(state.ids),
        "next_id": state.next_id,
        "n_batches": state.n_batches,
        "lap": state.lap,
        "position": state.position,
        "n_steps": state.n_steps,
        "params": pack_fields(state.params, "params", arrays),
        "total": pack_summary(state.total.view(), "total", arrays),
        "seed": None if state.seed is None else pack_summary(state.seed, "seed", arrays),
        "lap_total": None
        if state.lap_total is None
        else pack_summary(state.lap_total.view(), "lap_total", arrays),
        "moves": None if snapshot.moves is None else snapshot.moves(arrays),
        "memory": {},
        "settled": sorted(state.settled),
        "warm": {
            str(batch_id): pack_fields(warm, f"warm/{batch_id}", arrays)
            for batch_id, warm in state.warm.items()
        },
    }
    if snapshot.learned.arrays:
        header["learned"] = pack_fields(snapshot.learned, "learned", arrays)
    for batch_id in state.memory:
        visit = state.memory.recall(batch_id)
        assert visit is not None
        visit = visit.catch_up(state.log)
        name = f"memory/{batch_id}"
        warm = None if visit.warm is None else pack_fields(visit.warm, f"{name}/warm", arrays)
        header["memory"][str(batch_id)] = {
            "summary": pack_summary(visit.summary, name, arrays),
            "warm": warm,
        }
    return header, arrays


@dataclass(frozen=True)
class SavedMemory:
    """The visits of a checkpoint, read one at a time.

    An accumulator keeps what it remembers in its own memory.
    """

    path: Path
    saved: Mapping[int, Any]
    arrays: Mapping[str, Array]

    def recall(self, batch_id: int) -> Visit | None:
        """The last visit of a batch."""
        if batch_id not in self.saved:
            return None
        saved, name = self.saved[batch_id], f"memory/{batch_id}"
        try:
            warm = (
                None
                if saved["warm"] is None
                else unpack_fields(saved["warm"], f"{name}/warm", self.arrays)
            )
            return Visit(unpack_summary(saved["summary"], name, self.arrays), warm, 0)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{self.path} is damaged: {error!r}") from None

    def remember(self, batch_id: int, visit: Visit) -> None:
        """Not supported: the file is read-only."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.saved)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.saved))


def _unpack(path: Path, header: dict[str, Any], arrays: Mapping[str, Array]) -> Snapshot:
    memory = SavedMemory(
        path, {int(batch_id): saved for batch_id, saved in header["memory"].items()}, arrays
    )
    for batch_id in memory:
        memory.recall(batch_id)  # checks that each is there and consistent; none is kept
    seed = None if header["seed"] is None else unpack_summary(header["seed"], "seed", arrays)
    lap_total = (
        None
        if header["lap_total"] is None
        else unpack_summary(header["lap_total"], "lap_total", arrays)
    )
    state = State(
        Tally(unpack_summary(header["total"], "total", arrays)),
        unpack_fields(header["params"], "params", arrays),
        seed,
        tuple(int(i) for i in header["ids"]),
        int(header["n_batches"]),
        memory,
        EditLog(),
        int(header["next_id"]),
        int(header["lap"]),
        int(header["position"]),
        int(header["n_steps"]),
        None if lap_total is None else Tally(lap_total),
        settled={int(i) for i in header["settled"]},
        warm={
            int(i): unpack_fields(saved, f"warm/{i}", arrays) for i, saved in header["warm"].items()
        },
    )
    _check_consistent(state)
    visits = tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in header["visits"])
    moves = header["moves"]
    if moves is not None:
        moves = {name: moves[name] for name in ("attempts", "proposals", "planned_ids")}
    learned = (
        unpack_fields(header["learned"], "learned", arrays) if "learned" in header else NOTHING
    )
    saved_moves = None if moves is None else (moves, arrays)
    return Snapshot(
        state, Trace.from_dict(header["trace"]), visits, learned, saved_moves=saved_moves
    )


def _check_consistent(state: State) -> None:
    """Raise ValueError if the parts of a file do not fit each other."""
    K = len(state.ids)
    if (
        min(state.lap, state.position, state.n_steps) < 0
        or state.n_batches < 1
        or len(set(state.ids)) != K
        or K < 1
    ):
        raise ValueError("counters or component ids make no sense")
    for name, array in state.total.view().arrays.items():
        for part in (state.seed, None if state.lap_total is None else state.lap_total.view()):
            if part is not None and part[name].shape != array.shape:
                raise ValueError(
                    f"{name} has shape {array.shape} here and {part[name].shape} there"
                )
