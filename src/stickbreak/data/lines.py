"""Lines of text files that may be damaged, or made to expand: read within the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from .limits import limit, refusal

__all__ = ["LineReader", "Report"]

Report = Callable[[int, int], None]

PIECE_BYTES = 1 << 24


class LineReader:
    """Lines of a file that may be damaged, or made to expand: limited in length and in total.

    Reads from the beginning of a file, compressed (`.gz`) or not.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self._longest, self._size = limit("LINE"), path.stat().st_size
        self._is_packed = path.suffix.lower() == ".gz"
        # what may come out of a compressed file
        self._most = max(self._longest, limit("EXPANSION") * self._size) + 1
        self._line = 1

    def first(self, n: int) -> list[bytes]:
        """The next n lines; empty ones at the end of the file."""
        lines = []
        for _ in range(n):
            found = self._file.readline(self._longest + 2)  # with its line end
            self._check(found)
            lines.append(found)
            self._line += 1
        return lines

    def pieces(
        self, report: Report | None = None, size: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Whole lines in pieces of about `size` bytes, each with the number of its first line."""
        left = b""
        while True:
            piece = self._file.read(size or PIECE_BYTES)
            whole = left + piece
            end = len(whole) if not piece else whole.rfind(b"\n") + 1
            if end:
                self._check_lines(whole[:end])
                yield self._line, whole[:end]
                self._line += whole.count(b"\n", 0, end)
            left = whole[end:]
            self._check(left)
            if report is not None:
                raw = getattr(self._file, "fileobj", None) or self._file
                report(min(raw.tell(), self._size), self._size)
            if not piece:
                return

    def _check_lines(self, piece: bytes) -> None:
        """Refuse a piece with a line that is too long."""
        if len(piece) <= self._longest:
            return
        ends = np.flatnonzero(np.frombuffer(piece, dtype=np.uint8) == ord("\n"))
        long = np.flatnonzero(np.diff(ends, prepend=-1, append=len(piece)) > self._longest + 1)
        if len(long):
            self._line += int(long[0])
            self._check(piece)

    def _check(self, line: bytes) -> None:
        """Refuse a line that is too long, and a file that expands too much."""
        if len(line) > self._longest + 1:
            where, found = f"{self._path}, line {self._line}", f"more than {self._longest:,} bytes"
            raise refusal("LINE", where, found)
        if self._is_packed and self._file.tell() > self._most:
            found = (
                f"{self._size:,} bytes that expand to more than {self._most - 1:,}, too many times"
            )
            raise refusal("EXPANSION", str(self._path), found)
