"""What a fit says while it runs, and what Ctrl-C leaves behind."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from estimator_cases import blobs

import stickbreak as sb

X = blobs(600, n_groups=3, seed=5)
ENGINES = {
    "batch": sb.BatchVB(tol=0.0, moves=None),
    "memoized": sb.MemoizedVB(n_batches=4, tol=0.0, moves=None),
    "stochastic": sb.StochasticVB(batch_size=150, tol=0.0),
    "em": sb.EM(tol=0.0),
}


def test_stopping_early_warns_with_advice():
    with pytest.warns(sb.ConvergenceWarning, match=r"max_iter=2 .*raise max_iter or tol") as caught:
        model = sb.Mixture(8, inference=sb.BatchVB(max_iter=2), random_state=0).fit(X)
    assert not model.converged_
    assert model.n_iter_ == 2
    assert caught[0].filename == __file__  # the warning points at the caller's line
    assert model.predict(X).shape == (len(X),)


def test_verbose_shows_progress_on_stderr_and_silence_is_the_default(capfd):
    sb.Mixture(3, random_state=0, verbose=1).fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    assert "lap 1/200" in err
    assert "bound" in err
    assert "components" in err
    sb.Mixture(3, random_state=0, verbose=1, inference="stochastic").fit(X)
    assert "log_z per row" in capfd.readouterr().err
    quiet = sb.Mixture(3, random_state=0).fit(X)
    quiet.predict(X), quiet.score(X), quiet.sample(3), quiet.partial_fit(X)
    assert capfd.readouterr() == ("", "")


def test_callbacks_see_every_step_and_lap_and_may_stop_the_fit():
    class Watch(sb.Callback):
        steps, laps, ends = 0, 0, 0

        def on_step(self, info):
            self.steps += 1

        def on_lap(self, record):
            self.laps += 1
            if self.laps == 3:
                raise StopIteration

        def on_end(self):
            self.ends += 1

    watch = Watch()
    model = sb.Mixture(
        3, inference=sb.MemoizedVB(n_batches=4, tol=0.0, callbacks=(watch,)), random_state=0
    ).fit(X)
    assert (watch.steps, watch.laps, watch.ends) == (12, 3, 1)
    assert model.n_iter_ == 3


class Stop(sb.Callback):
    """Ctrl-C after so many steps, or laps."""

    def __init__(self, steps: int = -1, laps: int = -1) -> None:
        self.steps, self.laps = steps, laps

    def on_step(self, info):
        self.steps -= 1
        if self.steps == 0:
            raise KeyboardInterrupt

    def on_lap(self, record):
        self.laps -= 1
        if self.laps == 0:
            raise KeyboardInterrupt


def check_usable(model) -> None:
    assert model.counts_.sum() == pytest.approx(len(X), rel=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.score(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0, atol=1e-12)
    assert model.sample(5, random_state=0)[0].shape == (5, 2)
    assert not model.converged_


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    "when", [{"steps": 1}, {"steps": 2}, {"steps": 6}, {"laps": 1}, {"laps": 3}], ids=str
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_ctrl_c_leaves_a_usable_model(cls, engine, when, tmp_path):
    inference = ENGINES[engine]
    inference = type(inference)(**{**inference.get_params(), "callbacks": (Stop(**when),)})
    model = cls(5, inference=inference, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    check_usable(model)
    model.save(tmp_path / "m.stickbreak")
    np.testing.assert_array_equal(sb.load(tmp_path / "m.stickbreak").predict(X), model.predict(X))


def test_ctrl_c_inside_a_move_ends_the_fit(monkeypatch):
    """Moves make fits of their own; the key is pressed once."""

    def press(self, record):
        raise KeyboardInterrupt

    monkeypatch.setattr("stickbreak.moves.little_fits.Goal.on_lap", press)
    model = sb.DPMixture(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    check_usable(model)


SCRIPT = """
import os, signal, sys
import numpy as np, stickbreak as sb
X = np.random.default_rng(0).normal(size=(40_000, 4))

class Press(sb.Callback):
    def on_lap(self, record):
        if record.lap == 3:
            os.kill(os.getpid(), signal.SIGINT)

engine = sb.MemoizedVB(n_batches=4, tol=0.0, callbacks=(Press(),))
model = sb.Mixture(20, inference=engine, random_state=0, n_jobs=int(sys.argv[1]))
try:
    model.fit(X)
except KeyboardInterrupt:
    ok = abs(model.counts_.sum() - len(X)) < 1e-6 and np.isfinite(model.score(X[:100]))
    ok = ok and 3 <= model.n_iter_ <= 5
    print("usable" if ok else "broken", model.counts_.sum(), model.n_iter_)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_real_sigint_leaves_a_usable_model(n_jobs):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n_jobs)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("usable")


# the signal may arrive in some destructor
@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("engine", ["batch", "memoized"])
def test_interrupted_at_any_moment_the_model_is_usable_or_not_fitted(engine):
    """The signal may arrive anywhere: in seeding (nothing is learned yet), inside a step, between
    steps. It comes after some time of the processor, which a busy machine does not change.
    """

    def press(*_):
        raise KeyboardInterrupt

    with pytest.warns(sb.ConvergenceWarning):  # kernels are loaded before the first signal
        sb.DPMixture(6, inference=ENGINES[engine], max_iter=2, random_state=0).fit(X).score(X)
    before = signal.signal(signal.SIGPROF, press)
    n_usable = 0
    try:
        for delay in np.random.default_rng(1).uniform(0.002, 0.08, 25):
            model = sb.DPMixture(6, inference=ENGINES[engine], init="k-means++", random_state=0)
            signal.setitimer(signal.ITIMER_PROF, delay)
            with contextlib.suppress(KeyboardInterrupt):  # also while the timer is stopped
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", sb.ConvergenceWarning)
                        model.fit(X)
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0.0)
            if model.__sklearn_is_fitted__():
                n_usable += 1
                assert model.counts_.sum() == pytest.approx(len(X), rel=1e-9)
                assert np.isfinite(model.score(X))
                assert model.predict(X).shape == (len(X),)
    finally:
        signal.signal(signal.SIGPROF, before)
    assert n_usable > 5


def test_a_fit_that_fails_in_a_callback_leaves_the_old_model():
    class Fail(sb.Callback):
        def on_lap(self, record):
            raise OSError("the disk of the log is full")

    model = sb.Mixture(3, random_state=0).fit(X)
    before = model.predict(X), model.lower_bound_
    model.inference = sb.BatchVB(callbacks=(Fail(),))
    with pytest.raises(OSError, match="disk of the log"):
        model.fit(X + 1.0)
    np.testing.assert_array_equal(model.predict(X), before[0])
    assert model.lower_bound_ == before[1]
