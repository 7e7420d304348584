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
from stickbreak.inference import Checkpointer
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


def test_an_interrupt_during_laps_of_model_1_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the chain would begin after Ctrl-C, with links of half a start."""

    def interrupt(self: Any, record: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PhaseLaps, "on_lap", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sb.HMMAligner(random_state=0).fit(PAIRS)


class StopAfter(sb.Callback):
    """Ctrl-C after some laps of the chain, those of both directions counted."""

    def __init__(self, n_laps: int) -> None:
        self.left = n_laps

    def on_lap(self, record: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def make_both(name: str, n_jobs: int = 1, state: Any = 7, **given: Any) -> Any:
    engine = ENGINES[name](max_iter=4, **given)
    return sb.HMMAligner(inference=engine, ibm1_laps=2, n_jobs=n_jobs, random_state=state)


def both_answers(model: Any) -> Any:
    return [list(model.fit_links(way)) for way in ("forward", "reverse")], model.score(PAIRS)


@pytest.mark.parametrize("n_laps", [2, 6])
@pytest.mark.parametrize("name", ["collapsed", "stochastic-collapsed"])
def test_both_directions_are_resumed_in_whichever_the_fit_was_stopped(
    name: str, n_laps: int, tmp_path: Path
) -> None:
    whole, path = both_answers(make_both(name).fit(PAIRS)), tmp_path / "c"
    kept: dict[str, Any] = {"checkpoint": str(path), "checkpoint_every": 0.0}
    with pytest.raises(KeyboardInterrupt):
        make_both(name, **kept, callbacks=(StopAfter(n_laps),)).fit(PAIRS)
    assert path.exists()
    assert (tmp_path / "c.reverse").exists() == (n_laps > 4)
    assert both_answers(make_both(name, n_jobs=2, **kept).resume(PAIRS)) == whole
    assert both_answers(sb.resume(path, PAIRS)) == whole  # nothing is left to do
    path.unlink()  # killed before the forward direction wrote its first
    assert both_answers(make_both(name, **kept).resume(PAIRS)) == whole


def test_a_reverse_checkpoint_of_another_seed_or_fit_is_not_taken(tmp_path: Path) -> None:
    path, other = tmp_path / "c", tmp_path / "c.reverse"
    kept: dict[str, Any] = {"checkpoint": str(path), "checkpoint_every": 0.0}
    state = lambda: np.random.default_rng(3)  # of which no seed is an argument of the fit
    whole = both_answers(make_both("stochastic", state=state()).fit(PAIRS))
    make_both("stochastic", state=np.random.default_rng(4), **kept).fit(PAIRS)
    stop = (StopAfter(2),)
    with pytest.raises(KeyboardInterrupt):
        make_both("stochastic", state=state(), **kept, callbacks=stop).fit(PAIRS)
    assert both_answers(make_both("stochastic", state=state(), **kept).resume(PAIRS)) == whole
    path.unlink()
    other.write_bytes(b"notes")
    with pytest.raises(sb.CheckpointError, match=r"c\.reverse"):
        make_both("stochastic", **kept, callbacks=stop).fit(PAIRS)
    assert not path.exists()  # it is said before the forward direction is fitted
    with pytest.raises(ValueError, match=r"c\.reverse"):
        make_both("stochastic", **kept).resume(PAIRS)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", ["collapsed", "stochastic-collapsed"])
def test_a_killed_fit_of_both_directions_is_resumed(name: str, n_jobs: int, tmp_path: Path) -> None:
    whole, killed = both_answers(make_both(name).fit(PAIRS)), 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for way, wait in (("", 0.0), ("", 0.05), (".reverse", 0.0), (".reverse", 0.02)):
        path = tmp_path / f"killed-{way}{wait}"
        command = [sys.executable, __file__, name, str(path), str(n_jobs)]
        child = Popen(command, env=environment)
        is_running = lambda: child.poll() is None  # noqa: B023
        killed += kill_when_due(child.pid, is_running, Path(f"{path}{way}"), wait)
        child.wait()
        kept: dict[str, Any] = {"checkpoint": str(path), "checkpoint_every": 0.0}
        assert both_answers(make_both(name, n_jobs=3 - n_jobs, **kept).resume(PAIRS)) == whole
    assert killed >= 2


def save_slowly(self: Any, snapshot: Any) -> None:
    """A visit takes long enough to be killed in, without callbacks, which threads do not have."""
    SAVE(self, snapshot)
    time.sleep(0.01)


SAVE = Checkpointer.save_if_due

if __name__ == "__main__":  # the fit that is killed
    from stickbreak.inference import collapsed

    collapsed.SWEEP_ROWS = 100
    given = {"checkpoint": sys.argv[2], "checkpoint_every": 0.0}
    if len(sys.argv) > 3:
        Checkpointer.save_if_due = save_slowly  # type: ignore[method-assign]
        make_both(sys.argv[1], int(sys.argv[3]), **given).fit(PAIRS)
    else:
        make(sys.argv[1], **given, callbacks=(Slow(),)).fit(PAIRS)
