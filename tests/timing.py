"""A limit of time for what might hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["time_limit"]

PATIENCE = 60  # times as long by the clock: what waits for ever takes no time of the processor


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """An error instead of a hang; seconds are those of the processor.

    A machine that is busy with other things changes nothing.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE * seconds),
    )
    before = [signal.signal(number, stop) for number, *_ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0.0)
            signal.signal(number, handler)
