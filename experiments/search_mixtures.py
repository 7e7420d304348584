"""Where Dirichlet process mixtures end by default, beside the fit that begins with the truth."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.mixture import BayesianGaussianMixture

import stickbreak as sb
from stickbreak.inference import Result
from stickbreak.initialize import from_labels

from .fits import Setting
from .frame import Experiment, Row, fit, is_quick, seeds, span

N_SEEDS = 10
CLOSE = 5.0  # nats
Labeled = tuple[np.ndarray, np.ndarray]


def turn(angle: float) -> np.ndarray:
    """(2, 2) rotation."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def draw_stretched(
    rng: np.random.Generator, n: int, n_clusters: int, deviations: tuple[float, float]
) -> Labeled:
    """Clusters in the plane, stretched in random directions; deviations : smallest, largest."""
    labels = rng.choice(n_clusters, n, p=rng.dirichlet(np.full(n_clusters, 5.0)))
    means = rng.uniform(-10, 10, (n_clusters, 2))
    axes = np.exp(rng.uniform(*np.log(deviations), (n_clusters, 2)))
    turned = np.array([turn(angle) for angle in rng.uniform(0, np.pi, n_clusters)])
    noise = rng.standard_normal((n, 2)) * axes[labels]
    return means[labels] + np.einsum("nij,nj->ni", turned[labels], noise), labels


def stretched(rng: np.random.Generator) -> Labeled:
    return draw_stretched(rng, 2_000, 8, (0.15, 3.0))


def many_stretched(rng: np.random.Generator) -> Labeled:
    return draw_stretched(rng, 4_000, 15, (0.15, 3.0))


def sheared(rng: np.random.Generator) -> Labeled:
    labels, means = rng.integers(0, 10, 1_500), rng.uniform(-10, 10, (10, 2))
    rows = means[labels] + rng.standard_normal((1_500, 2))
    return rows @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels


def round_clusters(rng: np.random.Generator) -> Labeled:
    labels, means = rng.integers(0, 12, 2_000), rng.uniform(-15, 15, (12, 2))
    return means[labels] + rng.standard_normal((2_000, 2)), labels


def rare(rng: np.random.Generator) -> Labeled:
    weights = np.array([1000, 1000, 1000, 300, 100, 30, 10, 3.0])
    labels = rng.choice(8, 20_000, p=weights / weights.sum())
    return rng.uniform(-12, 12, (8, 2))[labels] + rng.standard_normal((20_000, 2)), labels


def covariances(rng: np.random.Generator) -> Labeled:
    labels = rng.integers(0, 4, 2_000)
    turned = np.array([turn(k * np.pi / 4) for k in range(4)])
    noise = rng.standard_normal((2_000, 2)) * [4.0, 0.3]
    return np.einsum("nij,nj->ni", turned[labels], noise), labels


def columns(rng: np.random.Generator) -> Labeled:
    labels, means = np.repeat(np.arange(10), 150), rng.normal(0.0, 1.2, (10, 20))
    roots = 0.3 * rng.standard_normal((10, 20, 20))
    noise = np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((1_500, 20)))
    return means[labels] + noise + 0.55 * rng.standard_normal((1_500, 20)), labels


DATA: dict[str, Callable[[np.random.Generator], Labeled]] = {
    "8 clusters, stretched in random directions": stretched,
    "15 such": many_stretched,
    "10 round clusters, sheared": sheared,
    "12 round clusters, some overlap": round_clusters,
    "8 clusters, 1 : 1000": rare,
    "4 clusters around one mean": covariances,
    "10 clusters of 150 rows, 20 columns": columns,
}


def fit_from_truth(X: np.ndarray, labels: np.ndarray, seed: int) -> Result:
    """The default fit, begun with one component for each true cluster."""
    setting = Setting.make(X, sb.Gaussian(), 1.0)
    start = from_labels(setting.model, setting.table, labels, int(labels.max()) + 1)
    engine = sb.MemoizedVB(moves=(sb.Birth(), sb.Merge(), sb.Delete()))
    return setting.fit(engine, start, seed).result


def measure(make: Callable[[np.random.Generator], Labeled], number: int) -> Row:
    """Gaps to the fit from the truth, numbers of components and CPU seconds, over seeds."""
    gaps, same, seconds, theirs = [], [], [], []
    for seed in seeds(N_SEEDS):
        X, labels = make(np.random.default_rng([number, seed]))
        ideal = fit_from_truth(X, labels, seed)
        began = time.process_time()
        found = fit(sb.DPMixture(random_state=seed), X)
        seconds.append(time.process_time() - began)
        gaps.append(found.lower_bound_ - ideal.bound)
        same.append(found.n_components_ == len(ideal.ids))
        began = time.process_time()
        peer = BayesianGaussianMixture(
            n_components=25, max_iter=500, tol=1e-5, random_state=seed
        ).fit(X)
        theirs.append((len(np.unique(peer.predict(X))), time.process_time() - began))
    n_close = sum(gap > -CLOSE for gap in gaps)
    used, spent = zip(*theirs, strict=True)
    name = list(DATA)[number]
    ours = f"{n_close} of {len(gaps)}; gap {span(gaps, 1)}; same number {sum(same)}"
    peers = f"{span(used)} clusters; CPU s {np.mean(spent):.1f}"
    return Row(name, f"{ours}; CPU s {np.mean(seconds):.1f}", peer=peers)


TEXT = (
    "Gaussian mixtures with full covariances, `DPMixture()` untouched, ten data sets each. How "
    f"many end less than {CLOSE:g} nats below the same fit begun with the true clusters (moves go "
    "on from there too), the smallest and largest gap (positive: above it), how often the number "
    "of components is that fit's, and mean CPU seconds. Beside it scikit-learn's "
    "`BayesianGaussianMixture(n_components=25, max_iter=500, tol=1e-5)`: clusters "
    "that hold rows, and mean CPU seconds, of the same data sets. Run beside other processes."
)


def run() -> Experiment:
    """All data sets."""
    chosen = [0, 5] if is_quick() else range(len(DATA))
    made = list(DATA.values())
    return Experiment("The search of mixtures", TEXT, [measure(made[at], at) for at in chosen])
