"""What an experiment gives, and where its data are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb

QUICK = "STICKBREAK_QUICK"  # set by `--quick`
PICTURES = Path(__file__).parent / "scratch"  # drawn anew by each run, never committed


class MissingDataError(Exception):
    """The experiment needs data that are not here."""


@dataclass(frozen=True)
class Row:
    """One figure: ours, the published one, and the best peer's."""

    what: str
    ours: str
    published: str = ""
    peer: str = ""


@dataclass(frozen=True)
class Experiment:
    """A title, a sentence of what was done, its figures, what they mean, and the name of a
    picture.
    """

    title: str
    setting: str
    rows: list[Row] = field(default_factory=list)
    found: str = ""
    picture: str = ""


def data_folder() -> Path:
    """The folder of real data, named by STICKBREAK_DATA."""
    folder = os.environ.get("STICKBREAK_DATA")
    if not folder or not Path(folder).is_dir():
        raise MissingDataError("set STICKBREAK_DATA to the folder of real data")
    return Path(folder)


def hold_out(X: Any) -> tuple[Any, Any]:
    """Every tenth row is held out, counted from the tenth: the split of the peers' figures."""
    held_out = np.arange(X.shape[0]) % 10 == 9
    return X[~held_out], X[held_out]


def fit(model: Any, X: np.ndarray) -> Any:
    """Fit, quiet about laps that ran out, and check that the bound never dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        model.fit(X)
    assert_rises(model.trace_.bound)
    return model


def assert_rises(bounds: np.ndarray) -> None:
    """The bound after each lap, moves included, never drops by more than rounding."""
    drops = -np.diff(bounds)
    worst = drops.max() / max(1.0, abs(bounds[-1])) if len(drops) else 0.0
    assert worst <= 1e-10, f"the bound dropped by {worst:.2e} of its size"


def seeds(count: int) -> range:
    """Seeds of a full run; two of them under `--quick`."""
    return range(min(count, 2) if is_quick() else count)


def is_quick() -> bool:
    """Whether this is a trial run, whose figures are shown but not kept."""
    return os.environ.get(QUICK) == "1"


def span(values: Iterable[float], digits: int = 0) -> str:
    """Smallest and largest, or the one value that all have."""
    values = list(values)
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} .. {high}"


def save_picture(figure: Any, name: str) -> str:
    """Save and close a figure; returns its path for the table."""
    from matplotlib import pyplot as plt

    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{name}.png", dpi=110)
    plt.close(figure)
    return f"experiments/{PICTURES.name}/{name}.png"
