"""Rows of tables of word alignment: fits, their links and error rates, and other tools."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Links

from .alignment_peers import PEERS, MissingPeerError
from .bitexts import Pairs, error_rates, write_pairs
from .frame import Row

LAPS = 5
FLAT = 1e-9  # prior counts of maximum likelihood: too few to be seen in float64 sums
SHOWN = ("forward", "reverse", "intersection", "grow-diag")
ENGINES = {
    "EM": lambda laps: sb.EM(max_iter=laps, tol=0.0),
    "VB": lambda laps: sb.BatchVB(max_iter=laps, tol=0.0, moves=None),
    "collapsed, by sentence": lambda laps: sb.CollapsedVB(max_iter=laps, tol=0.0),
    "collapsed, by word": lambda laps: sb.CollapsedVB(max_iter=laps, tol=0.0, granularity="token"),
    "stochastic VB": lambda laps: sb.StochasticVB(max_iter=laps),
    "stochastic collapsed": lambda laps: sb.StochasticCollapsedVB(max_iter=laps),
}
MAIN = ("EM", "VB", "collapsed, by sentence")
# error rates of others on other texts, by row: only their order can be compared
TUTORIAL, FBIS = "text not stated", "Chinese-English (FBIS)"
PUBLISHED = {
    "model 1, EM at maximum likelihood, equal settings": f"20.3, {TUTORIAL}",
    "model 1, VB, equal settings": f"19.0, {TUTORIAL}",
    "HMM, EM at maximum likelihood": f"36.4, {FBIS}",
    "HMM, VB": f"36.8, {FBIS}",
    "HMM, collapsed, by sentence": f"35.7, {FBIS}",
    "HMM, collapsed Gibbs": f"34.6, {FBIS}, Pitman-Yor prior",
}
MODELS = {"model 1": sb.IBM1, "HMM": sb.HMMAligner}
CODED = (
    "Alignment error rate in per cent, source to target / target to source / intersection / "
    "grow-diag; then CPU seconds of fit and links, both directions, one thread (peers: whole "
    "processes). All fits begin with even links: five laps of model 1, and for the HMM five more; "
    "word_concentration 0.003, open jumps, a share of NULL of 0.05 in model 1 and 0.2 in the HMM "
    "and the laps of model 1 before it, unless a row says otherwise. EM is at the mode with prior "
    "counts, count + 0.003, which is the predictive rule without exclusion; EM at maximum "
    "likelihood has prior counts of 1e-9 for words and jumps. Collapsed fits: links of each pair "
    "given all others. Draws: one, after 5,000 over the square root of the number of pairs laps, "
    "at most 100. Peers have their defaults; systran-align joins directions itself."
)


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


def aligner(model: str, engine: Any, laps: int = LAPS, **options: Any) -> Any:
    """One of both models with an engine, from even links."""
    is_named = isinstance(engine, str) and engine in ENGINES
    made = ENGINES[engine](laps) if is_named else engine
    if model == "HMM":
        options = {"ibm1_laps": laps, **options}
    return MODELS[model](inference=made, random_state=0, **options)


def fit_row(name: str, model: Any, pairs: Pairs) -> tuple[Row, Found]:
    """A fit as a row, shown as soon as it is there. Published figures are beside large texts."""
    found, is_large = Found(model, pairs), len(pairs.bitext) > 2000
    row = Row(name, str(found), PUBLISHED.get(name, "") if is_large else "")
    print(row, flush=True)
    return row, found


def main_rows(pairs: Pairs) -> list[Row]:
    """EM, VB and collapsed inference, both models; fertilities, bounds, garbage collectors."""
    rows, bounds, collected = [], [], []
    for model in MODELS:
        flat = {"word_concentration": FLAT}
        if model == "HMM":
            flat["jump_concentration"] = FLAT
        name = f"{model}, EM at maximum likelihood"
        row, found = fit_row(name, aligner(model, "EM", **flat), pairs)
        rows.append(row)
        if model == "model 1":
            collected.append(("EM at maximum likelihood", garbage(found.forward, pairs)))
        for engine in MAIN:
            row, found = fit_row(f"{model}, {engine}", aligner(model, engine), pairs)
            rows.append(row)
            if model == "HMM" and engine != "EM":
                bounds.append(f"{engine} {found.model.lower_bound_:,.0f}")
            if model == "model 1":
                collected.append((engine, garbage(found.forward, pairs)))
    name = f"HMM, {MAIN[-1]}, fertility=True"
    rows.append(fit_row(name, aligner("HMM", MAIN[-1], fertility=True), pairs)[0])
    return [*rows, *_bounds(pairs, bounds), _collectors(collected)]


def other_rows(pairs: Pairs) -> list[Row]:
    """Collapsed inference by word, draws, other shares of NULL, and the other kind of jumps."""
    best, flat = MAIN[-1], {"word_concentration": FLAT}
    made = {}
    for model in MODELS:
        made |= {
            f"{model}, collapsed, by word": aligner(model, "collapsed, by word"),
            f"{model}, collapsed Gibbs": aligner(model, "collapsed-gibbs"),
            f'{model}, {best}, null="learned"': aligner(model, best, null="learned"),
        }
    made["model 1, EM at maximum likelihood, null=0.2"] = aligner("model 1", "EM", null=0.2, **flat)
    made |= {f"model 1, {e}, null=0.2": aligner("model 1", e, null=0.2) for e in MAIN}
    made |= {
        f"HMM, {e}, jumps='renormalised'": aligner("HMM", e, jumps="renormalised") for e in MAIN
    }
    return [fit_row(name, model, pairs)[0] for name, model in made.items()]


def equal_rows(pairs: Pairs) -> list[Row]:
    """A prior count of words of 0.01 and a share of NULL of 0.2, in both models and all engines."""
    same = {"word_concentration": 0.01, "null": 0.2}
    flat = {"word_concentration": FLAT, "null": 0.2}
    made = {"model 1, EM at maximum likelihood": aligner("model 1", "EM", **flat)}
    made |= {f"model 1, {engine}": aligner("model 1", engine, **same) for engine in MAIN}
    for jumps in ("open", "renormalised"):
        none = {"jump_concentration": FLAT, "jumps": jumps}
        made[f"HMM, {jumps} jumps, EM at maximum likelihood"] = aligner("HMM", "EM", **flat, **none)
        for engine in MAIN:
            what = f"HMM, {jumps} jumps, {engine}"
            made[what] = aligner("HMM", engine, jumps=jumps, **same)
    return [fit_row(f"{name}, equal settings", model, pairs)[0] for name, model in made.items()]


def stream_rows(pairs: Pairs) -> list[Row]:
    """Stochastic engines, which see each pair once in a lap and hold nothing of it; and two laps of
    those that hold all links.
    """
    laps_of = dict.fromkeys(("stochastic VB", "stochastic collapsed"), (1, 2, LAPS))
    laps_of |= dict.fromkeys(MAIN[1:], (2,))
    return [
        fit_row(f"HMM, {engine}, {laps} laps of each model", aligner("HMM", engine, laps), pairs)[0]
        for engine, all_laps in laps_of.items()
        for laps in all_laps
    ]


def _bounds(pairs: Pairs, bounds: list[str]) -> list[Row]:
    """The bound of VB, at the collapsed posterior, and of VB that goes on from collapsed laps."""
    after = bound_after(pairs)
    what = "HMM: bound of VB, at the collapsed posterior, of five VB laps after collapsed ones"
    row = Row(what, "; ".join([*bounds, f"VB after collapsed {after:,.0f}"]))
    print(row, flush=True)
    return [row]


def bound_after(pairs: Pairs) -> float:
    """The bound after five laps of VB from the counts of a collapsed HMM, forward."""
    from stickbreak.inference import BatchVB, Start, run

    model = aligner("HMM", "collapsed, by sentence", directions="forward").fit(pairs.bitext)
    fitted = model._require_fitted()
    task = model._prepare(model._given(pairs.bitext), None)
    start = Start(fitted.counts, fitted.params)
    engine = BatchVB(max_iter=LAPS, tol=0.0, moves=None)
    return run(fitted.model, engine, task.table, start).bound


def garbage(links: Links, pairs: Pairs) -> tuple[float, float]:
    """Mean number of links of source words that occur once, and of all other source words."""
    side = pairs.bitext.source
    counts = np.bincount(side.numbers, minlength=len(side.words))
    tokens = side.offsets[:-1]
    owners = np.repeat(tokens, np.diff(links.offsets)) + links.positions[:, 0]
    linked = np.bincount(owners, minlength=len(side.numbers))
    is_rare = counts[side.numbers] == 1
    return float(linked[is_rare].mean()), float(linked[~is_rare].mean())


def _collectors(found: list[tuple[str, tuple[float, float]]]) -> Row:
    """How many target words a source word collects that occurs once; model 1, forward."""
    shown = "; ".join(f"{name} {rare:.2f}, {others:.2f}" for name, (rare, others) in found)
    return Row("model 1: links of a source word that occurs once, and of others", shown)


def peer_rows(pairs: Pairs) -> list[Row]:
    """Other tools on the same text; the mean of some runs where each draws other numbers."""
    path, rows = write_pairs(pairs.bitext), []
    for name, (run_peer, n_runs) in PEERS.items():
        try:
            found = [run_peer(path) for _ in range(n_runs)]
            rates = [error_rates(one.forward, one.reverse, pairs.gold) for one in found]
            mean = {rule: sum(one[rule] for one in rates) / n_runs for rule in rates[0]}
            text = f"{show(mean)}; {sum(one.seconds for one in found) / n_runs:.0f} s"
        except MissingPeerError as error:
            text = f"not installed ({error})"
        what = name if n_runs == 1 else f"{name}, mean of {n_runs} runs"
        rows.append(Row(what, "", "", text))
        print(rows[-1], flush=True)
    return rows


def lap_rows(pairs: Pairs) -> list[Row]:
    """Other numbers of laps."""
    return [
        fit_row(f"HMM, {e}, {laps} laps of each model", aligner("HMM", e, laps), pairs)[0]
        for laps in (3, 10, 20)
        for e in MAIN
    ]


def prior_rows(pairs: Pairs) -> list[Row]:
    """Other prior counts of words."""
    rows = []
    for beta in (0.001, 0.01, 0.1, 0.3):
        for engine in MAIN:
            what = f"HMM, {engine}, word_concentration={beta}"
            rows.append(fit_row(what, aligner("HMM", engine, word_concentration=beta), pairs)[0])
    return rows
