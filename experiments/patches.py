"""Natural image patches: how much a local step of few components saves, and what it costs."""

from __future__ import annotations

import numpy as np

import stickbreak as sb

from .fits import Fit, Setting
from .frame import Experiment, Row, data_folder, is_quick, save_picture

WIDTH, STRIDE = 8, 4
ACTIVE = (1, 4, 8, 16)
LAPS = 5
ENGINES = {
    "dense": sb.BatchVB(max_iter=LAPS, tol=0.0),
    **{f"L={n}": sb.BatchVB(max_iter=LAPS, tol=0.0, max_active=n) for n in ACTIVE},
    "L=4 of 16 candidates": sb.BatchVB(max_iter=LAPS, tol=0.0, max_active=4, candidates=16),
}
PUBLISHED = {
    (200, "L=4"): "over 10 s to under 1 s, for the summary alone",
    (200, "L=8"): "hardly to be told from dense",
    (800, "L=4"): "27,000 s to 8,100 s for a lap of 3.6 million (3.3 times)",
}
MINIBATCH = 36_816  # patches of four images: one minibatch of the publication


def read_patches() -> tuple[np.ndarray, np.ndarray]:
    """Patches (n, 64) of gray images without their mean: of all images but every tenth, and of
    those.
    """
    from PIL import Image

    files = sorted((data_folder() / "mixtures" / "bsds500").glob("*.jpg"))
    held_out = np.arange(len(files)) % 10 == 9
    images = [np.asarray(Image.open(file).convert("L"), dtype=float) / 255.0 for file in files]
    train, test = (
        [cut(image) for image, out in zip(images, held_out, strict=True) if out == side]
        for side in (False, True)
    )
    return np.concatenate(train), np.concatenate(test)


def cut(image: np.ndarray) -> np.ndarray:
    """(n, 64) patches at every fourth pixel, each less its mean."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (WIDTH, WIDTH))[::STRIDE, ::STRIDE]
    rows = windows.reshape(-1, WIDTH * WIDTH)
    return rows - rows.mean(1, keepdims=True)


def make(seed: int) -> tuple[Setting, np.ndarray]:
    """A random minibatch, and as many patches of other images."""
    train, test = read_patches()
    rng = np.random.default_rng(seed)
    size = 4_000 if is_quick() else MINIBATCH
    train, test = (
        rows[rng.choice(len(rows), min(size, len(rows)), replace=False)] for rows in (train, test)
    )
    return Setting.make(
        train, sb.ZeroMeanGaussian(dof=66.0, covariance=float(train.var())), 10.0
    ), test


def compare(setting: Setting, test: np.ndarray, n_components: int) -> tuple[list[Row], Fit]:
    """A row for each engine, all from one start, and the dense fit."""
    start = setting.start(n_components, 0)
    fits = {name: setting.fit(engine, start) for name, engine in ENGINES.items()}
    dense = fits["dense"]
    rows = [
        Row(
            f"K={n_components}, {name}",
            describe(fit, dense, setting, test),
            PUBLISHED.get((n_components, name), ""),
        )
        for name, fit in fits.items()
    ]
    return rows, dense


def describe(fit: Fit, dense: Fit, setting: Setting, test: np.ndarray) -> str:
    """Speed and quality beside the dense fit."""
    score = fit.score(test)
    words = (
        f"{fit.seconds / LAPS:.2f} CPU s a lap ({dense.seconds / fit.seconds:.2f} times as fast); "
        "held-out log predictive a patch "
        f"{score:.3f} ({score - dense.score(test):+.3f}); bound a patch "
        f"{fit.result.bound / setting.table.n_units:.3f}"
    )
    missed = fit.result.trace.disagreement
    return (
        words
        if np.isnan(missed).all()
        else f"{words}; {np.nanmean(missed):.1e} of the rows would use others"
    )


def distances(setting: Setting, dense: Fit) -> dict[int, np.ndarray]:
    """Total variation (n,) between dense shares and their L best, renormalized, for patches of one
    dense model.
    """
    shares = np.sort(dense.shares(setting.table.rows[:5_000]), axis=1)[:, ::-1]
    return {n: 1.0 - shares[:, :n].sum(1) for n in ACTIVE}


def draw(apart: dict[int, np.ndarray]) -> str:
    """How far the sparse shares are from the dense ones."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for n, values in apart.items():
        axes.plot(np.sort(values), np.linspace(0, 1, len(values)), label=f"L = {n}")
    axes.set(
        xlabel="total variation",
        ylabel="part of the patches",
        title="Sparse beside dense shares, K=200",
    )
    axes.legend()
    return save_picture(figure, "patches")


def run() -> Experiment:
    """One seed."""
    setting, test = make(0)
    setting.fit(ENGINES["L=4 of 16 candidates"], setting.start(16, 0))  # compiles the kernels
    few, dense = compare(setting, test, 200)
    many, _ = compare(setting, test, 800)
    apart = distances(setting, dense)
    means = ", ".join(f"{values.mean():.1e}" for values in apart.values())
    names = ", ".join(str(n) for n in apart)
    rows = [
        *few,
        Row(f"K=200: mean total variation to dense shares, L={names}", means, "small from L=8 on"),
        *many,
    ]
    text = (
        f"{setting.table.n_rows:,} patches of 8 x 8 pixels, mean removed, drawn from 54 "
        "images of BSDS500 (the "
        f"publication: 3.6 million "
        "of 400), as many held out of 6 others; mean-zero Gaussians, Wishart prior with 66 "
        "degrees of freedom, concentration "
        f"10; {LAPS} laps of "
        "variational Bayes on all patches from one start. Seconds are of one thread."
    )
    return Experiment("Natural image patches", text, rows, "", draw(apart))
