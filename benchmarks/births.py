"""What an accepted birth costs as the data grow: documents with topics, sequences with states."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Documents, Sequences, measure
from stickbreak.families import Categorical, Gaussian
from stickbreak.inference import MemoizedVB, Scene, Start
from stickbreak.inference import run as fit
from stickbreak.inference.attempts import Attempts
from stickbreak.initialize import from_labels
from stickbreak.models import Model, hdp_hmm, hdp_topics
from stickbreak.moves import Birth

from .report import Report, Row
from .scaling import slope

N_COMMON = 38  # components that are right; one more is two in one
N_WORDS, TOKENS = 2_000, 20  # words of a document from each of three topics
STAY, D = 20, 2  # rows of a sequence in each of three states
RARE = {"documents": 500, "sequences": 50}  # units that hold the component, or a tenth of all
SIZES = {"documents": (10_000, 50_000, 200_000), "sequences": (100, 1_000, 5_000)}
BATCH = 10_000  # units
MOST = {"held by as many": 0.5, "held by a tenth": 1.1}
NOTE = f"""\
One birth, of a component that is two in truth, after five laps from the truth otherwise; CPU
seconds, the first look and what shapes the newborns included. Documents of {3 * TOKENS} words with
three of {N_COMMON + 2} topics, sequences of {3 * STAY} rows in three of {N_COMMON + 2} Gaussian
states. Held by as many: {RARE["documents"]} documents or {RARE["sequences"]} sequences hold the
component, whatever the size of the data; held by a tenth: of all. First pass: over all data, once
for all trials of a round. Exponents in the size of the data, by least squares."""

Problem = tuple[Model, Any, Start]


def components(n: int, n_rare: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 3) components of each unit; one of the last two only in the rare ones."""
    found = rng.random((n, N_COMMON)).argsort(1)[:, :3]
    at = rng.choice(n, n_rare, replace=False)
    found[at, 2] = N_COMMON + rng.integers(2, size=n_rare)
    return found


def papers(n: int, n_rare: int) -> Problem:
    """Documents, and topics of which the last is two."""
    rng = np.random.default_rng(n)
    topics = rng.dirichlet(np.full(N_WORDS, 0.05), N_COMMON + 2)
    labels = np.repeat(components(n, n_rare, rng), TOKENS, axis=1).ravel()
    words = np.empty(len(labels), dtype=np.int64)
    for k in range(N_COMMON + 2):
        at = np.flatnonzero(labels == k)
        words[at] = rng.choice(N_WORDS, len(at), p=topics[k])
    which = np.repeat(np.arange(n), 3 * TOKENS)
    counts = sparse.csr_array((np.ones(len(words)), (which, words)), shape=(n, N_WORDS))
    model = hdp_topics(Categorical(0.1, n_symbols=(N_WORDS,)), 0.1)
    K = N_COMMON + 1
    table = np.zeros((N_WORDS, K))
    np.add.at(table, (words, np.minimum(labels, N_COMMON)), 1.0)
    seed = model.zeros(K)
    own = {"emission": table, "emission_total": table.sum(0)[None], "share": table.sum(0)}
    start = replace(seed, arrays={**seed.arrays, **own}, n_units=float(n))
    return model, Documents.from_counts(counts), Start(start, model.start_params(K))


def courses(n: int, n_rare: int) -> Problem:
    """Sequences, and states of which the last is two."""
    rng = np.random.default_rng(n)
    means = 8.0 * np.stack(np.divmod(np.arange(N_COMMON + 2), 8), axis=1)
    labels = np.repeat(components(n, n_rare, rng), STAY, axis=1).ravel()
    rows = means[labels] + rng.normal(size=(len(labels), D))
    data = Sequences(rows, offsets=np.arange(0, len(rows) + 1, 3 * STAY))
    model = hdp_hmm(Gaussian().locate(None, D).resolve(measure(data)))
    return model, data, from_labels(model, data, np.minimum(labels, N_COMMON), N_COMMON + 1)


def one_birth(problem: Problem) -> tuple[float, float, int]:
    """Seconds of the first pass and of the birth, and the units that it touched."""
    model, data, start = problem
    n_batches = -(-data.n_spans // BATCH)
    found = fit(model, MemoizedVB(n_batches=n_batches, max_iter=5), data, start)
    scene = Scene(
        model, found.counts, found.params, found.ids, data, Attempts(),
        np.random.default_rng(0), 9, True, next_id=found.next_id,
        batches=data.batches(n_batches), warm=found.warm(),
    )  # fmt: skip
    began = time.process_time()
    assert scene.posteriors.layers
    first, slot = time.process_time(), found.ids.index(N_COMMON)
    for _ in range(len(model.structure.births)):  # ways to begin
        if Birth().try_out(scene, (slot,)) is not None:
            return first - began, time.process_time() - first, scene.spent.n_units
        scene.give_up("birth", (slot,))
    raise RuntimeError(f"no birth of {slot} among {data.n_spans} units was accepted")


def growth(name: str, make: Callable[[int, int], Problem], sizes: tuple[int, ...]) -> list[Row]:
    rows = []
    one_birth(make(sizes[0] // 10, min(RARE[name], sizes[0] // 20)))  # compiles the kernels
    for kind, most in MOST.items():
        is_fixed = kind == "held by as many"
        rare = [min(RARE[name], n // 2) if is_fixed else n // 10 for n in sizes]
        found = [one_birth(make(n, n_rare)) for n, n_rare in zip(sizes, rare, strict=True)]
        first, seconds, units = (list(part) for part in zip(*found, strict=True))
        exponent = slope(sizes, seconds)
        times = ", ".join(
            f"{n:,}: {s:.3f} s, {u:,} touched"
            for n, s, u in zip(sizes, seconds, units, strict=True)
        )
        what = f"{name} {kind} ({times})"
        rows.append(Row(what, f"{exponent:.2f}", target=f"at most {most}", met=exponent <= most))
    passes = ", ".join(f"{n:,}: {s:.3f} s" for n, s in zip(sizes, first, strict=True))
    return [*rows, Row(f"{name}: first pass ({passes})", f"{slope(sizes, first):.2f}")]


def run(quick: bool = False) -> Report:
    rows = []
    for name, make in (("documents", papers), ("sequences", courses)):
        sizes = tuple(n // 10 for n in SIZES[name][:2]) if quick else SIZES[name]
        rows += growth(name, make, sizes)
    return Report("What a birth costs as the data grow", rows, (NOTE,), ours="exponent")
