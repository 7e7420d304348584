"""Large earthquakes a year, 1900 to 2006: Poisson hidden Markov models, by their bound."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.initialize import from_blocks

from .fits import Fit
from .frame import Experiment, Row, data_folder, save_picture, seeds, span
from .sequences import MOVES, as_sequences, finite, infinite, labels_of, states

SIZES = (1, 2, 3, 4, 5, 6)
FAMILY = sb.Poisson(shape=1.0, rate=1.0 / 20.0)


def load() -> tuple[np.ndarray, np.ndarray]:
    """Years (107,) and counts (107, 1)."""
    table = np.loadtxt(
        data_folder() / "sequences" / "misc" / "earthquakes.csv", delimiter=",", skiprows=1
    )
    return table[:, 0].astype(int), table[:, 1:]


def fit_finite(data: Sequences, size: int, n_starts: int) -> Fit:
    """The best of some starts, prior count 1 of every entry of a row."""
    setting = finite(data, FAMILY, concentration=1.0, start_concentration=1.0)
    engine = sb.BatchVB(max_iter=1000, tol=1e-7)
    fits = [setting.fit(engine, setting.start(size, i, from_blocks)) for i in range(n_starts)]
    return max(fits, key=lambda fit: fit.result.bound)


def fit_moves(data: Sequences, stickiness: float, size: int, seed: int) -> Fit:
    """HDP-HMM with births, merges and deletes."""
    setting = infinite(data, FAMILY, stickiness)
    engine = sb.BatchVB(max_iter=1000, tol=1e-7, moves=MOVES)
    return setting.fit(engine, setting.start(size, seed, from_blocks), seed)


def rates(fit: Fit) -> str:
    """Expected counts a year of the states, in rising order."""
    return ", ".join(
        f"{rate:.1f}"
        for rate in np.sort(fit.result.model.family.describe(fit.result.counts)["rate"].ravel())
    )


def best_peer(counts: np.ndarray, size: int) -> float:
    """hmmlearn's log likelihood, the best of ten starts: its published example, run here."""
    from hmmlearn.hmm import PoissonHMM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            PoissonHMM(size, random_state=i, n_iter=10).fit(counts.astype(int)) for i in range(10)
        ]
    return float(max(model.score(counts.astype(int)) for model in models))


def draw(fits: dict[str, Fit], years: np.ndarray, data: Sequences) -> str:
    """Counts, and the expected count of the state of each year."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.bar(years, data.rows[:, 0], color="0.85", label="counts")
    for name, fit in fits.items():
        rate = fit.result.model.family.describe(fit.result.counts)["rate"].ravel()
        axes.step(years, rate[labels_of(fit, data.whole())], where="mid", label=name)
    axes.set(xlabel="year", ylabel="earthquakes of magnitude 7 or more")
    axes.legend()
    return save_picture(figure, "earthquakes")


def run() -> Experiment:
    """Finite models of one to six states, and moves from one."""
    years, counts = load()
    data = as_sequences([counts])
    n_starts = len(seeds(10))
    found = [fit_finite(data, size, n_starts) for size in SIZES]
    best = max(found, key=lambda fit: fit.result.bound)
    rows = [
        Row("finite: bounds by number of states", _by_size(fit.result.bound for fit in found)),
        Row(
            "finite: states of the best bound, their rates",
            f"{len(best.result.ids)}: {rates(best)}",
        ),
        Row(
            "log likelihood by number of states",
            "-",
            "",
            "hmmlearn, run here: " + _by_size(best_peer(counts, k) for k in SIZES[:4]),
        ),
    ]
    moving = {}
    for size, stickiness in ((1, 0.0), (1, 10.0), (6, 0.0), (6, 10.0)):
        fits = [fit_moves(data, stickiness, size, seed) for seed in seeds(10)]
        chosen = moving[size, stickiness] = max(fits, key=lambda fit: fit.result.bound)
        name = f"HDP-HMM, moves from {size}, stickiness {stickiness:g}"
        figures = f"{states(fits)}; {span((fit.result.bound for fit in fits), 2)}; {rates(chosen)}"
        rows.append(Row(f"{name}: states; bound; rates of the best", figures))
    text = (
        "107 yearly counts. Poisson rates ~ Gamma(1, 1/20). Finite: prior count 1 of every entry, "
        f"best of {n_starts} starts. "
        "HDP-HMM: concentration 0.5, start 10, top 10; births, merges, deletes."
    )
    words = (
        "Bounds of finite models leave out the log K! of their equal orderings. hmmlearn's "
        "likelihood rises with every state. "
        "From one state and from six the moves end with the same two states, or with three, which "
        "are worth a nat more."
    )
    pictured = {
        f"finite, {len(best.result.ids)} states": best,
        "HDP-HMM from 6, stickiness 10": moving[6, 10.0],
    }
    return Experiment("Earthquakes", text, rows, words, draw(pictured, years, data))


def _by_size(values: Iterable[float]) -> str:
    return ", ".join(f"{size}: {value:.2f}" for size, value in zip(SIZES, values, strict=False))
