"""Word alignment of French and English: EM, variational Bayes and collapsed inference from the same
start, laps, priors and jumps, rare words as garbage collectors, and other tools in the same run.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Links

from .alignment_peers import PEERS, MissingPeerError
from .bitexts import Pairs, error_rates, read_hansards, read_swedish, write_pairs
from .frame import Experiment, Row, is_quick

LAPS = 5
SHOWN = ("forward", "reverse", "intersection", "grow-diag")
ENGINES = {
    "EM": lambda laps: sb.EM(max_iter=laps, tol=0.0),
    "VB": lambda laps: sb.BatchVB(max_iter=laps, tol=0.0, moves=None),
    "collapsed, by sentence": lambda laps: sb.CollapsedVB(max_iter=laps, tol=0.0),
    "collapsed, by word": lambda laps: sb.CollapsedVB(max_iter=laps, tol=0.0, granularity="token"),
    "collapsed Gibbs": lambda laps: sb.CollapsedGibbs(max_iter=laps),
}
MAIN = ("EM", "VB", "collapsed, by sentence")
TITLE = "Word alignment of Hansards, and of English and Swedish"
SETTING = (
    "25,447 pairs in small letters (the files are UTF-8), gold of the first 447 with 4,038 "
    "sure and 17,438 possible links. Alignment error rate in per cent, English to French / "
    "French to English / intersection / grow-diag; then CPU seconds of fit and links, both "
    "directions, one thread, on a busy machine (load average about 18; peers: whole "
    "processes). All fits begin with even links: five laps of model 1, and for the HMM five "
    "more; word_concentration 0.01, open jumps, a share of NULL of 0.2. Collapsed fits: links "
    "of each pair given all others. Peers have their defaults; systran-align joins directions "
    "itself. English-Swedish: 1,164 pairs, gold for all of them."
)
FOUND = ""


class Found:
    """Links of a fit, their error rates in per cent, and CPU seconds of fit and links."""

    def __init__(self, model: Any, pairs: Pairs) -> None:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sb.StickbreakWarning)
            model.fit(pairs.bitext)
        self.forward: Links = model.fit_links("forward")
        self.reverse: Links = model.fit_links("reverse")
        self.seconds = time.process_time() - began
        self.rates = error_rates(self.forward, self.reverse, pairs.gold)
        self.model = model

    def __str__(self) -> str:
        return f"{show(self.rates)}; {self.seconds:.0f} s"


def show(rates: dict[str, float]) -> str:
    """Both directions, intersection, grow-diag; or what there is."""
    return " / ".join(f"{rates[name]:.1f}" for name in SHOWN if name in rates) or " / ".join(
        f"{rate:.1f}" for rate in rates.values()
    )


def aligners(engine: str, laps: int = LAPS, **options: Any) -> dict[str, Any]:
    """Both models with one engine, all from the uniform start."""
    make = ENGINES[engine]
    jumps = {name: options.pop(name) for name in ("jumps",) if name in options}
    common = {"inference": make(laps), "random_state": 0, **options}
    return {
        "model 1": sb.IBM1(**common),
        "HMM": sb.HMMAligner(ibm1_laps=laps, **common, **jumps),
    }


def main_rows(pairs: Pairs, engines: tuple[str, ...] = tuple(ENGINES)) -> list[Row]:
    """Every engine, both models, default settings."""
    rows = []
    for engine in engines:
        for name, model in aligners(engine).items():
            found = Found(model, pairs)
            rows.append(Row(f"{name}, {engine}", str(found)))
            print(rows[-1], flush=True)
    return rows


def peer_rows(pairs: Pairs) -> list[Row]:
    """Other tools on the same text."""
    path, rows = write_pairs(pairs.bitext), []
    for name, run_peer in PEERS.items():
        try:
            found = run_peer(path)
            rates = error_rates(found.forward, found.reverse, pairs.gold)
            text = f"{show(rates)}; {found.seconds:.0f} s"
        except MissingPeerError as error:
            text = f"not installed ({error})"
        rows.append(Row(name, "", "", text))
        print(rows[-1], flush=True)
    return rows


def setting_rows(pairs: Pairs, engines: tuple[str, ...] = MAIN) -> list[Row]:
    """Laps, prior counts of words, and both kinds of jumps, of the HMM."""
    rows = []
    for laps in (3, 10, 20):
        for engine in engines:
            found = Found(aligners(engine, laps)["HMM"], pairs)
            rows.append(Row(f"HMM, {engine}, {laps} laps of each model", str(found)))
            print(rows[-1], flush=True)
    for engine in engines:
        for beta in (0.001, 0.1, 0.3):
            found = Found(aligners(engine, word_concentration=beta)["HMM"], pairs)
            rows.append(Row(f"HMM, {engine}, word_concentration={beta:g}", str(found)))
            print(rows[-1], flush=True)
    for engine in engines:
        found = Found(aligners(engine, jumps="renormalised")["HMM"], pairs)
        rows.append(Row(f'HMM, {engine}, jumps="renormalised"', str(found)))
        print(rows[-1], flush=True)
    return rows


def garbage(links: Links, pairs: Pairs) -> tuple[float, float]:
    """Mean number of links of source words that occur once, and of all other source words."""
    side = pairs.bitext.source
    counts = np.bincount(side.numbers, minlength=len(side.words))
    tokens = side.offsets[:-1]
    owners = np.repeat(tokens, np.diff(links.offsets)) + links.positions[:, 0]
    linked = np.bincount(owners, minlength=len(side.numbers))
    is_rare = counts[side.numbers] == 1
    return float(linked[is_rare].mean()), float(linked[~is_rare].mean())


def garbage_rows(pairs: Pairs, engines: tuple[str, ...] = MAIN) -> list[Row]:
    """How many target words a source word collects that occurs once; model 1, e->f."""
    rows = []
    for engine in engines:
        found = Found(aligners(engine)["model 1"], pairs)
        rare, others = garbage(found.forward, pairs)
        what = f"model 1, {engine}: links of a source word that occurs once, and of others"
        rows.append(Row(what, f"{rare:.2f}, {others:.2f}"))
        print(rows[-1], flush=True)
    return rows


def share_rows(pairs: Pairs) -> list[Row]:
    """A learned share of NULL, and fertilities."""
    engine = "collapsed, by sentence"
    made = {
        'model 1, collapsed, null="learned"': aligners(engine, null="learned")["model 1"],
        'HMM, collapsed, null="learned"': aligners(engine, null="learned")["HMM"],
        "HMM, collapsed, fertility=True": sb.HMMAligner(
            fertility=True, inference=ENGINES[engine](LAPS), random_state=0
        ),
    }
    rows = []
    for name, model in made.items():
        rows.append(Row(name, str(Found(model, pairs))))
        print(rows[-1], flush=True)
    return rows


def run() -> Experiment:
    """Hansards, on the first 2,000 pairs under `--quick`; then settings on English-Swedish."""
    pairs, swedish = read_hansards(2000 if is_quick() else None), read_swedish()
    rows = [*main_rows(pairs, MAIN), *share_rows(pairs), *garbage_rows(pairs), *peer_rows(pairs)]
    others = [
        *main_rows(swedish),
        *share_rows(swedish),
        *setting_rows(swedish),
        *peer_rows(swedish),
    ]
    rows += [Row(f"English-Swedish: {r.what}", r.ours, r.published, r.peer) for r in others]
    return Experiment(TITLE, SETTING, rows, FOUND)
