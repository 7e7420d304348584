"""Six motion captures with twelve known exercises: autoregressive sticky HDP-HMM with moves."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import v_measure_score

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.initialize import from_blocks

from .asterisk import hamming
from .fits import Fit, Setting
from .frame import Experiment, Row, data_folder, save_picture, seeds, span
from .sequences import MOVES, infinite, labels_of, states

STICKINESS = 100.0
PEER_BOUND = -52_087.0


def load() -> tuple[Sequences, np.ndarray, list[str]]:
    """Rows (2058, 24) of angles and those one step before, the exercise of each (2058,), and their
    names.
    """
    with np.load(
        data_folder() / "sequences" / "mocap6" / "dataset.npz", allow_pickle=False
    ) as found:
        rows, names = (
            np.hstack([found["X"], found["Xprev"]]),
            [name.decode() for name in found["true_state_names"]],
        )
        return (
            Sequences(rows, offsets=found["doc_range"].astype(int)),
            found["TrueZ"].astype(int).ravel() - 1,
            names,
        )


def make(data: Sequences) -> Setting:
    """The prior of the peers: coefficients about the identity, scaled by the variances of
    a step.
    """
    D = data.rows.shape[1] // 2
    variances = (data.rows[:, :D] - data.rows[:, D:]).var(0)
    family = sb.AutoregressiveGaussian(
        intercept=False, mean_strength=1.0, context=variances, dof=D + 2.0, covariance=variances
    )
    return infinite(data, family, STICKINESS)


def fit_moves(setting: Setting, size: int, seed: int) -> Fit:
    """Each sequence is a batch."""
    engine = sb.MemoizedVB(n_batches=setting.table.n_spans, max_iter=200, tol=1e-6, moves=MOVES)
    return setting.fit(engine, setting.start(size, seed, from_blocks), seed)


def match(truth: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels renamed: the true state that most of their rows have."""
    table = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(table, (labels, truth), 1)
    return table.argmax(1)[labels]


def rows_of(size: int, fits: list[Fit], data: Sequences, truth: np.ndarray) -> list[Row]:
    """The figures of one start, and of the run that its bound names."""
    labels = [labels_of(fit, data.whole()) for fit in fits]
    distances, agreement = (
        [hamming(truth, z) for z in labels],
        [v_measure_score(truth, z) for z in labels],
    )
    best = int(np.argmax([fit.result.bound for fit in fits]))
    bnpy = {
        30: ("-52,501.7 .. -52,087.1", "15 .. 18", "0.353 .. 0.401", "0.656 .. 0.670", "61 .. 82")
    }.get(size, ("",) * 5)
    peers = [f"bnpy, merges from 30: {figure}" if figure else "" for figure in bnpy]
    name = f"from {size}"
    above = sum(fit.result.bound > PEER_BOUND for fit in fits)
    return [
        Row(f"{name}: bound", span((fit.result.bound for fit in fits), 1), "", peers[0]),
        Row(f"{name}: runs above -52,087", f"{above} of {len(fits)}"),
        Row(f"{name}: states", states(fits), "", peers[1]),
        Row(f"{name}: Hamming distance, one to one", span(distances, 4), "", peers[2]),
        Row(f"{name}: V-measure", span(agreement, 4), "", peers[3]),
        Row(f"{name}: CPU seconds, laps", _cost(fits), "", peers[4]),
        Row(
            f"{name}: the run with the highest bound",
            f"bound {fits[best].result.bound:.1f}, {len(fits[best].result.ids)} states, Hamming "
            f"{distances[best]:.4f}, "
            f"V-measure {agreement[best]:.4f}, many to one "
            f"{sb.metrics.many_to_one(truth, labels[best]):.4f}",
            "",
            "wanted: above -52,087, at most 0.353, at least 0.66" if size == 30 else "",
        ),
    ]


def _cost(fits: list[Fit]) -> str:
    return (
        f"{span((fit.seconds for fit in fits), 1)}; {span(len(fit.result.trace) for fit in fits)}"
    )


def draw(fit: Fit, data: Sequences, truth: np.ndarray, names: list[str]) -> str:
    """Exercises over time, and below them the states, in the colour of the exercise that most of
    their rows have.
    """
    from matplotlib import pyplot as plt
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    labels = labels_of(fit, data.whole())
    matched, colors = (
        match(truth, labels),
        ListedColormap(plt.get_cmap("tab20").colors[: len(names)]),
    )
    figure, panels = plt.subplots(data.n_spans, 1, figsize=(11, 9), layout="constrained")
    for s, panel in enumerate(panels):
        part = slice(*data.offsets[s : s + 2])
        panel.imshow(
            [truth[part], matched[part]],
            aspect="auto",
            cmap=colors,
            vmin=-0.5,
            vmax=len(names) - 0.5,
            interpolation="none",
        )
        panel.set_yticks([0, 1], ["exercise", "state"])
        at = np.flatnonzero(np.diff(labels[part], prepend=-1))
        for begin, end in zip(at, np.r_[at[1:], len(labels[part])], strict=True):
            panel.axvline(begin - 0.5, ymax=0.5, color="white", linewidth=0.7)
            if end - begin > 6:
                panel.text(
                    (begin + end) / 2,
                    1,
                    str(labels[part][begin]),
                    ha="center",
                    va="center",
                    fontsize=7,
                )
    panels[-1].set_xlabel("row (0.1 s)")
    handles = [Patch(color=colors(k), label=name) for k, name in enumerate(names)]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8)
    return save_picture(figure, "mocap6")


def run() -> Experiment:
    """Ten seeds from 30 states, and from one."""
    data, truth, names = load()
    setting = make(data)
    fit_moves(setting, 1, 0)  # compiles the kernels
    found = {size: [fit_moves(setting, size, seed) for seed in seeds(10)] for size in (30, 1)}
    rows = [row for size, fits in found.items() for row in rows_of(size, fits, data, truth)]
    best = max((fit for fits in found.values() for fit in fits), key=lambda fit: fit.result.bound)
    setting_text = (
        "Six sequences, 2,058 rows of 12 joint angles at 0.1 s, 12 exercises. Autoregression "
        "of order 1, coefficients about "
        "the identity (V = E[covariance] = variances of a step, 14 degrees of freedom, no "
        "intercept); sticky HDP-HMM, stickiness "
        "100, concentration 0.5, start 10, top 10; every sequence a batch; births, merges, "
        "deletes. Labels: the largest marginal. "
        "Peers: the same priors."
    )
    words = (
        "In the picture every exercise has a state. Knee raises have several, for one leg and the "
        "other and for two groups of "
        "people, squats two, down and up, twists two, for two groups: one to one, all but one of "
        "them count as wrong."
    )
    return Experiment(
        "Six motion captures", setting_text, rows, words, draw(best, data, truth, names)
    )
