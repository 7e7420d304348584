"""Lines of files of sentences: plain, `.gz`, or members of a `.zip`."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from stickbreak.errors import in_one_line

from .lines import LineReader

__all__ = ["Line", "iter_lines"]

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile, NotImplementedError)


class Line(NamedTuple):
    """A line of text without its end. where : file and number, for messages."""

    text: str
    where: str


def iter_lines(
    path: str | Path, *, member: str | None = None, encoding: str = "utf-8"
) -> Iterator[Line]:
    """Every line, in order, read when it is asked for.

    member : of a `.zip`, the name of a file in it, or a pattern like "*/combined/*.mrg"; those
        that match follow each other, sorted by name
    """
    path = Path(path)
    is_zip = path.suffix.lower() == ".zip"
    if (member is not None) != is_zip:
        remedy = "name one with member=" if is_zip else "leave member= out"
        raise ValueError(
            f"{path} {'has' if is_zip else 'is not a .zip and has no'} members; {remedy}"
        )
    try:
        if member is None:
            is_packed = path.suffix.lower() == ".gz"
            with gzip.open(path, "rb") if is_packed else path.open("rb") as file:
                yield from _lines(path, str(path), file, encoding)
            return
        with zipfile.ZipFile(path) as archive:
            names = sorted(n for n in archive.namelist() if n == member or fnmatch(n, member))
            if not names:
                raise ValueError(f"{path} has no member {member!r}")
            for name in names:
                with archive.open(name) as file:
                    yield from _lines(path, f"{path}, {name}", file, encoding)
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged: {in_one_line(error)}") from None


def _lines(path: Path, name: str, file: Any, encoding: str) -> Iterator[Line]:
    for first, piece in LineReader(path, file).pieces():
        for number, raw in enumerate(piece.split(b"\n"), first):
            where = f"{name}, line {number}"
            try:
                yield Line(raw.rstrip(b"\r").decode(encoding), where)
            except UnicodeDecodeError:
                raise ValueError(f"{where} is not {encoding} text") from None
