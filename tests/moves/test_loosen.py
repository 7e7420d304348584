"""Loosen: the same states, begun again with weakened habits."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.progress import Progress

RNG = np.random.default_rng(0)
MEANS = 5.0 * np.array([(0, 0), (1, 0), (0, 1)], dtype=float)


def sequence(rng, n=40):
    states = np.repeat(rng.integers(0, 3, n // 5), 5)
    return MEANS[states] + rng.standard_normal((n, 2))


X = [sequence(RNG) for _ in range(6)]


def fit(*moves, cls=sb.HDPHMM, **more):
    engine = sb.BatchVB(moves=list(moves), max_iter=100)
    return cls(3, inference=engine, random_state=0, **more).fit(X)


def test_it_is_tried_once_unless_states_change_and_never_lowers_the_bound():
    plain, found = fit(), fit(sb.Loosen())
    records = found.trace_.moves
    # again if a size has changed by a tenth
    assert 1 <= len(records) <= 3
    assert {record.kind for record in records} == {"loosen"}
    assert all(record.n_passes > 0 for record in records)
    assert found.lower_bound_ >= plain.lower_bound_ - 1e-6
    assert found.n_components_ == 3
    assert f"loosen: {len(records)} tried" in found.explain_moves()


def test_callbacks_and_progress_are_told_what_is_tried(capsys):
    told = []

    class Watch(sb.Callback):
        def on_trial(self, kind, ids, n_components):
            told.append((kind, ids, n_components))

    engine = sb.BatchVB(moves=[sb.Loosen()], max_iter=100, callbacks=[Watch()])
    found = sb.HDPHMM(3, inference=engine, random_state=0).fit(X)
    assert told == [("loosen", (0, 1, 2), 3)] * len(found.trace_.moves)
    progress = Progress(9, 240.0)
    progress.on_trial("delete", (4, 2, 7, 1), 5)
    said = capsys.readouterr().err
    assert said == "after lap 0/9  5 components  trial 1: delete of 4, 2, 7, ...\n"


def test_mixtures_have_nothing_to_loosen():
    rows = np.concatenate(X)
    engine = sb.BatchVB(moves=[sb.Loosen()])
    found = sb.DPMixture(3, inference=engine, random_state=0).fit(rows)
    assert not found.trace_.moves


def test_settings_are_checked_and_saved(tmp_path):
    with pytest.raises(ValueError, match="n_passes"):
        fit(sb.Loosen(n_passes=0))
    found = fit(sb.Loosen(n_passes=5))
    found.save(tmp_path / "model.sb")
    assert sb.load(tmp_path / "model.sb").inference.moves[0].n_passes == 5
