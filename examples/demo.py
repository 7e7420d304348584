"""The main job in one go: find the clusters of a table, compare, save, load, draw. `make demo` runs this."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Ellipse
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_iris
from sklearn.mixture import BayesianGaussianMixture

import stickbreak as sb

CENTERS = np.array([[0, 0], [4, 4], [-4, 4], [4, -3], [-5, -3]])
SHAPES = np.array([[[1, 0.8], [0, 0.5]], [[0.6, 0], [0, 0.6]], [[1, -0.9], [0, 0.4]], [[0.4, 0], [0, 1.3]], [[1.2, 0.3], [0, 0.3]]])


def generate(n_rows: int, seed: int) -> np.ndarray:
    """Rows (n, 2) of five Gaussian clusters with sizes 30, 25, 20, 15 and 10 percent."""
    rng = np.random.default_rng(seed)
    label = rng.choice(5, n_rows, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    return CENTERS[label] + np.einsum("nij,nj->ni", SHAPES[label], rng.normal(size=(n_rows, 2)))


def show(console: Console, model: sb.DPMixture, title: str, names: list[str]) -> None:
    """A table of the components that hold rows."""
    table = Table("component", "rows", "weight", *names, title=title)
    for k in np.flatnonzero(model.counts_ >= 1):
        means = [f"{value:.2f}" for value in model.means_[k]]
        table.add_row(str(k), f"{model.counts_[k]:.0f}", f"{model.weights_[k]:.3f}", *means)
    console.print(table)


def draw(model: sb.DPMixture, rows: np.ndarray, path: Path) -> None:
    """Rows by component, with an ellipse of two standard deviations for each component that holds rows."""
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    axes.scatter(*rows.T, c=model.predict(rows), s=6, cmap="tab10", vmin=0, vmax=9, alpha=0.6)
    for k in np.flatnonzero(model.counts_ >= 1):
        lengths, directions = np.linalg.eigh(model.covariances_[k])
        angle = np.degrees(np.arctan2(directions[1, 1], directions[0, 1]))
        width, height = 4 * np.sqrt(lengths[::-1])
        axes.add_patch(Ellipse(tuple(model.means_[k]), width, height, angle=angle, fill=False, linewidth=1.5))
    axes.set(title=f"{model.n_effective_} components found among {len(rows)} rows", xlabel="first column", ylabel="second column")
    figure.savefig(path, dpi=120)


def main() -> None:
    console = Console()
    rows, held_out = generate(1000, seed=0), generate(1000, seed=1)
    live = int(sys.stderr.isatty())  # a progress line on a terminal, nothing in a log
    model = sb.DPMixture(random_state=0, verbose=live).fit(rows)  # begins with one component
    show(console, model, f"5 clusters went in, {model.n_components_} came out", ["x", "y"])
    console.print(model.explain_moves())

    other = BayesianGaussianMixture(n_components=15, n_init=5, max_iter=500, random_state=0).fit(rows)
    console.print(f"held-out score, nats per row: stickbreak {model.score(held_out):.3f}, scikit-learn {other.score(held_out):.3f}")
    console.print("(each with its own default prior; scikit-learn scores by expected logs, not by the predictive density)")

    iris = load_iris()
    found = sb.DPMixture(random_state=0).fit(iris.data)
    show(console, found, f"Iris: bound {found.lower_bound_:.1f} nats", iris.feature_names)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "demo.stickbreak"
        model.save(file)
        same = np.array_equal(sb.load(file).predict(held_out), model.predict(held_out))
        console.print(f"saved {file.stat().st_size} bytes, loaded: predictions {'agree' if same else 'DIFFER'}")
    draw(model, rows, Path("demo.png"))
    console.print("picture: demo.png")


if __name__ == "__main__":
    main()
