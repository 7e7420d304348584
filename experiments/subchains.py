"""Windows of one very long chain: stochastic inference with buffers around them and without."""

from __future__ import annotations

import stickbreak as sb
from stickbreak.inference import SubchainVB
from stickbreak.initialize import from_plusplus

from .chromatin import held_out, load, make, one_chain
from .fits import Fit, Setting
from .frame import Experiment, Row, is_quick, save_picture, seeds, span

STATES, ROWS_OF_A_STEP, HELD_OUT = 20, 2000, 20_000
WINDOWS: tuple[tuple[int, tuple[int | str, ...]], ...] = (
    (2, (0, 10)),
    (10, (0, 10)),
    (100, (0, 10, "adaptive")),
    (1000, (0, 10, "adaptive")),
)


def fit_windows(setting: Setting, length: int, buffer: int | str, seed: int) -> Fit:
    """One pass: every bin is the inner part of one window."""
    engine = SubchainVB(
        subchain_length=length, n_subchains=ROWS_OF_A_STEP // length, buffer=buffer, max_iter=1
    )
    return setting.fit(engine, setting.start(STATES, seed, from_plusplus), seed)


def fit_batch(setting: Setting, laps: int, seed: int) -> Fit:
    """All bins at once."""
    return setting.fit(
        sb.BatchVB(max_iter=laps, tol=1e-6), setting.start(STATES, seed, from_plusplus), seed
    )


def draw(found: dict[tuple[int, int | str], list[float]], batch: list[float]) -> str:
    """Held-out figures by the length of the windows; a line for each buffer."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for i, buffer in enumerate((0, 10, "adaptive")):
        points = [
            (length, value)
            for (length, b), values in found.items()
            if b == buffer
            for value in values
        ]
        label = f"{buffer} rows around" if isinstance(buffer, int) else "adaptive"
        axes.plot(*zip(*points, strict=True), "o", color=f"C{i}", alpha=0.7, label=label)
    for i, value in enumerate(batch):
        axes.axhline(value, color="0.5", linestyle=":", label=None if i else "batch, 30 laps")
    axes.set(xscale="log", xlabel="rows of a window", ylabel="held-out log predictive a bin (nats)")
    axes.legend()
    return save_picture(figure, "subchains")


def run() -> Experiment:
    """Three seeds of each window and buffer."""
    marks = load()[0][: 60_000 if is_quick() else None]
    n_train = len(marks) - HELD_OUT
    setting, test = make(one_chain(marks[:n_train])), one_chain(marks).whole()
    rows, scores = [], {}
    for length, buffers in WINDOWS:
        for buffer in buffers:
            fits = [fit_windows(setting, length, buffer, seed) for seed in seeds(3)]
            scores[length, buffer] = [held_out(fit, test, n_train)[1] for fit in fits]
            rows.append(
                row_of(
                    f"windows of {length}, buffer {buffer}, one pass", fits, scores[length, buffer]
                )
            )
    for laps in (1, 30):
        fits = [fit_batch(setting, laps, seed) for seed in seeds(3)]
        batch = [held_out(fit, test, n_train)[1] for fit in fits]
        rows.append(row_of(f"batch, {laps} lap{'s' if laps > 1 else ''}", fits, batch))
    text = (
        "The published experiment, on another chain: "
        f"the {n_train:,} first bins of chromatin (10 binary marks), "
        f"HDP-HMM of {STATES} states, prior as "
        f"there; starts by k-means++ on rows, three seeds. Windows: one pass, {ROWS_OF_A_STEP:,} "
        "rows a step, step size (10 + "
        f"t)**-0.6. Held out: the last {HELD_OUT:,} bins, from the filtered state. Bounds are "
        "those of the last parameters, by a "
        "pass over all bins, which is in the CPU seconds."
    )
    return Experiment("Windows of a long chain", text, rows, "", draw(scores, batch))


def row_of(name: str, fits: list[Fit], scores: list[float]) -> Row:
    """Held-out figures, bound, time."""
    figures = (
        f"held-out a bin {span(scores, 4)}; bound {span(fit.result.bound for fit in fits)}; states "
        "with a bin "
        f"{span(fit.n_effective for fit in fits)}; CPU s {span((fit.seconds for fit in fits), 1)}"
    )
    return Row(
        name,
        figures,
        "gains by buffers where windows are short" if name.startswith("windows of 2") else "",
    )
