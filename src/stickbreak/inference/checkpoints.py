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
from stickbreak.errors import (
    DAMAGE,
    CheckpointError,
    ModelFileError,
    StickbreakWarning,
    in_one_line,
)
from stickbreak.persist import (
    pack_fields,
    pack_summary,
    read_file,
    read_header,
    unpack_fields,
    unpack_summary,
    write_file,
)
from stickbreak.stats import Array, EditLog, Fields, Tally
from stickbreak.targets import check_target

from .memory import Visit
from .state import State
from .trace import Trace

__all__ = ["Checkpointer", "Snapshot", "read_checkpoint", "require_place", "require_same_fit"]

log = logging.getLogger(__name__)
# Arrays held in memory while a checkpoint is written; the others wait in a temporary file.
SHELF_BYTES = 1 << 26

NOTHING = Fields({}, {})


@dataclass(frozen=True)
class Snapshot:
    """State, history, visits of the lap in progress, learned hyperparameters, and pending moves.

    visits : (log_z, n_observations, rows checked, rows missed, rows moved or -1, units for which
        something was proposed, accepted) of each
    path, saved_moves : the file that it was read from, and the moves in it
    """

    state: State
    trace: Trace
    visits: tuple[tuple[float, ...], ...] = ()
    learned: Fields = NOTHING
    moves: Callable[[MutableMapping[str, Array]], dict[str, Any]] | None = None
    path: Path | None = None
    saved_moves: tuple[dict[str, Any], Mapping[str, Array]] | None = None


@dataclass
class Checkpointer:
    """Saves a snapshot when `every` seconds have passed since the last one."""

    path: Path
    every: float
    settings: Mapping[str, Any]
    last: float
    mark: tuple[int, ...] | None = None

    @classmethod
    def make(cls, path: Any, every: float, settings: Mapping[str, Any]) -> Checkpointer | None:
        """None if no path is given. A place that cannot be used is an error now, not in an hour."""
        if path is None:
            return None
        require_place(path, settings)
        path = Path(path)
        return cls(path, float(every), settings, time.monotonic(), _mark_of(path))

    def save_if_due(self, snapshot: Snapshot) -> None:
        """Write the file, whole or not at all, if it is time."""
        if time.monotonic() - self.last < self.every:
            return
        self.last = time.monotonic()
        try:
            header, arrays = _pack(snapshot)
            if _mark_of(self.path) != self.mark:  # somebody else has written to the same place
                require_place(self.path, self.settings)
            write_file(self.path, "checkpoint", {"settings": dict(self.settings), **header}, arrays)
            self.mark = _mark_of(self.path)
        # a full disk, or another fit, must not cost this one; the last file is intact
        except (OSError, CheckpointError) as error:
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


def _mark_of(path: Path) -> tuple[int, ...] | None:
    """What changes when another file takes the name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def require_place(path: Any, settings: Mapping[str, Any]) -> None:
    """Raise ValueError if a fit with these settings may not write its checkpoints to `path`.

    It may where there is nothing, and where a checkpoint of the same fit is: the same data,
    estimator and arguments, from whatever random seed. So a fit can be run again, but another one
    is not lost.
    """
    try:
        target = check_target(path)
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(f"checkpoint={str(path)!r}: {error}") from None
    if not target.exists():
        return
    remedy = "give another name, or delete it first"
    try:
        found = read_header(target, "checkpoint").get("settings")
    except (ModelFileError, OSError) as error:
        raise CheckpointError(f"{error}, and is not overwritten: {remedy}") from None
    for name, value in _compared(settings):
        theirs = found.get(name) if isinstance(found, dict) else None
        difference = _first_difference(name, _unseeded(name, theirs), _unseeded(name, value))
        if difference is not None:
            what = "of other data" if name == "data" else f"with {difference}"
            raise CheckpointError(
                f"{path} is the checkpoint of another fit, {what}. It is not overwritten: "
                f"{remedy}; to go on with that fit, use resume"
            )


def _unseeded(name: str, value: Any) -> Any:
    """A setting without what only says where random numbers begin."""
    if name == "seed":
        return None
    if isinstance(value, dict):
        return {n: None if n == "random_state" else _unseeded(n, v) for n, v in value.items()}
    return value


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
        found["seed"] = _check_settings(found)
        snapshot = _unpack(Path(path), header, arrays)
    except DAMAGE as error:
        raise ModelFileError(
            f"{path} is damaged: {type(error).__name__}: {in_one_line(error)}"
        ) from None
    require_same_fit(path, found, settings or {})
    return found, snapshot


def _check_settings(settings: Mapping[str, Any]) -> int:
    """The seed of the fit; raises ValueError if it or the names of the columns cannot be."""
    seed, columns = int(settings.get("seed", 0)), settings.get("columns")
    if seed < 0:
        raise ValueError(f"seed={seed}")
    if columns is not None and not all(isinstance(name, str) for name in columns):
        raise ValueError("the names of columns are not text")
    return seed


def _words(error: BaseException) -> str:
    """A KeyError's message is but a name."""
    return f"{type(error).__name__}: {in_one_line(error)}"


def require_same_fit(
    path: str | Path, found: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Raise CheckpointError if a file's settings, `found`, differ from these."""
    for name, value in _compared(settings):
        if name == "data" and found.get(name) != value:
            which = _changed_shard(found.get("shards"), settings.get("shards"))
            raise CheckpointError(
                f"{path} was written for other data{which}: a fit resumes with its own "
                "rows, weights and labels only"
            )
        difference = _first_difference(name, found.get(name), value)
        if difference is not None:
            raise CheckpointError(
                f"{path} was written with {difference}; a fit resumes with its "
                "own data and settings only"
            )


def _compared(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Settings that must be the same. Shards may have other names; "data" is what they hold."""
    return [(name, value) for name, value in settings.items() if name != "shards"]


def _changed_shard(theirs: Any, ours: Any) -> str:
    """Which shard makes other data; empty if that is not known."""
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return ""
    if len(theirs) != len(ours):
        return f" ({len(theirs)} shards; now there are {len(ours)})"
    for now, then in zip(ours, theirs, strict=True):
        if now[1:] != then[1:]:
            return f" (shard {now[0]} has changed since)"
    return ""


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
        except DAMAGE as error:
            raise ModelFileError(
                f"{self.path} is damaged: {type(error).__name__}: {in_one_line(error)}"
            ) from None

    def remember(self, batch_id: int, visit: Visit) -> None:
        """Not supported: the file is read-only."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.saved)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.saved))


def _read_visit(
    log_z: Any,
    n: Any,
    checked: Any,
    missed: Any,
    moved: Any = -1.0,
    proposed: Any = 0.0,
    accepted: Any = 0.0,
) -> tuple[float, ...]:
    """One visit; files of before have no moved rows, and nothing proposed."""
    values = log_z, n, checked, missed, moved, proposed, accepted
    return tuple(float(value) for value in values)


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
        keeps_warm=any(saved["warm"] is not None for saved in header["memory"].values()),
    )
    visits = tuple(_read_visit(*visit) for visit in header["visits"])
    moves = header["moves"]
    if moves is not None:
        # older files do not say whether the fit has settled
        is_known = {"has_settled": bool(moves.get("has_settled", False))}
        moves = {**{n: moves[n] for n in ("attempts", "proposals", "planned_ids")}, **is_known}
    learned = (
        unpack_fields(header["learned"], "learned", arrays) if "learned" in header else NOTHING
    )
    saved_moves = None if moves is None else (moves, arrays)
    return Snapshot(
        state, Trace.from_dict(header["trace"]), visits, learned, path=path, saved_moves=saved_moves
    )
