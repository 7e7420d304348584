"""The better of several starts: k-means++, drawn states, collapsed sweeps."""

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Sequences, Table, measure
from stickbreak.initialize import best_start, better, from_plusplus, from_swept
from stickbreak.models import dp_mixture, finite_hmm
from stickbreak.priors import DirichletRows
from stickbreak.stats import SERIAL

RNG = np.random.default_rng(0)
BITS = RNG.random((400, 30)) < RNG.beta(0.5, 0.5, (6, 30))[np.arange(400) % 6]


def bound(data, init, **how):
    return (
        sb.Mixture(6, family="bernoulli", init=init, random_state=0, **how).fit(data).lower_bound_
    )


def test_a_mixture_begins_with_the_better_of_two():
    both = [bound(BITS, init) for init in ("k-means++", "collapsed")]
    # ten laps decide, and the fit goes on from there: the end may be that of either
    assert bound(BITS, "auto") >= min(both)
    draws = np.random.default_rng(4)
    gains = []
    for seed in range(6):
        X = draws.random((300, 20)) < draws.beta(0.5, 0.5, (6, 20))[draws.integers(6, size=300)]
        found = {
            init: sb.Mixture(6, family="bernoulli", init=init, random_state=seed)
            .fit(X)
            .lower_bound_
            for init in ("k-means++", "auto")
        }
        gains.append(found["auto"] - found["k-means++"])
    assert np.mean(gains) > 0.0
    assert min(gains) > -2.0  # nats of some 3,000: where ten laps take the wrong one


@pytest.mark.parametrize("inference", ["em", "collapsed", "collapsed-gibbs"])
def test_engines_that_sweep_draw_or_look_for_a_mode_begin_with_k_means(inference):
    first, second = (
        sb.Mixture(6, family="bernoulli", inference=inference, init=init, random_state=0).fit(BITS)
        for init in ("auto", "k-means++")
    )
    np.testing.assert_array_equal(first.counts_, second.counts_)


def test_known_labels_and_missing_entries_begin_with_k_means():
    X = np.random.default_rng(1).normal(size=(60, 2))
    labels = np.where(np.arange(60) < 10, np.arange(60) % 3, -1)
    holes = X.copy()
    holes[::7, 0] = np.nan
    for rows, how in ((X, {"labels": labels}), (holes, {})):
        fits = [
            sb.Mixture(3, init=init, random_state=0).fit(rows, **how).counts_
            for init in ("auto", "k-means++")
        ]
        np.testing.assert_array_equal(*fits)


def test_the_first_of_equal_starts_is_taken_as_it_was():
    table = Table(np.random.default_rng(2).normal(size=(200, 2)))
    model = dp_mixture(sb.Gaussian().resolve(measure(table)))
    starts = [from_plusplus(model, table, 3, np.random.default_rng(seed)) for seed in (0, 0)]
    assert best_start(model, table, starts, SERIAL) is starts[0]


def test_a_sample_of_many_rows_is_swept_and_stands_for_all(monkeypatch):
    monkeypatch.setattr(better, "MOST_ROWS", 100)
    model = sb.Mixture(6, family="bernoulli", random_state=0).fit(BITS)
    assert model.counts_.sum() == pytest.approx(400.0)


def test_rows_without_weight_are_not_in_the_sample(monkeypatch):
    monkeypatch.setattr(better, "MOST_ROWS", 10)
    weight = np.zeros(400)
    weight[[3, 5, 399]] = 1.0
    some = Table(BITS, weight).some_rows(10, np.random.default_rng(0))
    assert sorted(map(tuple, some.rows)) == sorted(map(tuple, BITS[[3, 5, 399]]))
    model = sb.DPMixture(family="bernoulli", random_state=0).fit(BITS, sample_weight=weight)
    assert model.counts_.sum() == pytest.approx(3.0)


def test_the_number_of_threads_changes_nothing():
    one, two = (
        sb.Mixture(6, family="bernoulli", random_state=0, n_jobs=n).fit(BITS).counts_
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def two_topics(n):
    """Sentences of two kinds of words in turn: content words keep to their own topic."""
    rng = np.random.default_rng(3)
    return [
        np.array([rng.integers(5) + 5 * (t % 2) + 10 * topic for t in range(12)])[:, None]
        for topic in rng.integers(2, size=n)
    ]


def test_soft_sweeps_are_a_start_of_several_sequences_only():
    rows = np.concatenate(two_topics(30)).astype(float)
    whole = Sequences(rows, offsets=np.arange(31) * 12)
    model = finite_hmm(sb.Categorical(0.1).resolve(measure(Table(rows))))
    rng = np.random.default_rng(0)
    found = from_swept(model, whole, 4, rng)
    assert found is not None
    assert model.prior.sizes(found.seed).sum() == pytest.approx(len(rows))
    single = Sequences(rows, offsets=np.array([0, len(rows)]))
    assert from_swept(model, single, 4, rng) is None


def test_sentences_end_higher_with_soft_sweeps_among_the_starts(monkeypatch):
    sentences, bounds = two_topics(60), {}
    for name in (True, False):
        monkeypatch.setattr(sb.HMM, "_sweeps_first", name)
        fits = [
            sb.HMM(4, family=sb.Categorical(0.1), random_state=seed).fit(sentences).lower_bound_
            for seed in range(4)
        ]
        bounds[name] = np.mean(fits)
    assert bounds[True] >= bounds[False] - 1e-3 * abs(bounds[False])


def test_one_long_sequence_is_fitted_without_sweeps():
    X = np.concatenate([np.zeros(40), np.full(40, 5.0)] * 3)[:, None]
    X = X + np.random.default_rng(0).normal(size=X.shape)
    assert sb.HMM(2, random_state=0).fit(X).n_effective_ == 2


def draw_fast(seed, n_sequences=10, length=200):
    """Four states at the corners of a square, some of which change at every row."""
    rng = np.random.default_rng([seed, 5])
    corners = 3.0 * np.array([(0, 0), (1, 0), (0, 1), (1, 1)])
    steps = np.cumsum(rng.dirichlet(np.ones(4), size=4), axis=1)
    rows = []
    for _ in range(n_sequences):
        path = [0]
        for u in rng.random(length - 1):
            path.append(min(3, int(np.searchsorted(steps[path[-1]], u))))
        rows.append(corners[path] + rng.normal(size=(length, 2)))
    return rows


@pytest.mark.parametrize("seed", [8, 12])  # one and two states were left
def test_small_prior_counts_of_steps_lose_no_state(seed):
    found = sb.HMM(4, concentration=1e-3, random_state=seed).fit(draw_fast(seed))
    assert found.n_effective_ == 4


def test_prior_counts_are_raised_but_for_impossible_entries():
    prior = DirichletRows(1e-3, 2.0, transition_prior=[[0.0, 1.0], [0.1, 0.0]])
    raised = prior.at_least(0.5)
    assert (raised.concentration, raised.start_concentration) == (0.5, 2.0)
    np.testing.assert_array_equal(raised.transition_prior, [[0.0, 1.0], [0.5, 0.0]])
    assert raised.at_least(0.5) is raised
