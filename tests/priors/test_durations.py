"""Duration laws: the three laws, textbook posteriors, and what is counted of lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, digamma, gammaln, logsumexp

from stickbreak.inference.rules import Draw, LogMean, MeanLog, Mode
from stickbreak.priors import (
    FreeDurations,
    Geometric,
    NegativeBinomial,
    ShiftedPoisson,
    make_duration,
)
from stickbreak.priors.durations import CountedLengths, CountedStages

LAWS = {
    "negative-binomial": NegativeBinomial(r_max=6, stay=1.3, leave=2.0),
    "five stages": NegativeBinomial(r=5, stay=0.7, leave=1.1),
    "geometric": Geometric(stay=2.0, leave=0.5),
    "poisson": ShiftedPoisson(shape=2.0, rate=0.3),
    "free": FreeDurations(concentration=0.4),
}
D = 12


def random_lengths(seed=0, n_states=3):
    rng = np.random.default_rng(seed)
    return rng.gamma(0.7, 2.0, (n_states, D)) * (rng.random((n_states, D)) < 0.7)


def plus(histogram, d, weight):
    more = histogram.copy()
    more[:, d] += weight
    return more


@pytest.mark.parametrize("name", LAWS)
def test_the_three_laws_of_a_family_hold(name):
    law, histogram, h = LAWS[name], random_lengths(), 1e-4
    for d in (0, 3, D - 1):
        for value, rule in (("log_marginal", "mean_log"), ("log_mode", "mode")):
            f = getattr(law, value)
            first, second = (
                (f(plus(histogram, d, step)) - f(plus(histogram, d, -step))) for step in (h / 2, h)
            )
            # tolerance: rounding of the values over the step of the extrapolated differences
            np.testing.assert_allclose(
                (8 * first - second) / (6 * h), getattr(law, rule)(histogram)[:, d], rtol=1e-6
            )
        difference = law.log_marginal(plus(histogram, d, 1.0)) - law.log_marginal(histogram)
        np.testing.assert_allclose(difference, law.log_mean(histogram)[:, d], atol=1e-10)


@pytest.mark.parametrize("name", LAWS)
def test_nothing_seen_is_worth_nothing_and_predictives_sum_to_one(name):
    law = LAWS[name]
    none = np.zeros((2, D))
    np.testing.assert_allclose(law.log_marginal(none), 0.0, atol=1e-12)
    long = np.pad(random_lengths(n_states=2), ((0, 0), (0, 0 if law.is_limited else 20000)))
    np.testing.assert_allclose(np.exp(law.log_mean(long)).sum(1), 1.0, atol=1e-6)
    assert all(len(value) == 2 for value in law.describe(long).values())


@pytest.mark.parametrize("name", LAWS)
def test_drawn_laws_average_to_the_predictive(name):
    law, rng = LAWS[name], np.random.default_rng(1)
    histogram = np.repeat(random_lengths(n_states=1), 4000, axis=0)  # one draw for each state
    drawn = np.exp(law.draw(histogram, rng=rng))
    error = drawn.std(0) / np.sqrt(len(drawn))
    assert np.abs(drawn.mean(0) - np.exp(law.log_mean(histogram[:1])[0])).max() < 5 * error.max()


def test_negative_binomial_is_that_of_scipy_shifted_by_one():
    law = NegativeBinomial(r=4, stay=1e9, leave=3e9)  # as good as p = 1 / 4
    expected = stats.nbinom.logpmf(np.arange(D), 4, 0.75)
    np.testing.assert_allclose(law.mean_log(np.zeros((1, D)))[0], expected, atol=1e-6)


def test_posterior_of_stages_is_exact_and_the_printed_update_is_not():
    """Five observed lengths: q(r) equals the exact posterior, and the explicit bound log p."""
    lengths, a, b, R = np.array([3, 5, 4, 9, 2]), 1.5, 0.8, 6
    law = NegativeBinomial(r_max=R, stay=a, leave=b)
    histogram = np.bincount(lengths - 1, minlength=D)[None].astype(float)
    r, ta, n = np.arange(1.0, R + 1), float((lengths - 1).sum()), len(lengths)
    ways = np.array([
        (gammaln(lengths + k - 1) - gammaln(lengths) - gammaln(k)).sum() for k in r
    ])  # fmt: skip
    grid = (np.arange(40000) + 0.5) / 40000  # the exact posterior by quadrature over p
    log_p = stats.beta.logpdf(grid, a, b) + ta * np.log(grid)
    joint = np.array([logsumexp(log_p + k * n * np.log1p(-grid)) for k in r]) + ways
    joint -= np.log(len(grid)) + np.log(R)
    counts = law.counts_of(histogram)
    np.testing.assert_allclose(
        law.shares_of_shapes(counts)[0], np.exp(joint - logsumexp(joint)), atol=1e-4
    )
    np.testing.assert_allclose(law.log_marginal(histogram)[0], logsumexp(joint), atol=1e-4)

    at, bt = a + ta, b + r * n
    log_stay, log_leave = digamma(at) - digamma(at + bt), digamma(bt) - digamma(at + bt)
    kl = betaln(a, b) - betaln(at, bt) + (at - a) * log_stay + (bt - b) * log_leave
    target = -np.log(R) - kl + ta * log_stay + r * n * log_leave + ways
    q = np.exp(target - logsumexp(target))
    bound = (q * (target - np.log(q))).sum()
    np.testing.assert_allclose(bound, law.log_marginal(histogram)[0], rtol=1e-12)
    printed = (at + ta - 1) * log_stay + (bt + r * n - 1) * log_leave + ways
    assert np.abs(np.exp(printed - logsumexp(printed)) - q).max() > 0.1


def test_stages_counted_by_themselves_agree_with_the_histogram():
    law, histogram = LAWS["negative-binomial"], random_lengths()
    seen = law.counts_of(histogram)
    counts = {"duration": histogram, **seen._asdict()}
    stages, lengths = CountedStages(law), CountedLengths(law, D)
    np.testing.assert_allclose(stages.log_marginal(counts), lengths.log_marginal(counts))
    np.testing.assert_allclose(stages.log_mode(counts), lengths.log_mode(counts))
    np.testing.assert_allclose(stages.table(counts, D), lengths.table(counts))
    np.testing.assert_array_equal(stages.segments(counts), lengths.segments(counts))
    for rule in (MeanLog(), Mode(), LogMean(), Draw(np.random.default_rng(0))):
        found = stages.potentials(counts, rule)
        assert set(found) == {"stays", "segments", "shape", "log_ways"}
        leave = np.exp(found["segments"] / found["shape"])
        assert (np.exp(found["stays"]) + leave < 1 + 1e-9).all()


def test_bound_of_stages_has_the_potentials_as_slopes():
    stages, h = CountedStages(LAWS["negative-binomial"]), 1e-5
    counts = stages.law.counts_of(random_lengths())._asdict()
    for value, rule in (("bound", MeanLog()), ("log_mode", Mode())):
        f, found = getattr(stages, value), stages.potentials(counts, rule)
        for name in ("stays", "segments", "log_ways"):
            for at in np.ndindex(counts[name].shape):
                up, down = (
                    {**counts, name: counts[name] + step * (_one(counts[name].shape, at))}
                    for step in (h, -h)
                )
                slope = (f(up) - f(down)) / (2 * h)
                np.testing.assert_allclose(slope, found[name][at], atol=1e-6)


def _one(shape, at):
    out = np.zeros(shape)
    out[at] = 1.0
    return out


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: NegativeBinomial(r_max=0), "r_max"),
        (lambda: NegativeBinomial(r=0), "r must"),
        (lambda: NegativeBinomial(r=2.5), "r must"),
        (lambda: NegativeBinomial(r_max=10**6), "1000"),
        (lambda: NegativeBinomial(stay=-1.0), "stay"),
        (lambda: ShiftedPoisson(rate=0.0), "rate"),
        (lambda: FreeDurations(concentration=np.nan), "concentration"),
        (lambda: Geometric(leave=0), "leave"),
        (lambda: make_duration("weibull"), "weibull"),
        (lambda: make_duration(3), "got 3"),
    ],
)
def test_bad_settings_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


def test_laws_are_values():
    law = NegativeBinomial(r=3)
    assert repr(law) == "NegativeBinomial(r=3)"
    assert replace(law, r=4).shapes == (4,)
    assert make_duration("negative-binomial") == NegativeBinomial()
