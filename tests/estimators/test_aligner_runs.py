"""Aligners: the same links with any number of threads, and after having been stopped or killed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import pytest
from inference.killed_fits import Slow, kill_when_due

import stickbreak as sb
from stickbreak.cli.example import make_pairs
from stickbreak.estimators.directions import fit_at_once
from stickbreak.progress import PhaseLaps

PAIRS = [(e, f) for e, f, _ in make_pairs(80, np.random.default_rng(1))]
ENGINES = {
    "em": sb.EM,
    "hard-em": sb.HardEM,
    "memoized": lambda **given: sb.MemoizedVB(n_batches=4, moves=(), **given),
    "stochastic": lambda **given: sb.StochasticVB(batch_size=20, **given),
    "collapsed": sb.CollapsedVB,
    "stochastic-collapsed": lambda **given: sb.StochasticCollapsedVB(batch_size=20, **given),
    "collapsed-gibbs": sb.CollapsedGibbs,
}
# kernels that no other test of this group compiles
DRAWN = pytest.param("collapsed-gibbs", marks=pytest.mark.slow)
NAMES = [*(name for name in ENGINES if name != "collapsed-gibbs"), DRAWN]


class Stop(sb.Callback):
    """Ctrl-C after the second lap."""

    def on_lap(self, record: Any) -> None:
        if record.lap == 2:
            raise KeyboardInterrupt


def make(name: str, n_jobs: int = 1, cls: Any = sb.HMMAligner, **given: Any) -> Any:
    engine = ENGINES[name](max_iter=4, **given)
    return cls(directions="forward", inference=engine, ibm1_laps=2, n_jobs=n_jobs, random_state=7)


def answers(model: Any) -> Any:
    return list(model.links_), model.score(PAIRS)


@pytest.fixture(autouse=True)
def several_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 100)


@pytest.mark.parametrize("name", NAMES)
def test_links_depend_on_neither_threads_nor_being_stopped(name: str, tmp_path: Path) -> None:
    whole = answers(make(name).fit(PAIRS))
    assert answers(make(name, n_jobs=3).fit(PAIRS)) == whole
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "c"), "checkpoint_every": 0.0}
    with pytest.raises(KeyboardInterrupt):
        make(name, **kept, callbacks=(Stop(),)).fit(PAIRS)
    assert answers(make(name, n_jobs=2, **kept).resume(PAIRS)) == whole
    assert answers(make(name, **kept).resume(PAIRS)) == whole  # nothing is left to do


@pytest.mark.parametrize("state", [3, "generator"])
def test_two_directions_at_once_are_those_one_after_the_other(state: Any) -> None:
    found = []
    for n_jobs in (1, 2):
        seed = np.random.default_rng(5) if state == "generator" else state
        engine = sb.StochasticVB(max_iter=3, batch_size=20)
        model = sb.HMMAligner(inference=engine, n_jobs=n_jobs, random_state=seed).fit(PAIRS)
        found.append([list(model.fit_links(way)) for way in ("forward", "reverse")])
        found[-1] += [model.counts_.tolist(), model._fitted.reverse.counts["cell"].tolist()]
    assert found[0] == found[1]


def test_what_is_left_out_is_said_once_also_with_threads() -> None:
    for n_jobs in (1, 2):
        with pytest.warns(sb.DataWarning) as caught:
            sb.IBM1(n_jobs=n_jobs).fit([*PAIRS, ("", "x")])
        assert len(caught) == 1


def slow_fit(said: list[str]) -> Any:
    """A fit of many steps, each of which callbacks hear of."""

    def fit(watches: Any) -> Any:
        try:
            for _ in range(10_000):
                time.sleep(0.001)
                for watch in watches:
                    watch.on_step(None)
        except KeyboardInterrupt:
            said.append("stopped")
            raise
        said.append("ended")
        return "second", None

    return fit


def test_an_interrupt_ends_both_directions() -> None:
    said: list[str] = []
    ended_by = KeyboardInterrupt()
    assert fit_at_once(lambda _: ("first", ended_by), slow_fit(said)) == ("first", None, ended_by)
    with pytest.raises(ValueError, match="of the first"):
        fit_at_once(refuse, slow_fit(said))
    assert said == ["stopped", "stopped"]
    assert fit_at_once(lambda _: ("first", None), lambda _: ("second", ended_by)) == (
        "first", "second", ended_by,
    )  # fmt: skip
    with pytest.raises(ValueError, match="of the first"):
        fit_at_once(lambda _: ("first", None), refuse)


def refuse(_: Any) -> Any:
    raise ValueError("of the first")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["collapsed", "collapsed-gibbs", "stochastic-collapsed"])
def test_a_killed_fit_is_resumed_with_the_same_links(name: str, tmp_path: Path) -> None:
    whole, killed = answers(make(name).fit(PAIRS)), 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for wait in (0.0, 0.01, 0.03, 0.1, 0.3):
        path = tmp_path / f"killed-{wait}"
        child = Popen([sys.executable, __file__, name, str(path)], env=environment)
        killed += kill_when_due(child.pid, lambda: child.poll() is None, path, wait)  # noqa: B023
        child.wait()
        kept: dict[str, Any] = {"checkpoint": str(path), "checkpoint_every": 0.0}
        assert answers(make(name, n_jobs=2, **kept).resume(PAIRS)) == whole
    assert killed >= 2


if __name__ == "__main__":  # the fit that is killed
    from stickbreak.inference import collapsed

    collapsed.SWEEP_ROWS = 100
    given = {"checkpoint": sys.argv[2], "checkpoint_every": 0.0, "callbacks": (Slow(),)}
    make(sys.argv[1], **given).fit(PAIRS)


def test_an_interrupt_during_laps_of_model_1_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the chain would begin after Ctrl-C, with links of half a start."""

    def interrupt(self: Any, record: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PhaseLaps, "on_lap", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sb.HMMAligner(random_state=0).fit(PAIRS)
