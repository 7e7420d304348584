"""The public batteries pass for what we have, and catch what is broken."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from registers import FAMILIES

import stickbreak as sb
from stickbreak.checks import check_estimator, check_family, check_model, check_structure
from stickbreak.data import Batch, Table
from stickbreak.inference import MeanLog
from stickbreak.initialize import from_plusplus
from stickbreak.models import dp_mixture, finite_mixture


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_passes_its_battery(name):
    case = FAMILIES[name]
    check_family(case.family, case.rows)
    assert case.family.zeros(2)  # the family was not changed by the checks


class WrongEvidence(sb.Poisson):
    """A Poisson whose expected log rate is off by a hundredth."""

    def mean_log(self, counts):
        scores = super().mean_log(counts)
        return replace(scores, log_rate=scores.log_rate + 0.01)


def test_a_family_that_breaks_a_law_is_caught():
    rows = np.random.default_rng(0).poisson(3.0, (20, 2)).astype(float)
    with pytest.raises(AssertionError, match="derivative of log_marginal"):
        check_family(WrongEvidence(), rows)


class BackwardLearner(sb.Poisson):
    """A Poisson that learns the wrong way round."""

    def learn(self, counts):
        return replace(self, shape=100.0 * self.shape)


def test_a_family_that_learns_backwards_is_caught():
    rows = np.random.default_rng(0).poisson(3.0, (20, 2)).astype(float)
    with pytest.raises(AssertionError, match="learn must not lower"):
        check_family(BackwardLearner(), rows)


def enumerate_mixture(potentials, block):
    """log_z of independent rows by summing over all labelings."""
    logits = potentials.scores.evidence(block.rows) + potentials["share"]
    n, K = logits.shape
    scores = [logits[np.arange(n), list(labels)].sum() for labels in product(range(K), repeat=n)]
    return float(np.logaddexp.reduce(scores))


@pytest.mark.parametrize("make", [finite_mixture, dp_mixture])
def test_independent_rows_pass_the_structure_battery(make):
    case = FAMILIES["gaussian"]
    model = make(case.family)
    counts = from_plusplus(model, Table(case.rows), 3, np.random.default_rng(0)).seed
    potentials = model.potentials(counts, model.start_params(3), MeanLog())
    check_structure(model, potentials, Batch(0, case.rows[:5]), enumerate_mixture)
    assert model.structure.decode(
        potentials, Batch(0, model.family.prepare(case.rows[:5]), n_rows=5)
    ).shape == (5,)


class ForgetfulPrior(type(dp_mixture(None).prior)):
    """Sticks whose bound forgets a component."""

    def bound(self, total, params):
        return super().bound(total, params) - 3.0 * float(total["share"][0])


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("make", [pytest.param(finite_mixture, marks=pytest.mark.slow), dp_mixture])
def test_every_mixture_passes_the_model_battery(name, make):
    case = FAMILIES[name]
    model, data = make(case.family), Table(case.rows)
    check_model(model, data, from_plusplus(model, data, 3, np.random.default_rng(1)))
    assert model.zeros(3).size("component") == 3


def test_a_model_whose_bound_drops_is_caught():
    case = FAMILIES["gaussian"]
    model, data = dp_mixture(case.family), Table(case.rows)
    broken = replace(model, prior=ForgetfulPrior())
    start = from_plusplus(model, data, 3, np.random.default_rng(1), n_passes=0)
    with pytest.raises(AssertionError):
        check_model(broken, data, start)


@pytest.mark.parametrize(
    "estimator",
    [
        sb.Mixture(1, random_state=0),
        pytest.param(sb.DPMixture(3, random_state=0), marks=pytest.mark.slow),
    ],
)
def test_estimators_pass_their_battery(estimator):
    X = np.random.default_rng(0).normal(size=(60, 2))
    found = check_estimator(estimator, X)
    assert sum(check["status"] == "passed" for check in found) >= 40
    assert not [check for check in found if check["status"] == "failed"]
