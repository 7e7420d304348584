"""Two directions of an aligner: fitted at once, in two threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from stickbreak.inference import Callback

from .fitted import Fitted

__all__ = ["Fit", "StopWhen", "fit_at_once"]

Fit = Callable[[tuple[Callback, ...]], tuple[Fitted, bool]]


class StopWhen(Callback):
    """Ends a fit as Ctrl-C does, which only the first thread hears of."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def on_step(self, info: Any) -> None:
        """After each visit."""
        if self.event.is_set():
            raise KeyboardInterrupt


def fit_at_once(first: Fit, second: Fit) -> tuple[Fitted, Fitted | None, bool]:
    """Both fits, and whether Ctrl-C has ended them; the second is None if it has nothing then.

    Each is called with callbacks, and says what it found and whether it was interrupted.
    """
    stop = Event()
    with ThreadPoolExecutor(1) as helper:
        other = helper.submit(second, (StopWhen(stop),))
        try:
            fitted, is_interrupted = first(())
        except BaseException:
            stop.set()
            raise
        if is_interrupted:
            stop.set()
            return fitted, None, True
        try:
            return fitted, *other.result()
        except KeyboardInterrupt:
            stop.set()
        try:
            return fitted, other.result()[0], True
        except KeyboardInterrupt:  # in its first lap
            return fitted, None, True
