"""Semi-Markov models on drawn data: states found from twelve and from one, one pass against sweeps,
and exact, embedded and sampled durations on lengths of another law.

`python -m experiments.durations` prints the figures.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.inference import LapRecord
from stickbreak.metrics import one_to_one

from .frame import Experiment, Row, is_quick, seeds, span
from .one_pass import FAMILY

STATES, TRUNCATION, HELD_OUT = 6, 12, 5
DRAWS = 50  # of parameters, for held-out predictives
SIZES = (500, 1000, 2000, 4000, 8000)
FORMS = ("exact", "embedded", "sampled")

Array = np.ndarray


@dataclass(frozen=True)
class Drawn:
    """Sequences of rows (T, 2), and their states."""

    rows: list[Array]
    states: list[Array]

    @property
    def train(self) -> list[Array]:
        """All but the last sequences."""
        return self.rows[:-HELD_OUT]

    @property
    def test(self) -> list[Array]:
        """The last sequences."""
        return self.rows[-HELD_OUT:]


class Clock(sb.Callback):
    """CPU seconds at the end of each lap, since it was made."""

    def __init__(self) -> None:
        self.began, self.laps = time.process_time(), list[float]()

    def on_lap(self, record: LapRecord) -> None:
        """Note the time."""
        self.laps.append(time.process_time() - self.began)


def draw(n_sequences: int, length: int, seed: int, law: str = "negative-binomial") -> Drawn:
    """Gaussian states from their prior; lengths 1 + NB(r, p), p ~ Beta(1, 1), r uniform on 1 to 10,
    or 1 + Poisson(rate), rate ~ Gamma(40, 2).
    """
    rng = np.random.default_rng([seed, 13])
    factors = []
    for _ in range(STATES):  # inverse Wishart with scatter I and 7 degrees of freedom
        normals = rng.standard_normal((7, 2))
        factors.append(np.linalg.cholesky(np.linalg.inv(normals.T @ normals)))
    factor = np.array(factors)
    means = np.einsum("kij,kj->ki", factor, rng.standard_normal((STATES, 2))) / np.sqrt(0.1)
    p, r = rng.beta(1, 1, STATES), rng.integers(1, 11, STATES)
    rates = rng.gamma(40.0, 0.5, STATES)
    steps = np.zeros((STATES, STATES))
    for k in range(STATES):
        steps[k, np.arange(STATES) != k] = rng.dirichlet(np.ones(STATES - 1))
    rows, states = [], []
    for _ in range(n_sequences + HELD_OUT):
        path, k = np.empty(0, dtype=int), int(rng.integers(STATES))
        while len(path) < length:
            more = rng.negative_binomial(r[k], 1 - p[k]) if law != "poisson" else None
            more = rng.poisson(rates[k]) if more is None else more
            path = np.r_[path, np.full(min(1 + more, length), k)]
            k = int(rng.choice(STATES, p=steps[k]))
        path = path[:length]
        noise = np.einsum("tij,tj->ti", factor[path], rng.standard_normal((length, 2)))
        rows.append(means[path] + noise)
        states.append(path)
    return Drawn(rows, states)


def fit(model: Any, rows: list[Array]) -> tuple[Any, float]:
    """The fitted model, quiet about laps, and its CPU seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows)
    return model, time.process_time() - began


def held_out(model: Any, data: Drawn) -> float:
    """Log mean predictive over drawn parameters, a row."""
    n = sum(len(rows) for rows in data.test)
    return float(model.score_sequences(data.test, draws=DRAWS, random_state=0).sum()) / n


def states_found(n_sequences: int, length: int) -> list[Row]:
    """HDP-HSMM from twelve states and from one."""
    rows = []
    for size in (TRUNCATION, 1):
        large, distance, scores, seconds = [], [], [], []
        for seed in seeds(10):
            data = draw(n_sequences, length, seed)
            engine = sb.MemoizedVB(max_iter=100)
            model, spent = fit(
                sb.HDPHSMM(
                    size, family=FAMILY, duration_inference="embedded", inference=engine,
                    random_state=seed,
                ),
                data.train,
            )  # fmt: skip
            truth = np.concatenate(data.states[:-HELD_OUT])
            labels = np.concatenate(model.predict(data.train))
            large.append(int((model.weights_ > 0.01).sum()))
            distance.append(1.0 - one_to_one(truth, labels, greedy=False))
            scores.append(model.score(data.test))
            seconds.append(spent)
        met = sum(n == STATES and d <= 0.05 for n, d in zip(large, distance, strict=True))
        rows += [
            Row(f"from {size}: states of weight over 1 %", ", ".join(map(str, large)), "6"),
            Row(f"from {size}: Hamming distance", ", ".join(f"{d:.4f}" for d in distance)),
            Row(f"from {size}: both as wanted", f"{met} of {len(large)}", "", "wanted: 8 of 10"),
            Row(f"from {size}: held-out a row", span(scores, 3)),
            Row(f"from {size}: CPU seconds", span(seconds)),
        ]
    return rows


def one_pass(n_sequences: int, length: int) -> list[Row]:
    """One pass of stochastic steps against 40 sweeps, from the same start."""
    rows = []
    for seed in seeds(3):
        data = draw(n_sequences, length, seed)
        settings = {
            "family": FAMILY, "duration_inference": "embedded", "init": "k-means++",
            "random_state": seed,
        }  # fmt: skip
        clock = Clock()
        sweeps = sb.BatchVB(max_iter=40, moves=None, callbacks=[clock])
        batch, _ = fit(sb.HDPHSMM(TRUNCATION, inference=sweeps, **settings), data.train)
        sweep = float(np.median(np.diff(clock.laps)))
        clock = Clock()
        steps = sb.StochasticVB(
            max_iter=1, batch_size=2, kappa=1.0, delay=20.0, first_rate=1.0, callbacks=[clock]
        )
        once, _ = fit(sb.HDPHSMM(TRUNCATION, inference=steps, **settings), data.train)
        gap = held_out(batch, data) - held_out(once, data)
        rows.append(
            Row(
                f"one pass, seed {seed}",
                f"behind 40 sweeps by {gap:.4f} a row, in {clock.laps[0] / sweep:.2f} sweeps' time",
                "on par, about 1",
                "wanted: within 0.01, at most 1.3",
            )
        )
    return rows


def forms(n_sequences: int, lengths: tuple[int, ...]) -> list[Row]:
    """Poisson lengths, negative binomial law: all three forms from the same start."""
    rows = []
    for length in lengths:
        data = draw(n_sequences, length, 0, "poisson")
        found = {}
        for form in FORMS:
            model = sb.HDPHSMM(
                TRUNCATION, family=FAMILY, duration_inference=form, init="k-means++",
                inference=sb.BatchVB(max_iter=20, moves=None), random_state=0,
            )  # fmt: skip
            model, seconds = fit(model, data.train)
            found[form] = held_out(model, data), seconds
        best = found["exact"]
        rows += [
            Row(
                f"Poisson lengths, {n_sequences} x {length}, {form}",
                f"held-out {score:.4f} a row, {seconds:.1f} CPU s, "
                f"{seconds / best[1]:.2f} of exact",
            )
            for form, (score, seconds) in found.items()
        ]
    return rows


def exponents() -> list[Row]:
    """Time of a lap over the rows of a sequence."""
    rows = []
    for form in FORMS:
        seconds = []
        for length in SIZES:
            n = 8  # sequences are inferred eight at a time
            data = draw(n, length, 0)
            least = np.inf
            for _ in range(2):
                clock = Clock()
                engine = sb.BatchVB(max_iter=3, tol=0.0, callbacks=[clock])
                model = sb.HSMM(
                    STATES, duration_inference=form, init="random", inference=engine,
                    random_state=0,
                )  # fmt: skip
                fit(model, data.train)
                least = min(least, float(np.diff(clock.laps).min()))
            seconds.append(least / n)
        slope = np.polyfit(np.log(SIZES), np.log(seconds), 1)[0]
        figures = ", ".join(f"{1000 * s:.2f}" for s in seconds)
        wanted = "wanted: 2.0 +- 0.15" if form == "exact" else "wanted: 1.0 +- 0.1"
        rows.append(
            Row(f"{form}: exponent of time in T", f"{slope:.2f} ({figures} ms)", "", wanted)
        )
    return rows


def run() -> Experiment:
    """All parts; `--quick` on a tenth of the sequences."""
    n = 5 if is_quick() else 50
    rows = [
        *exponents(),
        *states_found(n, 2000),
        *one_pass(n, 2000),
        *forms(n, (3000,)),
    ]
    setting = (
        "Six states, 2-D Gaussians from NIW(0, I, 0.1, 7), 50 sequences of 2,000 rows with lengths "
        "1 + NB(r, p), p ~ Beta(1, 1), r uniform on 1 to 10, and 50 of 3,000 with 1 + Poisson, "
        "rates ~ Gamma(40, 2); five more sequences are held out, scored by the log mean predictive "
        "over 50 draws of the parameters (`score_sequences(draws=50)`), or where it says "
        "score, at "
        "posterior means. HDP-HSMM with negative binomial durations; truncation 12 where there are "
        "no moves. Times of a lap are of one sequence, K = 6, from 500 to 8,000 rows."
    )
    return Experiment("Durations: HDP-HSMM on drawn segments", setting, rows)


if __name__ == "__main__":
    for row in run().rows:
        print(f"{row.what} | {row.ours} | {row.published} | {row.peer}", flush=True)
