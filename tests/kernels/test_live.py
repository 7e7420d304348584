"""Live counts: rows that leave and join are as if the counts had been made anew."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.kernels.compile import by_type, kernel
from stickbreak.kernels.live import score, score_without, tally

K = 3


def family_of(family, X):
    family = family.locate(None, X.shape[1])
    return family.resolve(measure(Table(X), family.check_rows, allow_missing=True))


def cases():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) + 3.0
    holes = np.where(rng.random(z.shape) < 0.2, np.nan, z)
    yield "gaussian", sb.Gaussian(), z
    yield "rounded", sb.Gaussian(rounding=1.0), np.round(4 * z)
    yield "zero-mean", sb.ZeroMeanGaussian(), z
    yield "diagonal", sb.DiagonalGaussian(), z
    yield "diagonal-missing", sb.DiagonalGaussian(rounding=0.5), holes
    yield "fixed", sb.FixedVarianceGaussian(), z
    yield "fixed-missing", sb.FixedVarianceGaussian(), holes
    yield "bernoulli", sb.Bernoulli(), np.where(rng.random((60, 20)) < 0.1, np.nan, z[:, :1] > 3)
    yield "poisson", sb.Poisson(), rng.poisson(9.0, (60, 4)).astype(float)
    yield "poisson-missing", sb.Poisson(), np.where(np.isnan(holes), np.nan, 12.0)
    yield "multinomial", sb.Multinomial(), rng.poisson(4.0, (60, 5)).astype(float)
    yield "symbols", sb.Categorical(), rng.integers(-1, 4, (60, 1))
    # probabilities whose product is below the smallest number
    yield "categorical", sb.Categorical(1e-90), rng.integers(-1, 4, (60, 9))
    yield "regression", sb.AutoregressiveGaussian(order=2), lagged(z, 2)
    yield "origin", sb.AutoregressiveGaussian(intercept=False), lagged(z, 1)
    words = np.where(rng.random(60) < 0.2, np.nan, rng.integers(0, 4, 60))
    mixed = np.column_stack([z[:, 0] > 3, words, z[:, 1] > 3, words[::-1]])
    yield "product", sb.Product({"bernoulli": [0, 2]}, rest="categorical"), mixed


def lagged(z, order):
    """Rows (60, .), each with those before it, of a series that goes back to its beginning."""
    return sb.lag_rows(np.r_[z, z[:order]], order=order)[0]


CASES = {name: (family_of(family, X), X) for name, family, X in cases()}


def counts_of(family, X, shares):
    """Counts of rows with shares (n, K), by the family's own `collect`."""
    out = family.zeros(shares.shape[1])
    family.mean_log(family.zeros(shares.shape[1])).collect(
        family.prepare(X), np.asfortranarray(shares), out
    )
    return out


# each of the others takes seconds to compile
QUICK = {"gaussian", "categorical", "product"}
every_case = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)


def evidence_of(family, X, counts):
    return family.log_mean(counts).evidence(family.prepare(X))


@every_case
def test_scores_are_the_predictive(name):
    family, X = CASES[name]
    shares = np.random.default_rng(1).dirichlet(np.ones(K), 60)
    live, out = family.live(counts_of(family, X[:50], shares[:50])), np.empty((10, K))
    score(live, family.live_rows(X), 50, 60, out)
    expected = evidence_of(family, X[50:], counts_of(family, X[:50], shares[:50]))
    # sums of up to 60 terms of size 1e2
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-10)


@every_case
def test_a_row_that_leaves_scores_as_if_it_had_left(name):
    family, X = CASES[name]
    shares = np.random.default_rng(1).dirichlet(np.ones(K), 60)
    counts, rows, out = counts_of(family, X, shares), family.live_rows(X), np.empty(K)
    for n in (0, 17):
        score_without(family.live(counts), rows, n, shares[n], out)
        others = np.delete(np.arange(60), n)
        left = counts_of(family, X[others], shares[others])
        expected = evidence_of(family, X[n : n + 1], left)[0]
        # rounding of full covariances: the noise of the row itself stays, one of 20 in D columns
        np.testing.assert_allclose(
            out, expected, rtol=1e-9, atol=0.2 if name == "rounded" else 1e-9
        )


@every_case
def test_rows_come_and_go_without_a_trace(name):
    """A walk over many states of the counts: sums and posteriors stay those of the rows."""
    family, X = CASES[name]
    rng = np.random.default_rng(2)
    shares = rng.dirichlet(np.ones(K), 60)
    rows, out = family.live_rows(X), np.empty((1, K))
    live = family.live(counts_of(family, X, shares))
    for n in rng.integers(0, 59, 600):
        new = rng.dirichlet(np.full(K, 0.3), 1)
        tally(live, rows, n, n + 1, shares[n : n + 1], -1.0)
        tally(live, rows, n, n + 1, new, 1.0)
        shares[n] = new
    tally(live, rows, 59, 60, shares[59:], -1.0)
    score(live, rows, 59, 60, out)
    expected = evidence_of(family, X[59:], counts_of(family, X[:59], shares[:59]))
    # 1,200 updates; rounding of full covariances follows the counts within a twentieth
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=0.1 if name == "rounded" else 1e-8)


@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "diagonal",
        *(
            pytest.param(n, marks=pytest.mark.slow)
            for n in ("zero-mean", "fixed", "regression", "origin", "product")
        ),
    ],
)
def test_a_component_that_loses_its_last_row_is_the_prior(name):
    family, X = CASES[name]
    shares = np.zeros((60, K))
    shares[:, 0], shares[7] = 1.0, [0.0, 1.0, 0.0]
    rows, out = family.live_rows(X), np.empty(K)
    live = family.live(counts_of(family, X, shares))
    score_without(live, rows, 7, shares[7], out)
    assert out[1] == pytest.approx(out[2], rel=1e-9)
    tally(live, rows, 7, 8, shares[7:8], -1.0)
    again = np.empty((1, K))
    score(live, rows, 7, 8, again)
    np.testing.assert_allclose(again[0], out, rtol=1e-9)


@pytest.mark.slow
def test_a_value_without_its_context_says_nothing_and_leaves_nothing():
    family, X = CASES["regression"]
    shares, gone = np.random.default_rng(1).dirichlet(np.ones(K), 60), X.copy()
    gone[9, 5] = np.nan
    rows, out = family.live_rows(gone), np.empty(K)
    live = family.live(counts_of(family, gone, shares))
    score_without(live, rows, 9, shares[9], out)
    assert (out == 0).all()
    before = live.joint.moments.copy()
    tally(live, rows, 9, 10, shares[9:10], 1.0)
    np.testing.assert_array_equal(live.joint.moments, before)


def test_narrow_components_are_made_anew():
    """A row leaves of which the inverse has nothing else but rounding."""
    rng = np.random.default_rng(0)
    X = 1e-7 * rng.normal(size=(40, 3))
    X[0] = 5.0
    family = sb.Gaussian(
        covariance=1e-12, mean=0.0, mean_strength=1.0, center=0.0, scale=np.ones(3)
    )
    family = family_of(family, X)
    shares, out = np.ones((40, 1)), np.empty(1)
    score_without(family.live(counts_of(family, X, shares)), family.live_rows(X), 0, shares[0], out)
    expected = evidence_of(family, X[:1], counts_of(family, X[1:], shares[1:]))[0]
    # moments of a row at 5 beside others at 1e-7: 1e-16 * 25 of a scatter of 1e-12
    np.testing.assert_allclose(out, expected, rtol=1e-3)


# ---- functions chosen by type -------------------------------------------------------------------


class First(NamedTuple):
    value: float


class Second(NamedTuple):
    value: float


@by_type
def double(thing):
    """Twice the value."""


@double.of(First)
@kernel
def double_first(thing):
    return 2.0 * thing.value


@double.of(Second)
@kernel
def double_second(thing):
    return -2.0 * thing.value


@kernel
def double_both(first, second):
    return double(first), double(second)


def test_bodies_are_chosen_by_type_inside_and_outside_of_kernels():
    assert (double(First(3.0)), double(Second(3.0))) == (6.0, -6.0)
    assert double_both(First(3.0), Second(4.0)) == (6.0, -8.0)
    assert (double(First(3.0)), double(Second(3.0))) == (6.0, -6.0)


def test_a_kind_without_a_body_is_an_error():
    class Third(NamedTuple):
        value: float

    with pytest.raises(KeyError):
        double(Third(1.0))


CACHED = """
import numpy as np, stickbreak as sb
sb.Mixture(2, family="bernoulli", inference="collapsed", max_iter=2).fit(np.eye(6))
from stickbreak.kernels.row_sweeps import sweep_rows
print(sum(sweep_rows.stats.cache_hits.values()), sum(sweep_rows.stats.cache_misses.values()))
"""


@pytest.mark.slow  # `test_cache.py` has another kernel
def test_sweeps_are_found_in_the_cache_on_disk():
    run = lambda: subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CACHED], capture_output=True, text=True, check=True
    )
    run()
    assert run().stdout.split() == ["1", "0"]
