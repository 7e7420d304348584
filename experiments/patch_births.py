"""Natural image patches from many images: how many components a mixture with births finds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, fit, is_quick, seeds, span
from .patches import read_patches

N_ROWS = 100_000
WANTED = 165.4  # nats a patch
FIXED = 25  # components of the fit without moves


def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Patches of most images, and as many of the others."""
    rng, size = np.random.default_rng(seed), 4_000 if is_quick() else N_ROWS
    train, test = (
        rows[rng.choice(len(rows), min(size, len(rows)), replace=False)] for rows in read_patches()
    )
    return train, test


def make(train: np.ndarray, n_components: int = 1, **how: Any) -> sb.DPMixture:
    """The model of the other experiments with patches."""
    family = sb.ZeroMeanGaussian(dof=66.0, covariance=float(train.var()))
    return sb.DPMixture(n_components, family=family, concentration=10.0, **how)


def run() -> Experiment:
    """One seed."""
    found: dict[str, list[tuple[float, float, int, int, float]]] = {}
    for seed in seeds(1):
        train, test = draw(seed)
        plain = sb.MemoizedVB(n_batches=5, moves=None, max_iter=100)
        models = {
            "births, merges and deletes": make(train, random_state=seed),
            f"fixed {FIXED}": make(train, FIXED, inference=plain, random_state=seed),
        }
        for name, model in models.items():
            began = time.process_time()
            fit(model, train)
            seconds = time.process_time() - began
            bound, score = model.lower_bound_ / len(train), model.score(test)
            laps = len(model.trace_)
            found.setdefault(name, []).append((bound, score, model.n_components_, laps, seconds))
    rows = []
    for name, fits in found.items():
        bounds, scores, sizes, laps, seconds = zip(*fits, strict=True)
        told = (
            f"bound a patch {span(bounds, 3)}; held-out log predictive a patch {span(scores, 3)}; "
            f"components {span(sizes)}; {span(laps)} laps; {span(seconds)} CPU s"
        )
        rows.append(Row(name, told, f"{WANTED} wanted" if name.startswith("births") else ""))
    text = (
        f"{len(train):,} patches of 8 x 8 pixels, mean removed, of 54 images of BSDS500, as many "
        "held out of 6 others; mean-zero Gaussians, Wishart prior with 66 degrees of freedom, "
        "concentration 10. `DPMixture()` untouched but for these, beside a fixed number. One seed."
    )
    return Experiment("Births of image patches", text, rows)
