"""The toy of eight states: moves from 50 states and from one, a fixed number of states, and blocked
Gibbs.
"""

from __future__ import annotations

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.inference import Gibbs
from stickbreak.initialize import from_blocks

from .asterisk import hamming
from .fits import Fit, Setting
from .frame import Experiment, Row, save_picture, seeds, span
from .sequences import MOVES, draw_toy, infinite, labels_of, states

STICKINESS = (0.0, 50.0)
LAPS, SWEEPS = 100, 200
PEER = {
    (50.0, "moves from 50"): "bnpy, merges: K=8, -91,561.7, Hamming 0, 12 laps, 41 CPU s",
    (50.0, "fixed 50"): "bnpy: 23 states, -92,186.6, Hamming 0.110, 20 laps, 18 CPU s",
}
PUBLISHED = {
    "moves from 50": "Hamming 0 within about 20 laps",
    "fixed 50": "hundreds of laps",
    (50.0, "Gibbs, 50"): "about 200 sweeps",
    (0.0, "Gibbs, 50"): "thousands of sweeps",
}


def make(data: Sequences, stickiness: float) -> Setting:
    """The prior of the peers: mean 0, strength 1e-4, 4 degrees of freedom, scatter I."""
    return infinite(
        data, sb.Gaussian(mean=0.0, mean_strength=1e-4, dof=4.0, covariance=1.0), stickiness
    )


def follow(setting: Setting) -> dict[str, list[Fit]]:
    """All fits of one stickiness."""
    moving = sb.MemoizedVB(n_batches=8, max_iter=LAPS, tol=1e-6, moves=MOVES)
    fixed = sb.MemoizedVB(n_batches=8, max_iter=LAPS, tol=1e-6)
    plan = {
        "moves from 50": (moving, 50, 10),
        "moves from 1": (moving, 1, 10),
        "fixed 50": (fixed, 50, 5),
        "Gibbs, 50": (Gibbs(max_iter=SWEEPS), 50, 5),
    }
    return {
        name: [
            setting.fit(engine, setting.start(size, seed, from_blocks), seed)
            for seed in seeds(count)
        ]
        for name, (engine, size, count) in plan.items()
    }


def n_used(fit: Fit) -> list[int]:
    """States of each lap: those that hold rows where labels are drawn."""
    return [lap.n_components if lap.n_used is None else lap.n_used for lap in fit.result.trace]


def rows_of(
    stickiness: float, found: dict[str, list[Fit]], data: Sequences, truth: np.ndarray
) -> list[Row]:
    """The figures of one stickiness."""
    rows = []
    for name, fits in found.items():
        distances = [hamming(truth, labels_of(fit, data.whole())) for fit in fits]
        is_drawn = name.startswith("Gibbs")
        used = [n_used(fit)[-1] if is_drawn else fit.n_effective for fit in fits]
        right = sum(k == 8 and d < 0.01 for k, d in zip(used, distances, strict=True))
        bounds = "no bound" if is_drawn else f"bound {span((fit.result.bound for fit in fits), 1)}"
        figures = (
            f"{right} of {len(fits)} with 8 states and Hamming under 0.01; states with a row "
            f"{span(used)} (of {states(fits)}); "
            f"Hamming {span(distances, 4)}; {bounds}; laps "
            f"{span(len(fit.result.trace) for fit in fits)}; CPU s "
            f"{span((fit.seconds for fit in fits), 1)}"
        )
        published = PUBLISHED.get(name) or PUBLISHED.get((stickiness, name), "")
        rows.append(
            Row(
                f"stickiness {stickiness:g}: {name}",
                figures,
                published,
                PEER.get((stickiness, name), ""),
            )
        )
    return rows


def draw(found: dict[float, dict[str, list[Fit]]]) -> str:
    """States after each lap, every seed a line."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(found), figsize=(10, 4), sharey=True, layout="constrained")
    for panel, (stickiness, fits) in zip(panels, found.items(), strict=True):
        for color, (name, runs) in enumerate(fits.items()):
            for i, fit in enumerate(runs):
                used = n_used(fit)
                panel.plot(
                    1 + np.arange(len(used)),
                    used,
                    color=f"C{color}",
                    alpha=0.6,
                    label=None if i else name,
                )
        panel.axhline(8, color="0.5", linestyle=":")
        panel.set(xscale="log", yscale="log", xlabel="lap", title=f"stickiness {stickiness:g}")
        panel.set_yticks([1, 8, 20, 50], ["1", "8", "20", "50"])
        panel.minorticks_off()
    panels[0].set_ylabel("states")
    panels[0].legend()
    return save_picture(figure, "toy_states")


def run() -> Experiment:
    """Ten seeds with moves, fewer without."""
    data, truth = draw_toy()
    first = make(data, 50.0)
    # compiles the kernels
    first.fit(sb.MemoizedVB(n_batches=8, max_iter=5, moves=MOVES), first.start(50, 0, from_blocks))
    found = {stickiness: follow(make(data, stickiness)) for stickiness in STICKINESS}
    rows = [
        row for stickiness, fits in found.items() for row in rows_of(stickiness, fits, data, truth)
    ]
    setting = (
        "32 sequences of 1,000 rows, eight states in a circle (each stayed in with probability "
        "0.999), Gaussians in the "
        "plane. Sticky HDP-HMM: concentration 0.5, start 10, top 10; prior mean 0, strength 1e-4, "
        "4 degrees of freedom, scatter "
        f"I; 8 batches, starts from random blocks of 20 rows. At most {LAPS} laps; Gibbs makes "
        f"{SWEEPS} sweeps (weak limit of 50 "
        "states), and its states are those with a row in the last one."
    )
    return Experiment("Toy of eight states", setting, rows, "", draw(found))
