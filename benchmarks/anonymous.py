"""How much anonymous memory this process holds at most while something runs; pages of mapped files
do not count.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

EVERY = 0.02  # seconds


def anonymous() -> float:
    """MB (2**20 bytes) held now, as Linux says."""
    return int(re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]


class AnonymousPeak:
    """`with AnonymousPeak() as memory: ...`; then memory.before and memory.peak in MB."""

    def __enter__(self) -> AnonymousPeak:
        self.before = self.peak = anonymous()
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(EVERY):
            self.peak = max(self.peak, anonymous())

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._watcher.join()
        self.peak = max(self.peak, anonymous())
