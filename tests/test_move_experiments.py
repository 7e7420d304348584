"""What the experiments on moves are made of: toy data, baselines, how a recovery is judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stickbreak as sb
from experiments import edge_patches, frame, run
from experiments.fits import Setting
from experiments.frame import Experiment, Row
from experiments.greedy import fit_greedy
from experiments.toys import bars, draw_documents, draw_patches, edges, letters, surface_covariances

pytestmark = pytest.mark.slow  # what experiments print, not what the library does


@pytest.mark.parametrize(("regions", "count"), [(edges(), 8), (letters(), 26)])
def test_regions_differ_and_their_covariances_are_those_of_two_surfaces(
    regions: np.ndarray, count: int
) -> None:
    assert len({region.tobytes() for region in regions}) == count
    values = np.linalg.eigvalsh(surface_covariances(regions, 0.2))
    sides = np.sort([[r.sum(), (~r).sum()] for r in regions.reshape(count, -1)], axis=1)
    assert values[:, :-2] == pytest.approx(0.04)
    assert values[:, -2:] == pytest.approx(sides + 0.04)


def test_patches_have_the_covariance_of_their_cluster() -> None:
    covariances = surface_covariances(edges(), 0.2)
    X, labels = draw_patches(covariances, np.ones(8), 40_000, 0)
    mine = X[labels == 3]
    # five standard errors of 5,000 rows
    assert np.abs(mine.T @ mine / len(mine) - covariances[3]).max() < 0.1


def test_documents_use_the_words_of_their_bar() -> None:
    topics = bars()
    X, labels = draw_documents(topics, 200, 100, 0)
    assert topics.sum(1) == pytest.approx(1)
    assert (X.sum(1) == 100).all()
    assert ((X @ np.log(topics).T).argmax(1) == labels).mean() > 0.95


def test_a_recovery_needs_every_cluster_once_and_nothing_else() -> None:
    whole = np.full((8, 8), 0.02) + 0.84 * np.eye(8)
    split = np.hstack([whole, np.zeros((8, 1))])
    split[0, 0], split[0, 8] = 0.43, 0.43
    joined = whole.copy()
    joined[:, 0] += joined[:, 1]
    assert edge_patches.is_whole(whole)
    assert not edge_patches.is_whole(split)
    assert edge_patches.n_found(split) == 7
    assert not edge_patches.is_whole(np.delete(joined, 1, axis=1))


def test_greedy_merges_end_with_too_few_components_and_a_lower_bound() -> None:
    """Batches of 200 rows do not warrant eight covariances of 25 x 25; all rows do."""
    X, _ = draw_patches(surface_covariances(edges(), 0.2), np.ones(8), 4_000, 0)
    setting = Setting.make(X, sb.ZeroMeanGaussian(dof=27.0, covariance=0.5), 10.0)
    start = setting.start(8, 0)
    greedy = fit_greedy(setting, start, 20, 3, 0)
    fixed = setting.fit(sb.MemoizedVB(n_batches=20, max_iter=3, tol=0.0), start)
    assert len(greedy.result.ids) < 5
    assert greedy.result.bound < fixed.result.bound
    assert greedy.counts.sum() == pytest.approx(len(X))


def test_a_quick_run_shows_its_table_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setenv(frame.QUICK, "0")
    seen: list[range] = []

    def answer() -> Experiment:
        seen.append(frame.seeds(10))
        return Experiment("Edge patches", "How.", [Row("bound", "-1")])

    monkeypatch.setattr("experiments.edge_patches.run", answer)
    assert run.main(["--quick", "edge_patches"]) == 0
    assert "| bound | -1 |" in capsys.readouterr().out
    assert not run.RESULTS.exists()
    assert run.main(["edge_patches"]) == 0
    assert run.RESULTS.exists()
    assert seen == [range(2), range(10)]
