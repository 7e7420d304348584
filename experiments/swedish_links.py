"""Word alignment of English and Swedish: the tables of Hansards, and what was chosen by them."""

from __future__ import annotations

from typing import Any

import stickbreak as sb

from .alignment_tables import (
    CODED,
    aligner,
    equal_rows,
    fit_row,
    lap_rows,
    main_rows,
    other_rows,
    peer_rows,
    prior_rows,
)
from .bitexts import Pairs, read_swedish
from .frame import Experiment, Row

TEXT = "1,164 pairs in small letters, English is the source; gold for all of them. "
FOUND = (
    "The default share of NULL and prior count of words were chosen here, and not on Hansards: "
    "of fixed shares 0.05 in model 1 and 0.2 in the HMM, and of prior counts 0.003 in both, have "
    "the smallest mean of the four rates, of collapsed inference by sentence. In the HMM a learned "
    "share has 28.43, 0.2 has 28.45: this text does not settle it, and a learned share was known "
    "to be worse on Hansards."
)


def share_rows(pairs: Pairs) -> list[Row]:
    """Shares of NULL in both models."""
    shares: list[Any] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, "learned", "position"]
    rows = []
    for model in ("model 1", "HMM"):
        for null in shares:
            made = aligner(model, "collapsed, by sentence", null=null)
            rows.append(fit_row(f"{model}, collapsed, by sentence, null={null!r}", made, pairs)[0])
    return rows


def word_rows(pairs: Pairs) -> list[Row]:
    """Prior counts of words in both models."""
    rows, best = [], "collapsed, by sentence"
    for model in ("model 1", "HMM"):
        for beta in (0.001, 0.002, 0.003, 0.005, 0.01, 0.02):
            made = aligner(model, best, word_concentration=beta)
            rows.append(fit_row(f"{model}, {best}, word_concentration={beta}", made, pairs)[0])
    return rows


def step_rows(pairs: Pairs) -> list[Row]:
    """Stochastic engines of 25 steps in a lap, as many as 1,024 of 25,000 pairs make, and fewer;
    and how far they go.

    Two laps of each model.
    """
    size, rows = -(-len(pairs.bitext) // 25), []
    for n_steps in (12, 6, 4):
        for engine in (sb.StochasticVB, sb.StochasticCollapsedVB):
            made = engine(max_iter=2, batch_size=-(-len(pairs.bitext) // n_steps))
            what = f"HMM, {engine.__name__}, {n_steps} steps in a lap"
            rows.append(fit_row(what, aligner("HMM", made, 2), pairs)[0])
    for kappa, delay in ((0.5, 10.0), (0.6, 10.0), (0.8, 10.0), (1.0, 10.0), (1.0, 25.0),
                         (1.0, 50.0), (1.0, 100.0)):  # fmt: skip
        for engine in (sb.StochasticVB, sb.StochasticCollapsedVB):
            made = engine(max_iter=2, batch_size=size, kappa=kappa, delay=delay)
            what = f"HMM, {engine.__name__}, 25 steps in a lap, kappa={kappa:g}, delay={delay:g}"
            rows.append(fit_row(what, aligner("HMM", made, 2), pairs)[0])
    return rows


def run() -> Experiment:
    """All of it, also under `--quick`."""
    pairs = read_swedish()
    tables = (
        main_rows,
        equal_rows,
        other_rows,
        step_rows,
        share_rows,
        word_rows,
        lap_rows,
        prior_rows,
    )
    rows = [row for table in (*tables, peer_rows) for row in table(pairs)]
    return Experiment("Word alignment of English and Swedish", TEXT + CODED, rows, FOUND)
