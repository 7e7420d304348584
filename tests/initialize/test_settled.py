"""The better of two starts with many components, settled."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.families import Gaussian
from stickbreak.inference import workers
from stickbreak.initialize import from_labels, from_settled, settled
from stickbreak.initialize import race as races
from stickbreak.models import dp_mixture
from stickbreak.moves import Merge
from stickbreak.stats import SERIAL

RNG = np.random.default_rng(0)
# stretched clusters side by side, which k-means in a round metric cuts across
X = RNG.standard_normal((300, 2)) * [6.0, 0.3] + 2.0 * RNG.integers(0, 3, 300)[:, None] * [0, 1]
TABLE = Table(X)
MODEL = dp_mixture(Gaussian().locate(None, 2).resolve(measure(TABLE)))


def begin(n=10, pool=SERIAL):
    rng = np.random.default_rng(1)
    return from_settled(MODEL, TABLE, n, rng, moves=(Merge(),), pool=pool)


def test_it_holds_all_rows_in_components_that_are_in_use():
    start = begin()
    sizes = MODEL.prior.sizes(start.seed)
    assert len(sizes) == 3
    assert (sizes >= 1.0).all()
    assert sizes.sum() == pytest.approx(300, abs=1.0)


@pytest.mark.slow
def test_two_workers_give_the_same_bits():
    with workers(2) as pool:
        one, two = begin(), begin(pool=pool)
    for name, values in one.seed.arrays.items():
        np.testing.assert_array_equal(values, two.seed[name])


def test_a_sample_stands_for_many_rows(monkeypatch):
    monkeypatch.setattr(settled, "MOST_ROWS", 150)
    start = begin()
    assert start.seed.n_units == pytest.approx(300)
    assert MODEL.prior.sizes(start.seed).sum() == pytest.approx(300, rel=0.02)


def test_the_default_finds_stretched_clusters_and_others_begin_as_they_are_told():
    found = sb.DPMixture(random_state=0).fit(X)
    assert found.n_components_ == 3
    told = sb.DPMixture(2, inference=sb.MemoizedVB(max_iter=1), random_state=0)
    with pytest.warns(sb.ConvergenceWarning):
        assert told.fit(X).n_components_ == 2


@pytest.mark.parametrize("rows", [X[:1], X[:2], np.zeros((20, 2))], ids=["one", "two", "equal"])
@pytest.mark.filterwarnings("ignore::stickbreak.DataWarning")  # constant columns
def test_few_or_equal_rows_are_no_trouble(rows):
    found = sb.DPMixture(random_state=0).fit(rows)
    one = sb.DPMixture(init="k-means++", random_state=0).fit(rows)
    assert found.lower_bound_ >= one.lower_bound_ - 1e-9
    assert found.n_components_ <= len(np.unique(rows, axis=0))


def test_many_sequences_settle_on_some_of_them(monkeypatch):
    means, rng = 6.0 * np.array([(0, 0), (1, 0), (0, 1)]), np.random.default_rng(2)
    parts = []
    for _ in range(12):
        states = np.repeat(rng.integers(0, 3, 8), 5)
        parts.append(means[states] + rng.standard_normal((40, 2)))
    default = sb.HDPHMM(random_state=0).fit(parts)
    monkeypatch.setattr(settled, "MOST_ORDERED", 200)
    found = sb.HDPHMM(random_state=0).fit(parts)
    assert found.n_components_ == default.n_components_ == 3
    assert found.trace_[0].n_components < 25 == default.trace_[0].n_components
    assert found.lower_bound_ == pytest.approx(default.lower_bound_, rel=1e-6)


def test_a_start_out_of_hope_ends_early_and_the_best_settles(monkeypatch):
    laps: dict[str, int] = {}
    truth = np.digitize(X[:, 1], [1.0, 3.0])

    def job(name, labels):
        laps[name] = 0
        k = int(labels.max()) + 1
        start = from_labels(MODEL, TABLE, labels, k)
        return lambda: start

    def best_of(makers):
        fits = races.race(MODEL, TABLE, makers, SERIAL, settles=True)
        return max(fits, key=lambda fit: fit.bound)

    def settle(model, table, n_laps, make):
        found = settle_as_ever(model, table, n_laps, make)
        laps["good" if found.counts.size(model.axis) == 3 else "bad"] += len(found.trace)
        return found

    settle_as_ever = races._settle
    monkeypatch.setattr(races, "_settle", settle)
    monkeypatch.setattr(races, "ROUND", 3)
    rng = np.random.default_rng(0)
    # across the clusters, from where the bound rises slowly
    jobs = [job("good", truth), job("bad", rng.integers(0, 8, 300))]
    found = best_of(jobs)
    assert found.counts.size(MODEL.axis) == 3
    assert found.is_converged
    assert laps["bad"] < races.LAPS
    monkeypatch.setattr(races, "ROUND", races.LAPS)
    alone = best_of(jobs[:1])
    # rounds go on where they stopped
    assert found.bound == pytest.approx(alone.bound, rel=1e-12)
