"""Alphabet: patches of 26 letters, from many components and from one."""

from __future__ import annotations

import numpy as np

import stickbreak as sb
from stickbreak.initialize import from_plusplus, from_random

from .fits import Fit, Setting
from .frame import Experiment, Row, is_quick, save_picture, seeds, span
from .toys import draw_patches, letters, surface_covariances

SIZES = (40, 60, 80, 100)
MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
STARTS = {"random patches": from_random, "Bregman k-means++": from_plusplus}
LAPS = 40


def make(seed: int) -> tuple[Setting, np.ndarray]:
    """Patches and their letters; each letter is 0.95 times as frequent as the one before."""
    weights = 0.95 ** np.arange(26)
    X, truth = draw_patches(
        surface_covariances(letters(), 0.1), weights, 5_000 if is_quick() else 50_000, seed
    )
    return Setting.make(X, sb.ZeroMeanGaussian(dof=66.0, covariance=0.1), 10.0), truth


def follow(setting: Setting, seed: int) -> dict[str, Fit]:
    """Every start of one seed, and moves from one component."""
    engine = sb.BatchVB(max_iter=LAPS, tol=1e-6)
    found = {
        f"{name}, K={size}": setting.fit(engine, setting.start(size, seed, starter), seed)
        for size in SIZES
        for name, starter in STARTS.items()
    }
    found["moves from K=1"] = setting.fit(
        sb.MemoizedVB(moves=MOVES, max_iter=100, tol=1e-6), setting.start(1, seed), seed
    )
    return found


def n_letters(fit: Fit, setting: Setting, truth: np.ndarray) -> int:
    """Letters that are the majority of a component which holds at least 80 % of them."""
    labels = fit.shares(setting.table.rows).argmax(1)
    table = np.zeros((26, len(fit.result.ids)))
    np.add.at(table, (truth, labels), 1)
    most = table.argmax(0)
    return sum(bool(((most == k) & (row >= 0.8 * row.sum())).any()) for k, row in enumerate(table))


def draw(fit: Fit) -> str:
    """The leading eigenvector of each component's covariance: the letter against its paper."""
    from matplotlib import pyplot as plt

    covariances = fit.result.model.family.describe(fit.result.counts)["covariance"]
    images = [np.linalg.eigh(covariance)[1][:, -1].reshape(8, 8) for covariance in covariances]
    figure, panels = plt.subplots(
        -(-len(images) // 9),
        9,
        figsize=(8, 1 * -(-len(images) // 9)),
        squeeze=False,
        layout="constrained",
    )
    for panel, image in zip(panels.flat, images, strict=False):
        panel.imshow(image * np.sign(image[-1, -1]), cmap="gray")
    for panel in panels.flat:
        panel.set_axis_off()
    return save_picture(figure, "alphabet")


def run() -> Experiment:
    """One seed, where the publication has 25: it takes ten minutes."""
    fits: dict[str, list[Fit]] = {}
    known: dict[str, list[int]] = {}
    for seed in seeds(1):
        setting, truth = make(seed)
        for name, fit in follow(setting, seed).items():
            fits.setdefault(name, []).append(fit)
            known.setdefault(name, []).append(n_letters(fit, setting, truth))
    published = {
        "K=40": "rarely all letters",
        "K=60": "rarely all letters",
        "K=100": "reliably good, unused components decay",
    }
    rows = [
        Row(
            name,
            f"letters found {span(known[name])}; components {span(f.n_effective for f in runs)}; "
            f"bound a row {span((f.result.bound / f.result.counts.n_units for f in runs), 3)}; "
            f"{span(len(f.result.trace) for f in runs)} laps; {span((f.seconds for f in runs), 0)} "
            "CPU s",
            published.get(name.split(", ")[-1], ""),
        )
        for name, runs in fits.items()
    ]
    setting_text = (
        "50,000 patches of 8 x 8 pixels, mean zero, 26 clusters: the strokes of a letter and "
        "its paper have independent "
        "brightness, pixel "
        "noise 0.1 of it; each letter 0.95 times as frequent as the one before. Wishart prior with "
        "66 degrees of freedom, "
        "expected covariance "
        f"0.1 I; concentration 10. Variational Bayes on all rows, at most {LAPS} laps. Covariances "
        "and prior are ours: none "
        f"are printed."
    )
    return Experiment("Alphabet", setting_text, rows, "", draw(fits["moves from K=1"][0]))
