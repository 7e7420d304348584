"""Progress of fits and files: a live line on a terminal, plain lines elsewhere, and the log.

`verbose` shows it on stderr. The logger "stickbreak" has the same lines at level INFO. Otherwise
nothing is said.
"""

from __future__ import annotations

import logging
import sys
import time
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from stickbreak.inference import Callback, Info, LapRecord

__all__ = ["Phase", "PhaseLaps", "Progress"]

log = logging.getLogger(__name__)
PAUSE = 1.0  # seconds between two plain lines
REFRESH = 0.2  # seconds between two looks of the live line


class Display:
    """A line that changes, or plain lines, for one thing that takes time."""

    def __init__(self, shows: bool) -> None:
        self._shows = shows
        self._live: Any = None
        self._shown = self._said = -PAUSE
        self._unsaid: str | None = None

    def wait(self) -> None:
        """Stay silent for a second: what is over by then needs no words."""
        self._shown = self._said = time.monotonic()

    def show(self, what: str, facts: str, done: float, total: float) -> None:
        """Move the live line, a few times a second, if there is a terminal."""
        now = time.monotonic()
        if not self._shows or not sys.stderr.isatty() or now - self._shown < REFRESH:
            return
        self._shown = now
        if self._live is None:
            self._live = _make_live()
            self._live.start()
            self._live.add_task(what, facts=facts, total=total)
        self._live.update(
            self._live.task_ids[0], description=what, facts=facts, completed=done, total=total
        )

    def say(self, line: str) -> None:
        """Log a plain line, at most one a second; on stderr too, if there is no terminal."""
        now = time.monotonic()
        if now - self._said < PAUSE:
            self._unsaid = line
            return
        self._said, self._unsaid = now, None
        log.info("%s", line)
        if self._shows and not sys.stderr.isatty():
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say_last(self) -> None:
        """Log the last line, if it was held back."""
        if self._unsaid is not None:
            self._said = -PAUSE
            self.say(self._unsaid)


def _make_live() -> Any:
    from rich.console import Console  # here: it would slow every import for those who do not ask
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(10), TextColumn("{task.fields[facts]}"))
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        auto_refresh=True,
        refresh_per_second=5,
    )


class Phase:
    """Progress of something that is done once, such as reading a file."""

    def __init__(self, what: str, shows: bool) -> None:
        self._what, self._display = what, Display(shows)
        self._began = time.monotonic()
        self._display.wait()

    def update(self, done: int, total: int) -> None:
        """Show how much is done, and of how much."""
        left = (time.monotonic() - self._began) * (total - done) / max(done, 1)
        facts = f"{100 * done // max(total, 1)} %, {_clock(left)} left"
        self._display.show(self._what, facts, done, total)
        self._display.say(f"{self._what}: {facts}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._display.close()


class PhaseLaps(Callback):
    """Laps of one or more little runs, as progress of a phase of `total` laps or some more."""

    def __init__(self, phase: Phase, total: int) -> None:
        self._phase, self._done, self._total = phase, 0, total

    def on_lap(self, record: LapRecord) -> None:
        """One more."""
        self._done += 1
        self._phase.update(self._done, max(self._done, self._total))


class Progress(Callback):
    """Laps of one start: bound, components, rows (or other nouns) per second, time left at most."""

    def __init__(
        self,
        max_iter: int,
        n_observations: float,
        *,
        start: int = 0,
        n_starts: int = 1,
        noun: str = "row",
        shows: bool = True,
    ) -> None:
        self._max_iter, self._n_observations, self._noun = max_iter, n_observations, noun
        self._start = f"start {start + 1}/{n_starts}, " if n_starts > 1 else ""
        self._display = Display(shows)
        self._began = time.monotonic()
        self._seen = self._before = 0.0
        self._laps_before = self._lap = self._tried = 0
        self._value = ""
        self._shown = f"{self._start}lap 1/{max_iter}", "", 0.0

    @staticmethod
    def is_wanted(verbose: Any) -> bool:
        """Whether anybody would see it."""
        return bool(verbose) or log.isEnabledFor(logging.INFO)

    def on_step(self, info: Info) -> None:
        """Move the live line."""
        if self._seen == 0.0:
            self._laps_before = info.lap - 1  # not zero in a fit that was resumed
        self._seen += info.n_observations
        in_lap = min(self._seen - self._before, self._n_observations)
        rate, left = self._rate()
        facts = (
            f"{self._value}K {info.n_components}  {rate / 1e6:.2f}M {self._noun}s/s  < "
            f"{_clock(left)} left"
        )
        self._shown = f"{self._start}lap {info.lap}/{self._max_iter}", facts, in_lap
        self._display.show(*self._shown, self._n_observations)

    def on_tasks(self, n_done: int, n_tasks: int) -> None:
        """Count the tasks of a visit in the live line."""
        what, facts, in_lap = self._shown
        facts = f"{facts}  task {n_done}/{n_tasks}".lstrip()
        self._display.show(what, facts, in_lap, self._n_observations)

    def on_trial(self, kind: str, ids: tuple[int, ...], n_components: int) -> None:
        """Say what is tried between two laps."""
        self._tried += 1
        some = ", ".join(str(i) for i in ids[:3]) + (", ..." if len(ids) > 3 else "")
        what, n = f"trial {self._tried}: {kind} of {some}", self._n_observations
        when = f"{self._start}after lap {self._lap}/{self._max_iter}"
        self._shown = when, f"{self._value}K {n_components}  {what}", n
        self._display.show(*self._shown, n)
        self._display.say(f"{when}  {n_components} components  {what}")

    def on_lap(self, record: LapRecord) -> None:
        """Log one line a lap."""
        self._lap, self._tried = record.lap, 0
        value = (
            f"bound {record.bound:.2f}"
            if record.bound is not None
            else f"log_z per {self._noun} {record.log_z:.5f}"
        )
        self._value, self._before = f"{value}  ", self._seen
        rate, left = self._rate()
        facts = (
            f"{record.n_components} components  {rate:,.0f} {self._noun}s/s  at most "
            f"{_clock(left)} left"
        )
        self._display.say(f"{self._start}lap {record.lap}/{self._max_iter}  {value}  {facts}")

    def on_end(self) -> None:
        """Leave the terminal as it was."""
        self._display.close()
        self._display.say_last()

    def _rate(self) -> tuple[float, float]:
        """Rows per second, and seconds of all laps that are left."""
        rate = self._seen / max(time.monotonic() - self._began, 1e-9)
        return rate, (
            (self._max_iter - self._laps_before) * self._n_observations - self._seen
        ) / max(rate, 1e-9)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=max(0, round(min(seconds, 3e8)))))
