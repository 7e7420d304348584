"""Data files of every format that the command line reads, damaged in every way that we know.

A mutant is a file and a command for it, and a function of its number alone.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.mutations import (
    Rng,
    claim_sizes,
    flip_bits,
    insert_bytes,
    npy_bytes,
    npz_bytes,
    remove_bytes,
    repeat_bytes,
    replace_bytes,
    truncate,
)

import stickbreak as sb

__all__ = ["mutate_file", "sound_files", "write_models"]

GIANTS = [
    b"1e999", b"-1e308", b"99999999999999999999", b"5000000", b"50000000", b"1e20", b"-1", b"nan",
    b"0x1F", b"1_000", b"1" * 5000, b"inf", b"-inf", b"1e-400", b"9223372036854775807", b"True",
    "٣".encode(), b"2147483648", b"",
]  # fmt: skip
GARBAGE = [
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08", b"PK\x03\x04", b"PAR1", b"\x93NUMPY",
    b'"', b'""', b"'", b"\r", b"\r\n", b"\n\n\n", b"\t", b",,,,", b";", b":", b"\x1b[31m", b"#",
    "ü".encode("latin-1"), "\u2028".encode(), b"(1, 2)", b"{", b"\x85",
]  # fmt: skip
FEW_LAPS = ("--max-iter", "3", "--seed", "0", "-q", "--n-components", "2")


# ---- what is sound -------------------------------------------------------------------------------


def _tables(rng: Rng) -> dict[str, bytes]:
    rows = np.round(rng.normal(size=(12, 3)), 3)
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    words = [f"{line},{'red' if i % 2 else 'blue'},s{i // 4}" for i, line in enumerate(lines)]
    symbols = ["p,q,r", *(f"{i % 2},{i % 2},{(i + 1) % 2}" for i in range(12))]
    return {
        "a.csv": "\n".join(["a,b,c", *lines, ""]).encode(),
        "quoted.csv": "\n".join(['"a"', *(f'"{line.split(",")[0]}"' for line in lines)]).encode(),
        "mixed.csv": "\n".join(["a,b,c,color,who", *words, ""]).encode(),
        "symbols.csv": "\n".join(symbols).encode(),
        "t.tsv": "\n".join(["a\tb\tc", *(line.replace(",", "\t") for line in lines)]).encode(),
        "x.npy": npy_bytes(rows),
        "x.npz": npz_bytes(8, x=npy_bytes(rows)),
        "two.npz": npz_bytes(0, x=npy_bytes(rows), y=npy_bytes(np.arange(4))),
        "p.parquet": _parquet(rows, None),
        "w.parquet": _parquet(rows, ["red", "blue"] * 6),
    }


def _parquet(rows: Any, words: list[str] | None) -> bytes:
    import polars as pl

    out = io.BytesIO()
    columns: dict[str, Any] = {"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}
    if words is not None:
        columns["color"] = words
    pl.DataFrame(columns).write_parquet(out, compression="snappy" if words is None else "zstd")
    return out.getvalue()


def _corpora(rng: Rng) -> dict[str, bytes]:
    counts = rng.poisson(0.8, (10, 9))
    counts[:, 0] += 1
    names = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibex"]
    ldac, texts, triples = [], [], []
    for s, line in enumerate(counts.tolist()):
        own = [(v, n) for v, n in enumerate(line) if n]
        ldac.append(" ".join([str(len(own)), *(f"{v}:{n}" for v, n in own)]))
        texts.append(" ".join(names[v] for v, n in own for _ in range(n)))
        triples += [f"{s + 1} {v + 1} {n}" for v, n in own]
    docword = "\n".join(["10", "9", str(len(triples)), *triples, ""]).encode()
    found = {
        "d.ldac": ("\n".join(ldac) + "\n").encode(),
        "d.txt": ("\n".join(texts) + "\n").encode(),
        "docword.d.txt": docword,
    }
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in found.items()}
    return {**found, **packed, "vocab.txt": ("\n".join(names) + "\n").encode()}


def _commands(name: str, path: str) -> list[list[str]]:
    """Commands that read a file of this name; models are in the same folder."""
    if name == "vocab.txt":
        return [
            ["fit", "lda", "sound.ldac", "--words", path, *FEW_LAPS],
            ["score", "topics.stickbreak", "sound.ldac", "--words", path],
        ]
    if name.startswith(("d.", "docword")):
        return [
            ["fit", "lda", path, *FEW_LAPS],
            ["fit", "hdp-topics", path, "--no-moves", *FEW_LAPS],
            ["score", "topics.stickbreak", path],
            ["predict", "topics.stickbreak", path, "--proba", "--json"],
            ["fit", "lda", path, "--words", "sound.vocab", *FEW_LAPS],
        ]
    if name in ("mixed.csv", "w.parquet"):
        own = "gaussian:a,b,c;categorical:color" + (";categorical:*" if name == "mixed.csv" else "")
        found = [["fit", "mixture", path, "--family", own, *FEW_LAPS]]
        if name == "mixed.csv":
            found += [
                ["fit", "hmm", path, "--sequence-id", "who", "--columns", "a,b,c", *FEW_LAPS],
                ["predict", "mixed.stickbreak", path],
                ["fit", "mixture", path, "--columns", "color", "--family", "bernoulli", *FEW_LAPS],
            ]
        return found
    fit = ["fit", "mixture", path, "--family"]
    if name == "symbols.csv":
        return [
            [*fit, "categorical", *FEW_LAPS],
            [*fit, "multinomial", *FEW_LAPS],
            ["fit", "hmm", path, "--family", "poisson", *FEW_LAPS],
            ["fit", "dp-mixture", path, "--family", "bernoulli", "--no-moves", *FEW_LAPS],
            ["fit", "hdp-hmm", path, "--family", "categorical", "--no-moves", *FEW_LAPS],
        ]
    use = [] if name == "quoted.csv" else [
        ["predict", "table.stickbreak", path, "--proba"],
        ["score", "table.stickbreak", path, "--json"],
        ["fit", "hmm", path, "--family", "autoregressive", *FEW_LAPS],
    ]  # fmt: skip
    return [
        [*fit, "diagonal", *FEW_LAPS],
        [*fit, "gaussian", *FEW_LAPS],
        [*fit, "zero-mean", *FEW_LAPS, "--header" if name.endswith("csv") else "--n-jobs=1"],
        ["fit", "mixture", path, "--stream", "--seed", "0", "-q"],
        *use,
    ]


# ---- what is not ---------------------------------------------------------------------------------


def _giant(data: bytearray, rng: Rng) -> None:
    """A number of the text becomes a giant, or something that only looks like one."""
    digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return insert_bytes(data, rng)
    at = int(rng.choice(digits))
    data[at : at + 1] = GIANTS[int(rng.integers(len(GIANTS)))]
    return None


def _garbage(data: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(data) + 1))
    data[at:at] = GARBAGE[int(rng.integers(len(GARBAGE)))] * int(rng.integers(1, 4))


def _header_again(data: bytearray, rng: Rng) -> None:
    """The first line once more, somewhere; or a name of it twice."""
    first, *rest = bytes(data).split(b"\n")
    lines = [first, *rest]
    if rng.random() < 0.5 or b"," not in first:
        lines.insert(int(rng.integers(1, len(lines) + 1)), first)
    else:
        names = first.split(b",")
        lines[0] = b",".join([names[0], *names[:-1]])
    data[:] = b"\n".join(lines)


def _ragged(data: bytearray, rng: Rng) -> None:
    """A cell more or less in some line."""
    lines = bytes(data).split(b"\n")
    at = int(rng.integers(len(lines)))
    mark = next((m for m in (b",", b"\t", b" ") if m in lines[at]), b",")
    parts = lines[at].split(mark)
    lines[at] = mark.join(parts[:-1] if rng.random() < 0.5 else [*parts, parts[0]])
    data[:] = b"\n".join(lines)


def _recode(data: bytearray, rng: Rng) -> None:
    code = str(rng.choice(["utf-16", "utf-32", "utf-8-sig", "cp037", "utf-7"]))
    data[:] = bytes(data).decode("latin-1").encode(code, "replace")


def _empty(data: bytearray, rng: Rng) -> None:
    data[:] = [b"", b"\n", b" ", b"\0" * 64, b"\n" * 300, b"0\n"][int(rng.integers(6))]


def _pack(data: bytearray, rng: Rng) -> None:
    """Compressed once more, or several times; sometimes cut."""
    for _ in range(int(rng.integers(1, 4))):
        data[:] = gzip.compress(bytes(data), mtime=0)
    if rng.random() < 0.3:
        truncate(data, rng)


def _shuffle_lines(data: bytearray, rng: Rng) -> None:
    lines = bytes(data).split(b"\n")
    data[:] = b"\n".join(lines[i] for i in rng.permutation(len(lines)))


def _long_line(data: bytearray, rng: Rng) -> None:
    """One line of some 100 kB without an end."""
    mark = [b"1", b"1,", b"1 ", b'"', b"a", b"1:1 ", b"\t"][int(rng.integers(7))]
    data += mark * (100_000 // len(mark))


def _other_ends(data: bytearray, rng: Rng) -> None:
    data[:] = bytes(data).replace(b"\n", [b"\r", b"\r\n", b"\n\n", b"\0\n"][int(rng.integers(4))])


DAMAGES: list[Callable[[bytearray, Rng], Any]] = [
    flip_bits, replace_bytes, truncate, insert_bytes, remove_bytes, repeat_bytes, claim_sizes,
    _giant, _giant, _garbage, _garbage, _header_again, _ragged, _recode, _empty, _pack,
    _shuffle_lines, _long_line, _other_ends,
]  # fmt: skip


def _damaged(name: str, content: bytes, rng: Rng) -> bytes:
    """A damaged copy. Half of the compressed files are damaged inside."""
    is_inside = name.endswith(".gz") and rng.random() < 0.5
    data = bytearray(gzip.decompress(content) if is_inside else content)
    for _ in range(int(rng.integers(1, 3))):
        change = DAMAGES[int(rng.integers(len(DAMAGES)))]
        if len(data):
            change(data, rng)
    return gzip.compress(bytes(data), mtime=0) if is_inside else bytes(data)


# ---- all -----------------------------------------------------------------------------------------


def write_models(folder: Path) -> None:
    """Models that mutants are given to, and sound files that commands need."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    few: dict[str, Any] = {"inference": sb.MemoizedVB(max_iter=30, tol=1e-2), "random_state": 0}
    sb.Mixture(2, **few).fit(rows).save(folder / "table.stickbreak")
    corpora = _corpora(np.random.default_rng(1))
    (folder / "sound.ldac").write_bytes(corpora["d.ldac"])
    (folder / "sound.vocab").write_bytes(corpora["vocab.txt"])
    corpus = sb.read_corpus(folder / "sound.ldac", words=folder / "sound.vocab")
    sb.LatentDirichletAllocation(2, **few).fit(corpus).save(folder / "topics.stickbreak")
    (folder / "sound.csv").write_bytes(_tables(np.random.default_rng(1))["mixed.csv"])
    family = sb.Product({"gaussian": ["a", "b", "c"]}, rest="categorical")
    sb.Mixture(2, family=family, **few).fit(folder / "sound.csv").save(folder / "mixed.stickbreak")


def sound_files() -> dict[str, bytes]:
    """A file of each format, by name."""
    rng = np.random.default_rng(0)
    return {**_tables(rng), **_corpora(rng)}


def mutate_file(files: dict[str, bytes], number: int) -> tuple[str, bytes, list[str]]:
    """The name and content of a damaged copy, the files in turn, and a command that reads it."""
    rng = np.random.default_rng([0, number])
    original = sorted(files)[number % len(files)]
    content = _damaged(original, files[original], rng)
    name = f"m.{original}"
    if original.startswith("docword"):
        name = f"docword.m.{original.removeprefix('docword.')}"
    commands = _commands(original, name)
    return name, content, commands[int(rng.integers(len(commands)))]
