"""Every estimator with every engine that it takes: the same bits on workers, however cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from inference.test_remote import LENGTHS, PAIRS, SENTENCES, SYMBOLS, WORDS, X, contents
from places import processes

import stickbreak as sb
from stickbreak.data import batches
from stickbreak.inference import collapsed, executors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::stickbreak.StickbreakWarning"),
    pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning"),
]

ENGINES: dict[str, Callable[[], Any]] = {
    "batch": lambda: sb.BatchVB(max_iter=2, tol=0),
    "memoized": lambda: sb.MemoizedVB(n_batches=2, max_iter=2, tol=0),
    "stochastic": lambda: sb.StochasticVB(batch_size=20, max_iter=1),
    "EM": lambda: sb.EM(max_iter=2, tol=0),
    "hard": lambda: sb.HardEM(max_iter=2),
    "Gibbs": lambda: sb.Gibbs(max_iter=2),
    "collapsed": lambda: sb.CollapsedVB(max_iter=2, tol=0),
    "blocks": lambda: sb.CollapsedVB(max_iter=2, tol=0, block=8),
    "collapsed Gibbs": lambda: sb.CollapsedGibbs(max_iter=2),
    "collapsed stream": lambda: sb.StochasticCollapsedVB(batch_size=20, max_iter=1),
    "windows": lambda: sb.SubchainVB(max_iter=1),
}


def settings(engine: str, **more: Any) -> dict[str, Any]:
    return {"random_state": 0, "inference": ENGINES[engine](), **more}


LOCAL: dict[str, Any] = {"init": "local"}
FEW = SENTENCES[:30]
FITS: dict[str, Callable[[str], Any]] = {
    "Mixture": lambda e: sb.Mixture(3, family="categorical", **settings(e)).fit(SYMBOLS[:300]),
    "DPMixture": lambda e: sb.DPMixture(3, family="categorical", **settings(e)).fit(SYMBOLS[:300]),
    "HDPMixture": lambda e: sb.HDPMixture(3, **settings(e)).fit(X, lengths=LENGTHS),
    "HMM": lambda e: sb.HMM(3, family="categorical", **settings(e)).fit(SYMBOLS, lengths=LENGTHS),
    "HDPHMM": lambda e: sb.HDPHMM(3, **settings(e)).fit(X, lengths=LENGTHS),
    "HSMM": lambda e: sb.HSMM(3, max_duration=8, **settings(e)).fit(X, lengths=LENGTHS),
    "HDPHSMM": lambda e: sb.HDPHSMM(3, max_duration=8, **settings(e)).fit(X, lengths=LENGTHS),
    "LDA": lambda e: sb.LatentDirichletAllocation(4, **settings(e, **LOCAL)).fit(WORDS),
    "HDPTopicModel": lambda e: sb.HDPTopicModel(4, **settings(e, **LOCAL)).fit(WORDS[:40]),
    "IBM1": lambda e: sb.IBM1(**settings(e)).fit(PAIRS),
    "HMMAligner": lambda e: sb.HMMAligner(**settings(e)).fit(PAIRS),
    "PCFG": lambda e: sb.PCFG(3, **settings(e, **LOCAL)).fit(FEW),
    "HDPPCFG": lambda e: sb.HDPPCFG(3, **settings(e, **LOCAL)).fit(FEW),
    "DMV": lambda e: sb.DMV(**settings(e)).fit(FEW),
    "TemplateGrammar": lambda e: sb.TemplateGrammar(**settings(e)).fit(FEW),
}
REFUSED: dict[str, set[str]] = {
    "Mixture": {"windows"},
    "DPMixture": {"windows"},
    "HDPMixture": {"windows", "hard", "collapsed Gibbs"},
    "HMM": {"collapsed Gibbs"},
    "HDPHMM": {"collapsed Gibbs"},
    "HSMM": {"windows", "collapsed Gibbs"},
    "HDPHSMM": {"windows", "collapsed Gibbs"},
    "LDA": {"windows", "hard"},
    "HDPTopicModel": {"windows", "hard"},
    "IBM1": {"windows", "Gibbs"},
    "HMMAligner": {"windows", "Gibbs"},
    "PCFG": {"windows"},
    "HDPPCFG": {"windows", "Gibbs", "collapsed Gibbs"},
    "DMV": {"windows"},
    "TemplateGrammar": {"windows"},
}
EVERY = [(name, e) for name in FITS for e in ENGINES if e not in REFUSED.get(name, set())]


@pytest.fixture(autouse=True)
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LANE_ROWS", 40)
    monkeypatch.setattr(batches, "ORDERED_ROWS", 100)
    monkeypatch.setattr(batches, "LANE_UNITS", 2)
    monkeypatch.setattr(collapsed, "SWEEP_ROWS", 100)


@pytest.mark.parametrize(("name", "engine"), EVERY)
def test_every_fit_has_the_same_bits_on_workers(
    name: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = partial(FITS[name], engine)
    here = contents(fit())
    for lanes, n in ((1, 2), (2, 1), (4, 3), (8, 2)):
        with sb.workers(lambda n=n: ThreadPoolExecutor(n), lanes=lanes):
            assert contents(fit()) == here, lanes
    monkeypatch.setattr(executors, "count_workers", lambda n_jobs: 2)  # of this machine
    assert contents(fit()) == here, "n_jobs=2"


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Any]:
    with processes(2) as executor:
        yield executor


@pytest.mark.parametrize("name", FITS)
def test_processes_find_the_same_bits(name: str, two_processes: Any) -> None:
    """Each estimator with one engine, others for others."""
    engines = [e for n, e in EVERY if n == name]
    fit = partial(FITS[name], engines[list(FITS).index(name) % len(engines)])
    here = contents(fit())
    with sb.workers(two_processes):
        assert contents(fit()) == here


@pytest.mark.parametrize("name", FITS)
def test_streams_have_the_same_bits_on_workers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "Mixture": [{"X": X[:300]}, {"X": X[300:]}],
        "HMM": [{"X": X[:350], "lengths": LENGTHS[:7]}, {"X": X[350:], "lengths": LENGTHS[7:]}],
        "LDA": [{"X": WORDS[:40]}, {"X": WORDS[40:]}],
        "IBM1": [{"X": PAIRS[:30]}, {"X": PAIRS[30:]}],
        "PCFG": [{"X": SENTENCES[:30]}, {"X": SENTENCES[30:]}],
    }
    like = {"DPMixture": "Mixture", "HDPTopicModel": "LDA", "HMMAligner": "IBM1"}
    like |= dict.fromkeys(("HDPPCFG", "DMV", "TemplateGrammar"), "PCFG")
    like |= dict.fromkeys(("HDPMixture", "HDPHMM", "HSMM", "HDPHSMM"), "HMM")
    cls = getattr(sb, "LatentDirichletAllocation" if name == "LDA" else name)
    more = {"max_duration": 8} if name in ("HSMM", "HDPHSMM") else {}

    def found() -> Any:
        model = cls(random_state=0, **more)
        for part in given[like.get(name, name)]:
            model.partial_fit(**part)
        return contents(model)

    here = found()
    for lanes in (1, 4):
        with sb.workers(lambda: ThreadPoolExecutor(2), lanes=lanes):
            assert found() == here, lanes
    monkeypatch.setattr(executors, "count_workers", lambda n_jobs: 2)
    assert found() == here, "n_jobs=2"


def test_all_estimators_are_among_them() -> None:
    kinds = {
        name
        for name in dir(sb)
        if isinstance(found := getattr(sb, name), type) and hasattr(found, "fit")
    }
    made = {"LDA": "LatentDirichletAllocation"}
    tried = {made.get(name, name) for name in FITS}
    assert kinds - tried == {"LatentPCFG"}, kinds - tried  # fits trees that are given: below


def test_grammars_of_given_trees_have_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    shape = "(S (NP w{}) (VP (V w{}) (NP w{})))"
    trees = [shape.format(*rng.integers(0, 6, 3)) for _ in range(60)]
    for engine in ("batch", "EM", "collapsed"):
        fit = lambda e=engine: contents(sb.LatentPCFG(2, **settings(e)).fit(trees))
        here = fit()
        with sb.workers(lambda: ThreadPoolExecutor(2), lanes=1):
            assert fit() == here, engine
