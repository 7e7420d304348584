"""Rows of some components, drawn from all data when a sample of everything holds few."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.families import Gaussian, Multinomial
from stickbreak.inference import MemoizedVB, Start, read_checkpoint, run, workers
from stickbreak.inference import scene as scenes
from stickbreak.inference.attempts import Attempts
from stickbreak.inference.scene import Scene
from stickbreak.initialize import from_labels
from stickbreak.models import dp_mixture
from stickbreak.moves import Birth, Delete, Merge, own_rows

N = 6_000


def scene_of(rows, family, labels, repeats=None, seed=0):
    table = Table(rows, repeats)
    resolved = family.locate(None, rows.shape[1]).resolve(measure(table, family.check_rows))
    model = dp_mixture(resolved)
    start = from_labels(model, table, labels, int(labels.max()) + 1)
    ids = tuple(range(int(labels.max()) + 1))
    rng = np.random.default_rng(seed)
    return Scene(model, start.seed, start.params, ids, table, Attempts(), rng, 1, False)


@pytest.fixture
def clusters(monkeypatch):
    """A cluster in twenty, of 300 rows, which a sample of 1,000 rows of everything hardly shows."""
    monkeypatch.setattr(scenes, "SAMPLE_ROWS", 1_000)
    rng = np.random.default_rng(3)
    labels = (np.arange(N) % 20 == 0).astype(int)
    return 50.0 * labels[:, None] + rng.standard_normal((N, 2)), labels


def test_all_rows_of_a_small_component_are_found_and_count_once(clusters):
    rows, labels = clusters
    scene = scene_of(rows, Gaussian(), labels)
    ((table, scale),) = own_rows.own_rows(scene, [(1,)])
    assert scale == 1.0
    assert table.n_rows == 300
    np.testing.assert_allclose(np.sort(table.rows, axis=0), np.sort(rows[labels == 1], axis=0))
    assert table.repeats.sum() == pytest.approx(300.0, abs=1e-6)


def test_some_rows_stand_for_all_of_a_large_component(clusters, monkeypatch):
    monkeypatch.setattr(own_rows, "MOST_OWN", 500)
    scene = scene_of(clusters[0], Gaussian(), clusters[1])
    (large, large_scale), (small, small_scale) = own_rows.own_rows(scene, [(0,), (1,)])
    assert small.n_rows == 300
    assert small_scale == 1.0
    # the sample holds more than enough of the large one
    assert large.n_rows == pytest.approx(950, abs=30)
    assert large_scale == pytest.approx(6.0)
    assert large.repeats.sum() == pytest.approx(5_700, rel=0.02)


def test_it_looks_through_a_part_of_many_rows(clusters, monkeypatch):
    monkeypatch.setattr(own_rows, "MOST_SEARCHED", 3_000)
    scene = scene_of(clusters[0], Gaussian(), clusters[1])
    ((table, scale),) = own_rows.own_rows(scene, [(1,)])
    assert scale == pytest.approx(2.0)
    assert table.n_rows == pytest.approx(150, abs=30)
    assert table.repeats.sum() == pytest.approx(2.0 * table.n_rows)


def test_repeats_count(clusters):
    rows, labels = clusters
    repeats = np.where(labels == 1, 3.0, 1.0)
    scene = scene_of(rows, Gaussian(), labels, repeats)
    ((table, _),) = own_rows.own_rows(scene, [(1,)])
    assert table.repeats.sum() == pytest.approx(900.0, abs=1e-6)


def test_sparse_rows_keep_their_columns(monkeypatch):
    monkeypatch.setattr(scenes, "SAMPLE_ROWS", 1_000)
    rng, labels = np.random.default_rng(4), (np.arange(4_000) % 10 == 0).astype(int)
    p = np.where(
        labels[:, None] == 1, np.r_[np.ones(5), np.zeros(5)], np.r_[np.zeros(5), np.ones(5)]
    )
    words = np.array([rng.multinomial(20, each / each.sum()) for each in p], dtype=float)
    scene = scene_of(sparse.csr_array(words), Multinomial(), labels)
    ((table, scale),) = own_rows.own_rows(scene, [(1,)])
    assert scale == 1.0
    found = np.asarray(table.rows.todense())
    assert found.shape == (400, 10)
    np.testing.assert_allclose(found.sum(0), words[labels == 1].sum(0))


def test_rows_that_pass_the_check_are_not_looked_at_again_in_the_same_lap(clusters):
    rows, labels = clusters
    scene, birth = scene_of(rows, Gaussian(), labels), Birth()
    assert birth.plan(scene) == []
    assert scene.attempts.failures("misfit", (0,)) == 1
    assert not scene.may_try("misfit", (0,))
    scene.lap += 2  # two laps later they are due, or once the fit has settled
    assert scene.may_try("misfit", (0,))
    scene.lap, scene.settled = 1, True
    assert not scene.may_try("misfit", (0,))
    scene.lap = 2
    assert scene.may_try("misfit", (0,))


class StopAt(sb.Callback):
    """Ends a fit as Ctrl-C does."""

    def __init__(self, lap: int) -> None:
        self.lap = lap

    def on_lap(self, record):
        if record.lap == self.lap:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_births_from_drawn_rows_are_the_same_after_a_resume_and_for_two_workers(clusters, tmp_path):
    rows, labels = clusters
    scene = scene_of(rows, Gaussian(), 0 * labels)
    path, start = tmp_path / "fit", Start(scene.total, scene.params)
    moves = (Birth(), Merge(), Delete())

    def engine(**settings):
        return MemoizedVB(n_batches=3, max_iter=20, moves=moves, **settings)

    whole = run(scene.model, engine(), scene.data, start)
    assert len(whole.ids) == 2
    assert any(m.kind == "birth" and m.is_accepted for m in whole.trace.moves)
    for lap in (1, 2, 3):
        saving = engine(checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(lap),))
        run(scene.model, saving, scene.data, start)
        with workers(2) as pool:
            again = run(scene.model, engine(), scene.data, read_checkpoint(path)[1], pool=pool)
        assert again.trace.moves == whole.trace.moves
        assert all((again.counts[n] == whole.counts[n]).all() for n in whole.counts)
