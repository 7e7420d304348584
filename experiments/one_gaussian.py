"""One Gaussian, begun with five components: merges get stuck, deletes do not."""

from __future__ import annotations

from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.inference import Start
from stickbreak.initialize import from_random

from .fits import Fit, Setting
from .frame import Experiment, Row, save_picture, seeds, span

ROWS = 25_000


def make(seed: int) -> Setting:
    """Draws of N(0, 1); prior variance 1, concentration 10."""
    X = np.random.default_rng([seed, 4]).standard_normal((ROWS, 1))
    return Setting.make(X, sb.Gaussian(mean=0.0, mean_strength=0.01, dof=3.0, covariance=1.0), 10.0)


def follow(setting: Setting, seed: int) -> tuple[Fit, Fit, Fit]:
    """Merges from five random rows until stuck; deletes from there; and one component from the
    beginning.
    """
    stuck = setting.fit(engine(sb.Merge(start=20)), setting.start(5, seed, from_random), seed)
    begin = Start(stuck.result.counts, stuck.result.params, stuck.result.ids)
    freed = setting.fit(engine(sb.Delete()), begin, seed)
    return stuck, freed, setting.fit(engine(sb.Merge()), setting.start(1, seed), seed)


def engine(move: Any) -> sb.BatchVB:
    """All rows at once, as published."""
    return sb.BatchVB(moves=(move,), max_iter=300, tol=1e-7)


def draw(stuck: Fit, freed: Fit, ideal: Fit) -> str:
    """Bounds of one seed, lap by lap."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    before, after = stuck.result.trace, freed.result.trace
    axes.plot(np.arange(len(before)), before.bound, label="merges only, from 5 components")
    axes.plot(len(before) + np.arange(len(after)), after.bound, label="then deletes")
    axes.axhline(ideal.result.bound, color="0.5", linestyle=":", label="one component")
    axes.set_ylim(ideal.result.bound - 120, ideal.result.bound + 10)
    axes.set(
        xlabel="lap", ylabel="bound (nats)", title="One Gaussian: deletes leave what merges cannot"
    )
    axes.legend(loc="lower right")
    return save_picture(figure, "one_gaussian")


def run() -> Experiment:
    """Ten seeds."""
    found = [follow(make(seed), seed) for seed in seeds(10)]
    stuck, freed, ideal = zip(*found, strict=True)
    below = [i.result.bound - s.result.bound for s, i in zip(stuck, ideal, strict=True)]
    missing = [i.result.bound - f.result.bound for f, i in zip(freed, ideal, strict=True)]
    ones = sum(len(f.result.ids) == 1 for f in freed)
    held = sum(len(s.result.ids) > 1 for s in stuck)
    rows = [
        Row(
            "components after merges only",
            span(len(s.result.ids) for s in stuck),
            "3",
            "own prototype 3, 3, 5",
        ),
        Row("runs that merges left stuck", f"{held} of {len(found)}"),
        Row(
            "bound of merges only, below that of one component",
            span(below, 1),
            "",
            "own prototype 22.0",
        ),
        Row(
            "runs in which deletes reach one component",
            f"{ones} of {len(found)}",
            "a delete is accepted",
        ),
        Row(
            "bound after deletes, away from that of one component",
            f"{max(map(abs, missing)):.1e} at most",
        ),
        Row("laps that deletes need", span(len(f.result.trace) for f in freed)),
        Row(
            "CPU seconds: merges only, deletes",
            f"{span((s.seconds for s in stuck), 1)}; {span((f.seconds for f in freed), 1)}",
        ),
    ]
    setting = (
        f"{ROWS:,} draws of N(0, 1); Dirichlet process Gaussian mixture, concentration 10, "
        "prior variance 1 (mean strength "
        f"0.01, 3 degrees "
        "of freedom). Variational Bayes on all rows from five random rows with merges only, from "
        "lap 20 on, at most 300 laps; "
        "deletes begin where that ended."
    )
    return Experiment("One Gaussian", setting, rows, "", draw(*found[0]))
