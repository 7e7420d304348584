"""Limits on what a file may ask for, all in one place: a damaged file must not take all memory.

Each is far above what sound files have. The environment variable `STICKBREAK_MAX_LINE` (and so on)
raises or lowers one, for the library and for the command line alike. It is read at every use.
"""

from __future__ import annotations

import os

__all__ = ["LIMITS", "MAX_CELL", "limit", "refusal"]

MAX_CELL = 1000  # bytes of a number or id in a text; no number has more, so nothing raises it

LIMITS: dict[str, tuple[int, str]] = {
    "LINE": (1 << 24, "bytes of a line of text"),
    "COLUMNS": (1 << 20, "columns of a table"),
    "SYMBOLS": (1_000_000, "words of a vocabulary, or symbols of all categorical columns"),
    "COUNT": (1_000_000_000, "occurrences of a word in a document"),
    "EMPTY_DOCUMENTS": (100_000, "documents without words"),
    "EXPANSION": (100, "times the size of a .gz that it may expand to, beyond the limit of a line"),
    "MEMBERS": (10_000, "arrays of a .npz file"),
    "HEADER": (10_000, "bytes of the header of an array in a .npy or .npz file"),
}
"""Name to default and meaning."""


def limit(name: str) -> int:
    """The limit in force: that of the environment, or the default."""
    given = os.environ.get(f"STICKBREAK_MAX_{name}")
    if given is None:
        return LIMITS[name][0]
    if not (given.isascii() and given.isdigit() and 0 < len(given) < 19 and int(given) > 0):
        raise ValueError(
            f"STICKBREAK_MAX_{name} must be a whole number of at least 1; got {given[:40]!r}"
        )
    return int(given)


def refusal(name: str, where: str, found: str) -> ValueError:
    """The error for a file that asks for more than the limit.

    where : file, and line where known. found : what it has, with the value.
    """
    return ValueError(
        f"{where} has {found}; the limit is {limit(name):,}, and STICKBREAK_MAX_{name} in the "
        "environment raises it"
    )
