"""119 motion captures without labels: how many states do the moves find, and at what price?"""

from __future__ import annotations

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.initialize import from_blocks

from .fits import Fit, Setting
from .frame import Experiment, Row, data_folder, is_quick, save_picture, seeds, span
from .mocap6 import make
from .sequences import MOVES, labels_of, states

BATCHES = 20
FOUND = (
    "In the picture trials of one activity share their states: sweeping, washing windows, climbing "
    "steps, dribbling, balancing. "
    "Small states are of single trials (swordplay, hand signals). The bound wants many more states "
    "than the 30 of the publication, "
    "whose trials, and prior, are others. Moves end 24,000 nats above 100 fixed states; from one "
    "state as high as from 100."
)


def load() -> tuple[Sequences, list[str]]:
    """Rows (n, 24) of angles and those one step before, and what each trial shows."""
    with np.load(
        data_folder() / "sequences" / "cmu_mocap" / "cmu_mocap119.npz", allow_pickle=False
    ) as found:
        n = 30 if is_quick() else len(found["names"])
        offsets = found["doc_range"][: n + 1]
        rows, offsets = sb.lag_rows(found["X"][: offsets[-1]].astype(float), offsets)
        return Sequences(rows, offsets=offsets), [str(text) for text in found["descriptions"][:n]]


def fit_from(setting: Setting, size: int, seed: int, *, moves: bool) -> Fit:
    """20 batches, as published."""
    engine = sb.MemoizedVB(n_batches=BATCHES, max_iter=150, tol=1e-4, moves=MOVES if moves else ())
    return setting.fit(engine, setting.start(size, seed, from_blocks), seed)


def usage(fit: Fit, data: Sequences) -> np.ndarray:
    """(S, K) share of each sequence's rows in each state."""
    labels = labels_of(fit, data.whole())
    out = np.zeros((data.n_spans, len(fit.result.ids)))
    np.add.at(out, (np.repeat(np.arange(data.n_spans), np.diff(data.offsets)), labels), 1)
    return out / np.diff(data.offsets)[:, None]


def draw(fit: Fit, data: Sequences, descriptions: list[str]) -> str:
    """What part of each trial every state takes; states by size, trials in their order."""
    from matplotlib import pyplot as plt

    parts = usage(fit, data)
    figure, axes = plt.subplots(figsize=(9, 14), layout="constrained")
    axes.imshow(parts[:, np.argsort(-fit.counts)], aspect="auto", cmap="Greys", vmin=0, vmax=1)
    axes.set_yticks(range(len(descriptions)), [text[:45] for text in descriptions], fontsize=5)
    axes.set(xlabel="state, largest first", title="Share of each trial's rows in each state")
    return save_picture(figure, "cmu_mocap")


def run() -> Experiment:
    """Two seeds from 100 states with moves and without, and from one."""
    data, descriptions = load()
    setting = make(data)
    plan = {"moves from 100": (100, True), "moves from 1": (1, True), "fixed 100": (100, False)}
    found = {
        name: [fit_from(setting, size, seed, moves=moves) for seed in seeds(2)]
        for name, (size, moves) in plan.items()
    }
    published = {
        "moves from 100": "about 30 states, and the best bound",
        "moves from 1": "a bound nearly as good",
    }
    rows = [
        Row(
            name,
            f"bound {span((fit.result.bound for fit in fits), 0)}; states {states(fits)}, with a "
            "row "
            f"{span(fit.n_effective for fit in fits)}; "
            f"laps {span(len(fit.result.trace) for fit in fits)}; CPU s "
            f"{span((fit.seconds for fit in fits), 0)}",
            published.get(name, ""),
        )
        for name, fits in found.items()
    ]
    best = max((fit for fits in found.values() for fit in fits), key=lambda fit: fit.result.bound)
    spread = (usage(best, data) > 0.05).sum(0)
    rows.append(
        Row(
            "best run: trials in which a state takes over 5% of the rows",
            f"median {np.median(spread):.0f}, most {spread.max()}",
        )
    )
    text = (
        f"{data.n_spans} trials ({data.n_rows:,} rows of 12 angles at 0.1 s after the "
        "first of each) instead of the 124 "
        "of the publication, which are not at hand: its bounds cannot be compared. Prior and "
        "stickiness as for six motion "
        f"captures; {BATCHES} batches, at most 150 laps, two seeds; there are no labels."
    )
    return Experiment("119 motion captures", text, rows, FOUND, draw(best, data, descriptions))
