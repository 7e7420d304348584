"""Two directions of an aligner: fitted at once, in two threads; a checkpoint of each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

from stickbreak.errors import DAMAGE, CheckpointError, in_one_line
from stickbreak.inference import Callback, Snapshot, read_checkpoint, require_place
from stickbreak.persist import read_header

from .fitted import Fitted
from .model_files import identify_fit

if TYPE_CHECKING:
    from .base import Estimator
    from .engine_runs import Task

__all__ = ["Fit", "Saved", "StopWhen", "fit_at_once", "require_reverse_place", "reverse_place"]

Fit = Callable[[tuple[Callback, ...]], tuple[Fitted, BaseException | None]]
Read = tuple[dict[str, Any], Snapshot]


def reverse_place(path: Any) -> str:
    """Where the reverse direction has its checkpoint: beside that of the forward one."""
    return f"{path}.reverse"


def require_reverse_place(estimator: Estimator, task: Task, seed: int) -> None:
    """Raise ValueError if the checkpoint of the reverse direction would overwrite another fit's.

    Before the forward direction is fitted, from whose task the settings are.
    """
    engine = estimator._engine_for(task)
    if engine.checkpoint is None:
        return
    settings = identify_fit(estimator, task, engine, seed)
    same = {name: settings[name] for name in ("estimator", "arguments")}  # the data are turned
    require_place(reverse_place(engine.checkpoint), same)


def _seed_in(path: str) -> int:
    """The seed of a fit from its checkpoint."""
    try:
        return int(read_header(path, "checkpoint")["settings"]["seed"])
    except DAMAGE as error:
        raise CheckpointError(
            f"{path} is damaged: {type(error).__name__}: {in_one_line(error)}"
        ) from None


@dataclass
class Saved:
    """What an interrupted fit has left: the checkpoints of both directions, or of one.

    forward, reverse : whether they are there; seed : theirs
    read : what is in that of the forward direction
    """

    forward: bool = False
    reverse: bool = False
    seed: int = 0
    read: Read | None = field(default=None, repr=False)

    @classmethod
    def at(cls, path: Any, read: Read | None, is_both: bool) -> Self:
        """What there is at `path` and beside it. Without either the forward one is asked for.

        read : what is in that of the forward direction, if it has been read already
        """
        other = None
        if is_both and path is not None and Path(reverse_place(path)).is_file():
            other = _seed_in(reverse_place(path))
        if other is not None and read is None and not Path(path).is_file():
            return cls(reverse=True, seed=other)
        if path is None:
            return cls(forward=True)  # which is refused
        read = read_checkpoint(path) if read is None else read
        seed = int(read[0]["seed"])
        # of another seed it is what an earlier fit has left
        return cls(True, other == seed, seed, read)

    def take(self) -> Read | None:
        """What was read, which is not held any longer."""
        read, self.read = self.read, None
        return read


class StopWhen(Callback):
    """Ends a fit as Ctrl-C does, which only the first thread hears of."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def on_step(self, info: Any) -> None:
        """After each visit."""
        if self.event.is_set():
            raise KeyboardInterrupt


def fit_at_once(first: Fit, second: Fit) -> tuple[Fitted, Fitted | None, BaseException | None]:
    """Both fits, and what has ended them early; the second is None if it has nothing then.

    Each is called with callbacks, and says what it found and what has ended it.
    """
    stop = Event()
    with ThreadPoolExecutor(1) as helper:
        other = helper.submit(second, (StopWhen(stop),))
        try:
            fitted, ended_by = first(())
        except BaseException:
            stop.set()
            raise
        if ended_by is not None:
            stop.set()
            return fitted, None, ended_by
        try:
            return fitted, *other.result()
        except KeyboardInterrupt as error:
            stop.set()
            ended_by = error
        try:
            return fitted, other.result()[0], ended_by
        except KeyboardInterrupt:  # in its first lap
            return fitted, None, ended_by
