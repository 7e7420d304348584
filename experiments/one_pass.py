"""One pass of stochastic inference against sweeps of batch inference, on a million rows of a
ten-state chain.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences, Table
from stickbreak.inference import LapRecord, Start
from stickbreak.initialize import from_blocks, from_plusplus

from .fits import Fit, Setting, Starter
from .frame import Experiment, Row, is_quick, save_picture, seeds, span
from .sequences import drawn_scores, infinite, log_scores

STATES, TRUNCATION = 10, 20
SEQUENCES, LENGTH = 250, 4000
SWEEPS = 60
# of the starts that are reported: settings were chosen, and time was saved, looking at others
FIRST_SEED = 20
REPEATS = 3  # of what is timed, in turns; the least counts
FAMILY = sb.Gaussian(mean=0.0, mean_strength=0.1, dof=7.0, covariance=0.25)  # scatter I
CHOSEN = "steps that begin at 1"
PASSES: dict[str, dict[str, Any]] = {
    "careful steps": {"batch_size": 2, "kappa": 0.6, "delay": 10.0},
    "as published": {"batch_size": 1, "kappa": 0.6, "delay": 0.0},
    CHOSEN: {"batch_size": 8, "kappa": 1.0, "delay": 80.0, "first_rate": 1.0},
}
CANDIDATES = [  # of `choose`
    {"batch_size": size, "kappa": kappa, "delay": delay, "first_rate": 1.0}
    for size in (1, 2, 3, 4, 6, 8, 12)
    for kappa, delays in {
        0.3: [0],
        0.4: [0],
        0.5: [0],
        0.6: [0, 5, 10],
        0.8: [10, 20],
        1.0: [10, 20, 40, 80],
    }.items()
    for delay in delays
]


@dataclass(frozen=True)
class Comparison:
    """Held-out log predictives a row and CPU seconds from one start: of a batch sweep, of many, and
    of one pass by its settings; `drawn_` are those over drawn parameters.
    """

    first: float
    last: float
    drawn_last: float
    seconds: float
    once: dict[str, float]
    drawn_once: dict[str, float]
    once_seconds: dict[str, float]


class Clock(sb.Callback):
    """CPU seconds at the end of each lap, since it was made."""

    def __init__(self) -> None:
        self.began, self.laps = time.process_time(), list[float]()

    def on_lap(self, record: LapRecord) -> None:
        """Note the time."""
        self.laps.append(time.process_time() - self.began)


def draw_parameters(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (10, 2) and factors (10, 2, 2) of covariances from the prior; rows (11, 10) ~
    Dirichlet(1), where chains start last.
    """
    covariances = []
    for _ in range(STATES):  # inverse Wishart with scatter I and 7 degrees of freedom
        normals = rng.standard_normal((7, 2))
        covariances.append(np.linalg.inv(normals.T @ normals))
    factors = np.linalg.cholesky(covariances)
    means = np.einsum("kij,kj->ki", factors, rng.standard_normal((STATES, 2))) / np.sqrt(0.1)
    return means, factors, rng.dirichlet(np.ones(STATES), STATES + 1)


def draw_chains(n_sequences: int, length: int, seed: int) -> np.ndarray:
    """(S, T, 2) rows."""
    rng = np.random.default_rng([seed, 12])
    means, factors, rows = draw_parameters(rng)
    edges = rows.cumsum(1)[:, :-1]
    path, state = np.empty((length, n_sequences), dtype=int), np.full(n_sequences, STATES)
    for t, uniforms in enumerate(rng.random((length, n_sequences))):
        state = path[t] = (uniforms[:, None] > edges[state]).sum(1)
    noise = rng.standard_normal((n_sequences, length, 2))
    return means[path.T] + np.einsum("stij,stj->sti", factors[path.T], noise)


def split(chains: np.ndarray) -> tuple[Sequences, Sequences]:
    """95 of 100 sequences to learn from, the others to judge by."""
    n_train, length = round(0.95 * len(chains)), chains.shape[1]
    return tuple(
        Sequences(part.reshape(-1, 2), offsets=length * np.arange(len(part) + 1))
        for part in (chains[:n_train], chains[n_train:])
    )  # type: ignore[return-value]


def per_row(fit: Fit, test: Sequences) -> float:
    """Held-out log predictive a row."""
    return float(log_scores(fit, test.whole()).sum()) / test.n_rows


def drawn_per_row(fit: Fit, test: Sequences) -> float:
    """The published metric a row: the log mean density over 50 draws of the parameters."""
    return float(drawn_scores(fit, test.whole()).sum()) / test.n_rows


def single_rows(model: Any, data: Table, size: int, rng: np.random.Generator) -> Start:
    """A random row for each state."""
    return from_blocks(model, data, size, rng, length=1)


STARTS: dict[str, Starter] = {"k-means++": from_plusplus, "random rows": single_rows}


def fit_pass(
    setting: Setting, start: Start, settings: dict[str, Any], seed: int
) -> tuple[Fit, float]:
    """One pass, and its CPU seconds without the pass for the final bound."""
    clock = Clock()
    engine = sb.StochasticVB(max_iter=1, callbacks=[clock], **settings)
    return setting.fit(engine, start, seed), clock.laps[0]


def fit_sweep(setting: Setting, start: Start) -> tuple[Fit, float]:
    """One sweep, and the CPU seconds of another that follows it: the first finds its memory
    untouched.
    """
    clock = Clock()
    setting.fit(sb.BatchVB(max_iter=2, tol=0.0, callbacks=[clock]), start)
    return setting.fit(sb.BatchVB(max_iter=1), start), clock.laps[1] - clock.laps[0]


def compare(setting: Setting, test: Sequences, starter: Starter, seed: int) -> Comparison:
    """All passes and sweeps from one start."""
    start = setting.start(TRUNCATION, seed, starter)
    many = setting.fit(sb.BatchVB(max_iter=SWEEPS, tol=1e-6), start)
    sweeps, passes = [], []
    for _ in range(REPEATS):
        sweeps.append(fit_sweep(setting, start))
        passes.append(
            {name: fit_pass(setting, start, settings, seed) for name, settings in PASSES.items()}
        )
    return Comparison(
        per_row(sweeps[0][0], test),
        per_row(many, test),
        drawn_per_row(many, test),
        min(seconds for _, seconds in sweeps),
        {name: per_row(fit, test) for name, (fit, _) in passes[0].items()},
        {name: drawn_per_row(fit, test) for name, (fit, _) in passes[0].items()},
        {name: min(found[name][1] for found in passes) for name in PASSES},
    )


def rows_of(name: str, found: list[Comparison]) -> list[Row]:
    """The figures of one kind of start."""
    rows = [
        Row(f"{name}: held-out a row, one batch sweep", span((one.first for one in found), 4)),
        Row(
            f"{name}: held-out a row, batch after at most {SWEEPS} sweeps",
            span((one.last for one in found), 4),
        ),
        Row(
            f"{name}: the same over 50 draws of the parameters, as published",
            span((one.drawn_last for one in found), 4),
        ),
        Row(f"{name}: CPU seconds of a batch sweep", span((one.seconds for one in found), 2)),
    ]
    for kind in PASSES:
        behind = [one.last - one.once[kind] for one in found]
        ratio = [one.once_seconds[kind] / one.seconds for one in found]
        met = sum(gap <= 0.01 and times <= 1.3 for gap, times in zip(behind, ratio, strict=True))
        figures = (
            f"held-out {span((one.once[kind] for one in found), 4)}; behind the batch by "
            f"{_list(behind, 4)}, over draws by "
            f"{_list([one.drawn_last - one.drawn_once[kind] for one in found], 4)}; "
            f"time over that of one sweep {_list(ratio, 2)}; both as wanted in {met} of "
            f"{len(found)}"
        )
        rows.append(
            Row(
                f"{name}: one pass, {kind}",
                figures,
                "on par, about 1",
                "wanted: within 0.01, at most 1.3",
            )
        )
    return rows


def _list(values: list[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def draw(found: dict[str, list[Comparison]]) -> str:
    """How far one pass is behind the batch's end, against its time in sweeps; a point for each
    start, a colour for each setting.
    """
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for marker, (name, comparisons) in zip("ox", found.items(), strict=True):
        for i, kind in enumerate(PASSES):
            times = [one.once_seconds[kind] / one.seconds for one in comparisons]
            behind = [one.last - one.once[kind] for one in comparisons]
            axes.plot(times, behind, marker, color=f"C{i}", label=f"{kind}; {name}")
    axes.axhline(0.01, color="0.5", linestyle=":")
    axes.axvline(1.3, color="0.5", linestyle=":")
    axes.set(
        xlabel="time of the pass, in batch sweeps",
        ylabel="held-out nats a row behind the batch's end",
    )
    axes.legend()
    return save_picture(figure, "one_pass")


def choose() -> None:
    """How settings were chosen (`python -m experiments.one_pass`): gaps to the batch's end on other
    data, from other starts.
    """
    for data_seed in (1, 2, 3):
        train, test = split(draw_chains(SEQUENCES, LENGTH, data_seed))
        setting = infinite(train, FAMILY)
        for name, starter in STARTS.items():
            for seed in (100, 101):
                start = setting.start(TRUNCATION, seed, starter)
                last = per_row(setting.fit(sb.BatchVB(max_iter=SWEEPS, tol=1e-6), start), test)
                for settings in CANDIDATES:
                    once, _ = fit_pass(setting, start, settings, seed)
                    print(
                        data_seed,
                        name,
                        seed,
                        settings,
                        f"{last - per_row(once, test):.4f}",
                        flush=True,
                    )


def starts(count: int) -> list[int]:
    """Seeds that no setting was chosen by."""
    return [FIRST_SEED + seed for seed in seeds(count)]


def run() -> Experiment:
    """Ten starts by k-means++, five of single rows."""
    n_sequences, length = (40, 500) if is_quick() else (SEQUENCES, LENGTH)
    train, test = split(draw_chains(n_sequences, length, 0))
    setting = infinite(train, FAMILY)
    fit_pass(setting, setting.start(TRUNCATION, 0, from_plusplus), {}, 0)  # compiles the kernels
    counts = dict(zip(STARTS, (10, 5), strict=True))
    found = {
        name: [compare(setting, test, starter, seed) for seed in starts(counts[name])]
        for name, starter in STARTS.items()
    }
    rows = [row for name, comparisons in found.items() for row in rows_of(name, comparisons)]
    text = (
        f"{n_sequences} sequences of {length:,} rows in the plane from a chain of {STATES} "
        "states; means and covariances "
        "from NIW(0, I, 0.1, 7), which is also the prior, rows from Dirichlet(1). HDP-HMM with 20 "
        "states, concentration 0.5, "
        "start 10, top 10; 95 of 100 sequences to learn from. One pass, careful steps: 2 "
        "sequences a step (about 8,192 rows), "
        "step size (10 + t)**-0.6. As published: step size t**-0.6, and one sequence a step. Steps "
        "that begin at 1: 8 sequences "
        "a step, which go through time side by side, step size 81 / (80 + t), that is "
        "`StochasticVB(batch_size=8, kappa=1, "
        "delay=80, first_rate=1)`; of five settings that were tried on two other data sets from "
        "other starts the one with the "
        "smallest gaps among those within 1.3 sweeps (`python -m experiments.one_pass` scans "
        "more). The publication starts from "
        "draws of the prior and judges by draws of parameters from q; here starts are k-means++ on "
        "rows or a random row for each "
        "state, the same for all engines, and parameters are integrated out, rows at their means, "
        "or, where it says draws, 50 sets of parameters are drawn from q, one for all of a "
        "sequence, and the log of the mean density is taken. CPU times: the least of "
        f"{REPEATS}, sweeps and passes in turns, on a machine that others used as well; without "
        "the second pass that `StochasticVB` makes for the bound of its result."
    )
    found_out = (
        "What a careful pass lacks is not rows but steps: the sizes of its steps add up to so many "
        "sweeps, and batch inference "
        "needs more than that. Noise is small, since a step sees thousands of rows. So large steps "
        "win here, where every step "
        "shows every state; where it does not they forget states. The default of sequences of this "
        "length is the third; careful steps are that of others."
    )
    return Experiment("One pass", text, rows, found_out, draw(found))


if __name__ == "__main__":
    choose()
