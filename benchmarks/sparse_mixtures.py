"""Laps in which a row uses its best few components, against dense laps of our own: image patches,
documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Table, measure
from stickbreak.families import Multinomial, ZeroMeanGaussian
from stickbreak.inference import Start
from stickbreak.initialize import from_plusplus
from stickbreak.models import finite_mixture

from .laps import Laps
from .report import Report, Row, fastest, milliseconds

ACTIVE, CANDIDATES, N_LAPS = 4, 8, 6
KINDS = {
    "exact": {"max_active": ACTIVE},
    "candidates": {"max_active": ACTIVE, "candidates": CANDIDATES},
}
TARGETS = {(200, "exact"): 1.6, (800, "exact"): 1.6, (800, "candidates"): 2.5}
WITHIN = 0.05  # nats per row of the held-out log predictive
NOTE = f"""\
Rows use {ACTIVE} components; "candidates" judges {CANDIDATES} exactly, found in single precision.
All kinds make {N_LAPS} laps from the same start, turn by turn; figures are the least of the laps
after the second (visits to two batches, global steps and bound). The peer is our own dense lap
(two matrix products). Patches: 8 x 8 pixels without their mean, of images of overlapping disks;
`experiments` has natural ones. Held out: log predictive density of rows that no lap has seen, in
nats per row, less that of the dense laps. Disagreement: rows whose candidates miss a component
that they should use."""


def image(rng: np.random.Generator, size: int = 256) -> np.ndarray:
    """Disks of all sizes and shades that cover each other, softened, with a little noise."""
    y, x = np.mgrid[:size, :size]
    picture = np.zeros((size, size))
    for _ in range(400):
        radius = 3.0 / rng.uniform(0.03, 1.0)
        a, b = rng.uniform(-radius, size + radius, 2)
        picture[(x - a) ** 2 + (y - b) ** 2 < radius**2] = rng.uniform()
    soft = sum(np.roll(picture, shift, axis) for shift in (-1, 0, 1) for axis in (0, 1)) / 6
    return soft + rng.normal(0, 0.01, soft.shape)


def patches(n_rows: int, seed: int) -> np.ndarray:
    """(n, 64) patches of many images, each less its mean."""
    rng, per = np.random.default_rng(seed), 1_000
    rows = []
    for _ in range(-(-n_rows // per)):
        windows = np.lib.stride_tricks.sliding_window_view(image(rng), (8, 8)).reshape(-1, 64)
        rows.append(windows[rng.choice(len(windows), per, replace=False)])
    found = np.concatenate(rows)[:n_rows]
    return found - found.mean(1, keepdims=True)


def documents(n_rows: int, seed: int) -> sparse.csr_array:
    """(n, V) counts of 200 topics over 4,000 words, about 100 words each."""
    topics = np.random.default_rng(0).dirichlet(np.full(4_000, 0.02), 200)
    rng = np.random.default_rng(seed)
    return sparse.csr_array(
        np.stack([rng.multinomial(100, topics[k]) for k in rng.integers(200, size=n_rows)]).astype(
            float
        )
    )


def begin(X: Any, family: Any, n_components: int) -> Start:
    """A start from a fifth of the rows: enough for all kinds to begin alike."""
    model = finite_mixture(family.resolve(measure(Table(X))))
    return from_plusplus(model, Table(X[: X.shape[0] // 5]), n_components, np.random.default_rng(0))


def held_out(laps: Laps, X: Any) -> float:
    """Mean log predictive density, all components in use."""
    model = laps.model.sparse(None)
    return float(
        model.log_evidence(
            model.predictive(laps.state.counts, laps.state.params), Table(X).whole()
        ).mean()
    )


def disagreement(laps: Laps, limits: dict[str, int], X: Any) -> float:
    """Part of some rows whose candidates miss."""
    potentials, some = laps.potentials(), Table(X[:2_000]).whole()
    chosen, best = (
        laps.model.sparse(ACTIVE, c).shares(potentials, some) > 0
        for c in (limits.get("candidates"), None)
    )
    return float((chosen != best).any(1).mean())


def compare(
    name: str, make: Callable[[int, int], Any], n_rows: int, family: Any, K: int
) -> list[Row]:
    X, test = make(n_rows, 1), make(max(500, n_rows // 8), 2)
    start = begin(X, family, K)
    kinds = {
        kind: Laps(X, K, 2, family=family, start=start, **limits)
        for kind, limits in {"dense": {}, **KINDS}.items()
    }
    # Laps has made the first two
    times = fastest(*[laps.lap for laps in kinds.values()], rounds=N_LAPS - 2)
    seconds = dict(zip(kinds, times, strict=True))
    dense = held_out(kinds["dense"], test)
    rows = []
    for kind, limits in KINDS.items():
        case, ratio, target = (
            f"{name}, K={K}, {kind}",
            seconds["dense"] / seconds[kind],
            TARGETS.get((K, kind)),
        )
        goal, met = (
            ("-", None) if target is None or name != "patches" else (f"{target}x", ratio >= target)
        )
        rows.append(
            Row(
                case,
                milliseconds(seconds[kind]),
                milliseconds(seconds["dense"]),
                f"{ratio:.2f}x",
                goal,
                met,
            )
        )
        less = held_out(kinds[kind], test) - dense
        rows.append(
            Row(
                f"{case}: held out",
                f"{less:+.4f}",
                f"{dense:.4f}",
                "-",
                f"within {WITHIN}",
                abs(less) <= WITHIN,
            )
        )
        if "candidates" in limits:
            rows.append(Row(f"{case}: disagreement", f"{disagreement(kinds[kind], limits, X):.2%}"))
    return rows


def run(quick: bool = False) -> Report:
    n = 2_000 if quick else 40_000
    rows = []
    for K in (20,) if quick else (200, 800):
        rows += compare("patches", patches, n, ZeroMeanGaussian(), K)
    rows += compare("documents", documents, n // 4, Multinomial(), 20 if quick else 200)
    return Report("Rows with few components", rows, (NOTE,), ours="limited lap", peer="dense lap")
