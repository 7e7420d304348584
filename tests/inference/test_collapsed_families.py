"""Collapsed sweeps of chains of every family equal the plain loop: compiled, or through the
contract for families without live counts.
"""

from __future__ import annotations

import numpy as np
import pytest
from collapsed_chains import K, in_doubles, plain_sweep
from estimator_cases import CASES

import stickbreak as sb
from docs.skeletons.family import Exponential
from stickbreak.data import Sequences, Table, measure
from stickbreak.families import Categorical, Gaussian, Poisson, Product
from stickbreak.families.names import make_family
from stickbreak.inference import CollapsedVB, ExcludeOwn
from stickbreak.initialize import from_local
from stickbreak.models import finite_hmm
from stickbreak.stats import SERIAL

RNG = np.random.default_rng(0)
MIXED = np.column_stack([RNG.normal(size=40), RNG.poisson(3.0, 40)])
OWN = {
    "columns": (Categorical(0.5), RNG.integers(0, 3, (40, 2))),
    "product": (Product([(Gaussian(), [0]), (Poisson(), [1])]), MIXED),
    "plain": (Product([(Gaussian(), [0]), (Exponential(), [1])]), MIXED + np.array([0.0, 1.0])),
}
NAMES = ["gaussian", "diagonal", "poisson", "bernoulli", "multinomial", *OWN]
QUICK = {"gaussian", "plain"}


def check_sweeps(model, data, block, atol):
    """Two sweeps equal the plain loop: counts, predictives and the part of the bound."""
    start = from_local(model, data, K, np.random.default_rng(0))
    rule, counts = ExcludeOwn("sequence", block=block), start.seed
    own, mine = in_doubles(start.warm), in_doubles(start.warm)
    for _ in range(2):
        expected, log_z, bound = plain_sweep(model, rule, counts, start.params, data, mine, block)
        counts, own = rule.visit(model, counts, start.params, data.whole(), own, (), SERIAL)
        for field in counts:
            np.testing.assert_allclose(counts[field], expected[field], atol=atol)
        assert counts.log_z == pytest.approx(log_z, rel=1e-9)
        assert counts.local_bound == pytest.approx(bound, abs=atol)


def resolved(family, rows):
    family = family.locate(None, rows.shape[1])
    return family.resolve(measure(Table(rows), family.check_rows))


@pytest.mark.slow  # seconds to compile for each family
@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize(
    "name",  # each of the others takes seconds to compile
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NAMES],
)
def test_every_family_is_swept_sequence_by_sequence(name, block):
    family, rows = OWN[name] if name in OWN else (make_family(name), CASES[name].rows[:40])
    data = Sequences(rows, offsets=np.array([0, 7, 8, 20, 29, 40]))
    model = finite_hmm(resolved(family, rows))
    assert model.sweeps == (name != "plain")
    check_sweeps(model, data, block, 1e-8)  # statistics are sums of squares, of about a hundred


@pytest.mark.slow
def test_rows_far_from_every_reachable_state_are_inferred_in_logs():
    """Evidence gaps of thousands of nats, and the best state cannot be reached."""
    rng = np.random.default_rng(1)
    rows = np.r_[rng.normal(0, 1, 30), rng.normal(5000, 1, 30), rng.normal(0, 1, 30)][:, None]
    data = Sequences(rows, offsets=np.array([0, 10, 30, 45, 70, 90]))
    family = resolved(Gaussian(center=[0.0], scale=[1.0]), rows)
    model = finite_hmm(family, start_prior=np.ones(K), transition_prior=np.triu(np.ones((K, K))))
    check_sweeps(model, data, 1, 1e-4)  # of moments that are 1e9


def test_families_without_live_counts_refuse_what_they_cannot():
    texts, family = [MIXED[:20, 1:] + 1.0, MIXED[20:, 1:] + 1.0], Exponential()
    fit = lambda X, **changed: sb.HMM(2, family=family, inference=CollapsedVB(**changed)).fit(X)
    with pytest.raises(ValueError, match="'token' is not for Exponential; use 'sequence'"):
        fit(texts, granularity="token")
    with pytest.raises(ValueError, match="granularity='row' is not for Exponential; use 'batch'"):
        sb.Mixture(2, family=family, inference=CollapsedVB(granularity="row")).fit(texts[0])


def test_entries_that_a_product_would_complete_cannot_leave():
    X = np.column_stack([MIXED, np.flip(MIXED[:, 0])])
    X[3, 2] = np.nan
    plain = Product([(Gaussian(), [0, 2]), (Exponential(), [1])])
    swept = Product([(Gaussian(), [0, 2]), (Poisson(), [1])])
    X[:, 1] += 1.0
    for family, why in ((plain, "entries are completed anew"), (swept, "take complete rows")):
        with pytest.raises(ValueError, match=why):
            sb.HMM(2, family=family, inference="collapsed").fit([X[:20], X[20:]])


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["token", "subsequence"])
@pytest.mark.parametrize("name", ["gaussian", "autoregressive", "product"])
def test_one_long_chain_of_rows_is_told_apart(name, granularity):
    """Two states, each kept for some fifty rows, far apart in one column of two."""
    rng = np.random.default_rng(3)
    states = np.repeat(np.arange(12) % 2, 50)
    X = np.column_stack([rng.normal(4.0 * states), rng.poisson(2.0 + states)])
    family = Product([(Gaussian(), [0]), (Poisson(), [1])]) if name == "product" else name
    engine = CollapsedVB(granularity=granularity, subchain_length=25, max_iter=60)
    model = sb.HMM(2, family=family, inference=engine, random_state=0).fit([X])
    found = np.asarray(model.labels_)[-len(states) :].ravel()
    known = states[len(states) - len(found) :]
    agreed = (found == known).mean()
    assert max(agreed, 1 - agreed) > 0.95


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
@pytest.mark.parametrize("init", ["local", "collapsed"])
@pytest.mark.parametrize("name", ["autoregressive", "product"])
def test_mixtures_of_rich_families_begin_and_go_on_with_every_collapsed_engine(name, init):
    rng = np.random.default_rng(4)
    groups = np.repeat([0, 1], 100)
    if name == "product":
        X = np.column_stack([rng.normal(5.0 * groups), rng.poisson(1.0 + 6.0 * groups)])
        family = Product([(Gaussian(), [0]), (Poisson(), [1])])
    else:
        before = rng.normal(3.0, 1.0, 200)
        X = np.column_stack([(2.0 * groups - 1.0) * before + 0.1 * rng.normal(size=200), before])
        family = name
    for engine in ("collapsed", "stochastic-collapsed", sb.CollapsedGibbs(max_iter=30), "batch"):
        settings = {"inference": engine, "init": init, "random_state": 1}
        model = sb.Mixture(2, family=family, **settings).fit(X)
        agreed = (model.predict(X) == groups).mean()
        assert max(agreed, 1 - agreed) > 0.97, engine
