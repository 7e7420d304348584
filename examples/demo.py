"""The main job in one go: find clusters, look, compare, save, load, draw. `make demo` runs it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

import stickbreak as sb

CENTERS = np.array([[0, 0], [4, 4], [-4, 4], [4, -3], [-5, -3]])
SHAPES = np.array(
    [
        [[1, 0.8], [0, 0.5]],
        [[0.6, 0], [0, 0.6]],
        [[1, -0.9], [0, 0.4]],
        [[0.4, 0], [0, 1.3]],
        [[1.2, 0.3], [0, 0.3]],
    ]
)


def generate(n_rows: int, seed: int) -> np.ndarray:
    """Rows (n, 2) of five Gaussian clusters with sizes 30, 25, 20, 15 and 10 percent."""
    rng = np.random.default_rng(seed)
    label = rng.choice(5, n_rows, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    return CENTERS[label] + np.einsum("nij,nj->ni", SHAPES[label], rng.normal(size=(n_rows, 2)))


def show(console: Console, model: sb.DPMixture) -> None:
    """A table of the components that hold rows, the largest first."""
    table = Table("component", "rows", "weight", "mean of x", "mean of y", title="What was found")
    for k in np.flatnonzero(model.counts_ >= 1):
        numbers = f"{model.weights_[k]:.3f}", *(f"{mean:.2f}" for mean in model.means_[k])
        table.add_row(str(k), f"{model.counts_[k]:,.0f}", *numbers)
    console.print(table)


def main() -> None:
    console = Console()
    rows, held_out = generate(200_000, seed=0), generate(10_000, seed=1)
    with console.status("compiling kernels: some seconds at the first run, kept for the next"):
        sb.DPMixture(random_state=0).fit(rows[:200])

    console.rule("Five clusters went into 200,000 rows. How many come out?")
    live = int(sys.stderr.isatty())  # a progress line on a terminal, nothing in a log
    best = sb.DPMixture(random_state=0, verbose=live).fit(rows)
    console.print(best.explain_moves(), highlight=False)
    show(console, best)

    console.rule("Compared with numbers that are given")
    others = [sb.Mixture(k, n_init=3, random_state=0, verbose=live).fit(rows) for k in (3, 8)]
    names = ["DPMixture()", "Mixture(3)", "Mixture(8)"]
    found = sb.compare([best, *others], held_out, names=names)
    console.print(found, highlight=False, soft_wrap=True)

    console.rule("Saved, loaded, drawn")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "demo.stickbreak"
        best.save(file)
        same = sb.load(file).score(held_out) == best.score(held_out)
        size, what = file.stat().st_size, "the same" if same else "ANOTHER"
        console.print(f"model file: {size:,} bytes; loaded again, its score is {what}")
    figure = best.plot(X=rows)
    figure.savefig("demo.png", dpi=120)
    plt.close(figure)
    console.print(f"picture: {Path('demo.png').resolve()}", soft_wrap=True)
    page = best.report(rows, title="Five clusters").save("demo.html", force=True)
    console.print(f"page: {page.resolve()}", soft_wrap=True)
    console.print("Next: docs/quickstart.md, and examples/gallery for more pictures.")


if __name__ == "__main__":
    main()
