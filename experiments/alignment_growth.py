"""CPU time and memory of aligners as a bitext grows, from a file of pairs to a file of links."""

from __future__ import annotations

from .alignment_speed import SETTING, ours, repeated
from .bitexts import read_hansards, write_pairs
from .frame import Experiment, Row, is_quick

MODELS = {"IBM1": "model 1", "HMMAligner": "HMM"}
FITS = (
    ("IBM1", "collapsed"),
    ("HMMAligner", "collapsed"),
    ("HMMAligner", "stochastic"),
    ("HMMAligner", "stochastic-collapsed"),
)


def run() -> Experiment:
    """One lap of each model, and more and more pairs."""
    pairs = read_hansards(2000 if is_quick() else None)
    path, rows = write_pairs(pairs.bitext), []
    for model, engine in FITS:
        for times in (1, 2, 4, 10):
            found = ours(repeated(path, times), model, inference=engine, laps=1)
            n = times * len(pairs.bitext)
            each = 1e6 * found.cpu / n
            what = f"{MODELS[model]}, {engine}, one lap of each model, {n:,} pairs"
            rows.append(Row(what, f"{found}; {each:.0f} microseconds a pair"))
            print(rows[-1], flush=True)
    return Experiment(
        "Word alignment of more pairs",
        SETTING + " More pairs are the same ones repeated: words and cells stay the same.",
        rows,
    )
