"""Chromatin marks along a chromosome: births from one state, and a lap of the whole chain in little
memory.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from benchmarks.child import run_python
from stickbreak.data import Batch, Sequences
from stickbreak.initialize import from_blocks, from_plusplus

from .fits import Fit, Setting
from .frame import Experiment, Row, data_folder, is_quick, save_picture, seeds, span
from .sequences import MOVES, as_sequences, infinite, log_steps, states

TRAIN, TEST = 100_000, 20_000
LAP_STATES, MOST_MEGABYTES = 50, 600
LAP = """
import json, sys, time
import numpy as np
from benchmarks.anonymous import AnonymousPeak
from experiments import chromatin
import stickbreak as sb
from stickbreak.initialize import from_blocks

marks, n_states = np.load(sys.argv[1]), int(sys.argv[2])
few, many = (chromatin.make(chromatin.one_chain(part)) for part in (marks[:5000], marks))
few.fit(sb.BatchVB(max_iter=1), few.start(n_states, 0, from_blocks))  # compiles the kernels
with AnonymousPeak() as memory:
    fit = many.fit(sb.BatchVB(max_iter=1), many.start(n_states, 0, from_blocks))
print(json.dumps({"before": memory.before, "peak": memory.peak, "cpu": fit.seconds}))
"""


def load() -> tuple[np.ndarray, list[str]]:
    """Marks (672261, 10), ones and zeros, and their names."""
    path = data_folder() / "sequences" / "chromatin" / "GM12878_chr11_binary.txt.gz"
    _, names, body = gzip.decompress(path.read_bytes()).split(b"\n", 2)
    digits = np.frombuffer(body.replace(b"\r", b""), np.uint8)[::2] - ord("0")
    return digits.reshape(-1, len(names.split())).astype(float), names.decode().split()


def one_chain(marks: np.ndarray) -> Sequences:
    """All bins as one sequence."""
    return as_sequences([marks])


def make(data: Sequences) -> Setting:
    """The prior of the peers."""
    return infinite(data, sb.Bernoulli(on=0.1, off=0.3))


def fit_births(setting: Setting, seed: int) -> Fit:
    """From one state, all bins at once: there is one sequence only."""
    engine = sb.BatchVB(max_iter=200, tol=1e-5, moves=MOVES)
    return setting.fit(engine, setting.start(1, seed, from_blocks), seed)


def fit_fixed(setting: Setting, seed: int) -> Fit:
    """Twenty states throughout, from k-means++ on rows."""
    return setting.fit(
        sb.BatchVB(max_iter=200, tol=1e-5), setting.start(20, seed, from_plusplus), seed
    )


def held_out(fit: Fit, bins: Batch, n_train: int) -> tuple[float, float]:
    """Log predictive of a bin given all before it, mean over those that were fitted and those after
    them.
    """
    steps = log_steps(fit, bins)
    return float(steps[:n_train].mean()), float(steps[n_train:].mean())


def measure_lap(marks: np.ndarray) -> dict[str, Any]:
    """Time and memory of a lap over a chain, in a process of its own that holds the bins too."""
    with tempfile.TemporaryDirectory(prefix="stickbreak-") as folder:
        path = Path(folder) / "marks.npy"
        np.save(path, marks)
        return dict(run_python(LAP, str(path), str(LAP_STATES)))


def draw(fit: Fit, names: list[str]) -> str:
    """How probable each mark is in each state, and how much of the chain the states hold."""
    from matplotlib import pyplot as plt

    found, order = fit.result, np.argsort(-fit.counts)
    marks = found.model.family.describe(found.counts)["probability"][order]
    figure, axes = plt.subplots(figsize=(7, 0.22 * len(order) + 1.5), layout="constrained")
    image = axes.imshow(marks, aspect="auto", cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axes.set_yticks(
        range(len(order)),
        [f"{100 * size / fit.counts.sum():.2f}%" for size in fit.counts[order]],
        fontsize=7,
    )
    axes.set(ylabel="state, by its share of bins", title="Probability of each mark")
    figure.colorbar(image)
    return save_picture(figure, "chromatin")


def run() -> Experiment:
    """Two seeds from one state by births, three with twenty states."""
    marks, names = load()
    n_train = 10_000 if is_quick() else TRAIN
    whole, test = (
        marks[: 50_000 if is_quick() else None],
        one_chain(marks[: n_train + TEST]).whole(),
    )
    setting = make(one_chain(marks[:n_train]))
    found = {
        "moves from 1": [fit_births(setting, seed) for seed in seeds(2)],
        "fixed 20": [fit_fixed(setting, seed) for seed in seeds(3)],
    }
    rows = []
    for name, fits in found.items():
        scores = [held_out(fit, test, n_train) for fit in fits]
        bnpy = (
            "bnpy, 20 states: -60,102.6",
            "bnpy -0.2192; dynamax EM, 20 states: -0.2078",
            "bnpy -0.5935; dynamax EM, 20 states: -0.5793",
            "bnpy 12, dynamax 14; 25 laps",
        )
        bound_peer, score_peer, train_peer, cost_peer = (
            bnpy if name == "moves from 1" else ("",) * 4
        )
        rows += [
            Row(f"{name}: bound", span((fit.result.bound for fit in fits), 1), "", bound_peer),
            Row(
                f"{name}: held-out log predictive per bin",
                span((s[1] for s in scores), 4),
                "",
                score_peer,
            ),
            Row(
                f"{name}: the same of the bins fitted",
                span((s[0] for s in scores), 4),
                "",
                train_peer,
            ),
            Row(
                f"{name}: states, with a bin",
                f"{states(fits)}, {span(fit.n_effective for fit in fits)}",
            ),
            Row(f"{name}: CPU seconds, laps", _cost(fits), "", cost_peer),
        ]
    lap = measure_lap(whole)
    rows += [
        Row(
            f"one lap of {len(whole):,} bins, {LAP_STATES} states: CPU seconds", f"{lap['cpu']:.1f}"
        ),
        Row(
            f"the same: peak anonymous memory ({lap['before']:.0f} MB before it, bins included)",
            f"{lap['peak']:.0f} MB",
            "",
            f"under {MOST_MEGABYTES} MB wanted",
        ),
    ]
    text = (
        "The published experiment, on one chromosome of one cell type. "
        "GM12878, chromosome 11, 10 binary marks in bins "
        "of 200 bases. HDP-HMM of the "
        f"first {n_train:,} bins, concentration 0.5, start 10, top 10, not sticky; Beta(0.1, 0.3); "
        "births, merges and deletes. "
        f"Held out: the {TEST:,} bins after them, from the filtered state. Peers: the same, 25 "
        "laps."
    )
    best = max((fit for fits in found.values() for fit in fits), key=lambda fit: fit.result.bound)
    return Experiment("Chromatin", text, rows, "", draw(best, names))


def _cost(fits: list[Fit]) -> str:
    return (
        f"{span((fit.seconds for fit in fits), 0)}; {span(len(fit.result.trace) for fit in fits)}"
    )
