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


@pytest.mark.parametrize("family", ["gaussian", "diagonal"])
def test_a_component_of_two_kinds_asks_for_a_look(family):
    rng = np.random.default_rng(0)
    centers = np.array([[-8.0, 0.0, 0.0], [8.0, 2.0, 0.0], [8.0, -2.5, 0.0]])
    X = np.concatenate([rng.normal(center, 1.0, (100, 3)) for center in centers])
    kinds, title = np.repeat([0, 1, 1], 100), "A component holds rows of several kinds"
    two = sb.Mixture(2, family=family, random_state=0).fit(X, labels=kinds)
    assert levels(two, X)[title] == "look"
    three = sb.Mixture(3, family=family, random_state=0).fit(X, labels=np.repeat([0, 1, 2], 100))
    assert levels(three, X).get(title) is None


@pytest.mark.parametrize("family", ["gaussian", "diagonal"])
def test_a_constant_column_has_no_shape(family):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-5, 1, (100, 2)), rng.normal(5, 1, (100, 2))])
    X = np.column_stack([X, np.full(200, 7.0)])
    with pytest.warns(sb.DataWarning, match="constant"):
        model = sb.Mixture(2, family=family, random_state=0).fit(X)
    found = levels(model, X)
    assert found["Rows of each component lie as its draws do"] == "fine"


def test_a_component_that_takes_up_outliers_asks_for_a_look():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(center, 1.0, (100, 3)) for center in (-5.0, 0.0, 5.0)])
    X[rng.choice(300, 20, replace=False)] += rng.normal(0.0, 8.0, (20, 3))
    found = levels(sb.Mixture(3, n_init=3, random_state=0).fit(X), X)
    assert found["A component holds rows of several kinds"] == "look"


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


def test_columns_skewed_inside_components_ask_for_a_look():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    X = np.array([[-9.0, 0.0], [9.0, 0.0]])[labels] + rng.normal(size=(300, 2))
    X[:, 1] = np.where(labels, 1, -1) * (np.exp(rng.normal(size=300)) - 1.6)  # symmetric over all
    model = sb.Mixture(2, random_state=0).fit(X)
    assert any("not fit" in title for title in levels(model, X))


def test_split_component_may_be_one_and_clear_ones_may_not():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    X = np.array([[-5.0, 0.0], [5.0, 0.0]])[labels] + rng.normal(size=(300, 2))
    assert levels(sb.Mixture(2, random_state=0).fit(X), X)["No two components are one"] == "fine"
    halves = np.where((labels == 0) & (rng.random(300) < 0.5), 2, labels)
    model = sb.Mixture(3, random_state=0).fit(X, labels=halves)
    assert levels(model, X)["Two components may be one"] == "look"


def test_gain_of_a_join_is_the_difference_of_two_bounds():
    """With known labels, joining both components gives the fit of one, whose bound is exact."""
    from stickbreak.estimators.observed_rows import _joins

    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    family = sb.Gaussian(mean=0.0, covariance=1.0)
    two = sb.Mixture(2, family=family, concentration=1.0, random_state=0).fit(X, labels=labels)
    one = sb.Mixture(1, family=family, concentration=1.0, random_state=0).fit(X)
    ((gain, i, j),) = _joins(two._require_fitted(), np.eye(2)[labels])
    assert (i, j) == (0, 1)
    assert gain == pytest.approx(one.lower_bound_ - two.lower_bound_, abs=1e-8)
    # shares that are divided have entropy, which joining gives up
    half = np.full((100, 2), 0.5)
    ((less, _, _),) = _joins(two._require_fitted(), half)
    assert less == pytest.approx(gain - 100 * np.log(2), abs=1e-8)


def test_states_of_one_sequence_ask_for_a_look():
    rng = np.random.default_rng(0)
    sequences = [
        np.where(rng.random((200, 1)) < 0.5, 0.0, 6.0) + 30 * s + rng.normal(size=(200, 1))
        for s in range(4)
    ]
    model = sb.HMM(8, random_state=0, n_init=3).fit(sequences)
    model_levels = levels(model, sequences)
    assert model_levels.get("States of one sequence only") == "look"


def test_states_that_never_come_back_ask_for_a_look():
    """A slow drift, which one state after the other follows; states of draws come back."""
    rng = np.random.default_rng(0)
    drift = np.linspace(0, 120, 600)[:, None] + rng.normal(size=(600, 1))
    model = sb.HMM(8, random_state=0).fit([drift])
    assert levels(model, [drift])["States that never come back"] == "look"
    means, states = np.array([[0.0], [8.0]]), np.tile(np.repeat([0, 1], 25), 8)
    back = means[states] + rng.normal(size=(400, 1))
    model = sb.HMM(2, random_state=0).fit([back])
    assert levels(model, [back])["States come back"] == "fine"


def test_topic_like_the_corpus_and_incoherent_topics_are_told():
    from report.subjects import make_topics

    from stickbreak.report.topic_checks import check_coherence, check_common

    subject = make_topics(counts=np.array([5000.0, 3000.0, 2000.0]))
    assert check_common(subject).level == "fine"
    subject.more["topic_word"] = subject.more["topic_word"].copy()
    subject.more["topic_word"][2] = np.exp(subject.more["overall"])
    assert check_common(subject).level == "look"
    rng = np.random.default_rng(0)
    drawn = 0.3 + 0.02 * rng.normal(size=(39, 3))
    subject.more.update(coherence=np.array([0.3, 0.3, 0.31]), drawn_coherence=drawn)
    assert check_coherence(subject).level == "fine"
    subject.more["coherence"] = np.array([0.3, -0.2, 0.3])
    assert check_coherence(subject).level == "look"


def test_starts_that_disagree_ask_for_a_look():
    from report.subjects import make_subject

    from stickbreak.report.checking import check_starts

    assert check_starts(make_subject()).level == "remark"
    assert check_starts(make_subject(starts=((-10.0, 3, 5), (-10.5, 3, 6)))).level == "fine"
    assert check_starts(make_subject(starts=((-10.0, 3, 5), (-20.0, 3, 6)))).level == "look"
    assert check_starts(make_subject(starts=((-10.0, 3, 5), (-10.5, 4, 6)))).level == "look"


def test_components_with_few_rows_are_a_remark():
    from report.subjects import make_subject

    from stickbreak.report.checking import check_few_rows

    assert check_few_rows(make_subject()) is None
    found = check_few_rows(make_subject(counts=np.array([50.0, 30.0, 2.0])))
    assert found.level == "remark"
    assert "fewer than 3 rows" in found.measured


@pytest.mark.slow
def test_measured_rates_of_checks_are_counted():
    from experiments import report_checks

    total = report_checks.count(0, 2)
    assert total["sets"] == 2
    for fault in ("a split component", "a skewed column", "a doubled topic"):
        assert total[f"{fault}: found"] == 2
    assert len(report_checks.rows_of(total)) == len(report_checks.KINDS) + len(report_checks.FAULTS)
