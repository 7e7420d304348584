"""Files: arrays as safetensors with a JSON header, never pickle.

A file is written under a temporary name, flushed, then renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from stickbreak.errors import ModelFileError, in_one_line
from stickbreak.stats import Field, Fields, Summary

__all__ = [
    "FORMAT_VERSION", "pack_fields", "pack_summary", "read_file", "replacing",
    "unpack_fields", "unpack_summary", "write_bytes", "write_file",
]  # fmt: skip

Array = npt.NDArray[Any]

FORMAT_VERSION = 1
MAGIC = "stickbreak"
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL", "int64": "I64",
    "int32": "I32", "int16": "I16",
    "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
MAX_HEADER = 100_000_000  # the same limit as in safetensors


def write_bytes(path: str | Path, payload: bytes) -> None:
    """Replace a file completely or not at all."""
    with replacing(path) as file:
        file.write(payload)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces `path` if all goes well.

    It has a temporary name in the same folder; then fsync and rename.
    """
    path = Path(path).resolve()  # replace the target of a link, not the link
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _umask() -> int:
    """The mask of new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, on systems where folders can be opened (not Windows)."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # some file systems refuse; the file itself is safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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


class Tensors(Mapping[str, Array]):
    """The arrays of a file, read when requested."""

    def __init__(self, path: Path) -> None:
        opened: Any = safe_open
        self._file = opened(path, framework="numpy")
        self._names = frozenset(self._file.keys())

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return np.asarray(self._file.get_tensor(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_file(path: str | Path, kind: str) -> tuple[dict[str, Any], Mapping[str, Array]]:
    """Header and arrays of a file that `write_file` made.

    Any other file is a ModelFileError that says what is wrong.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    metadata = _read_metadata(path)
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
    try:
        header = json.loads(metadata["header"])
        arrays = Tensors(path)
        digest = _digest(metadata["header"], arrays)
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: {in_one_line(error)}") from None
    if not isinstance(header, dict):
        raise ModelFileError(f"{path} is damaged: its header is not an object")
    if metadata.get("digest", "") != digest:
        raise ModelFileError(f"{path} is damaged: its contents do not match their digest")
    return header, arrays


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


def _read_metadata(path: Path) -> dict[str, str]:
    """The string table of a safetensors header, read with care: the file may be malicious."""
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        if length < 8:
            raise ModelFileError(f"{path} is damaged: {length} bytes are too few for a header")
        (size,) = struct.unpack("<Q", file.read(8))
        if size > MAX_HEADER or 8 + size > length:
            raise ModelFileError(
                f"{path} is damaged or foreign: its header claims {size} bytes, "
                f"the file has {length}"
            )
        text = file.read(size)
    try:
        metadata = json.loads(text).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError):
        raise ModelFileError(f"{path} is not a stickbreak file") from None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ModelFileError(f"{path} is damaged: its metadata are not text")
    return metadata


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
