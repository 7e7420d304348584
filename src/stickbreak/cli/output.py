"""What commands print and write: text for people, one JSON object for programs, and files.

Files are written completely or not at all.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stickbreak import targets
from stickbreak.stats import Array

__all__ = [
    "check_target",
    "configure_logs",
    "format_table",
    "plain",
    "print_json",
    "print_lines",
    "write_rows",
]


def configure_logs(options: dict[str, Any]) -> int:
    """Send progress to the terminal as a live line (returns 1, for `verbose`), else to log lines.

    For log lines it returns 0.
    """
    quiet, verbose = bool(options.get("quiet")), bool(options.get("verbose"))
    if quiet and verbose:
        raise ValueError("--quiet and --verbose contradict each other")
    logging.getLogger("stickbreak").setLevel(logging.DEBUG if verbose else logging.WARNING)
    is_live = sys.stderr.isatty() and not quiet
    logging.getLogger("stickbreak.progress").setLevel(
        logging.WARNING if quiet or is_live else logging.INFO
    )
    return int(is_live)


def check_target(path: Path | None, suffixes: tuple[str, ...] = (), option: str = "--out") -> None:
    """Raise a clear error now for a file that could not be written later."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} {path}: expected a {' or '.join(suffixes)} file")
    try:
        folder = targets.check_target(path).parent
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"{option} {path}: {error}") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {path}: nothing may be written to {folder}")


def plain(value: Any) -> Any:
    """The value as JSON has it: arrays become lists, and numbers that are not finite null."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def print_json(value: dict[str, Any]) -> None:
    """Print an object on one line."""
    print_lines([json.dumps(plain(value), allow_nan=False)])


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout; letters that it cannot take, such as in names of files, as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        text = line.encode(encoding, "backslashreplace").decode(encoding)
        sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def format_table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A table with columns of the width they need, numbers on the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]


def write_rows(path: Path | None, parts: Iterator[Array], header: list[str], n_rows: int) -> None:
    """Write parts (n,) or (n, K), one after another.

    As text with a header to stdout or a `.csv` file, or to a `.npy` file.
    """
    if path is None:
        sys.stdout.write(",".join(header) + "\n")
        for part in parts:
            sys.stdout.write(_text(part))
        sys.stdout.flush()
        return
    with targets.replacing(path) as file:
        if path.suffix.lower() == ".npy":
            _write_npy(file, parts, n_rows)
        else:
            file.write((",".join(header) + "\n").encode())
            for part in parts:
                file.write(_text(part).encode())


def _text(part: Array) -> str:
    """Lines of numbers, each with the digits needed to read it back exactly, and of names."""
    rows = part[:, None] if part.ndim == 1 else part
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows.tolist())


def _cell(value: Any) -> str:
    """A number, or a name, quoted where a table needs it."""
    if not isinstance(value, str):
        return repr(value)
    return '"' + value.replace('"', '""') + '"' if any(c in value for c in ',"\r\n') else value


def _write_npy(file: Any, parts: Iterator[Array], n_rows: int) -> None:
    is_begun = False
    for part in parts:
        if not is_begun:
            shape = (n_rows, *part.shape[1:])
            description = {"descr": part.dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, description)
            is_begun = True
        file.write(np.ascontiguousarray(part).data)
