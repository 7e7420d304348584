"""Files: arrays as safetensors with a JSON header, never pickle."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stickbreak.errors import ModelFileError, in_one_line
from stickbreak.stats import Field, Fields, Summary
from stickbreak.targets import replacing

__all__ = [
    "FORMAT_VERSION", "pack_fields", "pack_summary", "read_file", "read_header", "unpack_fields",
    "unpack_summary", "write_file",
]  # fmt: skip

Array = npt.NDArray[Any]

FORMAT_VERSION = 1
MAGIC = "stickbreak"
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL", "int64": "I64",
    "int32": "I32", "int16": "I16",
    "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
TYPES = {short: name for name, short in DTYPES.items()}
MAX_HEADER = 100_000_000  # the same limit as in safetensors
MAX_AXES = 32


def write_file(
    path: str | Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write one file of a kind ("model", "checkpoint"): a JSON header and named arrays.

    Arrays are taken one at a time.
    """
    text = json.dumps(header)
    table: dict[str, Any] = {}
    at = 0
    for name in sorted(arrays):
        array = _contiguous(arrays[name])
        if array.dtype.name not in DTYPES:
            raise ValueError(
                f"{name} is an array of {array.dtype}, which cannot be written to a file"
            )
        table[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (at, at + array.nbytes),
        }
        at += array.nbytes
    metadata = {
        "format": MAGIC,
        "version": str(FORMAT_VERSION),
        "kind": kind,
        "header": text,
        "digest": _digest(text, arrays),
    }
    head = json.dumps({"__metadata__": metadata, **table}).encode()
    head += b" " * (-len(head) % 8)  # arrays start at a multiple of eight
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name in sorted(arrays):
            file.write(_bytes_of(_contiguous(arrays[name])))


@dataclass(frozen=True)
class Entry:
    """Where an array is in a file: its type and shape, and its first byte after the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int

    @property
    def n_bytes(self) -> int:
        """Length in bytes; Python's whole numbers, so that no shape overflows."""
        return math.prod(self.shape) * self.dtype.itemsize


class Tensors(Mapping[str, Array]):
    """The arrays of an open file, read when requested.

    The file is opened once: what is read belongs together even if another one takes its name.
    """

    def __init__(self, file: IO[bytes], entries: Mapping[str, Entry], begin: int) -> None:
        handle = os.dup(file.fileno())
        self._file = open(handle, "rb", buffering=0, closefd=False)  # noqa: SIM115
        weakref.finalize(self, os.close, handle)
        self._entries, self._begin = entries, begin

    def __getitem__(self, name: str) -> Array:
        entry = self._entries[name]
        out = np.empty(entry.shape, entry.dtype)
        self._file.seek(self._begin + entry.begin)
        rest = memoryview(_bytes_of(out))
        while len(rest):
            n_read = self._file.readinto(rest)
            if not n_read:
                raise ValueError(f"it ends within {name}")
            rest = rest[n_read:]  # the system may give less than asked for
        return out

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def read_file(path: str | Path, kind: str) -> tuple[dict[str, Any], Mapping[str, Array]]:
    """Header and arrays of a file that `write_file` made.

    Any other file is a ModelFileError that says what is wrong.
    """
    with _open(path) as file:
        metadata, entries, begin = _read_table(path, file, kind)
        header, arrays = _parse_header(path, metadata), Tensors(file, entries, begin)
        try:
            digest = _digest(metadata["header"], arrays)
        except (ValueError, MemoryError) as error:
            raise ModelFileError(f"{path} is damaged: {in_one_line(error)}") from None
        if metadata.get("digest", "") != digest:
            raise ModelFileError(f"{path} is damaged: its contents do not match their digest")
    return header, arrays


def read_header(path: str | Path, kind: str) -> dict[str, Any]:
    """The header alone, of a file whose arrays may be large. They are not compared with it."""
    with _open(path) as file:
        return _parse_header(path, _read_table(path, file, kind)[0])


def _open(path: str | Path) -> IO[bytes]:
    if not Path(path).is_file():  # a pipe would wait for a writer
        raise FileNotFoundError(f"no such file: {path}")
    return open(path, "rb")


def _parse_header(path: str | Path, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        header = json.loads(metadata["header"])
    except (KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: {in_one_line(error)}") from None
    if not isinstance(header, dict):
        raise ModelFileError(f"{path} is damaged: its header is not an object")
    return header


def _require_kind(path: str | Path, metadata: dict[str, str], kind: str) -> None:
    """Raise ModelFileError for a file of another program, release or kind."""
    if metadata.get("format") != MAGIC:
        raise ModelFileError(f"{path} is not a stickbreak file")
    version = metadata.get("version", "")
    if (
        not (version.isascii() and version.isdigit() and len(version) < 9)
        or int(version) > FORMAT_VERSION
    ):
        raise ModelFileError(
            f"{path} has format version {version[:20]!r}; this release reads up to "
            f"{FORMAT_VERSION}: upgrade stickbreak"
        )
    if metadata.get("kind") != kind:
        raise ModelFileError(
            f"{path} is a {metadata.get('kind', '')[:20]!r} file; expected a {kind!r} file"
        )


def _digest(text: str, arrays: Mapping[str, Array]) -> str:
    """A digest that detects a changed bit; it says nothing about who wrote the file."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(arrays):
        array = _contiguous(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _contiguous(array: Array) -> Array:
    """The array as files have it: C-contiguous and in native byte order; scalars stay scalars."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _bytes_of(array: Array) -> Any:
    """The memory of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def _read_table(
    path: str | Path, file: IO[bytes], kind: str
) -> tuple[dict[str, str], dict[str, Entry], int]:
    """Metadata, the places of the arrays, and where these begin. The file may be malicious."""
    length = os.fstat(file.fileno()).st_size
    if length < 8:
        raise ModelFileError(f"{path} is damaged: {length} bytes are too few for a header")
    (size,) = struct.unpack("<Q", file.read(8))
    if size > MAX_HEADER or 8 + size > length:
        raise ModelFileError(
            f"{path} is damaged or foreign: its header claims {size} bytes, the file has {length}"
        )
    try:
        table = json.loads(file.read(size))
        metadata = table.pop("__metadata__", {})
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ModelFileError(f"{path} is not a stickbreak file") from None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ModelFileError(f"{path} is damaged: its metadata are not text")
    _require_kind(path, metadata, kind)
    try:
        entries = {name: _read_entry(name, place) for name, place in table.items()}
        _require_all(entries, length - 8 - size)
    except ValueError as error:
        raise ModelFileError(f"{path} is damaged: {in_one_line(error)}") from None
    return metadata, entries, 8 + size


def _read_entry(name: str, place: Any) -> Entry:
    """One line of the table, checked: a name of a type, a shape, and as many bytes as they need."""
    try:
        dtype, shape, (begin, end) = (place[key] for key in ("dtype", "shape", "data_offsets"))
        whole = [*shape, begin, end]
        if not all(type(n) is int and n >= 0 for n in whole) or len(shape) > MAX_AXES:
            raise ValueError(f"shape {shape}, bytes {begin} to {end}")
        entry = Entry(np.dtype(TYPES[dtype]), tuple(shape), begin)
        if entry.n_bytes != end - begin:
            raise ValueError(f"shape {shape} of {dtype} in {end - begin} bytes")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its table says nonsense of the array {name!r}: {error!r}") from None
    return entry


def _require_all(entries: Mapping[str, Entry], n_bytes: int) -> None:
    """Raise ValueError unless the arrays follow each other without a gap to the file's end."""
    at = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.n_bytes)):
        if entry.begin != at:
            raise ValueError("its arrays overlap or leave gaps")
        at += entry.n_bytes
    if at != n_bytes:
        raise ValueError(f"its arrays take {at} bytes, and {n_bytes} are there")


# ------------------------------------------------------------------------------------------- fields


def pack_fields(fields: Fields, prefix: str, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
    """Put the arrays of Fields into `arrays` under `prefix`; returns their layout for JSON."""
    for name, array in fields.arrays.items():
        arrays[f"{prefix}/{name}"] = np.asarray(array)
    return {name: {**asdict(f), "axes": list(f.axes)} for name, f in fields.layout.items()}


def unpack_fields(layout: Mapping[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Fields:
    """Fields from what `pack_fields` made."""
    try:
        fields = {name: Field(**{**f, "axes": tuple(f["axes"])}) for name, f in layout.items()}
        return Fields(fields, {name: arrays[f"{prefix}/{name}"] for name in layout})
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"the file lacks the field {error}") from None


def pack_summary(
    summary: Summary, prefix: str, arrays: MutableMapping[str, Array]
) -> dict[str, Any]:
    """Like `pack_fields`, with the numbers and sides of a Summary."""
    if summary.index is not None:
        arrays[f"{prefix}.index"] = summary.index
    return {
        "layout": pack_fields(summary, prefix, arrays),
        "local_bound": summary.local_bound,
        "log_z": summary.log_z,
        "n_units": summary.n_units,
        "sides": {
            name: pack_summary(side, f"{prefix}.side.{name}", arrays)
            for name, side in summary.sides.items()
        },
    }


def unpack_summary(saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Summary:
    """The Summary from what `pack_summary` made."""
    fields: Fields = unpack_fields(saved["layout"], prefix, arrays)
    sides = {
        name: unpack_summary(side, f"{prefix}.side.{name}", arrays)
        for name, side in saved["sides"].items()
    }
    local_bound, log_z, n_units = (
        float(saved[name]) for name in ("local_bound", "log_z", "n_units")
    )
    return Summary(
        fields.layout,
        fields.arrays,
        local_bound,
        log_z,
        n_units,
        sides,
        arrays.get(f"{prefix}.index"),
    )
