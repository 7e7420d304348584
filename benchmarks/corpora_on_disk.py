"""Fits of a million short documents in a file: anonymous memory, and CPU time as documents grow."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .child import run_python
from .report import Report, Row

SIZES = (250_000, 500_000, 1_000_000)
N_WORDS, N_TOPICS, TOKENS, LAPS = 20_000, 20, 20, 2
MOST_MEGABYTES, MOST_GROWTH, MOST_EXPONENT = 700, 1.25, 1.1
CHUNK = 20_000
NOTE = f"""\
LDA-C files of documents of {TOKENS} words from {N_TOPICS} topics over {N_WORDS:,} words, read and
fitted by `LatentDirichletAllocation({N_TOPICS})`, {LAPS} laps, `MemoizedVB(memory_limit=1 << 26)`,
in a process of its own. `RssAnon`, sampled every 20 ms; pages of the temporary files that hold the
counts are not counted. MB are 2**20 bytes. In memory are: one batch; a sample of documents with the
shares that a start sweeps (64 MB, and temporary copies of them); remembered counts up to
`memory_limit` (the rest in a file); 16 bytes for each document."""

CODE = """
import json, sys, time
import stickbreak as sb
from benchmarks.anonymous import AnonymousPeak

engine = sb.MemoizedVB(max_iter=int(sys.argv[3]), memory_limit=1 << 26)
model = sb.LatentDirichletAllocation(int(sys.argv[2]), inference=engine, random_state=0)
with AnonymousPeak() as memory:
    began = time.process_time()
    corpus = sb.read_corpus(sys.argv[1])
    read = time.process_time() - began
    model.fit(corpus)
    cpu = time.process_time() - began
print(json.dumps({"before": memory.before, "peak": memory.peak, "cpu": cpu, "read": read,
    "bound": model.lower_bound_ / corpus.counts.sum()}))
"""


def write_documents(path: Path, n: int) -> None:
    """Documents of one to three topics of 1,000 words each, written piece by piece."""
    rng = np.random.default_rng(0)
    ranks = 1.0 / np.arange(1, N_WORDS // N_TOPICS + 1)
    edges = np.cumsum(ranks / ranks.sum())
    with path.open("w") as file:
        for lo in range(0, n, CHUNK):
            size = min(CHUNK, n - lo)
            own = rng.integers(N_TOPICS, size=(size, 3))
            topics = np.take_along_axis(own, rng.integers(3, size=(size, TOKENS)), axis=1)
            words = np.searchsorted(edges, rng.random((size, TOKENS)))
            words = np.sort(np.minimum(words, len(edges) - 1) * N_TOPICS + topics, axis=1)
            for line in words:
                symbols, counts = np.unique(line, return_counts=True)
                pairs = (f"{v}:{c}" for v, c in zip(symbols, counts, strict=True))
                file.write(f"{len(symbols)} {' '.join(pairs)}\n")


def measure_fit(n: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stickbreak-bench-") as folder:
        path = Path(folder) / "documents.ldac"
        write_documents(path, n)
        found = run_python(CODE, str(path), str(N_TOPICS), str(LAPS))
        return {**found, "size": path.stat().st_size / (1 << 20)}


def run(quick: bool = False) -> Report:
    title = f"Corpora on disk: K={N_TOPICS}, MemoizedVB, {LAPS} laps"
    if not sys.platform.startswith("linux"):
        note = "Skipped: anonymous memory is read from /proc, which this system does not have."
        return Report(title, [], (note,))
    sizes = [n // 20 for n in SIZES] if quick else SIZES
    found = [measure_fit(n) for n in sizes]
    rows = []
    for n, f in zip(sizes, found, strict=True):
        what = f"{n:,} documents ({f['size']:.0f} MB): peak anonymous memory"
        target = f"under {MOST_MEGABYTES} MB"
        met = f["peak"] < MOST_MEGABYTES
        rows.append(Row(what, f"{f['peak']:.0f} MB", f"{f['before']:.0f} MB", "-", target, met))
        rows.append(
            Row(f"{n:,} documents: CPU seconds", f"{f['cpu']:.1f}, reading {f['read']:.1f}")
        )
    growth = found[-1]["peak"] / found[0]["peak"]
    exponent = math.log(found[-1]["cpu"] / found[0]["cpu"]) / math.log(sizes[-1] / sizes[0])
    rows.append(
        Row(
            "memory at four times the documents", f"{found[-1]['peak']:.0f} MB",
            f"{found[0]['peak']:.0f} MB", f"{growth:.2f}x", f"at most {MOST_GROWTH}x",
            growth <= MOST_GROWTH or quick,
        )
    )  # fmt: skip
    told = f"at most {MOST_EXPONENT}"
    rows.append(
        Row("exponent of CPU time", f"{exponent:.2f}", target=told, met=exponent <= MOST_EXPONENT)
    )
    return Report(title, rows, (NOTE,), peer="after imports, or of the fewest")
