"""NumPy files (`.npy`, `.npz`), read safely: nothing is unpickled, and headers are checked."""

from __future__ import annotations

import math
import os
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stickbreak.errors import in_one_line

from .limits import limit, refusal
from .spool import spool

__all__ = ["ArraySource", "find_array", "open_npy"]

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]

PIECE_VALUES = 1 << 18  # values read at once
DAMAGE = (
    ValueError,
    EOFError,
    SyntaxError,
    TypeError,
    KeyError,
    RecursionError,
    MemoryError,
    OverflowError,
    tokenize.TokenError,
)
ZIP_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OSError,
)


@dataclass(frozen=True)
class Header:
    """Layout of an array as its header states it."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_table(self) -> bool:
        return len(self.shape) == 2 and self.dtype.kind in "fiub"


def read_header(stream: IO[bytes]) -> Header:
    """The header of an array in NumPy's format; ValueError for anything else.

    Arrays of objects are refused by their type alone.
    """
    try:
        with warnings.catch_warnings():
            # headers of old releases, and types that NumPy warns about
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(
                    stream, max_header_size=limit("HEADER")
                )
            elif version == (2, 0):
                shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(
                    stream, max_header_size=limit("HEADER")
                )
            else:
                raise ValueError(
                    f"its format {version[0]}.{version[1]} is not one of plain numbers"
                )
    except DAMAGE as error:
        raise ValueError(in_one_line(error)) from None
    if dtype.hasobject:
        raise ValueError("it holds objects, which are never unpickled")
    if any(isinstance(n, bool) or n < 0 for n in shape):
        raise ValueError(f"its shape {shape} makes no sense")
    return Header(tuple(int(n) for n in shape), bool(is_fortran), dtype)


def open_npy(path: Path) -> Array:
    """A `.npy` file as a memory map."""
    with path.open("rb") as file:
        try:
            header = read_header(file)
        except ValueError as error:
            raise ValueError(f"{path} is not a .npy file of numbers: {error}") from None
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
    if not header.is_table:
        raise ValueError(
            f"{path} must hold a table (2 dimensions) of numbers; got shape "
            f"{header.shape} and dtype {header.dtype}"
        )
    _require_some(path, header)
    if header.n_bytes > size - offset:
        raise ValueError(
            f"{path} is not a .npy file of numbers: its header claims {header.n_bytes:,} bytes, "
            f"{size - offset:,} follow"
        )
    order: Any = "F" if header.is_fortran else "C"
    return np.memmap(
        path, dtype=header.dtype, mode="r", offset=offset, shape=header.shape, order=order
    )


@dataclass(frozen=True)
class ArraySource:
    """One table in an archive."""

    path: Path
    member: str
    header: Header

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.header.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.header.shape[0]

    def pieces(self, wanted: Array, report: Report | None = None) -> Iterator[Array]:
        """Numbers (n, D) of the columns at positions `wanted`, piece by piece."""
        n_rows, n_columns = self.header.shape
        if not self.header.is_fortran:
            for values in self._values(n_columns, report):
                yield values.reshape(-1, n_columns)[:, wanted]
            return
        rows = (
            spool((values[:, None] for values in self._values(1, report)), 1)
            .reshape(n_columns, n_rows)
            .T
        )
        step = max(1, PIECE_VALUES // n_columns)
        yield from (rows[lo : lo + step, wanted] for lo in range(0, n_rows, step))

    def _values(self, unit: int, report: Report | None) -> Iterator[Array]:
        """Stored values in file order, as float64, in pieces whose size is a multiple of `unit`."""
        count, seen = math.prod(self.header.shape), 0
        step = max(1, PIECE_VALUES // unit) * unit
        with _open_archive(self.path) as archive, archive.open(self.member) as stream:
            try:
                read_header(stream)
                while seen < count:
                    payload = _read_exactly(
                        stream, min(step, count - seen) * self.header.dtype.itemsize
                    )
                    yield np.frombuffer(payload, self.header.dtype).astype(np.float64)
                    seen += min(step, count - seen)
                    if report is not None:
                        report(seen, count)
            except ZIP_DAMAGE as error:
                raise ValueError(
                    f"{self.path} is damaged: {self.member}: {in_one_line(error)}"
                ) from None


def find_array(path: Path, name: str | None = None) -> ArraySource:
    """The array called `name` in a `.npz` file; without a name, its only table."""
    with _open_archive(path) as archive:
        members = archive.infolist()
        if len(members) > limit("MEMBERS"):
            raise refusal("MEMBERS", str(path), f"{len(members):,} members")
        names = [m.filename.removesuffix(".npy") for m in members]
        if name is not None and name not in names:
            raise ValueError(
                f"{path} has no array {name!r}; it has {', '.join(names[:10]) or 'none'}"
            )
        chosen = [m for m, n in zip(members, names, strict=True) if name is None or n == name]
        found = [
            (m, h)
            for m in chosen
            if (h := _member_header(path, archive, m, is_named=name is not None)) is not None
        ]
        tables = [(m, h) for m, h in found if h.is_table]
        if len(tables) != 1:
            shapes = ", ".join(
                f"{m.filename.removesuffix('.npy')} {h.shape} {h.dtype}" for m, h in found[:10]
            )
            what = (
                "is not a table (2 dimensions) of numbers"
                if name is not None
                else f"has {len(tables)} tables of numbers, not one"
            )
            remedy = "" if len(tables) < 2 else "; choose one with array= (--array)"
            raise ValueError(f"{path} {what}: {shapes or 'it is empty'}{remedy}")
        member, header = tables[0]
    _require_some(path, header)
    return ArraySource(path, member.filename, header)


def _member_header(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, *, is_named: bool
) -> Header | None:
    """The header of a member; None for a member that is no array, unless it was asked for."""
    try:
        with archive.open(member) as stream:
            header = read_header(stream)
            rest = member.file_size - stream.tell()
    except ZIP_DAMAGE as error:
        if not is_named and not member.filename.endswith(".npy"):
            return None
        raise ValueError(
            f"{path}: {member.filename} is not an array of numbers: {in_one_line(error)}"
        ) from None
    if header.n_bytes > rest:
        raise ValueError(
            f"{path}: the header of {member.filename} claims {header.n_bytes:,} "
            f"bytes, {rest:,} follow"
        )
    return header


def _require_some(path: Path, header: Header) -> None:
    n_rows, n_columns = header.shape
    if n_rows < 1 or n_columns < 1:
        raise ValueError(
            f"Found array with {n_rows} sample(s) and {n_columns} feature(s) in {path}; at least "
            "one of each is needed"
        )
    if n_columns > limit("COLUMNS"):
        raise refusal("COLUMNS", str(path), f"{n_columns:,} columns")


def _open_archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except ZIP_DAMAGE as error:
        raise ValueError(f"{path} is not a .npz file: {in_one_line(error)}") from None


def _read_exactly(stream: IO[bytes], n_bytes: int) -> bytes:
    payload = stream.read(n_bytes)
    if len(payload) != n_bytes:
        raise EOFError(f"{n_bytes - len(payload):,} bytes are missing")
    return payload
