"""How many states a search finds, and how far it ends from the fit begun with the truth.

`python -m experiments.search_chains symbols 3` prints one problem, three seeds.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import v_measure_score

import stickbreak as sb

from .chain_problems import PROBLEMS, Problem
from .frame import Experiment, MissingDataError, Row, assert_rises, seeds, span

SEEDS = {
    "fast": 12,
    "fast, concentration 0.001": 20,
    "two symbols": 12,
    "sentences": 5,
    "sentences, prior 0.1": 2,
}
NEAR = 5.0  # nats
STARTS = ("auto", "blocks", "collapsed")
N_OTHERS = 3  # seeds of starts that are not the default


class Found(NamedTuple):
    """States with a row, nats above the fit from the truth, CPU seconds, V-measure of the states.

    true_states : of the fit from the truth
    """

    n_states: int
    gap: float
    seconds: float
    agreement: float
    true_states: int


def fit(model: Any, problem: Problem, labels: Any = None) -> float:
    """Fit, quiet about laps that ran out, and check that the bound never dropped; returns CPU
    seconds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        began = time.process_time()
        model.fit(problem.rows, labels=labels)
        seconds = time.process_time() - began
    assert_rises(model.trace_.bound)
    return seconds


def fit_truth(problem: Problem) -> Any:
    """The fit that begins with the states that made the rows; with moves, where there are some."""
    model = problem.make()
    engine = model.inference
    first = engine or sb.BatchVB(moves=None)
    model.set_params(n_components=problem.n_states, max_iter=1, inference=first, random_state=0)
    fit(model, problem, problem.truth)
    model.set_params(inference=engine, max_iter=None, warm_start=True)
    fit(model, problem)
    return model


def search(problem: Problem, seed: int, init: str, truth: Any) -> Found:
    """One fit from a start of its own."""
    model = problem.make().set_params(init=init, random_state=seed)
    seconds = fit(model, problem)
    agreement = v_measure_score(np.concatenate(problem.truth), np.concatenate(model.labels_))
    gap = model.lower_bound_ - truth.lower_bound_
    return Found(model.n_effective_, gap, seconds, agreement, truth.n_effective_)


def fit_peer(problem: Problem, seed: int, truth: Any) -> Found:
    """hmmlearn, given the same number of states; its gap is that of the log likelihood."""
    from hmmlearn import hmm

    rows, lengths = np.concatenate(problem.rows), [len(part) for part in problem.rows]
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # laps that ran out
    options = {"covariance_type": "full"} if problem.peer == "GaussianHMM" else {}
    peer = getattr(hmm, problem.peer)(
        problem.n_states, n_iter=200, tol=1e-5 * len(rows), random_state=seed, **options
    )
    began = time.process_time()
    peer.fit(rows, lengths)
    seconds = time.process_time() - began
    best = float(truth.score_sequences(problem.rows).sum())
    labels = peer.predict(rows, lengths)
    agreement = v_measure_score(np.concatenate(problem.truth), labels)
    n_states = len(np.unique(labels))
    return Found(n_states, peer.score(rows, lengths) - best, seconds, agreement, problem.n_states)


def write(found: list[Found]) -> str:
    """One line of figures."""
    n, near = len(found), sum(f.gap > -NEAR for f in found)
    same = sum(f.n_states == f.true_states for f in found)
    return (
        f"within {NEAR:g} nats or above {near} of {n}; as many states {same} of {n}; "
        f"gap {span((f.gap for f in found), 1)}; states {span(f.n_states for f in found)} "
        f"(truth {span(f.true_states for f in found)}); V-measure "
        f"{span((f.agreement for f in found), 2)}; CPU s {span((f.seconds for f in found), 1)}"
    )


def rows_of(name: str, n_seeds: int, make: Callable[[int], Problem]) -> list[Row]:
    """The figures of one problem."""
    found: dict[str, list[Found]] = {}
    for seed in seeds(n_seeds):
        problem = make(seed)
        truth = fit_truth(problem)
        kinds = [init for init in STARTS if init != problem.usual]
        for init in kinds if seed < N_OTHERS else kinds[:1]:
            found.setdefault(init, []).append(search(problem, seed, init, truth))
        if problem.peer:
            found.setdefault(f"hmmlearn's {problem.peer}", []).append(
                fit_peer(problem, seed, truth)
            )
        shown = " ".join(
            f"{kind}: {each[-1].n_states} {each[-1].gap:.1f} {each[-1].seconds:.1f};"
            for kind, each in found.items()
            if len(each) == seed + 1
        )
        print(f"# {name} {seed} {shown}", flush=True)
    return [Row(f"{name}: {kind}", write(each)) for kind, each in found.items()]


def run() -> Experiment:
    """All problems."""
    rows = []
    for name, make in PROBLEMS.items():
        try:
            rows += rows_of(name, SEEDS.get(name, 10), make)
        except MissingDataError as missing:
            print(f"{name}: left out ({missing})")
    setting = (
        "Generators in `experiments/chain_problems.py`: 8 states over 200 symbols, Dirichlet(0.1) "
        "emissions and Dirichlet(0.3) rows, 40 x 500 rows, and 16 x 300; 15 Gaussian states two "
        "deviations apart (20 x 500 rows); four common states, two of a row in a thousand; "
        "five states that differ in their covariances; four states with Dirichlet(1) rows for "
        "`HMM(4)`, and with `concentration=0.001`; two states over four symbols for EM; 1,400 "
        "sentences of the treebank. A gap is the bound less that of the fit begun with the true "
        'states, moves and all. Ten seeds of data and of the default, "auto", unless "of" says '
        f"another number, {N_OTHERS} of other starts. hmmlearn is given the number of states; its "
        "gap is that of the log likelihood. No bound dropped. Run beside other processes."
    )
    return Experiment("Searches for states", setting, rows)


if __name__ == "__main__":
    for line in rows_of(sys.argv[1], int(sys.argv[2]), PROBLEMS[sys.argv[1]]):
        print(line.what, "|", line.ours)
