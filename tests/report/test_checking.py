"""Checks fire for planted faults, and not for draws of the model."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.report import Finding
from stickbreak.report.findings import judged


def levels(model, X):
    """Level of each finding by its title."""
    return {finding.title: finding.level for finding in sb.diagnose(model, X)}


def test_judged_by_all_draws_and_their_spread():
    drawn = np.linspace(0, 1, 39)
    assert judged(5.0, drawn)
    assert not judged(1.2, drawn)
    assert not judged(5.0, drawn[:5])
    assert not judged(float("nan"), drawn)


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-5, 1, (150, 2)), rng.normal(5, 1, (150, 2))])
    return sb.Mixture(2, random_state=0).fit(X)


@pytest.mark.parametrize("seed", range(5))
def test_no_check_fires_for_draws_of_a_mixture(mixture, seed):
    X, _ = mixture.sample(300, random_state=seed)
    assert "look" not in levels(mixture, X).values()


def test_outliers_ask_for_a_look(mixture):
    X, _ = mixture.sample(300, random_state=0)
    X[:20] += 40.0
    assert levels(mixture, X)["Rows that the model does not explain"] == "look"


def test_skewed_column_asks_for_a_look(mixture):
    X, _ = mixture.sample(300, random_state=0)
    X[:, 1] = np.exp(X[:, 1] / 3)
    assert any("not fit" in title for title in levels(mixture, X))


def test_flicker_asks_for_a_look_and_draws_do_not():
    rng = np.random.default_rng(0)
    means, states = np.array([[0.0], [8.0]]), np.tile(np.repeat([0, 1], 25), 8)
    model = sb.HMM(2, random_state=0).fit([means[states] + rng.normal(size=(400, 1))] * 2)
    drawn, _ = model.sample(lengths=[400, 400], random_state=1)
    assert levels(model, drawn).get("States flicker") is None
    white = means[rng.integers(0, 2, 400)] + rng.normal(size=(400, 1))
    assert levels(model, [white])["States flicker"] == "look"


def test_doubled_topic_is_a_twin():
    from report.subjects import make_topics

    from stickbreak.report.topic_checks import check_twins

    subject = make_topics(counts=np.array([5000.0, 3000.0, 2000.0]))
    topics = subject.more["topic_word"]
    assert check_twins(subject).level == "fine"
    subject.more["topic_word"] = topics[[0, 0, 2]]
    assert check_twins(subject).level == "look"


def test_fit_that_was_stopped_asks_for_a_look():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(sb.ConvergenceWarning):
        model = sb.Mixture(3, max_iter=1, random_state=0).fit(X)
    first = sb.diagnose(model)[0]
    assert isinstance(first, Finding)
    assert first.level == "look"
    assert "max_iter" in first.code
