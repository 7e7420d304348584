"""One pass of stochastic inference against sweeps of batch inference, on a million rows of a ten-state chain."""

from __future__ import annotations

import time

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.inference import LapRecord
from stickbreak.initialize import from_plusplus

from .fits import Fit, Setting
from .frame import Experiment, Row, is_quick, save_picture, seeds, span
from .sequences import infinite, log_scores

STATES, TRUNCATION = 10, 20
SEQUENCES, LENGTH = 250, 4000
BATCH = 6  # sequences of a step
SWEEPS = 60
FAMILY = sb.Gaussian(mean=0.0, mean_strength=0.1, dof=7.0, covariance=0.25)  # scatter I


class Clock(sb.Callback):
    """CPU seconds at the end of each lap, since it was made."""

    def __init__(self) -> None:
        self.began, self.laps = time.process_time(), list[float]()

    def on_lap(self, record: LapRecord) -> None:
        """Note the time."""
        self.laps.append(time.process_time() - self.began)


def draw_parameters(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (10, 2) and factors (10, 2, 2) of covariances from the prior; rows (11, 10) ~ Dirichlet(1), where chains start last."""
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
        Sequences(part.reshape(-1, 2), offsets=length * np.arange(len(part) + 1)) for part in (chains[:n_train], chains[n_train:])
    )  # type: ignore[return-value]


def per_row(fit: Fit, test: Sequences) -> float:
    """Held-out log predictive a row."""
    return float(log_scores(fit, test.whole()).sum()) / test.n_rows


def compare(setting: Setting, test: Sequences, seed: int) -> dict[str, float]:
    """One pass, one sweep and many sweeps from one start: held-out figures and CPU seconds."""
    start = setting.start(TRUNCATION, seed, from_plusplus)
    of_pass = Clock()
    engine = sb.StochasticVB(batch_size=BATCH, kappa=0.6, delay=0.0, max_iter=1, callbacks=[of_pass])
    once = setting.fit(engine, start, seed)  # of its time the pass alone counts: the final bound takes another
    sweep = setting.fit(sb.BatchVB(max_iter=1), start)
    of_sweeps = Clock()
    many = setting.fit(sb.BatchVB(max_iter=SWEEPS, tol=1e-5, callbacks=[of_sweeps]), start)
    laps = np.diff(of_sweeps.laps, prepend=0.0)
    return {
        "pass": per_row(once, test),
        "sweep": per_row(sweep, test),
        "sweeps": per_row(many, test),
        "pass seconds": of_pass.laps[0],
        "sweep seconds": float(np.median(laps)),
        "n_sweeps": float(len(laps)),
        "states": float(once.n_effective),
    }


def draw(found: list[dict[str, float]]) -> str:
    """Held-out predictive of each start, of one pass and of batch sweeps."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for i, name in enumerate(("sweep", "pass", "sweeps")):
        axes.plot([i] * len(found), [one[name] for one in found], "o", alpha=0.7)
    for one in found:
        axes.plot(range(3), [one["sweep"], one["pass"], one["sweeps"]], color="0.8", zorder=0)
    axes.set_xticks(range(3), ["one batch sweep", "one stochastic pass", "batch, to its end"])
    axes.set_ylabel("held-out log predictive a row (nats)")
    return save_picture(figure, "one_pass")


def run() -> Experiment:
    """Five starts."""
    n_sequences, length = (40, 500) if is_quick() else (SEQUENCES, LENGTH)
    train, test = split(draw_chains(n_sequences, length, 0))
    setting = infinite(train, FAMILY)
    setting.fit(sb.StochasticVB(batch_size=BATCH, max_iter=1), setting.start(TRUNCATION, 0, from_plusplus))  # compiles the kernels
    found = [compare(setting, test, seed) for seed in seeds(5)]
    behind = [one["sweeps"] - one["pass"] for one in found]
    ratio = [one["pass seconds"] / one["sweep seconds"] for one in found]
    rows = [
        Row("held-out a row: one batch sweep", span((one["sweep"] for one in found), 4)),
        Row("held-out a row: one stochastic pass", span((one["pass"] for one in found), 4)),
        Row("held-out a row: batch, at most 60 sweeps", span((one["sweeps"] for one in found), 4)),
        Row("one pass behind the batch's end, by start", ", ".join(f"{gap:.4f}" for gap in behind), "on par", "within 0.01 wanted"),
        Row("CPU seconds of the pass over those of one sweep", span(ratio, 2), "about 1", "at most 1.3 wanted"),
        Row("CPU seconds: a pass; a sweep", f"{_seconds(found, 'pass')}; {_seconds(found, 'sweep')}"),
        Row("sweeps that the batch made", span(one["n_sweeps"] for one in found)),
        Row("states with a row after the pass", span(one["states"] for one in found)),
    ]
    text = (
        f"E12. {n_sequences} sequences of {length:,} rows in the plane from a chain of {STATES} states; means and covariances from "
        "NIW(0, I, 0.1, 7), which is also the prior, rows from Dirichlet(1). HDP-HMM with 20 states, concentration 0.5, start 10, "
        f"top 10; 95 of 100 sequences to learn from. Starts: k-means++ on rows. Stochastic: {BATCH} sequences a step, step size "
        "t**-0.6. Held out: parameters integrated out, rows at their means, where the publication draws parameters from q."
    )
    return Experiment("One pass", text, rows, "", draw(found))


def _seconds(found: list[dict[str, float]], name: str) -> str:
    return span((one[f"{name} seconds"] for one in found), 2)
