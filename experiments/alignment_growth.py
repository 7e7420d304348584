"""CPU time and memory of aligners as a bitext grows, from a file of pairs to a file of links."""

from __future__ import annotations

from .alignment_speed import SETTING, ours, repeated
from .bitexts import read_hansards, write_pairs
from .frame import Experiment, Row, is_quick

ENGINES = ("collapsed", "stochastic", "stochastic-collapsed")


def run() -> Experiment:
    """One lap of each model, and more and more pairs."""
    pairs = read_hansards(2000 if is_quick() else None)
    path, rows = write_pairs(pairs.bitext), []
    for engine in ENGINES:
        for times in (1, 2, 4, 10) if engine == "collapsed" else (1, 4, 10):
            found = ours(repeated(path, times), "HMMAligner", inference=engine, laps=1)
            n = times * len(pairs.bitext)
            each = 1e6 * found.cpu / n
            what = f"HMM, {engine}, one lap of each model, {n:,} pairs"
            rows.append(Row(what, f"{found}; {each:.0f} microseconds a pair"))
            print(rows[-1], flush=True)
    return Experiment(
        "Word alignment of more pairs",
        SETTING + " More pairs are the same ones repeated: words and cells stay the same.",
        rows,
    )
