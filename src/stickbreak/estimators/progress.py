"""A progress line for whoever asks for one with `verbose`."""

from __future__ import annotations

import time

from stickbreak.inference import Callback, Info, LapRecord

__all__ = ["Progress"]


class Progress(Callback):
    """Lap, bound, components and rate on stderr: a live line on a terminal, one line a lap otherwise."""

    def __init__(self, max_iter: int, n_units: float) -> None:
        from rich.console import Console  # here: it would slow every import for those who do not ask

        self._console = Console(stderr=True)
        self._max_iter, self._n_units = max_iter, n_units
        self._began = self._shown = time.monotonic()
        self._seen = 0.0
        self._status = self._console.status("starting") if self._console.is_terminal else None

    def on_step(self, info: Info) -> None:
        """Refresh the live line a few times a second."""
        if self._status is not None and self._seen == 0.0:
            self._status.start()
        self._seen += info.n_units
        if self._status is not None and time.monotonic() - self._shown > 0.2:
            self._shown = time.monotonic()
            self._status.update(f"lap {info.lap}, visit {info.step}, {info.n_components} components, {self._rate()}")

    def on_lap(self, record: LapRecord) -> None:
        """One line a lap."""
        value = f"bound {record.bound:.2f}" if record.bound is not None else f"log_z per row {record.log_z:.5f}"
        line = f"lap {record.lap}/{self._max_iter}  {value}  {record.n_components} components  {self._rate()}"
        if self._status is not None:
            self._status.update(line)
        else:
            self._console.print(line, highlight=False)

    def on_end(self) -> None:
        """Leave the terminal as it was."""
        if self._status is not None:
            self._status.stop()

    def _rate(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        return f"{self._seen / seconds:,.0f} rows/s"
