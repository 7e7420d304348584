"""The frame of the experiments, and the smallest of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stickbreak as sb
from experiments import frame, overfitting, run, topic_peers
from experiments.frame import Experiment, MissingDataError, Row


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(frame, "PICTURES", tmp_path / "scratch")
    monkeypatch.setattr(run, "EXPERIMENTS", ("faithful", "asterisk"))
    return tmp_path / "RESULTS.md"


def answer(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Let experiments answer at once."""
    for name, value in values.items():
        found = Experiment(
            name.title(), "How.", [Row("bound", value, "1", "2")], "What it means.", "scratch/x.png"
        )
        monkeypatch.setattr(f"experiments.{name}.run", lambda found=found: found)


def test_a_single_experiment_can_be_run_and_leaves_the_others_figures(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, faithful="-1", asterisk="-2")
    assert run.main([]) == 0
    answer(monkeypatch, faithful="-3")
    assert run.main(["faithful"]) == 0
    text = results.read_text()
    assert text.index("| bound | -3 | 1 | 2 |") < text.index("| bound | -2 | 1 | 2 |")
    assert "| bound | -1 |" not in text
    assert text.count("make experiments ONLY=") == 2
    assert text.count("What it means.") == 2
    assert "`scratch/x.png`" in text


def test_an_unknown_experiment_is_refused_and_writes_nothing(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["faithfull"]) == 2
    assert "unknown experiment 'faithfull'; there are faithful, asterisk" in capsys.readouterr().err
    assert not results.exists()


def test_without_data_the_last_figures_stay(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, faithful="-1", asterisk="-2")
    run.main([])
    before = results.read_text()

    def refuse() -> Experiment:
        raise MissingDataError("set STICKBREAK_DATA to the folder of real data")

    monkeypatch.setattr("experiments.faithful.run", refuse)
    assert run.main(["faithful"]) == 0
    assert "faithful: left out (set STICKBREAK_DATA" in capsys.readouterr().out
    assert results.read_text() == before


def test_the_published_file_has_every_experiment_with_its_command() -> None:
    text = run.RESULTS.read_text()
    assert [f"make experiments ONLY={name}" in text for name in run.EXPERIMENTS] == [True] * len(
        run.EXPERIMENTS
    )


def test_a_fit_whose_bound_drops_is_noticed() -> None:
    class Falling(sb.Callback):
        def on_lap(self, record: object) -> None:
            object.__setattr__(record, "bound", -100.0 * record.lap)  # type: ignore[attr-defined]

    X = np.random.default_rng(0).normal(size=(60, 2))
    model = sb.Mixture(
        2, inference=sb.BatchVB(max_iter=5, tol=1e-12, callbacks=[Falling()]), random_state=0
    )
    with pytest.raises(AssertionError, match="the bound dropped"):
        frame.fit(model, X)


def test_spans_show_one_value_or_two() -> None:
    assert frame.span([1.004, 1.0], 2) == "1.00"
    assert frame.span(k for k in (3, 5, 4)) == "3 .. 5"


@pytest.mark.slow
def test_em_over_fits_and_variational_bayes_does_not() -> None:
    """The tutorial's point, on one of its tables: from 4 to 20 components EM loses 45 nats or more
    of 100 test rows.
    """
    sizes = overfitting.SIZES
    found = overfitting.measure(0, sizes=(4, 20))
    assert sizes == (1, 2, 4, 12, 20)
    lost = {name: values[0, 1] - values[1, 1] for name, values in found.items()}
    assert lost["EM"] > 45
    assert lost["peer"] > 45
    assert abs(lost["VB"]) < 10  # a tenth of a nat per row
    assert abs(lost["DP"]) < 10
    gained = found["EM"][1, 0] - found["EM"][0, 0]
    assert gained > 20


@pytest.mark.slow
def test_topic_models_and_peers_fill_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    topics = np.repeat(np.eye(2), 10, axis=1) / 10
    split = topic_peers.every_tenth(rng.multinomial(30, rng.dirichlet([0.3, 0.3], 60) @ topics))
    assert split.train.shape == (54, 20)
    assert len(split.test) == 6

    def absent(*_: object) -> topic_peers.Topics:
        raise ImportError

    peers = {"scikit-learn": topic_peers.by_sklearn, "another": absent}
    monkeypatch.setattr(topic_peers, "PEERS", peers)
    rows = topic_peers.rows_of("toy", split, 2, 1)
    found = {row.what.split(": ")[1]: row.ours for row in rows}
    assert found["another"] == "not installed"
    assert found["LDA, VB after collapsed sweeps (default)"].startswith("loss ")
    assert "completion -" in found["scikit-learn"]
    assert len(rows) == len(topic_peers.plan(2)) + 2

    keys = ((2, topic_peers.DEFAULT), (2, "scikit-learn"), (3, topic_peers.FOUND_SIZE))
    monkeypatch.setattr(topic_peers, "TOGETHER", keys)
    names = [row.what for row in topic_peers.together("toy", split, 2)]
    assert names == [topic_peers.title("toy", *key) for key in keys]
