"""States that first appear in the middle of a stream of sequences."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.estimators import stream_runs

MEANS = np.array([(0, 0), (7, 0), (0, 7)], dtype=float)


def piece(rng, states, n=3, length=40):
    parts = []
    for _ in range(n):
        path = np.repeat(rng.choice(states, length // 10), 10)
        parts.append(MEANS[path] + rng.standard_normal((length, 2)))
    return parts


def stream(model, pieces):
    for part in pieces:
        model.partial_fit(part)
    return model


def pieces_of(seed, *groups):
    rng = np.random.default_rng(seed)
    return [piece(rng, states) for states in groups]


LATE = pieces_of(0, (0, 1), (0, 1), (0, 1), (0, 2), (1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("cls", [sb.HDPHMM, sb.HMM], ids=["born", "filled"])
def test_a_state_seven_deviations_away_is_found(cls):
    model = stream(cls(3, random_state=0), LATE)
    assert model.n_effective_ == 3
    near = np.linalg.norm(model.means_[:, None] - MEANS, axis=2).min(1)
    assert (near < 0.5).sum() == 3
    assert model.counts_.sum() == pytest.approx(5 * 3 * 40)


def test_a_birth_is_recorded_and_ids_stay():
    model = stream(sb.HDPHMM(3, random_state=0), LATE[:3])
    before = set(model.component_ids_)
    model.partial_fit(LATE[3])
    assert before < set(model.component_ids_)
    (born,) = [r for r in model.trace_.moves if r.kind == "birth" and r.is_accepted and r.n_passes][
        -1:
    ]
    assert born.gain > 50.0
    assert born.n_units == 3


def test_nothing_is_born_for_rows_that_are_explained():
    model = stream(sb.HDPHMM(3, random_state=0), LATE[:3])
    assert model.n_effective_ == 2
    # nearly as good as a fit of all rows, whose default priors see more of them
    whole = sb.HDPHMM(3, random_state=0).fit([s for part in LATE[:3] for s in part])
    assert model.lower_bound_ > whole.lower_bound_ - 0.02 * abs(whole.lower_bound_)


def test_rows_that_are_explained_are_not_fitted_alone(monkeypatch):
    model = stream(sb.HDPHMM(random_state=0), LATE[:1])
    monkeypatch.setattr(stream_runs, "_begin_stream", None)
    model.partial_fit(LATE[1])
    assert model.n_effective_ == 2
    assert model.counts_.sum() == pytest.approx(2 * 3 * 40)


def test_a_state_that_takes_all_rows_of_a_known_one_is_born():
    """Nothing in these rows is odd but where they are."""
    model = stream(sb.HDPHMM(random_state=0), pieces_of(2, (0, 2), (0, 2)))
    assert model.n_effective_ == 2
    model.partial_fit(pieces_of(3, (2, 1))[0])
    assert model.n_effective_ == 3
    near = np.linalg.norm(model.means_[:, None] - MEANS, axis=2).min(1)
    assert (near < 0.5).sum() == 3


@pytest.mark.slow
def test_two_workers_give_the_same_bits():
    one, two = (stream(sb.HDPHMM(3, random_state=0, n_jobs=n), LATE) for n in (1, 2))
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.means_, two.means_)


@pytest.mark.slow
@pytest.mark.parametrize("order", range(10))
def test_the_order_of_pieces_does_not_matter(order):
    pieces = pieces_of(5, (0, 1), (1, 2), (2, 0), (0, 1), (1, 2), (2, 0))
    shuffled = [pieces[i] for i in np.random.default_rng(order).permutation(6)]
    model = stream(sb.HDPHMM(random_state=0), shuffled)
    whole = sb.HDPHMM(random_state=0).fit([rows for part in pieces for rows in part])
    assert model.n_effective_ == whole.n_effective_ == 3
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=0.01)
