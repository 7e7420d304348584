"""Two directions of an aligner: fitted at once, in two threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from stickbreak.inference import Callback

from .fitted import Fitted

__all__ = ["Fit", "StopWhen", "fit_at_once"]

Fit = Callable[[tuple[Callback, ...]], tuple[Fitted, BaseException | None]]


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
