"""Nine speakers say a vowel: one hidden Markov model for each, and the likeliest speaker of new
utterances.
"""

from __future__ import annotations

import gzip
import logging
import time
import warnings
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Table
from stickbreak.inference import Start
from stickbreak.initialize import from_blocks

from .fits import Fit
from .frame import Experiment, Row, data_folder, seeds, span
from .sequences import MOVES, as_sequences, finite, infinite, log_scores, states

SIZES = (1, 2, 3, 5)
STARTS = 3
FAMILY = sb.Gaussian(dof=15.0)  # 12 columns and three


def load(part: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Utterances (T, 12), 7 to 29 rows each, and who spoke (0 to 8)."""
    path = data_folder() / "sequences" / "japanese_vowels" / f"JapaneseVowels_{part}.ts.gz"
    lines = [
        line
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
        if line and line[0] not in "#@"
    ]
    utterances = [
        np.array([channel.split(",") for channel in line.split(":")[:-1]], dtype=float).T
        for line in lines
    ]
    return utterances, np.array([int(line.rsplit(":", 1)[1]) - 1 for line in lines])


def fit_speaker(utterances: list[np.ndarray], size: int, seed: int) -> Fit:
    """The best of some starts; from 0 states: an HDP-HMM that begins with one and finds their
    number.
    """
    data = as_sequences(utterances)
    if size == 0:
        setting = infinite(data, FAMILY)
        return setting.fit(
            sb.BatchVB(max_iter=200, tol=1e-5, moves=MOVES),
            setting.start(1, seed, from_blocks),
            seed,
        )
    setting = finite(data, FAMILY)
    starts = [setting.start(size, STARTS * seed + i, short_blocks) for i in range(STARTS)]
    return max(
        (setting.fit(sb.BatchVB(max_iter=200, tol=1e-5), start) for start in starts),
        key=lambda fit: fit.result.bound,
    )


def short_blocks(model: Any, data: Table, size: int, rng: np.random.Generator) -> Start:
    """Blocks of four rows: an utterance passes through several states in its 7 to 29 rows."""
    return from_blocks(model, data, size, rng, length=4)


def accuracy(fits: list[Fit], utterances: list[np.ndarray], speakers: np.ndarray) -> float:
    """Share of utterances whose speaker has the model that scores them best."""
    batch = as_sequences(utterances).whole()
    return float((np.array([log_scores(fit, batch) for fit in fits]).argmax(0) == speakers).mean())


def fit_peer(train: list[np.ndarray], speakers: np.ndarray, size: int, seed: int) -> list[Any]:
    """hmmlearn's maximum likelihood with full covariances and its own priors, one model a
    speaker.
    """
    from hmmlearn.hmm import GaussianHMM

    models = []
    for who in range(9):
        mine = [train[i] for i in np.flatnonzero(speakers == who)]
        model = GaussianHMM(size, covariance_type="full", n_iter=100, tol=1e-3, random_state=seed)
        models.append(model.fit(np.concatenate(mine), [len(part) for part in mine]))
    return models


def run() -> Experiment:
    """Three seeds of each size."""
    train, speakers = load("TRAIN")
    test, known = load("TEST")
    rows = []
    for size in (*SIZES, 0):
        began, right, bounds, found = time.process_time(), [], [], []
        for seed in seeds(3):
            fits = [
                fit_speaker([train[i] for i in np.flatnonzero(speakers == who)], size, seed)
                for who in range(9)
            ]
            right.append(accuracy(fits, test, known))
            bounds.append(sum(fit.result.bound for fit in fits))
            found += fits
        seconds = (time.process_time() - began) / len(right)
        name = (
            f"{size} state{'s' if size > 1 else ''}"
            if size
            else f"HDP-HMM, moves from 1 ({states(found)} states)"
        )
        figures = (
            f"accuracy {span(right, 4)}; sum of bounds {span(bounds, 0)}; CPU s {seconds:.1f} a "
            "seed"
        )
        rows.append(
            Row(
                name,
                figures,
                "",
                peer_row(train, speakers, test, known, size) if size in (1, 3, 5) else "",
            )
        )
    text = (
        "270 utterances of nine speakers to learn from and 370 to tell apart, as given; 12 "
        "coefficients a row, 7 to 29 rows. One "
        "hidden Markov model for each speaker, full Gaussians, default priors but 15 degrees of "
        f"freedom; finite ones are the best of {STARTS} starts by the "
        "bound. An utterance is given to the speaker under whose model, parameters integrated out, "
        "it is likeliest."
    )
    return Experiment("Japanese vowels", text, rows)


def peer_row(
    train: list[np.ndarray],
    speakers: np.ndarray,
    test: list[np.ndarray],
    known: np.ndarray,
    size: int,
) -> str:
    """What hmmlearn makes of the same task, run here."""
    # it warns of every likelihood that falls by rounding
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    right = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds(3):
            models = fit_peer(train, speakers, size, seed)
            right.append(
                float(
                    (
                        np.array([[m.score(x) for x in test] for m in models]).argmax(0) == known
                    ).mean()
                )
            )
    return f"hmmlearn, maximum likelihood, run here: {span(right, 4)}"
