"""Damage to files: by chance, and on purpose. Every mutation is a function of its number alone."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from stickbreak.persist import _digest

Rng = np.random.Generator

ODD_VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**13, 1e308, -1e308, 1e-320, float("nan"),
    float("inf"), "", "x", "Mixture",
    "Gaussian", "BatchVB", [], [0], [[[]]], {}, {"class": "Gaussian", "params": {}},
    {"class": "os.system", "params": {"command": "true"}}, {"array": "none"}, {"array": ["x"]},
    "\x00", "9" * 400, "k-means||",
]  # fmt: skip
ODD_NUMBERS = [0.0, -0.0, -1.0, 1e-320, 1e-300, 1e150, 1e308, -1e308, np.nan, np.inf, -np.inf]
ODD_POSITIONS = [0, 1, 7, 10**6, 2**30]
ODD_SHAPES = [(), (0,), (1,), (3,), (2, 0), (1, 1, 1), (7, 7), (1, 1000)]
HUGE = [2**8 - 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
ASCII = list(b"0123456789\"{}[],:.eE-+ \n\r\t\x00nNaA_'(")


# ---- bytes ---------------------------------------------------------------------------------------


def flip_bits(data: bytearray, rng: Rng) -> None:
    for at in rng.integers(0, len(data), rng.integers(1, 5)):
        data[at] ^= 1 << int(rng.integers(8))


def replace_bytes(data: bytearray, rng: Rng) -> None:
    for at in rng.integers(0, len(data), rng.integers(1, 9)):
        data[at] = int(rng.choice(ASCII)) if rng.random() < 0.5 else int(rng.integers(256))


def truncate(data: bytearray, rng: Rng) -> None:
    del data[int(rng.integers(len(data))) :]


def insert_bytes(data: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(data) + 1))
    data[at:at] = bytes(rng.choice(ASCII, int(rng.integers(1, 40))).astype(np.uint8))


def remove_bytes(data: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(data)))
    del data[at : at + int(rng.integers(1, 60))]


def repeat_bytes(data: bytearray, rng: Rng) -> None:
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 200))
    data[at:at] = data[at : at + size] * int(rng.integers(1, 4))


def claim_sizes(data: bytearray, rng: Rng) -> None:
    """A large whole number in two, four or eight bytes, anywhere; often in the first bytes or at
    the end, where sizes stand.
    """
    size = int(rng.choice([2, 4, 8]))
    place = rng.random()
    last = max(1, len(data) - size)
    at = (
        int(rng.integers(min(64, last)))
        if place < 0.3
        else int(rng.integers(max(0, last - 100), last))
        if place < 0.6
        else int(rng.integers(last))
    )
    data[at : at + size] = (
        int(rng.choice(np.array(HUGE, dtype=object))) % 2 ** (8 * size)
    ).to_bytes(size, "little")


BYTES: list[Callable[[bytearray, Rng], None]] = [
    flip_bits, replace_bytes, truncate, insert_bytes, remove_bytes, repeat_bytes, claim_sizes,
]  # fmt: skip


def damage(payload: bytes, rng: Rng) -> bytes:
    """One to three random changes of the bytes."""
    data = bytearray(payload)
    for _ in range(int(rng.integers(1, 4))):
        if data:
            BYTES[int(rng.integers(len(BYTES)))](data, rng)
    return bytes(data)


# ---- model files ---------------------------------------------------------------------------------


def split(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """The table of a safetensors file, and what follows it."""
    (size,) = struct.unpack("<Q", payload[:8])
    return json.loads(payload[8 : 8 + size]), payload[8 + size :]


def join(table: dict[str, Any], rest: bytes) -> bytes:
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + rest


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) of nested JSON."""
    for key, inner in (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    ):
        found.append((value, key))
        places(inner, found)
    return found


def change_json(value: Any, rng: Rng) -> None:
    """Exchange, drop, rename or swap some values."""
    for _ in range(int(rng.integers(1, 4))):
        found = places(value, [])
        if not found:
            return
        container, key = found[int(rng.integers(len(found)))]
        what = rng.random()
        if what < 0.6:
            container[key] = json.loads(
                json.dumps(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])
            )  # a copy: it may be changed next
        elif what < 0.75:
            del container[key]
        elif what < 0.85 and isinstance(container, dict):
            container[f"{key}x"] = container.pop(key)
        else:
            other, at = found[int(rng.integers(len(found)))]
            container[key] = json.loads(json.dumps(other[at]))


def change_header(payload: bytes, rng: Rng) -> bytes:
    """Other values in the header of a model, with a digest that fits: the file is whole,
    and lies.
    """
    table, rest = split(payload)
    inner = json.loads(table["__metadata__"]["header"])
    change_json(inner, rng)
    text = json.dumps(inner)
    table["__metadata__"].update(header=text, digest=_digest(text, load_tensors(payload)))
    return join(table, rest)


def change_table(payload: bytes, rng: Rng) -> bytes:
    """Other names, types, shapes and places in the table of arrays."""
    table, rest = split(payload)
    change_json(table, rng)
    return join(table, rest)


def change_arrays(payload: bytes, rng: Rng) -> bytes:
    """Other numbers and shapes in the arrays, with a digest that fits."""
    table, _ = split(payload)
    arrays = {name: np.array(array) for name, array in load_tensors(payload).items()}
    for name in rng.choice(sorted(arrays), int(rng.integers(1, 3))):
        array, what = arrays[name], rng.random()
        if what < 0.55 and array.size and array.dtype.kind == "f":
            array.reshape(-1)[int(rng.integers(array.size))] = rng.choice(ODD_NUMBERS)
        elif what < 0.55 and array.size and array.dtype.kind in "iu":
            odd = np.int64(rng.choice(ODD_POSITIONS)).astype(array.dtype)
            array.reshape(-1)[int(rng.integers(array.size))] = odd
        elif what < 0.7:
            arrays[name] = np.asarray(array * rng.choice([-1.0, 0.0, 1e200, 1e-200]), array.dtype)
        elif what < 0.8:
            arrays[name] = np.zeros(ODD_SHAPES[int(rng.integers(len(ODD_SHAPES)))])
        elif what < 0.85:
            arrays[name] = np.array(arrays[str(rng.choice(sorted(arrays)))])
        else:
            arrays[name] = np.array(array, rng.choice(["f4", "i4", "u1", "?"]))
    metadata = table["__metadata__"]
    return save_tensors(arrays, {**metadata, "digest": _digest(metadata["header"], arrays)})


def mutate_model(payloads: list[bytes], number: int) -> bytes:
    """Mutation `number` of one of the files."""
    rng = np.random.default_rng([1, number])
    payload = payloads[number % len(payloads)]
    act = [damage, change_header, change_table, change_arrays][
        int(rng.choice(4, p=[0.4, 0.3, 0.1, 0.2]))
    ]
    with np.errstate(all="ignore"):
        return act(payload, rng)


def mutate_checkpoint(payload: bytes, number: int) -> bytes:
    """Mutation `number`, mostly with a digest that fits: those get further."""
    rng = np.random.default_rng([3, number])
    act = [damage, change_header, change_table, change_arrays][
        int(rng.choice(4, p=[0.15, 0.4, 0.05, 0.4]))
    ]
    with np.errstate(all="ignore"):
        return act(payload, rng)


# ---- data files ----------------------------------------------------------------------------------


class Bomb:
    """An object whose unpickling runs a command."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"echo unpickled > {self.marker}",)


def npy_bytes(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def npz_bytes(compression: int, **arrays: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in arrays.items():
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy", (2020, 1, 1, 0, 0, 0)), content, compression
            )
    return out.getvalue()


def data_files(marker: str) -> dict[str, bytes]:
    """Files of every kind, by name, good and hostile."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 3))
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    objects = npy_bytes(np.array([[Bomb(marker), 1], [2, 3]], dtype=object), allow_pickle=True)
    fortran = npy_bytes(np.asfortranarray(rows))
    huge = (
        npy_bytes(rows).replace(b"(12, 3)", b"(99999999999, 3)").replace(b"          \n", b"\n", 1)
    )
    return {
        "a.csv": "\n".join(["a,b,c", *lines, ""]).encode(),
        "b.csv": "\r\n".join([*lines, "", "NA,,nan", '"1","2.5",1e5']).encode(),
        "c.csv": ("\ufeffx, y ,z\n" + "\n".join(lines[:4]) + '\n"1",2,"3"\n').encode(),
        "d.tsv": "\n".join(["a\tb\tc", *(line.replace(",", "\t") for line in lines)]).encode(),
        "e.npy": npy_bytes(rows),
        "f.npy": fortran,
        "g.npy": objects,
        "h.npz": npz_bytes(zipfile.ZIP_STORED, x=npy_bytes(rows)),
        "i.npz": npz_bytes(zipfile.ZIP_DEFLATED, x=npy_bytes(rows), y=npy_bytes(np.arange(3))),
        "j.npz": npz_bytes(zipfile.ZIP_DEFLATED, x=fortran),
        "k.npz": npz_bytes(zipfile.ZIP_DEFLATED, x=objects),
        "l.npz": npz_bytes(zipfile.ZIP_DEFLATED, x=huge),
        "m.npz": npz_bytes(zipfile.ZIP_DEFLATED, x=npy_bytes(np.zeros((5000, 2)))),
    }


def mutate_data(files: dict[str, bytes], number: int) -> tuple[str, bytes]:
    """Mutation `number`: the name of a file, and its changed bytes."""
    rng = np.random.default_rng([2, number])
    name = sorted(files)[number % len(files)]
    payload = files[name]
    if name.endswith(("npy", "npz")) and rng.random() < 0.3:  # another header, in its place
        shape = str(
            tuple(
                int(rng.choice([0, 1, 3, 12, 36, 10**6, 2**31, 2**62]))
                for _ in range(int(rng.integers(0, 4)))
            )
        )
        descr = str(
            rng.choice(
                [
                    "'<f8'",
                    "'>f8'",
                    "'<i4'",
                    "'|O'",
                    "'<U9'",
                    "'|V8'",
                    "'<c16'",
                    "[('a', '<f8')]",
                    "'<f2'",
                    "'M8[s]'",
                    "'z'",
                ]
            )
        )
        order = rng.choice(["True", "False", "2", "x"])
        header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()
        made = (
            b"\x93NUMPY"
            + bytes([int(rng.integers(0, 4)), 0])
            + struct.pack("<H", len(header))
            + header
            + b"\0" * int(rng.integers(400))
        )
        payload = made if name.endswith("npy") else npz_bytes(int(rng.choice([0, 8])), x=made)
        return name, payload
    return name, damage(payload, rng)
